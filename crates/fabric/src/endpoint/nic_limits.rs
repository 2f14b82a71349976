//! How many bytes a host's NIC takes: shares of flows, turns and the ring (docs/models/host-queues.md).

use crate::plan::NetworkPlan;
use crate::settings::{Settings, TransportSettings};
use pauseframe_units::{PortId, Priority, Span};

/// How long a card with segmentation offload collects completions, which its ring has to bridge (Linux: mlx5 tx-usecs).
const COMPLETION_DELAY: Span = Span::from_us(16);

/// Bytes that a host's NIC allows.
#[derive(Clone, Copy, Debug)]
pub(super) struct NicLimits {
    pub(super) per_flow: bool,
    /// Two frames, or two super-packets: a flow's queue always takes them.
    pub(super) always: u64,
    /// Largest share of a flow.
    pub(super) most: u64,
    /// What passes the stack meanwhile: it comes on top of the share.
    pub(super) in_stack: u64,
    /// Bytes of one turn: a super-packet; 1 for a frame.
    pub(super) turn: u64,
    /// The ring takes the next turn when it holds at most so much.
    pub(super) ring: u64,
}

impl NicLimits {
    pub(super) fn new(port: PortId, plan: &NetworkPlan) -> NicLimits {
        let Settings { overhead, mtu, nic_queue, nic_buffer, tx_delay, .. } = *plan.settings;
        let transports = &plan.settings.transports;
        let rate = plan.link_rate(port);
        let bytes_in = |span: Span| rate.bytes_in(span).0;
        let frame = u64::from(overhead.frame_size(mtu, Priority::default()));
        let super_packet = transports.iter().map(TransportSettings::offload_bytes).max().unwrap_or(0);
        let offloads = super_packet > 0 && nic_queue.has_flow_shares();
        NicLimits {
            per_flow: nic_queue.has_flow_shares(),
            always: (2 * frame.max(u64::from(super_packet))).min(nic_buffer),
            most: nic_buffer,
            in_stack: bytes_in(tx_delay.saturating_add(plan.settings.tx_jitter)),
            turn: if offloads { u64::from(super_packet) } else { 1 },
            ring: if offloads { bytes_in(COMPLETION_DELAY) } else { 0 },
        }
    }
}
