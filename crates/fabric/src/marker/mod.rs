//! ECN markers: they select packets to be marked with CE. Each marker is a file here, with its keys and its rule, and a line of the registry
//! (`docs/how-to/extend-the-core.md`). `switching/marking.rs` handles the selected packets.

mod by_port;
#[cfg(test)]
mod contract;
mod parts;

pub use by_port::{PortSelector, ValueByPort};
pub use parts::{BUFFER_MAX, MarkAt, NotEctAction, QueueLengthThreshold};
pub use red::MarkSpacing;

use pauseframe_engine::{Rng, random_stream};
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;
use pauseframe_units::{BitRate, Bytes, LineRate, PortId, Priority, Time};
use std::fmt::Debug;

/// An ECN marker.
pub(crate) trait Marking: Clone {
    /// Its state for one queue.
    type QueueState: Debug;

    /// Its state for an empty queue.
    fn new_state(&self, queue: &MarkerRandomStreams) -> Self::QueueState;

    /// Which packets it inspects.
    fn inspected_packets(&self) -> InspectedPackets;

    /// Whether to mark an arriving packet.
    fn decide_arrival_mark(&self, _memory: &mut Self::QueueState, _arrival: &PacketArrival) -> bool {
        false
    }

    /// Whether to mark a departing packet.
    fn decide_departure_mark(&self, _memory: &mut Self::QueueState, _departure: &PacketDeparture) -> bool {
        false
    }

    /// What happens to selected arrivals that are not ECN-capable.
    fn not_ect_action(&self) -> NotEctAction {
        NotEctAction::Queue
    }

    /// The backlog above which packets are marked, for messages: "an average backlog of 25.6 KB"; `None`: it never marks.
    fn threshold_text(&self) -> Option<String>;

    /// The key of the marking threshold and its bytes, if the threshold is in bytes: up to it no packet is marked.
    fn byte_threshold(&self) -> Option<(&'static str, Bytes)> {
        None
    }

    /// Whether ports differ.
    fn varies_by_port(&self) -> bool {
        false
    }

    /// Keys with the selectors in them that match no port.
    fn unmatched_selectors(&self, _ports: &[(String, BitRate)]) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// The marker of one port, with one value a key.
    ///
    /// # Errors
    /// The key without a value for this port, and the reason.
    fn for_port(&self, _port: &str, _rate: BitRate) -> Result<Self, (&'static str, String)> {
        Ok(self.clone())
    }
}

/// Why `not_ect` is idle at dequeue.
const PASSES: &str = "at is \"dequeue\", where every packet passes";

/// Which packets a marker inspects. Others cost nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum InspectedPackets {
    /// Arrivals that find more than this backlog; `u64::MAX`: none.
    Backlog(u64),
    /// Every packet that must wait.
    Waiting,
    /// Every arrival, also at an idle port.
    All,
    /// Departures from a queue.
    Departures,
    /// Departures, with the number of waiting packets.
    CountedDepartures,
    /// All departures, including packets that find the port idle.
    AllDepartures,
}

/// Random streams of one queue's marker.
pub(crate) struct MarkerRandomStreams {
    seed: u64,
    index: u64,
}

impl MarkerRandomStreams {
    pub(crate) fn new(seed: u64, port: PortId, priority: Priority) -> MarkerRandomStreams {
        MarkerRandomStreams {
            seed,
            index: u64::from(port.0) * Priority::COUNT as u64 + u64::from(priority.code_point()),
        }
    }

    /// The random stream for a purpose.
    pub(crate) fn stream(&self, purpose: &str) -> Rng {
        random_stream(self.seed, purpose, self.index)
    }
}

/// An arrival at a queue.
pub(crate) struct PacketArrival {
    /// Waiting bytes, without preambles and gaps.
    pub(crate) backlog: u64,
    /// Waiting packets; counted only if the marker inspects arrivals.
    pub(crate) waiting: u32,
    pub(crate) rate: LineRate,
    pub(crate) now: Time,
}

/// A departure from a queue; `backlog` and `waiting` include the packet.
pub(crate) struct PacketDeparture {
    pub(crate) backlog: u64,
    pub(crate) waiting: u32,
    pub(crate) size: u32,
    /// Preamble and gap.
    pub(crate) gap: u32,
    pub(crate) rate: LineRate,
    pub(crate) now: Time,
}

impl PacketDeparture {
    /// Whether the queue is empty after it.
    pub(crate) fn leaves_queue_empty(&self) -> bool {
        self.backlog == u64::from(self.size)
    }

    /// When its transmission ends.
    pub(crate) fn transmission_end(&self) -> Time {
        self.now + self.rate.serialise(self.size + self.gap)
    }
}

