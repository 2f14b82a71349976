//! The network: partitions, traffic, and the windows in which partitions run.
//!
//! A window is at most as long as the shortest delay between two nodes, and as the reaction time of the traffic. So the traffic acts first, for all
//! times up to the end of the window. Then every partition runs independently up to that end, on its own thread if there are several, because frames
//! of other partitions arrive later. If applications react faster than a window, all nodes form one partition, which stops at each completion.
//! Between windows no partition runs: the network delivers frames that crossed a boundary, passes reports of hosts to the traffic, applies link
//! failures and repairs, and runs the observers.

mod observers;
mod outcome;
mod rounds;
mod steps;

use crate::endpoint::HostPairPaths;
use crate::external::{ExternalStack, ExternalStackFailure};
use crate::failures::{FailureSchedule, LinkOrRouteChange};
use crate::flow::Workload;
use crate::frame::PacketPool;
use crate::host_ports::PortReach;
use crate::ids::HostId;
use crate::invariants::{InvariantCheckSchedule, check_invariants};
use crate::memory::StepMemory;
use crate::observers::deadlock::DeadlockDetector;
use crate::observers::notes::PauseChange;
use crate::observers::pause_tree::PauseIntervalLog;
use crate::observers::sampler::Sampler;
use crate::observers::states::StateLog;
use crate::observers::view::{ObserverView, PartitionByNode};
use crate::order::{EndpointReport, EndpointReroute, TimedEndpointOrder};
use crate::partition::Partition;
use crate::plan::NetworkPlan;
use crate::rows::TrafficPathTable;
use crate::settings::Settings;
use crate::switching::paths::longest_path_length;
use crate::thread_pool::{CatchPanic, ThreadPool, run_on_temporary_threads};
use crate::throughput::ThroughputSeries;
use crate::traffic::{FramePosition, Traffic};
use crate::wire::capture::RawCapturedFrame;
use crate::worker::{PartitionWorker, swap_outboxes_and_inboxes};
use pauseframe_engine::{Fingerprint, RunCallbackDecision, RunEnding, RunLimits, RunProgress};
use pauseframe_routing::NextHops;
use pauseframe_topology::Topology;
use pauseframe_units::{IndexVec, LinkId, NodeId, PortId, Span, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of windows that a single partition runs at once while no application is notified.
const MAX_WINDOWS_PER_BATCH: u64 = 1 << 10;
/// Maximum number of events for such a batch of windows.
const MAX_EVENTS_PER_BATCH: u64 = 1 << 15;

/// A running network.
#[derive(Debug)]
pub struct Network {
    plan: Arc<NetworkPlan>,
    routes: Arc<NextHops>,
    workers: Vec<Box<PartitionWorker>>,
    partition_of: PartitionByNode,
    traffic: Traffic,
    /// Time from a report to its first consequence; at most a window.
    reaction: Span,
    stride: usize,
    workloads: usize,
    /// All windows before this time have run.
    reached: Time,
    /// The traffic has acted for all times before this.
    acted_until: Time,
    /// The run ends at this time at the latest.
    limit: Time,
    memory: Option<Box<StepMemory>>,
    /// What the clock of the partitions lacks, because it stands still while steps are replayed.
    clock_offset: Span,
    /// On that clock: the last report of the last simulated step.
    simulated_until: Time,
    /// The clock of the partitions stands still during replays.
    stands_still: bool,
    /// The end of the last replay.
    replayed_until: Time,
    /// Application bytes of replayed steps.
    replayed_throughput: ThroughputSeries,
    /// Number of windows that a single partition runs at once.
    windows_at_once: u64,
    capture_left: u64,
    frames: Vec<RawCapturedFrame>,
    sampler: Option<Sampler>,
    pause_log: Option<PauseIntervalLog>,
    state_log: Option<StateLog>,
    detector: Option<DeadlockDetector>,
    failures: Option<FailureSchedule>,
    guarded: bool,
    invariants: InvariantCheckSchedule,
}

/// A failed assertion in a partition on another thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionPanic {
    /// The violated condition and its place.
    pub message: String,
    /// It is a failure of the stack outside of the simulator, not an assertion.
    pub of_stack: bool,
}

