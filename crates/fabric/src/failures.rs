//! Links and switches that fail and come back, and frames that are damaged on the wire.
//!
//! When a link goes down, in both directions at once, frames in flight are lost. A switch also loses the packets queued for the link and later
//! packets for it. A host keeps its NIC queues, and its sockets wait. The PFC state of the link is reset: received pauses end, and waiting pause
//! frames are discarded. When the link comes back, a switch whose ingress account still needs a pause sends one at once. Routing learns of each
//! change after the convergence time and recomputes all shortest paths; from then on each switch forwards what arrives by the new ones. If no path is
//! left, packets take the old one up to the failure. A host with several ports notices by its own means that one is dead ([`HostPortSettings`]) and moves its flows; the network
//! stops to send to a dead port when routing learns of it. With mux cables the link prober notices, and both ToRs attract traffic as long as routing
//! knows a way to them. A switch with a peer link (MLAG) sends on over it once routing knows that it has lost its link to a host. A damaged frame occupies the wire and is discarded at the other end (IEEE 802.3 §3.2.9, FCS); every error is detected. Left
//! out: errors in bursts, forward error correction, replay at the link.

use crate::host_ports::PortReach;
use crate::plan::NetworkPlan;
use crate::settings::{DualTorSettings, HostPortSettings};
use pauseframe_routing::NextHops;
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_units::{LinkId, NodeId, PortId, Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The element that fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailedElement {
    /// Both directions of a link.
    Link(LinkId),
    /// All links of a node, with what it has queued.
    Node(NodeId),
}

impl FailedElement {
    /// The links that fail.
    pub(crate) fn links(self, topology: &Topology) -> Vec<LinkId> {
        match self {
            FailedElement::Link(link) => vec![link],
            FailedElement::Node(node) => {
                topology.nodes()[node].ports.iter().map(|port| port.link()).collect()
            }
        }
    }
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
    /// Both ends of the link keep their carrier while it damages every frame. Routing does not notice, and hosts by LACP only.
    pub is_silent: bool,
}

/// A link at a host with several ports.
#[derive(Clone, Copy, Debug)]
struct LinkOfHostPort {
    /// The node of the port.
    port: NodeId,
    host: NodeId,
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
    /// Links at hosts with several ports.
    host_ports: BTreeMap<LinkId, LinkOfHostPort>,
    /// Of these, those that LACP has found silent.
    silent: BTreeSet<LinkId>,
    settings: HostPortSettings,
    dual_tor: Option<DualTorSettings>,
    peer_links: Vec<LinkId>,
    seed: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum ScheduledLinkChange {
    Failure(u32),
    Reroute(u32),
    /// A host looks at the carrier of this link.
    HostLooks(LinkId),
    /// LACP finds a link silent, or no longer.
    Silence(LinkId, bool),
}

impl FailureSchedule {
    pub(crate) fn new(
        plan: Vec<ScheduledFailure>,
        convergence: Span,
        network: &NetworkPlan,
        intact: Arc<NextHops>,
    ) -> FailureSchedule {
        let NetworkPlan { topology, settings, .. } = network;
        let mut due = BTreeSet::new();
        for (number, failure) in (0..).zip(&plan).filter(|(_, failure)| !failure.is_silent) {
            due.insert((failure.down, ScheduledLinkChange::Failure(number * 2)));
            due.extend(failure.up.map(|up| (up, ScheduledLinkChange::Failure(number * 2 + 1))));
        }
        let ports = topology.ports_of_hosts();
        let links = ports.iter().flat_map(|(host, ports)| ports.iter().map(move |port| (*host, *port)));
        let of_link = |(host, port): (NodeId, NodeId)| {
            (topology.nodes()[port].ports[0].link(), LinkOfHostPort { port, host })
        };
        let (down, host_ports) = (vec![0; topology.links().len()], links.map(of_link).collect());
        let (dual_tor, mlag) = (settings.dual_tor.clone(), settings.mlag.clone().unwrap_or_default());
        let (settings, seed) = (settings.host_ports, settings.seed);
        let mut schedule = FailureSchedule {
            plan,
            convergence,
            due,
            down,
            intact,
            host_ports,
            silent: BTreeSet::new(),
            settings,
            dual_tor,
            peer_links: mlag.peer_links,
            seed,
        };
        schedule.schedule_silent_failures(topology);
        schedule
    }

    /// LACP, or the link prober of a mux cable, finds silent failures, at both ends of the link at once: after three intervals without a LACPDU; and their end with the first one.
    fn schedule_silent_failures(&mut self, topology: &Topology) {
        for failure in self.plan.iter().filter(|failure| failure.is_silent) {
            for link in failure.what.links(topology) {
                let Some(LinkOfHostPort { host, .. }) = self.host_ports.get(&link) else { continue };
                let seed = self.seed;
                let found = match &self.dual_tor {
                    Some(mux) => Some(mux.notices_loss(*host, failure.down, seed)),
                    None => self.settings.notices_silence(*host, failure.down, seed),
                };
                let over = failure.up.and_then(|up| match &self.dual_tor {
                    Some(mux) => Some(mux.notices_return(*host, up, seed)),
                    None => self.settings.notices_first_lacpdu(*host, up, seed),
                });
                let Some(found) = found.filter(|found| over.is_none_or(|over| *found < over)) else {
                    continue;
                };
                self.due.insert((found, ScheduledLinkChange::Silence(link, true)));
                self.due.extend(over.map(|over| (over, ScheduledLinkChange::Silence(link, false))));
            }
        }
    }

    /// Time of the next change.
    pub(crate) fn next_change_time(&self) -> Option<Time> {
        self.due.first().map(|(time, _)| *time)
    }

    /// Takes the next change that is due at `now`.
    pub(crate) fn take_due_change(&mut self, topology: &Topology, now: Time) -> Option<LinkOrRouteChange> {
        self.next_change_time().filter(|time| *time <= now)?;
        let (_, due) = self.due.pop_first()?;
        let number = match due {
            ScheduledLinkChange::Failure(number) => number,
            ScheduledLinkChange::Reroute(_) => {
                let routes = self.compute_routes(topology);
                return Some(LinkOrRouteChange::Reroute(routes, self.host_port_reach(topology)));
            }
            ScheduledLinkChange::Silence(link, begins) => {
                if begins {
                    self.silent.insert(link);
                } else {
                    self.silent.remove(&link);
                }
                self.due.insert((now, ScheduledLinkChange::HostLooks(link)));
                let routes = self.compute_routes(topology);
                return Some(LinkOrRouteChange::Reroute(routes, self.host_port_reach(topology)));
            }
            ScheduledLinkChange::HostLooks(link) => {
                return Some(LinkOrRouteChange::HostPort(self.host_ports[&link].port, self.is_down(link)));
            }
        };
        self.due.insert((now + self.convergence, ScheduledLinkChange::Reroute(number)));
        let links = self.plan[(number / 2) as usize].what.links(topology);
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
        for (link, is_down) in &changed {
            let Some(LinkOfHostPort { host, .. }) = self.host_ports.get(link) else { continue };
            let noticed = match &self.dual_tor {
                Some(mux) if *is_down => Some(mux.notices_loss(*host, now, self.seed)),
                Some(mux) => Some(mux.notices_return(*host, now, self.seed)),
                None => self.settings.notices_carrier(*host, now, self.seed),
            };
            self.due.extend(noticed.map(|at| (at, ScheduledLinkChange::HostLooks(*link))));
        }
        Some(LinkOrRouteChange::Links(changed))
    }

    /// Whether the ends of a link of a host know it as dead, once they have looked.
    fn is_down(&self, link: LinkId) -> bool {
        self.down[link.0 as usize] > 0 || self.silent.contains(&link)
    }

    /// The nodes of ports of hosts with several, and how the network reaches them.
    fn host_port_reach(&self, topology: &Topology) -> Vec<(NodeId, PortReach)> {
        self.host_ports.iter().map(|(link, of)| (of.port, self.reach(topology, *link, *of))).collect()
    }

    fn reach(&self, topology: &Topology, link: LinkId, of: LinkOfHostPort) -> PortReach {
        // A ToR announces the prefix of its hosts, whatever the state of their mux cables.
        if self.dual_tor.is_some() || !self.is_down(link) {
            return PortReach::Direct;
        }
        let switch = topology.peer(topology.nodes()[of.port].ports[0]);
        let ports = || topology.nodes()[switch].ports.iter().copied();
        let is_up = |port: &PortId| !self.is_down(port.link());
        let others =
            || self.host_ports.iter().filter(|(_, other)| other.host == of.host && other.port != of.port);
        if others().count() > 1 {
            return PortReach::None;
        }
        let serves_host = |peer: NodeId| {
            let mut up = others().filter(|(link, _)| !self.is_down(**link));
            up.any(|(_, other)| topology.peer(topology.nodes()[other.port].ports[0]) == peer)
        };
        let mut peer_links = ports().filter(|port| self.peer_links.contains(&port.link()) && is_up(port));
        let by = peer_links.find(|port| serves_host(topology.peer(*port)));
        by.map_or(PortReach::None, PortReach::ByPeerLink)
    }

    /// The links that are down now.
    pub(crate) fn failed_links(&self) -> Vec<LinkId> {
        let all = self.down.iter().enumerate();
        all.filter(|(_, failures)| **failures > 0).map(|(link, _)| LinkId(link as u32)).collect()
    }

    /// Shortest paths without the links that are down; over peer links only where no other path is left.
    fn compute_routes(&self, topology: &Topology) -> Arc<NextHops> {
        let between_switches = |link: &LinkId| {
            let ends = topology.links()[*link].ends;
            ends.iter().all(|end| topology.nodes()[*end].kind == NodeKind::Switch)
        };
        let failed: Vec<LinkId> = self.failed_links().into_iter().filter(between_switches).collect();
        let routes = NextHops::shortest_despite(topology, &failed, &self.intact);
        if self.peer_links.is_empty() {
            return Arc::new(routes);
        }
        let with_peer_links = routes;
        let failed: Vec<LinkId> = failed.into_iter().chain(self.peer_links.iter().copied()).collect();
        Arc::new(NextHops::shortest_avoiding(topology, &failed, &with_peer_links))
    }
}

/// A change that the network must apply.
#[derive(Debug)]
pub(crate) enum LinkOrRouteChange {
    /// These links go down (true) or come back.
    Links(Vec<(LinkId, bool)>),
    /// New routes, and how the network reaches the nodes of ports of hosts with several.
    Reroute(Arc<NextHops>, Vec<(NodeId, PortReach)>),
    /// A host has noticed whether the link of its port is down.
    HostPort(NodeId, bool),
}
