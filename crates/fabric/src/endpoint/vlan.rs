//! Hosts that pick a new VLAN for each packet.

use crate::context::Context;
use crate::ids::HostId;
use crate::plan::NetworkPlan;
use crate::vlan::random_vlan;
use pauseframe_engine::{Rng, random_stream};
use pauseframe_units::{IndexVec, NodeId};

/// Random generators of all hosts, and the class of each VLAN.
#[derive(Debug)]
pub(super) struct PerPacketVlanPicker {
    class_of: Vec<u8>,
    rng: IndexVec<HostId, Rng>,
}

impl PerPacketVlanPicker {
    pub(super) fn from_plan(plan: &NetworkPlan) -> Option<PerPacketVlanPicker> {
        let routes = plan.settings.vlans.as_ref()?;
        let class = |lane: u8| plan.class_index(routes.lanes[usize::from(lane)]);
        let draws = |host: &NodeId| random_stream(plan.settings.seed, "vlan of packet", u64::from(host.0));
        Some(PerPacketVlanPicker {
            class_of: routes.tables.vlans().iter().map(|vlan| class(vlan.lane)).collect(),
            rng: plan.hosts.iter().map(draws).collect(),
        })
    }

    /// Picks a VLAN of `among` for a packet of a host. Returns the VLAN and the packet's class in it.
    pub(super) fn pick(&mut self, host: HostId, among: &[u16], class: u8, ctx: &Context) -> (u16, u8) {
        let vlan = random_vlan(among, &mut self.rng[host]);
        (vlan, if ctx.hot.is_lossless(class) { self.class_of[usize::from(vlan)] } else { class })
    }
}
