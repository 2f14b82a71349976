//! Congestion points of switches (`congestion_point.rs`), and the way of their messages back to the sources.

use super::Switching;
use super::congestion_point::{CongestionPoint, Feedback};
use crate::frame::{Cnm, Content, Packet, PacketId};
use crate::ids::{SlotId, SwitchId};
use crate::near::Near;
use crate::plan::Plan;
use crate::settings::QcnSettings;
use crate::wire::Ports;
use crate::wire::counters::DropReason;
use pauseframe_engine::{mix, stream};
use pauseframe_topology::routing::ecmp_index;
use pauseframe_units::{IndexVec, NodeId, PortId, Priority};

/// A CNM in buffers, bytes, FCS included.
pub(crate) const CNM_FRAME: u16 = 64;

/// The congestion points of all queues.
#[derive(Debug)]
pub(crate) struct CongestionPoints {
    settings: QcnSettings,
    points: IndexVec<SlotId, CongestionPoint>,
    /// Classes that are watched, a bit each, and the class of the CNMs.
    classes: u8,
    cnm_class: u8,
}

impl CongestionPoints {
    pub(super) fn of(plan: &Plan) -> Option<CongestionPoints> {
        let settings = plan.settings.qcn.clone()?;
        let (priorities, seed) = (&plan.priorities, plan.settings.seed);
        let class = |priority: Priority| priorities.iter().position(|p| *p == priority);
        let cnm_class = class(settings.cnm_priority).expect("the priority of CNMs is in use") as u8;
        let watched = |priority: &Priority| match &settings.priorities {
            Some(list) => list.contains(priority),
            None => *priority != settings.cnm_priority,
        };
        let classes =
            priorities.iter().enumerate().filter(|(_, p)| watched(p)).fold(0, |set, (c, _)| set | 1 << c);
        let points = (0..plan.slots() as u64)
            .map(|slot| CongestionPoint::new(&settings, stream(seed, "qcn/sample", slot)));
        Some(CongestionPoints { points: points.collect(), classes, cnm_class, settings })
    }
}

impl Switching {
    /// A frame has joined an egress queue of a switch: its congestion point may answer the source.
    #[cold]
    pub(super) fn on_congestion_point(
        &mut self,
        port: PortId,
        index: PacketId,
        ports: &mut Ports,
        near: &mut Near,
    ) {
        let packet = near.packets[index];
        let slot = near.hot.slot(port, packet.class);
        let backlog = ports.slots[slot].backlog + u64::from(packet.size);
        let Some(CongestionPoints { settings, points, classes, cnm_class }) = self.points.as_deref_mut()
        else {
            return;
        };
        let Some(to) = packet.to().filter(|_| packet.is_data()) else { return };
        if *classes & 1 << packet.class == 0 {
            return;
        }
        let cnm_class = *cnm_class;
        if let Some(Feedback { fb, q_off, q_delta }) =
            points[slot].on_frame(u32::from(packet.size), backlog, settings)
        {
            ports.counters.rare(slot).cnms_sent += 1;
            // It is for the end that the frame came from.
            let cnm = Cnm { to: to ^ 1, q_off, q_delta, point: port, fb, sampled_class: packet.class };
            self.send_cnm(cnm, cnm_class, ports, near);
        }
    }

    /// A CNM sets out from the switch of its congestion point to the source of the sampled frame.
    fn send_cnm(&mut self, cnm: Cnm, class: u8, ports: &mut Ports, near: &mut Near) {
        let from = near.host_at(cnm.to);
        let here = near.plan.topology.owner(cnm.point);
        let egress = self.way_of_cnm(here, here, from, cnm.to / 2, near);
        let packet =
            Packet { at: near.now(), route: from.0, ..Packet::new(Content::Cnm(cnm), CNM_FRAME, class) };
        let index = near.packets.add(packet);
        // It has no ingress: as lossless packet it is in no account here ([`Switching::release`]).
        if !near.hot.is_lossless(class) && !self.has_lossy_room(index, egress, ports, near) {
            ports.drop_packet(index, egress, DropReason::BufferFull, near);
            return;
        }
        if near.hot.watched_arrivals & 1 << class != 0 {
            ports.slots[near.hot.slot(egress, class)].waiting += 1;
        }
        self.enqueue(egress, near.hot.slot(egress, class), index, ports, near);
    }

    /// Whether a lossy packet of the switch's own fits in its egress queue, taking the space.
    fn has_lossy_room(
        &mut self,
        index: PacketId,
        egress: PortId,
        ports: &mut Ports,
        near: &mut Near,
    ) -> bool {
        if near.hot.shared {
            let switch = near.plan.switch_of(egress);
            return self.admit(switch, index, egress, ports, near).is_ok();
        }
        // No limit where inputs own the buffer: it came by none.
        let packet = &near.packets[index];
        let backlog = ports.slots[near.hot.slot(egress, packet.class)].backlog;
        backlog + u64::from(packet.size) <= self.policies[usize::from(packet.class)].limit
    }

    /// The way back from the switch `origin` as ECMP would choose it, hop by hop: the port that `here` takes. Where packets are
    /// sprayed it is the first.
    fn way_of_cnm(&self, here: NodeId, origin: NodeId, to: NodeId, flow: u32, near: &Near) -> PortId {
        let among = self.routes.ports(here, to);
        if near.settings.spray || among.len() == 1 {
            return among[0];
        }
        let tuple = mix(u64::from(origin.0) << 32 | u64::from(to.0)) ^ mix(u64::from(flow));
        let salt = mix(near.settings.seed ^ mix(u64::from(here.0)));
        among[ecmp_index(mix(tuple), salt, among.len())]
    }

    /// A CNM has come into a switch by `ingress`.
    #[inline(never)]
    pub(crate) fn forward_cnm(
        &mut self,
        switch: SwitchId,
        ingress: PortId,
        index: PacketId,
        ports: &mut Ports,
        near: &mut Near,
    ) {
        let Packet { route, class, content: Content::Cnm(Cnm { to, point, .. }), .. } = near.packets[index]
        else {
            return;
        };
        let origin = near.plan.topology.owner(point);
        let egress = if near.settings.spray {
            self.spray_to(switch, NodeId(route))
        } else {
            self.way_of_cnm(self.switches[switch].node, origin, NodeId(route), to / 2, near)
        };
        self.pass_on(switch, ingress, index, (egress, class), ports, near);
    }
}
