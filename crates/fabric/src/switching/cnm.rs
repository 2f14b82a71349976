//! Congestion points of switches (`congestion_point.rs`), and the way of their messages back to the sources.

use super::congestion_point::{CongestionPoint, Feedback};
use super::node::SwitchNode;
use crate::context::Context;
use crate::frame::{Cnm, Content, Packet, PacketId};
use crate::ids::SlotId;
use crate::plan::Plan;
use crate::settings::QcnSettings;
use crate::wire::counters::DropReason;
use crate::wire::own::{InPort, OwnPort};
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

/// The congestion point of one queue, and what holds for all.
pub(super) struct PointOfQueue<'n> {
    settings: &'n QcnSettings,
    point: &'n mut CongestionPoint,
    classes: u8,
    cnm_class: u8,
}

impl CongestionPoints {
    pub(super) fn of_queue(&mut self, slot: SlotId) -> PointOfQueue<'_> {
        let CongestionPoints { settings, points, classes, cnm_class } = self;
        PointOfQueue { settings, point: &mut points[slot], classes: *classes, cnm_class: *cnm_class }
    }
}

impl<'n> SwitchNode<'n> {
    /// A frame has joined an egress queue of a switch: its congestion point may answer the source.
    #[cold]
    pub(super) fn on_congestion_point(&mut self, port: OwnPort<'n>, index: PacketId, ctx: &mut Context) {
        let packet = ctx.packets[index];
        let slot = port.slot(packet.class, &ctx.hot);
        let backlog = self.ports.slot(slot).backlog + u64::from(packet.size);
        let Some(PointOfQueue { settings, point, classes, cnm_class }) = self.congestion_point(slot) else {
            return;
        };
        let Some(to) = packet.to().filter(|_| packet.is_data()) else { return };
        if classes & 1 << packet.class == 0 {
            return;
        }
        if let Some(Feedback { fb, q_off, q_delta }) =
            point.on_frame(u32::from(packet.size), backlog, settings)
        {
            self.ports.counters(slot).cnms_sent += 1;
            // It is for the end that the frame came from.
            let cnm = Cnm { to: to ^ 1, q_off, q_delta, point: port.id(), fb, sampled_class: packet.class };
            self.send_cnm(cnm, cnm_class, ctx);
        }
    }

    /// A CNM sets out from the switch of its congestion point to the source of the sampled frame.
    fn send_cnm(&mut self, cnm: Cnm, class: u8, ctx: &mut Context) {
        let from = ctx.host_at(cnm.to);
        let egress = self.way_of_cnm(self.switch().node, from, cnm.to / 2, ctx);
        let egress = self.ports.own(egress, ctx);
        let packet =
            Packet { at: ctx.now(), route: from.0, ..Packet::new(Content::Cnm(cnm), CNM_FRAME, class) };
        let index = ctx.packets.add(packet);
        // It has no ingress: as lossless packet it is in no account here ([`SwitchNode::release`]).
        if !ctx.hot.is_lossless(class) && !self.has_lossy_room(index, egress, ctx) {
            self.ports.drop_packet(index, egress, DropReason::BufferFull, ctx);
            return;
        }
        if ctx.hot.watched_arrivals & 1 << class != 0 {
            self.ports.slot_mut(egress.slot(class, &ctx.hot)).waiting += 1;
        }
        self.enqueue(egress, egress.slot(class, &ctx.hot), index, ctx);
    }

    /// Whether a lossy packet of the switch's own fits in its egress queue, taking the space.
    fn has_lossy_room(&mut self, index: PacketId, egress: OwnPort<'n>, ctx: &mut Context) -> bool {
        if ctx.hot.shared {
            return self.admit(index, egress, ctx).is_ok();
        }
        // No limit where inputs own the buffer: it came by none.
        let packet = &ctx.packets[index];
        let backlog = self.ports.slot(egress.slot(packet.class, &ctx.hot)).backlog;
        backlog + u64::from(packet.size) <= self.policy(packet.class).limit
    }

    /// The way back from the switch `origin` as ECMP would choose it, hop by hop: the port that this one takes. Where packets are
    /// sprayed it is the first.
    fn way_of_cnm(&self, origin: NodeId, to: NodeId, flow: u32, ctx: &Context) -> PortId {
        let here = self.switch().node;
        let among = self.routes().ports(here, to);
        if ctx.settings.spray || among.len() == 1 {
            return among[0];
        }
        let tuple = mix(u64::from(origin.0) << 32 | u64::from(to.0)) ^ mix(u64::from(flow));
        let salt = mix(ctx.settings.seed ^ mix(u64::from(here.0)));
        among[ecmp_index(mix(tuple), salt, among.len())]
    }

    /// A CNM has come into a switch by `ingress`.
    #[inline(never)]
    pub(crate) fn forward_cnm(&mut self, ingress: InPort<'n>, index: PacketId, ctx: &mut Context) {
        let Packet { route, class, content: Content::Cnm(Cnm { to, point, .. }), .. } = ctx.packets[index]
        else {
            return;
        };
        let origin = ctx.plan.topology.owner(point);
        let egress = if ctx.settings.spray {
            self.spray_to(NodeId(route))
        } else {
            self.way_of_cnm(origin, NodeId(route), to / 2, ctx)
        };
        let egress = self.ports.own(egress, ctx);
        self.pass_on(ingress, index, (egress, class), ctx);
    }
}
