//! Checks that `ConWeave` fits the fabric: hosts at leaf switches, with several shortest paths between these.

use super::checks::lossless_control;
use super::draft::Draft;
use crate::spec::RoutingSpec;
use pauseframe_fabric::{PortChoice, all_ports};
use pauseframe_routing::NextHops;
use pauseframe_schema::ledger::{Ledger, Origin};
use pauseframe_schema::value::Setting;
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_units::{BitRate, NodeId, Span};
use std::collections::{BTreeMap, BTreeSet};

/// Links between leaf switches that a header can name.
const PATH_LINKS_MAX: u32 = 4;

/// Rate of the links for which the default times are.
const RATE: BitRate = BitRate::gbps(100);

/// Makes default times longer in proportion on slower links between switches: they stand for bytes in a queue.
pub(super) fn settle(ledger: &mut Ledger, graph: &Topology, routing: &mut RoutingSpec) {
    let is_switch = |port| graph.nodes()[graph.owner(port)].kind == NodeKind::Switch;
    let between = all_ports(graph).filter(|port| is_switch(*port) && is_switch(port.reverse()));
    let Some(slowest) = between.map(|port| graph.channel(port).rate).min().filter(|rate| *rate < RATE) else {
        return;
    };
    let Some(own) = routing.conweave_mut() else { return };
    for (name, time) in [
        ("reply_slack", &mut own.reply_slack),
        ("tail_slack", &mut own.tail_slack),
        ("blind_wait", &mut own.blind_wait),
    ] {
        let path = format!("routing.{name}");
        if ledger.is_default(&path) {
            let why = format!("in proportion to the rate of links between switches, {time} at {RATE}");
            *time = Span((u128::from(time.0) * u128::from(RATE.0) / u128::from(slowest.0)) as u64);
            ledger.settle(&path, time.toml(), Origin::Computed(why));
        }
    }
}

/// Checks the fabric, the ports of hosts and the priority of control frames.
pub(crate) fn check(ledger: &mut Ledger, draft: &Draft) {
    let Some(settings) = draft.routing.conweave() else { return };
    let path = "routing.control_priority";
    lossless_control(ledger, path, settings.control_priority, draft.switch.pfc.as_ref());
    if draft.host.port_choice == PortChoice::RoundRobin && !ledger.failed("host.port_choice") {
        let message = "\"balance-rr\": packets of a flow come to several leaf switches, and conweave orders those of one";
        ledger.problem("host.port_choice", message.to_owned(), "choose ports by flow, such as \"xor\"");
    }
    let Some(hops) = draft.graph.as_ref().map(|graph| (graph, NextHops::shortest(graph))) else { return };
    if let (graph, Ok(hops)) = hops
        && let Some(message) = misfit(graph, &hops)
        && !ledger.failed("routing.kind")
    {
        let hint = "use it between leaf switches that have several spines or cores, or take ecmp";
        ledger.problem("routing.kind", message, hint);
    }
}

/// Why paths between leaf switches are not such as `ConWeave` needs.
fn misfit(graph: &Topology, hops: &NextHops) -> Option<String> {
    let leaf_of = |port: NodeId| graph.nodes()[port].ports.first().map(|port| graph.peer(*port));
    let hosts: BTreeMap<NodeId, NodeId> =
        graph.host_ports().filter_map(|host| Some((leaf_of(host)?, host))).collect();
    let name = |node: NodeId| &graph.nodes()[node].name;
    let mut has_choice = false;
    for (last, to) in &hosts {
        let mut seen: BTreeSet<NodeId> = hosts.keys().copied().filter(|leaf| leaf != last).collect();
        let mut ahead: Vec<NodeId> = seen.iter().copied().collect();
        for from in hosts.values() {
            let links = hops.distance(*from, *to);
            if links != u32::MAX && links > PATH_LINKS_MAX + 2 {
                return Some(format!(
                    "conweave names at most {PATH_LINKS_MAX} links of a path between leaf switches, and from {} to {} there are {}",
                    name(leaf_of(*from)?),
                    name(*last),
                    links - 2
                ));
            }
        }
        while let Some(at) = ahead.pop() {
            let among = hops.ports(at, *to);
            has_choice |= among.len() > 1;
            for next in among.iter().map(|port| graph.peer(*port)) {
                if next != *last && hosts.contains_key(&next) {
                    let [at, last, next] = [at, *last, next].map(name);
                    return Some(format!(
                        "conweave works between leaf switches, and a path from {at} to {last} crosses {next}, which has hosts too"
                    ));
                }
                if next != *last && graph.nodes()[next].kind == NodeKind::Switch && seen.insert(next) {
                    ahead.push(next);
                }
            }
        }
    }
    (!has_choice).then(|| {
        "conweave chooses among shortest paths between leaf switches, and no two of these have more than one".to_owned()
    })
}
