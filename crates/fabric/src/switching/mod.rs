//! A switch: find the way, take the packet into the buffer or drop it, mark it, queue it; and send what waits.

pub(crate) mod buffer;
pub(crate) mod cnm;
mod congestion_point;
mod marking;
pub(crate) mod node;
pub(crate) mod paths;
pub(crate) mod pool;
mod serving;
mod transmit;
#[cfg(any(trespass = "types", trespass = "borrows"))]
#[path = "../../tests/trespass/switching.rs"]
mod trespass;
mod vlan;
mod watchdog;

use self::cnm::CongestionPoints;
use self::marking::{markers, memories};
use self::node::SwitchNode;
use self::paths::Paths;
use self::pool::{Pool, SharedHeadroom};
use self::vlan::VlanTables;
use crate::class::ClassPolicy;
use crate::context::Context;
use crate::frame::{Packet, PacketId};
use crate::ids::{SlotId, SwitchId};
use crate::marker::{Marker, Memory};
use crate::plan::Plan;
use crate::wire::counters::{DropReason, LossReason};
use crate::wire::own::{InPort, OwnPort, OwnSlot};
use pauseframe_engine::{Rng, stream};
use pauseframe_topology::routing::NextHops;
use pauseframe_units::{IndexVec, NodeId, PortId, Priority};
use std::sync::Arc;

/// The switches of a partition: what is theirs beside their ports.
#[derive(Debug)]
pub(crate) struct Switching {
    pub(crate) switches: IndexVec<SwitchId, Switch>,
    /// By class.
    pub(crate) policies: [ClassPolicy; Priority::COUNT],
    /// By slot, where ports differ; else those of the policies.
    markers: IndexVec<SlotId, Marker>,
    /// Where a marker is asked about packets.
    memories: IndexVec<SlotId, Memory>,
    pub(crate) points: Option<Box<CongestionPoints>>,
    vlans: Option<Box<VlanTables>>,
    pub(crate) paths: Paths,
    /// Those of the moment: failures change them.
    pub(crate) routes: Arc<NextHops>,
}

/// A switch's own state; its queues are its ports'.
#[derive(Debug)]
pub(crate) struct Switch {
    pub(crate) node: NodeId,
    /// The shared pool, of lossless traffic alone if there is a second one for lossy traffic.
    pub(crate) pools: [Pool; 2],
    /// The headroom of its lossless ingresses.
    pub(crate) headroom: SharedHeadroom,
    /// Chooses next hops of sprayed packets.
    spray: Rng,
}

impl Switching {
    /// Idle switches; `stride`: the most links between two hosts.
    pub(crate) fn of(plan: &Plan, routes: &Arc<NextHops>, stride: usize) -> Switching {
        let settings = &plan.settings;
        let switch = |((id, pools), headroom): ((&NodeId, &[u64; 2]), &u64)| Switch {
            node: *id,
            pools: pools.map(Pool::new),
            headroom: SharedHeadroom { size: *headroom, used: 0 },
            spray: stream(settings.seed, "spray", u64::from(id.0)),
        };
        Switching {
            switches: plan
                .switches
                .iter()
                .zip(&plan.margins.pools)
                .zip(&plan.margins.headroom_pools)
                .map(switch)
                .collect(),
            policies: plan.policies.clone(),
            markers: markers(plan),
            memories: memories(plan),
            points: CongestionPoints::of(plan).map(Box::new),
            vlans: VlanTables::of(plan).map(Box::new),
            paths: Paths::new(stride),
            routes: Arc::clone(routes),
        }
    }
}

impl<'n> SwitchNode<'n> {
    /// A packet has come into a switch by `ingress` (named by the port that sent it).
    #[inline(always)]
    pub(crate) fn forward(&mut self, ingress: InPort<'n>, index: PacketId, ctx: &mut Context) {
        let packet = &mut ctx.packets[index];
        let mut class = packet.class;
        let egress = if ctx.hot.look_up {
            let (egress, sent_in) = self.reborrow().look_up(index, ctx);
            class = sent_in;
            egress
        } else {
            let egress = self.paths().port(packet.route, packet.hop);
            packet.hop += 1;
            egress
        };
        let egress = self.ports.own(egress, ctx);
        self.pass_on(ingress, index, (egress, class), ctx);
    }

