//! Converts [`Tables`] to rows that use names.

use super::builder::{Around, Lane, Rewrite, Sender};
use crate::verify::{DELIVER, Tables};
use pauseframe_topology::interchange::{Flaw, Labels};
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_units::{NodeId, PortId};

/// Returns the lanes, rewrites and senders of `tables` with names, without the rows.
pub(super) fn around_rows(tables: &Tables, topology: &Topology) -> Around {
    let graph = tables.graph();
    let name = |node: NodeId| topology.nodes()[node].name.clone();
    let mut around = Around::default();
    for vlan in tables.vlans() {
        around.lanes.push(Lane { vlan: vlan.id, lane: vlan.lane });
        let rewrite =
            |(switch, lane): (&NodeId, &u8)| Rewrite { switch: name(*switch), vlan: vlan.id, lane: *lane };
        around.rewrites.extend(vlan.lane_at.iter().map(rewrite));
    }
    if tables.trees.iter().any(|tree| tree.senders.is_some()) {
        for tree in &tables.trees {
            let vlan = tables.vlans()[tree.vlan].id;
            let own = graph.node(graph.attachments()[tree.row as usize]);
            let whole = tree.hosts == graph.hosts(graph.attachments()[tree.row as usize]);
            for to in if whole { std::slice::from_ref(&own) } else { &tree.hosts[..] } {
                let senders = (0..graph.attachments().len() as u32).filter(|from| tree.allows(*from));
                let from = |row: u32| name(graph.node(graph.attachments()[row as usize]));
                around.senders.extend(senders.map(|row| Sender { vlan, from: from(row), to: name(*to) }));
            }
        }
    }
    around
}

/// Calls `show` with every table row: switch, VLAN, destination, port. All hosts of a switch that have the
/// same rows form one destination. So a table of millions of rows is never in memory as text.
pub(super) fn for_each_row(
    tables: &Tables,
    topology: &Topology,
    mut show: impl FnMut(NodeId, u16, NodeId, PortId) -> Result<(), Flaw>,
) -> Result<(), Flaw> {
    let graph = tables.graph();
    for tree in &tables.trees {
        let vlan = tables.vlans()[tree.vlan].id;
        let attachment = graph.attachments()[tree.row as usize];
        // The switch of the hosts needs no common row for them, so at least one other switch must have a row.
        let elsewhere = tree.next.iter().filter(|port| **port != PortId::NONE).count() > 1;
        let whole = elsewhere
            && tree.hosts == graph.hosts(attachment)
            && tree.next[attachment as usize] == DELIVER
            && topology.nodes()[graph.node(attachment)].kind == NodeKind::Switch;
        let own = graph.node(attachment);
        let destinations = if whole { std::slice::from_ref(&own) } else { &tree.hosts[..] };
        for destination in destinations {
            for (number, port) in tree.next.iter().enumerate() {
                let port = match *port {
                    PortId::NONE => continue,
                    DELIVER if whole => continue,
                    DELIVER => graph.uplink(*destination).reverse(),
                    port => port,
                };
                show(graph.node(number as u32), vlan, *destination, port)?;
            }
        }
    }
    Ok(())
}

/// Port names that [`Labels::ports_by_name`] accepts: the label; `eth1` ... if the switch has no labels; else
/// the full name.
pub(super) fn port_names(topology: &Topology, labels: &Labels) -> Vec<String> {
    let mut names = vec![String::new(); topology.port_count()];
    for node in topology.nodes() {
        let labelled = node.ports.iter().any(|port| labels.port(*port).is_some());
        for (i, port) in node.ports.iter().enumerate() {
            let name = match labels.port(*port) {
                Some(label) => label.to_owned(),
                None if labelled => format!("{}:{i}", node.name),
                None => format!("eth{}", i + 1),
            };
            names[port.0 as usize] = name;
        }
    }
    names
}
