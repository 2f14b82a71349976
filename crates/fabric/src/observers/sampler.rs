//! Samples of queues and flows: what is seen between two windows. Nothing in the network reads them back, and no run is longer
//! because of them: samples end with the last event of the network.

use crate::endpoint::Endpoint;
use crate::endpoint::queue_pair::PairEnd;
use crate::flow::{FlowRecord, FlowSpec, FlowStatus};
use crate::observers::view::View;
use crate::partition::Partition;
use crate::records::FlowRecords;
use pauseframe_units::{PortId, Priority, Span, Time};

/// What a sample tells.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Metric {
    /// Egress backlog, bytes.
    Backlog,
    /// Sent over the last interval, Gb/s on the wire without preamble and gap.
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
    /// Rate that the congestion control of a queue pair allows, in Gb/s.
    RdmaRate,
}

/// Whom a sample tells about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Entity {
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
    /// What it tells.
    pub metric: Metric,
    /// About whom.
    pub entity: Entity,
    /// In the metric's unit.
    pub value: f64,
}

/// What is sampled, and how often.
#[derive(Clone, Debug, Default)]
pub struct SamplePlan {
    /// Interval; zero: no samples.
    pub every: Span,
    /// Ports.
    pub ports: Vec<PortId>,
    /// By workload: whether its flows are sampled.
    pub workloads: Vec<bool>,
}

/// The sampler's memory of the last interval.
#[derive(Debug)]
pub(crate) struct Sampler {
    plan: SamplePlan,
    /// When it looks next.
    pub(crate) at: Option<Time>,
    pub(crate) samples: Vec<Sample>,
    /// By port of the plan and class: bytes sent, time paused.
    last_port: Vec<(f64, Span)>,
    /// Flows that are or were lately open: number, bytes delivered.
    watched: Vec<(u32, u64)>,
    next_flow: u32,
}

impl Sampler {
    /// Samples as `plan` says, from the first interval's end on; `slots`: of a port.
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

    /// Time to look. `is_over`: nothing but observation is pending, and observers alone keep no run alive.
    pub(crate) fn look(&mut self, view: View, records: &FlowRecords, now: Time, is_over: bool) {
        self.sample_ports(view, now);
        self.sample_flows(view, records, now);
        self.at = (!is_over).then(|| now + self.plan.every);
    }

    fn sample_ports(&mut self, view: View, now: Time) {
        let (interval, plan) = (self.plan.every.as_secs_f64(), view.plan);
        // Up to four samples a class: the loop below need not grow the list.
        self.samples.reserve(self.last_port.len() * 4);
        for (number, &port) in self.plan.ports.iter().enumerate() {
            let Partition { ports, ctx, .. } = view.sender(port);
            let in_service = ports.ports[port].left_in_service(ctx, now);
            for (class, &priority) in plan.priorities.iter().enumerate() {
                let index = plan.slot(port, class as u8);
                let (slot, account) = (&ports.slots[index], view.account(port, index));
                let unsent = in_service.as_ref().filter(|service| usize::from(service.class) == class);
                let sent = ports.sent(port, class as u8, &ctx.hot).bytes as f64
                    - unsent.map_or(0.0, |service| service.bytes_left);
                let is_paused = ports.ports[port].paused & 1 << class != 0;
                let (paused, _) = ports.paused_time(index, is_paused, now);
                let last = &mut self.last_port[(number << plan.class_bits) + class];
                let bits = (sent - last.0) * 8.0;
                let paused_fraction = (paused - last.1).as_secs_f64() / interval;
                *last = (sent, paused);
                let entity = Entity::PortPriority(port, priority);
                let mut add = |metric, value| self.samples.push(Sample { time: now, metric, entity, value });
                add(Metric::Backlog, slot.backlog as f64);
                add(Metric::Throughput, bits / interval / 1e9);
                if plan.is_lossless(class as u8) {
                    add(Metric::PausedFraction, paused_fraction);
                    add(Metric::Ingress, account.bytes as f64);
                }
            }
        }
    }

