//! Samples of queues and flows, taken between two windows. Nothing in the simulation reads them back, and they end with the last event of the
//! network, so they never prolong a run.

use crate::endpoint::Endpoint;
use crate::flow::{FlowRecord, FlowSpec, FlowStatus};
use crate::observers::view::ObserverView;
use crate::partition::Partition;
use crate::records::FlowRecords;
use pauseframe_transport::Connection;
use pauseframe_units::{PortId, Priority, Span, Time};
use std::ops::Range;

/// The sampled quantity.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SampledMetric {
    /// Egress backlog, bytes.
    Backlog,
    /// Transmission rate over the last interval, Gb/s without preambles and gaps.
    Throughput,
    /// Share of the last interval in which the class was paused.
    PausedFraction,
    /// Ingress account at the other end, bytes.
    Ingress,
    /// In-order bytes delivered over the last interval, Gb/s.
    Goodput,
    /// Congestion window of the sender (of a request and its response: of the end that sends more), bytes.
    Cwnd,
    /// Slow-start threshold, bytes; no sample while infinite.
    Ssthresh,
    /// Smoothed round-trip time, microseconds.
    Srtt,
    /// DCTCP's estimate.
    Alpha,
    /// Rate that QCN allows the flow queue of the sender, Gb/s: that of the link where it is not limited.
    QcnRate,
    /// Rate that the congestion control of a queue pair allows, in Gb/s; the sum if the flow has several.
    RdmaRate,
}

/// The object of a sample.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum SampledEntity {
    /// A port and a priority.
    PortPriority(PortId, Priority),
    /// A flow, by number.
    Flow(u32),
}

/// One sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample {
    /// When it was taken.
    pub time: Time,
    /// The quantity.
    pub metric: SampledMetric,
    /// The object.
    pub entity: SampledEntity,
    /// Value in the unit of the metric.
    pub value: f64,
}

/// Which objects are sampled, and how often.
#[derive(Clone, Debug, Default)]
pub struct SamplePlan {
    /// Interval; zero: no samples.
    pub every: Span,
    /// Ports.
    pub ports: Vec<PortId>,
    /// By workload: whether its flows are sampled.
    pub workloads: Vec<bool>,
}

/// Takes samples; keeps the values of the last interval.
#[derive(Debug)]
pub(crate) struct Sampler {
    plan: SamplePlan,
    /// When it looks next.
    pub(crate) at: Option<Time>,
    pub(crate) samples: Vec<Sample>,
    /// By port of the plan and class: bytes sent, time paused.
    last_port: Vec<(f64, Span)>,
    /// Open or recently open flows: number and delivered bytes.
    watched: Vec<(u32, u64)>,
    next_flow: u32,
}

impl Sampler {
    /// A sampler for `plan`, which starts at the end of the first interval. `slots`: slots per port.
    pub(crate) fn new(plan: SamplePlan, slots: usize) -> Sampler {
        Sampler {
            at: Some(Time::ZERO + plan.every),
            samples: Vec::new(),
            last_port: vec![(0.0, Span::ZERO); plan.ports.len() * slots],
            watched: Vec::new(),
            next_flow: 0,
            plan,
        }
    }

    /// Samples, and schedules the next sample. `is_over`: only observation is pending, which does not keep a run alive.
    pub(crate) fn sample_and_reschedule(
        &mut self,
        view: ObserverView,
        records: &FlowRecords,
        now: Time,
        is_over: bool,
    ) {
        self.sample_ports(view, now);
        self.sample_flows(view, records, now);
        self.at = (!is_over).then(|| now + self.plan.every);
    }

    fn sample_ports(&mut self, view: ObserverView, now: Time) {
        let (interval, plan) = (self.plan.every.as_secs_f64(), view.plan);
        // Up to four samples a class: the loop below need not grow the list.
        self.samples.reserve(self.last_port.len() * 4);
        for (number, &port) in self.plan.ports.iter().enumerate() {
            let Partition { ports, ctx, .. } = view.owner_partition(port);
            let in_service = ports.ports[port].remaining_service(ctx, now);
            for (class, &priority) in plan.priorities.iter().enumerate() {
                let index = plan.slot(port, class as u8);
                let (slot, account) = (&ports.slots[index], view.peer_ingress_account(port, index));
                let unsent = in_service.as_ref().filter(|service| usize::from(service.class) == class);
                let sent = ports.sent_in_class(port, class as u8, &ctx.hot).bytes as f64
                    - unsent.map_or(0.0, |service| service.bytes_left);
                let is_paused = ports.ports[port].paused & 1 << class != 0;
                let (paused, _) = ports.pause_times(index, is_paused, now);
                let last = &mut self.last_port[(number << plan.class_bits) + class];
                let bits = (sent - last.0) * 8.0;
                let paused_fraction = (paused - last.1).as_secs_f64() / interval;
                *last = (sent, paused);
                let entity = SampledEntity::PortPriority(port, priority);
                let mut add = |metric, value| self.samples.push(Sample { time: now, metric, entity, value });
                add(SampledMetric::Backlog, slot.backlog as f64);
                add(SampledMetric::Throughput, bits / interval / 1e9);
                if plan.is_lossless(class as u8) {
                    add(SampledMetric::PausedFraction, paused_fraction);
                    add(SampledMetric::Ingress, account.bytes as f64);
                }
            }
        }
    }

