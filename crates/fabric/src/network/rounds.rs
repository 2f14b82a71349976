//! The network with rounds that are left out ([`crate::memory`]): it is looked at between two windows of the run.

use super::Network;
use crate::failures::FailureSchedule;
use crate::memory::{Leap, RoundSnapshot, RoundWindow};
use crate::order::EndpointCounters;
use pauseframe_units::{Span, Time};

/// Rounds last so many windows of the run, so that the time of a snapshot is always to come.
const PERIOD_MIN: u64 = 8;
/// Pieces in which the bytes of a round are spread over its time, for `throughput`.
const PIECES: u64 = 16;

impl Network {
    /// When the search for rounds looks at the network.
    pub(super) fn next_round_snapshot(&self) -> Option<Time> {
        self.memory.as_ref()?.rounds.snapshot_due()
    }

    /// Looks for rounds, once the traffic has acted, and leaves out those that are known. Returns the time that they would have taken.
    pub(super) fn leave_out_rounds(&mut self) -> Span {
        let Some(memory) = &mut self.memory else { return Span::ZERO };
        if memory.is_replaying() {
            memory.rounds.reset();
        } else if let Some(due) = memory.rounds.snapshot_due() {
            if self.reached >= due && memory.rounds.is_first_due() {
                self.begin_to_watch(false);
            } else if self.reached >= due {
                return self.look_at_rounds();
            }
        } else {
            let shortest = Span(PERIOD_MIN * self.reaction.max(self.plan.window).0);
            memory.rounds.watch(self.traffic.longest_operation(), memory.bound(), shortest);
        }
        Span::ZERO
    }

    /// The state of the network now; `None` if anything but long operations is under way.
    fn take_round_snapshot(&mut self) -> Option<RoundSnapshot> {
        let (at, packet_hops) = (self.reached, self.simulated_packet_hops());
        let paces = self.traffic.operation_paces(at)?;
        Some(RoundSnapshot { at, paces, packet_hops, before: self.read_counters() })
    }

    fn begin_to_watch(&mut self, has_leapt: bool) {
        let snapshot = self.take_round_snapshot();
        let Some(memory) = &mut self.memory else { return };
        match snapshot {
            Some(snapshot) => memory.rounds.begin(snapshot, has_leapt),
            None => memory.rounds.reset(),
        }
    }

    fn look_at_rounds(&mut self) -> Span {
        let Some(mut memory) = self.memory.take() else { return Span::ZERO };
        let counts = memory.rounds.last_snapshot().map(|last| self.count_step_since(&last.before, last.at));
        // A pause that lasts cannot be repeated.
        let is_paused = self.pause_intervals().iter().any(|pause| pause.end.is_none());
        let leap = match (self.take_round_snapshot(), counts) {
            (Some(snapshot), Some(counts)) if !is_paused => {
                let failure = self.failures.as_ref().and_then(FailureSchedule::next_change_time);
                let others = [failure, self.traffic.next_timer()];
                let horizon = others.into_iter().flatten().fold(self.limit, Time::min);
                memory.look_at_rounds(snapshot, counts, self.traffic.longest_operation(), horizon)
            }
            _ => {
                memory.rounds.reset();
                None
            }
        };
        if let (Some(leap), Some(window)) = (&leap, memory.rounds.known_window()) {
            self.leave_out(leap, window);
        }
        if let Some(leap) = &leap {
            memory.count_leap(leap);
        }
        self.memory = Some(memory);
        if leap.is_some() {
            self.begin_to_watch(true);
        }
        leap.map_or(Span::ZERO, |leap| leap.by)
    }

    /// Leaves out rounds: the clock stands still, and so does all that is under way.
    fn leave_out(&mut self, leap: &Leap, window: &RoundWindow) {
        let begin = self.reached;
        let bytes = self.traffic.skip_rounds(&leap.messages, leap.by, begin);
        for round in 0..leap.rounds {
            for counters in &window.counts.endpoints {
                // Delivered bytes are counted message by message.
                self.traffic.record_counters(&EndpointCounters {
                    delivered: 0,
                    connected: None,
                    ..*counters
                });
            }
            if let Some(log) = &mut self.pause_log {
                log.repeat_pause_intervals(
                    &window.counts.pauses,
                    begin + Span(leap.by.0 / leap.rounds * round),
                );
            }
        }
        let pieces = leap.rounds * PIECES;
        for piece in 0..pieces {
            let at = begin + Span((u128::from(leap.by.0) * u128::from(piece) / u128::from(pieces)) as u64);
            for (workload, bytes) in (0..).zip(&bytes) {
                let until = |piece: u64| (u128::from(*bytes) * u128::from(piece) / u128::from(pieces)) as u64;
                self.replayed_throughput.add_goodput(workload, until(piece + 1) - until(piece), at);
            }
        }
        self.set_clock_offset(self.clock_offset + leap.by);
        self.reached += leap.by;
        self.acted_until = self.acted_until.max(self.reached);
    }
}
