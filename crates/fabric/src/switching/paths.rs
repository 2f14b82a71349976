//! Paths of flows without spraying: the egress ports from host to host, computed once per flow and after each change of routes.
//!
//! Packets outlive their flows: a duplicate is still in a queue when the last byte has arrived. So a row is retired when its flow ends, and reused
//! only when no packet refers to it. An occasional search over all packets finds the rows in use, so hops pay nothing for it.

use pauseframe_engine::memory::{element_or_first, prefetch_element_or_first};
use pauseframe_routing::NextHops;
use pauseframe_topology::Topology;
use pauseframe_units::{NodeId, PortId};

/// In a path, before the port of a switch: there the packet enters a tunnel.
pub(crate) const TUNNEL_BEGINS: PortId = PortId(u32::MAX - 1);
/// In a path, before the port of a switch: there the packet leaves its tunnel.
pub(crate) const TUNNEL_ENDS: PortId = PortId(u32::MAX - 2);

/// Retired rows that trigger a search.
const MIN_RETIRED_ROWS: usize = 64;

/// Paths of open flows and of packets in flight: rows of ports in one array.
#[derive(Debug)]
pub(crate) struct PathTable {
    ports: Vec<PortId>,
    stride: usize,
    /// Rows before this offset have an older, shorter stride and are not reused.
    first_free: u32,
    free: Vec<u32>,
    /// Rows that flows no longer use; packets in flight may still refer to them.
    retired: Vec<u32>,
    /// Number of retired rows at which the next search pays off.
    search_at: usize,
}

impl PathTable {
    /// Empty, for paths of at most `stride` hops.
    pub(crate) fn new(stride: usize) -> PathTable {
        let (ports, free, retired) = (Vec::new(), Vec::new(), Vec::new());
        PathTable { ports, stride, first_free: 0, free, retired, search_at: MIN_RETIRED_ROWS }
    }

    #[inline]
    pub(crate) fn port_at(&self, route: u32, hop: u8) -> PortId {
        self.ports[route as usize + usize::from(hop)]
    }

    /// The port at a hop, or any other port if the index is invalid.
    #[inline(always)]
    pub(crate) fn port_at_or_first(&self, route: u32, hop: u8) -> Option<PortId> {
        element_or_first(&self.ports, route as usize + usize::from(hop)).copied()
    }

    /// Prefetches the port at a hop.
    #[inline(always)]
    pub(crate) fn prefetch_hop(&self, route: u32, hop: u8) {
        prefetch_element_or_first(&self.ports, route as usize + usize::from(hop));
    }

    /// Stores `path` in a row.
    pub(crate) fn add_row(&mut self, path: &[PortId]) -> u32 {
        self.grow_stride(path.len());
        let route = self.free.pop().unwrap_or_else(|| {
            self.ports.resize(self.ports.len() + self.stride, PortId::NONE);
            (self.ports.len() - self.stride) as u32
        });
        let row = &mut self.ports[route as usize..route as usize + self.stride];
        row[..path.len()].copy_from_slice(path);
        // Clears the rest of the row, so that an excess hop does not read an older, longer path.
        row[path.len()..].fill(PortId::NONE);
        route
    }

    /// Stores a path at the row that another array assigned.
    pub(crate) fn store_path(&mut self, row: u32, path: &[PortId]) {
        self.stride = self.stride.max(path.len());
        let row = row as usize;
        if self.ports.len() < row + self.stride {
            self.ports.resize(row + self.stride, PortId::NONE);
        }
        self.ports[row..row + path.len()].copy_from_slice(path);
        // Clears the rest of the row, so that an excess hop does not read an older, longer path.
        self.ports[row + path.len()..row + self.stride].fill(PortId::NONE);
    }

    /// Retires a row: no flow uses it, but packets in flight may.
    pub(crate) fn retire_row(&mut self, route: u32) {
        if route >= self.first_free {
            self.retired.push(route);
        }
    }

    /// Whether [`Self::reclaim_unused`] is due.
    pub(crate) fn is_reclaim_due(&self) -> bool {
        self.free.is_empty() && self.retired.len() >= self.search_at
    }

    /// Frees retired rows that no packet refers to. `rows_of_packets`: rows of all packets; `places`: size of the packet pool.
    pub(crate) fn reclaim_unused(&mut self, rows_of_packets: impl Iterator<Item = u32>, places: usize) {
        let mut rows_of_packets: Vec<u32> = rows_of_packets.collect();
        rows_of_packets.sort_unstable();
        let free = self.retired.extract_if(.., |route| rows_of_packets.binary_search(route).is_err());
        self.free.extend(free);
        // A search costs time in proportion to the pool, so the next one waits for a proportional number of rows.
        self.search_at = MIN_RETIRED_ROWS.max(places / 4).max(2 * self.retired.len());
    }

