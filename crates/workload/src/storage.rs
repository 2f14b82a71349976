//! Storage: initiators read from targets and write to them, in a closed loop with a fixed number of operations under way.
//!
//! Each initiator has one queue to each target: a queue pair or a connection. On queue pairs an operation is one READ or one WRITE
//! by the initiator, and ends with the last response or the last acknowledgement. On TCP it is a command and its answer, as with `NVMe`
//! over TCP: the data travel with the command or with the answer. Operations of a queue end in the order in which they began. Not
//! modelled: the time of a target for its medium, and targets that read and write the memory of initiators (`NVMe` over RDMA).

use super::arrivals::Agenda;
use super::background::SIZES_DOC;
use super::context::{Context, SIZES, TIME_MAX, TIMES, known_host, refuse_again, two_hosts};
use super::maker::{Maker, Source, at};
use super::sizes::SizesSpec;
use pauseframe_engine::Rng;
use pauseframe_fabric::{FlowRecord, FlowSpec, FlowStatus, KeptConnection, StorageOperation, Workload};
use pauseframe_schema::reader::Table;
use pauseframe_schema::table;
use pauseframe_topology::Topology;
use pauseframe_units::{Bytes, NodeId, Span, Time};
use std::collections::BTreeSet;

/// A message of `InfiniBand` has at most 2 GiB.
const LARGEST: Bytes = Bytes(1 << 31);

/// Default size of a command capsule of NVMe/TCP.
pub const COMMAND: Bytes = Bytes(72);
/// Default size of its answer.
pub const ANSWER: Bytes = Bytes(24);

table! {
    /// Initiators that read from targets and write to them, each with a number of operations under way
    pub struct StorageSpec {
        /// Hosts that hold the data
        targets: Vec<String> = try_by(targets, context);
        /// Hosts that read and write
        initiators: Option<Vec<String>> = by(initiators, targets.as_deref().unwrap_or_default(), context);
        /// Operations under way between an initiator and a target
        queue_depth: u32 = or_in(1, 1..=65_536);
        /// Share of the operations that read
        read_share: f64 = or_in(1.0, 0.0..=1.0);
        /// Distribution of the bytes of an operation
        sizes: SizesSpec = try_section(|t| SizesSpec::read(t, "kind", None, SIZES_DOC, context)) => {
            let largest = sizes.as_ref().map_or(0, SizesSpec::largest);
            let message = || format!("the largest is above {LARGEST}, the largest message of a queue pair");
            t.check(largest <= LARGEST.0, "sizes", message, "lower it");
        };
        /// Number of operations between an initiator and a target
        count: Option<u32> = optional_in(1..=100_000_000, "none: until stop");
        /// Size of a command over TCP; queue pairs have none
        #[source = "NVMe/TCP: a command capsule"]
        command: Bytes = or_in(COMMAND, SIZES);
        /// Size of the answer to a write over TCP, and of what comes before the data of a read
        #[source = "NVMe/TCP: a response capsule, a header of data"]
        answer: Bytes = or_in(ANSWER, SIZES);
        /// Earliest start of an operation
        start: Span = or_in(Span::ZERO, TIMES);
        /// No operation starts after this time
        stop: Option<Span> = optional_in(Span(1)..=TIME_MAX, "none: the end of the run") => {
            let message = || "these operations have no end and neither has the run".to_owned();
            let ends = count.is_some() || stop.is_some() || context.stop.is_some();
            t.check(ends, "count", message, "set count or stop, or the stop of the scenario, as in stop = \"50 ms\"");
            let message = || format!("start ({start}) is not before it");
            t.check(stop.is_none_or(|stop| start < stop), "stop", message, "");
        };
    }
    pub fn try_read(t, context: &Context);
}

fn targets(t: &mut Table, key: &'static str, doc: &str, context: &Context) -> Option<Vec<String>> {
    two_hosts(t, context);
    let names: Vec<String> = t.required(key, doc)?;
    t.check(!names.is_empty(), key, || "[] names no host".to_owned(), "name one");
    for (index, name) in names.iter().enumerate() {
        known_host(t, &format!("{key}.{index}"), name, context);
    }
    refuse_again(t, key, Some(&names));
    Some(names)
}

