//! The `conweave` table: what leaf switches that measure round trips have done.

use super::column::{Columns, dictionary, f64s, u64s};
use super::rows::Names;
use crate::columns;
use pauseframe_fabric::ConWeaveCounts;
use pauseframe_units::NodeId;
use std::collections::BTreeMap;

/// The `conweave` table, with one row for each leaf switch that sent or received packets of other leaves.
pub fn conweave(leaves: &BTreeMap<NodeId, ConWeaveCounts>, names: &Names) -> Columns {
    let rows: Vec<(NodeId, ConWeaveCounts)> = leaves.iter().map(|(node, counts)| (*node, *counts)).collect();
    let counts = |value: fn(&ConWeaveCounts) -> u64| u64s(rows.iter().map(|row| value(&row.1)));
    columns! {
        /// Leaf switch
        node = dictionary(&rows, |row| row.0, |node| names.node(node));
        /// As leaf of senders: packets that asked for a reply, one an epoch
        probes = counts(|leaf| leaf.probes);
        /// As leaf of senders: flows that took another path because a reply was late
        reroutes = counts(|leaf| leaf.reroutes);
        /// As leaf of senders: flows that took another path after a gap, or because theirs had failed
        moves = counts(|leaf| leaf.moves);
        /// Control frames sent: replies and notices
        control_frames = counts(|leaf| leaf.control_frames);
        /// As leaf of receivers: packets held for the last one of the old path
        held_packets = counts(|leaf| leaf.held_packets);
        /// Most bytes held at once
        held_bytes_max = counts(|leaf| leaf.held_bytes_max);
        /// Most packets of one flow held at once
        hold_packets_max = counts(|leaf| leaf.hold_packets_max);
        /// Most flows with held packets at one port at once
        hold_queues_max = counts(|leaf| leaf.hold_queues_max);
        /// Longest time that packets of a flow were held
        hold_time_max_us = f64s(rows.iter().map(|row| row.1.hold_time_max.as_us_f64()));
        /// Releases because the last packet of the old path came
        releases_by_tail = counts(|leaf| leaf.releases_by_tail);
        /// Releases because it did not come in time
        releases_by_timer = counts(|leaf| leaf.releases_by_timer);
        /// Releases because a packet of the next epoch came
        releases_by_epoch = counts(|leaf| leaf.releases_by_epoch);
        /// Packets passed on although they should have been held: the port held those of too many flows
        overflows = counts(|leaf| leaf.overflows);
        /// Packets passed on to the receiver after one that left the leaf of the sender later
        late_packets = counts(|leaf| leaf.late_packets);
    }
}
