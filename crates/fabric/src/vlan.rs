//! VLAN routes: the sender picks a VLAN, the VLAN fixes the lane, and every switch looks up (VLAN, destination).
//!
//! The model is that of static forwarding tables on lossless Ethernet (docs/models/routing.md): each frame carries an IEEE 802.1Q tag, a lane is a
//! lossless priority with its own pauses, and a switch may send a VLAN in another lane than it came in (then the ingress account is that of the
//! lane on the wire). Packets of a lossy transport take the same routes in their own priority. The choice uses the number of open flows on each link,
//! known instantly everywhere, as a host agent with a perfect view would see it. Left out: VLANs that change on the way.

use crate::plan::NetworkPlan;
use crate::settings::{VlanChoice, VlanRoutes};
use pauseframe_engine::{Rng, random_stream};
use pauseframe_routing::verify::LinkLoad;
use pauseframe_units::NodeId;
use std::sync::Arc;

/// The VLAN choice of an endpoint.
#[derive(Clone, Debug)]
pub(crate) struct PickedVlanAndClass {
    pub(crate) vlan: u16,
    pub(crate) class: u8,
    /// The VLANs to pick from for every packet; empty if the flow keeps its VLAN.
    pub(crate) among: Box<[u16]>,
}

/// Picks the VLANs of endpoints, with the load of all links and a random generator per host.
#[derive(Debug)]
pub(crate) struct VlanPicker {
    routes: Arc<VlanRoutes>,
    plan: Arc<NetworkPlan>,
    load: LinkLoad,
    /// Random generators by host.
    rng: Vec<Rng>,
    scratch: Vec<u16>,
}

impl VlanPicker {
    pub(crate) fn from_plan(plan: &Arc<NetworkPlan>) -> Option<VlanPicker> {
        let routes = Arc::clone(plan.settings.vlans.as_ref()?);
        let draws = |host: &NodeId| random_stream(plan.settings.seed, "vlan", u64::from(host.0));
        Some(VlanPicker {
            routes,
            load: LinkLoad::new(&plan.topology),
            rng: plan.hosts.iter().map(draws).collect(),
            scratch: Vec::new(),
            plan: Arc::clone(plan),
        })
    }

    /// Picks the VLAN of a new endpoint that sends from host `from` to `to`, with transport class `class`. `counts`: it sends data, so it adds load.
    pub(crate) fn pick(&mut self, [from, to]: [NodeId; 2], class: u8, counts: bool) -> PickedVlanAndClass {
        let vlan = self.choose_vlan(from, to);
        let among = if self.routes.per_packet { self.scratch.clone().into() } else { Box::default() };
        if counts {
            self.add_load(vlan, [from, to], 1.0);
        }
        let lane = self.routes.tables.vlans()[usize::from(vlan)].lane;
        let own = self.plan.class_index(self.routes.lanes[usize::from(lane)]);
        PickedVlanAndClass { vlan, class: if self.plan.is_lossless(class) { own } else { class }, among }
    }

    /// Removes the load of an endpoint that sent data by `vlan`.
    pub(crate) fn remove_load(&mut self, vlan: u16, ends: [NodeId; 2]) {
        self.add_load(vlan, ends, -1.0);
    }

    fn add_load(&mut self, vlan: u16, [from, to]: [NodeId; 2], flows: f64) {
        if matches!(self.routes.choice, VlanChoice::BestOfTwo | VlanChoice::LeastLoaded) {
            self.load.add(&self.routes.tables, vlan, from, to, flows);
        }
    }

    fn choose_vlan(&mut self, from: NodeId, to: NodeId) -> u16 {
        let (tables, rng) = (&self.routes.tables, &mut self.rng[self.plan.number[from] as usize]);
        tables.vlans_between(from, to, self.routes.slack, &mut self.scratch);
        assert!(!self.scratch.is_empty(), "no VLAN serves a pair of hosts");
        match &self.routes.choice {
            VlanChoice::Random => random_vlan(&self.scratch, rng),
            VlanChoice::BestOfTwo => {
                let two = [random_vlan(&self.scratch, rng), random_vlan(&self.scratch, rng)];
                self.load.least(tables, &two, from, to).unwrap_or(two[0])
            }
            VlanChoice::LeastLoaded => {
                self.load.least(tables, &self.scratch, from, to).unwrap_or(self.scratch[0])
            }
            VlanChoice::Assigned(known) => {
                known.get(&(from, to)).copied().unwrap_or_else(|| random_vlan(&self.scratch, rng))
            }
        }
    }
}

pub(crate) fn random_vlan(among: &[u16], rng: &mut Rng) -> u16 {
    among[rng.uniform_below(among.len() as u64) as usize]
}
