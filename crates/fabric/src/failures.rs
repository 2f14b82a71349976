//! Links and switches that fail and come back, and frames that are damaged on the wire.
//!
//! When a link goes down, both directions at once, what is on the wire is lost, and so is what a switch has queued for
//! it (a switch empties the queues of a port that loses its link) or gets for it later. A host keeps what its NIC has
//! queued: its sockets wait. The PFC state of the link starts anew: pauses received are over, pause frames that waited
//! are gone; when the link is back, a switch whose ingress account still asks for a pause sends one at once.
//! Routing learns of each change after the convergence time and then recomputes all shortest paths; a packet under way
//! keeps its path. Hosts that no path is left to are sent to by the old one, up to the failure.
//! A damaged frame takes its time on the wire and is discarded at the other end (IEEE 802.3 §3.2.9, the FCS); every
//! error is found. Left out: errors in bursts, forward error correction, replay at the link.

use pauseframe_topology::routing::NextHops;
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_units::{LinkId, NodeId, Span, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failed {
    /// Both directions of a link.
    Link(LinkId),
    /// All links of a node, with what it has queued.
    Node(NodeId),
}

/// One failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What fails.
    pub what: Failed,
    /// When it goes down.
    pub down: Time,
    /// When it is back, after `down`; `None`: never.
    pub up: Option<Time>,
}

/// What fails when, and what has.
#[derive(Debug)]
pub(crate) struct Failures {
    plan: Vec<Failure>,
    convergence: Span,
    /// What is due: a failure begins (number * 2) or ends (+ 1), or routing learns of that.
    due: BTreeSet<(Time, Due)>,
    /// By link: how many failures hold it down.
    down: Vec<u32>,
    /// The routes of the network as it was built.
    intact: Arc<NextHops>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Due {
    Failure(u32),
    Reroute(u32),
}

impl Failures {
    pub(crate) fn new(
        plan: Vec<Failure>,
        convergence: Span,
        links: usize,
        intact: Arc<NextHops>,
    ) -> Failures {
        let mut due = BTreeSet::new();
        for (number, failure) in (0..).zip(&plan) {
            due.insert((failure.down, Due::Failure(number * 2)));
            due.extend(failure.up.map(|up| (up, Due::Failure(number * 2 + 1))));
        }
        Failures { plan, convergence, due, down: vec![0; links], intact }
    }

    /// When something is due next.
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.due.first().map(|(time, _)| *time)
    }

    /// What happens at `now`, the next of it.
    pub(crate) fn next(&mut self, topology: &Topology, now: Time) -> Option<Change> {
        self.next_time().filter(|time| *time <= now)?;
        let (_, due) = self.due.pop_first()?;
        let Due::Failure(number) = due else { return Some(Change::Reroute(self.routes(topology))) };
        self.due.insert((now + self.convergence, Due::Reroute(number)));
        let links: Vec<LinkId> = match self.plan[(number / 2) as usize].what {
            Failed::Link(link) => vec![link],
            Failed::Node(node) => topology.nodes()[node].ports.iter().map(|port| port.link()).collect(),
        };
        let mut changed = Vec::new();
        for link in links {
            let down = &mut self.down[link.0 as usize];
            if number.is_multiple_of(2) {
                *down += 1;
                changed.extend((*down == 1).then_some((link, true)));
            } else {
                *down = down.checked_sub(1).expect("a failure ended twice");
                changed.extend((*down == 0).then_some((link, false)));
            }
        }
        Some(Change::Links(changed))
    }

    /// The links that are down now.
    pub(crate) fn links_down(&self) -> Vec<LinkId> {
        let all = self.down.iter().enumerate();
        all.filter(|(_, failures)| **failures > 0).map(|(link, _)| LinkId(link as u32)).collect()
    }

    /// Shortest paths without the links that are down.
    fn routes(&self, topology: &Topology) -> Arc<NextHops> {
        let between_switches = |link: &LinkId| {
            let ends = topology.links()[*link].ends;
            ends.iter().all(|end| topology.nodes()[*end].kind == NodeKind::Switch)
        };
        let failed: Vec<LinkId> = self.links_down().into_iter().filter(between_switches).collect();
        Arc::new(NextHops::shortest_despite(topology, &failed, &self.intact))
    }
}

/// What the network must do.
#[derive(Debug)]
pub(crate) enum Change {
    /// These links go down (true) or come back.
    Links(Vec<(LinkId, bool)>),
    /// New routes.
    Reroute(Arc<NextHops>),
}
