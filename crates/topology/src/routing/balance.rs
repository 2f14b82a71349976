//! Trees grown again beside the others, so that what the links carry evens out.
//!
//! The trees of a plan are grown one after the other: the first know nothing of the load to come, and none knows which of
//! its routes nobody will take because another VLAN has a shorter one. Here each is taken out and grown again beside all
//! others, a few times over, and the load of a pair of switches counts in the VLANs that have its shortest routes, evenly.
//! No route changes its length: in how many links a tree reaches a switch, and whether by a way up or down, does not
//! depend on choices among equals.

use super::RoutingError;
use super::ordered_trees::TreeGrower;
use super::tables::ForwardingTables;
use crate::watch::Watch;
use pauseframe_units::PortId;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64;
use std::ops::Range;

/// The load of a pair of hosts, so that it can be divided among VLANs.
const UNIT: u64 = 1 << 20;

/// Which part of a pair's load each VLAN has.
struct Parts {
    lengths: Vec<u16>,
    rows: usize,
    /// The least length of each pair, and in how many VLANs.
    best: Vec<(u16, u16)>,
}

impl Parts {
    fn of(tables: &ForwardingTables, vlans: Range<usize>) -> Parts {
        let (lengths, rows) = (tables.lengths(), tables.graph().attachments().len());
        let pairs = rows * rows;
        let of_pair = |pair: usize| {
            let all = vlans.clone().map(|vlan| lengths[vlan * pairs + pair]);
            let least = all.clone().min().unwrap_or(u16::MAX);
            (least, all.filter(|length| *length == least).count() as u16)
        };
        let best = (0..pairs).map(of_pair).collect();
        Parts { lengths, rows, best }
    }

    /// What each row sends along the tree of `vlan` to `row`.
    fn write(&self, tables: &ForwardingTables, vlan: usize, row: u32, sends: &mut Vec<u64>) {
        let (graph, pairs) = (tables.graph(), self.rows * self.rows);
        let hosts = |row: usize| graph.hosts(graph.attachments()[row]).len() as u64;
        sends.clear();
        sends.extend((0..self.rows).map(|from| {
            let pair = row as usize * self.rows + from;
            let (least, vlans) = self.best[pair];
            let used = self.lengths[vlan * pairs + pair] == least && least != u16::MAX;
            if used { UNIT * hosts(from) * hosts(row as usize) / u64::from(vlans) } else { 0 }
        }));
    }
}

/// Grows the trees of `vlans` again, `passes` times, by `grow(grower, vlan, row, salt, tree)`; how uneven loads are then.
///
/// # Errors
/// [`RoutingError::Stopped`].
pub(crate) fn rebalance(
    tables: &mut ForwardingTables,
    vlans: Range<usize>,
    passes: usize,
    seed: u64,
    mut grow: impl FnMut(&mut TreeGrower<'_>, usize, u32, u64, &mut [PortId]),
    watch: &mut dyn Watch,
) -> Result<f64, RoutingError> {
    if passes == 0 {
        return Ok(0.0);
    }
    let graph = tables.graph().clone();
    let parts = Parts::of(tables, vlans.clone());
    let mut grower = TreeGrower::along_ways(&graph);
    let mut rng = Pcg64::seed_from_u64(seed ^ 0x6261_6c61);
    let rows = 0..graph.attachments().len() as u32;
    let mut trees: Vec<(usize, u32)> =
        vlans.flat_map(|vlan| rows.clone().map(move |row| (vlan, row))).collect();
    let mut sends = Vec::new();
    for (vlan, row) in &trees {
        parts.write(tables, *vlan, *row, &mut sends);
        grower.carry(*row, tables.tree(*vlan, *row), &sends, true);
    }
    for pass in 0..passes {
        trees.shuffle(&mut rng);
        for (done, (vlan, row)) in trees.iter().enumerate() {
            watch.step(
                "balancing trees",
                (pass * trees.len() + done) as u64,
                (passes * trees.len()) as u64,
            )?;
            parts.write(tables, *vlan, *row, &mut sends);
            let tree = tables.tree_mut(*vlan, *row);
            grower.carry(*row, tree, &sends, false);
            tree.fill(PortId::NONE);
            grow(&mut grower, *vlan, *row, rng.next_u64(), tree);
            grower.carry(*row, tree, &sends, true);
        }
    }
    Ok(grower.unevenness())
}
