//! What the network is told: the resolved scenario in the terms of the fabric.

use pauseframe_transport::Config;
use pauseframe_units::{Bytes, NodeId, Priority, Span};
use std::sync::Arc;

/// Settings of a network beyond its graph.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Master seed.
    pub seed: u64,
    /// What a packet costs beyond its IP size.
    pub overhead: Overhead,
    /// Largest IP packet in bytes: sizes the headroom.
    pub mtu: u32,
    /// Time that a segment spends in a host's stack before the NIC has it.
    pub tx_delay: Span,
    /// Up to this much more, uniformly at random for each segment; segments of a host keep their order.
    pub tx_jitter: Span,
    /// Time from the last bit at the NIC to TCP.
    pub rx_delay: Span,
    /// Bytes that stack and NIC of a host may hold.
    pub nic_buffer: u64,
    /// One NIC queue for all destinations instead of one each.
    pub nic_fifo: bool,
    /// Forwarding latency of a switch.
    pub switch_latency: Span,
    /// Who may hold how much.
    pub buffer: BufferPolicy,
    /// ECN marking, at switches.
    pub marker: Marker,
    /// Priority flow control.
    pub pfc: Option<PfcSettings>,
    /// Each packet takes a random shortest path instead of its flow's.
    pub spray: bool,
    /// Hosts where nobody listens: they answer a SYN with RST.
    pub refusing: Vec<NodeId>,
    /// Hosts that answer nothing.
    pub silent: Vec<NodeId>,
    /// The transports that flows name by index.
    pub transports: Vec<Transport>,
}

/// A transport and the priority of its packets.
#[derive(Clone, Debug)]
pub struct Transport {
    /// TCP settings.
    pub config: Arc<Config>,
    /// IEEE 802.1p priority.
    pub priority: Priority,
}

/// What a packet costs beyond its IP size, in bytes (model.md §1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overhead {
    /// Header and FCS, counted on the wire and in buffers: 18, or 0.
    pub frame: u32,
    /// An IEEE 802.1Q tag, on frames of a priority above 0: 4, or 0.
    pub tag: u32,
    /// Smallest frame: 64, or 0.
    pub min_frame: u32,
    /// Preamble and gap, on the wire only: 20, or 0.
    pub gap: u32,
}

impl Overhead {
    /// IEEE 802.3 frames.
    pub const ETHERNET: Overhead = Overhead { frame: 18, tag: 4, min_frame: 64, gap: 20 };
    /// The IP packet alone.
    pub const NONE: Overhead = Overhead { frame: 0, tag: 0, min_frame: 0, gap: 0 };
    /// Size of a pause frame without preamble and gap (IEEE 802.1Qbb: a 64-byte control frame).
    pub const PAUSE_FRAME: u32 = 64;

    /// Bytes in buffers of an IP packet of `ip` bytes at `priority`.
    #[inline]
    pub fn frame_size(self, ip: u32, priority: Priority) -> u32 {
        let tag = if priority.code_point() > 0 { self.tag } else { 0 };
        (ip + self.frame + tag).max(self.min_frame)
    }
}

/// Buffer policy of a switch (model.md §3).
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum BufferPolicy {
    /// Each egress port holds this many lossy bytes; each ingress (port, priority) this many lossless ones,
    /// headroom included.
    PerPort(Bytes),
    /// One pool.
    Shared {
        /// All of it, with headroom and reserved bytes.
        size: Bytes,
        /// A queue may hold this times the free pool.
        alpha: f64,
        /// What each (port, priority) in use owns beyond the pool.
        reserved: Bytes,
    },
}

/// ECN marking (model.md §5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marker {
    /// None.
    None,
    /// CE on ECT packets that find more than `k` bytes.
    Step {
        /// Threshold.
        k: Bytes,
        /// The backlog is looked at when the packet leaves instead of when it comes.
        at_dequeue: bool,
        /// Packets that are not ECT are dropped there (judd §7.1, Fig. 12), lossless ones excepted.
        drop_not_ect: bool,
    },
}

/// Priority flow control (IEEE 802.1Qbb).
#[derive(Clone, PartialEq, Debug)]
pub struct PfcSettings {
    /// Lossless priorities.
    pub priorities: Vec<Priority>,
    /// Pause above this many ingress bytes; `None`: what the buffer leaves.
    pub xoff: Option<Bytes>,
    /// Resume at or below; `None`: two full frames below `xoff`.
    pub xon: Option<Bytes>,
    /// Bytes for what still comes after XOFF; `None`: what [`crate::headroom`] says for the link.
    pub headroom: Option<Bytes>,
    /// From the last bit of a pause frame to its effect.
    pub reaction: Span,
    /// Pause time asked for, in quanta of 512 bit times.
    pub quanta: u16,
}
