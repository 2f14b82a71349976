//! A graph without cycles that grows edge by edge and maintains a topological order (Pearce and Kelly, "A
//! dynamic topological sort algorithm for directed acyclic graphs", ACM JEA 2007).

/// An acyclic graph with its topological order.
#[derive(Debug)]
pub(crate) struct GrowingOrder {
    /// The position of each node in the order; every edge leads to a higher position.
    place: Vec<u32>,
    out: Vec<Vec<u32>>,
    into: Vec<Vec<u32>>,
    added: Vec<[u32; 2]>,
    patience: usize,
    seen: Vec<bool>,
    /// Number of nodes that searches visited.
    looked: u64,
}

impl GrowingOrder {
    pub(crate) fn new(nodes: usize) -> GrowingOrder {
        GrowingOrder {
            place: (0..nodes as u32).collect(),
            out: vec![Vec::new(); nodes],
            into: vec![Vec::new(); nodes],
            added: Vec::new(),
            patience: usize::MAX,
            seen: vec![false; nodes],
            looked: 0,
        }
    }

    /// Makes a graph without edges, ordered by `place`, then by number. The better the places, the fewer
    /// nodes move later.
    pub(crate) fn placed(place: &[u32]) -> GrowingOrder {
        let mut order = GrowingOrder::new(place.len());
        let mut sorted: Vec<u32> = (0..place.len() as u32).collect();
        sorted.sort_by_key(|node| place[*node as usize]);
        for (at, node) in sorted.into_iter().enumerate() {
            order.place[node as usize] = at as u32;
        }
        order
    }

    /// Makes [`Self::add`] reject an edge if the search for a cycle would visit more nodes than this.
    pub(crate) fn with_patience(mut self, nodes: usize) -> GrowingOrder {
        self.patience = nodes;
        self
    }

    /// Makes a graph with these edges, each listed once; none if the edges contain a cycle (Kahn, CACM 1962).
    pub(crate) fn of(nodes: usize, edges: Vec<[u32; 2]>) -> Option<GrowingOrder> {
        let mut order = GrowingOrder::new(nodes);
        for [from, to] in &edges {
            order.out[*from as usize].push(*to);
            order.into[*to as usize].push(*from);
        }
        let mut left: Vec<usize> = order.into.iter().map(Vec::len).collect();
        let mut sorted: Vec<u32> = (0..nodes as u32).filter(|node| left[*node as usize] == 0).collect();
        let mut head = 0;
        while let Some(at) = sorted.get(head).copied() {
            order.place[at as usize] = head as u32;
            head += 1;
            for to in &order.out[at as usize] {
                left[*to as usize] -= 1;
                if left[*to as usize] == 0 {
                    sorted.push(*to);
                }
            }
        }
        order.added = edges;
        (sorted.len() == nodes).then_some(order)
    }

    /// True if the edge agrees with the current order.
    pub(crate) fn rises(&self, from: u32, to: u32) -> bool {
        self.place[from as usize] < self.place[to as usize]
    }

    /// Number of nodes visited since the last call.
    pub(crate) fn take_looked(&mut self) -> u64 {
        std::mem::take(&mut self.looked)
    }

    /// Number of different edges.
    pub(crate) fn edges(&self) -> usize {
        self.added.len()
    }

    /// Adds an edge; returns false and adds nothing if the edge closes a cycle or the search visits too many
    /// nodes.
    pub(crate) fn add(&mut self, from: u32, to: u32) -> bool {
        if self.out[from as usize].contains(&to) {
            return true;
        }
        if from == to || (self.place[to as usize] < self.place[from as usize] && !self.reorder(from, to)) {
            return false;
        }
        self.out[from as usize].push(to);
        self.into[to as usize].push(from);
        self.added.push([from, to]);
        true
    }

    /// Removes the edges that were added last until `edges` are left. The order stays valid for the remaining
    /// edges.
    pub(crate) fn take_back(&mut self, edges: usize) {
        for [from, to] in self.added.drain(edges..).rev() {
            self.out[from as usize].pop();
            self.into[to as usize].pop();
        }
    }

    /// Changes the order for an edge that contradicts it: the nodes that `to` reaches move behind the nodes
    /// that reach `from`, within the positions that these nodes occupy together; returns false if `to`
    /// reaches `from`, or if the search visits too many nodes.
    fn reorder(&mut self, from: u32, to: u32) -> bool {
        let (lowest, highest) = (self.place[to as usize], self.place[from as usize]);
        let within = |place: u32| (lowest..=highest).contains(&place);
        let mut after = Self::reach(&self.out, &self.place, &mut self.seen, to, within, self.patience);
        self.looked += after.len() as u64;
        if after.len() >= self.patience || after.contains(&from) {
            return false;
        }
        let mut before = Self::reach(&self.into, &self.place, &mut self.seen, from, within, self.patience);
        self.looked += before.len() as u64;
        if before.len() >= self.patience {
            return false;
        }
        for list in [&mut before, &mut after] {
            list.sort_unstable_by_key(|node| self.place[*node as usize]);
        }
        let nodes: Vec<u32> = before.into_iter().chain(after).collect();
        let mut places: Vec<u32> = nodes.iter().map(|node| self.place[*node as usize]).collect();
        places.sort_unstable();
        for (node, place) in nodes.into_iter().zip(places) {
            self.place[node as usize] = place;
        }
        true
    }

    /// All nodes that `start` reaches over `edges` through positions for which `within` is true.
    fn reach(
        edges: &[Vec<u32>],
        place: &[u32],
        seen: &mut [bool],
        start: u32,
        within: impl Fn(u32) -> bool,
        patience: usize,
    ) -> Vec<u32> {
        let mut reached = vec![start];
        seen[start as usize] = true;
        let mut head = 0;
        while head < reached.len() && reached.len() < patience {
            for next in &edges[reached[head] as usize] {
                if !seen[*next as usize] && within(place[*next as usize]) {
                    seen[*next as usize] = true;
                    reached.push(*next);
                }
            }
            head += 1;
        }
        for node in &reached {
            seen[*node as usize] = false;
        }
        reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// True if `from` reaches `to`, by a plain search.
    fn leads(edges: &[(u32, u32)], from: u32, to: u32) -> bool {
        let mut reached = vec![from];
        let mut head = 0;
        while head < reached.len() {
            let at = reached[head];
            let next = edges.iter().filter(|(a, _)| *a == at).map(|(_, b)| *b);
            let new: Vec<u32> = next.filter(|b| !reached.contains(b)).collect();
            reached.extend(new);
            head += 1;
        }
        reached.contains(&to)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn edges_are_refused_exactly_if_they_close_a_cycle(
            edges in prop::collection::vec((0_u32..12, 0_u32..12), 0..60),
            take_back in prop::collection::vec(any::<bool>(), 60),
        ) {
            let mut order = GrowingOrder::new(12);
            let mut kept: Vec<(u32, u32)> = Vec::new();
            for ((from, to), take_back) in edges.into_iter().zip(take_back) {
                let before = order.edges();
                let added = order.add(from, to);
                prop_assert_eq!(added, !leads(&kept, to, from));
                if take_back {
                    order.take_back(before);
                } else if added && !kept.contains(&(from, to)) {
                    kept.push((from, to));
                }
                prop_assert_eq!(order.edges(), kept.len());
                for (a, b) in &kept {
                    prop_assert!(order.place[*a as usize] < order.place[*b as usize]);
                }
            }
        }
    }
}
