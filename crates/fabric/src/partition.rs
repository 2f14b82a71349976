//! A partition: some nodes of the network with their state, and the one match that dispatches their events.
//!
//! An event names a port, a host or the end of a connection. The partition borrows only the node concerned, which handles the event. A
//! handler reaches its own ports (`wire/own.rs`), its switch or host, and the shared state (`context.rs`). Frames for a node of another
//! partition leave across the boundary (`wire/boundary.rs`). Hosts send reports to the traffic, and the traffic sends orders to hosts
//! (`order.rs`). Only this file accesses both switches and hosts.

use crate::context::Context;
use crate::endpoint::node::BorrowedHost;
use crate::endpoint::{ExternalStackState, PartitionHosts};
use crate::event::{Event, HeldFlowId, QcnRateLimiterId};
use crate::external::ExternalStack;
use crate::frame::{FrameContent, PacketId};
use crate::hot::PrefetchDistance;
use crate::ids::{HostId, SlotId, SwitchId, SwitchOrHost};
use crate::order::EndpointReroute;
use crate::plan::NetworkPlan;
use crate::prefetch::{self, ShortPrefetchState};
use crate::switching::PartitionSwitches;
use crate::switching::node::BorrowedSwitch;
use crate::wire::PartitionPorts;
use crate::wire::own::{BorrowedNodePorts, PortToken};
use pauseframe_engine::{EventQueue, Model};
use pauseframe_routing::NextHops;
use pauseframe_units::{PortId, Span, Time};
use std::sync::Arc;

/// A subset of the nodes, with all their state.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) ports: PartitionPorts,
    pub(crate) switching: PartitionSwitches,
    pub(crate) endpoints: PartitionHosts,
    pub(crate) ctx: Context,
    seen: ShortPrefetchState,
}

impl Partition {
    /// An idle partition. `stride`: maximum number of links between two hosts; `workloads`: number of workloads.
    pub(crate) fn new(
        plan: &Arc<NetworkPlan>,
        routes: &Arc<NextHops>,
        stride: usize,
        workloads: usize,
        reaction: Span,
    ) -> Partition {
        let ctx = Context::new(plan, reaction);
        Partition {
            ports: PartitionPorts::from_plan(plan, ctx.hot.accounted != 0),
            switching: PartitionSwitches::from_plan(plan, routes, stride),
            endpoints: PartitionHosts::from_plan(plan, workloads),
            ctx,
            seen: ShortPrefetchState::EMPTY,
        }
    }

    /// The number of packets in queues, on links or in host stacks of this partition.
    pub(crate) fn packets_in_network(&self) -> usize {
        self.ctx.packets.iter().count() - self.ports.boundary.local_copy_count()
    }

    /// Starts a port that may have a frame to send.
    pub(crate) fn start_or_schedule(&mut self, port: PortId) {
        let Partition { ports, switching, endpoints, ctx, .. } = self;
        let (node, port) = BorrowedNodePorts::borrow_sender(ports, port);
        match node.owner_node().unpack() {
            SwitchOrHost::Switch(_) => {
                BorrowedSwitch::new(node, switching).start_or_schedule(port, ctx);
            }
            SwitchOrHost::Host(_) => {
                BorrowedHost::new(node, port, endpoints).start_or_schedule(ctx);
            }
        }
    }

    /// Takes the link of `port` down at the sending end.
    pub(crate) fn take_link_down(&mut self, port: PortId) {
        let (mut node, port) = BorrowedNodePorts::borrow_sender(&mut self.ports, port);
        node.take_link_down(port, &mut self.ctx);
    }

    /// Takes the link of `port` down at the receiving end: loses the frames in flight.
    pub(crate) fn lose_frames_in_flight(&mut self, port: PortId) {
        let (mut node, port) = BorrowedNodePorts::borrow_receiver(&mut self.ports, port);
        node.lose_frames_in_flight(port, &mut self.ctx);
    }

    /// A switch empties the queues of a port that has lost its link.
    pub(crate) fn discard_queued_packets(&mut self, port: PortId) {
        let Partition { ports, switching, ctx, .. } = self;
        let (node, port) = BorrowedNodePorts::borrow_sender(ports, port);
        if node.owner_node().is_switch() {
            BorrowedSwitch::new(node, switching).discard_queued_packets(port, ctx);
        }
    }

    /// Brings the link of `port` up at the sending end.
    pub(crate) fn bring_link_up(&mut self, port: PortId, now: Time) {
        let (mut node, port) = BorrowedNodePorts::borrow_sender(&mut self.ports, port);
        node.bring_link_up(port, now);
    }

