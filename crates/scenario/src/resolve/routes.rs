//! Checks that routes fit the switches: a lossless priority for each lane, a route for each pair, no
//! deadlock.
//!
//! Routes that can deadlock cause a warning, because only a run shows whether a deadlock occurs. Routes that
//! need lanes to be deadlock-free cause an error if a pause stops whole links and thus all lanes, because
//! that defeats the purpose of lanes.

use super::checks::Named;
use super::dual_tor;
use crate::spec::engines::VLAN_MAX;
use crate::spec::{HostSpec, HostStack, RoutingKind, RoutingSpec, SwitchSpec};
use pauseframe_fabric::PortChoice;
use pauseframe_fabric::hash_index::HashIndex;
use pauseframe_fabric::path_hash::{HashFields, HashFunction, PathHashSettings};
use pauseframe_routing::verify::{CycleArc, Options, Report, Tables, verify};
use pauseframe_routing::{DependencyGraph, NextHops, SwitchPairs};
use pauseframe_schema::ledger::Ledger;
use pauseframe_topology::interchange::Labels;
use pauseframe_topology::{NodeKind, SwitchGraph, Topology};
use pauseframe_units::{NodeId, counted};

/// ECMP is not checked for deadlocks if the check would take noticeably long.
const ECMP_TURNS_MAX: u64 = 50_000_000;
/// Maximum number of dependencies of a cycle that a message lists.
const SHOWN_ARCS: usize = 8;

/// Checks the forwarding tables against the switches, after both have been read.
pub(crate) fn judge(
    ledger: &mut Ledger,
    (routing, host): (&RoutingSpec, &HostSpec),
    (graph, labels): (Option<&Topology>, &Labels),
    switch: &SwitchSpec,
    transports: &[Named],
) {
    let Some(graph) = graph else { return };
    if routing.kind == RoutingKind::Ecmp && routing.hash.index.index == HashIndex::Resilient {
        warn_of_few_buckets(ledger, routing.hash.index.buckets, graph);
    }
    warn_of_choice_without_paths(ledger, (routing, host), graph);
    warn_of_absent_fields(ledger, (routing, host), transports);
    let lossless = switch.pfc.as_ref().is_some_and(|pfc| {
        pfc.whole_link || transports.iter().any(|transport| transport.is_used && transport.spec.lossless)
    });
    let Some(vlans) = &routing.vlans else {
        if routing.kind != RoutingKind::Vlans && lossless {
            warn_of_ecmp(ledger, (graph, labels), (routing, host), (switch, transports));
        }
        return;
    };
    check_lanes(ledger, routing, switch, transports);
    let tables = &vlans.tables.0;
    if let Some(vlan) = tables.vlans().iter().find(|vlan| vlan.id > VLAN_MAX) {
        let message = format!("VLAN {} is above {VLAN_MAX}, the last of IEEE 802.1Q", vlan.id);
        ledger.problem("routing", message, "number the VLANs from 1");
    }
    // Ports that a file names keep their names in messages; other ports have the names of the results.
    let options =
        Options { examples: 1, labels: Some(labels).filter(|l| l.name_ports()), ..Options::default() };
    match verify(graph, tables, &options) {
        Ok(report) => {
            report_on(ledger, &report, lossless);
            if switch.pfc.as_ref().is_some_and(|pfc| pfc.whole_link) && !report.can_deadlock {
                check_merged_lanes(ledger, graph, tables, &options);
            }
        }
        Err(error) => ledger.problem("routing", error.to_string(), ""),
    }
}

