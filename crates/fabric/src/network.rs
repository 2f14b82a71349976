//! The network: partitions, their traffic, and the windows in which they take turns.
//!
//! A window is no longer than the shortest delay of a frame between two nodes, nor than the time the traffic takes to act on a report. So
//! the traffic acts first, up to the end of the window. Then every partition runs independently up to that end, on its own thread if there
//! are several: input from outside arrives later. Where applications answer sooner than a window is long, all nodes form one partition,
//! which stops at each completion. Between windows no partition runs: the network delivers frames that crossed a boundary, passes reports
//! of hosts to the traffic, applies link failures and repairs, and runs the observers.

mod observers;
mod outcome;

use crate::endpoint::HostPaths;
use crate::external::{ExternalStack, StackFailure};
use crate::failures::{Change, Failures};
use crate::flow::Workload;
use crate::frame::PacketPool;
use crate::ids::HostId;
use crate::invariants::{InvariantSchedule, check_invariants};
use crate::observers::deadlock::Detector;
use crate::observers::notes::Note;
use crate::observers::pause_tree::PauseLog;
use crate::observers::sampler::Sampler;
use crate::observers::states::StateLog;
use crate::observers::view::{PartitionOf, View};
use crate::order::Report;
use crate::partition::Partition;
use crate::plan::Plan;
use crate::rows::Rows;
use crate::settings::Settings;
use crate::switching::paths::longest_path;
use crate::thread_pool::{CatchPanic, ThreadPool, run_in_parallel};
use crate::traffic::Traffic;
use crate::wire::capture::Captured;
use crate::worker::{Worker, exchange};
use pauseframe_engine::{Control, Ending, Fingerprint, Limits, Progress};
use pauseframe_topology::Topology;
use pauseframe_topology::routing::NextHops;
use pauseframe_units::{IndexVec, LinkId, PortId, Span, Time};
use std::sync::Arc;

/// A single partition may run for so many windows while no application hears of anything.
const WINDOWS_AT_ONCE_MAX: u64 = 1 << 10;
/// Fewer if that is more than so many events.
const CROWD: u64 = 1 << 15;

/// A running network.
#[derive(Debug)]
pub struct Network {
    plan: Arc<Plan>,
    routes: Arc<NextHops>,
    workers: Vec<Box<Worker>>,
    partition_of: PartitionOf,
    traffic: Traffic,
    /// From a report to the first thing that follows from it; at most a window.
    reaction: Span,
    stride: usize,
    workloads: usize,
    /// All windows before this time have run.
    reached: Time,
    /// Windows that a single partition may run for.
    windows_at_once: u64,
    capture_left: u64,
    frames: Vec<Captured>,
    sampler: Option<Sampler>,
    pause_log: Option<PauseLog>,
    state_log: Option<StateLog>,
    detector: Option<Detector>,
    failures: Option<Failures>,
    guarded: bool,
    invariants: InvariantSchedule,
}

