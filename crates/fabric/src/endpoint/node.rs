//! Access of a host to its state while it handles an event: its port (`wire/own.rs`) and its endpoints. A host with several ports is borrowed port by
//! port (`several_ports.rs`).
//!
//! Endpoints of all hosts of a partition share arenas. A host names its own ones by tokens. Only this file creates tokens, after checking the owner
//! in every build, and a token lives no longer than the borrow of the host.

use super::external::ExternalStackState;
use super::host::Host;
use super::limiter::QcnRateLimiter;
use super::queue_pair::RdmaCards;
use super::receiver::SlowReceiver;
use super::several_ports::WayOut;
use super::state::{Endpoint, Protocol, Reliable};
use super::tcp::TcpEnd;
use super::{PartitionHosts, vlan::PerPacketVlanPicker};
use crate::context::Context;
use crate::event::QcnRateLimiterId;
use crate::frame::PacketPool;
use crate::ids::{EndpointId, HostId, NicQueueId, SwitchOrHost};
use crate::settings::QcnSettings;
use crate::wire::own::{BorrowedNodePorts, PortToken};
use pauseframe_transport::CachedTcpMetrics;
use pauseframe_units::{BitRate, NodeId};
use std::marker::PhantomData;

/// The borrow of one host of a partition.
#[derive(Debug)]
pub(crate) struct BorrowedHost<'n> {
    pub(super) ports: BorrowedNodePorts<'n>,
    /// The only one.
    pub(super) port: PortToken<'n>,
    all: &'n mut PartitionHosts,
    id: HostId,
}

/// Token of an endpoint of the borrowed host.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndpointToken<'n>(EndpointId, PhantomData<&'n ()>);

impl EndpointToken<'_> {
    pub(super) fn index(self) -> EndpointId {
        self.0
    }
}

impl<'n> BorrowedHost<'n> {
    /// Borrows the host that owns `port`.
    #[inline(always)]
    pub(crate) fn new(
        ports: BorrowedNodePorts<'n>,
        port: PortToken<'n>,
        all: &'n mut PartitionHosts,
    ) -> BorrowedHost<'n> {
        let SwitchOrHost::Host(id) = ports.owner_node().unpack() else { unreachable!("a switch is no host") };
        BorrowedHost { ports, port, all, id }
    }

    #[inline(always)]
    pub(super) fn host_id(&self) -> HostId {
        self.id
    }

    /// The node of this host in the topology.
    pub(super) fn node_id(&self, ctx: &Context) -> NodeId {
        ctx.plan.topology.host_of(ctx.plan.hosts[self.id.0 as usize])
    }

    /// [`PartitionHosts::prefetch_next_turns`] of this host.
    #[inline]
    pub(super) fn prefetch_next_turns(&self, class: u8, packets: &PacketPool) {
        self.all.prefetch_next_turns(self.id, class, packets);
    }

    #[inline(always)]
    pub(super) fn host_mut(&mut self) -> &mut Host {
        &mut self.all.hosts[self.id]
    }

    /// Another port of the same host.
    ///
    /// # Panics
    /// If it is one of another host.
    #[inline]
    pub(super) fn sibling_mut(&mut self, port: HostId) -> &mut Host {
        let is_sibling = self.all.first_port_of(port) == self.all.first_port_of(self.id);
        assert!(is_sibling, "a host was led to a port of another");
        &mut self.all.hosts[port]
    }

    /// Packets that the host has spread over its ports.
    pub(super) fn spread_packets_mut(&mut self) -> &mut u32 {
        let first = self.all.first_port_of(self.id);
        self.all.spread_packets.entry(first).or_default()
    }

    /// The receive buffer, if the host drains slowly.
    pub(super) fn slow_receiver_mut(&mut self) -> Option<&mut SlowReceiver> {
        let id = self.receiver_id();
        if self.all.receivers.is_empty() { None } else { self.all.receivers[id].as_deref_mut() }
    }

    /// The host whose receive buffer all its ports share.
    pub(super) fn receiver_id(&self) -> HostId {
        self.all.first_port_of(self.id)
    }

    /// Counts application bytes of a workload on their first arrival.
    #[inline(always)]
    pub(super) fn count_goodput(&mut self, workload: u16, bytes: u64, ctx: &Context) {
        self.all.throughput.add_goodput(workload, bytes, ctx.now());
    }

    /// The stack that it belongs to, if it is not simulated.
    pub(super) fn external_mut(&mut self) -> Option<&mut ExternalStackState> {
        self.all.external.as_deref_mut()
    }

    /// Picks VLANs, if each packet has its own.
    pub(super) fn vlan_picker(&mut self) -> Option<(&mut PerPacketVlanPicker, HostId)> {
        self.all.vlans.as_deref_mut().map(|draws| (draws, self.id))
    }
}

