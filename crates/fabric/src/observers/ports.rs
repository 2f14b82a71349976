//! Results of a run by port: the raw rows of the `ports` table.

use crate::observers::states::StateLog;
use crate::observers::view::ObserverView;
use crate::partition::Partition;
use crate::wire::counters::{DropReason, LossReason};
use pauseframe_units::{PortId, Priority, Span, Time};

/// Result of a port and priority: a raw row of the `ports` table.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PortPriorityReport {
    /// The port.
    pub port: PortId,
    /// The priority.
    pub priority: Priority,
    /// Packets sent, pause frames not included.
    pub tx_packets: u64,
    /// Their bytes, without preamble and gap.
    pub tx_bytes: u64,
    /// Transmission time of these packets, with preambles and gaps; of the frame in service the part so far.
    pub busy: Span,
    /// Packets dropped before this egress queue, by [`DropReason`].
    pub drops: [u64; DropReason::ALL.len()],
    /// Frames lost in this queue or on its link, by [`LossReason`].
    pub lost: [u64; LossReason::ALL.len()],
    /// Packets marked here.
    pub ecn_marks: u64,
    /// Packets that were to leave here and lost their payload to trimming.
    pub trims: u64,
    /// Longest time that a packet waited which left by CoDel.
    pub sojourn_max: Span,
    /// Flows that FQ-CoDel put before the others because they had nothing to send.
    pub new_flows: u64,
    /// Largest backlog, bytes.
    pub backlog_max: u64,
    /// Time-weighted mean backlog, bytes.
    pub backlog_mean: f64,
    /// Largest ingress account at the other end, bytes.
    pub ingress_max: u64,
    /// Pause frames that the other end sent to stop this port.
    pub pauses_sent: u64,
    /// Pause frames that took effect here.
    pub pauses_received: u64,
    /// Frames with quanta 0 that took effect here.
    pub resumes_received: u64,
    /// Total paused time.
    pub paused: Span,
    /// The longest pause.
    pub paused_longest: Span,
    /// CNMs that the congestion point of this queue has sent (QCN).
    pub cnms_sent: u64,
    /// CNMs for this priority that arrived at the host of this port.
    pub cnms_received: u64,
    /// How often the watchdog took the queue out of flow control.
    pub watchdog_storms: u64,
}

impl ObserverView<'_> {
    /// The report of `port` for `class` up to `now`; `None` if the class was never used there.
    pub(crate) fn port_report(
        &self,
        port: PortId,
        class: u8,
        states: Option<&StateLog>,
        now: Time,
    ) -> Option<PortPriorityReport> {
        let index = self.plan.slot(port, class);
        let Partition { ports, ctx, .. } = self.owner_partition(port);
        let (slot, counters) = (&ports.slots[index], self.merged_queue_counters(port, index));
        let sent = ports.sent_in_class(port, class, &ctx.hot);
        let pauses = ports.pauses.get(index).copied().unwrap_or_default();
        let pauses_sent = counters.pauses_sent;
        let lossless_so_far = counters.drops.iter().chain(&counters.lost).all(|count| *count == 0);
        let is_paused = ports.ports[port].paused & 1 << class != 0;
        let (paused, paused_longest) = ports.pause_times(index, is_paused, now);
        // A pause of the whole link counts as received in one class, and pauses all.
        let was_paused = pauses.pauses_received > 0 || paused > Span::ZERO;
        let idle = sent.packets == 0 && lossless_so_far && !was_paused;
        let silent = pauses_sent + counters.cnms_sent + counters.cnms_received == 0;
        if idle && slot.backlog == 0 && silent {
            return None;
        }
        let backlog_time = slot.backlog_integral(now) as f64;
        Some(PortPriorityReport {
            port,
            priority: self.plan.priorities[usize::from(class)],
            tx_packets: sent.packets,
            tx_bytes: sent.bytes,
            busy: ports.busy_time(port, class, ctx, now),
            drops: counters.drops,
            lost: counters.lost,
            ecn_marks: counters.ecn_marks,
            trims: counters.trims,
            sojourn_max: counters.sojourn_max,
            new_flows: counters.new_flows,
            backlog_max: slot.backlog_max.max(states.map_or(0, |log| log.previous_backlog_max(index))),
            backlog_mean: if now == Time::ZERO { 0.0 } else { backlog_time / now.0 as f64 },
            ingress_max: self.peer_ingress_account(port, index).most,
            pauses_sent,
            pauses_received: pauses.pauses_received,
            resumes_received: pauses.resumes_received,
            paused,
            paused_longest,
            cnms_sent: counters.cnms_sent,
            cnms_received: counters.cnms_received,
            watchdog_storms: ports.watchdogs.storm_count(index),
        })
    }
}