    /// A packet goes on to `egress`, where it is sent in `class`: at once, or it waits, or it is dropped.
    #[inline(always)]
    fn pass_on(
        &mut self,
        ingress: InPort<'n>,
        index: PacketId,
        (egress, class): (OwnPort<'n>, u8),
        ctx: &mut Context,
    ) {
        if self.ports.port(egress).is_idle(ctx.now()) && ctx.hot.direct & 1 << class != 0 {
            self.ports.send_directly(egress, index, class, ctx);
            return;
        }
        if ctx.hot.can_refuse && self.reborrow().refuses(index, egress, ctx) {
            return;
        }
        let packet = &mut ctx.packets[index];
        packet.ingress = ingress.id();
        // The two common cases stay in line. A lossy class with a fixed limit needs no account but the backlog, and while
        // that is short nothing happens; a lossless one with fixed thresholds is neither dropped here nor displaced.
        let slot = egress.slot(class, &ctx.hot);
        let (backlog, number) = (self.ports.slot(slot).backlog, usize::from(class & 7));
        if backlog + u64::from(packet.size) > ctx.hot.unchecked_below[number] {
            let taken_in = if ctx.hot.fixed_lossless & 1 << class != 0 {
                let over = backlog > ctx.hot.mark_above[number];
                let admitted = self.ports.admit(index, ctx);
                if over && admitted.is_ok() {
                    self.mark(index, slot, ctx);
                }
                admitted
            } else {
                self.reborrow().take_in(index, egress, ctx)
            };
            if let Err(reason) = taken_in {
                self.ports.reborrow().drop_packet(index, egress, reason, ctx);
                return;
            }
        }
        if ctx.hot.qcn {
            self.reborrow().on_congestion_point(egress, index, ctx);
        }
        self.enqueue(egress, slot, index, ctx);
    }

    /// Appends a packet to its slot at `port` and starts the port if it is idle.
    #[inline(always)]
    fn enqueue(&mut self, port: OwnPort<'n>, slot: OwnSlot<'n>, index: PacketId, ctx: &mut Context) {
        if self.ports.enqueue(port, slot, index, ctx) {
            self.start_transmission(port, ctx);
        }
    }

    /// Marker, buffer and queue discipline have their say on a packet that is to wait.
    #[inline(never)]
    fn take_in(&mut self, index: PacketId, egress: OwnPort<'n>, ctx: &mut Context) -> Result<(), DropReason> {
        let class = ctx.packets[index].class & 7;
        let slot = egress.slot(class, &ctx.hot);
        let watched = ctx.hot.watched_arrivals & 1 << class != 0;
        let over = if watched {
            self.marks_arrival(egress, class, ctx)
        } else {
            self.ports.slot(slot).backlog > ctx.hot.mark_above[usize::from(class)]
        };
        if over && self.drops_not_ect(index, ctx) {
            return Err(DropReason::NotEct);
        }
        while let Err(reason) = self.admit(index, egress, ctx) {
            if reason != DropReason::BufferFull {
                return Err(reason);
            }
            if !self.displace(index, egress, ctx) {
                if let Some(last) = self.take_last_place(index, egress, ctx)
                    && over
                {
                    self.mark(last, slot, ctx);
                }
                return Err(reason);
            }
        }
        if over {
            self.mark(index, slot, ctx);
        }
        if watched {
            self.ports.slot_mut(slot).waiting += 1;
        }
        Ok(())
    }

    /// The next hop of a packet that does not know its path, and the class in which it goes there.
    #[inline(never)]
    fn look_up(&mut self, index: PacketId, ctx: &mut Context) -> (PortId, u8) {
        if let Some(vlans) = self.vlans() {
            return vlans.forward(self.id(), index, ctx);
        }
        let Packet { route, class, .. } = ctx.packets[index];
        (self.spray_to(NodeId(route)), class)
    }

    /// The next hop of a sprayed packet: any of the shortest, uniformly at random.
    fn spray_to(&mut self, to: NodeId) -> PortId {
        let (routes, switch) = self.routes_and_switch();
        let among = routes.ports(switch.node, to);
        match among {
            [only] => *only,
            _ => among[switch.spray.below(among.len() as u64) as usize],
        }
    }

    /// Loses a packet that cannot even be queued at `egress`; false if it can.
    #[cold]
    #[inline(never)]
    fn refuses(&mut self, index: PacketId, egress: OwnPort<'n>, ctx: &mut Context) -> bool {
        let class = ctx.packets[index].class;
        let reason = if self.ports.port(egress).is_down() {
            LossReason::LinkDown
        } else if self.ports.drops_in_storm(egress.slot(class, &ctx.hot)) {
            LossReason::Watchdog
        } else {
            return false;
        };
        self.ports.count_loss(egress, class, reason, ctx);
        self.ports.count_gone(index, ctx);
        ctx.report_lost(index);
        ctx.packets.remove(index);
        true
    }
}
