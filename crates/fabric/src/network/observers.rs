//! Configuration before a run: samples, captures, deadlock detection, failures, errors and storms.

use super::Network;
use crate::event::Event;
use crate::failures::{FailureSchedule, ScheduledFailure};
use crate::observers::deadlock::DeadlockDetector;
use crate::observers::pause_tree::PauseIntervalLog;
use crate::observers::sampler::{SamplePlan, Sampler};
use crate::observers::states::StateLog;
use crate::partition::Partition;
use crate::settings::{PauseStorm, PfcWatchdogSettings};
use crate::wire::capture::FrameCapture;
use crate::wire::damage::ErrorModel;
use crate::wire::watched::QueueWatchdogs;
use pauseframe_units::{PortId, Span, Time};
use std::ops::Range;
use std::sync::Arc;

impl Network {
    /// Takes samples according to `plan`.
    pub fn enable_sampling(&mut self, plan: SamplePlan) {
        if plan.every > Span::ZERO {
            self.sampler = Some(Sampler::new(plan, 1 << self.plan.class_bits));
        }
    }

    /// Takes no more samples.
    pub fn disable_sampling(&mut self) {
        self.sampler = None;
    }

    /// Captures up to `limit` frames that these ports send.
    pub fn enable_frame_capture(&mut self, ports: &[PortId], limit: u64) {
        let mut wanted = vec![false; self.plan.topology.port_count()];
        for port in ports {
            wanted[port.0 as usize] = true;
        }
        self.capture_left = limit;
        for worker in &mut self.workers {
            worker.partition.ports.capture = FrameCapture::new(wanted.clone(), limit);
            worker.partition.ports.enable_slow_path(&mut worker.partition.ctx);
        }
    }

    /// Captures a packet only at the first captured port on its path, because analysers take a second copy for a retransmission.
    pub fn capture_first_hop_only(&mut self) {
        self.workers.iter_mut().for_each(|worker| worker.partition.ports.capture.once = true);
    }

    /// Records what each queue pair, connection and datagram flow sends through each port of switches.
    pub fn enable_path_log(&mut self) {
        for worker in &mut self.workers {
            worker.partition.ctx.paths = Some(Box::default());
            worker.partition.ctx.hot.slow_next_hop = true;
        }
    }

    /// Records up to `limit` state changes, sampling queues and links every `every`.
    pub fn enable_state_log(&mut self, every: Span, limit: usize) {
        self.state_log = Some(StateLog::new(every, limit, self.plan.slot_count()));
        self.workers.iter_mut().for_each(|worker| worker.partition.ctx.notes.enable_fullest_queue());
    }

    /// Records up to `limit` pause intervals.
    pub fn enable_pause_log(&mut self, limit: usize) {
        let slots = self.plan.slot_count();
        self.pause_log = Some(PauseIntervalLog::new(limit, slots));
        self.workers.iter_mut().for_each(|worker| worker.partition.ctx.notes.enable_numbering(slots));
    }

    /// Searches for deadlocks when a class has been paused for `after`; with `stops` the first deadlock ends the run.
    pub fn enable_deadlock_detection(&mut self, after: Span, stops: bool) {
        self.detector = Some(DeadlockDetector::new(after, stops));
    }

    /// Schedules failures of links and nodes; routes follow each change after `convergence`.
    pub fn schedule_failures(&mut self, plan: Vec<ScheduledFailure>, convergence: Span) {
        if plan.is_empty() {
            return;
        }
        for ScheduledFailure { what, down, up, .. } in plan.iter().filter(|failure| failure.is_silent) {
            let time = *down..up.unwrap_or(Time::MAX);
            for link in what.links(&Arc::clone(&self.plan.topology)) {
                self.for_each_partition(|Partition { ports, ctx, .. }| {
                    for end in 0..2 {
                        ports.errors.silence(PortId::of_link(link, end), time.clone(), ctx);
                    }
                    ports.enable_slow_path(ctx);
                });
            }
        }
        self.failures = Some(FailureSchedule::new(plan, convergence, &self.plan, Arc::clone(&self.routes)));
        self.for_each_partition(|Partition { ports, ctx, .. }| ports.enable_link_failures(ctx));
    }

    /// Damages frames that these ports send during `time`, beside what else damages them.
    ///
    /// # Panics
    /// If a probability is outside 0 to 1.
    pub fn add_error_models(&mut self, ports: &[(PortId, ErrorModel)], time: &Range<Time>) {
        self.for_each_partition(|partition| {
            for (port, model) in ports {
                partition.ports.errors.add_error_model(*port, *model, time.clone(), &mut partition.ctx);
            }
            partition.ports.enable_slow_path(&mut partition.ctx);
        });
    }

    /// Adds pause storms.
    pub fn add_pause_storms(&mut self, storms: Vec<PauseStorm>) {
        if storms.is_empty() || !self.plan.can_pause() {
            return;
        }
        let storms: Arc<[PauseStorm]> = storms.into();
        self.for_each_partition(|partition| {
            partition.ports.storms = Arc::clone(&storms);
            // A frame can end a pause, or shorten it.
            partition.ctx.allow_lossless_drops();
        });
        for (number, storm) in (0..).zip(storms.iter()) {
            self.owner_partition(storm.port).ctx.schedule_event(storm.start, Event::PauseStorm(number));
        }
        self.workers.iter_mut().for_each(|worker| worker.publish_status());
    }

    /// Enables the PFC watchdog on the lossless queues of all switches.
    pub fn enable_watchdog(&mut self, watchdog: PfcWatchdogSettings) {
        self.guarded = true;
        let slots = self.plan.slot_count();
        self.for_each_partition(|partition| {
            partition.ports.watchdogs = QueueWatchdogs::new(watchdog, slots);
            partition.ctx.hot.can_refuse = true;
            partition.ctx.allow_lossless_drops();
        });
    }
}
