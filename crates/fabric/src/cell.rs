//! A cell: some nodes of the network with everything that they touch, and the one match that dispatches their events.
//!
//! What a node's handler touches is in its own cell: its ports, its switch or host, and what is near (`near.rs`). Frames for a node
//! of another cell leave by the border (`wire/border.rs`), what hosts learn goes to the traffic as a report, and what they are to do
//! comes as an order (`order.rs`). This is the only place that has both switches and hosts in its hands.

use crate::endpoint::Endpoints;
use crate::event::Event;
use crate::foresight::FORESIGHT;
use crate::frame::{Content, PacketId};
use crate::ids::{HostId, SlotId, SwitchId};
use crate::near::Near;
use crate::plan::Plan;
use crate::switching::Switching;
use crate::wire::Ports;
use pauseframe_engine::{EventQueue, Model};
use pauseframe_topology::routing::NextHops;
use pauseframe_units::{PortId, Span, Time};
use std::sync::Arc;

/// Some nodes of a network, and what is theirs.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) ports: Ports,
    pub(crate) switching: Switching,
    pub(crate) endpoints: Endpoints,
    pub(crate) near: Near,
}

impl Cell {
    /// An idle cell; `stride`: the most links between two hosts, `workloads`: how many there are.
    pub(crate) fn new(
        plan: &Arc<Plan>,
        routes: &Arc<NextHops>,
        stride: usize,
        workloads: usize,
        reaction: Span,
    ) -> Cell {
        let near = Near::new(plan, reaction);
        Cell {
            ports: Ports::of(plan),
            switching: Switching::of(plan, routes, stride, near.hot.accounted != 0),
            endpoints: Endpoints::of(plan, workloads),
            near,
        }
    }

    /// Packets that are in queues, on links or in stacks here.
    pub(crate) fn packets_under_way(&self) -> usize {
        self.near.packets.under_way().count() - self.ports.border.last_frames()
    }

    /// The port may have something to send now.
    pub(crate) fn kick(&mut self, port: PortId) {
        let Cell { ports, switching, endpoints, near } = self;
        match ports.ports[port].from_host {
            HostId::NONE => switching.kick(port, ports, near),
            host => endpoints.kick(host, port, ports, near),
        }
    }

    /// The link of `port` is back, at the end that receives: what it has asked for still holds.
    pub(crate) fn ask_again(&mut self, port: PortId) {
        let Cell { ports, switching, endpoints, near } = self;
        let is_switch = ports.ports[port].to_switch != SwitchId::NONE;
        let ingress = if is_switch { &mut switching.ingress } else { &mut endpoints.ingress };
        ingress.ask_again(port, ports, near);
    }

    /// A switch empties the queues of a port that has lost its link.
    pub(crate) fn discard_queues(&mut self, port: PortId) {
        let Cell { ports, switching, near, .. } = self;
        if ports.ports[port].from_host == HostId::NONE {
            switching.discard_queues(port, ports, near);
        }
    }

    /// The port has finished its frame and has more to send.
    #[inline(always)]
    fn on_tx_done(&mut self, port: PortId) {
        let Cell { ports, switching, endpoints, near } = self;
        let from = ports.ports[port].from_host;
        if ports.has_finished(port, near) {
            match from {
                HostId::NONE => switching.transmit(port, ports, near),
                host => endpoints.transmit(host, port, ports, near),
            }
        }
    }

    /// The first frame on a link has arrived, whole.
    #[inline(always)]
    fn on_arrive(&mut self, port: PortId) {
        let Cell { ports, switching, endpoints, near } = self;
        let state = &mut ports.ports[port];
        let index = state.take_arrived(port, near);
        let (switch, host) = (state.to_switch, state.to_host);
        if !near.packets[index].is_data() {
            self.on_other_frame(port, index);
            return;
        }
        near.packet_hops += 1;
        if switch == SwitchId::NONE {
            endpoints.on_nic_receive(host, port, index, ports, near);
        } else {
            switching.forward(switch, port, index, ports, near);
        }
    }