impl Network {
    /// Builds an idle network of one partition.
    ///
    /// # Panics
    /// If a host of `topology` has not exactly one link, or a flow names a transport that `settings` has not.
    #[expect(clippy::needless_pass_by_value, reason = "a network takes what it is made of; of_plan shares")]
    pub fn new(
        topology: Arc<Topology>,
        routes: Arc<NextHops>,
        settings: Arc<Settings>,
        workloads: Vec<Box<dyn Workload>>,
        stop_when_finished: bool,
    ) -> Network {
        Network::from_plan(
            &Arc::new(NetworkPlan::new(topology, settings)),
            &routes,
            workloads,
            stop_when_finished,
        )
    }

    /// Builds an idle network from a plan.
    pub fn from_plan(
        plan: &Arc<NetworkPlan>,
        routes: &Arc<NextHops>,
        workloads: Vec<Box<dyn Workload>>,
        stop_when_finished: bool,
    ) -> Network {
        let has_rows = plan.settings.hop_choice.is_none() && plan.settings.vlans.is_none();
        let longest = if has_rows { longest_path_length(&plan.topology, routes) } else { 0 };
        // A detour adds at most another path, and two places of a tunnel.
        let has_detours = plan.settings.dual_tor.is_some() || plan.settings.mlag.is_some();
        let stride = if has_rows && has_detours { 2 * longest + 2 } else { longest };
        let count = workloads.len();
        let rows = TrafficPathTable::new(stride, has_rows);
        let traffic = Traffic::new(plan, routes, workloads, stop_when_finished, rows);
        let reaction = traffic.min_reaction_time();
        Network {
            workers: vec![Box::new(PartitionWorker::new(
                Partition::new(plan, routes, stride, count, reaction),
                1,
            ))],
            partition_of: plan.topology.nodes().ids().map(|_| 0).collect(),
            traffic,
            reaction,
            stride,
            workloads: count,
            reached: Time::ZERO,
            acted_until: Time::ZERO,
            limit: Time::MAX,
            memory: None,
            clock_offset: Span::ZERO,
            simulated_until: Time::ZERO,
            stands_still: true,
            replayed_until: Time::ZERO,
            replayed_throughput: ThroughputSeries::new(count),
            windows_at_once: 1,
            capture_left: 0,
            frames: Vec::new(),
            sampler: None,
            pause_log: None,
            state_log: None,
            detector: None,
            failures: None,
            guarded: false,
            invariants: InvariantCheckSchedule::new(plan),
            plan: Arc::clone(plan),
            routes: Arc::clone(routes),
        }
    }

    /// Whether some workload starts flows or messages when others have ended.
    pub fn has_dependent_flows(&self) -> bool {
        self.traffic.has_closed_loops()
    }

    /// The smallest reaction time with which this network could be divided; `None` if it can be divided already.
    pub fn required_reaction_time(&self) -> Option<Span> {
        (self.reaction < self.plan.window).then_some(self.plan.window)
    }

    /// Divides an idle network into partitions: `partition_of` is the partition of each node, from 0 on. Results do not change.
    ///
    /// # Panics
    /// If the network has been configured or run before, its applications react too fast, a partition has no node, or a host lies in two.
    pub fn divide_into_partitions(&mut self, partition_of: &[u16]) {
        assert!(self.has_not_started(), "a network is divided before anything else");
        assert!(
            self.required_reaction_time().is_none(),
            "applications that react within a window share a partition"
        );
        let count = partition_of.iter().max().map_or(1, |most| usize::from(*most) + 1);
        assert!(
            (0..count).all(|partition| partition_of.contains(&(partition as u16))),
            "every partition has a node"
        );
        self.partition_of = partition_of.iter().copied().collect();
        let of = |port: &NodeId| self.partition_of[*port];
        assert!(
            self.plan
                .topology
                .ports_of_hosts()
                .iter()
                .all(|(host, ports)| ports.iter().all(|port| of(port) == of(host))),
            "the ports of a host share a partition"
        );
        let partition =
            |_| Partition::new(&self.plan, &self.routes, self.stride, self.workloads, self.reaction);
        self.workers = (0..count)
            .map(partition)
            .map(|partition| Box::new(PartitionWorker::new(partition, count)))
            .collect();
        let topology = &self.plan.topology;
        for port in self.plan.all_ports() {
            let (from, to) =
                (self.partition_of[topology.owner(port)], self.partition_of[topology.peer(port)]);
            if from != to {
                let Partition { ports, ctx, .. } = &mut self.workers[usize::from(from)].partition;
                ports.set_cross_partition(port, to, ctx);
            }
        }
    }