fn initiators(
    t: &mut Table,
    key: &'static str,
    doc: &str,
    targets: &[String],
    context: &Context,
) -> Option<Vec<String>> {
    let names: Option<Vec<String>> = t.optional(key, "all hosts that are not targets", doc);
    for (index, name) in names.iter().flatten().enumerate() {
        let key = format!("{key}.{index}");
        known_host(t, &key, name, context);
        let message = || format!("{name:?} is the only target");
        t.check(targets != [name.clone()], &key, message, "name another target, or remove it here");
    }
    refuse_again(t, key, names.as_deref());
    let others = context.hosts.is_none_or(|hosts| hosts.count() > targets.len());
    let given = names.as_ref().map_or(others, |names| !names.is_empty());
    t.check(given, key, || "no host reads or writes".to_owned(), "name one that is not the only target");
    names
}

impl Source for StorageSpec {
    fn build(&self, maker: &Maker) -> Box<dyn Workload> {
        Box::new(Storage::new(self, maker))
    }

    fn starts(&self) -> Vec<Span> {
        vec![self.start]
    }

    fn planned_flows(&self, topology: &Topology, _: Option<Span>) -> Option<u64> {
        let is_target = |name: &String| self.targets.contains(name);
        let pairs = match &self.initiators {
            Some(names) => {
                let names: BTreeSet<&String> = names.iter().collect();
                let pairs = names.len() * self.targets.len();
                pairs - names.into_iter().filter(|name| is_target(name)).count()
            }
            None => (topology.hosts().count() - self.targets.len()) * self.targets.len(),
        };
        Some(pairs as u64 * u64::from(self.count?))
    }

    fn at_once(&self, hosts: u64) -> u64 {
        let initiators = self.initiators.as_ref().map_or(hosts, |names| names.len() as u64);
        initiators * self.targets.len() as u64 * u64::from(self.queue_depth)
    }
}

/// The operations of an initiator on a target.
#[derive(Debug)]
struct Queue {
    initiator: NodeId,
    target: NodeId,
    /// Operations that have a start, and that have begun.
    planned: u32,
    begun: u32,
    sizes: Rng,
    kinds: Rng,
}

#[derive(Debug)]
struct Storage {
    spec: StorageSpec,
    queues: Vec<Queue>,
    /// Starts of operations, by queue.
    agenda: Agenda,
    /// The common settings of the operations.
    template: FlowSpec,
    on_queue_pairs: bool,
}

impl Storage {
    fn new(spec: &StorageSpec, maker: &Maker) -> Storage {
        let targets = maker.named(Some(&spec.targets));
        let mut initiators = maker.named(spec.initiators.as_deref());
        initiators.retain(|host| spec.initiators.is_some() || !targets.contains(host));
        let depth = spec.queue_depth.min(spec.count.unwrap_or(u32::MAX));
        let queue = |(initiator, target): (NodeId, NodeId)| Queue {
            initiator,
            target,
            planned: depth,
            begun: 0,
            sizes: maker.stream(&format!("sizes/{}", target.0), initiator.0 as usize),
            kinds: maker.stream(&format!("reads/{}", target.0), initiator.0 as usize),
        };
        let pairs = initiators.iter().flat_map(|from| targets.iter().map(move |to| (*from, *to)));
        let queues: Vec<Queue> = pairs.filter(|(from, to)| from != to).map(queue).collect();
        let start = at(spec.start);
        let mut agenda = Agenda::until(spec.stop.map_or(Time::MAX, at));
        for number in 0..queues.len() {
            (0..depth).for_each(|_| agenda.enter(start, number));
        }
        Storage {
            template: maker.flow(targets[0], targets[0], Bytes::ZERO, start),
            on_queue_pairs: maker.context.is_queue_pair(maker.transport),
            spec: spec.clone(),
            queues,
            agenda,
        }
    }
}

impl Workload for Storage {
    fn next_start_time(&self) -> Option<Time> {
        self.agenda.next()
    }

