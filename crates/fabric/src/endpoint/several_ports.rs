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
use crate::frame::{PacketId, PacketPool};
use crate::ids::HostId;
use crate::order::EndpointReroute;
use crate::plan::NetworkPlan;
use crate::vlan::PickedVlanAndClass;
use pauseframe_units::{IndexVec, NodeId};

/// By port of a host: the first port of that host; empty if every host has one.
pub(super) fn first_ports(plan: &NetworkPlan) -> IndexVec<HostId, HostId> {
    let topology = &plan.topology;
    let first = |node: &NodeId| plan.host_id_of_node(topology.host_of(*node));
    if plan.has_several_ports() { plan.hosts.iter().map(first).collect() } else { IndexVec::new() }
}

impl PartitionHosts {
    /// The first port of the host of this port.
    #[inline]
    pub(super) fn first_port_of(&self, port: HostId) -> HostId {
        self.first_ports.get(port).copied().unwrap_or(port)
    }

    /// Changes the path of an endpoint that stays at its port.
    pub(crate) fn set_endpoint_path(&mut self, reroute: &EndpointReroute) {
        let &EndpointReroute { endpoint_key, ports, route, ref picked, .. } = reroute;
        if let Some(external) = &mut self.external {
            external.set_endpoint_path(endpoint_key, route);
        }
        let Some(place) = self.find_endpoint_index_by_key(endpoint_key) else { return };
        let end = &mut self.ends[place];
        if !end.is_free() && end.key() == endpoint_key {
            (end.route, end.nodes) = (route, ports);
            if let Some(PickedVlanAndClass { vlan, class, among }) = picked {
                (end.vlan, end.class, end.vlans) = (*vlan, *class, among.clone());
            }
        }
    }

    /// The port whose frame a slow receiver has drained: the first in its buffer.
    pub(crate) fn port_of_drained_frame(
        &self,
        host: HostId,
        packets: &PacketPool,
        plan: &NetworkPlan,
    ) -> HostId {
        let receiver = self.receivers.get(host).and_then(Option::as_ref);
        let first = receiver.and_then(|receiver| receiver.waiting.head());
        first.map_or(host, |index| plan.host_id_of_node(plan.topology.peer(packets[index].ingress)))
    }
}

impl<'n> BorrowedHost<'n> {
    /// Whether a packet is for an endpoint that sends by another port of this host.
    #[cold]
    pub(super) fn is_for_other_port(&self, index: PacketId, ctx: &Context) -> bool {
        let owner = ctx.packets[index].destination_endpoint_key().and_then(|key| self.owner_of_endpoint(key));
        owner.is_some_and(|owner| owner != self.own_host_id())
    }

    /// The endpoint leaves this port: nothing of it waits here for its turn. Packets in the NIC stay, as those of a dead port do.
    pub(crate) fn release_endpoint(&mut self, endpoint_key: u32) {
        let Some(end) = self.find_endpoint_by_key(endpoint_key) else { return };
        let place = end.index();
        self.host_mut()
            .forget_socket(|socket| matches!(socket, BlockedSocket::Endpoint(own) if *own == place));
        self.host_mut().close_queues_of_flow(endpoint_key);
    }

    /// The endpoint joins this port, and sends what it may.
    pub(crate) fn adopt_endpoint(&mut self, reroute: &EndpointReroute, ctx: &mut Context) {
        let Some(end) = self.take_over_endpoint(reroute.endpoint_key) else { return };
        let (id, ports) = (self.own_host_id(), reroute.ports);
        let class = self.endpoint_mut(end).class;
        let nic_queue = self.host_mut().nic_queue_of_flow(reroute.endpoint_key, ports[1], class);
        let state = self.endpoint_mut(end);
        let was_blocked = std::mem::take(&mut state.blocked);
        (state.host, state.nic_queue) = (id, nic_queue);
        match state.protocol {
            Protocol::Tcp(_) => self.resume::<TcpEnd>(end, ctx),
            Protocol::Rdma(_) => {
                self.join_control_queue(end, reroute.endpoint_key);
                self.resume::<QueuePairEnd>(end, ctx);
            }
            Protocol::DatagramSource(_) if was_blocked => drop(self.send_waiting_datagram(end, ctx)),
            Protocol::DatagramSource(_) | Protocol::DatagramSink(_) | Protocol::Free => {}
        }
    }

    fn resume<S: SendReliable>(&mut self, end: EndpointToken<'n>, ctx: &mut Context) {
        S::send_available(self, end, ctx);
        self.endpoint_mut(end).schedule_timer::<S>(ctx);
    }
}
