//! A partition: some nodes of the network with their state, and the one match that dispatches their events.
//!
//! An event names a port, a host or the end of a connection. The partition borrows only the node concerned, which handles the event. A
//! handler reaches its own ports (`wire/own.rs`), its switch or host, and the shared state (`context.rs`). Frames for a node of another
//! partition leave across the boundary (`wire/boundary.rs`). Hosts send reports to the traffic, and the traffic sends orders to hosts
//! (`order.rs`). Only this file accesses both switches and hosts.

use crate::context::Context;
use crate::endpoint::node::HostNode;
use crate::endpoint::{Endpoints, External};
use crate::event::{Event, LimiterId};
use crate::external::ExternalStack;
use crate::frame::{FrameKind, PacketId};
use crate::hot::PrefetchMode;
use crate::ids::{HostId, SlotId, SwitchOrHost};
use crate::plan::Plan;
use crate::prefetch::{self, ShortPrefetchState};
use crate::switching::Switching;
use crate::switching::node::SwitchNode;
use crate::wire::Ports;
use crate::wire::own::{NodePorts, OwnPort};
use pauseframe_engine::{EventQueue, Model};
use pauseframe_routing::NextHops;
use pauseframe_units::{PortId, Span, Time};
use std::sync::Arc;

/// A subset of the nodes, with all their state.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) ports: Ports,
    pub(crate) switching: Switching,
    pub(crate) endpoints: Endpoints,
    pub(crate) ctx: Context,
    seen: ShortPrefetchState,
}

impl Partition {
    /// An idle partition. `stride`: maximum number of links between two hosts; `workloads`: number of workloads.
    pub(crate) fn new(
        plan: &Arc<Plan>,
        routes: &Arc<NextHops>,
        stride: usize,
        workloads: usize,
        reaction: Span,
    ) -> Partition {
        let ctx = Context::new(plan, reaction);
        Partition {
            ports: Ports::from_plan(plan, ctx.hot.accounted != 0),
            switching: Switching::from_plan(plan, routes, stride),
            endpoints: Endpoints::from_plan(plan, workloads),
            ctx,
            seen: ShortPrefetchState::EMPTY,
        }
    }

    /// The number of packets in queues, on links or in host stacks of this partition.
    pub(crate) fn packets_under_way(&self) -> usize {
        self.ctx.packets.live_packets().count() - self.ports.boundary.local_copies()
    }

    /// Starts a port that may have a frame to send.
    pub(crate) fn start_transmission(&mut self, port: PortId) {
        let Partition { ports, switching, endpoints, ctx, .. } = self;
        let (node, port) = NodePorts::sending_by(ports, port);
        match node.node().unpack() {
            SwitchOrHost::Switch(_) => SwitchNode::new(node, switching).start_transmission(port, ctx),
            SwitchOrHost::Host(_) => HostNode::new(node, port, endpoints).start_transmission(ctx),
        }
    }

    /// Takes the link of `port` down at the sending end.
    pub(crate) fn take_link_down(&mut self, port: PortId) {
        let (mut node, port) = NodePorts::sending_by(&mut self.ports, port);
        node.take_link_down(port, &mut self.ctx);
    }

    /// Takes the link of `port` down at the receiving end: loses the frames in flight.
    pub(crate) fn lose_frames_in_flight(&mut self, port: PortId) {
        let (mut node, port) = NodePorts::receiving_from(&mut self.ports, port);
        node.lose_frames_in_flight(port, &mut self.ctx);
    }

    /// A switch empties the queues of a port that has lost its link.
    pub(crate) fn discard_queues(&mut self, port: PortId) {
        let Partition { ports, switching, ctx, .. } = self;
        let (node, port) = NodePorts::sending_by(ports, port);
        if node.node().is_switch() {
            SwitchNode::new(node, switching).discard_queues(port, ctx);
        }
    }

    /// Brings the link of `port` up at the sending end.
    pub(crate) fn bring_link_up(&mut self, port: PortId, now: Time) {
        let (mut node, port) = NodePorts::sending_by(&mut self.ports, port);
        node.bring_link_up(port, now);
    }

    /// Brings the link of `port` up at the receiving end: sends pending pause requests again.
    pub(crate) fn resend_pauses(&mut self, port: PortId) {
        let (mut node, port) = NodePorts::receiving_from(&mut self.ports, port);
        node.resend_pauses(port, &mut self.ctx);
    }

    /// Handles the end of a transmission at a port with more to send.
    #[inline(always)]
    fn on_tx_done(&mut self, port: PortId) {
        let Partition { ports, switching, endpoints, ctx, .. } = self;
        let (mut node, port) = NodePorts::sending_by(ports, port);
        if node.finish_frame(port, ctx) {
            match node.node().unpack() {
                SwitchOrHost::Switch(_) => SwitchNode::new(node, switching).transmit_next_frame(port, ctx),
                SwitchOrHost::Host(_) => HostNode::new(node, port, endpoints).transmit_next_frame(ctx),
            }
        }
    }

