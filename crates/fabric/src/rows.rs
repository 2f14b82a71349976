//! Assigns rows of ports to the paths of flows. Every partition has a copy of the rows.
//!
//! A retired row is reused when no packet in flight refers to it, and not before its flow has switched to another path.

use crate::switching::paths::PathTable;
pub(crate) use crate::switching::paths::{TUNNEL_BEGINS, TUNNEL_ENDS};
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_units::{PortId, Time};

/// The paths of all flows, and the changes that partitions have not received.
#[derive(Debug)]
pub(crate) struct TrafficPathTable {
    paths: PathTable,
    used: bool,
    /// Rows that retire at these times.
    rows_to_retire: Vec<(Time, u32)>,
    /// New rows that partitions have not received.
    rows_not_sent: Vec<(u32, Vec<PortId>)>,
}

impl TrafficPathTable {
    /// `used`: packets carry their path. Otherwise switches look up the next hop and rows are unused.
    pub(crate) fn new(stride: usize, used: bool) -> TrafficPathTable {
        TrafficPathTable {
            paths: PathTable::new(stride),
            used,
            rows_to_retire: Vec::new(),
            rows_not_sent: Vec::new(),
        }
    }

    pub(crate) fn packets_carry_paths(&self) -> bool {
        self.used
    }

    pub(crate) fn add_row(&mut self, path: Vec<PortId>) -> u32 {
        let row = self.paths.add_row(&path);
        self.rows_not_sent.push((row, path));
        row
    }

    pub(crate) fn row_equals(&self, row: u32, path: &[PortId]) -> bool {
        self.paths.row_equals(row, path)
    }

    /// The path in a row, up to the host at its end.
    pub(crate) fn path(&self, row: u32, topology: &Topology) -> Vec<PortId> {
        let ports = self.paths.ports_from(row).iter().copied();
        let mut path: Vec<PortId> = Vec::new();
        for port in ports.take_while(|port| *port != PortId::NONE) {
            path.push(port);
            let is_marker = port == TUNNEL_BEGINS || port == TUNNEL_ENDS;
            if !is_marker && topology.nodes()[topology.peer(port)].kind != NodeKind::Switch {
                break;
            }
        }
        path
    }

    pub(crate) fn schedule_retirement(&mut self, row: u32, at: Time) {
        self.rows_to_retire.push((at, row));
    }

    /// Retires the rows that are due, after all partitions have reached `now`.
    pub(crate) fn retire_due(&mut self, now: Time) {
        let due = self.rows_to_retire.extract_if(.., |(at, _)| *at < now);
        due.for_each(|(_, row)| self.paths.retire_row(row));
    }

    /// Whether a search for unused rows pays off.
    pub(crate) fn is_reclaim_due(&self) -> bool {
        self.paths.is_reclaim_due()
    }

    /// Frees retired rows that no packet refers to. `rows_of_packets`: rows of all packets; `places`: size of the packet pools.
    pub(crate) fn reclaim_unused(&mut self, rows_of_packets: impl Iterator<Item = u32>, places: usize) {
        self.paths.reclaim_unused(rows_of_packets, places);
    }

    /// Takes the new rows for the partitions.
    pub(crate) fn take_new_rows(&mut self) -> Vec<(u32, Vec<PortId>)> {
        std::mem::take(&mut self.rows_not_sent)
    }
}