/// Endpoints.
impl<'n> BorrowedHost<'n> {
    /// The endpoint with an index, if it still exists.
    ///
    /// # Panics
    /// If it belongs to another host.
    #[inline(always)]
    pub(super) fn endpoint_at(&self, place: EndpointId) -> Option<EndpointToken<'n>> {
        let end = &self.all.ends[place];
        if end.is_free() {
            return None;
        }
        assert!(end.host == self.id, "a host was led to an endpoint of another");
        Some(EndpointToken(place, PhantomData))
    }

    /// The endpoint at an endpoint key, if it still exists.
    #[inline(always)]
    pub(super) fn find_endpoint(&self, endpoint_key: u32) -> Option<EndpointToken<'n>> {
        self.endpoint_at(self.all.find_endpoint_id(endpoint_key)?)
    }

    #[inline(always)]
    pub(super) fn endpoint_mut(&mut self, end: EndpointToken<'n>) -> &mut Endpoint {
        &mut self.all.ends[end.0]
    }

    /// Both at once.
    #[inline(always)]
    pub(super) fn endpoint_and_host(&mut self, end: EndpointToken<'n>) -> (&mut Endpoint, &mut Host) {
        (&mut self.all.ends[end.0], &mut self.all.hosts[self.id])
    }

    /// An endpoint, and the port that its next packet takes.
    #[inline(always)]
    pub(super) fn endpoint_and_port(
        &mut self,
        end: EndpointToken<'n>,
        way: WayOut,
    ) -> (&mut Endpoint, &mut Host) {
        (&mut self.all.ends[end.0], &mut self.all.hosts[way.host])
    }

    /// Adds an endpoint and registers its endpoint key.
    pub(super) fn add_endpoint(&mut self, end: Endpoint) -> EndpointToken<'n> {
        assert!(end.host == self.id, "an endpoint is opened at its host");
        let endpoint_key = end.key();
        let place = if let Some(place) = self.all.free_ends.pop() {
            self.all.ends[place] = end;
            place
        } else {
            self.all.ends.push(end)
        };
        self.all.register_key(endpoint_key, place);
        EndpointToken(place, PhantomData)
    }

    /// The port by which the endpoint at an endpoint key sends, if the endpoint exists.
    pub(super) fn endpoint_owner(&self, endpoint_key: u32) -> Option<HostId> {
        self.all.find_local_host(endpoint_key)
    }

    /// Takes an endpoint over from another port of this host.
    ///
    /// # Panics
    /// If it belongs to another host.
    pub(super) fn take_over(&mut self, endpoint_key: u32) -> Option<EndpointToken<'n>> {
        let place = self.all.find_endpoint_id(endpoint_key)?;
        let before = self.all.ends[place].host;
        let is_sibling = self.all.first_port_of(before) == self.all.first_port_of(self.id);
        assert!(is_sibling, "an endpoint moved to another host");
        self.all.ends[place].host = self.id;
        self.endpoint_at(place)
    }

    /// Another endpoint of this host, if it is open.
    ///
    /// # Panics
    /// If it belongs to another host.
    pub(super) fn own_endpoint_mut(&mut self, endpoint_key: u32) -> Option<&mut Endpoint> {
        let place = self.all.find_endpoint_id(endpoint_key)?;
        let end = &self.all.ends[place];
        if end.is_free() {
            return None;
        }
        let is_own = self.all.first_port_of(end.host) == self.all.first_port_of(self.id);
        assert!(is_own, "a host was led to an endpoint of another");
        Some(&mut self.all.ends[place])
    }

    /// Registers a further endpoint key of an endpoint.
    pub(super) fn register_key(&mut self, endpoint_key: u32, end: EndpointToken<'n>) {
        self.all.register_key(endpoint_key, end.0);
    }

    /// Removes an endpoint key from the index.
    pub(super) fn unregister_key(&mut self, endpoint_key: u32) {
        self.all.register_key(endpoint_key, EndpointId::NONE);
    }

    /// Removes the endpoint; its index stays reserved until [`Self::release_index`].
    pub(super) fn remove_endpoint(&mut self, end: EndpointToken<'n>) -> Endpoint {
        let state = self.endpoint_mut(end);
        let free = Endpoint::new(Protocol::Free, state.key(), state.host, state.nodes, state.nic_queue);
        std::mem::replace(state, free)
    }

    /// Frees the index of a removed endpoint that nothing refers to any more.
    pub(super) fn release_index(&mut self, place: EndpointId) {
        assert!(self.all.ends[place].is_free(), "the place of an endpoint that is open");
        self.all.free_ends.push(place);
    }

    /// Metrics cached from earlier connections to the same host.
    pub(super) fn cached_metrics(
        &self,
        to: NodeId,
        transport: u16,
        ctx: &Context,
    ) -> Option<&CachedTcpMetrics> {
        self.all.metrics.get(&(self.node_id(ctx), ctx.plan.topology.host_of(to), transport))
    }

    /// A connection, and the cache entry for its metrics.
    pub(super) fn connection_and_metrics(
        &mut self,
        end: EndpointToken<'n>,
        to: NodeId,
        transport: u16,
        ctx: &Context,
    ) -> (&TcpEnd, &mut CachedTcpMetrics) {
        let whose = (self.node_id(ctx), ctx.plan.topology.host_of(to), transport);
        let tcp = TcpEnd::of(&self.all.ends[end.0].protocol);
        (tcp, self.all.metrics.entry(whose).or_default())
    }

    pub(super) fn rdma_cards_mut(&mut self) -> &mut RdmaCards {
        &mut self.all.cards
    }
}