/// Checks that routes which are deadlock-free lane by lane stay so if a pause stops all lanes of a link at
/// once.
fn check_merged_lanes(ledger: &mut Ledger, graph: &Topology, tables: &Tables, options: &Options<'_>) {
    if tables.lanes() < 2 || ledger.failed("switch.pfc.whole_link") {
        return;
    }
    match verify(graph, &tables.in_one_lane(), options) {
        Ok(report) if report.can_deadlock => {
            let arc = |arc: &CycleArc| {
                let CycleArc { held, wanted, witness } = arc;
                format!("{} waits for {} ({} to {})", held.port, wanted.port, witness.from, witness.to)
            };
            let shown: Vec<String> = report.shortest_cycle.iter().take(SHOWN_ARCS).map(arc).collect();
            let more = report.shortest_cycle.len().saturating_sub(SHOWN_ARCS);
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            let message = format!(
                "true: a pause stops all {} lanes of a link together, and without lanes these routes can deadlock: {}{more}",
                tables.lanes(),
                shown.join(", ")
            );
            let hint = "leave it off (PFC pauses each lane by itself), or plan for one lane with routing.kind = \"up_down\"";
            ledger.problem("switch.pfc.whole_link", message, hint);
        }
        Ok(_) => {}
        Err(error) => ledger.problem("routing", error.to_string(), ""),
    }
}

fn report_on(ledger: &mut Ledger, report: &Report, lossless: bool) {
    if let Some(pair) = report.unreachable.examples.first() {
        let message = format!(
            "no VLAN leads from {:?} to {:?} ({} of hosts without a route)",
            pair.from,
            pair.to,
            counted(report.unreachable.count, "pair")
        );
        ledger.problem("routing", message, "add rows or senders for them, or plan again for this topology");
    }
    if let (true, true, Some(arc)) = (report.can_deadlock, lossless, report.shortest_cycle.first()) {
        ledger.warn(format!(
            "routing: these routes can deadlock under PFC: {} buffers wait for each other in a circle, {} among them ({} to {})",
            report.shortest_cycle.len(),
            arc.held.port,
            arc.witness.from,
            arc.witness.to
        ));
    }
}

/// Checks that every lane has a lossless priority; warns if a lossless transport sets a priority, because the
/// lane sets it.
fn check_lanes(ledger: &mut Ledger, routing: &RoutingSpec, switch: &SwitchSpec, transports: &[Named]) {
    let (lanes, Some(pfc)) = (routing.lanes(), &switch.pfc) else { return };
    let has = pfc.priorities.len();
    if lanes > has && !ledger.failed("switch.pfc.priorities") {
        let message = format!("{} for {lanes} lanes of the routes", counted(has, "lossless priority"));
        let hint = format!("name {lanes}, or lower routing.lanes to {has}; up_down needs one lane");
        ledger.problem("switch.pfc.priorities", message, hint);
    }
    let given = transports.iter().filter(|t| t.is_used && t.spec.lossless && t.priority.is_some());
    for Named { path, .. } in given {
        if lanes > 1 {
            ledger
                .warn(format!("{path}.priority: the lane of its VLAN gives a lossless packet its priority"));
        }
    }
}

/// Warns if shortest paths can deadlock; skips fabrics for which the check would take too long.
fn warn_of_ecmp(
    ledger: &mut Ledger,
    (graph, labels): (&Topology, &Labels),
    (routing, host): (&RoutingSpec, &HostSpec),
    (switch, transports): (&SwitchSpec, &[Named]),
) {
    let Ok(switches) = SwitchGraph::new(graph) else { return };
    let turns: u64 = (0..switches.len() as u32).map(|s| (switches.arcs(s).len() as u64).pow(2)).sum();
    if turns * switches.attachments().len() as u64 > ECMP_TURNS_MAX {
        return;
    }
    let peer_links = if routing.mlag { graph.links_between_homes() } else { Vec::new() };
    let Ok(hops) = NextHops::shortest_with_last_resort(graph, &peer_links) else { return };
    let all_up = pairs_in_use(&hops, host.port_choice);
    for (state, pairs) in [("", all_up), (" once ports of hosts are dead", SwitchPairs::all(hops.graph()))] {
        let Ok(dependencies) = DependencyGraph::of_pairs(&hops, &pairs) else { return };
        let Some(cycle) = dependencies.shortest_cycle() else { continue };
        ledger.warn(format!(
            "routing: shortest paths on this topology can deadlock under PFC{state} ({} buffers wait for each other in a circle: {}); \
             order_pair, up_down and edst cannot",
            cycle.len(),
            cycle.first().map_or(String::new(), |first| first.describe(graph, labels))
        ));
        return;
    }
    dual_tor::warn_of_detours(ledger, (graph, labels), (routing, host), (switch, transports), &hops);
}

