//! A step: what applications asked of the network from one quiet instant to the next, and what it answered.

use crate::flow::RdmaCounts;
use crate::observers::pause_tree::RepeatedPauses;
use crate::observers::ports::PortPriorityReport;
use crate::order::{EndpointCounters, EndpointEvent, EndpointOrder, EndpointReport, TimedEndpointOrder};
use pauseframe_rdma::IdleState;
use pauseframe_units::{Span, Time};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What an order asks, without the token, which names a message in one instance of a step only.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Ask {
    Write { bytes: u64, notifies: bool },
    Await { bytes: u64 },
}

impl Ask {
    /// `None` for orders that open, close or stop something: a step with one is never replayed.
    pub(super) fn of_order(order: &EndpointOrder) -> Option<Ask> {
        match order {
            EndpointOrder::Write { bytes, token, written: false } => {
                Some(Ask::Write { bytes: *bytes, notifies: token.is_some() })
            }
            EndpointOrder::Await { bytes, .. } => Some(Ask::Await { bytes: *bytes }),
            _ => None,
        }
    }

    /// Whether the network reports it.
    pub(super) fn is_answered(self) -> bool {
        !matches!(self, Ask::Write { notifies: false, .. })
    }

    pub(super) fn sequence_of(self, endpoint_key: u32) -> OrderSequence {
        (endpoint_key, matches!(self, Ask::Write { .. }))
    }
}

/// Orders of one endpoint that are executed one after the other: what it sends, and what it expects. These two do not wait for each other.
pub(super) type OrderSequence = (u32, bool);

/// An order, at a time since the step began.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepOrder {
    pub(super) after: Span,
    pub(super) endpoint_key: u32,
    pub(super) ask: Ask,
}

impl StepOrder {
    pub(super) fn sequence(&self) -> OrderSequence {
        self.ask.sequence_of(self.endpoint_key)
    }
}

/// A report, at a time since the step began: the next message of this endpoint has arrived, or has been sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct StepReport {
    pub(super) after: Span,
    pub(super) endpoint_key: u32,
    pub(super) is_sent: bool,
}

/// What a step adds to the counters of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepCounts {
    /// By port and priority, what it added.
    pub(super) ports: Vec<PortPriorityReport>,
    /// By endpoint, what it added.
    pub(crate) endpoints: Vec<EndpointCounters>,
    pub(crate) pauses: RepeatedPauses,
    pub(crate) left: StatesLeft,
}

/// Queue pairs that received data or notifications in a step, as they were at its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct StatesLeft {
    /// When the step began, on the clock of the partitions.
    pub(crate) begin: Time,
    /// By endpoint key.
    pub(crate) states: Vec<(u32, IdleState)>,
}

impl StepCounts {
    fn sum(&self, of: impl Fn(&PortPriorityReport) -> u64) -> u64 {
        self.ports.iter().map(of).sum()
    }

    /// Whether nothing was dropped, lost or sent again.
    pub(super) fn is_without_loss(&self) -> bool {
        let of_port = |port: &PortPriorityReport| port.drops.iter().chain(&port.lost).sum::<u64>();
        let of_endpoint = |endpoint: &EndpointCounters| {
            let RdmaCounts { repeats_by_nak, repeats_by_timeout, .. } = endpoint.rdma;
            u64::from(endpoint.retransmits + endpoint.timeouts) + repeats_by_nak + repeats_by_timeout
        };
        self.ports.iter().map(of_port).chain(self.endpoints.iter().map(of_endpoint)).all(|losses| losses == 0)
    }

    pub(super) fn marks(&self) -> u64 {
        self.sum(|port| port.ecn_marks)
    }

    pub(super) fn pauses_sent(&self) -> u64 {
        self.sum(|port| port.pauses_sent)
    }
}

/// One instance of a step, as the network simulated it.
#[derive(Debug)]
pub(super) struct StepInstance {
    pub(super) begin: Time,
    /// In the order in which they were issued.
    pub(super) orders: Vec<StepOrder>,
    /// In the order of time.
    pub(super) reports: Vec<StepReport>,
    /// Whether it consists of messages alone, on open connections.
    pub(super) is_of_messages: bool,
    /// Packet hops; of the run before it, until it is over.
    pub(super) packet_hops: u64,
    /// What it counted, if they were read before it began.
    pub(super) counts: Option<StepCounts>,
}

impl StepInstance {
    pub(super) fn new(begin: Time) -> StepInstance {
        StepInstance {
            begin,
            orders: Vec::new(),
            reports: Vec::new(),
            is_of_messages: true,
            packet_hops: 0,
            counts: None,
        }
    }

    pub(super) fn record_order(&mut self, order: &TimedEndpointOrder) {
        match Ask::of_order(&order.order) {
            Some(ask) => self.orders.push(StepOrder {
                after: order.at.saturating_since(self.begin),
                endpoint_key: order.endpoint_key,
                ask,
            }),
            None => self.is_of_messages = false,
        }
    }

    pub(super) fn record_report(&mut self, report: &EndpointReport) {
        let is_sent = match report.event {
            EndpointEvent::Delivered(_) => false,
            EndpointEvent::Sent(_) => true,
            EndpointEvent::Counted(_) => return,
            _ => {
                self.is_of_messages = false;
                return;
            }
        };
        let after = report.at.saturating_since(self.begin);
        self.reports.push(StepReport { after, endpoint_key: report.endpoint_key, is_sent });
    }

    /// From its begin to its last report.
    pub(super) fn length(&self) -> Span {
        self.reports.last().map_or(Span::ZERO, |report| report.after)
    }

