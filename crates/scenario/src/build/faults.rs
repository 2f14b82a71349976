//! Converts a scenario's fault keys into link failures, bit errors, the PFC watchdog and the deadlock
//! detector of the network.

use crate::spec::{CorruptionSpec, PauseStormSpec, Scenario};
use pauseframe_fabric::{ErrorModel, Network, PauseStorm, PfcSettings, ScheduledFailure, matching_ports};
use pauseframe_topology::Topology;
use pauseframe_units::{Bytes, PortId, Span, Time};

/// Installs the failures, the watchdog and the deadlock detector in the network.
pub(super) fn install(scenario: &Scenario, topology: &Topology, network: &mut Network) {
    let mut plan = Vec::new();
    for failure in &scenario.failure {
        // `resolve` has already refused links that do not exist.
        let what = failure.links(topology).unwrap_or_default();
        let [down, up] = [Some(failure.down), failure.up].map(|at| at.map(|at| Time::ZERO + at));
        plan.extend(what.into_iter().map(|what| ScheduledFailure {
            what,
            down: down.unwrap_or_default(),
            up,
            is_silent: failure.silent,
        }));
    }
    network.schedule_failures(plan, scenario.routing.convergence);
    // Rows of `[[corruption]]` replace what the topology file says of a port.
    let labels = scenario.topology.kind.labels();
    let of_link =
        |(link, ratio)| [0, 1].map(|end| (PortId::of_link(link, end), ErrorModel::FrameErrors(ratio)));
    let of_file: Vec<_> = labels.frame_errors().flat_map(of_link).collect();
    let mut has_row = vec![false; topology.port_count()];
    for row in &scenario.corruption {
        for port in matching_ports(&row.ports, topology) {
            has_row[port.0 as usize] = true;
        }
    }
    let of_file: Vec<_> = of_file.into_iter().filter(|(port, _)| !has_row[port.0 as usize]).collect();
    if !of_file.is_empty() {
        network.add_error_models(&of_file, &(Time::ZERO..Time::MAX));
    }
    // A port lets a tagged frame pass that is 4 bytes longer: without its tag.
    let largest = |mtu: &Bytes| {
        let overhead = super::settings::overhead(scenario);
        ErrorModel::LargerThan(mtu.0 as u32 + overhead.frame)
    };
    for CorruptionSpec { ports, ber, fer, mtu, start, stop } in &scenario.corruption {
        let errors = ber.map(ErrorModel::BitErrors).or(fer.map(ErrorModel::FrameErrors));
        let model = errors.or(mtu.as_ref().map(largest));
        let ports = matching_ports(ports, topology);
        let bad: Vec<_> = model.into_iter().flat_map(|m| ports.iter().map(move |port| (*port, m))).collect();
        let stop = stop.map_or(Time::MAX, |stop| Time::ZERO + stop);
        network.add_error_models(&bad, &(Time::ZERO + *start..stop));
    }
    let Some(pfc) = &scenario.switch.pfc else { return };
    network.add_pause_storms(
        scenario.pause_storm.iter().flat_map(|storm| storms(storm, pfc, topology)).collect(),
    );
    if let Some(watchdog) = pfc.watchdog {
        network.enable_watchdog(watchdog);
    }
    network.enable_deadlock_detection(scenario.record.deadlock_after, scenario.ends_at_deadlock());
    if let Some(spec) = &scenario.record.pause_tree {
        network.enable_pause_log(spec.limit as usize);
    }
}

/// A pause storm for each port that sends one.
fn storms<'a>(
    spec: &'a PauseStormSpec,
    pfc: &'a PfcSettings,
    topology: &Topology,
) -> impl Iterator<Item = PauseStorm> + use<'a> {
    let every = spec.frames_per_second.map(|rate| Span((1e12 / rate).ceil().max(1.0) as u64));
    spec.ports(topology).into_iter().map(move |port| PauseStorm {
        port,
        priorities: spec.priorities(pfc).to_vec(),
        every,
        quanta: spec.quanta,
        start: Time::ZERO + spec.start,
        stop: spec.stop.map(|stop| Time::ZERO + stop),
    })
}