    /// A frame that is no packet of a flow has arrived, or would have.
    #[cold]
    fn on_other_frame(&mut self, port: PortId, index: PacketId) {
        let Cell { ports, switching, endpoints, near } = self;
        match near.packets[index].content {
            Content::Pause { .. } => {
                if let Some(paused) = ports.on_pause_frame(port, index, near) {
                    self.kick(paused);
                }
            }
            Content::Cnm(_) => {
                near.packet_hops += 1;
                match ports.ports[port].to_switch {
                    SwitchId::NONE => {
                        let host = ports.ports[port].to_host;
                        endpoints.on_cnm(host, port, index, ports, near);
                    }
                    switch => switching.forward_cnm(switch, port, index, ports, near),
                }
            }
            _ => ports.on_lost_frame(port, index, near),
        }
    }

    #[inline(never)]
    fn on_pause_effect(&mut self, port: PortId) {
        self.ports.on_pause_effect(port, &mut self.near);
        self.kick(port);
    }

    #[inline(never)]
    fn on_pause_expiry(&mut self, slot: SlotId) {
        if self.ports.has_expired(slot, &mut self.near) {
            self.kick(self.near.hot.port_and_class(slot).0);
        }
    }

    #[inline(never)]
    fn on_pause_refresh(&mut self, slot: SlotId) {
        let Cell { ports, switching, endpoints, near } = self;
        let port = near.hot.port_and_class(slot).0;
        let is_switch = ports.ports[port].to_switch != SwitchId::NONE;
        let ingress = if is_switch { &mut switching.ingress } else { &mut endpoints.ingress };
        ingress.on_pause_refresh(slot, ports, near);
    }

    /// What happens less than once a hop stays out of the run loop's way.
    #[inline(never)]
    fn handle_other(&mut self, event: u64) {
        let Cell { ports, switching, endpoints, near } = self;
        match Event::from_code(event) {
            Event::PauseEffect(port) => self.on_pause_effect(port),
            Event::PauseExpiry(slot) => self.on_pause_expiry(slot),
            Event::PauseRefresh(slot) => self.on_pause_refresh(slot),
            Event::HostReceive(host) => endpoints.on_host_receive(host, ports, near),
            Event::HostSend(host) => endpoints.on_host_send(host, ports, near),
            Event::Timer(end) => endpoints.on_timer(end, ports, near),
            Event::Order(address) => endpoints.on_order(address, ports, near),
            Event::HostDrain(host) => endpoints.on_host_drain(host, ports, near),
            Event::DatagramDue(flow) => endpoints.on_datagram_due(flow, ports, near),
            Event::RateRelease(limiter) => endpoints.on_rate_release(limiter, ports, near),
            Event::RateTimer(limiter) => endpoints.on_rate_timer(limiter, near),
            Event::Watchdog(slot) => switching.on_watchdog(slot, ports, near),
            Event::TxDone(_) | Event::Arrive(_) => unreachable!("the run loop handles it itself"),
        }
    }
}

impl Model for Cell {
    #[inline(always)]
    fn end(&self) -> Time {
        self.near.mail.end
    }

    #[inline(always)]
    fn queue(&mut self) -> &mut EventQueue {
        &mut self.near.queue
    }

    fn foresight(&self) -> usize {
        if self.near.hot.is_large { FORESIGHT } else { 0 }
    }

    #[inline(always)]
    fn foresee(&self) {
        self.look_ahead();
    }

    #[inline(always)]
    fn handle(&mut self, event: u64) {
        match Event::of_port(event) {
            Some(Event::Arrive(port)) => self.on_arrive(port),
            Some(Event::TxDone(port)) => self.on_tx_done(port),
            _ => self.handle_other(event),
        }
    }
}
