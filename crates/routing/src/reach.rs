//! Computes the depths of the trees of a lane for many destinations at once.
//!
//! Under the turn rule of a lane ([`super::turn_order`]) the choice among equal links does not change the
//! depths of the trees that [`super::ordered_trees`] grows. So the trees to 64 destinations grow together,
//! level by level, in the bits of a word.

use pauseframe_topology::SwitchGraph;

/// Maximum number of 64-bit words per switch.
const WORDS_MAX: usize = 4;
/// Number of budget steps per word of a directed link or a switch, at every level.
const STEPS_A_WORD: usize = 3;

/// Number of 64-bit words for `destinations`, which must be at most 256.
pub(crate) fn words_for(destinations: usize) -> usize {
    destinations.div_ceil(64).next_power_of_two()
}

/// The switches that the trees of one lane reach, level by level; the index is (level x switches + switch) x
/// words.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reach {
    placed: Vec<u64>,
    levels: usize,
    /// The switches that joined in the last level, separately for those whose next hop leads down (or that
    /// are the destination) and those whose next hop leads up.
    down: Vec<u64>,
    up: Vec<u64>,
    next_down: Vec<u64>,
    next_up: Vec<u64>,
}

impl Reach {
    /// Starts the trees to at most 64 times `words` destinations; each tree contains only its destination.
    pub(crate) fn start(&mut self, graph: &SwitchGraph, destinations: &[u32], words: usize) {
        let size = graph.len() * words;
        self.levels = 1;
        for bits in [&mut self.placed, &mut self.down, &mut self.up, &mut self.next_down, &mut self.next_up] {
            bits.clear();
            bits.resize(size, 0);
        }
        for (bit, to) in destinations.iter().enumerate() {
            let word = *to as usize * words + bit / 64;
            self.placed[word] |= 1 << (bit % 64);
            self.down[word] |= 1 << (bit % 64);
        }
    }

    /// Adds one level to all trees; returns false and adds nothing if no tree can grow.
    pub(crate) fn advance(&mut self, graph: &SwitchGraph, keys: &[f64], words: usize) -> bool {
        match words {
            1 => self.advance_by::<1>(graph, keys),
            2 => self.advance_by::<2>(graph, keys),
            _ => self.advance_by::<4>(graph, keys),
        }
    }

    fn advance_by<const WORDS: usize>(&mut self, graph: &SwitchGraph, keys: &[f64]) -> bool {
        let size = graph.len() * WORDS;
        let last = (self.levels - 1) * size;
        self.placed.resize(last + 2 * size, 0);
        let (before, after) = self.placed[last..].split_at_mut(size);
        let (down, _) = self.down.as_chunks::<WORDS>();
        let (up, _) = self.up.as_chunks::<WORDS>();
        let (next_down, _) = self.next_down.as_chunks_mut::<WORDS>();
        let (next_up, _) = self.next_up.as_chunks_mut::<WORDS>();
        let (before, _) = before.as_chunks::<WORDS>();
        let (after, _) = after.as_chunks_mut::<WORDS>();
        let mut any = 0;
        for at in 0..graph.len() {
            let (mut by_down, mut by_up, own) = ([0; WORDS], [0; WORDS], keys[at]);
            for arc in graph.arcs(at as u32) {
                let there = arc.to as usize;
                // A packet that travels down must continue down; a packet that travels up may turn either
                // way.
                let upward = if keys[there] < own { 0 } else { u64::MAX };
                for word in 0..WORDS {
                    by_down[word] |= down[there][word] & !upward;
                    by_up[word] |= (down[there][word] | up[there][word]) & upward;
                }
            }
            for word in 0..WORDS {
                let placed = before[at][word];
                by_down[word] &= !placed;
                by_up[word] &= !(placed | by_down[word]);
                any |= by_down[word] | by_up[word];
                after[at][word] = placed | by_down[word] | by_up[word];
            }
            (next_down[at], next_up[at]) = (by_down, by_up);
        }
        if any == 0 {
            self.placed.truncate(last + size);
            return false;
        }
        std::mem::swap(&mut self.down, &mut self.next_down);
        std::mem::swap(&mut self.up, &mut self.next_up);
        self.levels += 1;
        true
    }

    /// Drops all levels of the trees except the last.
    fn forget(&mut self, size: usize) {
        let last = (self.levels - 1) * size;
        self.placed.copy_within(last..last + size, 0);
        self.placed.truncate(size);
        self.levels = 1;
    }

    /// Number of levels of the trees, including the level of the destinations.
    pub(crate) fn levels(&self) -> usize {
        self.levels
    }

    /// For each switch, one bit for each destination whose tree contains the switch at a level; levels beyond
    /// the last count as the last.
    pub(crate) fn by_level(&self, level: usize, size: usize) -> &[u64] {
        &self.placed[level.min(self.levels - 1) * size..][..size]
    }
}

/// Number of budget steps of [`depths`] if the trees have this number of levels.
pub(crate) fn steps_of_depths(graph: &SwitchGraph, levels: usize) -> u64 {
    let words = graph.attachments().len().div_ceil(64);
    (levels * (graph.port_count() + graph.len()) * words * STEPS_A_WORD) as u64
}

/// Computes the depths of the trees to all edge switches under the ranks of one lane; calls `each(row,
/// switch, depth)` for every switch in the tree to edge switch `row`. Returns the number of budget steps.
pub(crate) fn depths(graph: &SwitchGraph, rank: &[u32], mut each: impl FnMut(usize, usize, u16)) -> u64 {
    let keys: Vec<f64> = rank.iter().map(|rank| f64::from(*rank)).collect();
    let (mut reach, mut steps) = (Reach::default(), 0);
    for (chunk, destinations) in graph.attachments().chunks(WORDS_MAX * 64).enumerate() {
        let words = words_for(destinations.len());
        let size = graph.len() * words;
        reach.start(graph, destinations, words);
        for level in 0_u16.. {
            let (here, before) =
                (reach.by_level(usize::MAX, size), (level > 0).then(|| reach.by_level(0, size)));
            for (place, word) in here.iter().enumerate() {
                let mut new = word & !before.map_or(0, |before| before[place]);
                while new != 0 {
                    let bit = place % words * 64 + new.trailing_zeros() as usize;
                    each(chunk * WORDS_MAX * 64 + bit, place / words, level);
                    new &= new - 1;
                }
            }
            reach.forget(size);
            steps += ((graph.port_count() + graph.len()) * words * STEPS_A_WORD) as u64;
            if !reach.advance(graph, &keys, words) {
                break;
            }
        }
    }
    // Every pair of switches joins one tree at one level.
    steps + (graph.attachments().len() * graph.len()) as u64
}
