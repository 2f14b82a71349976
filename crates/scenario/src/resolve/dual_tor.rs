//! Pairs of switches that share hosts: mux cables (`host.port_choice = "mux"`) and MLAG (`routing.mlag`). What they
//! need, what they are not simulated with, and whether their detours can deadlock.

use super::checks::Named;
use super::draft::Draft;
use crate::spec::{HostSpec, QueueDiscipline, RoutingKind, RoutingSpec, SwitchSpec, TunnelClass};
use pauseframe_fabric::{PortChoice, matching_ports};
use pauseframe_rdma::EntropyChoice;
use pauseframe_routing::{DependencyGraph, Detours, LaneChange, NextHops};
use pauseframe_schema::ledger::Ledger;
use pauseframe_topology::interchange::Labels;
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_units::{LinkId, NodeId, PortId, Priority};
use std::collections::BTreeSet;

/// States of failed uplinks are not checked for deadlocks if there are more leaf switches with peer links.
const ISOLATED_MAX: usize = 256;

/// Checks mux cables and peer links against the graph and the other tables.
pub(super) fn check(ledger: &mut Ledger, draft: &Draft) {
    let (routing, host) = (&draft.routing, &draft.host);
    let is_mux = host.port_choice == PortChoice::Mux;
    if !is_mux && !routing.tunnel_remap.is_empty() {
        let hint = "set host.port_choice = \"mux\", or remove it";
        ledger.problem("routing.tunnel_remap", "no host has a mux cable, so no switch has a tunnel", hint);
    }
    let Some(graph) = &draft.graph else { return };
    if is_mux {
        check_mux(ledger, draft, graph);
        check_remap(ledger, routing, &draft.switch);
    }
    if routing.mlag {
        if graph.links_between_homes().is_empty() {
            let message = "true, but no link joins two switches that share hosts with two ports";
            let hint = "set topology.peer_links = 1 and topology.ports_per_host = 2, or list such links, or remove it";
            ledger.problem("routing.mlag", message, hint);
        }
        if is_mux {
            let message = "true, but hosts have mux cables, whose ToRs have tunnels instead of a peer link";
            ledger.problem("routing.mlag", message, "remove one of the two");
        }
        if host.port_choice == PortChoice::Rail {
            let message = "true, but with host.port_choice = \"rail\" each port has its own address, which no other switch can reach";
            ledger.problem("routing.mlag", message, "use a bond, as \"802.3ad\", or remove it");
        }
        if let Some(path) = packets_with_entropy(draft) {
            let message = "packets with entropy values have no path that a switch could leave";
            ledger.problem(
                "routing.mlag",
                message,
                format!("use {path}.rdma_entropy = \"none\", or remove it"),
            );
        }
    }
}

/// The transport whose packets each take a path, if there is one.
fn packets_with_entropy(draft: &Draft) -> Option<&str> {
    let has_entropy = |named: &&Named| {
        named.is_used && named.spec.rdma().is_some_and(|rdma| rdma.pair.entropy != EntropyChoice::None)
    };
    draft.transports.iter().find(has_entropy).map(|named| named.path.as_str())
}

