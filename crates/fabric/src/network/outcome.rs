//! Results of a network: recordings and final state.

use super::Network;
use crate::external::ExternalStackSamples;
use crate::failures::FailureSchedule;
use crate::flow::{FlowRecord, QueryRecord, Workload};
use crate::ids::SwitchId;
use crate::observers::deadlock::Deadlock;
use crate::observers::paths::{PathCounts, PathLog, PathRow};
use crate::observers::pause_tree::PauseInterval;
use crate::observers::ports::PortPriorityReport;
use crate::observers::sampler::Sample;
use crate::observers::states::StateLogRow;
use crate::observers::view::ObserverView;
use crate::plan::NetworkPlan;
use crate::records::FlowRecords;
use crate::switching::conweave::state::ConWeaveCounts;
use crate::switching::tunnel_state::TunnelCounts;
use crate::throughput::ThroughputSeries;
use crate::wire::capture::CapturedFrame;
use pauseframe_routing::FlowsByNextHop;
use pauseframe_units::{LinkId, NodeId, PortId, Time};
use std::collections::BTreeMap;

impl Network {
    /// Maximum number of simultaneously open endpoints, summed over partitions.
    pub fn peak_endpoints(&self) -> usize {
        self.workers.iter().map(|worker| worker.partition.endpoints.peak_endpoints()).sum()
    }

    /// Final observation at the end of a run: records changes since the last one.
    pub fn finish_observers(&mut self, now: Time) {
        let (clock, offset) = (self.clock_at(now), self.clock_offset);
        let view =
            ObserverView { plan: &self.plan, workers: &self.workers, partition_of: &self.partition_of };
        if let Some(detector) = &mut self.detector {
            detector.detect_at_end(view, self.guarded, clock, offset);
        }
        if self.state_log.as_ref().is_some_and(|log| now > log.last) {
            self.log_state_changes(now, true);
        }
    }

    /// Samples of an external stack since this was last read.
    pub fn take_stack_samples(&mut self) -> ExternalStackSamples {
        let external = self.workers[0].partition.endpoints.external.as_mut();
        external.map_or_else(ExternalStackSamples::default, |external| external.take_stack_samples())
    }

    /// Notes of an external stack after the run.
    pub fn stack_warnings(&mut self) -> Vec<String> {
        let external = self.workers[0].partition.endpoints.external.as_mut();
        external.map_or_else(Vec::new, |external| external.stack_warnings())
    }

    /// Warnings to read before trusting the run.
    pub fn warnings(&self) -> &[String] {
        self.plan.warnings()
    }

    /// The plan of the network.
    pub fn network_plan(&self) -> &NetworkPlan {
        &self.plan
    }

    /// Takes the samples since the last call.
    pub fn take_metric_samples(&mut self) -> Vec<Sample> {
        self.sampler.as_mut().map_or_else(Vec::new, |sampler| std::mem::take(&mut sampler.samples))
    }

    /// Takes the frames captured since the last call.
    pub fn take_captured_frames(&mut self) -> Vec<CapturedFrame> {
        let records = self.traffic.flow_records();
        self.frames.drain(..).map(|frame| frame.decode(&self.plan, records)).collect()
    }

    /// The deadlocks found so far.
    pub fn detected_deadlocks(&self) -> &[Deadlock] {
        self.detector.as_ref().map_or(&[], |detector| &detector.found)
    }

    /// The pause intervals so far, in the order in which they began.
    pub fn pause_intervals(&self) -> &[PauseInterval] {
        self.pause_log.as_ref().map_or(&[], |log| &log.intervals)
    }

    /// Number of pause intervals that exceeded the limit and were not recorded.
    pub fn unrecorded_pause_count(&self) -> u64 {
        self.pause_log.as_ref().map_or(0, |log| log.unrecorded)
    }

    /// State changes so far, in the order of time.
    pub fn state_log_rows(&self) -> &[StateLogRow] {
        self.state_log.as_ref().map_or(&[], |log| &log.changes)
    }

    /// When the state log became full; it lacks later changes.
    pub fn state_log_full_at(&self) -> Option<Time> {
        self.state_log.as_ref().and_then(|log| log.full)
    }

    /// The links that are down now.
    pub fn failed_links(&self) -> Vec<LinkId> {
        self.failures.as_ref().map_or_else(Vec::new, FailureSchedule::failed_links)
    }

    /// The number of unfinished flows whose packets need a link that is down now.
    pub fn flows_over_failed_links(&mut self, now: Time) -> usize {
        self.packed_flow_records(now);
        self.traffic.flows_over(&self.failed_links())
    }

    /// Bytes received by hosts over time.
    pub fn throughput_series(&self) -> ThroughputSeries {
        let mut all = ThroughputSeries::new(self.workloads);
        self.workers.iter().for_each(|worker| all.merge(&worker.partition.endpoints.throughput));
        all.merge(&self.replayed_throughput);
        self.traffic.throughput_within_servers().into_iter().for_each(|within| all.merge(within));
        all
    }

    /// The switch with the largest maximum backlog, and that backlog; the first of equal ones.
    pub fn max_backlog_switch(&self) -> Option<(NodeId, u64)> {
        let most = |number: u32| {
            self.workers.iter().map(|worker| worker.partition.ports.by_switch[SwitchId(number)].most).max()
        };
        let all = (0..).zip(&self.plan.switches);
        let all = all.map(|(number, node)| (*node, most(number).unwrap_or(0)));
        all.reduce(|best, other| if other.1 > best.1 { other } else { best })
    }

    /// SYNs that a marker dropped because they are not ECN-capable.
    pub fn not_ect_syn_drops(&self) -> u64 {
        self.workers.iter().map(|worker| worker.partition.ports.syn_drops_not_ect).sum()
    }

