//! The network with a memory of steps ([`crate::memory`]): where orders and reports cross its border, and its clock.

use super::Network;
use crate::failures::FailureSchedule;
use crate::memory::{
    CountersBefore, StatesLeft, StepCounts, StepMemory, StepMemoryReport, StepMemorySettings, count_step,
};
use crate::observers::pause_tree::RepeatedPauses;
use crate::order::{EndpointCounters, EndpointEvent, EndpointOrder, EndpointReport, TimedEndpointOrder};
use crate::settings::TransportSettings;
use pauseframe_rdma::IdleState;
use pauseframe_rdma::cc::RdmaControl;
use pauseframe_units::{Span, Time};

impl Network {
    /// Replays steps that repeat. For networks without samples, captures and events at given times, whose workloads send messages alone.
    pub fn remember_steps(&mut self, settings: StepMemorySettings) {
        self.memory = Some(Box::new(StepMemory::new(settings, self.plan.window)));
        let is_queue_pair = |transport: &TransportSettings| {
            transport.rdma().is_some_and(|rdma| matches!(rdma.pair.control, RdmaControl::BuiltIn(_)))
        };
        self.stands_still = !self.plan.settings.transports.iter().all(is_queue_pair);
    }

    /// What the memory of steps has done; `None` without one.
    pub fn step_memory_report(&self) -> Option<StepMemoryReport> {
        self.memory.as_ref().map(|memory| memory.step_memory_report())
    }

    /// The time that the clock of the partitions shows at `time`: it stands still while a step is replayed.
    pub(super) fn clock_at(&self, time: Time) -> Time {
        Time(time.0.saturating_sub(self.clock_offset.0))
    }

    pub(super) fn is_replaying(&self) -> bool {
        self.memory.as_ref().is_some_and(|memory| memory.is_replaying())
    }

    /// The orders of the traffic that the network executes: none while a step is replayed.
    pub(super) fn take_traffic_orders(&mut self) -> Vec<TimedEndpointOrder> {
        let orders = std::mem::take(&mut self.traffic.orders);
        let (Some(memory), Some(first)) = (&self.memory, orders.iter().min_by_key(|order| order.at)) else {
            return orders;
        };
        if memory.is_between_steps() && self.packets_in_network() == 0 {
            self.begin_step(first);
        }
        let Some(memory) = &mut self.memory else { return orders };
        let orders = memory.take_orders(orders);
        if orders.is_empty() { self.resume_failed_replay() } else { orders }
    }

    /// Ends the last step, and begins to replay or to simulate the next one.
    fn begin_step(&mut self, first: &TimedEndpointOrder) {
        let Some(mut memory) = self.memory.take() else { return };
        let packet_hops = self.simulated_packet_hops();
        let count = |before: &CountersBefore, begin| {
            let mut counts = self.count_step_since(before, begin);
            let states = self.queue_pairs_left(&counts.endpoints);
            counts.left = StatesLeft { begin: self.clock_at(begin), states };
            counts
        };
        if let Some(end) = memory.end_step(packet_hops, count) {
            self.simulated_until = self.clock_at(end);
        }
        // The clock does not go back.
        self.set_clock_offset(self.clock_offset.min(first.at.saturating_since(self.clock())));
        let changes = self.failures.as_ref().and_then(FailureSchedule::next_change_time);
        let horizon =
            [changes, self.next_observation_time()].into_iter().flatten().fold(self.limit, Time::min);
        if !memory.begin_step(first, horizon) {
            self.restore_queue_pairs(&mut memory);
            let before = memory.needs_counters(first).then(|| self.read_counters());
            memory.simulate_step(first.at, packet_hops, before);
        }
        self.memory = Some(memory);
    }

    /// If the orders of a replay have turned out different: those that the network has to execute from its begin on.
    fn resume_failed_replay(&mut self) -> Vec<TimedEndpointOrder> {
        let Some(mut memory) = self.memory.take() else { return Vec::new() };
        let failed = memory.take_failed_replay(self.acted_until);
        let orders = failed.map(|(begin, orders)| {
            self.restore_queue_pairs(&mut memory);
            let before = self.read_counters();
            memory.simulate_step(begin, self.simulated_packet_hops(), Some(before));
            memory.record_orders(&orders);
            orders
        });
        self.memory = Some(memory);
        orders.unwrap_or_default()
    }

    /// Gives the traffic the remembered reports before `end`; false if the network has to simulate the window instead.
    pub(super) fn replay_until(&mut self, end: Time) -> bool {
        let reaction = self.reaction.max(Span(1));
        let Some(memory) = &mut self.memory else { return false };
        let reports = memory.give_reports(end, reaction);
        let orders = self.resume_failed_replay();
        if !orders.is_empty() {
            self.send_orders(orders);
            return false;
        }
        self.reached = reports.first().map_or(end, |report| end.min(report.at + reaction));
        self.traffic.receive_reports(reports.into_iter());
        self.end_complete_replay();
        true
    }