fn check_mux(ledger: &mut Ledger, draft: &Draft, graph: &Topology) {
    let path = "host.port_choice";
    if ledger.failed(path) {
        return;
    }
    let several = graph.ports_of_hosts();
    if several.is_empty() {
        let message = "\"mux\": a mux cable joins a host to two ToRs, and every host has one port";
        ledger.problem(path, message, "set topology.ports_per_host = 2, or give hosts two links");
        return;
    }
    let switch_at = |port: &NodeId| graph.peer(graph.nodes()[*port].ports[0]);
    let misfit = several.iter().find(|(_, ports)| {
        let switches: BTreeSet<NodeId> = ports.iter().map(switch_at).collect();
        ports.len() != 2 || switches.len() != 2
    });
    if let Some((host, ports)) = misfit {
        let name = &graph.nodes()[*host].name;
        let message =
            format!("\"mux\": a mux cable joins a host to two ToRs, and {name} has {} ports", ports.len());
        let what = if ports.len() == 2 { format!("{message}, both at one switch") } else { message };
        ledger.problem(path, what, "give each such host a link to each of two switches");
        return;
    }
    let apart = several.values().any(|ports| {
        NextHops::shortest(graph).is_ok_and(|hops| hops.distance(ports[0], ports[1]) == u32::MAX)
    });
    let tables = draft.routing.kind != RoutingKind::Ecmp;
    let trims = draft.switch.queue == QueueDiscipline::Trim
        || draft.switch.classes.iter().any(|(_, class)| class.queue == Some(QueueDiscipline::Trim));
    let entropy = packets_with_entropy(draft);
    let refused = [
        (
            apart,
            "the two ToRs of a host are in planes that no link joins, so there is no tunnel",
            "use \"802.3ad\", or one plane",
        ),
        (
            tables,
            "a tunnel is a part of a flow's path, and with this routing.kind packets have none",
            "use routing.kind = \"ecmp\"",
        ),
        (
            entropy.is_some(),
            "packets with entropy values have no path that could lead through a tunnel",
            "use rdma_entropy = \"none\"",
        ),
        (trims, "trimmed packets are not simulated in tunnels", "use another switch.queue"),
        (draft.record.packets.is_some(), "captures do not show outer headers yet", "remove record.packets"),
    ];
    for (_, message, hint) in refused.iter().filter(|(is_so, ..)| *is_so) {
        ledger.problem(path, format!("\"mux\": {message}"), *hint);
    }
    for pattern in &draft.host.mux_active {
        let found = matching_ports(std::slice::from_ref(pattern), graph);
        let is_of_host = |port: &PortId| several.values().any(|ports| ports.contains(&graph.owner(*port)));
        if !found.iter().any(is_of_host) {
            let message = format!("{pattern:?} is no port of a host with two");
            ledger.problem(
                "host.mux_active",
                message,
                "ports are HOST:NUMBER, as in \"host0:1\" or \"host*:1\"",
            );
        }
    }
    let active = draft.host.first_active_ports(graph);
    let has_both = |(_, ports): &(_, &Vec<NodeId>)| ports.iter().all(|port| active.contains(port));
    if let Some((host, _)) = several.iter().find(has_both) {
        let message = format!("names both ports of {}: one ToR is active", graph.nodes()[*host].name);
        ledger.problem("host.mux_active", message, "name one port of each host, as in \"host*:1\"");
    }
}

/// Checks that lossy packets are so in the tunnel too; warns of lossless ones that are not.
fn check_remap(ledger: &mut Ledger, routing: &RoutingSpec, switch: &SwitchSpec) {
    let path = "routing.tunnel_remap";
    let lossless = |priority: Priority| {
        switch.pfc.as_ref().is_some_and(|pfc| pfc.whole_link || pfc.priorities.contains(&priority))
    };
    let mut seen: BTreeSet<Priority> = BTreeSet::new();
    for TunnelClass { priority, outer } in &routing.tunnel_remap {
        let [own, of_outer] = [priority, outer].map(|priority| priority.code_point());
        if !seen.insert(*priority) {
            ledger.problem(path, format!("priority {own} is in two rows"), "keep one row for each priority");
        }
        let (is_lossless, name) = (lossless(*priority), "switch.pfc.priorities");
        if is_lossless && !lossless(*outer) {
            let message = format!(
                "priority {own} is lossless and {of_outer} is not: the tunnel can drop packets that must not be lost"
            );
            ledger.warn(format!("{path}: {message}; add {of_outer} to {name}"));
        } else if lossless(*outer) && !is_lossless {
            let message = format!(
                "priority {of_outer} is lossless and {own} is not: lossy packets would pause the tunnel"
            );
            ledger.problem(path, message, "give them a lossy outer priority");
        }
    }
}