    /// Handles the arrival of the first frame on a link. Takes it off the wire here, so that no node handler accesses both ends of a link.
    #[inline(always)]
    fn on_frame_arrival(&mut self, port: PortId) {
        let Partition { ports, switching, endpoints, ctx, .. } = self;
        let index = ports.ports[port].take_arrived_frame(port, ctx);
        if !ctx.packets[index].is_flow_packet() {
            self.on_non_flow_frame(port, index);
            return;
        }
        ctx.packet_hops += 1;
        let (node, port) = NodePorts::receiving_from(ports, port);
        match node.node().unpack() {
            SwitchOrHost::Switch(_) => SwitchNode::new(node, switching).forward(port, index, ctx),
            SwitchOrHost::Host(_) => {
                HostNode::new(node, port, endpoints).on_nic_receive(index, ctx);
            }
        }
    }

    /// Handles the arrival of a frame that is not a flow packet, or the arrival time of a lost frame.
    #[cold]
    fn on_non_flow_frame(&mut self, port: PortId, index: PacketId) {
        let Partition { ports, switching, endpoints, ctx, .. } = self;
        let (mut node, port) = NodePorts::receiving_from(ports, port);
        match ctx.packets[index].content {
            FrameKind::Pause { .. } => {
                if let Some(paused) = node.on_pause_frame(port, index, ctx).map(OwnPort::id) {
                    self.start_transmission(paused);
                }
            }
            FrameKind::Cnm(_) => {
                ctx.packet_hops += 1;
                match node.node().unpack() {
                    SwitchOrHost::Switch(_) => SwitchNode::new(node, switching).forward_cnm(port, index, ctx),
                    SwitchOrHost::Host(_) => {
                        HostNode::new(node, port, endpoints).on_cnm(index, ctx);
                    }
                }
            }
            _ => node.on_lost_frame(port, index, ctx),
        }
    }

    #[inline(never)]
    fn on_pause_effect(&mut self, port: PortId) {
        let (mut node, own) = NodePorts::sending_by(&mut self.ports, port);
        node.on_pause_effect(own, &mut self.ctx);
        self.start_transmission(port);
    }

    #[inline(never)]
    fn on_pause_expiry(&mut self, slot: SlotId) {
        let (port, class) = self.ctx.hot.port_and_class(slot);
        let (mut node, own) = NodePorts::sending_by(&mut self.ports, port);
        if node.has_pause_expired(own, class, &mut self.ctx) {
            self.start_transmission(port);
        }
    }

    #[inline(never)]
    fn on_pause_refresh(&mut self, slot: SlotId) {
        let (port, class) = self.ctx.hot.port_and_class(slot);
        let (mut node, port) = NodePorts::receiving_from(&mut self.ports, port);
        node.on_pause_refresh(port.ingress_slot(class, &self.ctx.hot), &mut self.ctx);
    }

    fn on_watchdog(&mut self, slot: SlotId) {
        let Partition { ports, switching, ctx, .. } = self;
        let (port, class) = ctx.hot.port_and_class(slot);
        let (node, port) = NodePorts::sending_by(ports, port);
        SwitchNode::new(node, switching).on_watchdog(port, class, ctx);
    }

    fn on_pause_storm(&mut self, number: u32) {
        let storms = Arc::clone(&self.ports.storms);
        let storm = &storms[number as usize];
        let (mut node, port) = NodePorts::sending_by(&mut self.ports, storm.port);
        node.on_pause_storm(number, storm, port, &mut self.ctx);
    }

    /// Borrows a host and the context.
    #[inline(always)]
    fn borrow_host(&mut self, host: HostId) -> (HostNode<'_>, &mut Context) {
        let Partition { ports, endpoints, ctx, .. } = self;
        let (node, port) = NodePorts::sending_by(ports, endpoints.hosts[host].port);
        (HostNode::new(node, port, endpoints), ctx)
    }

    #[inline(always)]
    fn on_endpoint_timer(&mut self, address: u32) {
        if let Some(host) = self.endpoints.host_of_endpoint(address) {
            let (mut host, ctx) = self.borrow_host(host);
            host.on_endpoint_timer(address, ctx);
        }
    }

    fn on_order(&mut self, address: u32) {
        if let Some((host, orders)) = self.endpoints.take_due_orders(address, self.ctx.now()) {
            if let Some(external) = self.endpoints.external.as_mut().filter(|external| external.owns(host)) {
                let node = self.ctx.plan.hosts[host.0 as usize];
                for order in &orders {
                    external.order(node, address, order, &mut self.ctx);
                }
                return;
            }
            let (mut host, ctx) = self.borrow_host(host);
            host.execute_orders(address, orders, ctx);
        }
    }