    /// Brings the link of `port` up at the receiving end: sends pending pause requests again.
    pub(crate) fn resend_pause_requests(&mut self, port: PortId) {
        let (mut node, port) = BorrowedNodePorts::borrow_receiver(&mut self.ports, port);
        node.resend_pause_requests(port, &mut self.ctx);
    }

    /// Handles the end of a transmission at a port with more to send.
    #[inline(always)]
    fn on_tx_done(&mut self, port: PortId) {
        let Partition { ports, switching, endpoints, ctx, .. } = self;
        let (mut node, port) = BorrowedNodePorts::borrow_sender(ports, port);
        if node.finish_service(port, ctx) {
            match node.owner_node().unpack() {
                SwitchOrHost::Switch(_) => {
                    BorrowedSwitch::new(node, switching).transmit_next(port, ctx);
                }
                SwitchOrHost::Host(_) => BorrowedHost::new(node, port, endpoints).transmit_next(ctx),
            }
        }
    }

    /// Handles the arrival of the first frame on a link. Takes it off the wire here, so that no node handler accesses both ends of a link.
    #[inline(always)]
    fn on_frame_arrival(&mut self, port: PortId) {
        let Partition { ports, switching, endpoints, ctx, .. } = self;
        let index = ports.ports[port].take_arrived(port, ctx);
        if !ctx.packets[index].is_flow_packet() {
            self.on_non_flow_frame(port, index);
            return;
        }
        ctx.packet_hops += 1;
        let (node, port) = BorrowedNodePorts::borrow_receiver(ports, port);
        match node.owner_node().unpack() {
            SwitchOrHost::Switch(_) => BorrowedSwitch::new(node, switching).forward_packet(port, index, ctx),
            SwitchOrHost::Host(_) => {
                BorrowedHost::new(node, port, endpoints).on_nic_receive(index, ctx);
                if ctx.hot.several_ports {
                    self.deliver_handed_over();
                }
            }
        }
    }

    /// Delivers a packet that came by another port of its host.
    #[inline(never)]
    fn deliver_handed_over(&mut self) {
        let Some(index) = self.ctx.handed_over.take() else { return };
        let key = self.ctx.packets[index].destination_endpoint_key();
        let owner = key.and_then(|key| self.endpoints.find_local_host(key));
        let (mut host, ctx) = self.borrow_host(owner.expect("the port that received it has looked"));
        host.deliver_packet(index, ctx);
    }

    /// Gives an endpoint another path, and if need be another port of its host.
    pub(crate) fn reroute_endpoint(&mut self, reroute: &EndpointReroute) {
        let [holder, next] = [reroute.holder, reroute.ports[0]].map(|node| self.ctx.plan.host_id(node));
        // An endpoint whose packets take ports in turn belongs to the one at which it last had to wait.
        let owner = self.endpoints.find_local_host(reroute.endpoint_key);
        let holder = owner.filter(|_| !reroute.ways.is_empty()).unwrap_or(holder);
        let moves = holder != next || !reroute.ways.is_empty();
        if moves {
            let (mut host, ctx) = self.borrow_host(holder);
            host.release_endpoint(reroute.endpoint_key, ctx);
        }
        self.endpoints.set_path(reroute);
        if moves {
            let (mut host, ctx) = self.borrow_host(next);
            host.adopt_endpoint(reroute, ctx);
        }
    }

    /// Handles the arrival of a frame that is not a flow packet, or the arrival time of a lost frame.
    #[cold]
    fn on_non_flow_frame(&mut self, port: PortId, index: PacketId) {
        let Partition { ports, switching, endpoints, ctx, .. } = self;
        let (mut node, port) = BorrowedNodePorts::borrow_receiver(ports, port);
        match ctx.packets[index].content {
            FrameContent::Pause { .. } => {
                if let Some(paused) = node.on_pause_frame(port, index, ctx).map(PortToken::port_id) {
                    self.start_or_schedule(paused);
                }
            }
            FrameContent::Cnm(_) => {
                ctx.packet_hops += 1;
                match node.owner_node().unpack() {
                    SwitchOrHost::Switch(_) => {
                        BorrowedSwitch::new(node, switching).forward_cnm(port, index, ctx);
                    }
                    SwitchOrHost::Host(_) => {
                        BorrowedHost::new(node, port, endpoints).on_cnm(index, ctx);
                    }
                }
            }
            FrameContent::PathControl(_) => {
                ctx.packet_hops += 1;
                BorrowedSwitch::new(node, switching).on_path_control(port, index, ctx);
            }
            _ => node.on_lost_arrival(port, index, ctx),
        }
    }

    #[inline(never)]
    fn on_pause_effect(&mut self, port: PortId) {
        let (mut node, own) = BorrowedNodePorts::borrow_sender(&mut self.ports, port);
        node.on_pause_effect(own, &mut self.ctx);
        self.start_or_schedule(port);
    }