    fn has_not_started(&self) -> bool {
        let observers = self.sampler.is_some() || self.state_log.is_some() || self.detector.is_some();
        self.reached == Time::ZERO && self.failures.is_none() && !observers && self.capture_left == 0
    }

    /// Hosts belong to a stack outside of the simulator, which the only partition runs.
    ///
    /// # Panics
    /// If the network is divided or not idle.
    pub fn attach_external_stack(&mut self, stack: Box<dyn ExternalStack>) {
        assert!(
            self.workers.len() == 1 && self.reached == Time::ZERO,
            "a stack joins an idle network of one partition"
        );
        self.workers[0].partition.attach_external_stack(stack);
        self.assign_program_paths(Time::ZERO);
    }

    /// Frames of programs get paths, and those that they had are given up at `now`. The run lasts as long as the programs.
    fn assign_program_paths(&mut self, now: Time) {
        let Some(external) = &mut self.workers[0].partition.endpoints.external else { return };
        if external.has_running_programs() {
            self.traffic.keep_running();
            let hosts = self.plan.hosts.iter().enumerate();
            let owned =
                hosts.filter(|(host, _)| external.owns_host(HostId(*host as u32))).map(|(_, node)| *node);
            let paths = HostPairPaths::between_hosts(owned.collect(), |pair, choice| {
                self.traffic.add_program_row(pair, choice)
            });
            if let Some(before) = external.replace_paths(paths) {
                self.traffic.retire_rows(before.rows(), now);
            }
        }
    }

    /// The number of partitions.
    pub fn partition_count(&self) -> usize {
        self.workers.len()
    }

    /// The current simulated time.
    pub fn now(&self) -> Time {
        (self.clock() + self.clock_offset).max(self.replayed_until)
    }

