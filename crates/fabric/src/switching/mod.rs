//! A switch: looks up the next hop, marks, admits to the buffer or drops, queues and transmits.

pub(crate) mod buffer;
pub(crate) mod cnm;
mod congestion_point;
pub(crate) mod conweave;
pub(crate) mod hop_choice;
mod linux;
pub(crate) mod linux_state;
mod marking;
pub(crate) mod node;
pub(crate) mod paths;
mod pipeline;
pub(crate) mod pool;
mod port_quality;
mod serving;
mod timed;
mod transmit;
#[cfg(any(trespass = "types", trespass = "borrows"))]
#[path = "../../tests/trespass/switching.rs"]
mod trespass;
mod trimming;
mod tunnel;
pub(crate) mod tunnel_state;
mod vlan;
mod watchdog;

use self::cnm::CongestionPoints;
use self::conweave::state::ConWeaveState;
use self::hop_choice::HopChoiceState;
use self::linux_state::LinuxSwitchState;
use self::marking::{create_marker_states, create_markers};
use self::node::BorrowedSwitch;
use self::paths::PathTable;
use self::pool::{SharedBufferPool, SharedHeadroom};
use self::timed::create_timed_queues;
use self::tunnel_state::Tunnels;
use self::vlan::SwitchVlanTables;
use crate::class::ClassPolicy;
use crate::context::Context;
use crate::frame::{PacketFifo, PacketId};
use crate::ids::{SlotId, SwitchId};
use crate::marker::{Marker, MarkerState};
use crate::path_hash::PathHash;
use crate::plan::NetworkPlan;
use crate::queue::TimedQueue;
use crate::settings::HopChoice;
use crate::wire::counters::{DropReason, LossReason};
use crate::wire::own::{EgressQueueToken, PortToken};
use pauseframe_engine::{Rng, random_stream};
use pauseframe_routing::NextHops;
use pauseframe_units::{IndexVec, NodeId, PortId, Priority};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The switches of a partition with all their state except their ports.
#[derive(Debug)]
pub(crate) struct PartitionSwitches {
    pub(crate) switches: IndexVec<SwitchId, Switch>,
    /// By class.
    pub(crate) policies: [ClassPolicy; Priority::COUNT],
    /// Markers by slot, if ports differ; else the policies have them.
    markers: IndexVec<SlotId, Marker>,
    /// Marker states by slot, if a marker inspects packets.
    memories: IndexVec<SlotId, MarkerState>,
    /// The states of disciplines by slot, if a discipline has any.
    pub(crate) timed: IndexVec<SlotId, TimedQueue>,
    pub(crate) points: Option<Box<CongestionPoints>>,
    vlans: Option<Box<SwitchVlanTables>>,
    /// Tunnels between the ToRs of mux cables.
    pub(crate) tunnels: Option<Box<Tunnels>>,
    /// The hash of packets, if they have entropy values.
    packet_hash: Option<Box<PathHash>>,
    pub(crate) paths: PathTable,
    /// Current routes; failures change them.
    pub(crate) routes: Arc<NextHops>,
}

/// State of a switch, without its ports and queues.
#[derive(Debug)]
pub(crate) struct Switch {
    pub(crate) node: NodeId,
    /// The shared pool; with two pools the first is for lossless and the second for lossy traffic.
    pub(crate) pools: [SharedBufferPool; 2],
    /// The headroom of its lossless ingresses.
    pub(crate) headroom: SharedHeadroom,
    /// Choices of next hops for packets without a path.
    pub(crate) hops: HopChoiceState,
    /// What it does as a leaf that measures paths.
    pub(crate) conweave: Option<Box<ConWeaveState>>,
    /// What it does as a Linux machine.
    pub(crate) linux: Option<Box<LinuxSwitchState>>,
    /// Packets in the forwarding pipeline, by the port at the other end of the link that they came by.
    pub(crate) pipeline: BTreeMap<PortId, PacketFifo>,
    /// Chooses which packet is trimmed.
    trims: Rng,
}

