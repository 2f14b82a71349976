//! Disjoint sets with union by size and path halving (Tarjan and van Leeuwen, Journal of the ACM 1984).

#[derive(Clone, Debug)]
pub(crate) struct DisjointSets {
    parent: Vec<u32>,
    size: Vec<u32>,
}

impl DisjointSets {
    pub(crate) fn new(count: usize) -> DisjointSets {
        DisjointSets { parent: (0..count as u32).collect(), size: vec![1; count] }
    }

    pub(crate) fn find(&mut self, mut at: u32) -> u32 {
        while self.parent[at as usize] != at {
            let above = self.parent[self.parent[at as usize] as usize];
            self.parent[at as usize] = above;
            at = above;
        }
        at
    }

    /// Number of members of the set that contains `at`.
    pub(crate) fn size(&mut self, at: u32) -> u32 {
        let root = self.find(at);
        self.size[root as usize]
    }

    /// Joins two sets; returns false if both members are in the same set already.
    pub(crate) fn join(&mut self, a: u32, b: u32) -> bool {
        let (a, b) = (self.find(a), self.find(b));
        if a == b {
            return false;
        }
        let (small, large) = if self.size[a as usize] < self.size[b as usize] { (a, b) } else { (b, a) };
        self.parent[small as usize] = large;
        self.size[large as usize] += self.size[small as usize];
        true
    }
}
