//! Pairs of switches that share hosts: mux cables (dual ToR), of which one switch is active, and MLAG with a peer link.

use pauseframe_units::{LinkId, NodeId, Priority, Span};

/// Settings of mux cables and of the tunnels between their ToRs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DualTorSettings {
    /// The ports that are active at first. A host with none here begins with its first port.
    pub active: Vec<NodeId>,
    /// Interval of the link prober (`LINK_PROBER`, `interval_v4`).
    pub probe_interval: Span,
    /// Probes without an answer after which the other ToR becomes active (`negative_signal_count`).
    pub missed_probes: u32,
    /// By priority: that of the outer header of a packet in a tunnel.
    pub outer: [Priority; Priority::COUNT],
}

impl DualTorSettings {
    /// Bytes of the outer IPv4 header (RFC 2003).
    pub const HEADER_BYTES: u32 = 20;

    /// The defaults of `SONiC`'s link manager; packets keep their priority.
    pub fn new() -> DualTorSettings {
        DualTorSettings {
            active: Vec::new(),
            probe_interval: Span::from_ms(100),
            missed_probes: 3,
            outer: std::array::from_fn(|own| Priority::new(own as u8).expect("below 8")),
        }
    }
}

/// Pairs of leaf switches that share hosts (MLAG, MC-LAG).
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct MlagSettings {
    /// The links between the two switches of each pair. They carry nothing that has another way.
    pub peer_links: Vec<LinkId>,
}

impl Default for DualTorSettings {
    fn default() -> DualTorSettings {
        DualTorSettings::new()
    }
}
