//! VLAN tables of switches: next hop and class by VLAN and destination.

use crate::context::Context;
use crate::frame::PacketId;
use crate::ids::SwitchId;
use crate::plan::NetworkPlan;
use crate::settings::VlanRoutes;
use pauseframe_units::{IndexVec, NodeId, PortId};
use std::sync::Arc;

/// The VLAN tables of all switches.
#[derive(Debug)]
pub(super) struct SwitchVlanTables {
    routes: Arc<VlanRoutes>,
    /// Index of each switch in the tables.
    table_number: IndexVec<SwitchId, u32>,
    /// By VLAN and switch: the class of lossless packets on the next hop.
    class_at: Vec<u8>,
}

impl SwitchVlanTables {
    pub(super) fn from_plan(plan: &NetworkPlan) -> Option<SwitchVlanTables> {
        let routes = plan.settings.vlans.as_ref()?;
        assert!(plan.settings.overhead.tag == 0, "frames in VLANs have a tag in any case");
        let tables = &routes.tables;
        let class = |lane: u8| plan.class_index(routes.lanes[usize::from(lane)]);
        let number = |switch: &NodeId| tables.graph().number(*switch).expect("the tables know every switch");
        Some(SwitchVlanTables {
            table_number: plan.switches.iter().map(number).collect(),
            class_at: tables.lane_table().into_iter().map(class).collect(),
            routes: Arc::clone(routes),
        })
    }

    /// Next hop and class of a packet by the tables of a switch.
    pub(super) fn look_up(&self, switch: SwitchId, index: PacketId, ctx: &mut Context) -> (PortId, u8) {
        let packet = &mut ctx.packets[index];
        let (vlan, at) = (usize::from(packet.vlan), self.table_number[switch]);
        let egress = self.routes.tables.look_up(vlan, at, NodeId(packet.route));
        assert!(egress != PortId::NONE, "a packet is where its VLAN does not lead");
        packet.ingress_class = packet.class;
        if ctx.hot.lossless & 1 << packet.class != 0 {
            packet.class = self.class_at[vlan * self.routes.tables.graph().len() + at as usize];
        }
        (egress, packet.class)
    }
}