    fn next_flow(&mut self) -> FlowSpec {
        let (start, number) = self.agenda.take().expect("asked for a flow only while next_start gives a time");
        let StorageSpec { sizes, read_share, command, answer, count, .. } = &self.spec;
        let queue = &mut self.queues[number];
        let bytes = sizes.draw(&mut queue.sizes);
        let reads = queue.kinds.uniform_unit() < *read_share;
        queue.begun += 1;
        let (first, last) = (queue.begun == 1, Some(queue.begun) == *count);
        let (command, answer) = if self.on_queue_pairs { (0, 0) } else { (command.0, answer.0) };
        let (size, reply) = if reads { (command, answer + bytes) } else { (command + bytes, answer) };
        FlowSpec {
            source: queue.initiator,
            destination: queue.target,
            size,
            reply,
            start,
            kept: Some(KeptConnection { number: number as u32, first, last }),
            operation: Some(if reads { StorageOperation::Read } else { StorageOperation::Write }),
            ..self.template
        }
    }

    /// The next operation begins when one ends. A queue that has failed ends.
    fn on_flow_finished(&mut self, flow: &FlowRecord, now: Time) {
        let number = flow.spec.kept.map_or(0, |kept| kept.number) as usize;
        let queue = &mut self.queues[number];
        let more = self.spec.count.is_none_or(|count| queue.planned < count);
        if more && flow.status == FlowStatus::Finished {
            queue.planned += 1;
            self.agenda.enter(now, number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sizes::List;
    use super::super::test_support::{assert_within, ended, make, racks};
    use super::*;
    use crate::WorkloadKind;

    fn spec() -> StorageSpec {
        StorageSpec {
            targets: vec!["h0".into()],
            initiators: None,
            queue_depth: 4,
            read_share: 0.7,
            sizes: SizesSpec::List(List { sizes: [4, 64, 1024].map(|kb| Bytes(kb << 10)).into() }),
            count: Some(10),
            command: Bytes(72),
            answer: Bytes(24),
            start: Span::from_us(3),
            stop: None,
        }
    }

    /// All operations in the order of their starts, each ending after a microsecond.
    fn operations(spec: StorageSpec) -> Vec<FlowSpec> {
        let mut workload = make(WorkloadKind::Storage(spec), &racks(1, 3));
        let (mut under_way, mut all) = (std::collections::VecDeque::new(), Vec::new());
        loop {
            while workload.next_start_time().is_some_and(|at| under_way.front().is_none_or(|(end, _)| at <= *end)) {
                let flow = workload.next_flow();
                under_way.push_back((flow.start + Span::from_us(1), flow));
                all.push(flow);
            }
            let most = under_way.iter().filter(|(_, flow)| flow.source == under_way[0].1.source).count();
            assert!(most <= 4, "{most} operations under way");
            let Some((end, flow)) = under_way.pop_front() else { return all };
            workload.on_flow_finished(&ended(flow, FlowStatus::Finished, end, 0), end);
        }
    }

    #[test]
    fn each_queue_keeps_its_depth_and_its_count() {
        let all = operations(spec());
        assert_eq!(all.len(), 20);
        for number in 0..2 {
            let of_queue: Vec<_> = all.iter().filter_map(|flow| flow.kept).filter(|kept| kept.number == number).collect();
            let ends: Vec<_> = of_queue.iter().map(|kept| (kept.first, kept.last)).collect();
            assert_eq!((ends[0], ends[9]), ((true, false), (false, true)));
            assert!(ends[1..9].iter().all(|ends| *ends == (false, false)));
        }
        assert_eq!(all.iter().filter(|flow| flow.start == at(Span::from_us(3))).count(), 8);
    }

    #[test]
    fn commands_and_data_have_their_sizes_and_shares() {
        let all = operations(StorageSpec { count: Some(5000), ..spec() });
        let (reads, writes): (Vec<&FlowSpec>, Vec<&FlowSpec>) = all.iter().partition(|flow| flow.operation == Some(StorageOperation::Read));
        assert_within(reads.len() as f64, 7000.0, 4.0 * (10_000.0f64 * 0.21).sqrt());
        assert!(reads.iter().all(|flow| flow.size == 72) && writes.iter().all(|flow| flow.reply == 24));
        for kb in [4, 64, 1024] {
            let of_size = reads.iter().filter(|flow| flow.reply == 24 + (kb << 10)).count() as f64;
            let n = reads.len() as f64;
            assert_within(of_size, n / 3.0, 4.0 * (n * 2.0 / 9.0).sqrt());
        }
    }
}
