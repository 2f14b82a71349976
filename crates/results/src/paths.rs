//! The `paths` table: what flows sent through the ports of switches; the `equal_links` table: how flows share equal links.

use super::column::{Columns, dictionary, u32s, u64s};
use super::rows::Names;
use crate::columns;
use pauseframe_fabric::PathRow;
use pauseframe_units::{NodeId, PortId};
use std::collections::BTreeMap;

/// The `paths` table, with one row for each flow, queue pair, direction and port of a switch.
pub fn paths(rows: &[PathRow], names: &Names) -> Columns {
    let topology = names.topology;
    let counts = |value: fn(&PathRow) -> u64| u64s(rows.iter().map(value));
    columns! {
        /// Number of the flow in the table flows
        flow = u32s(rows.iter().map(|row| row.flow));
        /// Which of its queue pairs, from 0 on
        queue_pair = u32s(rows.iter().map(|row| row.queue_pair));
        /// forward: from src to dst of the flow; back: acknowledgements, and data of replies
        direction = dictionary(rows, |row| row.forward, |forward| if forward { "forward" } else { "back" }.to_owned());
        /// Switch
        node = dictionary(rows, |row| topology.owner(row.port), |node| names.node(node));
        /// Port to which it forwarded the packets; those that it dropped there count too
        port = dictionary(rows, |row| row.port, |port| topology.port_name(port));
        /// Packets
        packets = counts(|row| row.counts.packets);
        /// Bytes of their frames, without preamble and gap
        bytes = counts(|row| row.counts.bytes);
        /// Packets marked at this port
        marks = counts(|row| row.counts.marks);
        /// Packets whose predecessor left this switch by another port
        moves = counts(|row| row.counts.moves);
        /// Data packets that came after one with a higher sequence number: overtaken, or sent again
        late_packets = counts(|row| row.counts.late);
        /// Largest distance of a late packet to the highest sequence number: packets of a queue pair, bytes of TCP
        reorder_depth = counts(|row| row.counts.depth);
    }
}

/// The `equal_links` table, with one row for each port of a group of equal next hops.
pub fn equal_links(groups: &BTreeMap<(NodeId, Vec<PortId>), Vec<u32>>, names: &Names) -> Columns {
    let mut rows: Vec<(u32, NodeId, PortId, u32)> = Vec::new();
    for (((node, ports), flows), group) in groups.iter().zip(0..) {
        rows.extend(ports.iter().zip(flows).map(|(port, flows)| (group, *node, *port, *flows)));
    }
    let topology = names.topology;
    columns! {
        /// Number of the group: a switch and next hops that are equal for some destinations
        group = u32s(rows.iter().map(|row| row.0));
        /// Switch
        node = dictionary(&rows, |row| row.1, |node| names.node(node));
        /// One of its ports to these next hops
        port = dictionary(&rows, |row| row.2, |port| topology.port_name(port));
        /// Queue pairs and connections of the group's flows whose data take this port
        flows = u32s(rows.iter().map(|row| row.3));
    }
}
