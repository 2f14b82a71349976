//! What a network tells: what was recorded while it ran, and what came of it.

use super::Network;
use crate::endpoint::throughput::Throughput;
use crate::failures::Failures;
use crate::flow::{FlowRecord, QueryRecord, Workload};
use crate::ids::SwitchId;
use crate::observers::deadlock::Deadlock;
use crate::observers::pause_tree::PauseInterval;
use crate::observers::ports::PortReport;
use crate::observers::sampler::Sample;
use crate::observers::states::StateChange;
use crate::observers::view::View;
use crate::plan::Plan;
use crate::records::FlowRecords;
use crate::wire::capture::CapturedFrame;
use pauseframe_units::{LinkId, NodeId, PortId, Time};

impl Network {
    /// The most connection ends that were open together, of each partition, added up.
    pub fn most_connection_ends(&self) -> usize {
        self.workers.iter().map(|worker| worker.partition.endpoints.most_ends()).sum()
    }

    /// The run is over: what has changed or stopped since somebody looked last.
    pub fn finish_observation(&mut self, now: Time) {
        let view = View { plan: &self.plan, workers: &self.workers, partition_of: &self.partition_of };
        if let Some(detector) = &mut self.detector {
            detector.finish_observation(view, self.guarded, now);
        }
        if self.state_log.as_ref().is_some_and(|log| now > log.last) {
            self.sample_states(now, true);
        }
    }

    /// What a person should look at before trusting the run.
    pub fn warnings(&self) -> &[String] {
        self.plan.warnings()
    }

    /// What a stack outside of the simulator has to say after the run.
    pub fn stack_notes(&mut self) -> Vec<String> {
        let external = self.workers[0].partition.endpoints.external.as_mut();
        external.map_or_else(Vec::new, |external| external.notes())
    }

    /// What the network was made of.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Hands over the samples taken since the last call.
    pub fn take_samples(&mut self) -> Vec<Sample> {
        self.sampler.as_mut().map_or_else(Vec::new, |sampler| std::mem::take(&mut sampler.samples))
    }

    /// Hands over the frames captured since the last call.
    pub fn take_frames(&mut self) -> Vec<CapturedFrame> {
        let records = self.traffic.records();
        self.frames.drain(..).map(|frame| frame.read(&self.plan, records)).collect()
    }

    /// The deadlocks found so far.
    pub fn deadlocks(&self) -> &[Deadlock] {
        self.detector.as_ref().map_or(&[], |detector| &detector.found)
    }

    /// The pause intervals so far, in the order in which they began.
    pub fn pause_intervals(&self) -> &[PauseInterval] {
        self.pause_log.as_ref().map_or(&[], |log| &log.intervals)
    }

    /// How many pause intervals were not recorded because of the limit.
    pub fn unrecorded_pauses(&self) -> u64 {
        self.pause_log.as_ref().map_or(0, |log| log.unrecorded)
    }

    /// What has changed so far, in the order of time.
    pub fn state_changes(&self) -> &[StateChange] {
        self.state_log.as_ref().map_or(&[], |log| &log.changes)
    }

    /// When the log was full: later changes are not in it.
    pub fn states_full_at(&self) -> Option<Time> {
        self.state_log.as_ref().and_then(|log| log.full)
    }

    /// The links that are down now.
    pub fn links_down(&self) -> Vec<LinkId> {
        self.failures.as_ref().map_or_else(Vec::new, Failures::links_down)
    }

    /// What hosts have received over time.
    pub fn throughput(&self) -> Throughput {
        let mut all = Throughput::new(self.workloads);
        self.workers.iter().for_each(|worker| all.join(&worker.partition.endpoints.throughput));
        all
    }

    /// The switch that held the most bytes at once, and how many; the first of equal ones, none without a switch.
    pub fn fullest_switch(&self) -> Option<(NodeId, u64)> {
        let most = |number: u32| {
            self.workers.iter().map(|worker| worker.partition.ports.by_switch[SwitchId(number)].most).max()
        };
        let all = (0..).zip(&self.plan.switches);
        let all = all.map(|(number, node)| (*node, most(number).unwrap_or(0)));
        all.reduce(|best, other| if other.1 > best.1 { other } else { best })
    }

    /// SYNs that a marker dropped because they are not ECN-capable.
    pub fn syn_drops_not_ect(&self) -> u64 {
        self.workers.iter().map(|worker| worker.partition.ports.syn_drops_not_ect).sum()
    }

    /// Packets that crossed a link, ACKs included, pause frames not.
    pub fn packet_hops(&self) -> u64 {
        self.workers.iter().map(|worker| worker.partition.ctx.packet_hops).sum()
    }

    /// Packets that are in queues, on links or in stacks.
    pub fn packets_under_way(&mut self) -> usize {
        self.workers.iter_mut().for_each(|worker| worker.take_in());
        self.workers.iter().map(|worker| worker.partition.packets_under_way()).sum()
    }

    /// Flows started and flows finished so far.
    pub fn flow_counts(&self) -> (u64, u64) {
        self.traffic.flow_counts()
    }

    /// A workload, for what it has to tell ([`Workload::as_any`]).
    pub fn workload(&self, index: usize) -> &dyn Workload {
        self.traffic.workload(index)
    }

    /// The transport of a flow, by index.
    pub fn transport_of(&self, flow: u32) -> usize {
        usize::from(self.traffic.records().get(flow).spec.transport)
    }

    /// The ports that the data of a flow cross, by the routes of now; `None` where each packet picks its own.
    pub fn path_of(&self, flow: u32) -> Option<Vec<PortId>> {
        self.traffic.path_of(flow)
    }

    /// What came of each flow; those that still run are reported as they stand at `now`.
    pub fn flow_records(&mut self, now: Time) -> Vec<FlowRecord> {
        self.records(now).iter().collect()
    }

    /// The same packed, for runs of many flows.
    pub fn records(&mut self, now: Time) -> &FlowRecords {
        self.traffic.record_all();
        for worker in &mut self.workers {
            worker.partition.endpoints.drain_counters(now, |counters| self.traffic.count(&counters));
        }
        self.traffic.records_at(now)
    }

    /// The jobs of all workloads that have any: the complete ones, then those that still run.
    pub fn queries(&mut self) -> Vec<QueryRecord> {
        let now = self.now();
        self.records(now);
        self.traffic.queries()
    }

    /// What came of each flow, of a network that is no longer needed.
    pub fn into_records(mut self, now: Time) -> FlowRecords {
        self.records(now);
        self.traffic.into_records()
    }

    /// What each port did for each priority that it had to do with, up to `now`.
    pub fn port_reports(&self, now: Time) -> Vec<PortReport> {
        let (view, classes) = (self.view(), self.plan.priorities.len() as u8);
        let all = self.plan.ports().flat_map(|port| (0..classes).map(move |class| (port, class)));
        all.filter_map(|(port, class)| view.port_report(port, class, self.state_log.as_ref(), now)).collect()
    }
}
