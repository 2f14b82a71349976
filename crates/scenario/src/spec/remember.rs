//! `[remember]`: what repeats is simulated once.

use crate::spec::{HostStack, Scenario};
use pauseframe_fabric::{Settings, StepMemorySettings};
use pauseframe_schema::{choices, table};

choices! {
    /// What becomes of steps that repeat. A step is what happens from one instant at which nothing is under way to the next
    pub enum RememberSteps {
        /// Every step is simulated
        Off = "off",
        /// A step is replayed once two instances in a row agreed within `bound`; some are simulated again
        Bound = "bound",
        /// Every step is simulated, and compared with what a replay within `bound` would have given
        Check = "check",
    }
}

table! {
    /// What repeats is simulated once (docs/models/memory-of-steps.md); short form: remember = "bound"
    pub struct RememberSpec {
        /// What becomes of steps that repeat. A step is what happens from one instant at which nothing is under way to the next
        steps: RememberSteps = or(RememberSteps::Off);
        /// Share of a step's length by which times of two instances may differ, and share of its packet hops; the same of a round inside a long collective
        bound: f64 = or_in(0.001, 0.0..=0.1);
    }
    pub fn read(t);
}

impl RememberSpec {
    /// The settings of a network that remembers steps; `None` if nothing is remembered.
    pub(crate) fn memory_settings(&self, seed: u64) -> Option<StepMemorySettings> {
        (self.steps != RememberSteps::Off).then_some(StepMemorySettings {
            bound: self.bound,
            checks: self.steps == RememberSteps::Check,
            seed,
        })
    }
}

/// Why nothing can be replayed in a scenario: `None` if it can.
pub(crate) fn hindrance(scenario: &Scenario, settings: &Settings) -> Option<String> {
    let record = &scenario.record;
    let other = scenario.workload.iter().find(|workload| workload.kind.application().is_none());
    let reasons = [
        (scenario.host.stack == HostStack::Kernel, "hosts have a Linux kernel, whose time cannot be skipped"),
        (record.series.is_some(), "record.series samples every instant"),
        (record.states.is_some(), "record.states logs every change"),
        (record.packets.is_some(), "record.packets captures every packet"),
        (record.paths, "record.paths counts every packet"),
        (settings.hop_choice.is_some(), "switches choose the port of a packet by what came before"),
        (settings.dual_tor.is_some(), "racks hand packets over through tunnels"),
        (!scenario.corruption.is_empty(), "links damage frames at random"),
        (!scenario.pause_storm.is_empty(), "pause storms come at given times"),
        (
            scenario.host.slow_receivers.iter().any(|host| host.stop.is_some()),
            "a slow receiver recovers at a given time",
        ),
    ];
    let reason = reasons.iter().find(|(holds, _)| *holds).map(|(_, reason)| (*reason).to_owned());
    let other =
        other.map(|workload| format!("workload {:?} is neither an application nor training", workload.name));
    reason.or(other)
}
