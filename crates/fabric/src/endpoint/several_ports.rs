//! Hosts with several ports. Each port is a [`Host`](super::host::Host) here; an endpoint belongs to the one by which it sends, and moves when that port
//! is dead. A packet that came by another port is handed over to it behind the receive stack.

use super::PartitionHosts;
use super::host::BlockedSocket;
use super::life::SendReliable;
use super::node::{BorrowedHost, EndpointToken};
use super::queue_pair::QueuePairEnd;
use super::state::Protocol;
use super::tcp::TcpEnd;
use crate::context::Context;
use crate::event::Event;
use crate::frame::{PacketId, PacketPool};
use crate::ids::{HostId, NicQueueId};
use crate::order::{EndpointReroute, PacketWay};
use crate::plan::NetworkPlan;
use crate::vlan::PickedVlanAndClass;
use pauseframe_units::{IndexVec, NodeId};

/// By port of a host: the first port of that host; empty if every host has one.
pub(super) fn first_ports(plan: &NetworkPlan) -> IndexVec<HostId, HostId> {
    let topology = &plan.topology;
    let first = |node: &NodeId| plan.host_id(topology.host_of(*node));
    if plan.has_several_ports() { plan.hosts.iter().map(first).collect() } else { IndexVec::new() }
}

/// How a packet leaves its host.
#[derive(Clone, Copy, Debug)]
pub(super) struct WayOut {
    /// The port.
    pub(super) host: HostId,
    pub(super) nic_queue: NicQueueId,
    pub(super) route: u32,
}

impl PartitionHosts {
    /// The first port of the host of this port.
    #[inline]
    pub(super) fn first_port_of(&self, port: HostId) -> HostId {
        self.first_ports.get(port).copied().unwrap_or(port)
    }

    /// Changes the path of an endpoint that stays at its port.
    pub(crate) fn set_path(&mut self, reroute: &EndpointReroute) {
        let &EndpointReroute { endpoint_key, ports, route, ref picked, .. } = reroute;
        if let Some(external) = &mut self.external {
            external.set_path(endpoint_key, route);
        }
        let Some(place) = self.find_endpoint_id(endpoint_key) else { return };
        let end = &mut self.ends[place];
        if !end.is_free() && end.key() == endpoint_key {
            (end.route, end.nodes) = (route, ports);
            end.ways.clone_from(&reroute.ways);
            if let Some(PickedVlanAndClass { vlan, class, among }) = picked {
                (end.vlan, end.class, end.vlans) = (*vlan, *class, among.clone());
            }
        }
    }

    /// The port whose frame a slow receiver has drained: the first in its buffer.
    pub(crate) fn drained_frame_port(
        &self,
        host: HostId,
        packets: &PacketPool,
        plan: &NetworkPlan,
    ) -> HostId {
        let receiver = self.receivers.get(host).and_then(Option::as_ref);
        let first = receiver.and_then(|receiver| receiver.waiting.head());
        first.map_or(host, |index| plan.host_id(plan.topology.peer(packets[index].ingress)))
    }
}

impl<'n> BorrowedHost<'n> {
    /// The way of an endpoint's next packet.
    #[inline(always)]
    pub(super) fn way_out(&mut self, end: EndpointToken<'n>, ctx: &Context) -> WayOut {
        let host = self.host_id();
        let state = self.endpoint_mut(end);
        if ctx.hot.port_per_packet && !state.ways.is_empty() {
            let class = state.class;
            return self.way_in_turn(end, class, ctx);
        }
        WayOut { host, nic_queue: state.nic_queue, route: state.route }
    }

    /// The same where each packet takes the next port (Linux: `bond_xmit_roundrobin`), in `class`.
    #[cold]
    pub(super) fn way_in_turn(&mut self, end: EndpointToken<'n>, class: u8, ctx: &Context) -> WayOut {
        let per_port = ctx.settings.host_ports.packets_per_slave;
        let turn = *self.spread_packets_mut() / per_port;
        let state = self.endpoint_mut(end);
        let PacketWay { ports, route } = state.ways[turn as usize % state.ways.len()];
        let (key, host) = (state.key(), ctx.plan.host_id(ports[0]));
        WayOut { host, nic_queue: self.sibling_mut(host).nic_queue_for(key, ports[1], class), route }
    }