macro_rules! registry {
    ($($name:literal => $file:ident::$kind:ident;)+) => {
        $(
            mod $file;
            pub use $file::$kind;
        )+

        pauseframe_schema::kinds! {
            /// How packets are marked
            pub enum Marker { $($name => $kind($kind);)+ }
            pub fn read(t);
        }

        /// The state of a marker for one queue.
        #[derive(Debug)]
        pub(crate) enum MarkerState { $($kind(<$kind as Marking>::QueueState),)+ }

        impl Marker {
            pub(crate) fn new_state(&self, queue: &MarkerRandomStreams) -> MarkerState {
                match self { $(Marker::$kind(marker) => MarkerState::$kind(marker.new_state(queue)),)+ }
            }

            pub(crate) fn inspected_packets(&self) -> InspectedPackets {
                match self { $(Marker::$kind(marker) => marker.inspected_packets(),)+ }
            }

            pub(crate) fn decide_arrival_mark(&self, state: &mut MarkerState, arrival: &PacketArrival) -> bool {
                match (self, state) {
                    $((Marker::$kind(marker), MarkerState::$kind(state)) => marker.decide_arrival_mark(state, arrival),)+
                    _ => unreachable!("the state of another marker"),
                }
            }

            pub(crate) fn decide_departure_mark(&self, state: &mut MarkerState, departure: &PacketDeparture) -> bool {
                match (self, state) {
                    $((Marker::$kind(marker), MarkerState::$kind(state)) => marker.decide_departure_mark(state, departure),)+
                    _ => unreachable!("the state of another marker"),
                }
            }

            pub(crate) fn not_ect_action(&self) -> NotEctAction {
                match self { $(Marker::$kind(marker) => marker.not_ect_action(),)+ }
            }

            /// Whether ports differ.
            pub fn varies_by_port(&self) -> bool {
                match self { $(Marker::$kind(marker) => marker.varies_by_port(),)+ }
            }

            /// Keys with the selectors in them that match none of these ports.
            pub fn unmatched_selectors(&self, ports: &[(String, BitRate)]) -> Vec<(&'static str, String)> {
                match self { $(Marker::$kind(marker) => marker.unmatched_selectors(ports),)+ }
            }

            /// The marker of the port of this name and rate.
            ///
            /// # Errors
            /// The key without a value for this port, and the reason.
            pub fn for_port(&self, port: &str, rate: BitRate) -> Result<Marker, (&'static str, String)> {
                match self { $(Marker::$kind(marker) => marker.for_port(port, rate).map(Marker::$kind),)+ }
            }

            /// The backlog above which packets are marked, for messages: "an average backlog of 25.6 KB"; `None`: it never marks.
            pub fn threshold_text(&self) -> Option<String> {
                match self { $(Marker::$kind(marker) => marker.threshold_text(),)+ }
            }

            /// The key of the marking threshold and its bytes, if the threshold is in bytes: up to it no packet is marked.
            pub fn byte_threshold(&self) -> Option<(&'static str, Bytes)> {
                match self { $(Marker::$kind(marker) => marker.byte_threshold(),)+ }
            }
        }
    };
}

registry! {
    "none" => none::NoMarker;
    "step" => step::StepMarker;
    "red" => red::Red;
}

impl Marker {
    /// Reads the table of a marker. Switches mark by default, whatever the transports are: packets that are not ECN-capable pass. A queue that
    /// `has_codel` marks by itself, and a queue of a Linux machine (`is_linux`) by default not at all.
    pub fn read_table(t: &mut Table, has_codel: bool, is_linux: bool) -> Marker {
        let rule =
            "\"step\"; \"none\" where the queue has CoDel, which marks, and with switch.kind = \"linux\"";
        let default = if has_codel {
            ("none", Origin::Computed("because CoDel marks".to_owned()), rule)
        } else if is_linux {
            ("none", Origin::Computed("because pfifo does not mark".to_owned()), rule)
        } else {
            ("step", Origin::Default, rule)
        };
        Marker::read(t, "kind", Some(default), "How packets are marked CE").unwrap_or(Marker::NONE)
    }

    /// Whether it marks at departure.
    pub fn marks_on_departure(&self) -> bool {
        matches!(
            self.inspected_packets(),
            InspectedPackets::Departures
                | InspectedPackets::CountedDepartures
                | InspectedPackets::AllDepartures
        )
    }

    /// None.
    pub const NONE: Marker = Marker::NoMarker(NoMarker {});

    /// Whether its `not_ect` is not the default.
    pub fn has_changed_not_ect(&self) -> bool {
        match self {
            Marker::NoMarker(_) => false,
            Marker::StepMarker(step) => step.not_ect != NotEctAction::Queue,
            Marker::Red(red) => red.not_ect != red::not_ect_by(red.at),
        }
    }

    /// Whether lossy packets that are not ECN-capable are dropped instead of marked. Packets selected at departure are never dropped.
    pub fn drops_not_ect(&self) -> bool {
        let picks_arrivals = !self.marks_on_departure();
        picks_arrivals && self.not_ect_action() == NotEctAction::Drop
    }
}
