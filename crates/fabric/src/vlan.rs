//! VLAN routes: the sender picks a VLAN, the VLAN fixes the lane, and every switch looks up (VLAN, destination).
//!
//! The model is that of static forwarding tables on lossless Ethernet (docs/models/routing.md): each frame carries an
//! IEEE 802.1Q tag, a lane is a lossless priority with pause of its own, and a switch may send a VLAN in another lane than
//! it came in (then the ingress account is that of the lane on the wire). Packets of a lossy transport take the same
//! routes in their own priority. The load that a choice looks at is the number of open flows on each link, known at once
//! and everywhere: what a host agent with a perfect view would see. Left out: VLANs that change on the way.

use crate::cell::Cell;
use crate::packet::Packet;
use crate::plan::Plan;
use pauseframe_engine::{Rng, stream};
use pauseframe_topology::routing::verify::{LinkLoad, Tables};
use pauseframe_units::{NodeId, PortId, Priority};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a sender picks one of the VLANs that lead to its destination.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VlanChoice {
    /// Any, uniformly at random.
    Random,
    /// Two at random; of these the one whose busiest link has fewer open flows for its rate.
    BestOfTwo,
    /// The one of all whose busiest link has fewest open flows for its rate.
    LeastLoaded,
    /// The VLAN that was assigned to the pair (position in the tables); pairs without one pick at random.
    Assigned(BTreeMap<(NodeId, NodeId), u16>),
}

/// Tables, and how hosts use them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VlanRoutes {
    /// The forwarding tables; every pair of hosts must be served.
    pub tables: Tables,
    /// The priority of each lane.
    pub lanes: Vec<Priority>,
    /// How the VLAN is picked.
    pub choice: VlanChoice,
    /// Pick for every packet anew instead of once a flow; at random only.
    pub per_packet: bool,
    /// How many links longer than the shortest of any VLAN a route may be.
    pub slack: u16,
}

impl VlanRoutes {
    /// Links on the shortest route between two hosts, their own links included; 0 from a host to itself.
    ///
    /// # Panics
    /// If no VLAN serves the pair.
    pub fn distance(&self, from: NodeId, to: NodeId) -> u32 {
        if from == to {
            return 0;
        }
        let vlans = 0..self.tables.vlans().len();
        let shortest = vlans.filter_map(|vlan| self.tables.length(vlan, from, to)).min();
        u32::from(shortest.expect("every pair of hosts is served")) + 2
    }

    /// The ports of the shortest route between two hosts, in the first VLAN that has it.
    pub(crate) fn shortest_path(&self, from: NodeId, to: NodeId) -> Vec<PortId> {
        let mut vlans = Vec::new();
        self.tables.vlans_between(from, to, 0, &mut vlans);
        self.path(*vlans.first().expect("every pair of hosts is served"), from, to)
    }

    /// The ports of all routes that a sender picks from.
    pub(crate) fn paths(&self, from: NodeId, to: NodeId) -> impl Iterator<Item = Vec<PortId>> {
        let mut vlans = Vec::new();
        self.tables.vlans_between(from, to, self.slack, &mut vlans);
        vlans.into_iter().map(move |vlan| self.path(vlan, from, to))
    }

    fn path(&self, vlan: u16, from: NodeId, to: NodeId) -> Vec<PortId> {
        let graph = self.tables.graph();
        let mut path = vec![graph.uplink(from)];
        self.tables.follow(usize::from(vlan), from, to, |port| path.push(port));
        path.push(graph.uplink(to).reverse());
        path
    }
}

/// What switches and hosts of a running network know of its VLANs.
#[derive(Debug)]
pub(crate) struct VlanState {
    routes: Arc<VlanRoutes>,
    /// The numbers of the fabric's switches in the tables.
    table_number: Vec<u32>,
    /// The class in which a switch sends a VLAN: position x switches of the tables + switch.
    class_at: Vec<u8>,
    /// The class in which hosts send a VLAN.
    class_of: Vec<u8>,
    /// By host, for packets that pick anew.
    rng: Vec<Rng>,
}

/// What a connection end has picked.
#[derive(Clone, Debug)]
pub(crate) struct Picked {
    pub(crate) vlan: u16,
    pub(crate) class: u8,
    /// The VLANs to pick from for every packet; empty if the flow keeps its VLAN.
    pub(crate) among: Box<[u16]>,
}

impl VlanState {
    pub(crate) fn new(routes: &Arc<VlanRoutes>, plan: &Plan, seed: u64) -> VlanState {
        let tables = &routes.tables;
        let class = |lane: u8| plan.class(routes.lanes[usize::from(lane)]);
        let number = |switch: &NodeId| tables.graph().number(*switch).expect("the tables know every switch");
        let draws = |host: &NodeId| stream(seed, "vlan of packet", u64::from(host.0));
        VlanState {
            table_number: plan.switches.iter().map(number).collect(),
            class_at: tables.lane_table().into_iter().map(class).collect(),
            class_of: tables.vlans().iter().map(|vlan| class(vlan.lane)).collect(),
            rng: plan.hosts.iter().map(draws).collect(),
            routes: Arc::clone(routes),
        }
    }
}

