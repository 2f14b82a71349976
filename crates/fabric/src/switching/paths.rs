//! The paths of flows that do not spray: the egress ports from host to host, found once a flow and again when routes change.
//!
//! Packets outlive their flows: a duplicate is still in a queue when the last byte has arrived. So a row that its flow
//! gives up is retired, and used again only when no packet under way names it. Who does is looked up now and then, over all
//! packets at once, so that neither hops nor packets pay for it.

use pauseframe_engine::memory::{get_or_first, prefetch_or_first};
use pauseframe_topology::Topology;
use pauseframe_topology::routing::NextHops;
use pauseframe_units::{NodeId, PortId};

/// So many rows are retired before packets are searched for them.
const SEARCH_AFTER: usize = 64;

/// The paths of open flows and of packets under way: rows of ports in one array.
#[derive(Debug)]
pub(crate) struct Paths {
    ports: Vec<PortId>,
    stride: usize,
    /// Rows before this offset are of an older, shorter stride: they are not used again.
    first_free: u32,
    free: Vec<u32>,
    /// Rows of flows that are over or have another path; packets may still be on their way by them.
    retired: Vec<u32>,
    /// When so many are retired the next search is worth its time.
    search_at: usize,
}

impl Paths {
    /// No paths yet; they have at most `stride` hops.
    pub(crate) fn new(stride: usize) -> Paths {
        let (ports, free, retired) = (Vec::new(), Vec::new(), Vec::new());
        Paths { ports, stride, first_free: 0, free, retired, search_at: SEARCH_AFTER }
    }

    #[inline]
    pub(crate) fn port(&self, route: u32, hop: u8) -> PortId {
        self.ports[route as usize + usize::from(hop)]
    }

    /// What may be written there, or anything else.
    #[inline(always)]
    pub(crate) fn get_or_first(&self, route: u32, hop: u8) -> Option<PortId> {
        get_or_first(&self.ports, route as usize + usize::from(hop)).copied()
    }

    /// Fetches that.
    #[inline(always)]
    pub(crate) fn prefetch_line(&self, route: u32, hop: u8) {
        prefetch_or_first(&self.ports, route as usize + usize::from(hop));
    }

    /// A row for `path`.
    pub(crate) fn add(&mut self, path: &[PortId]) -> u32 {
        self.lengthen(path.len());
        let route = self.free.pop().unwrap_or_else(|| {
            self.ports.resize(self.ports.len() + self.stride, PortId::NONE);
            (self.ports.len() - self.stride) as u32
        });
        let row = &mut self.ports[route as usize..route as usize + self.stride];
        row[..path.len()].copy_from_slice(path);
        // A hop too many finds no port, not the end of a longer path.
        row[path.len()..].fill(PortId::NONE);
        route
    }

    /// Writes a row where another array has it.
    pub(crate) fn copy(&mut self, row: u32, path: &[PortId]) {
        self.stride = self.stride.max(path.len());
        let row = row as usize;
        if self.ports.len() < row + self.stride {
            self.ports.resize(row + self.stride, PortId::NONE);
        }
        self.ports[row..row + path.len()].copy_from_slice(path);
        // A hop too many finds no port, not the end of a longer path.
        self.ports[row + path.len()..row + self.stride].fill(PortId::NONE);
    }

    /// Nobody sends by this row any more; packets under way may still name it.
    pub(crate) fn retire(&mut self, route: u32) {
        if route >= self.first_free {
            self.retired.push(route);
        }
    }

    /// Whether [`Self::reclaim`] is due.
    pub(crate) fn wants_rows(&self) -> bool {
        self.free.is_empty() && self.retired.len() >= self.search_at
    }

    /// Frees the retired rows that are not among those `named` by packets, of which the pool has had up to `places`.
    pub(crate) fn reclaim(&mut self, named: impl Iterator<Item = u32>, places: usize) {
        let mut named: Vec<u32> = named.collect();
        named.sort_unstable();
        let free = self.retired.extract_if(.., |route| named.binary_search(route).is_err());
        self.free.extend(free);
        // A search costs as much as the pool is large: it waits for a share of that in rows.
        self.search_at = SEARCH_AFTER.max(places / 4).max(2 * self.retired.len());
    }

    /// Whether the row at `route` begins with `path`, which has as many hops.
    pub(crate) fn is(&self, route: u32, path: &[PortId]) -> bool {
        self.ports[route as usize..].starts_with(path)
    }

    /// Makes room for longer paths.
    fn lengthen(&mut self, stride: usize) {
        if stride > self.stride {
            self.stride = stride;
            self.first_free = self.ports.len() as u32;
            self.free.clear();
            self.retired.clear();
        }
    }
}

/// The largest number of links between two hosts; all hosts at a switch are alike.
pub(crate) fn longest_path(topology: &Topology, routes: &NextHops) -> usize {
    let mut attached: Vec<(NodeId, NodeId)> =
        topology.hosts().map(|host| (topology.peer(topology.nodes()[host].ports[0]), host)).collect();
    attached.sort_unstable();
    attached.dedup_by_key(|(switch, _)| *switch);
    let pairs = attached.iter().flat_map(|(_, a)| attached.iter().map(move |(_, b)| (*a, *b)));
    pairs.map(|(a, b)| routes.distance(a, b)).max().unwrap_or(0).max(2) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path<const N: usize>(ports: [u32; N]) -> [PortId; N] {
        ports.map(PortId)
    }

    #[test]
    fn a_row_is_used_again_when_no_packet_names_it() {
        let mut paths = Paths::new(3);
        let [first, second] = [paths.add(&path([1, 2, 3])), paths.add(&path([4, 5, 6]))];
        paths.retire(first);
        paths.retire(second);
        paths.reclaim([second, second].into_iter(), 10);
        assert_eq!(paths.add(&path([7, 8])), first);
        assert_eq!(paths.port(first, 2), PortId::NONE, "nothing is left of the longer path before");
        assert!(paths.is(second, &path([4, 5, 6])));
        assert_ne!(paths.add(&path([9])), second);
        paths.reclaim(std::iter::empty(), 10);
        assert_eq!(paths.add(&path([10])), second);
    }

    #[test]
    fn rows_of_the_shorter_stride_keep_their_paths_and_are_not_used_again() {
        let mut paths = Paths::new(2);
        let [open, over] = [paths.add(&path([1, 2])), paths.add(&path([1, 3]))];
        paths.retire(over);
        let long = paths.add(&path([3, 4, 5, 6]));
        paths.retire(open);
        paths.reclaim(std::iter::empty(), 0);
        assert!(![open, over, long].contains(&paths.add(&path([7]))));
        assert!(paths.is(long, &path([3, 4, 5, 6])) && paths.is(open, &path([1, 2])));
    }

    /// Ten thousand flows, two at a time, of which every packet that is late is on its way for the next ten.
    #[test]
    fn the_array_stays_as_small_as_what_is_open_and_late() {
        let mut paths = Paths::new(1);
        let mut late = std::collections::VecDeque::new();
        for flow in 0..10_000 {
            if paths.wants_rows() {
                paths.reclaim(late.iter().copied(), 40);
            }
            let route = paths.add(&path([flow]));
            assert!(!late.contains(&route), "flow {flow} took the path of a packet under way");
            late.push_back(route);
            if late.len() > 10 {
                late.pop_front();
            }
            paths.retire(route);
        }
        assert!(paths.ports.len() <= SEARCH_AFTER + 12, "{}", paths.ports.len());
    }
}
