//! Warnings after a run: results that a reader could misinterpret, and data that the results lack.

use crate::spec::remember::hindrance;
use crate::spec::{RememberSteps, Scenario};
use crate::volume::SERIES_ROWS_MAX;
use pauseframe_fabric::{
    Network, PortPriorityReport, Settings, StepMemoryReport, matches_glob, matching_ports,
};
use pauseframe_results::{Names, Series};
use pauseframe_topology::Topology;
use pauseframe_units::{LinkId, PortId, Time, counted};

/// Warns of links that stay down to the end although flows that need them have not finished. Queues that wait for a link
/// that is down are not deadlocked, but look deadlocked in the tables.
pub(super) fn dead_links(network: &mut Network, names: &Names, now: Time) -> Option<String> {
    let down = network.failed_links();
    let waiting = if down.is_empty() { 0 } else { network.flows_over_failed_links(now) };
    if waiting == 0 {
        return None;
    }
    let port = |link: &LinkId| names.topology.port_name(PortId::of_link(*link, 0));
    let some: Vec<String> = down.iter().take(4).map(port).collect();
    let more = if down.len() > some.len() {
        format!(" and {} more", down.len() - some.len())
    } else {
        String::new()
    };
    Some(format!(
        "failure: the links of {}{more} are down at the end of the run, and {}: they cannot finish by their routes, which \
         is no deadlock",
        some.join(", "),
        match waiting {
            1 => "1 unfinished flow needs them".to_owned(),
            _ => format!("{waiting} unfinished flows need them"),
        }
    ))
}

/// Warns of retransmission timers of NSCC that are below the round trip and were raised.
pub(super) fn longer_timeouts(scenario: &Scenario, settings: &Settings) -> Vec<String> {
    let named = scenario.transports.iter().map(|(name, _)| format!("transports.{name}"));
    let paths = std::iter::once("transport".to_owned()).chain(named);
    let used = scenario.transport_specs().zip(&settings.transports).zip(paths);
    let pairs = used.filter_map(|((spec, transport), path)| {
        let (written, used) = (spec.rdma()?.pair.timeout, transport.rdma()?.pair.timeout);
        (written < used).then(|| {
            format!(
                "{path}.rdma_timeout: {written} is less than twice the idle round trip of the longest path, so {used} is used"
            )
        })
    });
    pairs.collect()
}

/// Maximum number of flows whose paths are compared with the ports of storms, or with an even hash.
pub(super) const PATHS_MAX: usize = 20_000;

/// Warns of storms of pause frames towards ports that nothing used, unless `warnings` names the storm already.
pub(super) fn idle_storms(
    scenario: &Scenario,
    (network, now): (&mut Network, Time),
    names: &Names,
    ports: &[PortPriorityReport],
    warnings: &mut Vec<String>,
) {
    let Some(pfc) = scenario.switch.pfc.as_ref().filter(|_| !scenario.pause_storm.is_empty()) else { return };
    let flows = network.packed_flow_records(now).len();
    if flows > PATHS_MAX {
        return;
    }
    let paths: Option<Vec<Vec<PortId>>> = (0..flows).map(|flow| network.path_of_flow(flow as u32)).collect();
    let Some(paths) = paths else { return };
    for (index, storm) in scenario.pause_storm.iter().enumerate() {
        let of_storm =
            |row: &PortPriorityReport| pfc.whole_link || storm.priorities(pfc).contains(&row.priority);
        let is_used = |port: &PortId| {
            let mut rows = ports.iter().filter(|row| row.port == *port && of_storm(row));
            rows.any(|row| row.tx_packets + row.backlog_max > 0)
                || paths.iter().any(|path| path.contains(port))
        };
        let paused: Vec<PortId> = storm.ports(names.topology).iter().map(|port| port.reverse()).collect();
        let path = format!("pause_storm.{index}: nothing ");
        let is_named = warnings.iter().any(|text| text.starts_with(&path));
        let Some(first) = paused.first().filter(|_| !is_named && !paused.iter().any(is_used)) else {
            continue;
        };
        warnings.push(format!(
            "{path}was sent over the ports that it paused, such as {}: the storm had no effect",
            names.topology.port_name(*first)
        ));
    }
}

