//! What the tables need beyond the network's own reports: names, and drops by their names.

use pauseframe_fabric::{DropReason, LossReason, Metric, PortReport};
use pauseframe_topology::Topology;
use serde::Serialize;

/// Where the tables take names from.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// Names of nodes and ports.
    pub topology: &'a Topology,
    /// By [`pauseframe_fabric::FlowSpec::workload`].
    pub workloads: &'a [String],
    /// By [`pauseframe_fabric::FlowSpec::transport`].
    pub transports: &'a [String],
}

/// Packets dropped, by reason. (A destination that cannot be reached is refused at load, never dropped.)
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct DropsByReason {
    /// A lossy packet found no room in the buffer.
    pub buffer_full: u64,
    /// A lossless packet found the headroom used up.
    pub headroom_exceeded: u64,
    /// A packet that is not ECN-capable met a queue above its marking threshold.
    pub not_ect: u64,
    /// A lossless packet found the headroom used up that all (port, priority) of its switch share.
    pub headroom_pool: u64,
    /// A packet was on, waited for, or was bound for a link that was down.
    pub link_down: u64,
    /// A frame arrived damaged, pause frames included.
    pub corrupted: u64,
    /// The PFC watchdog had taken the queue out of service.
    pub watchdog: u64,
}

impl DropsByReason {
    /// The drops of one port and priority.
    pub fn of(report: &PortReport) -> DropsByReason {
        let mut drops = DropsByReason::default();
        drops.add(report);
        drops
    }

    /// Adds those of one port and priority.
    pub fn add(&mut self, report: &PortReport) {
        for (reason, count) in DropReason::ALL.into_iter().zip(report.drops) {
            *match reason {
                DropReason::BufferFull => &mut self.buffer_full,
                DropReason::HeadroomExceeded => &mut self.headroom_exceeded,
                DropReason::NotEct => &mut self.not_ect,
                DropReason::HeadroomPool => &mut self.headroom_pool,
            } += count;
        }
        for (reason, count) in LossReason::ALL.into_iter().zip(report.lost) {
            *match reason {
                LossReason::LinkDown => &mut self.link_down,
                LossReason::Corrupted => &mut self.corrupted,
                LossReason::Watchdog => &mut self.watchdog,
            } += count;
        }
    }

    /// All drops.
    pub fn total(&self) -> u64 {
        self.buffer_full
            + self.headroom_exceeded
            + self.not_ect
            + self.headroom_pool
            + self.link_down
            + self.corrupted
            + self.watchdog
    }
}

/// What the `metric` column says.
pub(super) fn metric_name(metric: Metric) -> &'static str {
    match metric {
        Metric::Backlog => "backlog_bytes",
        Metric::Throughput => "throughput_gbps",
        Metric::PausedFraction => "paused_fraction",
        Metric::Ingress => "ingress_bytes",
        Metric::Goodput => "goodput_gbps",
        Metric::Cwnd => "cwnd_bytes",
        Metric::Ssthresh => "ssthresh_bytes",
        Metric::Srtt => "srtt_us",
        Metric::Alpha => "alpha",
        Metric::QcnRate => "qcn_rate_gbps",
        Metric::RdmaRate => "rdma_rate_gbps",
    }
}

/// A port and priority that did nothing, for tests to change.
#[cfg(test)]
pub(super) fn idle_report(port: u32) -> PortReport {
    PortReport {
        port: pauseframe_units::PortId(port),
        priority: pauseframe_units::Priority::default(),
        tx_packets: 0,
        tx_bytes: 0,
        busy: pauseframe_units::Span::ZERO,
        drops: [0; 4],
        lost: [0; 3],
        ecn_marks: 0,
        trims: 0,
        backlog_max: 0,
        backlog_mean: 0.0,
        ingress_max: 0,
        pauses_sent: 0,
        pauses_received: 0,
        resumes_received: 0,
        paused: pauseframe_units::Span::ZERO,
        paused_longest: pauseframe_units::Span::ZERO,
        cnms_sent: 0,
        cnms_received: 0,
        watchdog_storms: 0,
    }
}