    #[inline(never)]
    fn on_pause_expiry(&mut self, slot: SlotId) {
        let (port, class) = self.ctx.hot.port_and_class(slot);
        let (mut node, own) = BorrowedNodePorts::borrow_sender(&mut self.ports, port);
        if node.end_pause_if_expired(own, class, &mut self.ctx) {
            self.start_or_schedule(port);
        }
    }

    #[inline(never)]
    fn on_pause_refresh(&mut self, slot: SlotId) {
        let (port, class) = self.ctx.hot.port_and_class(slot);
        let (mut node, port) = BorrowedNodePorts::borrow_receiver(&mut self.ports, port);
        node.on_pause_refresh(port.ingress_token(class, &self.ctx.hot), &mut self.ctx);
    }

    fn on_watchdog_check(&mut self, slot: SlotId) {
        let Partition { ports, switching, ctx, .. } = self;
        let (port, class) = ctx.hot.port_and_class(slot);
        let (node, port) = BorrowedNodePorts::borrow_sender(ports, port);
        BorrowedSwitch::new(node, switching).on_watchdog_check(port, class, ctx);
    }

    fn send_storm_frames(&mut self, number: u32) {
        let storms = Arc::clone(&self.ports.storms);
        let storm = &storms[number as usize];
        let (mut node, port) = BorrowedNodePorts::borrow_sender(&mut self.ports, storm.port);
        node.send_storm_frames(number, storm, port, &mut self.ctx);
    }

    fn on_hold_timer(&mut self, held: HeldFlowId) {
        let Partition { ports, switching, ctx, .. } = self;
        let leaf = &ctx.plan.topology.nodes()[switching.switches[held.switch].node];
        let (node, _) = BorrowedNodePorts::borrow_sender(ports, leaf.ports[0]);
        BorrowedSwitch::new(node, switching).on_hold_timer(held, ctx);
    }

    fn on_interrupt(&mut self, port: PortId) {
        let Partition { ports, switching, ctx, .. } = self;
        let (node, _) = BorrowedNodePorts::borrow_sender(ports, port);
        BorrowedSwitch::new(node, switching).on_interrupt(port, ctx);
    }

    fn on_pipeline_passed(&mut self, port: PortId) {
        let Partition { ports, switching, ctx, .. } = self;
        let (node, ingress) = BorrowedNodePorts::borrow_receiver(ports, port);
        BorrowedSwitch::new(node, switching).leave_pipeline(ingress, ctx);
    }

    fn on_super_packet_forwarded(&mut self, switch: SwitchId) {
        let Partition { ports, switching, ctx, .. } = self;
        let machine = &ctx.plan.topology.nodes()[switching.switches[switch].node];
        let (node, _) = BorrowedNodePorts::borrow_sender(ports, machine.ports[0]);
        BorrowedSwitch::new(node, switching).on_super_packet_forwarded(ctx);
    }

    /// Borrows a host and the context.
    #[inline(always)]
    fn borrow_host(&mut self, host: HostId) -> (BorrowedHost<'_>, &mut Context) {
        let Partition { ports, endpoints, ctx, .. } = self;
        let (node, port) = BorrowedNodePorts::borrow_sender(ports, endpoints.hosts[host].port);
        (BorrowedHost::new(node, port, endpoints), ctx)
    }

    #[inline(always)]
    fn on_endpoint_timer(&mut self, endpoint_key: u32) {
        if let Some(host) = self.endpoints.find_local_host(endpoint_key) {
            let (mut host, ctx) = self.borrow_host(host);
            host.on_endpoint_timer(endpoint_key, ctx);
        }
    }

    fn on_orders_due(&mut self, host: HostId) {
        let orders = self.endpoints.take_due_orders(host, self.ctx.now());
        if let Some(external) = self.endpoints.external.as_mut().filter(|external| external.owns_host(host)) {
            let node = self.ctx.plan.hosts[host.0 as usize];
            for (endpoint_key, order) in &orders {
                external.pass_order(node, *endpoint_key, order, &mut self.ctx);
            }
            return;
        }
        for (endpoint_key, order) in orders {
            // It may have moved to another port since.
            let host = self.endpoints.find_local_host(endpoint_key).unwrap_or(host);
            let (mut host, ctx) = self.borrow_host(host);
            host.execute_order(endpoint_key, order, ctx);
        }
    }

    /// A stack outside of the simulator acts, and its hosts send.
    fn on_external_event(&mut self) {
        let Some(external) = &mut self.endpoints.external else { return };
        for node in external.run_if_due(&mut self.ctx) {
            let (mut host, ctx) = self.borrow_host(self.ctx.plan.host_id(node));
            host.on_transmit_ring_filled(ctx);
        }
        if let Some(external) = &mut self.endpoints.external {
            external.schedule_next_event(&mut self.ctx);
        }
    }

