//! What the equal next hops of a switch can carry together, divided fairly among them (WCMP: Zhou et al., `EuroSys` 2014).
//!
//! Paths behind next hops may share links. The rates that next hops can have together form a polymatroid, whose rank is the maximum flow
//! through a set of them. Each next hop gets the same share of its rate, until a minimum cut behind some of them allows no more;
//! the others then grow further (the lexicographically optimal base: Fujishige 1980).

use super::NextHops;
use pauseframe_topology::Topology;
use pauseframe_units::{NodeId, PortId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, PoisonError, RwLock};

/// Divisions that were computed, by switch and edge switch of the destination.
pub(super) type KnownShares = Arc<RwLock<BTreeMap<[u32; 2], Arc<[u64]>>>>;

impl NextHops {
    /// The rates, bits per second, that the next hops of `at` towards the host port `to` can carry together up to its switch. The link of
    /// the host, which all paths share, does not count.
    pub fn capacities(&self, topology: &Topology, at: NodeId, to: NodeId) -> Arc<[u64]> {
        let rates = || self.ports(at, to).iter().map(|port| topology.channel(*port).rate.0).collect();
        let graph = self.graph();
        let row = graph.attachment(to).and_then(|switch| graph.attachment_row(switch));
        let (Some(number), Some(row), 2..) = (graph.number(at), row, self.ports(at, to).len()) else {
            return rates();
        };
        if let Some(known) = self.shares.read().unwrap_or_else(PoisonError::into_inner).get(&[number, row]) {
            return Arc::clone(known);
        }
        let shares: Arc<[u64]> = Behind::new(topology, self, [number, row]).fair_shares().into();
        // A switch whose ways all end at failed links has next hops too.
        let shares = if shares.iter().all(|share| *share == 0) { rates() } else { shares };
        let mut all = self.shares.write().unwrap_or_else(PoisonError::into_inner);
        all.insert([number, row], Arc::clone(&shares));
        shares
    }
}

/// An arc of a flow network; its reverse is the arc whose number differs in the last bit.
struct Arrow {
    to: usize,
    capacity: u64,
    left: u64,
}

/// The links on shortest paths from a switch (node 0) to an edge switch. The arcs of its next hops come first.
struct Behind {
    arrows: Vec<Arrow>,
    /// By node: its arcs.
    of_node: Vec<Vec<usize>>,
    to: usize,
    rates: Vec<u64>,
}

impl Behind {
    fn new(topology: &Topology, hops: &NextHops, [at, row]: [u32; 2]) -> Behind {
        let graph = hops.graph();
        let mut numbers = BTreeMap::from([(at, 0)]);
        let mut behind =
            Behind { arrows: Vec::new(), of_node: vec![Vec::new()], to: usize::MAX, rates: Vec::new() };
        let mut queue = VecDeque::from([at]);
        let end = graph.attachments()[row as usize];
        while let Some(switch) = queue.pop_front() {
            if switch == end {
                continue;
            }
            let rate = |port: &PortId| topology.channel(*port).rate.0;
            if switch == at {
                behind.rates = hops.fabric_ports(at, row).iter().map(rate).collect();
            }
            for port in hops.fabric_ports(switch, row) {
                let Some(next) = graph.head(*port) else { continue };
                let count = numbers.len();
                let number = *numbers.entry(next).or_insert(count);
                if number == count {
                    behind.of_node.push(Vec::new());
                    queue.push_back(next);
                }
                behind.connect(numbers[&switch], number, rate(port));
            }
        }
        behind.to = numbers.get(&end).copied().unwrap_or(usize::MAX);
        behind
    }

    fn connect(&mut self, from: usize, to: usize, capacity: u64) {
        for (node, head, capacity) in [(from, to, capacity), (to, from, 0)] {
            self.of_node[node].push(self.arrows.len());
            self.arrows.push(Arrow { to: head, capacity, left: capacity });
        }
    }

    /// The lexicographically optimal division.
    fn fair_shares(mut self) -> Vec<u64> {
        let mut fixed: Vec<Option<u64>> = vec![None; self.rates.len()];
        while fixed.contains(&None) {
            // The part of their rates that open next hops can have, and those that a cut allows no more.
            let (mut part, mut tight) = ([1_u128, 1_u128], None);
            let share = |rate: u64, [parts, whole]: [u128; 2]| (u128::from(rate) * parts / whole) as u64;
            while let Some((cut, room)) = self.violated_cut(&fixed, |rate| share(rate, part)) {
                let sum = |of: &dyn Fn(usize) -> Option<u64>| {
                    cut.iter().filter_map(|hop| of(*hop)).map(u128::from).sum::<u128>()
                };
                let open = sum(&|hop| fixed[hop].is_none().then_some(self.rates[hop]));
                if open == 0 {
                    break;
                }
                part = [u128::from(room).saturating_sub(sum(&|hop| fixed[hop])), open];
                tight = Some(cut);
            }
            let tight = tight.unwrap_or_else(|| (0..self.rates.len()).collect());
            for hop in tight {
                fixed[hop].get_or_insert(share(self.rates[hop], part));
            }
        }
        fixed.into_iter().flatten().collect()
    }

