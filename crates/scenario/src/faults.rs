//! Adds the scenario's failures, corruption, watchdog and deadlock detector to the network.

use crate::spec::lookup::ports_matching;
use crate::spec::{CorruptionSpec, PauseStormSpec, PfcSpec, Scenario, WatchdogActionName, WatchdogSpec};
use pauseframe_fabric::{ErrorModel, Failure, Network, PauseStorm, Watchdog, WatchdogAction};
use pauseframe_topology::Topology;
use pauseframe_units::{Priority, Span, Time};

/// Configures faults and their detection.
pub(crate) fn install(scenario: &Scenario, topology: &Topology, network: &mut Network) {
    let mut plan = Vec::new();
    for failure in &scenario.failure {
        // `resolve` has rejected unknown names.
        let what = failure.links(topology).unwrap_or_default();
        let [down, up] = [Some(failure.down), failure.up].map(|at| at.map(|at| Time::ZERO + at));
        plan.extend(what.into_iter().map(|what| Failure { what, down: down.unwrap_or_default(), up }));
    }
    network.fail(plan, scenario.routing.convergence);
    for CorruptionSpec { ports, ber, fer, stop } in &scenario.corruption {
        let model = ber.map(ErrorModel::BitErrors).or(fer.map(ErrorModel::FrameErrors));
        let ports = ports_matching(ports, topology);
        let bad: Vec<_> = model.into_iter().flat_map(|m| ports.iter().map(move |port| (*port, m))).collect();
        network.corrupt(&bad, stop.map(|stop| Time::ZERO + stop));
    }
    let Some(pfc) = &scenario.switch.pfc else { return };
    network.storm(scenario.pause_storm.iter().flat_map(|storm| storms(storm, pfc, topology)).collect());
    if let Some(WatchdogSpec { detection, action, restoration, poll }) = pfc.watchdog {
        let action = match action {
            WatchdogActionName::Drop => WatchdogAction::Drop,
            WatchdogActionName::Forward => WatchdogAction::Forward,
            WatchdogActionName::Alert => WatchdogAction::Alert,
        };
        network.guard(Watchdog { detection, action, restoration, poll });
    }
    network.detect_deadlocks(scenario.record.deadlock_after, ends_at_deadlock(scenario));
    if let Some(spec) = &scenario.record.pause_tree {
        network.record_pauses(spec.limit as usize);
    }
}

/// A storm per sending port.
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

/// The effective `stop.on_deadlock`: a watchdog gets the time to break deadlocks.
pub(crate) fn ends_at_deadlock(scenario: &Scenario) -> bool {
    let guarded = scenario.switch.pfc.as_ref().is_some_and(|pfc| pfc.watchdog.is_some());
    scenario.stop.on_deadlock.unwrap_or(!guarded)
}
