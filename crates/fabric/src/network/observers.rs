//! What a network may be asked before it starts: to record, to look for deadlocks, to let links fail and damage frames.

use super::Network;
use crate::event::Event;
use crate::failures::{Failure, Failures};
use crate::observers::deadlock::Detector;
use crate::observers::pause_tree::PauseLog;
use crate::observers::sampler::{SamplePlan, Sampler};
use crate::observers::states::StateLog;
use crate::partition::Partition;
use crate::settings::{PauseStorm, Watchdog};
use crate::wire::capture::Capture;
use crate::wire::damage::ErrorModel;
use crate::wire::watched::Watchdogs;
use pauseframe_units::{PortId, Span, Time};
use std::sync::Arc;

impl Network {
    /// Takes samples as `plan` says, from the first event on.
    pub fn sample(&mut self, plan: SamplePlan) {
        if plan.every > Span::ZERO {
            self.sampler = Some(Sampler::new(plan, 1 << self.plan.class_bits));
        }
    }

    /// Captures up to `limit` frames that these ports send.
    pub fn capture(&mut self, ports: &[PortId], limit: u64) {
        let mut wanted = vec![false; self.plan.topology.port_count()];
        for port in ports {
            wanted[port.0 as usize] = true;
        }
        self.capture_left = limit;
        for worker in &mut self.workers {
            worker.partition.ports.capture = Capture::new(wanted.clone(), limit);
            worker.partition.ports.enable_slow_path(&mut worker.partition.ctx);
        }
    }

    /// A packet is captured at the first of the ports that it crosses, not at every one: a reader takes what it sees
    /// twice for a retransmission.
    pub fn capture_once(&mut self) {
        self.workers.iter_mut().for_each(|worker| worker.partition.ports.capture.once = true);
    }

    /// Records up to `limit` changes, looking at queues and links once in `every`.
    pub fn record_states(&mut self, every: Span, limit: usize) {
        self.state_log = Some(StateLog::new(every, limit, self.plan.slots()));
        self.workers.iter_mut().for_each(|worker| worker.partition.ctx.notes.find_fullest());
    }

    /// Records up to `limit` pause intervals.
    pub fn record_pauses(&mut self, limit: usize) {
        let slots = self.plan.slots();
        self.pause_log = Some(PauseLog::new(limit, slots));
        self.workers.iter_mut().for_each(|worker| worker.partition.ctx.notes.name_pauses(slots));
    }

    /// Looks for deadlocks whenever a class has been paused for `after`; `stops`: the run ends at the first.
    pub fn detect_deadlocks(&mut self, after: Span, stops: bool) {
        self.detector = Some(Detector::new(after, stops));
    }

    /// Lets links and nodes fail as planned; routes follow each change after `convergence`.
    pub fn fail(&mut self, plan: Vec<Failure>, convergence: Span) {
        if plan.is_empty() {
            return;
        }
        let links = self.plan.topology.links().len();
        self.failures = Some(Failures::new(plan, convergence, links, Arc::clone(&self.routes)));
        self.each_partition(|Partition { ports, ctx, .. }| ports.expect_failures(ctx));
    }

    /// Damages what these ports send, before `stop` if there is one.
    ///
    /// # Panics
    /// If a probability is outside 0 to 1.
    pub fn corrupt(&mut self, ports: &[(PortId, ErrorModel)], stop: Option<Time>) {
        let stop = stop.unwrap_or(Time::MAX);
        self.each_partition(|partition| {
            for (port, model) in ports {
                partition.ports.errors.corrupt(*port, *model, stop, &mut partition.ctx);
            }
            partition.ports.enable_slow_path(&mut partition.ctx);
        });
    }

    /// Lets ports send pause frames unasked.
    pub fn storm(&mut self, storms: Vec<PauseStorm>) {
        if storms.is_empty() || !self.plan.can_pause() {
            return;
        }
        let storms: Arc<[PauseStorm]> = storms.into();
        self.each_partition(|partition| {
            partition.ports.storms = Arc::clone(&storms);
            // A frame can end a pause, or shorten it.
            partition.ctx.expect_losses();
        });
        for (number, storm) in (0..).zip(storms.iter()) {
            self.sender(storm.port).ctx.schedule(storm.start, Event::PauseStorm(number));
        }
        self.workers.iter_mut().for_each(|worker| worker.publish_status());
    }

    /// Guards the lossless queues of all switches.
    pub fn guard(&mut self, watchdog: Watchdog) {
        self.guarded = true;
        let slots = self.plan.slots();
        self.each_partition(|partition| {
            partition.ports.watchdogs = Watchdogs::new(watchdog, slots);
            partition.ctx.hot.can_refuse = true;
            partition.ctx.expect_losses();
        });
    }
}
