//! The `paths` table: what flows sent through the ports of switches.

use super::column::{Columns, dictionary, u32s, u64s};
use super::rows::Names;
use crate::columns;
use pauseframe_fabric::PathRow;

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
        /// Port by which it sent the packets
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