impl PartitionSwitches {
    /// Idle switches. `stride`: maximum number of links between two hosts.
    pub(crate) fn from_plan(plan: &NetworkPlan, routes: &Arc<NextHops>, stride: usize) -> PartitionSwitches {
        let settings = &plan.settings;
        let switch = |((id, pools), headroom): ((&NodeId, &[u64; 2]), &u64)| Switch {
            node: *id,
            pools: pools.map(SharedBufferPool::new),
            headroom: SharedHeadroom { size: *headroom, used: 0 },
            hops: HopChoiceState::new(random_stream(settings.seed, "spray", u64::from(id.0))),
            conweave: None,
            linux: settings.linux_switch.map(|linux| Box::new(LinuxSwitchState::new(linux))),
            pipeline: BTreeMap::new(),
            trims: random_stream(settings.seed, "trim", u64::from(id.0)),
        };
        PartitionSwitches {
            switches: plan
                .switches
                .iter()
                .zip(&plan.reservations.pools)
                .zip(&plan.reservations.headroom_pools)
                .map(switch)
                .collect(),
            policies: plan.policies.clone(),
            markers: create_markers(plan),
            memories: create_marker_states(plan),
            timed: create_timed_queues(plan),
            points: CongestionPoints::from_plan(plan).map(Box::new),
            vlans: SwitchVlanTables::from_plan(plan).map(Box::new),
            tunnels: Tunnels::from_plan(plan).map(Box::new),
            packet_hash: (settings.hop_choice == Some(HopChoice::PacketHash)).then(|| {
                let hash = PathHash::new(&plan.topology, routes, settings.path_hash.clone(), settings.seed);
                Box::new(hash.with_whole_graph(routes))
            }),
            paths: PathTable::new(stride),
            routes: Arc::clone(routes),
        }
    }
}

impl<'n> BorrowedSwitch<'n> {
    /// Forwards a packet that arrived by `ingress`, or takes it into the pipeline.
    #[inline(always)]
    pub(crate) fn forward_packet(&mut self, ingress: PortToken<'n>, index: PacketId, ctx: &mut Context) {
        if ctx.hot.slow_next_hop && ctx.hot.pipelined {
            self.reborrow().enter_pipeline(ingress, index, ctx);
            return;
        }
        self.look_up_and_send(ingress, index, ctx);
    }

    /// Forwards a packet that has passed the pipeline.
    #[inline(always)]
    fn look_up_and_send(&mut self, ingress: PortToken<'n>, index: PacketId, ctx: &mut Context) {
        let packet = &mut ctx.packets[index];
        let mut class = packet.class;
        let egress = if ctx.hot.slow_next_hop {
            if ctx.hot.linux_switch {
                self.reborrow().receive_into_ring(ingress, index, ctx);
                return;
            }
            if ctx.hot.conweave {
                self.reborrow().forward_by_conweave(ingress, index, ctx);
                return;
            }
            let (egress, sent_in) = self.reborrow().look_up_next_hop(index, ctx);
            class = sent_in;
            egress
        } else {
            let egress = self.path_table().port_at(packet.route, packet.hop);
            packet.hop += 1;
            egress
        };
        let egress = self.ports.port_token(egress, ctx);
        self.transmit_or_enqueue(ingress, index, (egress, class), ctx);
    }

