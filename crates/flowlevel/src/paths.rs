//! The ports on the paths of all flows, in one array (compressed sparse rows).

use pauseframe_units::PortId;

/// The path of each flow. A path may be empty; its flow then uses no link.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Paths {
    /// The ports of flow `f` are `ports[first[f]..first[f + 1]]`.
    first: Vec<u32>,
    ports: Vec<PortId>,
}

impl Default for Paths {
    fn default() -> Paths {
        Paths { first: vec![0], ports: Vec::new() }
    }
}

impl Paths {
    /// Makes an empty list of paths.
    pub fn new() -> Paths {
        Paths::default()
    }

    /// Adds a flow with this path.
    ///
    /// # Panics
    /// If all paths together have more than 2^32 - 1 ports.
    pub fn push(&mut self, path: impl IntoIterator<Item = PortId>) {
        self.ports.extend(path);
        self.first.push(u32::try_from(self.ports.len()).expect("all paths together have below 2^32 ports"));
    }

    /// Number of flows.
    pub fn len(&self) -> usize {
        self.first.len() - 1
    }

    /// True if there are no flows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The ports of a flow, in the order of its path.
    #[inline]
    pub fn of(&self, flow: usize) -> &[PortId] {
        &self.ports[self.first[flow] as usize..self.first[flow + 1] as usize]
    }

    /// The paths of all flows.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &[PortId]> + ExactSizeIterator {
        (0..self.len()).map(|flow| self.of(flow))
    }

    /// Total number of ports on all paths.
    pub fn hops(&self) -> usize {
        self.ports.len()
    }
}

impl<P: IntoIterator<Item = PortId>> FromIterator<P> for Paths {
    fn from_iter<I: IntoIterator<Item = P>>(paths: I) -> Paths {
        let mut all = Paths::new();
        for path in paths {
            all.push(path);
        }
        all
    }
}