    fn observer_view(&self) -> ObserverView<'_> {
        ObserverView { plan: &self.plan, workers: &self.workers, partition_of: &self.partition_of }
    }

    /// The partition of the node that sends by `port`.
    fn owner_partition(&mut self, port: PortId) -> &mut Partition {
        &mut self.workers[usize::from(self.partition_of[self.plan.topology.owner(port)])].partition
    }

    /// The partition of the node that receives from `port`.
    fn peer_partition(&mut self, port: PortId) -> &mut Partition {
        &mut self.workers[usize::from(self.partition_of[self.plan.topology.peer(port)])].partition
    }

    fn for_each_partition(&mut self, change: impl FnMut(&mut Partition)) {
        self.workers.iter_mut().map(|worker| &mut worker.partition).for_each(change);
    }

    /// Runs until a limit, until no events are left, until all flows are finished, or until `observe` requests a stop.
    ///
    /// # Errors
    /// If an assertion fails in a partition on another thread, or in its recount; `catch_panic` supplies the message. The first partition
    /// runs on this thread, where a failure is a panic.
    pub fn run(
        &mut self,
        limits: RunLimits,
        catch_panic: CatchPanic,
        mut observe: impl FnMut(&mut Network, RunProgress) -> RunCallbackDecision,
    ) -> Result<RunEnding, PartitionPanic> {
        let others = self.workers.len() - 1;
        let ending = if others == 0 {
            self.run_windows(limits, &mut None, catch_panic, &mut observe)?
        } else {
            std::thread::scope(|scope| {
                let pool = ThreadPool::new(scope, others, catch_panic);
                self.run_windows(limits, &mut Some(pool), catch_panic, &mut observe)
            })?
        };
        self.check_invariants(catch_panic)?;
        Ok(ending)
    }

    /// Checks all invariants of all partitions.
    pub(crate) fn check_invariants(&mut self, catch_panic: CatchPanic) -> Result<(), PartitionPanic> {
        self.workers.iter_mut().for_each(|worker| worker.receive_orders_and_frames());
        let view =
            ObserverView { plan: &self.plan, workers: &self.workers, partition_of: &self.partition_of };
        self.invariants.schedule_next(view, self.workers.iter().map(|worker| worker.status.events).sum());
        let look = |number| check_invariants(view, number);
        run_on_temporary_threads(self.workers.len(), catch_panic, look)
            .map_err(|message| PartitionPanic { message, of_stack: false })
    }

    /// The last partition, for tests that corrupt counters.
    #[cfg(test)]
    pub(crate) fn last_partition(&mut self) -> &mut Partition {
        &mut self.workers.last_mut().expect("a network has a partition").partition
    }

    fn run_windows(
        &mut self,
        limits: RunLimits,
        pool: &mut Option<ThreadPool>,
        catch_panic: CatchPanic,
        observe: &mut dyn FnMut(&mut Network, RunProgress) -> RunCallbackDecision,
    ) -> Result<RunEnding, PartitionPanic> {
        self.workers.iter_mut().for_each(|worker| worker.publish_status());
        self.limit = limits.time;
        let (mut watched, mut turns) = (self.event_count(), 0);
        loop {
            if let Some(over) = self.traffic.finished_at().filter(|over| *over <= self.reached) {
                return Ok(self.run_ending(over, false));
            }
            let Some(start) = self.next_event_time().filter(|start| *start <= limits.time) else {
                return Ok(
                    self.run_ending(if limits.time == Time::MAX { self.now() } else { limits.time }, false)
                );
            };
            if self.apply_due_failures(start) {
                continue;
            }
            let end = self.begin_window(start, limits.time);
            let end = end + self.leave_out_rounds();
            if !(self.is_replaying() && self.replay_until(end)) {
                self.run_workers(end, pool)?;
            }
            self.check_external_stack()?;
            if let Some(stopped) = self.run_due_observers(self.reached) {
                return Ok(self.run_ending(stopped, false));
            }
            // A window counts as an event, so the progress callback runs even if only samples are taken.
            turns += 1;
            let events = self.event_count();
            if self.invariants.is_due(events) {
                self.check_invariants(catch_panic)?;
            }
            if events + turns - watched >= limits.watch_every {
                watched = events + turns;
                let now = self.reached.min(limits.time);
                if observe(self, RunProgress { now, events }) == RunCallbackDecision::Stop {
                    return Ok(self.run_ending(now, true));
                }
            }
        }
    }

    /// A stack outside of the simulator that has failed ends the run.
    fn check_external_stack(&mut self) -> Result<(), PartitionPanic> {
        let Some(external) = &mut self.workers[0].partition.endpoints.external else { return Ok(()) };
        if !external.has_running_programs() {
            self.traffic.allow_finish(self.reached);
        }
        match external.take_failure() {
            Some(ExternalStackFailure(message)) => Err(PartitionPanic { message, of_stack: true }),
            None => Ok(()),
        }
    }

    fn event_count(&self) -> u64 {
        self.workers.iter().map(|worker| worker.status.events).sum()
    }

    fn run_ending(&self, now: Time, interrupted: bool) -> RunEnding {
        let mut fingerprint = Fingerprint::default();
        self.workers.iter().for_each(|worker| fingerprint.merge(worker.tally.fingerprint));
        let (within_servers, ends) = self.traffic.tally_within_servers();
        fingerprint.merge(within_servers);
        RunEnding { now, events: self.event_count() + ends, fingerprint, interrupted }
    }

    /// Time of the next event of any kind.
    fn next_event_time(&self) -> Option<Time> {
        let clocks = self.workers.iter().filter_map(|worker| worker.status.next).min();
        let workers = match &self.memory {
            Some(memory) if memory.is_replaying() => memory.next_report_time(),
            // Timers that ran out during replays are due at once.
            _ => clocks.map(|next| next.saturating_add(self.clock_offset).max(self.replayed_until)),
        };
        let failures = self.failures.as_ref().and_then(FailureSchedule::next_change_time);
        let others = [self.next_observation_time(), self.next_round_snapshot()];
        [workers, self.traffic.next_time(), failures].into_iter().chain(others).flatten().min()
    }

    /// Time of the next observation.
    fn next_observation_time(&self) -> Option<Time> {
        let sampler = self.sampler.as_ref().and_then(|sampler| sampler.at);
        let states = self.state_log.as_ref().and_then(|log| log.at);
        let detector = self.detector.as_ref().and_then(|detector| detector.at);
        let detector = detector.map(|at| at.saturating_add(self.clock_offset));
        [sampler, states, detector].into_iter().flatten().min()
    }

    /// Lets the traffic act in the window that begins at `start`; returns the end of the window. Failures precede all other events of their instant,
    /// and observers follow them.
    fn begin_window(&mut self, start: Time, limit: Time) -> Time {
        let failure = self.failures.as_ref().and_then(FailureSchedule::next_change_time);
        let look = self.next_observation_time().map(|look| look + Span(1));
        // Deadlock detection follows a pause by some time, and a pause may begin now.
        let detector = self
            .detector
            .as_ref()
            .and_then(|detector| detector.earliest_check_time(self.clock_at(start), self.plan.window))
            .map(|check| check.saturating_add(self.clock_offset));
        let last = [failure, look, detector, self.next_round_snapshot()]
            .into_iter()
            .flatten()
            .fold(limit.saturating_add(Span(1)), Time::min);
        // The traffic acts ahead as far as no report can intervene.
        let mut end = last.min(start.saturating_add(self.reaction.max(Span(1))));
        self.traffic.run_until(end);
        self.acted_until = self.acted_until.max(end);
        if self.workers.len() == 1 {
            // With one partition no other sends, and the first report ends the window when the traffic acts on it (`Context::report_event`).
            let windows_at_once = start.saturating_add(Span(self.plan.window.0 * self.windows_at_once));
            end = end.max(
                self.traffic.next_time().map_or(windows_at_once, |next| next.min(windows_at_once)).min(last),
            );
        }
        let end = self.traffic.finished_at().map_or(end, |over| end.min(over));
        self.dispatch_orders(start);
        end
    }

    /// Sends orders, paths and hosts of flows from the traffic to the workers, which process them at the start of the window.
    fn dispatch_orders(&mut self, now: Time) {
        if let Some(update) = self.traffic.take_partition_update().map(Arc::new) {
            for worker in &mut self.workers {
                worker.updates.push(Arc::clone(&update));
            }
        }
        let orders = self.take_traffic_orders();
        self.send_orders(orders);
        let workers = &mut self.workers;
        self.traffic.rows.retire_due(now);
        if self.traffic.rows.is_reclaim_due() {
            for worker in workers.iter_mut() {
                worker.receive_orders_and_frames();
            }
            let pools = || workers.iter().map(|worker| &worker.partition.ctx.packets);
            let rows_of_packets = pools().flat_map(|pool| pool.iter().map(|packet| packet.route));
            self.traffic.rows.reclaim_unused(rows_of_packets, pools().map(PacketPool::entry_count).sum());
        }
    }

    fn send_orders(&mut self, orders: Vec<TimedEndpointOrder>) {
        for order in orders {
            let order = self.order_on_clock(order);
            self.workers[usize::from(self.partition_of[order.host])].orders.push(order);
        }
    }

    /// Runs all partitions up to `end` and exchanges crossing frames.
    fn run_workers(&mut self, end: Time, pool: &mut Option<ThreadPool>) -> Result<(), PartitionPanic> {
        let (before, end) = (self.event_count(), self.clock_at(end));
        match pool {
            Some(pool) => pool
                .run_workers(&mut self.workers, end)
                .map_err(|message| PartitionPanic { message, of_stack: false })?,
            None => self.workers.iter_mut().for_each(|worker| worker.run_until(end)),
        }
        swap_outboxes_and_inboxes(&mut self.workers);
        // A single partition may have stopped earlier, so that the traffic can react.
        self.reached = self.workers[0].status.end + self.clock_offset;
        self.receive_reports();
        let crowd = self.event_count() - before > MAX_EVENTS_PER_BATCH;
        self.windows_at_once = if crowd {
            (self.windows_at_once / 2).max(1)
        } else {
            (self.windows_at_once * 2).min(MAX_WINDOWS_PER_BATCH)
        };
        Ok(())
    }

    /// Passes the reports of hosts to the traffic.
    fn receive_reports(&mut self) {
        let reports = self.workers.iter_mut().flat_map(|worker| worker.status.reports.drain(..));
        let mut reports: Vec<EndpointReport> = reports.collect();
        if self.memory.is_some() {
            reports = reports.into_iter().map(|report| self.report_off_clock(report)).collect();
        }
        reports.sort_by_key(|report| (report.at, report.endpoint_key));
        if let Some(memory) = &mut self.memory {
            memory.take_reports(&mut reports);
        }
        self.traffic.receive_reports(reports.into_iter());
    }

    /// Applies failures and route updates that are due at `now`; true if there were any.
    fn apply_due_failures(&mut self, now: Time) -> bool {
        let Some(failures) = &mut self.failures else { return false };
        let Some(change) = failures.take_due_change(&self.plan.topology, now) else { return false };
        self.workers.iter_mut().for_each(|worker| worker.receive_orders_and_frames());
        // Failures are not events, so the clock is set for them and restored afterwards.
        let clock = self.clock_at(now);
        let last: Vec<Time> =
            self.workers.iter_mut().map(|worker| worker.partition.ctx.queue.set_now(clock)).collect();
        match change {
            LinkOrRouteChange::Links(links) => self.set_link_states(&links, clock),
            LinkOrRouteChange::Reroute(routes, ports) => self.reroute(&routes, &ports, now),
            LinkOrRouteChange::HostPort(port, is_down) => {
                let changed = self.traffic.on_port_noticed(port, is_down, now);
                // Otherwise a host chooses for new frames only.
                if self.plan.settings.dual_tor.is_some() {
                    self.reroute_frames(now);
                }
                self.reroute_endpoints(&changed, now);
            }
        }
        for (worker, last) in self.workers.iter_mut().zip(last) {
            worker.partition.ctx.queue.set_now(last);
        }
        // Frames that a port sent when its link came back cross now, because they may arrive before the next window ends.
        swap_outboxes_and_inboxes(&mut self.workers);
        for worker in &mut self.workers {
            worker.receive_orders_and_frames();
            worker.publish_status();
        }
        self.receive_reports();
        true
    }

    /// All links of a node go down together, before their queues are emptied: what that frees is announced over no link that is about to go down.
    fn set_link_states(&mut self, links: &[(LinkId, bool)], now: Time) {
        let ends = |link| [PortId::of_link(link, 0), PortId::of_link(link, 1)];
        let going_down = || links.iter().filter(|(_, down)| *down).flat_map(move |(link, _)| ends(*link));
        for port in going_down() {
            self.owner_partition(port).take_link_down(port);
            self.peer_partition(port).lose_frames_in_flight(port);
        }
        for port in going_down() {
            self.owner_partition(port).discard_queued_packets(port);
        }
        for (link, _) in links.iter().filter(|(_, down)| !down) {
            self.bring_link_up(ends(*link), now);
        }
    }

    fn bring_link_up(&mut self, ends: [PortId; 2], now: Time) {
        for port in ends {
            self.owner_partition(port).bring_link_up(port, now);
        }
        for port in ends {
            self.peer_partition(port).resend_pause_requests(port);
        }
        for port in ends {
            self.owner_partition(port).start_or_schedule(port);
        }
    }

    fn reroute(&mut self, routes: &Arc<NextHops>, host_ports: &[(NodeId, PortReach)], now: Time) {
        self.routes = Arc::clone(routes);
        self.workers.iter_mut().for_each(|worker| worker.partition.switching.routes = Arc::clone(routes));
        let changed = self.traffic.on_new_routes(routes, host_ports, now);
        self.assign_program_paths(now);
        self.reroute_frames(now);
        self.reroute_endpoints(&changed, now);
    }

    fn reroute_endpoints(&mut self, changed: &[EndpointReroute], now: Time) {
        self.dispatch_orders(now);
        for reroute in changed {
            self.workers[usize::from(self.partition_of[reroute.holder])].partition.reroute_endpoint(reroute);
        }
    }

    /// Gives frames under way the paths from their next switches on by the current routes.
    fn reroute_frames(&mut self, now: Time) {
        let mut routes: BTreeMap<FramePosition, Option<u32>> = BTreeMap::new();
        for worker in &mut self.workers {
            let packets = worker.partition.ctx.packets.iter_mut().filter(|packet| packet.is_flow_packet());
            for packet in packets {
                let Some(to) = packet.destination_endpoint_key() else { continue };
                let position = FramePosition { route: packet.route, hop: packet.hop, to };
                let traffic = &mut self.traffic;
                let route = routes.entry(position).or_insert_with(|| traffic.current_route(position, now));
                packet.route = route.unwrap_or(packet.route);
            }
        }
    }

    /// Passes notes to observers and samples when due; returns the end time if an observer ends the run.
    fn run_due_observers(&mut self, end: Time) -> Option<Time> {
        self.collect_records();
        let now = Time(end.0.checked_sub(1)?);
        // Applications may still act at this time.
        let acts = self.traffic.next_time().is_some_and(|next| next <= now);
        if acts || self.next_observation_time().is_none_or(|look| look > now) {
            return None;
        }
        self.workers.iter_mut().for_each(|worker| worker.receive_orders_and_frames());
        let is_over = self.traffic.next_time().is_none()
            && self.failures.as_ref().is_none_or(|failures| failures.next_change_time().is_none())
            && self.workers.iter_mut().all(|worker| worker.next_event_time().is_none());
        let view =
            ObserverView { plan: &self.plan, workers: &self.workers, partition_of: &self.partition_of };
        if let Some(sampler) = self.sampler.as_mut().filter(|sampler| sampler.at == Some(now)) {
            sampler.sample_and_reschedule(view, self.traffic.flow_records(), now, is_over);
        }
        let mut stopped = None;
        let (clock, offset) = (self.clock_at(now), self.clock_offset);
        if let Some(detector) = self.detector.as_mut().filter(|detector| detector.at == Some(clock))
            && detector.detect_if_due(view, clock, offset, is_over)
        {
            stopped = detector.stops.then_some(now);
        }
        if self.state_log.as_ref().is_some_and(|log| log.at == Some(now)) {
            self.log_state_changes(now, is_over);
        }
        stopped
    }

    fn log_state_changes(&mut self, now: Time, is_over: bool) {
        let Some(log) = &mut self.state_log else { return };
        let mut peaks = IndexVec::new();
        for slot in self.plan.all_slots() {
            let owner = self.plan.topology.owner(self.plan.port_and_class(slot).0);
            let partition = &mut self.workers[usize::from(self.partition_of[owner])].partition;
            peaks.push(partition.ports.slots[slot].take_backlog_peak());
        }
        log.log_interval(
            ObserverView { plan: &self.plan, workers: &self.workers, partition_of: &self.partition_of },
            &peaks,
            now,
        );
        log.at = (log.full.is_none() && !is_over).then(|| now + log.every);
    }

    fn collect_records(&mut self) {
        if let Some(detector) = &mut self.detector {
            let pauses =
                self.workers.iter_mut().filter_map(|worker| worker.partition.ctx.notes.take_first_start());
            pauses.min().into_iter().for_each(|pause| detector.schedule_check(pause, self.plan.window));
        }
        if self.capture_left > 0 {
            let frames =
                self.workers.iter_mut().flat_map(|worker| worker.partition.ports.capture.frames.drain(..));
            let mut frames: Vec<RawCapturedFrame> = frames.collect();
            frames.sort_by_key(|frame| (frame.time, frame.port));
            frames.truncate(self.capture_left as usize);
            self.capture_left -= frames.len() as u64;
            self.frames.extend(frames);
        }
        if self.pause_log.is_none() && self.state_log.is_none() {
            return;
        }
        let notes = self.workers.iter_mut().flat_map(|worker| worker.partition.ctx.notes.list.drain(..));
        let mut notes: Vec<PauseChange> = notes.collect();
        for note in &mut notes {
            note.at += self.clock_offset;
        }
        notes.sort_by_key(PauseChange::sort_key);
        for note in &notes {
            self.pause_log.iter_mut().for_each(|log| log.record_pause_change(note, &self.plan));
            self.state_log.iter_mut().for_each(|log| log.record_pause_change(note, &self.plan));
        }
    }
}