    fn sample_flows(&mut self, view: View, records: &FlowRecords, now: Time) {
        for record in records.range(self.next_flow as usize..records.len()) {
            if self.plan.workloads.get(usize::from(record.spec.workload)) == Some(&true) {
                self.watched.push((self.next_flow, 0));
            }
            self.next_flow += 1;
        }
        let interval = self.plan.every.as_secs_f64();
        let samples = &mut self.samples;
        self.watched.retain_mut(|(flow, last)| {
            let (entity, record) = (Entity::Flow(*flow), &records.get(*flow));
            let mut add = |metric, value| samples.push(Sample { time: now, metric, entity, value });
            let delivered = view.delivered(*flow, record);
            add(Metric::Goodput, (delivered - *last) as f64 * 8.0 / interval / 1e9);
            *last = delivered;
            let FlowSpec { source, destination, size, reply, transport, .. } = record.spec;
            let class = view.plan.class_of_transport[usize::from(transport)];
            // A small request draws a large response: who sends more is whose window tells something.
            let side = usize::from(reply > size);
            let [from, to] = if side == 0 { [source, destination] } else { [destination, source] };
            let (partition, host) = (view.partition(from), view.plan.host_number(from));
            if let Some(rate) = partition.endpoints.limited_rate(host, to, class, &partition.ports) {
                add(Metric::QcnRate, rate.as_gbps_f64());
            }
            if let Some(end) = partition.endpoints.pairs.at(*flow * 2 + side as u32) {
                add(Metric::RdmaRate, end.pair.rate() as f64 / 1e9);
            }
            // Datagrams have no sender to ask.
            let Some(sender) = view.end(*flow, side, record).map(|end| &end.connection) else {
                return record.status == FlowStatus::Running;
            };
            add(Metric::Cwnd, sender.cwnd() as f64);
            if sender.ssthresh() != u64::MAX {
                add(Metric::Ssthresh, sender.ssthresh() as f64);
            }
            if let Some(srtt) = sender.srtt() {
                add(Metric::Srtt, srtt.as_us_f64());
            }
            if let Some(alpha) = sender.alpha() {
                add(Metric::Alpha, alpha);
            }
            true
        });
    }
}

impl View<'_> {
    /// The end of a flow on this side, while it is open.
    fn end(&self, flow: u32, side: usize, record: &FlowRecord) -> Option<&Endpoint> {
        if self.sends_datagrams(record) {
            return None;
        }
        let node = if side == 0 { record.spec.source } else { record.spec.destination };
        self.partition(node).endpoints.known_endpoint(flow, side)
    }

    /// Bytes delivered by the queue pair of a flow on this side that have not been told of.
    fn of_pair(&self, flow: u32, side: usize, record: &FlowRecord) -> u64 {
        let node = if side == 0 { record.spec.source } else { record.spec.destination };
        let end = self.partition(node).endpoints.pairs.at(flow * 2 + side as u32);
        end.filter(|end| end.flow == Some(flow)).map_or(0, PairEnd::delivered)
    }

    fn sends_datagrams(&self, record: &FlowRecord) -> bool {
        self.plan.settings.transports[usize::from(record.spec.transport)].datagrams.is_some()
    }

    /// In-order bytes delivered so far to both applications of a flow: told and untold.
    fn delivered(&self, flow: u32, record: &FlowRecord) -> u64 {
        let untold = |side| match self.end(flow, side, record) {
            Some(end) if end.flow == Some(flow) => end.delivered(),
            _ => self.of_pair(flow, side, record),
        };
        let received = if self.sends_datagrams(record) {
            self.partition(record.spec.destination).endpoints.untold_of_sink(flow)
        } else {
            untold(0) + untold(1)
        };
        record.delivered + received
    }
}