/// Who picks the VLANs of connection ends: a view of all hosts, with what each of them draws.
#[derive(Debug)]
pub(crate) struct VlanPicker {
    routes: Arc<VlanRoutes>,
    plan: Arc<Plan>,
    load: LinkLoad,
    /// By host.
    rng: Vec<Rng>,
    scratch: Vec<u16>,
}

impl VlanPicker {
    pub(crate) fn of(plan: &Arc<Plan>) -> Option<VlanPicker> {
        let routes = Arc::clone(plan.settings.vlans.as_ref()?);
        let draws = |host: &NodeId| stream(plan.settings.seed, "vlan", u64::from(host.0));
        Some(VlanPicker {
            routes,
            load: LinkLoad::new(&plan.topology),
            rng: plan.hosts.iter().map(draws).collect(),
            scratch: Vec::new(),
            plan: Arc::clone(plan),
        })
    }

    /// The VLAN of a new connection end from host `from` to `to`, whose transport has the class `class`. `counts`: it sends data.
    pub(crate) fn pick(&mut self, [from, to]: [NodeId; 2], class: u8, counts: bool) -> Picked {
        let vlan = self.choose(from, to);
        let among = if self.routes.per_packet { self.scratch.clone().into() } else { Box::default() };
        if counts {
            self.count(vlan, [from, to], 1.0);
        }
        let lane = self.routes.tables.vlans()[usize::from(vlan)].lane;
        let own = self.plan.class(self.routes.lanes[usize::from(lane)]);
        Picked { vlan, class: if self.plan.is_lossless(class) { own } else { class }, among }
    }

    /// A connection end that sent data by `vlan` is over.
    pub(crate) fn leave(&mut self, vlan: u16, ends: [NodeId; 2]) {
        self.count(vlan, ends, -1.0);
    }

    fn count(&mut self, vlan: u16, [from, to]: [NodeId; 2], flows: f64) {
        if matches!(self.routes.choice, VlanChoice::BestOfTwo | VlanChoice::LeastLoaded) {
            self.load.add(&self.routes.tables, vlan, from, to, flows);
        }
    }

    fn choose(&mut self, from: NodeId, to: NodeId) -> u16 {
        let (tables, rng) = (&self.routes.tables, &mut self.rng[self.plan.number[from] as usize]);
        tables.vlans_between(from, to, self.routes.slack, &mut self.scratch);
        assert!(!self.scratch.is_empty(), "no VLAN serves a pair of hosts");
        match &self.routes.choice {
            VlanChoice::Random => one_of(&self.scratch, rng),
            VlanChoice::BestOfTwo => {
                let two = [one_of(&self.scratch, rng), one_of(&self.scratch, rng)];
                self.load.least(tables, &two, from, to).unwrap_or(two[0])
            }
            VlanChoice::LeastLoaded => {
                self.load.least(tables, &self.scratch, from, to).unwrap_or(self.scratch[0])
            }
            VlanChoice::Assigned(known) => {
                known.get(&(from, to)).copied().unwrap_or_else(|| one_of(&self.scratch, rng))
            }
        }
    }
}

fn one_of(among: &[u16], rng: &mut Rng) -> u16 {
    among[rng.below(among.len() as u64) as usize]
}

impl Cell {
    /// Another VLAN of `among` for the next packet of a host, and the class of the packet, which was `class` before.
    pub(crate) fn pick_again(&mut self, host: u32, among: &[u16], class: u8) -> (u16, u8) {
        let lossless = self.is_lossless(class);
        let state = self.vlans.as_mut().expect("called with VLANs only");
        let vlan = one_of(among, &mut state.rng[host as usize]);
        (vlan, if lossless { state.class_of[usize::from(vlan)] } else { class })
    }

    /// Where a switch sends a packet by its tables, and in which class.
    pub(crate) fn forward_in_vlan(&mut self, switch: u32, index: u32) -> (PortId, u8) {
        let state = self.vlans.as_ref().expect("called with VLANs only");
        let packet: &mut Packet = &mut self.packets[index];
        let (vlan, at) = (usize::from(packet.vlan), state.table_number[switch as usize]);
        let egress = state.routes.tables.look_up(vlan, at, NodeId(packet.route));
        assert!(egress != PortId::NONE, "a packet is where its VLAN does not lead");
        packet.ingress_class = packet.class;
        if self.lossless & 1 << packet.class != 0 {
            packet.class = state.class_at[vlan * state.routes.tables.graph().len() + at as usize];
        }
        (egress, packet.class)
    }
}