/// Warns if tunnels or peer links can deadlock where shortest paths cannot. Mux cables are taken in every state, peer
/// links with any links of hosts down, and with the uplinks of one switch down.
pub(super) fn warn_of_detours(
    ledger: &mut Ledger,
    (graph, labels): (&Topology, &Labels),
    (routing, host): (&RoutingSpec, &HostSpec),
    (switch, transports): (&SwitchSpec, &[Named]),
    hops: &NextHops,
) {
    let pairs = graph.switches_with_common_hosts();
    let cycle = |hops: &NextHops, detours: &Detours, lanes: &[LaneChange]| {
        let dependencies = DependencyGraph::with_detours(graph, hops, detours, lanes).ok()?;
        let cycle = dependencies.shortest_cycle()?;
        let first = cycle.first()?;
        let is_whole_link = switch.pfc.as_ref().is_none_or(|pfc| pfc.whole_link);
        let in_priority = if detours.tunnels.is_empty() || is_whole_link {
            String::new()
        } else {
            format!(" in priority {}", first.to.lane)
        };
        let wait = first.describe_wait(graph, labels);
        Some(format!("{} buffers wait for each other in a circle: {wait}{in_priority}", cycle.len()))
    };
    if host.port_choice == PortChoice::Mux {
        let tunnels = pairs.iter().flat_map(|[one, other]| [[*one, *other], [*other, *one]]).collect();
        let detours = Detours { tunnels, peer_ports: Vec::new() };
        if let Some(cycle) = cycle(hops, &detours, &lanes(routing, switch, transports)) {
            ledger.warn(format!(
                "routing: the tunnels between ToRs can deadlock under PFC, once both ToRs of a pair send packets on ({cycle}); \
                 give such packets another lossless priority with routing.tunnel_remap"
            ));
        }
    }
    if routing.mlag {
        let links = graph.links_between_homes();
        let lane = [LaneChange { own: 0, outer: None }];
        let detours = Detours { tunnels: Vec::new(), peer_ports: ports_of(&links) };
        let found = cycle(hops, &detours, &lane).or_else(|| {
            let all = NextHops::shortest(graph).ok()?;
            states_without_uplinks(graph, &links).into_iter().find_map(|failed| {
                let with_peers = NextHops::shortest_despite(graph, &failed, &all);
                let failed: Vec<LinkId> = failed.iter().chain(&links).copied().collect();
                cycle(&NextHops::shortest_avoiding(graph, &failed, &with_peers), &detours, &lane)
            })
        });
        if let Some(cycle) = found {
            ledger.warn(format!("routing: paths over peer links can deadlock under PFC ({cycle})"));
        }
    }
}

fn ports_of(links: &[LinkId]) -> Vec<PortId> {
    links.iter().flat_map(|link| [0, 1].map(|end| PortId::of_link(*link, end))).collect()
}

/// For each switch with a peer link: its links to other switches.
fn states_without_uplinks(graph: &Topology, peer_links: &[LinkId]) -> Vec<Vec<LinkId>> {
    let leaves: BTreeSet<NodeId> = peer_links.iter().flat_map(|link| graph.links()[*link].ends).collect();
    if leaves.len() > ISOLATED_MAX {
        return Vec::new();
    }
    let uplinks = |leaf: NodeId| {
        let ports = graph.nodes()[leaf].ports.iter();
        let to_switch = ports.filter(|port| graph.nodes()[graph.peer(**port)].kind == NodeKind::Switch);
        to_switch.map(|port| port.link()).filter(|link| !peer_links.contains(link)).collect()
    };
    leaves.into_iter().map(uplinks).collect()
}

/// The lossless priorities in use, each with that of its outer header.
fn lanes(routing: &RoutingSpec, switch: &SwitchSpec, transports: &[Named]) -> Vec<LaneChange> {
    let Some(pfc) = &switch.pfc else { return Vec::new() };
    if pfc.whole_link {
        return vec![LaneChange { own: 0, outer: Some(0) }];
    }
    let used = transports.iter().filter(|named| named.is_used);
    let own = used.flat_map(|named| {
        let cnp = named.spec.rdma().map(|rdma| rdma.cnp_priority);
        [Some(named.spec.priority), cnp].into_iter().flatten()
    });
    let own: BTreeSet<Priority> = own.filter(|priority| pfc.priorities.contains(priority)).collect();
    let lane = |own: Priority| {
        let row = routing.tunnel_remap.iter().find(|row| row.priority == own);
        let outer = row.map_or(own, |row| row.outer);
        let outer = pfc.priorities.contains(&outer).then(|| outer.code_point());
        LaneChange { own: own.code_point(), outer }
    };
    own.into_iter().map(lane).collect()
}
