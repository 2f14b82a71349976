//! Choices of next hops by switches.

use pauseframe_schema::choices;
use pauseframe_units::{Priority, Span};

/// How switches choose among equal next hops.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HopChoice {
    /// A random one for every packet.
    Spray,
    /// All in turn, one for every packet: a turn for each group of next hops.
    RoundRobin,
    /// A random one for every flowlet: packets of a flow with gaps of at most `gap` (`LetFlow`, NSDI 2017).
    LetFlow {
        /// A longer gap begins a flowlet.
        gap: Span,
    },
    /// For every packet the one with the shortest queue of `samples` random ones and the last choice for the destination (DRILL, SIGCOMM 2017).
    Drill {
        /// Random next hops to look at.
        samples: u32,
    },
    /// For every packet the one with the shortest queue of all; a random one of equal ones (adaptive routing with fresh local queues).
    Adaptive,
    /// By port quality (SAI ARS, Broadcom DLB).
    Ars(ArsSettings),
    /// By the delay that the leaf of the sender measures; the leaf of the receiver restores the order (`ConWeave`, SIGCOMM 2023).
    ConWeave(ConWeaveSettings),
    /// By a hash of the flow and the entropy value that the sender gave the packet.
    PacketHash,
}

impl HopChoice {
    /// The priority of frames that switches send to each other.
    pub fn control_priority(self) -> Option<Priority> {
        if let HopChoice::ConWeave(conweave) = self { Some(conweave.control_priority) } else { None }
    }
}

choices! {
    /// What a switch with adaptive routing moves, and how
    pub enum ArsMode {
        /// Flowlets, to a port of the best quality
        FlowletQuality = "flowlet_quality",
        /// Flowlets, to a random port
        FlowletRandom = "flowlet_random",
        /// Packets, to a port of the best quality
        PacketQuality = "packet_quality",
        /// Packets, to a random port
        PacketRandom = "packet_random",
        /// Nothing: a flow keeps the port of the best quality that it began with
        Fixed = "fixed",
    }
}

impl ArsMode {
    /// Whether packets of a flowlet keep their port.
    pub fn keeps_flowlets(self) -> bool {
        matches!(self, ArsMode::FlowletQuality | ArsMode::FlowletRandom | ArsMode::Fixed)
    }

    /// Whether ports of the best quality are taken.
    pub fn takes_best(self) -> bool {
        matches!(self, ArsMode::FlowletQuality | ArsMode::PacketQuality | ArsMode::Fixed)
    }
}

/// Adaptive routing by port quality (`saiars.h`, `saiarsprofile.h`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ArsSettings {
    /// What is moved, and how.
    pub mode: ArsMode,
    /// A longer gap begins a flowlet.
    pub idle: Span,
    /// Flowlets that a switch remembers for each group of next hops.
    pub flow_states: u32,
    /// Age from which on a port is looked at again.
    pub sampling: Span,
    /// Load in per cent below which a port is in the best band, and from which on it is in the worst.
    pub low: u32,
    /// The latter.
    pub high: u32,
}

/// `ConWeave` (Song et al., SIGCOMM 2023), with the constants of its simulator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConWeaveSettings {
    /// Time after the unloaded round trip at which a reply is late.
    pub reply_slack: Span,
    /// Time for which a path is not chosen after a notice of a marked packet.
    pub path_busy: Span,
    /// A longer gap between two packets of a flow begins an epoch, on any path.
    pub idle: Span,
    /// Time that held packets wait beyond the expected arrival of the last packet of the old path.
    pub tail_slack: Span,
    /// Time that held packets wait if no packet of the old path says when to expect the last one.
    pub blind_wait: Span,
    /// Flows whose packets a port of a leaf can hold at once.
    pub hold_queues: u32,
    /// Priority of replies and notices.
    pub control_priority: Priority,
}
