//! QCN at switches: congestion points (`congestion_point.rs`) and the route of CNMs back to the sources.

use super::congestion_point::{CongestionPoint, QcnFeedback};
use super::node::BorrowedSwitch;
use crate::context::Context;
use crate::frame::{Cnm, FrameContent, Packet, PacketId};
use crate::ids::SlotId;
use crate::plan::NetworkPlan;
use crate::settings::QcnSettings;
use crate::wire::counters::DropReason;
use crate::wire::own::PortToken;
use pauseframe_engine::{mix_bits, random_stream};
use pauseframe_routing::ecmp_index;
use pauseframe_units::{IndexVec, NodeId, PortId, Priority};

/// Size of a CNM in buffers, including the FCS.
pub(crate) const CNM_FRAME_BYTES: u16 = 64;

/// The congestion points of all queues.
#[derive(Debug)]
pub(crate) struct CongestionPoints {
    settings: QcnSettings,
    points: IndexVec<SlotId, CongestionPoint>,
    /// Classes with congestion points (one bit each), and the class of CNMs.
    classes: u8,
    cnm_class: u8,
}

impl CongestionPoints {
    pub(super) fn from_plan(plan: &NetworkPlan) -> Option<CongestionPoints> {
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
        let points = (0..plan.slot_count() as u64)
            .map(|slot| CongestionPoint::new(&settings, random_stream(seed, "qcn/sample", slot)));
        Some(CongestionPoints { points: points.collect(), classes, cnm_class, settings })
    }
}

/// The congestion point of one queue, with the settings of all.
pub(super) struct QueueCongestionPoint<'n> {
    settings: &'n QcnSettings,
    point: &'n mut CongestionPoint,
    classes: u8,
    cnm_class: u8,
}

impl CongestionPoints {
    pub(super) fn congestion_point(&mut self, slot: SlotId) -> QueueCongestionPoint<'_> {
        let CongestionPoints { settings, points, classes, cnm_class } = self;
        QueueCongestionPoint { settings, point: &mut points[slot], classes: *classes, cnm_class: *cnm_class }
    }
}

impl<'n> BorrowedSwitch<'n> {
    /// Samples the queue that a frame has joined; the congestion point may send a CNM to the source.
    #[cold]
    pub(super) fn sample_and_send_cnm(&mut self, port: PortToken<'n>, index: PacketId, ctx: &mut Context) {
        let packet = ctx.packets[index];
        let slot = port.egress_token(packet.class, &ctx.hot);
        let backlog = self.ports.egress_queue(slot).backlog + u64::from(packet.size);
        let Some(QueueCongestionPoint { settings, point, classes, cnm_class }) =
            self.congestion_point_mut(slot)
        else {
            return;
        };
        let Some(to) = packet.destination_endpoint_key().filter(|_| packet.is_flow_packet()) else { return };
        if classes & 1 << packet.class == 0 {
            return;
        }
        if let Some(QcnFeedback { fb, q_off, q_delta }) =
            point.sample_enqueued_frame(u32::from(packet.size), backlog, settings)
        {
            // The CNM goes to the endpoint that sent the frame.
            let cnm =
                Cnm { to: to ^ 1, q_off, q_delta, point: port.port_id(), fb, sampled_class: packet.class };
            if self.send_cnm(cnm, cnm_class, ctx) {
                self.ports.rare_counters_mut(slot).cnms_sent += 1;
            }
        }
    }

    /// Sends a CNM from this switch to the source of the sampled frame; false if that has moved to a port in another plane.
    fn send_cnm(&mut self, cnm: Cnm, class: u8, ctx: &mut Context) -> bool {
        let from = ctx.endpoint_host(cnm.to);
        let Some(egress) = self.cnm_next_hop(self.switch_state().node, from, cnm.to / 2, ctx) else {
            return false;
        };
        let egress = self.ports.port_token(egress, ctx);
        let packet = Packet {
            at: ctx.now(),
            route: from.0,
            ..Packet::new(FrameContent::Cnm(cnm), CNM_FRAME_BYTES, class)
        };
        let index = ctx.packets.insert(packet);
        self.send_own_frame(index, egress, ctx);
        true
    }

    /// Queues a frame that this switch has made.
    pub(super) fn send_own_frame(&mut self, index: PacketId, egress: PortToken<'n>, ctx: &mut Context) {
        let class = ctx.packets[index].class;
        // It has no ingress, so a lossless one has no account at this switch ([`BorrowedSwitch::release_buffer`]).
        if !ctx.hot.is_lossless(class) && !self.reserve_lossy(index, egress, ctx) {
            self.ports.drop_packet(index, egress, DropReason::BufferFull, ctx);
            return;
        }
        if ctx.hot.watched_arrivals & 1 << class != 0 {
            self.ports.egress_queue_mut(egress.egress_token(class, &ctx.hot)).waiting += 1;
        }
        self.enqueue_and_start(egress, egress.egress_token(class, &ctx.hot), index, ctx);
    }

    /// Reserves space in the egress queue for a lossy packet that this switch created; false if it does not fit.
    fn reserve_lossy(&mut self, index: PacketId, egress: PortToken<'n>, ctx: &mut Context) -> bool {
        if ctx.hot.shared {
            return self.admit_to_buffer(index, egress, ctx).is_ok();
        }
        // No limit if ingress ports own the buffer, because it has none.
        let packet = &ctx.packets[index];
        let backlog = self.ports.egress_queue(egress.egress_token(packet.class, &ctx.hot)).backlog;
        backlog + u64::from(packet.size) <= self.class_policy(packet.class).limit
    }

    /// The next hop of a CNM from switch `origin`, chosen by ECMP at each hop; the first shortest path if packets are sprayed. `None` towards
    /// another plane.
    fn cnm_next_hop(&self, origin: NodeId, to: NodeId, flow: u32, ctx: &Context) -> Option<PortId> {
        let here = self.switch_state().node;
        let among = self.current_routes().ports(here, to);
        if ctx.settings.hop_choice.is_some() || among.len() <= 1 {
            return among.first().copied();
        }
        let tuple = mix_bits(u64::from(origin.0) << 32 | u64::from(to.0)) ^ mix_bits(u64::from(flow));
        let salt = mix_bits(ctx.settings.seed ^ mix_bits(u64::from(here.0)));
        Some(among[ecmp_index(mix_bits(tuple), salt, among.len())])
    }

    /// Forwards a CNM that arrived by `ingress`.
    #[inline(never)]
    pub(crate) fn forward_cnm(&mut self, ingress: PortToken<'n>, index: PacketId, ctx: &mut Context) {
        let Packet { route, class, content: FrameContent::Cnm(Cnm { to, point, .. }), .. } =
            ctx.packets[index]
        else {
            return;
        };
        let origin = ctx.plan.topology.owner(point);
        let egress = if ctx.settings.hop_choice.is_some() {
            self.choose_next_hop(index, ctx)
        } else {
            self.cnm_next_hop(origin, NodeId(route), to / 2, ctx).expect("it began in the plane of its host")
        };
        let egress = self.ports.port_token(egress, ctx);
        self.transmit_or_enqueue(ingress, index, (egress, class), ctx);
    }
}