/// Warns of dropped SYNs. A SYN is not ECN-capable (RFC 3168 §6.1.1), so a marker that drops packets which it
/// cannot mark delays connections by a second.
pub(super) fn dropped_syns(network: &Network) -> Option<String> {
    let count = network.not_ect_syn_drops();
    (count > 0).then(|| {
        format!(
            "transport.ect_on_syn: {count} SYNs were dropped by a marker because they are not ECN-capable, and each is sent \
             again only after transport.rto_initial; set ect_on_syn = true, or switch.marker.not_ect = \"queue\""
        )
    })
}

/// Warns of data that `[record]` requests but this run cannot record.
pub(super) fn unrecorded(scenario: &Scenario, topology: &Topology, has_folder: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut check = |key: &str, globs: &[String]| {
        if !globs.is_empty() && matching_ports(globs, topology).is_empty() {
            warnings.push(format!(
                "record.{key}.ports: no port is called {}; ports are NODE:NUMBER, as in leaf0:*",
                globs.join(" or ")
            ));
        }
    };
    if let Some(series) = &scenario.record.series {
        check("series", &series.ports);
    }
    if let Some(packets) = &scenario.record.packets {
        check("packets", &packets.ports);
        if !has_folder {
            warnings.push(
                "record.packets: packets are written to a results folder only, and none was given".to_owned(),
            );
        }
    }
    let is_there =
        |glob: &String| scenario.workload.iter().any(|workload| matches_glob(glob, &workload.name));
    if let Some(series) = &scenario.record.series
        && !series.flows.is_empty()
        && !series.flows.iter().any(is_there)
    {
        warnings.push(format!("record.series.flows: no workload is called {}", series.flows.join(" or ")));
    }
    warnings
}

/// Warns of incomplete results: full logs, and jobs that did not finish.
pub(super) fn cut_short(network: &Network, of_jobs: Vec<String>, series: &Series) -> Vec<String> {
    let mut warnings = Vec::new();
    let count = network.unrecorded_pause_count();
    if count > 0 {
        let pauses = counted(count, "pause");
        warnings.push(format!("record.pause_tree.limit: {pauses} came after it, and the tree lacks them"));
    }
    warnings.extend(of_jobs);
    if let Some(time) = network.state_log_full_at() {
        warnings.push(format!(
            "record.states.limit: the log was full at {time} and what came later is not in it; raise limit or every"
        ));
    }
    if let Some(time) = series.full() {
        warnings.push(format!(
            "record.series: {SERIES_ROWS_MAX} rows were full at {time} and later samples are missing; lengthen every, name \
             fewer ports and flows, or use --force-large"
        ));
    }
    warnings
}

/// `remember` has no effect in this scenario.
pub(super) fn nothing_remembered(scenario: &Scenario, settings: &Settings) -> Option<String> {
    (scenario.remember.steps != RememberSteps::Off)
        .then(|| hindrance(scenario, settings))?
        .map(|reason| format!("remember.steps: nothing was replayed, since {reason}"))
}

/// Steps that were simulated again are not what their replays were.
pub(super) fn unlike_replays(memory: Option<&StepMemoryReport>) -> Option<String> {
    let StepMemoryReport { settings, compared, beyond_bound, largest_difference, .. } = *memory?;
    (beyond_bound > 0).then(|| {
        format!(
            "remember.bound: of {compared} steps or rounds that were simulated again {beyond_bound} differ from {} by more than {} % of \
             their length, at most by {:.3} %: what is replayed may be as far off; use a run without --remember",
            if settings.checks { "what a replay would have given" } else { "their replays" },
            settings.bound * 100.0,
            largest_difference * 100.0
        )
    })
}