/// The limiters of QCN.
impl BorrowedHost<'_> {
    /// The rate limiter of a NIC queue, if a CNM has created one.
    #[inline(always)]
    pub(super) fn find_limiter_mut(
        &mut self,
        queue: NicQueueId,
    ) -> Option<(&mut QcnRateLimiter, &QcnSettings)> {
        let limiters = self.all.limiters.as_deref_mut()?;
        let number = self.all.hosts[self.id].limiter_of_queue(queue)?;
        let (limiter, settings) = limiters.limiter_and_settings(number);
        assert!(limiter.is_at_host(self.id), "a host was led to a limiter of another");
        Some((limiter, settings))
    }

    /// The rate limiter of a NIC queue, created if missing; `None` without QCN.
    pub(super) fn find_or_create_limiter(
        &mut self,
        queue: NicQueueId,
        line: BitRate,
        ctx: &Context,
    ) -> Option<(&mut QcnRateLimiter, &QcnSettings)> {
        let (limiters, host) = (self.all.limiters.as_deref_mut()?, &mut self.all.hosts[self.id]);
        let id = QcnRateLimiterId { host: self.id, nic_queue: queue };
        host.attach_limiter(queue, || limiters.add(id, line, ctx.now()));
        self.find_limiter_mut(queue)
    }
}
