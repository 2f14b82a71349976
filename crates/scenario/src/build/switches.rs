//! Converts the scheduler and the classes of `[switch]` into settings of the fabric.

use crate::spec::{ClassSpec, Ets, SchedulerSpec};
use pauseframe_fabric::{ClassSettings, EtsGroup, Scheduler};
use pauseframe_units::Priority;

pub(super) fn scheduler(spec: &SchedulerSpec) -> Scheduler {
    match spec {
        SchedulerSpec::Strict(_) => Scheduler::Strict,
        SchedulerSpec::Ets(Ets { groups }) => Scheduler::Ets(
            groups
                .iter()
                .map(|group| EtsGroup { priorities: priorities(&group.priorities), share: group.share })
                .collect(),
        ),
    }
}

pub(super) fn class(spec: &ClassSpec) -> ClassSettings {
    ClassSettings {
        priorities: priorities(&spec.priorities),
        marker: spec.marker.clone(),
        queue: spec.queue,
        alpha: spec.alpha,
        reserved: spec.reserved,
    }
}

fn priorities(code_points: &[u8]) -> Vec<Priority> {
    code_points.iter().filter_map(|code_point| Priority::new(*code_point)).collect()
}
