//! Names and drop counters, which the tables need in addition to the network's own reports.

use pauseframe_fabric::{DropReason, LossReason, PortPriorityReport, SampledMetric};
use pauseframe_topology::Topology;
use serde::Serialize;

/// The names of nodes, ports, workloads and transports that tables show.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    /// Names of nodes and ports.
    pub topology: &'a Topology,
    /// Names of workloads, indexed by [`pauseframe_fabric::FlowSpec::workload`].
    pub workloads: &'a [String],
    /// Names of transports, indexed by [`pauseframe_fabric::FlowSpec::transport`].
    pub transports: &'a [String],
}

/// Numbers of dropped packets by reason. (The resolver refuses a destination that cannot be reached, so no
/// packet is dropped for that.)
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct DropsByReason {
    /// Lossy packets that found no room in the buffer.
    pub buffer_full: u64,
    /// Number of lossless packets that exceeded the headroom.
    pub headroom_exceeded: u64,
    /// Packets that are not ECN-capable and met a queue above its marking threshold.
    pub not_ect: u64,
    /// Lossless packets that exceeded the headroom pool, which all (port, priority) of a switch share.
    pub headroom_pool: u64,
    /// Packets that CoDel dropped, because those of their queue had waited too long.
    pub codel: u64,
    /// Frames that found the receive ring of a Linux switch full.
    pub ring_full: u64,
    /// Packets that were on, waited for, or were bound for a link that was down.
    pub link_down: u64,
    /// Frames that arrived damaged, pause frames included.
    pub corrupted: u64,
    /// Packets of a queue that the PFC watchdog had taken out of service.
    pub watchdog: u64,
}

impl DropsByReason {
    /// Numbers of drops of one port and priority.
    pub fn of(report: &PortPriorityReport) -> DropsByReason {
        let mut drops = DropsByReason::default();
        drops.add(report);
        drops
    }

    /// Adds the drops of one port and priority.
    pub fn add(&mut self, report: &PortPriorityReport) {
        for (reason, count) in DropReason::ALL.into_iter().zip(report.drops) {
            *match reason {
                DropReason::BufferFull => &mut self.buffer_full,
                DropReason::HeadroomExceeded => &mut self.headroom_exceeded,
                DropReason::NotEct => &mut self.not_ect,
                DropReason::HeadroomPool => &mut self.headroom_pool,
                DropReason::Codel => &mut self.codel,
                DropReason::RingFull => &mut self.ring_full,
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

    /// Sum of the drops over all reasons.
    pub fn total(&self) -> u64 {
        self.buffer_full
            + self.headroom_exceeded
            + self.not_ect
            + self.headroom_pool
            + self.codel
            + self.ring_full
            + self.link_down
            + self.corrupted
            + self.watchdog
    }
}

/// The text of a metric in the `metric` column.
pub(super) fn metric_name(metric: SampledMetric) -> &'static str {
    match metric {
        SampledMetric::Backlog => "backlog_bytes",
        SampledMetric::Throughput => "throughput_gbps",
        SampledMetric::PausedFraction => "paused_fraction",
        SampledMetric::Ingress => "ingress_bytes",
        SampledMetric::Goodput => "goodput_gbps",
        SampledMetric::Cwnd => "cwnd_bytes",
        SampledMetric::Ssthresh => "ssthresh_bytes",
        SampledMetric::Srtt => "srtt_us",
        SampledMetric::Alpha => "alpha",
        SampledMetric::QcnRate => "qcn_rate_gbps",
        SampledMetric::RdmaRate => "rdma_rate_gbps",
    }
}

/// A port and priority without any traffic, which tests modify.
#[cfg(test)]
pub(super) fn idle_report(port: u32) -> PortPriorityReport {
    PortPriorityReport {
        port: pauseframe_units::PortId(port),
        priority: pauseframe_units::Priority::default(),
        tx_packets: 0,
        tx_bytes: 0,
        busy: pauseframe_units::Span::ZERO,
        drops: [0; 6],
        lost: [0; 3],
        ecn_marks: 0,
        trims: 0,
        sojourn_max: pauseframe_units::Span::ZERO,
        new_flows: 0,
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
