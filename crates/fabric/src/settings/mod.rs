//! Settings of the network: the resolved scenario in terms of the fabric.

mod buffer;
mod class;
mod codel;
mod dual_tor;
mod hops;
mod linux_switch;
mod nic;
mod pause;
mod pfc;
mod qcn;
mod scale_up;
mod scheduler;
mod switches;
mod vlan;
mod watchdog;

use crate::flow::FlowSpec;
use crate::marker::Marker;
use crate::path_hash::PathHashSettings;
use crate::queue::QueueDiscipline;
pub use buffer::{BufferPolicy, IdealOutputQueuedBuffer, PerPortBuffer, SharedBuffer};
pub use class::ClassSettings;
pub use codel::CodelSettings;
pub use dual_tor::{DualTorSettings, MlagSettings};
pub use hops::{ArsMode, ArsSettings, ConWeaveSettings, HopChoice};
pub use linux_switch::{LinuxSwitchSettings, SwitchKind};
pub use nic::{HashPolicy, HostPortSettings, NicQueue, PortChoice};
pub use pause::PauseStorm;
pub use pfc::{HeadroomPoolSettings, ObeyedPausePriorities, PfcPorts, PfcSettings};
pub(crate) use qcn::MAX_QUANTIZED_FEEDBACK;
pub use qcn::QcnSettings;
pub use scale_up::ScaleUpSettings;
pub use scheduler::{Ets, EtsGroup, Scheduler, StrictPriorityScheduler};
pub use switches::SwitchOverride;
pub use vlan::{VlanChoice, VlanRoutes};
pub use watchdog::{PfcWatchdogSettings, WatchdogAction};

use pauseframe_rdma::QueuePairSettings;
use pauseframe_transport::TcpConfig;
use pauseframe_units::{BitRate, Bytes, NodeId, Priority, Span, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Settings of a network beyond its graph.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Master seed.
    pub seed: u64,
    /// What a packet costs beyond its IP size.
    pub overhead: FrameOverhead,
    /// Largest IP packet in bytes: sizes the headroom.
    pub mtu: u32,
    /// Time that a segment spends in a host's stack before the NIC has it.
    pub tx_delay: Span,
    /// Maximum additional uniform random delay of each segment in the stack; segments of a host keep their order.
    pub tx_jitter: Span,
    /// Frames that arrive at the same instant go in random order; otherwise those of the port with the smaller number go first.
    pub random_ties: bool,
    /// Hosts with a uniform random delay on their link, by direction, for all frames, in order; ascending.
    pub wire_jitters: Vec<HostLinkJitterSettings>,
    /// Size in bytes of a token bucket on hosts' links: a frame that finds enough tokens leaves at once. 0: store and forward.
    pub wire_burst: u32,
    /// Each host's clock has its own phase (see `RtoConfig::granularity`).
    pub ticks_apart: bool,
    /// Time from the last bit at the NIC to TCP.
    pub rx_delay: Span,
    /// Time from a completion (flow or message) to the application's reaction. If it is shorter than a window and some workload is closed-loop, the
    /// network cannot be divided ([`crate::Network::required_reaction_time`]).
    pub reaction: Span,
    /// Bytes that stack and NIC of a host may hold; with a queue for each flow, the largest share of a flow.
    pub nic_buffer: u64,
    /// Queues of NICs.
    pub nic_queue: NicQueue,
    /// How switches choose among equal next hops.
    pub path_hash: PathHashSettings,
    /// Ports of hosts that have several.
    pub host_ports: HostPortSettings,
    /// Mux cables, with [`PortChoice::Mux`].
    pub dual_tor: Option<DualTorSettings>,
    /// Pairs of leaf switches with peer links.
    pub mlag: Option<MlagSettings>,
    /// Forwarding latency of a switch.
    pub switch_latency: Span,
    /// Switches are Linux machines. They need `queue_packets`, FIFO queues, lossy classes, per-port buffers, and flows that keep their paths.
    pub linux_switch: Option<LinuxSwitchSettings>,
    /// Buffer policy of switches.
    pub buffer: BufferPolicy,
    /// Maximum number of packets in a lossy queue; `None`: only bytes count.
    pub queue_packets: Option<u32>,
    /// ECN marking, at switches.
    pub marker: Marker,
    /// Order of service within a class, at switches.
    pub queue: QueueDiscipline,
    /// Parameters of `queue`, if it has CoDel; `None`: its defaults.
    pub codel: Option<CodelSettings>,
    /// Class scheduler, at switches and hosts.
    pub scheduler: Scheduler,
    /// Per-priority replacements of `marker`, `queue`, `codel` and the factors of `buffer`.
    pub classes: Vec<ClassSettings>,
    /// Switches with other values.
    pub switch_overrides: Vec<SwitchOverride>,
    /// Priority flow control.
    pub pfc: Option<PfcSettings>,
    /// Quantized congestion notification.
    pub qcn: Option<QcnSettings>,
    /// Slow receivers.
    pub receivers: Vec<SlowReceiverSettings>,
    /// How switches choose the next hop of each packet; `None`: flows keep a shortest path.
    pub hop_choice: Option<HopChoice>,
    /// Packets travel in VLANs by these tables instead of on shortest paths. The tag must be in the overhead
    /// ([`FrameOverhead::with_vlan_tag`]).
    pub vlans: Option<Arc<VlanRoutes>>,
    /// Hosts without a listening application: they answer a SYN with RST.
    pub refusing: Vec<NodeId>,
    /// Hosts that never answer.
    pub silent: Vec<NodeId>,
    /// Links between the hosts of a server, beside the network.
    pub scale_up: Option<Arc<ScaleUpSettings>>,
    /// The transports that flows name by index.
    pub transports: Vec<TransportSettings>,
    /// Initial windows in bytes of TCP at ports of hosts that do not have that of their transport: by transport and node.
    pub initial_windows: BTreeMap<(u16, NodeId), u64>,
}