    /// Sends, queues or drops a packet at `egress` in `class`.
    #[inline(always)]
    fn transmit_or_enqueue(
        &mut self,
        ingress: PortToken<'n>,
        index: PacketId,
        (egress, class): (PortToken<'n>, u8),
        ctx: &mut Context,
    ) {
        if self.ports.port_state(egress).is_idle(ctx.now()) && ctx.hot.direct & 1 << class != 0 {
            self.ports.transmit_unqueued(egress, index, class, ctx);
            return;
        }
        if ctx.hot.can_refuse && self.reborrow().drop_if_refused(index, egress, ctx) {
            return;
        }
        let packet = &mut ctx.packets[index];
        packet.ingress = ingress.peer_port_id();
        // The two common cases are inlined. A lossy class with a fixed limit needs only the backlog as account, and below a threshold neither marks
        // nor drops. A lossless class with fixed thresholds neither drops nor evicts here.
        let slot = egress.egress_token(class, &ctx.hot);
        let (backlog, number) = (self.ports.egress_queue(slot).backlog, usize::from(class & 7));
        if backlog + u64::from(packet.size) > ctx.hot.unchecked_below[number] {
            let taken_in = if ctx.hot.fixed_lossless & 1 << class != 0 {
                let over = backlog > ctx.hot.mark_above[number];
                let admitted = self.ports.admit_fixed_ingress(index, ctx);
                if over && admitted.is_ok() {
                    self.mark_ce(index, slot, ctx);
                }
                admitted
            } else {
                self.reborrow().mark_and_admit(index, egress, ctx)
            };
            if let Err(reason) = taken_in {
                if self.reborrow().trim_and_forward(index, egress, reason, ctx) {
                    return;
                }
                self.ports.reborrow().drop_packet(index, egress, reason, ctx);
                return;
            }
        }
        if ctx.hot.qcn {
            self.reborrow().sample_and_send_cnm(egress, index, ctx);
        }
        self.enqueue_and_start(egress, slot, index, ctx);
    }

    /// Appends a packet to its slot at `port` and starts the port if it is idle.
    #[inline(always)]
    fn enqueue_and_start(
        &mut self,
        port: PortToken<'n>,
        slot: EgressQueueToken<'n>,
        index: PacketId,
        ctx: &mut Context,
    ) {
        if self.ports.enqueue_packet(port, slot, index, ctx) {
            self.start_or_schedule(port, ctx);
        }
    }

    /// Applies marker, buffer and queue discipline to a packet that must wait.
    #[inline(never)]
    fn mark_and_admit(
        &mut self,
        index: PacketId,
        egress: PortToken<'n>,
        ctx: &mut Context,
    ) -> Result<(), DropReason> {
        let class = ctx.packets[index].class & 7;
        let slot = egress.egress_token(class, &ctx.hot);
        let watched = ctx.hot.watched_arrivals & 1 << class != 0;
        let over = self.marker_selects(egress, class, ctx);
        if over && self.should_drop_not_ect(index, ctx) {
            return Err(DropReason::NotEct);
        }
        while let Err(reason) = self.admit_to_buffer(index, egress, ctx) {
            if reason != DropReason::BufferFull {
                return Err(reason);
            }
            if !self.evict_for(index, egress, ctx) {
                if let Some(winner) = self.compete_for_space(index, egress, ctx) {
                    self.take_mark_back(index, slot, ctx);
                    if over {
                        self.mark_ce(winner, slot, ctx);
                    }
                }
                return Err(reason);
            }
        }
        if over {
            self.mark_ce(index, slot, ctx);
        }
        if watched {
            self.ports.egress_queue_mut(slot).waiting += 1;
        }
        Ok(())
    }

    /// The next hop of a packet, and its class there, if that is looked up or recorded.
    #[inline(never)]
    fn look_up_next_hop(&mut self, index: PacketId, ctx: &mut Context) -> (PortId, u8) {
        let (port, class) = self.find_next_hop(index, ctx);
        if let Some(log) = &mut ctx.paths {
            log.count_packet(&ctx.packets[index], self.switch_state().node, port);
        }
        (port, class)
    }

    fn find_next_hop(&mut self, index: PacketId, ctx: &mut Context) -> (PortId, u8) {
        if ctx.hot.tunnels {
            return self.hop_through_tunnel(index, ctx);
        }
        if !ctx.hot.look_up {
            let packet = &mut ctx.packets[index];
            packet.hop += 1;
            return (self.path_table().port_at(packet.route, packet.hop - 1), packet.class);
        }
        if let Some(vlans) = self.vlan_tables() {
            return vlans.look_up(self.switch_id(), index, ctx);
        }
        let class = ctx.packets[index].class;
        (self.choose_next_hop(index, ctx), class)
    }

    /// Why `egress` takes no packets of a class: its link is down or its queue is in a storm.
    fn refusal(&mut self, egress: PortToken<'n>, class: u8, ctx: &Context) -> Option<LossReason> {
        if self.ports.port_state(egress).is_link_down() {
            return Some(LossReason::LinkDown);
        }
        let slot = egress.egress_token(class, &ctx.hot);
        self.ports.drops_in_storm(slot).then_some(LossReason::Watchdog)
    }

    /// Drops a packet if the link of `egress` is down or its queue is in a storm; false otherwise.
    #[cold]
    #[inline(never)]
    fn drop_if_refused(&mut self, index: PacketId, egress: PortToken<'n>, ctx: &mut Context) -> bool {
        let class = ctx.packets[index].class;
        let Some(reason) = self.refusal(egress, class, ctx) else { return false };
        self.ports.count_egress_loss(egress, class, reason, ctx);
        self.ports.count_discarded(index, ctx);
        ctx.report_datagram_loss(index);
        ctx.packets.remove(index);
        true
    }
}