    /// A stack outside of the simulator acts, and its hosts send.
    fn on_external(&mut self) {
        let Some(external) = &mut self.endpoints.external else { return };
        for node in external.act(&mut self.ctx) {
            let (mut host, ctx) = self.borrow_host(self.ctx.plan.host_id(node));
            host.on_frames_ready(ctx);
        }
        if let Some(external) = &mut self.endpoints.external {
            external.arm(&mut self.ctx);
        }
    }

    /// Hosts belong to a stack outside of the simulator from now on.
    pub(crate) fn attach(&mut self, stack: Box<dyn ExternalStack>) {
        let owned: Vec<bool> = self.ctx.plan.hosts.iter().map(|node| stack.owns(*node)).collect();
        let hosts = (0..).map(HostId).zip(&owned).filter(|(_, owned)| **owned).map(|(host, _)| host);
        let hosts: Vec<HostId> = hosts.collect();
        let mut external = External::new(stack, owned);
        external.arm(&mut self.ctx);
        self.endpoints.external = Some(Box::new(external));
        for host in hosts {
            self.borrow_host(host).0.join_stack();
        }
    }

    fn on_datagram_due(&mut self, flow: u32) {
        if let Some(host) = self.endpoints.host_of_source(flow) {
            let (mut host, ctx) = self.borrow_host(host);
            host.on_datagram_due(flow, ctx);
        }
    }

    fn on_queue_pair(&mut self, address: u32) {
        if let Some((place, host)) = self.endpoints.pairs.place_and_host_of(address) {
            let (mut host, ctx) = self.borrow_host(host);
            host.on_pair_timer(place, ctx);
        }
    }

    /// Handles events that name their host.
    fn handle_host_event(&mut self, host: HostId, event: Event) {
        let (mut host, ctx) = self.borrow_host(host);
        match event {
            Event::HostReceive(_) => host.on_rx_stack_done(ctx),
            Event::HostSend(_) => host.on_tx_stack_done(ctx),
            Event::HostDrain(_) => host.on_receiver_drained(ctx),
            Event::RateRelease(limiter) => host.on_limiter_release(limiter.nic_queue, ctx),
            Event::RateTimer(limiter) => host.on_limiter_timer(limiter.nic_queue, ctx),
            _ => unreachable!("it names no host"),
        }
    }

    /// Handles events rarer than once per hop; not inlined into the run loop.
    #[inline(never)]
    fn handle_rare_event(&mut self, event: u64) {
        match Event::decode(event) {
            Event::PauseEffect(port) => self.on_pause_effect(port),
            Event::PauseExpiry(slot) => self.on_pause_expiry(slot),
            Event::PauseRefresh(slot) => self.on_pause_refresh(slot),
            event @ (Event::HostReceive(host)
            | Event::HostSend(host)
            | Event::HostDrain(host)
            | Event::RateRelease(LimiterId { host, .. })
            | Event::RateTimer(LimiterId { host, .. })) => self.handle_host_event(host, event),
            Event::Timer(end) => self.on_endpoint_timer(end),
            Event::Order(address) => self.on_order(address),
            Event::DatagramDue(flow) => self.on_datagram_due(flow),
            Event::Watchdog(slot) => self.on_watchdog(slot),
            Event::PauseStorm(number) => self.on_pause_storm(number),
            Event::QueuePair(address) => self.on_queue_pair(address),
            Event::External => self.on_external(),
            Event::TxDone(_) | Event::Arrive(_) => unreachable!("the run loop handles it itself"),
        }
    }
}

impl Model for Partition {
    #[inline(always)]
    fn end_time(&self) -> Time {
        self.ctx.outgoing.end
    }

    #[inline(always)]
    fn event_queue(&mut self) -> &mut EventQueue {
        &mut self.ctx.queue
    }

    fn wants_prefetch(&self) -> bool {
        self.ctx.hot.prefetch != PrefetchMode::None
    }

    #[inline(always)]
    fn prefetch_upcoming(&mut self) {
        if self.ctx.hot.prefetch == PrefetchMode::Long {
            self.ctx.queue.prefetch_bucket_nodes::<2>();
            self.ctx.queue.fill_lookahead(prefetch::LONG_LOOKAHEAD);
            self.prefetch_long();
        } else {
            self.ctx.queue.prefetch_bucket_nodes::<1>();
            self.ctx.queue.fill_lookahead(prefetch::SHORT_LOOKAHEAD);
            self.seen = self.prefetch_short(self.seen).unwrap_or(ShortPrefetchState::EMPTY);
        }
    }

    #[inline(always)]
    fn handle_event(&mut self, event: u64) {
        match Event::decode_port_event(event) {
            Some(Event::Arrive(port)) => self.on_frame_arrival(port),
            Some(Event::TxDone(port)) => self.on_tx_done(port),
            _ => self.handle_rare_event(event),
        }
    }
}