/// Jitter of a host's link: maximum additional delay of frames, in order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostLinkJitterSettings {
    /// The host.
    pub host: NodeId,
    /// Towards its switch.
    pub to_switch: Span,
    /// From its switch.
    pub to_host: Span,
}

/// A transport and the priority of its packets.
#[derive(Clone, Debug)]
pub struct TransportSettings {
    /// The protocol with its settings.
    pub protocol: ProtocolSettings,
    /// IEEE 802.1p priority.
    pub priority: Priority,
}

/// The protocol of a transport.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a network has a handful of transports")]
pub enum ProtocolSettings {
    /// TCP connections.
    Tcp(Arc<TcpConfig>),
    /// Queue pairs of `RoCEv2`.
    Rdma(RdmaSettings),
    /// UDP datagrams at a constant rate.
    Udp(UdpSettings),
}

impl Settings {
    /// The queue pairs of a connection of this transport, if it has several.
    pub(crate) fn several_queue_pairs(&self, transport: u16) -> Option<ConnectionQueuePairs> {
        let rdma = self.transports[usize::from(transport)].rdma()?;
        (rdma.connection.count > 1).then_some(rdma.connection)
    }

    /// The same for a flow that is a message on a connection that carries nothing else. Whole messages take turns, so it would use one.
    pub(crate) fn flow_queue_pairs(&self, spec: &FlowSpec) -> Option<ConnectionQueuePairs> {
        let is_alone = spec.kept.is_none_or(|kept| kept.first && kept.last);
        let is_message = spec.reply == 0 && spec.operation.is_none() && is_alone;
        self.several_queue_pairs(spec.transport).filter(|pairs| pairs.splits && is_message)
    }

    /// Subflows of a connection of this transport; 1: it is none of MPTCP.
    pub(crate) fn subflows(&self, transport: u16) -> u32 {
        self.transports[usize::from(transport)].tcp().map_or(1, |config| config.subflows)
    }
}

impl TransportSettings {
    /// A transport of TCP.
    pub fn of_tcp(config: Arc<TcpConfig>, priority: Priority) -> TransportSettings {
        TransportSettings { protocol: ProtocolSettings::Tcp(config), priority }
    }

    /// The settings of TCP, if it is one of TCP.
    #[inline]
    pub fn tcp(&self) -> Option<&Arc<TcpConfig>> {
        let ProtocolSettings::Tcp(config) = &self.protocol else { return None };
        Some(config)
    }

    /// The settings of queue pairs, if it has these.
    #[inline]
    pub fn rdma(&self) -> Option<&RdmaSettings> {
        let ProtocolSettings::Rdma(rdma) = &self.protocol else { return None };
        Some(rdma)
    }

    /// The settings of datagrams, if it sends these.
    pub fn udp(&self) -> Option<&UdpSettings> {
        let ProtocolSettings::Udp(udp) = &self.protocol else { return None };
        Some(udp)
    }

    /// Bytes of a super-packet that a card cuts into segments; 0 without segmentation offload.
    pub fn offload_bytes(&self) -> u32 {
        self.tcp().map_or(0, |config| config.offload.tso)
    }
}

