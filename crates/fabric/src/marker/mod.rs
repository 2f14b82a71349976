//! Markers: which packets a queue answers with CE. A marker is a file here, with its keys and its rule, and a line of the registry
//! (`docs/how-to/add-a-marker.md`); what becomes of the packets that it picks is in `switching/marking.rs`.

mod by_port;
#[cfg(test)]
mod contract;
mod parts;

pub use by_port::{ByPort, PortSelector};
pub use parts::{BUFFER_MAX, MarkAt, NotEct, Threshold};
pub use red::Spacing;

use pauseframe_engine::{Rng, stream};
use pauseframe_units::{BitRate, Bytes, LineRate, PortId, Priority, Time};
use std::fmt::Debug;

/// What a kind of marker has to do.
pub(crate) trait Marking: Clone {
    /// What it remembers of one queue.
    type Memory: Debug;

    /// Its memory of an empty queue.
    fn memory(&self, queue: &Queue) -> Self::Memory;

    /// Which packets it is asked about.
    fn asked(&self) -> Asked;

    /// Whether a packet is to be marked that comes to a queue.
    fn on_arrival(&self, _memory: &mut Self::Memory, _arrival: &Arrival) -> bool {
        false
    }

    /// Whether a packet is to be marked that leaves one.
    fn on_departure(&self, _memory: &mut Self::Memory, _departure: &Departure) -> bool {
        false
    }

    /// What becomes of packets that are to be marked as they come, and are not ECN-capable.
    fn not_ect(&self) -> NotEct {
        NotEct::Queue
    }

    /// The backlog above which packets are picked, for messages: "an average backlog of 25.6 KB"; `None`: none ever is.
    fn begins(&self) -> Option<String>;

    /// The key and the bytes of a queue up to which no packet is picked, if a number of bytes says that.
    fn least(&self) -> Option<(&'static str, Bytes)> {
        None
    }

    /// Whether ports differ.
    fn varies(&self) -> bool {
        false
    }

    /// Keys, and the rates and names in them that no port has.
    fn unused(&self, _ports: &[(String, BitRate)]) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// The marker of one port, with one value a key.
    ///
    /// # Errors
    /// The key that has no value for it, and why.
    fn at(&self, _port: &str, _rate: BitRate) -> Result<Self, (&'static str, String)> {
        Ok(self.clone())
    }
}

/// Which packets a marker is asked about. What it need not see costs nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// None: it picks none, or those alone that find more than so many bytes waiting as they come.
    Backlog(u64),
    /// Every packet that comes to wait.
    Waiting,
    /// Every packet that comes, those at an idle port too.
    All,
    /// Those that leave.
    Departures,
    /// Those that leave, with the packets counted that wait.
    CountedDepartures,
    /// Those that leave, with those that never wait, as they find the port idle.
    AllDepartures,
}

/// Which queue it is: the place of its random streams.
pub(crate) struct Queue {
    seed: u64,
    index: u64,
}

impl Queue {
    pub(crate) fn new(seed: u64, port: PortId, priority: Priority) -> Queue {
        Queue { seed, index: u64::from(port.0) * Priority::COUNT as u64 + u64::from(priority.code_point()) }
    }

    /// The stream of this purpose.
    pub(crate) fn stream(&self, purpose: &str) -> Rng {
        stream(self.seed, purpose, self.index)
    }
}

/// A packet comes to a queue.
pub(crate) struct Arrival {
    /// Bytes that wait, of frames without preamble and gap.
    pub(crate) backlog: u64,
    /// Packets that wait; counted where a marker is asked about what comes.
    pub(crate) waiting: u32,
    pub(crate) rate: LineRate,
    pub(crate) now: Time,
}

/// A packet leaves a queue; it counts among what waits.
pub(crate) struct Departure {
    pub(crate) backlog: u64,
    pub(crate) waiting: u32,
    pub(crate) size: u32,
    /// Preamble and gap.
    pub(crate) gap: u32,
    pub(crate) rate: LineRate,
    pub(crate) now: Time,
}

impl Departure {
    /// Nothing waits any more.
    pub(crate) fn is_last(&self) -> bool {
        self.backlog == u64::from(self.size)
    }

    /// When the wire will be free.
    pub(crate) fn end(&self) -> Time {
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

        /// What a marker remembers of one queue.
        #[derive(Debug)]
        pub(crate) enum Memory { $($kind(<$kind as Marking>::Memory),)+ }

        impl Marker {
            pub(crate) fn memory(&self, queue: &Queue) -> Memory {
                match self { $(Marker::$kind(marker) => Memory::$kind(marker.memory(queue)),)+ }
            }

            pub(crate) fn asked(&self) -> Asked {
                match self { $(Marker::$kind(marker) => marker.asked(),)+ }
            }

            pub(crate) fn on_arrival(&self, memory: &mut Memory, arrival: &Arrival) -> bool {
                match (self, memory) {
                    $((Marker::$kind(marker), Memory::$kind(memory)) => marker.on_arrival(memory, arrival),)+
                    _ => unreachable!("the memory of another marker"),
                }
            }

            pub(crate) fn on_departure(&self, memory: &mut Memory, departure: &Departure) -> bool {
                match (self, memory) {
                    $((Marker::$kind(marker), Memory::$kind(memory)) => marker.on_departure(memory, departure),)+
                    _ => unreachable!("the memory of another marker"),
                }
            }

            pub(crate) fn not_ect(&self) -> NotEct {
                match self { $(Marker::$kind(marker) => marker.not_ect(),)+ }
            }

            /// Whether ports differ.
            pub fn varies(&self) -> bool {
                match self { $(Marker::$kind(marker) => marker.varies(),)+ }
            }

            /// Keys, and the rates and names in them that none of these ports has.
            pub fn unused(&self, ports: &[(String, BitRate)]) -> Vec<(&'static str, String)> {
                match self { $(Marker::$kind(marker) => marker.unused(ports),)+ }
            }

            /// The marker of the port of this name and rate.
            ///
            /// # Errors
            /// The key that has no value for it, and why.
            pub fn at(&self, port: &str, rate: BitRate) -> Result<Marker, (&'static str, String)> {
                match self { $(Marker::$kind(marker) => marker.at(port, rate).map(Marker::$kind),)+ }
            }

            /// The backlog above which packets are picked, for messages: "an average backlog of 25.6 KB"; `None`: none ever is.
            pub fn begins(&self) -> Option<String> {
                match self { $(Marker::$kind(marker) => marker.begins(),)+ }
            }

            /// The key and the bytes of a queue up to which no packet is picked, if a number of bytes says that.
            pub fn least(&self) -> Option<(&'static str, Bytes)> {
                match self { $(Marker::$kind(marker) => marker.least(),)+ }
            }
        }
    };
}

registry! {
    "none" => none::NoMarker;
    "step" => step::Step;
    "red" => red::Red;
}

impl Marker {
    /// Whether packets are picked as they leave.
    pub fn marks_departures(&self) -> bool {
        matches!(self.asked(), Asked::Departures | Asked::CountedDepartures | Asked::AllDepartures)
    }

    /// None.
    pub const NONE: Marker = Marker::NoMarker(NoMarker {});

    /// Whether packets that are not ECN-capable are dropped where others are marked, lossless ones excepted. One that is
    /// picked as it leaves has had its wait, and goes on.
    pub fn drops_not_ect(&self) -> bool {
        let picks_arrivals = !self.marks_departures();
        picks_arrivals && self.not_ect() == NotEct::Drop
    }
}