    /// Adds what a replayed step counted, once it is over. The clock goes on from the end of the last simulated step.
    fn end_complete_replay(&mut self) {
        let Some(mut memory) = self.memory.take() else { return };
        if let Some(replayed) = memory.take_complete_replay() {
            let StepCounts { endpoints, pauses, .. } = replayed.counts;
            for counters in endpoints {
                self.traffic.record_counters(counters);
            }
            if let Some(log) = &mut self.pause_log {
                log.repeat_pause_intervals(pauses, replayed.begin);
            }
            for (after, endpoint_key, bytes) in replayed.arrivals {
                let workload = self.traffic.workload_of_endpoint(*endpoint_key);
                self.replayed_throughput.add_goodput(workload, *bytes, replayed.begin + *after);
            }
            self.replayed_until = replayed.end;
            if self.stands_still {
                self.set_clock_offset(replayed.end.saturating_since(self.simulated_until));
            }
        }
        self.memory = Some(memory);
    }

    /// The queue pairs that have counted something, as they are now.
    fn queue_pairs_left(&self, endpoints: &[EndpointCounters]) -> Vec<(u32, IdleState)> {
        let state = |counters: &EndpointCounters| {
            let endpoint_key = counters.flow * 2 + u32::from(counters.replies);
            let mut partitions = self.workers.iter().map(|worker| &worker.partition.endpoints);
            let end = partitions.find_map(|endpoints| endpoints.find_open_endpoint(endpoint_key))?;
            Some((endpoint_key, end.queue_pair()?.idle_state(counters.rdma.cnps_received > 0)))
        };
        endpoints.iter().filter_map(state).collect()
    }

    /// Before the network simulates a step: queue pairs are as replayed steps have left them.
    fn restore_queue_pairs(&mut self, memory: &mut StepMemory) {
        if self.stands_still {
            return;
        }
        for (begin, left) in memory.take_replayed() {
            let later = self.clock_at(begin).saturating_since(left.begin);
            for (endpoint_key, state) in &left.states {
                for worker in &mut self.workers {
                    worker.partition.endpoints.restore_queue_pair(*endpoint_key, state, later);
                }
            }
        }
    }

    pub(super) fn set_clock_offset(&mut self, offset: Span) {
        if offset != self.clock_offset {
            self.clock_offset = offset;
            self.for_each_partition(|partition| partition.endpoints.throughput.set_clock_offset(offset));
            self.workers.iter_mut().for_each(|worker| worker.publish_status());
        }
    }

    /// Packet hops that were simulated.
    pub(super) fn simulated_packet_hops(&self) -> u64 {
        self.workers.iter().map(|worker| worker.partition.ctx.packet_hops).sum()
    }

    /// Reads the counters of ports, and moves those of endpoints to the records.
    pub(super) fn read_counters(&mut self) -> CountersBefore {
        self.take_endpoint_counters();
        let now = self.clock();
        CountersBefore { now, ports: self.simulated_port_reports(now), pauses: self.pause_intervals().len() }
    }

    pub(super) fn count_step_since(&mut self, before: &CountersBefore, begin: Time) -> StepCounts {
        let (now, endpoints) = (self.clock(), self.take_endpoint_counters());
        let pauses = RepeatedPauses {
            begin,
            first: before.pauses as u32,
            intervals: self.pause_intervals()[before.pauses..].to_vec(),
        };
        count_step(before, now, self.simulated_port_reports(now), endpoints, pauses)
    }

    /// The clock of the partitions.
    pub(super) fn clock(&self) -> Time {
        self.workers.iter().map(|worker| worker.partition.ctx.now()).max().unwrap_or_default()
    }

    /// Adds the counters of all endpoints to the records, and returns them.
    fn take_endpoint_counters(&mut self) -> Vec<EndpointCounters> {
        let mut all = Vec::new();
        for worker in &mut self.workers {
            worker.partition.endpoints.drain_counters(self.reached, |counters| all.push(counters));
        }
        for counters in &all {
            self.traffic.record_counters(counters);
        }
        all
    }

    /// An order with times of the partitions' clock.
    pub(super) fn order_on_clock(&self, mut order: TimedEndpointOrder) -> TimedEndpointOrder {
        order.at = self.clock_at(order.at);
        if let EndpointOrder::Open(opening) = &mut order.order {
            opening.spec.start = self.clock_at(opening.spec.start);
        }
        order
    }

    /// A report with times of the applications, from one with times of the partitions' clock.
    pub(super) fn report_off_clock(&self, mut report: EndpointReport) -> EndpointReport {
        let offset = self.clock_offset;
        report.at += offset;
        match &mut report.event {
            EndpointEvent::DatagramsReceived(last) => *last += offset,
            EndpointEvent::Counted(EndpointCounters { connected: Some(connected), .. }) => {
                *connected += offset;
            }
            _ => {}
        }
        report
    }
}