    /// Next hops that cannot all have these rates, and what the links behind them carry together; `None` if all can.
    fn violated_cut(
        &mut self,
        fixed: &[Option<u64>],
        open: impl Fn(u64) -> u64,
    ) -> Option<(Vec<usize>, u64)> {
        for arrow in &mut self.arrows {
            arrow.left = arrow.capacity;
        }
        let mut wanted = 0_u64;
        for (hop, fixed) in fixed.iter().enumerate() {
            let rate = fixed.unwrap_or_else(|| open(self.rates[hop]));
            self.arrows[2 * hop].left = rate;
            wanted = wanted.saturating_add(rate);
        }
        let mut carried = 0;
        let near = loop {
            let levels = self.levels();
            if levels.get(self.to).is_none_or(|level| *level == usize::MAX) {
                break levels;
            }
            let mut tried = vec![0; self.of_node.len()];
            carried += self.push(0, u64::MAX, &levels, &mut tried);
        };
        if carried >= wanted {
            return None;
        }
        let is_near = |node: usize| near[node] != usize::MAX;
        let hops = (0..fixed.len()).filter(|hop| is_near(self.arrows[2 * hop].to)).collect();
        let leaving =
            (1..self.of_node.len()).filter(|node| is_near(*node)).flat_map(|node| &self.of_node[node]);
        let leaving = leaving.map(|arrow| &self.arrows[*arrow]).filter(|arrow| !is_near(arrow.to));
        Some((hops, leaving.fold(0, |sum: u64, arrow| sum.saturating_add(arrow.capacity))))
    }

    /// By node: the number of arcs with room that lead there from the switch (Dinic 1970).
    fn levels(&self) -> Vec<usize> {
        let mut levels = vec![usize::MAX; self.of_node.len()];
        levels[0] = 0;
        let mut queue = VecDeque::from([0]);
        while let Some(node) = queue.pop_front() {
            for arrow in self.of_node[node].iter().map(|arrow| &self.arrows[*arrow]) {
                if arrow.left > 0 && levels[arrow.to] == usize::MAX {
                    levels[arrow.to] = levels[node] + 1;
                    queue.push_back(arrow.to);
                }
            }
        }
        levels
    }

    /// Sends at most `room` on from `node` over arcs to the next level; returns what arrives.
    fn push(&mut self, node: usize, room: u64, levels: &[usize], tried: &mut [usize]) -> u64 {
        if node == self.to {
            return room;
        }
        let mut sent = 0;
        while let Some(arrow) = self.of_node[node].get(tried[node]).copied() {
            let Arrow { to, left, .. } = self.arrows[arrow];
            if left > 0 && levels[to] == levels[node] + 1 {
                let passed = self.push(to, left.min(room - sent), levels, tried);
                self.arrows[arrow].left -= passed;
                self.arrows[arrow ^ 1].left += passed;
                sent += passed;
                if sent == room {
                    return sent;
                }
            }
            tried[node] += 1;
        }
        sent
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pauseframe_topology::{Channel, NodeKind, generate};
    use pauseframe_units::{BitRate, Span};

    /// The division at switch "a" of links given as ends and Gb/s; the host is at switch "e".
    fn shares(links: &[(&str, &str, u64)]) -> Vec<u64> {
        let mut topology = Topology::new();
        let channel = |gbps| Channel { rate: BitRate::gbps(gbps), delay: Span::from_us(1) };
        for (one, other, gbps) in [("h", "a", 10), ("k", "e", 10)].iter().chain(links) {
            let [one, other] = [*one, *other].map(|name| {
                let kind = if ["h", "k"].contains(&name) { NodeKind::Host } else { NodeKind::Switch };
                topology.find(name).unwrap_or_else(|| topology.add_node(name, kind, None))
            });
            topology.add_link(one, other, channel(*gbps));
        }
        let hops = NextHops::shortest(&topology).unwrap();
        let [at, to] = ["a", "k"].map(|name| topology.find(name).unwrap());
        hops.capacities(&topology, at, to).iter().map(|rate| rate / 1_000_000_000).collect()
    }

    #[test]
    fn joint_links_count_once() {
        for slow in [25, 50, 100] {
            // Two cores behind each aggregation switch; one last link is slower.
            let links = [
                ("a", "g1", 100),
                ("a", "g2", 100),
                ("g1", "c1", 100),
                ("g1", "c2", 100),
                ("g2", "c3", 100),
                ("g2", "c4", 100),
                ("c1", "G1", 100),
                ("c2", "G1", 100),
                ("c3", "G2", 100),
                ("c4", "G2", 100),
                ("G1", "e", slow),
                ("G2", "e", 100),
            ];
            assert_eq!(shares(&links), [slow, 100]);
        }
        let links = [
            ("a", "b", 400),
            ("a", "c", 400),
            ("b", "d", 100),
            ("b", "d", 100),
            ("d", "e", 100),
            ("c", "f", 100),
            ("f", "e", 100),
        ];
        assert_eq!(shares(&links), [100, 100]);
    }

    #[test]
    fn next_hops_divide_joint_links() {
        assert_eq!(
            shares(&[("a", "b", 100), ("a", "b", 100), ("b", "e", 100), ("a", "c", 100), ("c", "e", 100)]),
            [50, 50, 100]
        );
        // Two neighbours before one slow link; the third has another way, which is slower than its link.
        let links = [
            ("a", "b", 100),
            ("a", "c", 300),
            ("a", "f", 400),
            ("b", "d", 400),
            ("c", "d", 400),
            ("d", "e", 200),
            ("f", "x", 400),
            ("x", "e", 100),
        ];
        assert_eq!(shares(&links), [50, 150, 100]);
        // The narrow link leaves the rest to the other.
        let links = [("a", "b", 100), ("a", "c", 100), ("b", "d", 20), ("c", "d", 400), ("d", "e", 100)];
        assert_eq!(shares(&links), [20, 80]);
    }

    #[test]
    fn an_even_fat_tree_has_even_shares() {
        let topology = generate::named("fat_tree:k=8").unwrap();
        let hops = NextHops::shortest(&topology).unwrap();
        let to = topology.hosts().last().unwrap();
        for at in topology.switches() {
            let shares = hops.capacities(&topology, at, to);
            assert!(shares.iter().all(|share| *share == shares[0] && *share > 0), "{shares:?}");
        }
    }
}