    /// Hosts belong to a stack outside of the simulator from now on.
    pub(crate) fn attach_external_stack(&mut self, stack: Box<dyn ExternalStack>) {
        let owned: Vec<bool> = self.ctx.plan.hosts.iter().map(|node| stack.owns_host(*node)).collect();
        let hosts = (0..).map(HostId).zip(&owned).filter(|(_, owned)| **owned).map(|(host, _)| host);
        let hosts: Vec<HostId> = hosts.collect();
        let mut external = ExternalStackState::new(stack, owned);
        external.schedule_next_event(&mut self.ctx);
        self.endpoints.external = Some(Box::new(external));
        for host in hosts {
            self.borrow_host(host).0.block_external_stack();
        }
    }

    /// Handles events that name their host.
    fn handle_host_event(&mut self, host: HostId, event: Event) {
        let host = match event {
            Event::HostDrain(_) if self.ctx.hot.several_ports => {
                self.endpoints.drained_frame_port(host, &self.ctx.packets, &self.ctx.plan)
            }
            _ => host,
        };
        let (mut host, ctx) = self.borrow_host(host);
        match event {
            Event::HostReceive(_) => host.on_rx_stack_done(ctx),
            Event::HostSend(_) => host.on_tx_stack_done(ctx),
            Event::HostDrain(_) => host.on_frame_drained(ctx),
            Event::RateRelease(limiter) => host.on_limiter_release(limiter.nic_queue, ctx),
            Event::RateTimer(limiter) => host.on_limiter_timer(limiter.nic_queue, ctx),
            _ => unreachable!("it names no host"),
        }
        if self.ctx.hot.several_ports {
            self.deliver_handed_over();
        }
    }

    /// Handles events rarer than once per hop; not inlined into the run loop.
    #[inline(never)]
    fn handle_infrequent_event(&mut self, event: u64) {
        match Event::decode(event) {
            Event::PauseEffect(port) => self.on_pause_effect(port),
            Event::PauseExpiry(slot) => self.on_pause_expiry(slot),
            Event::PauseRefresh(slot) => self.on_pause_refresh(slot),
            event @ (Event::HostReceive(host)
            | Event::HostSend(host)
            | Event::HostDrain(host)
            | Event::RateRelease(QcnRateLimiterId { host, .. })
            | Event::RateTimer(QcnRateLimiterId { host, .. })) => self.handle_host_event(host, event),
            Event::Timer(end) => self.on_endpoint_timer(end),
            Event::Order(host) => self.on_orders_due(host),
            Event::Watchdog(slot) => self.on_watchdog_check(slot),
            Event::PauseStorm(number) => self.send_storm_frames(number),
            Event::HoldTimer(held) => self.on_hold_timer(held),
            Event::Interrupt(port) => self.on_interrupt(port),
            Event::SuperPacketForwarded(switch) => self.on_super_packet_forwarded(switch),
            Event::Forward(port) => self.on_pipeline_passed(port),
            Event::External => self.on_external_event(),
            Event::TxDone(_) | Event::Arrive(_) => unreachable!("the run loop handles it itself"),
        }
    }
}

impl Partition {
    /// Prefetches further ahead if the state has outgrown a cache. Events in the lookahead buffer forbid the way back.
    #[inline(never)]
    pub(crate) fn raise_prefetch_distance(&mut self) {
        let (ports, packets) = (self.ports.ports.len(), self.ctx.packets.entry_count());
        let distance = PrefetchDistance::choose(ports, packets);
        self.ctx.hot.prefetch = self.ctx.hot.prefetch.max(distance);
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

    fn prefetches(&self) -> bool {
        self.ctx.hot.prefetch != PrefetchDistance::None
    }

    #[inline(always)]
    fn prefetch_upcoming(&mut self) {
        if self.ctx.hot.prefetch == PrefetchDistance::Long {
            self.ctx.queue.prefetch_list_nodes::<2>();
            self.ctx.queue.fill_lookahead(prefetch::LONG_LOOKAHEAD);
            self.prefetch_long();
        } else {
            self.ctx.queue.prefetch_list_nodes::<1>();
            self.ctx.queue.fill_lookahead(prefetch::SHORT_LOOKAHEAD);
            self.seen = self.prefetch_short(self.seen).unwrap_or(ShortPrefetchState::EMPTY);
        }
    }

    #[inline(always)]
    fn handle_event(&mut self, event: u64) {
        match Event::decode_port_event(event) {
            Some(Event::Arrive(port)) => self.on_frame_arrival(port),
            Some(Event::TxDone(port)) => self.on_tx_done(port),
            _ => self.handle_infrequent_event(event),
        }
    }
}