/// The pairs of edge switches between which flows send while all ports of hosts are up
/// (`crates/fabric/src/host_ports`).
fn pairs_in_use(hops: &NextHops, choice: PortChoice) -> SwitchPairs {
    let has_way = |from: NodeId, to: NodeId| hops.distance(from, to) < u32::MAX;
    SwitchPairs::of_choice(hops.graph(), |(number, own), all| {
        let from = own[number];
        let same = all.get(number).is_some_and(|to| has_way(from, *to));
        let leads = |from: &NodeId| all.iter().any(|to| has_way(*from, *to));
        match choice {
            PortChoice::Rail if same => return vec![number],
            PortChoice::ActiveBackup if own.iter().position(leads) != Some(number) => return Vec::new(),
            PortChoice::ActiveBackup if has_way(from, all[0]) => return vec![0],
            _ => {}
        }
        let links = |to: &NodeId| hops.distance(from, *to);
        let nearest = all.iter().map(links).min().filter(|links| *links < u32::MAX);
        (0..all.len()).filter(|to| Some(links(&all[*to])) == nearest).collect()
    })
}

/// Warns of keys about equal next hops where one switch joins hosts with one port each.
fn warn_of_choice_without_paths(
    ledger: &mut Ledger,
    (routing, host): (&RoutingSpec, &HostSpec),
    graph: &Topology,
) {
    let switches = graph.nodes().iter().filter(|node| node.kind == NodeKind::Switch);
    if host.stack != HostStack::Simulated || switches.count() > 1 || !graph.ports_of_hosts().is_empty() {
        return;
    }
    let PathHashSettings { function, index, .. } = &routing.hash;
    let changed = [("hash", *function != HashFunction::Ideal), ("index", index.index != HashIndex::Modulo)];
    for (key, _) in changed.iter().filter(|(_, is_changed)| *is_changed) {
        ledger
            .warn(format!("routing.{key}: the one switch has one next hop to each host: it changes nothing"));
    }
}

/// Warns of fields of the hash that no packet of the scenario has.
fn warn_of_absent_fields(
    ledger: &mut Ledger,
    (routing, host): (&RoutingSpec, &HostSpec),
    transports: &[Named],
) {
    let has_pairs = transports.iter().any(|transport| transport.is_used && transport.spec.rdma().is_some());
    let (fields, change) = match routing.hash.fields {
        HashFields::FiveTupleAndPair if !has_pairs => ("no transport has queue pairs", "5-tuple"),
        HashFields::InnerAddresses if host.port_choice != PortChoice::Mux => {
            ("no packet enters a tunnel without host.port_choice = \"mux\"", "addresses")
        }
        _ => return,
    };
    ledger.warn(format!("routing.hash_fields: {fields}: it changes nothing against \"{change}\""));
}

/// Warns if a switch has more next hops than buckets, so that some get no flow.
fn warn_of_few_buckets(ledger: &mut Ledger, buckets: u32, graph: &Topology) {
    let switches = || graph.nodes().iter_enumerated().filter(|(_, node)| node.kind == NodeKind::Switch);
    if switches().all(|(_, node)| node.ports.len() <= buckets as usize) {
        return;
    }
    let Ok(hops) = NextHops::shortest(graph) else { return };
    let to_hosts = |at| graph.hosts().map(move |to| (at, to));
    let counts = switches().flat_map(|(at, _)| to_hosts(at)).map(|(at, to)| (hops.ports(at, to).len(), at));
    let Some((most, at)) = counts.max_by_key(|(count, at)| (*count, std::cmp::Reverse(*at))) else { return };
    if most > buckets as usize {
        ledger.warn(format!(
            "routing.buckets: {buckets} for {most} next hops of {}: {} of them never get a flow while all are up",
            graph.nodes()[at].name,
            most - buckets as usize
        ));
    }
}
