//! Keys of a scenario that the flow-level model does not implement. A key that decides which flows finish
//! causes an error; a key that changes only times or records causes a warning.

use crate::spec::{HostStack, Scenario, Scheduler, WorkloadKind, WorkloadSpec};
use pauseframe_results::RunError;
use pauseframe_units::Priority;
use std::collections::BTreeSet;

/// # Errors
/// If the scenario sets keys that decide which flows finish and that the flow level does not implement.
pub(super) fn refuse(scenario: &Scenario) -> Result<(), RunError> {
    let is_application = |workload: &&WorkloadSpec| matches!(workload.kind, WorkloadKind::Application(_));
    if let Some(workload) = scenario.workload.iter().find(is_application) {
        let message = format!("workload {} is an application: use pauseframe run", workload.name);
        return Err(RunError::Build(message));
    }
    let keys = deciding(scenario);
    if keys.is_empty() {
        return Ok(());
    }
    let message = format!(
        "{} cannot be followed at flow level, where nothing fails and nobody refuses: remove it, or use pauseframe run",
        keys.join(", ")
    );
    Err(RunError::Build(message))
}

fn deciding(scenario: &Scenario) -> Vec<&'static str> {
    let host = &scenario.host;
    let keys = [
        ("failure", !scenario.failure.is_empty()),
        ("corruption", !scenario.corruption.is_empty()),
        ("the error rates of topology.path", scenario.topology.kind.labels().frame_errors().next().is_some()),
        ("pause_storm", !scenario.pause_storm.is_empty()),
        ("host.refusing", !host.refusing.is_empty()),
        ("host.silent", !host.silent.is_empty()),
        ("host.slow_receivers.stop", host.slow_receivers.iter().any(|receiver| receiver.stop.is_some())),
    ];
    keys.into_iter().filter(|(_, given)| *given).map(|(key, _)| key).collect()
}

/// A warning about keys that have no effect at flow level, if the scenario sets any. A static demand also
/// ignores the workloads.
pub(super) fn warning(scenario: &Scenario, is_static: bool) -> Option<String> {
    let record = &scenario.record;
    let priorities: BTreeSet<Priority> = scenario.transport_specs().map(|spec| spec.priority).collect();
    let keys = [
        ("qcn", scenario.qcn.is_some()),
        ("host.stack", scenario.host.stack == HostStack::Kernel),
        ("switch.scheduler", scenario.switch.scheduler != Scheduler::default()),
        ("transport.priority", priorities.len() > 1),
        ("record.series", record.series.is_some()),
        ("record.packets", record.packets.is_some()),
        ("record.pause_tree", record.pause_tree.is_some()),
        ("record.states", record.states.is_some()),
        ("host.slow_receivers", is_static && !scenario.host.slow_receivers.is_empty()),
    ];
    let mut named: Vec<&str> = keys.into_iter().filter(|(_, given)| *given).map(|(key, _)| key).collect();
    if is_static {
        named.extend(deciding(scenario));
    }
    (!named.is_empty()).then(|| format!("at flow level these keys change nothing: {}", named.join(", ")))
}
