//! Links and switches that fail and come back, and frames that are damaged on the wire.
//!
//! When a link goes down, in both directions at once, frames in flight are lost. A switch also loses the packets queued for the link and later
//! packets for it. A host keeps its NIC queues, and its sockets wait. The PFC state of the link is reset: received pauses end, and waiting pause
//! frames are discarded. When the link comes back, a switch whose ingress account still needs a pause sends one at once. Routing learns of each
//! change after the convergence time and recomputes all shortest paths; packets in flight keep their path. If no path is left, packets take the old
//! one up to the failure. A damaged frame occupies the wire and is discarded at the other end (IEEE 802.3 §3.2.9, FCS); every error is detected. Left
//! out: errors in bursts, forward error correction, replay at the link.

use pauseframe_routing::NextHops;
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_units::{LinkId, NodeId, Span, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The element that fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailedElement {
    /// Both directions of a link.
    Link(LinkId),
    /// All links of a node, with what it has queued.
    Node(NodeId),
}

/// One failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScheduledFailure {
    /// The element that fails.
    pub what: FailedElement,
    /// When it goes down.
    pub down: Time,
    /// When it is back, after `down`; `None`: never.
    pub up: Option<Time>,
}

/// Planned failures and the current state of links.
#[derive(Debug)]
pub(crate) struct FailureSchedule {
    plan: Vec<ScheduledFailure>,
    convergence: Span,
    /// Pending changes: a failure begins (number * 2) or ends (number * 2 + 1), or routing learns of it.
    due: BTreeSet<(Time, ScheduledLinkChange)>,
    /// By link: number of failures that currently affect it.
    down: Vec<u32>,
    /// Routes without failures.
    intact: Arc<NextHops>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum ScheduledLinkChange {
    Failure(u32),
    Reroute(u32),
}

impl FailureSchedule {
    pub(crate) fn new(
        plan: Vec<ScheduledFailure>,
        convergence: Span,
        links: usize,
        intact: Arc<NextHops>,
    ) -> FailureSchedule {
        let mut due = BTreeSet::new();
        for (number, failure) in (0..).zip(&plan) {
            due.insert((failure.down, ScheduledLinkChange::Failure(number * 2)));
            due.extend(failure.up.map(|up| (up, ScheduledLinkChange::Failure(number * 2 + 1))));
        }
        FailureSchedule { plan, convergence, due, down: vec![0; links], intact }
    }

    /// Time of the next change.
    pub(crate) fn next_network_change_time(&self) -> Option<Time> {
        self.due.first().map(|(time, _)| *time)
    }

    /// Takes the next change that is due at `now`.
    pub(crate) fn take_due_network_change(
        &mut self,
        topology: &Topology,
        now: Time,
    ) -> Option<LinkOrRouteChange> {
        self.next_network_change_time().filter(|time| *time <= now)?;
        let (_, due) = self.due.pop_first()?;
        let ScheduledLinkChange::Failure(number) = due else {
            return Some(LinkOrRouteChange::Reroute(self.compute_routes_without_failed_links(topology)));
        };
        self.due.insert((now + self.convergence, ScheduledLinkChange::Reroute(number)));
        let links: Vec<LinkId> = match self.plan[(number / 2) as usize].what {
            FailedElement::Link(link) => vec![link],
            FailedElement::Node(node) => {
                topology.nodes()[node].ports.iter().map(|port| port.link()).collect()
            }
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
        Some(LinkOrRouteChange::Links(changed))
    }

    /// The links that are down now.
    pub(crate) fn failed_links(&self) -> Vec<LinkId> {
        let all = self.down.iter().enumerate();
        all.filter(|(_, failures)| **failures > 0).map(|(link, _)| LinkId(link as u32)).collect()
    }

    /// Shortest paths without the links that are down.
    fn compute_routes_without_failed_links(&self, topology: &Topology) -> Arc<NextHops> {
        let between_switches = |link: &LinkId| {
            let ends = topology.links()[*link].ends;
            ends.iter().all(|end| topology.nodes()[*end].kind == NodeKind::Switch)
        };
        let failed: Vec<LinkId> = self.failed_links().into_iter().filter(between_switches).collect();
        Arc::new(NextHops::shortest_despite(topology, &failed, &self.intact))
    }
}

/// A change that the network must apply.
#[derive(Debug)]
pub(crate) enum LinkOrRouteChange {
    /// These links go down (true) or come back.
    Links(Vec<(LinkId, bool)>),
    /// New routes.
    Reroute(Arc<NextHops>),
}