    /// Packets that crossed a link, ACKs included, pause frames not.
    pub fn total_packet_hops(&self) -> u64 {
        self.simulated_packet_hops() + self.memory.as_ref().map_or(0, |memory| memory.replayed_packet_hops())
    }

    /// Packets that are in queues, on links or in stacks.
    pub fn packets_in_network(&mut self) -> usize {
        self.workers.iter_mut().for_each(|worker| worker.receive_orders_and_frames());
        self.workers.iter().map(|worker| worker.partition.packets_in_network()).sum()
    }

    /// Flows started and flows finished so far.
    pub fn flow_counts(&self) -> (u64, u64) {
        self.traffic.flow_counts()
    }

    /// A workload by index, for its own results ([`Workload::as_any`]).
    pub fn workload(&self, index: usize) -> &dyn Workload {
        self.traffic.workload(index)
    }

    /// The transport of a flow, by index.
    pub fn transport_index(&self, flow: u32) -> usize {
        usize::from(self.traffic.flow_records().flow_record(flow).spec.transport)
    }

    /// The ports that the data of a flow cross by current routes; `None` if each packet picks its path. A flow on scale-up
    /// links crosses none.
    pub fn path_of_flow(&self, flow: u32) -> Option<Vec<PortId>> {
        self.traffic.path_of_flow(flow)
    }

    /// By switch and its equal next hops: the number of flows that take each, as the routes are now.
    pub fn flows_by_next_hop(&self) -> FlowsByNextHop {
        self.traffic.flows_by_next_hop()
    }

    /// Flowlets that took another port than the one before, at all switches.
    pub fn flowlet_moves(&self) -> u64 {
        let switches = self.workers.iter().flat_map(|worker| worker.partition.switching.switches.iter());
        switches.map(|switch| switch.hops.moves).sum()
    }

    /// What each switch has done for `ConWeave`, by its node.
    pub fn conweave_counts(&self) -> BTreeMap<NodeId, ConWeaveCounts> {
        let switches = self.workers.iter().flat_map(|worker| worker.partition.switching.switches.iter());
        switches.filter_map(|switch| Some((switch.node, switch.conweave.as_ref()?.counts))).collect()
    }

    /// Packets that each switch has sent into tunnels and received from them, by its node; empty without mux cables.
    pub fn tunnel_counts(&self) -> BTreeMap<NodeId, TunnelCounts> {
        let mut all: BTreeMap<NodeId, TunnelCounts> = BTreeMap::new();
        let partitions = self.workers.iter().map(|worker| &worker.partition.switching);
        for partition in partitions {
            let counts = partition.tunnels.iter().flat_map(|tunnels| tunnels.counts.iter());
            // A switch belongs to one partition: the others have counted nothing for it.
            let used =
                partition.switches.iter().zip(counts).filter(|(_, own)| **own != TunnelCounts::default());
            all.extend(used.map(|(switch, own)| (switch.node, *own)));
        }
        all
    }

    /// What each queue pair, connection and datagram flow sent through each port of switches, if that was recorded; by flow.
    pub fn path_rows(&self) -> Vec<PathRow> {
        let records = self.traffic.flow_records();
        let logs = self.workers.iter().filter_map(|worker| worker.partition.ctx.paths.as_deref());
        let row = |(key, port, counts): (u32, PortId, PathCounts)| {
            let flow = records.flow_of(key / 2);
            let queue_pair = key / 2 - records.carriers(flow).start;
            PathRow { flow, queue_pair, forward: key & 1 == 1, port, counts }
        };
        let mut rows: Vec<PathRow> = logs.flat_map(PathLog::counts).map(row).collect();
        rows.sort_unstable_by_key(|row| (row.flow, row.queue_pair, !row.forward, row.port));
        rows
    }

    /// Records of all flows; running flows are reported with their state at `now`.
    pub fn flow_records(&mut self, now: Time) -> Vec<FlowRecord> {
        self.packed_flow_records(now).iter().collect()
    }

    /// Packed records of all flows, for runs with many flows.
    pub fn packed_flow_records(&mut self, now: Time) -> &FlowRecords {
        self.traffic.record_pending_reports();
        for worker in &mut self.workers {
            worker.partition.endpoints.drain_counters(now, |counters| {
                self.traffic.record_counters(&counters);
            });
        }
        self.traffic.flow_records_at(now)
    }

    /// Job records of all workloads: completed ones, then running ones.
    pub fn query_records(&mut self) -> Vec<QueryRecord> {
        let now = self.now();
        self.packed_flow_records(now);
        self.traffic.query_records()
    }

    /// Consumes the network and returns the records of all flows.
    pub fn into_flow_records(mut self, now: Time) -> FlowRecords {
        self.packed_flow_records(now);
        self.traffic.into_flow_records()
    }

    /// Reports of all ports and their active priorities up to `now`, with replayed steps.
    pub fn port_reports(&self, now: Time) -> Vec<PortPriorityReport> {
        let mut reports = self.simulated_port_reports(self.clock_at(now));
        if let Some(memory) = &self.memory {
            memory.add_to_reports(&mut reports, now, self.clock_at(now));
        }
        reports
    }

    /// The same without replayed steps, up to `now` on the partitions' clock.
    pub(super) fn simulated_port_reports(&self, now: Time) -> Vec<PortPriorityReport> {
        let (view, classes) = (self.observer_view(), self.plan.priorities.len() as u8);
        let all = self.plan.all_ports().flat_map(|port| (0..classes).map(move |class| (port, class)));
        all.filter_map(|(port, class)| view.port_report(port, class, self.state_log.as_ref(), now)).collect()
    }
}
