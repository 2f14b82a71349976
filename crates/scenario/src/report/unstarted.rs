//! Warns of planned flows that never started, after a run with packets or at flow level.

use crate::spec::Scenario;
use pauseframe_fabric::FlowStatus;
use pauseframe_topology::Topology;
use pauseframe_units::counted;
use pauseframe_workload::{WorkloadKind, WorkloadSpec};

/// A scenario, and what its user wrote.
#[derive(Clone, Copy)]
pub(crate) struct Planned<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) topology: &'a Topology,
    /// Whether a person has written the key with this path.
    pub(crate) is_written: &'a dyn Fn(&str) -> bool,
}

/// The flows of a workload that began, and whether some of them failed.
#[derive(Clone, Copy, Debug, Default)]
struct Begun {
    flows: u64,
    has_failed: bool,
}

/// Warnings for the workloads whose flows did not all begin; `flows`: the workload and the state of each that did. Flows
/// with a start after the end of the run have a warning already, which `resolve` gives.
pub(crate) fn unstarted(
    planned: Planned,
    flows: impl Iterator<Item = (u16, FlowStatus)>,
    was_interrupted: bool,
) -> Vec<String> {
    let workloads = &planned.scenario.workload;
    let mut begun = vec![Begun::default(); workloads.len()];
    for (workload, status) in flows {
        if let Some(of_workload) = begun.get_mut(usize::from(workload)) {
            of_workload.flows += 1;
            of_workload.has_failed |= status == FlowStatus::Failed;
        }
    }
    let of_networks = workloads.iter().enumerate().filter(|(_, spec)| spec.kind.application().is_none());
    let warning = |(index, spec): (usize, &WorkloadSpec)| {
        let reason = missing(planned, (index, spec), begun[index], was_interrupted)?;
        Some(format!("workload {}: {reason}", spec.name))
    };
    of_networks.filter_map(warning).collect()
}

fn missing(
    Planned { scenario, topology, is_written }: Planned,
    (index, spec): (usize, &WorkloadSpec),
    begun: Begun,
    was_interrupted: bool,
) -> Option<String> {
    let end = scenario.stop.time;
    let is_in_run = spec.kind.starts().iter().any(|start| end.is_none_or(|end| *start < end));
    if !is_in_run {
        return None;
    }
    if begun.flows == 0 {
        return Some("no flow began before the end of the run: nothing was measured".to_owned());
    }
    let planned = spec.kind.planned_flows(topology, end)?;
    let missing = planned.checked_sub(begun.flows).filter(|missing| *missing > 0)?;
    // Without a count, the end of the run limits requests.
    let has_count =
        !matches!(spec.kind, WorkloadKind::Requests(_)) || is_written(&format!("workload.{index}.count"));
    if !begun.has_failed && (was_interrupted || !has_count) {
        return None;
    }
    let cause = if begun.has_failed { "flows before them failed" } else { "the run ended first" };
    Some(format!("{missing} of {} did not start: {cause}", counted(planned, "flow")))
}
