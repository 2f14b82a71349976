//! Hosts that pick a VLAN for each packet anew.

use crate::context::Context;
use crate::ids::HostId;
use crate::plan::Plan;
use crate::vlan::one_of;
use pauseframe_engine::{Rng, stream};
use pauseframe_units::{IndexVec, NodeId};

/// The draws of all hosts, and the class of each VLAN.
#[derive(Debug)]
pub(super) struct VlanDraws {
    class_of: Vec<u8>,
    rng: IndexVec<HostId, Rng>,
}

impl VlanDraws {
    pub(super) fn of(plan: &Plan) -> Option<VlanDraws> {
        let routes = plan.settings.vlans.as_ref()?;
        let class = |lane: u8| plan.class(routes.lanes[usize::from(lane)]);
        let draws = |host: &NodeId| stream(plan.settings.seed, "vlan of packet", u64::from(host.0));
        Some(VlanDraws {
            class_of: routes.tables.vlans().iter().map(|vlan| class(vlan.lane)).collect(),
            rng: plan.hosts.iter().map(draws).collect(),
        })
    }

    /// Another VLAN of `among` for the next packet of a host, and the class of the packet, which was `class` before.
    pub(super) fn pick(&mut self, host: HostId, among: &[u16], class: u8, ctx: &Context) -> (u16, u8) {
        let vlan = one_of(among, &mut self.rng[host]);
        (vlan, if ctx.hot.is_lossless(class) { self.class_of[usize::from(vlan)] } else { class })
    }
}
