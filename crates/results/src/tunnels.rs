//! The `tunnels` table: what ToRs of mux cables sent to each other.

use super::column::{Columns, dictionary, u64s};
use super::rows::Names;
use crate::columns;
use pauseframe_fabric::TunnelCounts;
use pauseframe_units::NodeId;
use std::collections::BTreeMap;

/// The `tunnels` table, with one row for each ToR that sent packets into a tunnel or received some from one.
pub fn tunnels(switches: &BTreeMap<NodeId, TunnelCounts>, names: &Names) -> Columns {
    let rows: Vec<(NodeId, TunnelCounts)> = switches.iter().map(|(node, counts)| (*node, *counts)).collect();
    let counts = |value: fn(&TunnelCounts) -> u64| u64s(rows.iter().map(|row| value(&row.1)));
    columns! {
        /// ToR
        node = dictionary(&rows, |row| row.0, |node| names.node(node));
        /// Packets sent to the active ToR of their host
        encapsulated_packets = counts(|switch| switch.encapsulated);
        /// Their bytes in buffers, with the outer header
        encapsulated_bytes = counts(|switch| switch.encapsulated_bytes);
        /// Packets received from the standby ToR of their host
        decapsulated_packets = counts(|switch| switch.decapsulated);
    }
}