    /// The row at `route` and all behind it.
    pub(crate) fn ports_from(&self, route: u32) -> &[PortId] {
        &self.ports[route as usize..]
    }

    /// Whether the row at `route` holds `path`.
    pub(crate) fn row_equals(&self, route: u32, path: &[PortId]) -> bool {
        self.ports_from(route).starts_with(path)
    }

    /// Increases the stride for longer paths.
    fn grow_stride(&mut self, stride: usize) {
        if stride > self.stride {
            self.stride = stride;
            self.first_free = self.ports.len() as u32;
            self.free.clear();
            self.retired.clear();
        }
    }
}

/// The largest number of links between two ports of hosts that have a path; it checks one per switch.
pub(crate) fn longest_path_length(topology: &Topology, routes: &NextHops) -> usize {
    let mut attached: Vec<(NodeId, NodeId)> =
        topology.host_ports().map(|host| (topology.peer(topology.nodes()[host].ports[0]), host)).collect();
    attached.sort_unstable();
    attached.dedup_by_key(|(switch, _)| *switch);
    let pairs = attached.iter().flat_map(|(_, a)| attached.iter().map(move |(_, b)| (*a, *b)));
    pairs.map(|(a, b)| routes.distance(a, b)).filter(|links| *links < u32::MAX).max().unwrap_or(0).max(2)
        as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path<const N: usize>(ports: [u32; N]) -> [PortId; N] {
        ports.map(PortId)
    }

    #[test]
    fn a_row_is_used_again_when_no_packet_names_it() {
        let mut paths = PathTable::new(3);
        let [first, second] = [paths.add_row(&path([1, 2, 3])), paths.add_row(&path([4, 5, 6]))];
        paths.retire_row(first);
        paths.retire_row(second);
        paths.reclaim_unused([second, second].into_iter(), 10);
        assert_eq!(paths.add_row(&path([7, 8])), first);
        assert_eq!(paths.port_at(first, 2), PortId::NONE, "nothing is left of the longer path before");
        assert!(paths.row_equals(second, &path([4, 5, 6])));
        assert_ne!(paths.add_row(&path([9])), second);
        paths.reclaim_unused(std::iter::empty(), 10);
        assert_eq!(paths.add_row(&path([10])), second);
    }

    #[test]
    fn rows_of_the_shorter_stride_keep_their_paths_and_are_not_used_again() {
        let mut paths = PathTable::new(2);
        let [open, over] = [paths.add_row(&path([1, 2])), paths.add_row(&path([1, 3]))];
        paths.retire_row(over);
        let long = paths.add_row(&path([3, 4, 5, 6]));
        paths.retire_row(open);
        paths.reclaim_unused(std::iter::empty(), 0);
        assert!(![open, over, long].contains(&paths.add_row(&path([7]))));
        assert!(paths.row_equals(long, &path([3, 4, 5, 6])) && paths.row_equals(open, &path([1, 2])));
    }

    /// Ten thousand flows, two at a time, of which every packet that is late is on its way for the next ten.
    #[test]
    fn the_array_stays_as_small_as_what_is_open_and_late() {
        let mut paths = PathTable::new(1);
        let mut late = std::collections::VecDeque::new();
        for flow in 0..10_000 {
            if paths.is_reclaim_due() {
                paths.reclaim_unused(late.iter().copied(), 40);
            }
            let route = paths.add_row(&path([flow]));
            assert!(!late.contains(&route), "flow {flow} took the path of a packet under way");
            late.push_back(route);
            if late.len() > 10 {
                late.pop_front();
            }
            paths.retire_row(route);
        }
        assert!(paths.ports.len() <= MIN_RETIRED_ROWS + 12, "{}", paths.ports.len());
    }

    #[test]
    fn a_search_waits_until_no_row_is_free_and_many_are_retired() {
        let mut paths = PathTable::new(1);
        let rows: Vec<u32> = (0..200).map(|number| paths.add_row(&path([number]))).collect();
        let (many, others) = rows.split_at(MIN_RETIRED_ROWS);
        let (last, before) = many.split_last().expect("some rows");
        for row in before {
            paths.retire_row(*row);
        }
        assert!(!paths.is_reclaim_due());
        paths.retire_row(*last);
        assert!(paths.is_reclaim_due());
        paths.reclaim_unused(std::iter::empty(), 10);
        for row in others {
            paths.retire_row(*row);
        }
        assert!(!paths.is_reclaim_due(), "rows are free");
    }
}
