//! Writes htsim's `.topo`: recognises fat trees of two or three tiers by their links, whatever the names of
//! the nodes are.
//!
//! The check is complete: all pods are equal, every edge switch is linked to all aggregation switches of its
//! pod and to no other switch, and every core switch is linked to one aggregation switch of each pod, with
//! the same groups in all pods. So the file describes the same graph except for the numbering. The file
//! format has no rates below 1 Gbps and no delays below 1 ns.

use super::Flaw;
use crate::{Channel, NodeKind, Topology};
use pauseframe_units::{IndexVec, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// The links below a tier.
struct Below {
    /// Number of downward links of each switch of the tier.
    radix_down: usize,
    /// Number of parallel links to each neighbour.
    bundle: usize,
    channel: Channel,
}

pub(super) fn write(topology: &Topology) -> Result<String, Flaw> {
    describe(topology).map_err(|why| {
        Flaw::of_file(format!(
            "only fat trees and leaf-spines can be written, and {why}: use graphml or node-link"
        ))
    })
}

fn describe(topology: &Topology) -> Result<String, String> {
    if let Some(host) = topology.hosts().find(|host| topology.nodes()[*host].ports.len() != 1) {
        let node = &topology.nodes()[host];
        return Err(format!("host {:?} has {} links", node.name, node.ports.len()));
    }
    let tier = tiers(topology)?;
    let of = |wanted: usize| -> BTreeSet<NodeId> {
        topology.nodes().ids().filter(|node| tier[*node] == wanted).collect()
    };
    let [hosts, tors, aggs, cores] = [0, 1, 2, 3].map(of);
    let [tor, agg, core] = [(&tors, 1), (&aggs, 2), (&cores, 3)]
        .map(|(switches, level)| links_below(topology, &tier, switches, level));
    let (Some(tor), Some(agg), core) = (tor?, agg?, core?) else {
        return Err("there are no switches above those with hosts".to_owned());
    };
    let pods = pods(topology, &tier, &tors, &aggs)?;
    let per_pod = |count: usize| count / pods.len();
    if core.is_none() && pods.len() > 1 {
        return Err("it falls apart".to_owned());
    }
    if core.is_some() {
        core_groups(topology, &tier, &cores, &pods)?;
    }
    let up = [
        per_pod(aggs.len()) * agg.bundle,
        cores.len() / per_pod(aggs.len()) * core.as_ref().map_or(0, |c| c.bundle),
    ];
    let tiers = if core.is_some() { 3 } else { 2 };
    let mut text = format!("Nodes {}\nTiers {tiers}\nPodsize {}\n", hosts.len(), per_pod(hosts.len()));
    for (i, below) in [Some(tor), Some(agg), core].into_iter().flatten().enumerate() {
        text += &section(i, &below, up.get(i).copied().filter(|up| *up > 0))?;
    }
    Ok(text)
}

fn section(tier: usize, below: &Below, up: Option<usize>) -> Result<String, String> {
    let Channel { rate, delay } = below.channel;
    if !rate.0.is_multiple_of(1_000_000_000) || !delay.0.is_multiple_of(1000) {
        return Err(format!("{rate} and {delay} are not whole Gbps and ns"));
    }
    let (rate, delay) = (rate.0 / 1_000_000_000, delay.0 / 1000);
    let Below { radix_down, bundle, .. } = below;
    let up = up.map_or(String::new(), |up| match radix_down / up {
        0 | 1 => format!("Radix_Up {up}\n"),
        ratio => format!("Radix_Up {up}\nOversubscribed {ratio}\n"),
    });
    let bundle = if tier > 0 { format!("Bundle {bundle}\n") } else { String::new() };
    Ok(format!(
        "\nTier {tier}\nDownlink_speed_Gbps {rate}\nRadix_Down {radix_down}\n{up}{bundle}Downlink_Latency_ns {delay}\n\
         Switch_Latency_ns 0\n"
    ))
}

/// Returns the tier of each node: 0 for hosts, 1 for switches with hosts, 2 for other neighbours of tier 1, 3
/// for all other switches.
fn tiers(topology: &Topology) -> Result<IndexVec<NodeId, usize>, String> {
    let mut tier: IndexVec<NodeId, usize> = IndexVec::filled(3, topology.nodes().len());
    for host in topology.hosts() {
        tier[host] = 0;
    }
    for level in 0..2 {
        let ends = topology.links().iter().flat_map(|link| [link.ends, [link.ends[1], link.ends[0]]]);
        for [a, b] in ends.collect::<Vec<_>>() {
            if tier[a] == level && tier[b] == 3 {
                tier[b] = level + 1;
            }
        }
    }
    for link in topology.links() {
        let [a, b] = link.ends;
        if tier[a].abs_diff(tier[b]) != 1 {
            let [a, b] = [a, b].map(|node| &topology.nodes()[node].name);
            return Err(format!("the link between {a:?} and {b:?} joins no two neighbouring tiers"));
        }
    }
    match topology.hosts().next() {
        Some(_) => Ok(tier),
        None => Err("there are no hosts".to_owned()),
    }
}

/// The neighbours of `node` in a tier, with the number of links to each neighbour.
fn neighbours(
    topology: &Topology,
    tier: &IndexVec<NodeId, usize>,
    node: NodeId,
    wanted: usize,
) -> BTreeMap<NodeId, usize> {
    let mut found = BTreeMap::new();
    for port in &topology.nodes()[node].ports {
        let peer = topology.peer(*port);
        if tier[peer] == wanted {
            *found.entry(peer).or_default() += 1;
        }
    }
    found
}

/// The links below the switches of a tier, which must be equal for all switches; none if the tier has no
/// switches.
fn links_below(
    topology: &Topology,
    tier: &IndexVec<NodeId, usize>,
    switches: &BTreeSet<NodeId>,
    level: usize,
) -> Result<Option<Below>, String> {
    let mut common: Option<Below> = None;
    for switch in switches {
        let down = neighbours(topology, tier, *switch, level - 1);
        let name = &topology.nodes()[*switch].name;
        for (below, bundle) in &down {
            let ports = topology.nodes()[*switch].ports.iter().filter(|port| topology.peer(**port) == *below);
            for port in ports.flat_map(|port| [*port, port.reverse()]) {
                let radix_down = down.values().sum();
                let this = Below { radix_down, bundle: *bundle, channel: topology.channel(port) };
                let first = common.get_or_insert(Below { ..this });
                if (first.radix_down, first.bundle, first.channel) != (radix_down, *bundle, this.channel) {
                    return Err(format!(
                        "the links below {name:?} are not like those of the other switches of its tier"
                    ));
                }
            }
        }
        if down.is_empty() {
            return Err(format!("{name:?} has no links down"));
        }
    }
    Ok(common)
}

/// The aggregation switches of each pod; an error if a pod is incomplete or differs from the other pods.
fn pods(
    topology: &Topology,
    tier: &IndexVec<NodeId, usize>,
    tors: &BTreeSet<NodeId>,
    aggs: &BTreeSet<NodeId>,
) -> Result<Vec<Vec<NodeId>>, String> {
    let mut pods: BTreeMap<Vec<NodeId>, usize> = BTreeMap::new();
    for tor in tors {
        *pods.entry(neighbours(topology, tier, *tor, 2).into_keys().collect()).or_default() += 1;
    }
    let sizes: BTreeSet<_> = pods.iter().map(|(aggs, tors)| (aggs.len(), *tors)).collect();
    let total: usize = pods.keys().map(Vec::len).sum();
    let kinds = topology.nodes().iter().filter(|node| node.kind == NodeKind::Switch).count();
    if sizes.len() != 1 || total != aggs.len() || kinds < total {
        return Err("its pods are not complete and alike".to_owned());
    }
    Ok(pods.into_keys().collect())
}

/// Checks that all pods divide the core switches into the same groups.
fn core_groups(
    topology: &Topology,
    tier: &IndexVec<NodeId, usize>,
    cores: &BTreeSet<NodeId>,
    pods: &[Vec<NodeId>],
) -> Result<(), String> {
    let mut divisions = BTreeSet::new();
    for pod in pods {
        let groups: BTreeSet<Vec<NodeId>> =
            pod.iter().map(|agg| neighbours(topology, tier, *agg, 3).into_keys().collect()).collect();
        let sizes: BTreeSet<_> = groups.iter().map(Vec::len).collect();
        let covered: BTreeSet<_> = groups.iter().flatten().copied().collect();
        let total: usize = groups.iter().map(Vec::len).sum();
        if groups.len() != pod.len() || sizes.len() != 1 || total != cores.len() || covered != *cores {
            return Err(
                "its core switches are not each joined to one aggregation switch of each pod".to_owned()
            );
        }
        divisions.insert(groups);
    }
    if divisions.len() == 1 {
        Ok(())
    } else {
        Err("its pods are joined to the core in different ways".to_owned())
    }
}
