//! What the network is told: the resolved scenario in the terms of the fabric.

mod class;
mod jitter;
mod pause;
mod qcn;
mod scheduler;
mod vlan;
mod watchdog;

use crate::marker::Marker;
use crate::queue::QueueDiscipline;
pub use class::ClassSettings;
pub use jitter::Jitter;
pub use pause::{HeadroomPool, Obeys, PauseRule, PauseStorm};
pub(crate) use qcn::FB_MAX;
pub use qcn::QcnSettings;
pub use scheduler::{EtsGroup, Scheduler};
pub use vlan::{VlanChoice, VlanRoutes};
pub use watchdog::{Watchdog, WatchdogAction};

use pauseframe_rdma::QueuePairSettings;
use pauseframe_rdma::cc::ControlChoice;
use pauseframe_transport::Config;
use pauseframe_units::{BitRate, Bytes, NodeId, PortId, Priority, Span, Time};
use std::sync::Arc;

/// Settings of a network beyond its graph.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "switches of a scenario that do not depend on one another")]
pub struct Settings {
    /// Master seed.
    pub seed: u64,
    /// What a packet costs beyond its IP size.
    pub overhead: Overhead,
    /// Largest IP packet in bytes: sizes the headroom.
    pub mtu: u32,
    /// Time that a segment spends in a host's stack before the NIC has it.
    pub tx_delay: Span,
    /// More of it, uniformly at random for each segment; segments of a host keep their order. Automatic: of lossless classes only.
    pub tx_jitter: Jitter,
    /// So much later, uniformly at random, what a host sends reaches its switch; in order. Automatic: of lossy classes only.
    pub wire_jitter: Jitter,
    /// Frames that arrive at the same instant go in random order; otherwise those of the port with the smaller number go first.
    pub random_ties: bool,
    /// Hosts for which `wire_jitter` is otherwise, for each direction, for all frames.
    pub wire_jitters: Vec<WireJitter>,
    /// Hosts' links have a token bucket of so many bytes: what finds it full leaves at once. 0: they store and forward.
    pub wire_burst: u32,
    /// Each host's clock ticks at moments of its own (see `RtoConfig::granularity`), not all at once.
    pub ticks_apart: bool,
    /// Time from the last bit at the NIC to TCP.
    pub rx_delay: Span,
    /// From a completion (a flow, a message) to what an application does in answer. Where that is shorter than a window and some
    /// workload is no open loop, the network cannot be divided ([`crate::Network::reacts_before`]).
    pub reaction: Span,
    /// Bytes that stack and NIC of a host may hold.
    pub nic_buffer: u64,
    /// One NIC queue for all destinations instead of one each.
    pub nic_fifo: bool,
    /// Forwarding latency of a switch.
    pub switch_latency: Span,
    /// Who may hold how much.
    pub buffer: BufferPolicy,
    /// Packets that a lossy queue holds at most, however short they are; `None`: bytes alone count.
    pub queue_packets: Option<u32>,
    /// Bytes of a shared buffer that lossy traffic alone uses, the rest being for lossless traffic; `None`: all in one pool.
    pub egress_pool: Option<Bytes>,
    /// ECN marking, at switches.
    pub marker: Marker,
    /// Order of service within a class, at switches.
    pub queue: QueueDiscipline,
    /// Which class a port serves next, at switches and hosts.
    pub scheduler: Scheduler,
    /// What holds for some priorities instead of `marker`, `queue` and the factors of `buffer`.
    pub classes: Vec<ClassSettings>,
    /// Priority flow control.
    pub pfc: Option<PfcSettings>,
    /// Quantized congestion notification.
    pub qcn: Option<QcnSettings>,
    /// Hosts that drain slowly what they receive.
    pub receivers: Vec<ReceiverSettings>,
    /// Each packet takes a random shortest path instead of its flow's.
    pub spray: bool,
    /// Packets travel in VLANs by these tables instead of on shortest paths. The tag must be in the overhead
    /// ([`Overhead::tagged`]).
    pub vlans: Option<Arc<VlanRoutes>>,
    /// Hosts where nobody listens: they answer a SYN with RST.
    pub refusing: Vec<NodeId>,
    /// Hosts that answer nothing.
    pub silent: Vec<NodeId>,
    /// The transports that flows name by index.
    pub transports: Vec<Transport>,
}

