//! Converts a scenario's fault keys into link failures, bit errors, the PFC watchdog and the deadlock
//! detector of the network.

use crate::spec::lookup::ports_matching;
use crate::spec::{CorruptionSpec, PauseStormSpec, PfcSpec, Scenario, WatchdogActionName, WatchdogSpec};
use pauseframe_fabric::{ErrorModel, LinkFailure, Network, PauseStorm, PfcWatchdogSettings, WatchdogAction};
use pauseframe_topology::Topology;
use pauseframe_units::{Priority, Span, Time};

/// Installs the failures, the watchdog and the deadlock detector in the network.
pub(crate) fn install(scenario: &Scenario, topology: &Topology, network: &mut Network) {
    let mut plan = Vec::new();
    for failure in &scenario.failure {
        // `resolve` has already refused links that do not exist.
        let what = failure.links(topology).unwrap_or_default();
        let [down, up] = [Some(failure.down), failure.up].map(|at| at.map(|at| Time::ZERO + at));
        plan.extend(what.into_iter().map(|what| LinkFailure { what, down: down.unwrap_or_default(), up }));
    }
    network.schedule_failures(plan, scenario.routing.convergence);
    for CorruptionSpec { ports, ber, fer, stop } in &scenario.corruption {
        let model = ber.map(ErrorModel::BitErrors).or(fer.map(ErrorModel::FrameErrors));
        let ports = ports_matching(ports, topology);
        let bad: Vec<_> = model.into_iter().flat_map(|m| ports.iter().map(move |port| (*port, m))).collect();
        network.corrupt_frames(&bad, stop.map(|stop| Time::ZERO + stop));
    }
    let Some(pfc) = &scenario.switch.pfc else { return };
    network.add_pause_storms(
        scenario.pause_storm.iter().flat_map(|storm| storms(storm, pfc, topology)).collect(),
    );
    if let Some(WatchdogSpec { detection, action, restoration, poll }) = pfc.watchdog {
        let action = match action {
            WatchdogActionName::Drop => WatchdogAction::Drop,
            WatchdogActionName::Forward => WatchdogAction::Forward,
            WatchdogActionName::Alert => WatchdogAction::Alert,
        };
        network.enable_watchdog(PfcWatchdogSettings { detection, action, restoration, poll });
    }
    network.detect_deadlocks(scenario.record.deadlock_after, ends_at_deadlock(scenario));
    if let Some(spec) = &scenario.record.pause_tree {
        network.record_pauses(spec.limit as usize);
    }
}

/// A pause storm for each port that sends one.
fn storms<'a>(
    spec: &'a PauseStormSpec,
    pfc: &'a PfcSpec,
    topology: &Topology,
) -> impl Iterator<Item = PauseStorm> + use<'a> {
    let every = spec.frames_per_second.map(|rate| Span((1e12 / rate).ceil().max(1.0) as u64));
    let priorities: Vec<Priority> = spec.priorities(pfc).iter().filter_map(|p| Priority::new(*p)).collect();
    spec.ports(topology).into_iter().map(move |port| PauseStorm {
        port,
        priorities: priorities.clone(),
        every,
        quanta: spec.quanta,
        start: Time::ZERO + spec.start,
        stop: spec.stop.map(|stop| Time::ZERO + stop),
    })
}

/// True if a deadlock ends the run. By default a deadlock ends the run, unless a PFC watchdog, which needs
/// time, can break the deadlock.
pub(crate) fn ends_at_deadlock(scenario: &Scenario) -> bool {
    let guarded = scenario.switch.pfc.as_ref().is_some_and(|pfc| pfc.watchdog.is_some());
    scenario.stop.on_deadlock.unwrap_or(!guarded)
}