    /// Counts a packet, or a super-packet, that has taken its turn.
    #[inline(always)]
    pub(super) fn count_turn(&mut self, ctx: &Context) {
        if ctx.hot.port_per_packet {
            let spread = self.spread_packets_mut();
            *spread = spread.wrapping_add(1);
        }
    }

    /// An endpoint waits for room at the port of its next packet: it belongs to that port until it sends again.
    #[inline(always)]
    pub(super) fn block_endpoint(&mut self, end: EndpointToken<'n>, way: WayOut) {
        let (state, port) = self.endpoint_and_port(end, way);
        (state.blocked, state.host) = (true, way.host);
        port.append_blocked(way.nic_queue, BlockedSocket::Endpoint(end.index()));
    }

    /// A packet passes the stack to another port of its host.
    #[cold]
    pub(super) fn send_by_other_port(&mut self, way: WayOut, index: PacketId, ctx: &mut Context) {
        let (size, earliest) = (ctx.packets[index].size, ctx.now() + ctx.settings.tx_delay);
        let jitter = ctx.settings.tx_jitter;
        let port = self.sibling_mut(way.host);
        port.hold(way.nic_queue, size);
        if let Some(through) = port.enter_stack(way.nic_queue, index, (earliest, jitter), &mut ctx.packets) {
            ctx.schedule_event(through, Event::HostSend(way.host));
        }
    }

    /// Gives back the queues of an endpoint at all ports that its packets took in turn.
    pub(super) fn close_queues(&mut self, ways: &[PacketWay], endpoint_key: u32, ctx: &Context) {
        for way in ways {
            let port = ctx.plan.host_id(way.ports[0]);
            self.sibling_mut(port).close_flow_queues(endpoint_key);
        }
    }

    /// Whether a packet is for an endpoint that sends by another port of this host.
    #[cold]
    pub(super) fn is_for_other_port(&self, index: PacketId, ctx: &Context) -> bool {
        let owner = ctx.packets[index].destination_endpoint_key().and_then(|key| self.endpoint_owner(key));
        owner.is_some_and(|owner| owner != self.host_id())
    }

    /// The endpoint leaves this port: nothing of it waits here for its turn. Packets in the NIC stay, as those of a dead port do.
    pub(crate) fn release_endpoint(&mut self, endpoint_key: u32, ctx: &Context) {
        let Some(end) = self.find_endpoint(endpoint_key) else { return };
        let place = end.index();
        let ways = std::mem::take(&mut self.endpoint_mut(end).ways);
        self.close_queues(&ways, endpoint_key, ctx);
        self.host_mut()
            .forget_socket(|socket| matches!(socket, BlockedSocket::Endpoint(own) if *own == place));
        self.host_mut().close_flow_queues(endpoint_key);
    }

    /// The endpoint joins this port, and sends what it may.
    pub(crate) fn adopt_endpoint(&mut self, reroute: &EndpointReroute, ctx: &mut Context) {
        let Some(end) = self.take_over(reroute.endpoint_key) else { return };
        let (id, ports) = (self.host_id(), reroute.ports);
        let class = self.endpoint_mut(end).class;
        let nic_queue = self.host_mut().nic_queue_for(reroute.endpoint_key, ports[1], class);
        let state = self.endpoint_mut(end);
        let was_blocked = std::mem::take(&mut state.blocked);
        (state.host, state.nic_queue) = (id, nic_queue);
        match state.protocol {
            Protocol::Tcp(_) => self.resume::<TcpEnd>(end, ctx),
            Protocol::Rdma(_) => {
                self.join_control_queue(end, reroute.endpoint_key);
                self.resume::<QueuePairEnd>(end, ctx);
            }
            Protocol::DatagramSource(_) if was_blocked => drop(self.send_waiting(end, ctx)),
            Protocol::Multipath(_)
            | Protocol::DatagramSource(_)
            | Protocol::DatagramSink(_)
            | Protocol::Free => {}
        }
    }

    fn resume<S: SendReliable>(&mut self, end: EndpointToken<'n>, ctx: &mut Context) {
        S::send_available(self, end, ctx);
        self.endpoint_mut(end).schedule_timer::<S>(ctx);
    }
}