    fn sample_flows(&mut self, view: ObserverView, records: &FlowRecords, now: Time) {
        for record in records.range(self.next_flow as usize..records.len()) {
            if self.plan.workloads.get(usize::from(record.spec.workload)) == Some(&true) {
                self.watched.push((self.next_flow, 0));
            }
            self.next_flow += 1;
        }
        let interval = self.plan.every.as_secs_f64();
        let samples = &mut self.samples;
        self.watched.retain_mut(|(flow, last)| {
            let (entity, record) = (SampledEntity::Flow(*flow), &records.flow_record(*flow));
            let mut add = |metric, value| samples.push(Sample { time: now, metric, entity, value });
            let delivered = view.delivered_bytes(*flow, records.carriers(*flow), record);
            add(SampledMetric::Goodput, (delivered - *last) as f64 * 8.0 / interval / 1e9);
            *last = delivered;
            let FlowSpec { source, destination, size, reply, transport, .. } = record.spec;
            let class = view.plan.class_of_transport[usize::from(transport)];
            // After a small request with a large response, the responder's window is the interesting one.
            let side = usize::from(reply > size);
            let [from, to] = if side == 0 { [source, destination] } else { [destination, source] };
            let (partition, host) = (view.partition_of_node(from), view.plan.host_id(from));
            if let Some(rate) = partition.endpoints.qcn_rate(host, to, class, &partition.ports) {
                add(SampledMetric::QcnRate, rate.as_gbps_f64());
            }
            let ends = || {
                records.carriers(*flow).filter_map(|one| view.find_open_endpoint(one, side as u32, record))
            };
            let rates = ends().filter_map(Endpoint::queue_pair).map(|pair| pair.rate() as f64 / 1e9);
            if let Some(rate) = rates.reduce(|sum, rate| sum + rate) {
                add(SampledMetric::RdmaRate, rate);
            }
            let senders = || ends().filter_map(Endpoint::connection);
            let Some(sender) = senders().next() else {
                return record.status == FlowStatus::Running;
            };
            add(SampledMetric::Cwnd, senders().map(Connection::cwnd).sum::<u64>() as f64);
            // The threshold of several subflows is none of their sum.
            if sender.ssthresh() != u64::MAX && senders().count() == 1 {
                add(SampledMetric::Ssthresh, sender.ssthresh() as f64);
            }
            if let Some(srtt) = sender.srtt() {
                add(SampledMetric::Srtt, srtt.as_us_f64());
            }
            if let Some(alpha) = sender.dctcp_alpha() {
                add(SampledMetric::Alpha, alpha);
            }
            true
        });
    }
}

impl ObserverView<'_> {
    /// The open endpoint of a flow on this side.
    fn find_open_endpoint(&self, flow: u32, side: u32, record: &FlowRecord) -> Option<&Endpoint> {
        let node = if side == 0 { record.spec.source } else { record.spec.destination };
        self.partition_of_node(node).endpoints.find_open_endpoint(flow * 2 + side)
    }

    /// In-order bytes delivered so far to both applications of a flow, reported or not.
    fn delivered_bytes(&self, flow: u32, carriers: Range<u32>, record: &FlowRecord) -> u64 {
        let of_carrier = |flow: u32| {
            let ends = [0, 1].map(|side| self.find_open_endpoint(flow, side, record));
            let current = ends.into_iter().flatten().filter(move |end| end.flow == Some(flow));
            current.map(Endpoint::unreported_delivered).sum::<u64>()
        };
        // Of MPTCP the connection has delivered what its subflows carried.
        let own = (!carriers.contains(&flow)).then_some(flow).into_iter();
        record.delivered + own.chain(carriers).map(of_carrier).sum::<u64>()
    }
}
