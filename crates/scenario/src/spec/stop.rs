//! `stop`: when the run ends.

use pauseframe_schema::table;
use pauseframe_units::Span;
use pauseframe_workload::context::TIME_MAX;

table! {
    /// When the run ends: at `time` in any case, and earlier when all is done unless `when_finished` is false
    pub struct Stop {
        /// Simulated time at which the run ends in any case; stop = "50 ms" is short for it
        time: Option<Span> = optional_in(Span(1)..=TIME_MAX, "none: when everything is finished");
        /// End when all workloads are exhausted and their flows have finished
        when_finished: bool = or(true) => {
            let message = || "false, and there is no stop.time: the run has no end".to_owned();
            let ends = time.is_some() || when_finished || t.has("time");
            t.check(ends, "when_finished", message, "add stop.time");
        };
        /// End when queues wait for each other in a circle and none can ever send again
        on_deadlock: Option<bool> = optional("automatic: true, or false if there is a switch.pfc.watchdog");
    }
    pub fn read(t);
}