/// Settings of a `RoCEv2` transport.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct RdmaSettings {
    /// The queue pairs. Their line rate and the size of frames follow from the network.
    pub pair: QueuePairSettings,
    /// Queue pairs of a connection, and how messages use them.
    pub connection: ConnectionQueuePairs,
    /// Data packets are ECN-capable: ECT(0).
    pub ecn: bool,
    /// IEEE 802.1p priority of CNPs.
    pub cnp_priority: Priority,
}

/// Queue pairs of a connection (NCCL: `NCCL_IB_QPS_PER_CONNECTION`, `NCCL_IB_SPLIT_DATA_ON_QPS`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ConnectionQueuePairs {
    /// Their number.
    pub count: u32,
    /// Each message is cut in equal parts, one for each; otherwise whole messages take turns.
    pub splits: bool,
}

impl ConnectionQueuePairs {
    /// One queue pair.
    pub const ONE: ConnectionQueuePairs = ConnectionQueuePairs { count: 1, splits: false };
    /// Parts of messages are multiples of this many bytes, but the last (NCCL `net_ib.cc`).
    const PART_ALIGNMENT: u64 = 128;

    /// The bytes of a message on each queue pair, from the `turn`-th on; 0 if it has none of them.
    pub fn parts(self, bytes: u64, turn: u32) -> Vec<u64> {
        let count = u64::from(self.count);
        if bytes == u64::MAX && self.splits {
            return vec![bytes; self.count as usize];
        }
        if !self.splits {
            return (0..self.count).map(|pair| if pair == turn % self.count { bytes } else { 0 }).collect();
        }
        let part = bytes.div_ceil(count).next_multiple_of(ConnectionQueuePairs::PART_ALIGNMENT);
        (0..count).map(|pair| bytes.saturating_sub(pair * part).min(part)).collect()
    }
}

/// IPv4 and UDP headers.
pub const IPV4_UDP_HEADER_BYTES: u32 = 28;

/// What a packet costs beyond its IP size, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameOverhead {
    /// Header and FCS, counted on the wire and in buffers: 18, or 0.
    pub frame: u32,
    /// An IEEE 802.1Q tag, on frames of a priority above 0: 4, or 0.
    pub tag: u32,
    /// Smallest frame: 64, or 0.
    pub min_frame: u32,
    /// Preamble and gap, on the wire only: 20, or 0.
    pub gap: u32,
}

impl FrameOverhead {
    /// IEEE 802.3 frames.
    pub const ETHERNET: FrameOverhead = FrameOverhead { frame: 18, tag: 4, min_frame: 64, gap: 20 };
    /// The IP packet alone.
    pub const NONE: FrameOverhead = FrameOverhead { frame: 0, tag: 0, min_frame: 0, gap: 0 };
    /// The overhead with a tag on every frame.
    #[must_use]
    pub fn with_vlan_tag(self) -> FrameOverhead {
        FrameOverhead { frame: self.frame + self.tag, tag: 0, ..self }
    }

    /// Size of a pause frame without preamble and gap (IEEE 802.1Qbb: a 64-byte control frame).
    pub const PAUSE_FRAME: u32 = 64;

    /// Bytes of the tag that a frame of `priority` carries.
    #[inline]
    pub fn tag_size(self, priority: Priority) -> u32 {
        if priority.code_point() > 0 { self.tag } else { 0 }
    }

    /// Bytes in buffers of an IP packet of `ip` bytes at `priority`.
    #[inline]
    pub fn frame_size(self, ip: u32, priority: Priority) -> u32 {
        (ip + self.frame + self.tag_size(priority)).max(self.min_frame)
    }

    /// Bytes of an IP packet on the wire, preamble and gap included.
    #[inline]
    pub fn wire_size(self, ip: u32, priority: Priority) -> u32 {
        self.frame_size(ip, priority) + self.gap
    }

    /// Bytes of a UDP datagram over IPv4 on the wire.
    #[inline]
    pub fn datagram_wire_size(self, payload: u32, priority: Priority) -> u32 {
        self.wire_size(payload + IPV4_UDP_HEADER_BYTES, priority)
    }
}

/// A slow receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SlowReceiverSettings {
    /// The host.
    pub host: NodeId,
    /// Rate at which it drains frames (without preamble and gap).
    pub rate: BitRate,
    /// Bytes of the receive buffer, headroom included.
    pub buffer: Bytes,
    /// When it starts to drain at link rate.
    pub stop: Option<Time>,
}

/// Settings of a UDP transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdpSettings {
    /// Rate on the wire, including the configured overhead.
    pub rate: BitRate,
    /// Application bytes of a datagram.
    pub payload: u32,
    /// Datagrams are ECN-capable: ECT(0).
    pub ecn: bool,
}
