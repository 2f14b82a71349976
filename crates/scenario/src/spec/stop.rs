//! `stop`: the end of the run.

use pauseframe_schema::table;
use pauseframe_units::Span;
use pauseframe_workload::context::TIME_MAX;

table! {
    /// The end of the run: at `time` at the latest, and earlier when all is done unless `when_finished` is false
    pub struct Stop {
        /// Simulated time at which the run ends at the latest; short form: stop = "50 ms"
        time: Option<Span> = optional_in(Span(1)..=TIME_MAX, "none: when everything is finished");
        /// End when all workloads are done and their flows have finished
        when_finished: bool = or(true) => {
            let message = || "false, and there is no stop.time: the run has no end".to_owned();
            let ends = time.is_some() || when_finished || t.has("time");
            t.check(ends, "when_finished", message, "add stop.time");
        };
        /// End when queues wait for each other in a cycle and can never send again
        on_deadlock: Option<bool> = optional("automatic: true, or false with a switch.pfc.watchdog that drops or forwards");
    }
    pub fn read(t);
}

impl Stop {
    /// Whether a deadlock ends the run; by default one that nothing can break does.
    pub(super) fn ends_at_deadlock(&self, is_breakable: bool) -> bool {
        self.on_deadlock.unwrap_or(!is_breakable)
    }
}