    /// A hash of what was asked in each sequence, in order; times do not matter.
    pub(super) fn order_hash(&self) -> u64 {
        let mut places: HashMap<OrderSequence, u32> = HashMap::new();
        self.orders.iter().fold(0, |sum: u64, order| {
            let place = places.entry(order.sequence()).or_default();
            *place += 1;
            let mut hasher = DefaultHasher::new();
            (order.endpoint_key, *place, order.ask).hash(&mut hasher);
            sum.wrapping_add(hasher.finish())
        })
    }

    /// The largest difference of this step from another instance of it, as a share of its length: of the time of a report, or of the number of packet
    /// hops as a share of that. `None` if the reports are not the same.
    pub(super) fn relative_difference(&self, other: &StepInstance) -> Option<f64> {
        let times = largest_time_difference(&self.reports_by_sequence(), &other.reports_by_sequence())?;
        let times = times.0 as f64 / (self.length().0 as f64).max(1.0);
        let hops = self.packet_hops.abs_diff(other.packet_hops) as f64 / (self.packet_hops as f64).max(1.0);
        Some(times.max(hops))
    }

    fn reports_by_sequence(&self) -> TimesBySequence {
        by_sequence(self.reports.iter().map(|report| ((report.endpoint_key, report.is_sent), report.after)))
    }

    /// Orders that precede all reports: they do not depend on what the network does.
    pub(super) fn first_orders(&self) -> TimesBySequence {
        let first_report = self.reports.first().map_or(Span(u64::MAX), |report| report.after);
        let first = self.orders.iter().filter(|order| order.after < first_report);
        by_sequence(first.map(|order| (order.sequence(), order.after)))
    }
}

/// Times by sequence; those of one sequence in their own order.
pub(super) type TimesBySequence = Vec<(OrderSequence, Span)>;

fn by_sequence(times: impl Iterator<Item = (OrderSequence, Span)>) -> TimesBySequence {
    let mut times: TimesBySequence = times.collect();
    times.sort_by_key(|(sequence, _)| *sequence);
    times
}

/// The largest difference in time between the n-th entries of each sequence; `None` if the sequences or their numbers of entries differ.
pub(super) fn largest_time_difference(
    one: &[(OrderSequence, Span)],
    other: &[(OrderSequence, Span)],
) -> Option<Span> {
    if one.len() != other.len() {
        return None;
    }
    one.iter().zip(other).try_fold(Span::ZERO, |largest, (one, other)| {
        (one.0 == other.0).then(|| largest.max(Span(one.1.0.abs_diff(other.1.0))))
    })
}

/// `after` - `before`, port by port; both are in the order of ports and priorities, and `before` may lack some.
pub(super) fn subtract_reports(
    after: Vec<PortPriorityReport>,
    before: &[PortPriorityReport],
    times: [Time; 2],
) -> Vec<PortPriorityReport> {
    let integral = |report: &PortPriorityReport, now: Time| report.backlog_mean * now.0 as f64;
    let earlier: HashMap<_, _> =
        before.iter().map(|report| ((report.port, report.priority), report)).collect();
    let difference = |mut report: PortPriorityReport| {
        let mut backlog_time = integral(&report, times[1]);
        if let Some(before) = earlier.get(&(report.port, report.priority)) {
            report.tx_packets -= before.tx_packets;
            report.tx_bytes -= before.tx_bytes;
            report.busy -= before.busy;
            report.drops.iter_mut().zip(&before.drops).for_each(|(more, less)| *more -= less);
            report.lost.iter_mut().zip(&before.lost).for_each(|(more, less)| *more -= less);
            report.ecn_marks -= before.ecn_marks;
            report.trims -= before.trims;
            report.new_flows -= before.new_flows;
            report.pauses_sent -= before.pauses_sent;
            report.pauses_received -= before.pauses_received;
            report.resumes_received -= before.resumes_received;
            report.paused -= before.paused;
            report.cnms_sent -= before.cnms_sent;
            report.cnms_received -= before.cnms_received;
            report.watchdog_storms -= before.watchdog_storms;
            backlog_time -= integral(before, times[0]);
        }
        // Until it is added to a report, the mean holds bytes times picoseconds.
        report.backlog_mean = backlog_time.max(0.0);
        report
    };
    after
        .into_iter()
        .map(difference)
        .filter(|report| report.tx_packets > 0 || report.pauses_sent > 0)
        .collect()
}

/// Adds what one replayed step counted on a port.
pub(super) fn add_port_counts(sum: &mut PortPriorityReport, more: &PortPriorityReport) {
    sum.tx_packets += more.tx_packets;
    sum.tx_bytes += more.tx_bytes;
    sum.busy += more.busy;
    sum.drops.iter_mut().zip(&more.drops).for_each(|(sum, more)| *sum += more);
    sum.lost.iter_mut().zip(&more.lost).for_each(|(sum, more)| *sum += more);
    sum.ecn_marks += more.ecn_marks;
    sum.trims += more.trims;
    sum.new_flows += more.new_flows;
    sum.pauses_sent += more.pauses_sent;
    sum.pauses_received += more.pauses_received;
    sum.resumes_received += more.resumes_received;
    sum.paused += more.paused;
    sum.cnms_sent += more.cnms_sent;
    sum.cnms_received += more.cnms_received;
    sum.watchdog_storms += more.watchdog_storms;
    sum.backlog_mean += more.backlog_mean;
}

/// Whether an endpoint counted anything.
pub(super) fn has_counts(counters: &EndpointCounters) -> bool {
    let EndpointCounters { delivered, retransmits, timeouts, ce_packets, loss_probes, undone, rdma, .. } =
        counters;
    let rare = u64::from(retransmits + timeouts + loss_probes + undone);
    *delivered + rare + ce_packets > 0 || *rdma != RdmaCounts::default()
}
