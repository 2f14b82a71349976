//! The effects of each single failure while nobody recomputes the tables.
//!
//! A pair loses all its routes when a link fails if and only if every VLAN that serves the pair uses that
//! link. So one pass over all pairs, which intersects the routes of each pair, finds the effects of all links
//! and switches.

use super::report::{Failure, Failures, WhatIf};
use super::walk::End;
use super::{Class, Names, Tables};
use crate::watch::{Stopped, Watch};
use pauseframe_topology::SwitchGraph;
use pauseframe_units::{NodeId, PortId};

/// Number of pairs lost by one failure, and the first of these pairs.
#[derive(Clone, Copy, Default)]
struct Loss {
    pairs: u64,
    example: Option<[NodeId; 2]>,
}

impl Loss {
    fn add(&mut self, pairs: u64, example: [NodeId; 2]) {
        self.pairs += pairs;
        self.example.get_or_insert(example);
    }
}

/// Links and inner switches that all routes of a pair share; reused for the next pair.
#[derive(Default)]
struct Common {
    links: Vec<u32>,
    switches: Vec<u32>,
    path: (Vec<u32>, Vec<u32>),
}

impl Common {
    /// Follows each of `trees` from `start` and intersects their routes.
    fn find(&mut self, tables: &Tables, trees: impl Iterator<Item = u32>, start: u32) {
        self.links.clear();
        self.switches.clear();
        for (i, tree) in trees.enumerate() {
            self.follow(&tables.graph, &tables.trees[tree as usize].next, start);
            let (links, switches) = &mut self.path;
            if i == 0 {
                std::mem::swap(&mut self.links, links);
                std::mem::swap(&mut self.switches, switches);
            } else {
                self.links.retain(|link| links.contains(link));
                self.switches.retain(|switch| switches.contains(switch));
            }
            if self.links.is_empty() && self.switches.is_empty() {
                return;
            }
        }
    }

    fn follow(&mut self, graph: &SwitchGraph, next: &[PortId], start: u32) {
        let (links, switches) = &mut self.path;
        links.clear();
        switches.clear();
        let mut port = next[start as usize];
        while let Some(at) = (port.0 < graph.port_count() as u32).then(|| graph.head(port)).flatten() {
            links.push(port.link().0);
            switches.push(at);
            port = next[at as usize];
        }
        // The last switch of a route is the receiver's switch.
        switches.pop();
    }
}

pub(super) fn what_if(
    tables: &Tables,
    ends: &[End],
    classes: &[Class],
    examples: usize,
    names: &Names<'_>,
    watch: &mut dyn Watch,
) -> Result<WhatIf, Stopped> {
    let graph = &tables.graph;
    let rows = graph.attachments().len();
    let mut links = vec![Loss::default(); graph.port_count() / 2];
    let mut switches = vec![Loss::default(); graph.len()];
    let mut common = Common::default();
    for (done, class) in classes.iter().enumerate() {
        watch.step("trying failures", done as u64, classes.len() as u64)?;
        for (from, start) in graph.attachments().iter().enumerate() {
            let from = from as u32;
            let pairs = class.pairs(graph, from);
            if pairs == 0 {
                continue; // One host has all these ports.
            }
            common.find(tables, class.arriving(ends, rows, from), *start);
            let example = class.example(graph, from);
            common.links.iter().for_each(|link| links[*link as usize].add(pairs, example));
            common.switches.iter().for_each(|switch| switches[*switch as usize].add(pairs, example));
        }
    }
    let link_losses = graph
        .edges()
        .iter()
        .map(|edge| (names.link(PortId::of_link(edge.link, 0)), links[edge.link.0 as usize]));
    let switch_losses = (0..graph.len()).map(|s| (names.node(graph.node(s as u32)), switches[s]));
    let links = summary(link_losses, examples, names);
    Ok(WhatIf { links, switches: summary(switch_losses, examples, names) })
}

fn summary(losses: impl Iterator<Item = (String, Loss)>, examples: usize, names: &Names<'_>) -> Failures {
    let mut failures = Failures { tried: 0, harmless: 0, pairs_lost: 0, worst: Vec::new() };
    for (what, Loss { pairs, example }) in losses {
        failures.tried += 1;
        failures.pairs_lost += pairs;
        match example {
            None => failures.harmless += 1,
            Some(pair) => {
                failures.worst.push(Failure { what, pairs_lost: pairs, example: names.pair(pair) });
            }
        }
    }
    failures.worst.sort_by_key(|failure| std::cmp::Reverse(failure.pairs_lost));
    failures.worst.truncate(examples);
    failures
}