/// How unsteady the link of a host is: frames take up to this much longer, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WireJitter {
    /// The host.
    pub host: NodeId,
    /// On the way to its switch.
    pub to_switch: Span,
    /// On the way from its switch.
    pub to_host: Span,
}

/// A transport and the priority of its packets.
#[derive(Clone, Debug)]
pub struct Transport {
    /// TCP settings.
    pub config: Arc<Config>,
    /// IEEE 802.1p priority.
    pub priority: Priority,
    /// Its flows are datagrams, without a connection; `config` is not used then.
    pub datagrams: Option<DatagramSettings>,
    /// Its flows are queue pairs; `config` is not used then.
    pub rdma: Option<RdmaSettings>,
}

/// What a transport of queue pairs has.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RdmaSettings {
    /// The queue pairs. Their line rate and the size of frames follow from the network.
    pub pair: QueuePairSettings,
    /// Congestion control; its constants may follow from the line rate of the host.
    pub control: ControlChoice,
    /// Data packets are ECN-capable: ECT(0).
    pub ecn: bool,
    /// IEEE 802.1p priority of CNPs.
    pub cnp_priority: Priority,
}

/// What a packet costs beyond its IP size, in bytes.
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
    /// The same where every frame has a tag, whatever its priority.
    #[must_use]
    pub fn tagged(self) -> Overhead {
        Overhead { frame: self.frame + self.tag, tag: 0, ..self }
    }

    /// Size of a pause frame without preamble and gap (IEEE 802.1Qbb: a 64-byte control frame).
    pub const PAUSE_FRAME: u32 = 64;

    /// Bytes in buffers of an IP packet of `ip` bytes at `priority`.
    #[inline]
    pub fn frame_size(self, ip: u32, priority: Priority) -> u32 {
        let tag = if priority.code_point() > 0 { self.tag } else { 0 };
        (ip + self.frame + tag).max(self.min_frame)
    }
}

/// Buffer policy of a switch (docs/models/buffers.md).
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
    /// An ideal output-queued switch with N-fold speed-up (cee §III-B4): the (port, priority) by which a packet comes
    /// in owns this many bytes, and an egress queue may hold what all of them hold.
    IdealOutputQueued(Bytes),
}

/// Priority flow control (IEEE 802.1Qbb).
#[derive(Clone, PartialEq, Debug)]
pub struct PfcSettings {
    /// Lossless priorities.
    pub priorities: Vec<Priority>,
    /// PAUSE (IEEE 802.3 Annex 31B) instead of PFC: one account for each ingress port, all priorities stop together and
    /// are lossless, whatever `priorities` says.
    pub whole_link: bool,
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
    /// The headroom of a switch with a shared buffer comes from one pool; `None`: each (port, priority) has its own.
    pub headroom_pool: Option<HeadroomPool>,
    /// Ports that do not send and obey pause frames both ways; a later rule for a port goes before an earlier one.
    pub rules: Vec<(PortId, PauseRule)>,
}

/// A host that drains slowly.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiverSettings {
    /// The host.
    pub host: NodeId,
    /// Bytes of frames (without preamble and gap) that it takes from the buffer, in bits per second.
    pub rate: BitRate,
    /// Bytes of the receive buffer, headroom included.
    pub buffer: Bytes,
    /// From then on it takes them as fast as its link brings them.
    pub stop: Option<Time>,
}

/// What a transport without a connection sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DatagramSettings {
    /// Rate on the wire, with all that the scenario counts there.
    pub rate: BitRate,
    /// Application bytes of a datagram.
    pub payload: u32,
    /// Datagrams are ECN-capable: ECT(0).
    pub ecn: bool,
}