/// A failed assertion in a partition that ran on a thread of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failed {
    /// What was violated, and where.
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
        Network::of_plan(&Arc::new(Plan::new(topology, settings)), &routes, workloads, stop_when_finished)
    }

    /// Builds an idle network from a plan.
    pub fn of_plan(
        plan: &Arc<Plan>,
        routes: &Arc<NextHops>,
        workloads: Vec<Box<dyn Workload>>,
        stop_when_finished: bool,
    ) -> Network {
        let has_rows = !plan.settings.spray && plan.settings.vlans.is_none();
        let stride = if has_rows { longest_path(&plan.topology, routes) } else { 0 };
        let count = workloads.len();
        let rows = Rows::new(stride, has_rows);
        let traffic = Traffic::new(plan, routes, workloads, stop_when_finished, rows);
        let reaction = traffic.reaction();
        Network {
            workers: vec![Box::new(Worker::new(Partition::new(plan, routes, stride, count, reaction), 1))],
            partition_of: plan.topology.nodes().ids().map(|_| 0).collect(),
            traffic,
            reaction,
            stride,
            workloads: count,
            reached: Time::ZERO,
            windows_at_once: 1,
            capture_left: 0,
            frames: Vec::new(),
            sampler: None,
            pause_log: None,
            state_log: None,
            detector: None,
            failures: None,
            guarded: false,
            invariants: InvariantSchedule::new(plan),
            plan: Arc::clone(plan),
            routes: Arc::clone(routes),
        }
    }

    /// The reaction time from which on this network can be divided, if its applications react sooner than that.
    pub fn reacts_before(&self) -> Option<Span> {
        (self.reaction < self.plan.window).then_some(self.plan.window)
    }

    /// Divides an idle network among partitions: `partition_of` gives each node the number of its partition, from 0 on. Results are the
    /// same.
    ///
    /// # Panics
    /// If something has been asked of the network before, its applications react too soon, or a partition has no node.
    pub fn divide(&mut self, partition_of: &[u16]) {
        assert!(self.is_untouched(), "a network is divided before anything else");
        assert!(self.reacts_before().is_none(), "applications that react within a window share a partition");
        let count = partition_of.iter().max().map_or(1, |most| usize::from(*most) + 1);
        assert!(
            (0..count).all(|partition| partition_of.contains(&(partition as u16))),
            "every partition has a node"
        );
        self.partition_of = partition_of.iter().copied().collect();
        let partition =
            |_| Partition::new(&self.plan, &self.routes, self.stride, self.workloads, self.reaction);
        self.workers =
            (0..count).map(partition).map(|partition| Box::new(Worker::new(partition, count))).collect();
        let topology = &self.plan.topology;
        for port in self.plan.ports() {
            let (from, to) =
                (self.partition_of[topology.owner(port)], self.partition_of[topology.peer(port)]);
            if from != to {
                let Partition { ports, ctx, .. } = &mut self.workers[usize::from(from)].partition;
                ports.cut(port, to, ctx);
            }
        }
    }

    fn is_untouched(&self) -> bool {
        let observers = self.sampler.is_some() || self.state_log.is_some() || self.detector.is_some();
        self.reached == Time::ZERO && self.failures.is_none() && !observers && self.capture_left == 0
    }

    /// Hosts belong to a stack outside of the simulator, which the only partition runs.
    ///
    /// # Panics
    /// If the network is divided or not idle.
    pub fn attach(&mut self, stack: Box<dyn ExternalStack>) {
        assert!(
            self.workers.len() == 1 && self.reached == Time::ZERO,
            "a stack joins an idle network of one partition"
        );
        self.workers[0].partition.attach(stack);
        self.find_program_paths(Time::ZERO);
    }

    /// Frames of programs get paths, and those that they had are given up at `now`. The run lasts as long as the programs.
    fn find_program_paths(&mut self, now: Time) {
        let Some(external) = &mut self.workers[0].partition.endpoints.external else { return };
        if external.has_programs() {
            self.traffic.hold();
            let hosts = self.plan.hosts.iter().enumerate();
            let owned = hosts.filter(|(host, _)| external.owns(HostId(*host as u32))).map(|(_, node)| *node);
            let paths =
                HostPaths::find(owned.collect(), |pair, choice| self.traffic.find_route(pair, choice));
            if let Some(before) = external.replace_paths(paths) {
                self.traffic.give_up(before.rows(), now);
            }
        }
    }

    /// The number of partitions.
    pub fn partitions(&self) -> usize {
        self.workers.len()
    }

    /// The current simulated time.
    pub fn now(&self) -> Time {
        self.workers.iter().map(|worker| worker.partition.ctx.now()).max().unwrap_or_default()
    }

    fn view(&self) -> View<'_> {
        View { plan: &self.plan, workers: &self.workers, partition_of: &self.partition_of }
    }

    /// The partition of the node that sends by `port`.
    fn sender(&mut self, port: PortId) -> &mut Partition {
        &mut self.workers[usize::from(self.partition_of[self.plan.topology.owner(port)])].partition
    }

    /// The partition of the node that receives from `port`.
    fn receiver(&mut self, port: PortId) -> &mut Partition {
        &mut self.workers[usize::from(self.partition_of[self.plan.topology.peer(port)])].partition
    }

    fn each_partition(&mut self, change: impl FnMut(&mut Partition)) {
        self.workers.iter_mut().map(|worker| &mut worker.partition).for_each(change);
    }

    /// Runs up to a limit, or until nothing is left to happen, all that was asked for is finished, or `observe` says stop.
    ///
    /// # Errors
    /// If an assertion fails in a partition on a thread of its own, or in a recount of it, as `catch_panic` tells it. In the first partition, which runs
    /// on this thread, it is a panic.
    pub fn run(
        &mut self,
        limits: Limits,
        catch_panic: CatchPanic,
        mut observe: impl FnMut(&mut Network, Progress) -> Control,
    ) -> Result<Ending, Failed> {
        let others = self.workers.len() - 1;
        let ending = if others == 0 {
            self.take_turns(limits, &mut None, catch_panic, &mut observe)?
        } else {
            std::thread::scope(|scope| {
                let pool = ThreadPool::new(scope, others, catch_panic);
                self.take_turns(limits, &mut Some(pool), catch_panic, &mut observe)
            })?
        };
        self.check_invariants(catch_panic)?;
        Ok(ending)
    }

    /// Compares what has been counted with what is there.
    pub(crate) fn check_invariants(&mut self, catch_panic: CatchPanic) -> Result<(), Failed> {
        self.workers.iter_mut().for_each(|worker| worker.take_in());
        let view = View { plan: &self.plan, workers: &self.workers, partition_of: &self.partition_of };
        self.invariants.set_next(view, self.workers.iter().map(|worker| worker.status.events).sum());
        let look = |number| check_invariants(view, number);
        run_in_parallel(self.workers.len(), catch_panic, look)
            .map_err(|message| Failed { message, of_stack: false })
    }

    /// The only partition, or the last of several, to be falsified.
    #[cfg(test)]
    pub(crate) fn last_partition(&mut self) -> &mut Partition {
        &mut self.workers.last_mut().expect("a network has a partition").partition
    }

    fn take_turns(
        &mut self,
        limits: Limits,
        pool: &mut Option<ThreadPool>,
        catch_panic: CatchPanic,
        observe: &mut dyn FnMut(&mut Network, Progress) -> Control,
    ) -> Result<Ending, Failed> {
        self.workers.iter_mut().for_each(|worker| worker.publish_status());
        let (mut watched, mut turns) = (self.events(), 0);
        loop {
            if let Some(over) = self.traffic.over().filter(|over| *over <= self.reached) {
                return Ok(self.ending(over, false));
            }
            let Some(start) = self.next_time().filter(|start| *start <= limits.time) else {
                return Ok(
                    self.ending(if limits.time == Time::MAX { self.now() } else { limits.time }, false)
                );
            };
            if self.fail_links(start) {
                continue;
            }
            let end = self.plan_window(start, limits.time);
            self.run_workers(end, pool)?;
            self.check_stack()?;
            if let Some(stopped) = self.run_observers(self.reached) {
                return Ok(self.ending(stopped, false));
            }
            // A turn counts as an event: where nothing but samples happens, somebody still asks whether to go on.
            turns += 1;
            let events = self.events();
            if self.invariants.is_due(events) {
                self.check_invariants(catch_panic)?;
            }
            if events + turns - watched >= limits.watch_every {
                watched = events + turns;
                let now = self.reached.min(limits.time);
                if observe(self, Progress { now, events }) == Control::Stop {
                    return Ok(self.ending(now, true));
                }
            }
        }
    }

    /// A stack outside of the simulator that has failed ends the run.
    fn check_stack(&mut self) -> Result<(), Failed> {
        let Some(external) = &mut self.workers[0].partition.endpoints.external else { return Ok(()) };
        if !external.has_programs() {
            self.traffic.release(self.reached);
        }
        match external.take_failure() {
            Some(StackFailure(message)) => Err(Failed { message, of_stack: true }),
            None => Ok(()),
        }
    }

    fn events(&self) -> u64 {
        self.workers.iter().map(|worker| worker.status.events).sum()
    }

    fn ending(&self, now: Time, interrupted: bool) -> Ending {
        let mut fingerprint = Fingerprint::default();
        self.workers.iter().for_each(|worker| fingerprint.join(worker.tally.fingerprint));
        Ending { now, events: self.events(), fingerprint, interrupted }
    }

    /// When something happens next.
    fn next_time(&self) -> Option<Time> {
        let workers = self.workers.iter().filter_map(|worker| worker.status.next).min();
        let failures = self.failures.as_ref().and_then(Failures::next_time);
        [workers, self.traffic.next_time(), failures, self.next_observation()].into_iter().flatten().min()
    }

    /// When somebody who watches looks next.
    fn next_observation(&self) -> Option<Time> {
        let sampler = self.sampler.as_ref().and_then(|sampler| sampler.at);
        let states = self.state_log.as_ref().and_then(|log| log.at);
        let detector = self.detector.as_ref().and_then(|detector| detector.at);
        [sampler, states, detector].into_iter().flatten().min()
    }

    /// The traffic acts in the window that begins at `start`, and its end is what partitions run up to. Failures come before all else of
    /// their instant, who watches sees it when it is over.
    fn plan_window(&mut self, start: Time, limit: Time) -> Time {
        let failure = self.failures.as_ref().and_then(Failures::next_time);
        let look = self.next_observation().map(|look| look + Span(1));
        // Who looks for deadlocks does so some time after a pause, and a pause may begin now.
        let detector =
            self.detector.as_ref().and_then(|detector| detector.first_check(start, self.plan.window));
        let last =
            [failure, look, detector].into_iter().flatten().fold(limit.saturating_add(Span(1)), Time::min);
        // The traffic acts ahead as far as no report can come between.
        let mut end = last.min(start.saturating_add(self.reaction.max(Span(1))));
        self.traffic.act(end);
        if self.workers.len() == 1 {
            // Nobody else sends, and the first report ends the window where the traffic acts on it (`Context::report`).
            let windows_at_once = start.saturating_add(Span(self.plan.window.0 * self.windows_at_once));
            end = end.max(
                self.traffic.next_time().map_or(windows_at_once, |next| next.min(windows_at_once)).min(last),
            );
        }
        let end = self.traffic.over().map_or(end, |over| end.min(over));
        self.dispatch_orders(start);
        end
    }

    /// Orders, paths and hosts of flows, from the traffic to the partitions, which take them in as they begin to run.
    fn dispatch_orders(&mut self, now: Time) {
        let workers = &mut self.workers;
        if let Some(update) = self.traffic.take_update().map(Arc::new) {
            for worker in workers.iter_mut() {
                worker.updates.push(Arc::clone(&update));
            }
        }
        for order in self.traffic.orders.drain(..) {
            workers[usize::from(self.partition_of[order.host])].orders.push(order);
        }
        if self.traffic.rows.are_wanted(now) {
            for worker in workers.iter_mut() {
                worker.take_in();
            }
            let pools = || workers.iter().map(|worker| &worker.partition.ctx.packets);
            let named = pools().flat_map(|pool| pool.under_way().map(|packet| packet.route));
            self.traffic.rows.reclaim(named, pools().map(PacketPool::places).sum());
        }
    }

    /// Lets all partitions run up to `end`, and brings over what crosses.
    fn run_workers(&mut self, end: Time, pool: &mut Option<ThreadPool>) -> Result<(), Failed> {
        let before = self.events();
        match pool {
            Some(pool) => {
                pool.run(&mut self.workers, end).map_err(|message| Failed { message, of_stack: false })?;
            }
            None => self.workers.iter_mut().for_each(|worker| worker.run(end)),
        }
        exchange(&mut self.workers);
        // A single partition may have stopped before, to let the traffic react.
        self.reached = self.workers[0].status.end;
        self.receive_reports();
        let crowd = self.events() - before > CROWD;
        self.windows_at_once = if crowd {
            (self.windows_at_once / 2).max(1)
        } else {
            (self.windows_at_once * 2).min(WINDOWS_AT_ONCE_MAX)
        };
        Ok(())
    }

    /// The traffic hears what hosts have told.
    fn receive_reports(&mut self) {
        let reports = self.workers.iter_mut().flat_map(|worker| worker.status.reports.drain(..));
        let mut reports: Vec<Report> = reports.collect();
        reports.sort_by_key(|report| (report.at, report.address));
        self.traffic.receive(reports.into_iter());
    }

    /// A failure is due at `now`, or routing learns of one: true if so.
    fn fail_links(&mut self, now: Time) -> bool {
        let Some(failures) = &mut self.failures else { return false };
        let Some(change) = failures.next(&self.plan.topology, now) else { return false };
        self.workers.iter_mut().for_each(|worker| worker.take_in());
        // It happens now, though it is no event: afterwards the last event is what it was.
        let last: Vec<Time> =
            self.workers.iter_mut().map(|worker| worker.partition.ctx.queue.set_now(now)).collect();
        match change {
            Change::Links(links) => links.iter().for_each(|(link, down)| self.change_link(*link, *down, now)),
            Change::Reroute(routes) => self.reroute(&routes, now),
        }
        for (worker, last) in self.workers.iter_mut().zip(last) {
            worker.partition.ctx.queue.set_now(last);
        }
        // What a port has sent as its link came back crosses now: no window might end before it arrives.
        exchange(&mut self.workers);
        for worker in &mut self.workers {
            worker.take_in();
            worker.publish_status();
        }
        self.receive_reports();
        true
    }

    fn change_link(&mut self, link: LinkId, down: bool, now: Time) {
        let ends = [PortId::of_link(link, 0), PortId::of_link(link, 1)];
        if down {
            for port in ends {
                self.sender(port).take_down(port);
                self.receiver(port).lose_in_flight(port);
            }
            for port in ends {
                self.sender(port).discard_queues(port);
            }
            return;
        }
        for port in ends {
            self.sender(port).bring_up(port, now);
        }
        for port in ends {
            self.receiver(port).resend_pauses(port);
        }
        for port in ends {
            self.sender(port).start_transmission(port);
        }
    }

    fn reroute(&mut self, routes: &Arc<NextHops>, now: Time) {
        self.routes = Arc::clone(routes);
        self.workers.iter_mut().for_each(|worker| worker.partition.switching.routes = Arc::clone(routes));
        let changed = self.traffic.reroute(routes, now);
        self.find_program_paths(now);
        self.dispatch_orders(now);
        for (host, address, row) in changed {
            self.workers[usize::from(self.partition_of[host])].partition.endpoints.take_path(address, row);
        }
    }

    /// Who watches reads what has been noted and, if it is time, looks. When the run is to end, if it is.
    fn run_observers(&mut self, end: Time) -> Option<Time> {
        self.drain_notes();
        let now = Time(end.0.checked_sub(1)?);
        // Applications may still act at this very time.
        let acts = self.traffic.next_time().is_some_and(|next| next <= now);
        if acts || self.next_observation().is_none_or(|look| look > now) {
            return None;
        }
        self.workers.iter_mut().for_each(|worker| worker.take_in());
        let is_over = self.traffic.next_time().is_none()
            && self.failures.as_ref().is_none_or(|failures| failures.next_time().is_none())
            && self.workers.iter_mut().all(|worker| worker.next_time().is_none());
        let view = View { plan: &self.plan, workers: &self.workers, partition_of: &self.partition_of };
        if let Some(sampler) = self.sampler.as_mut().filter(|sampler| sampler.at == Some(now)) {
            sampler.look(view, self.traffic.records(), now, is_over);
        }
        let mut stopped = None;
        if let Some(detector) = self.detector.as_mut().filter(|detector| detector.at == Some(now))
            && detector.look(view, now, is_over)
        {
            stopped = detector.stops.then_some(now);
        }
        if self.state_log.as_ref().is_some_and(|log| log.at == Some(now)) {
            self.sample_states(now, is_over);
        }
        stopped
    }

    fn sample_states(&mut self, now: Time, is_over: bool) {
        let Some(log) = &mut self.state_log else { return };
        let mut peaks = IndexVec::new();
        for slot in self.plan.all_slots() {
            let owner = self.plan.topology.owner(self.plan.port_and_class(slot).0);
            let partition = &mut self.workers[usize::from(self.partition_of[owner])].partition;
            peaks.push(partition.ports.slots[slot].take_peak());
        }
        log.look(
            View { plan: &self.plan, workers: &self.workers, partition_of: &self.partition_of },
            &peaks,
            now,
        );
        log.at = (log.full.is_none() && !is_over).then(|| now + log.every);
    }

    fn drain_notes(&mut self) {
        if let Some(detector) = &mut self.detector {
            let pauses =
                self.workers.iter_mut().filter_map(|worker| worker.partition.ctx.notes.take_first_pause());
            pauses.min().into_iter().for_each(|pause| detector.observe(pause, self.plan.window));
        }
        if self.capture_left > 0 {
            let frames =
                self.workers.iter_mut().flat_map(|worker| worker.partition.ports.capture.frames.drain(..));
            let mut frames: Vec<Captured> = frames.collect();
            frames.sort_by_key(|frame| (frame.time, frame.port));
            frames.truncate(self.capture_left as usize);
            self.capture_left -= frames.len() as u64;
            self.frames.extend(frames);
        }
        if self.pause_log.is_none() && self.state_log.is_none() {
            return;
        }
        let notes = self.workers.iter_mut().flat_map(|worker| worker.partition.ctx.notes.list.drain(..));
        let mut notes: Vec<Note> = notes.collect();
        notes.sort_by_key(Note::key);
        for note in &notes {
            self.pause_log.iter_mut().for_each(|log| log.read(note, &self.plan));
            self.state_log.iter_mut().for_each(|log| log.read(note, &self.plan));
        }
    }
}
