//! Access of a host to its state while it handles an event: its one port (`wire/own.rs`) and its endpoints.
//!
//! Endpoints of all hosts of a partition share arenas. A host names its own ones by tokens. Only this file creates tokens, after checking the owner
//! in every build, and a token lives no longer than the borrow of the host.

use super::connection::TcpEndpoint;
use super::external::ExternalStackState;
use super::host::Host;
use super::limiter::QcnRateLimiter;
use super::queue_pair::QueuePairs;
use super::receiver::SlowReceiver;
use super::udp::{DatagramSink, DatagramSource};
use super::{PartitionHosts, vlan::PerPacketVlanPicker};
use crate::context::Context;
use crate::event::QcnRateLimiterId;
use crate::ids::{EndpointId, HostId, NicQueueId, SwitchOrHost};
use crate::settings::QcnSettings;
use crate::wire::own::{BorrowedNodePorts, PortToken};
use pauseframe_transport::CachedTcpMetrics;
use pauseframe_units::{BitRate, IndexVec, NodeId};
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

/// Token of a datagram source of the borrowed host.
#[derive(Clone, Copy, Debug)]
pub(super) struct DatagramSourceToken<'n>(EndpointId, PhantomData<&'n ()>);

impl EndpointToken<'_> {
    pub(super) fn endpoint_arena_index(self) -> EndpointId {
        self.0
    }
}

impl DatagramSourceToken<'_> {
    pub(super) fn endpoint_arena_index(self) -> EndpointId {
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
        let SwitchOrHost::Host(id) = ports.owner_node().unpack_node_id() else {
            unreachable!("a switch is no host")
        };
        BorrowedHost { ports, port, all, id }
    }

    #[inline(always)]
    pub(super) fn own_host_id(&self) -> HostId {
        self.id
    }

    /// The node of this host in the topology.
    pub(super) fn own_topology_node(&self, ctx: &Context) -> NodeId {
        ctx.plan.hosts[self.id.0 as usize]
    }

    #[inline(always)]
    pub(super) fn host_mut(&mut self) -> &mut Host {
        &mut self.all.hosts[self.id]
    }

    /// The receive buffer, if the host drains slowly.
    pub(super) fn slow_receiver_mut(&mut self) -> Option<&mut SlowReceiver> {
        let any = !self.all.receivers.is_empty();
        if any { self.all.receivers[self.id].as_deref_mut() } else { None }
    }

    /// Counts application bytes of a workload on their first arrival.
    #[inline(always)]
    pub(super) fn count_goodput(&mut self, workload: u16, bytes: u64, ctx: &Context) {
        self.all.throughput.add_goodput_bytes(workload, bytes, ctx.now());
    }

    /// The stack that it belongs to, if it is not simulated.
    pub(super) fn external_stack_state_mut(&mut self) -> Option<&mut ExternalStackState> {
        self.all.external.as_deref_mut()
    }

    /// Picks VLANs, if each packet has its own.
    pub(super) fn per_packet_vlan_picker(&mut self) -> Option<(&mut PerPacketVlanPicker, HostId)> {
        self.all.vlans.as_deref_mut().map(|draws| (draws, self.id))
    }
}

/// TCP endpoints.
impl<'n> BorrowedHost<'n> {
    /// The endpoint with an index, if it still exists.
    ///
    /// # Panics
    /// If it belongs to another host.
    #[inline(always)]
    pub(super) fn find_endpoint_by_index(&self, place: EndpointId) -> Option<EndpointToken<'n>> {
        let end = self.all.ends[place].as_ref()?;
        assert!(end.host == self.id, "a host was led to a connection end of another");
        Some(EndpointToken(place, PhantomData))
    }

    /// The endpoint at an endpoint key, if it still exists.
    #[inline(always)]
    pub(super) fn find_endpoint_by_key(&self, endpoint_key: u32) -> Option<EndpointToken<'n>> {
        self.find_endpoint_by_index(self.all.find_endpoint_index_by_key(endpoint_key)?)
    }

    #[inline(always)]
    pub(super) fn endpoint_mut(&mut self, end: EndpointToken<'n>) -> &mut TcpEndpoint {
        self.all.ends[end.0].as_mut().expect("the place of an open flow holds a connection end")
    }

    /// Both at once.
    #[inline(always)]
    pub(super) fn endpoint_and_host_mut(&mut self, end: EndpointToken<'n>) -> (&mut TcpEndpoint, &mut Host) {
        let state = self.all.ends[end.0].as_mut().expect("the place of an open flow holds a connection end");
        (state, &mut self.all.hosts[self.id])
    }

    /// Adds an endpoint and registers its endpoint key.
    pub(super) fn add_endpoint(&mut self, end: TcpEndpoint) -> EndpointToken<'n> {
        assert!(end.host == self.id, "a connection end is opened at its host");
        let endpoint_key = end.own_endpoint_key();
        let place = if let Some(place) = self.all.free_ends.pop() {
            self.all.ends[place] = Some(end);
            place
        } else {
            self.all.ends.push(Some(end))
        };
        self.all.register_endpoint_key_in_index(endpoint_key, place);
        EndpointToken(place, PhantomData)
    }

    /// Registers a further endpoint key of an endpoint.
    pub(super) fn register_endpoint_key(&mut self, endpoint_key: u32, end: EndpointToken<'n>) {
        self.all.register_endpoint_key_in_index(endpoint_key, end.0);
    }

    /// Removes an endpoint key from the index.
    pub(super) fn unregister_endpoint_key(&mut self, endpoint_key: u32) {
        self.all.register_endpoint_key_in_index(endpoint_key, EndpointId::NONE);
    }

    /// Removes the endpoint; its index stays reserved until [`Self::release_endpoint_index`].
    pub(super) fn remove_endpoint(&mut self, end: EndpointToken<'n>) -> Option<TcpEndpoint> {
        self.all.ends[end.0].take()
    }

    /// Frees the index of a removed endpoint that nothing refers to any more.
    pub(super) fn release_endpoint_index(&mut self, place: EndpointId) {
        assert!(self.all.ends[place].is_none(), "the place of an end that is open");
        self.all.free_ends.push(place);
    }

    /// Metrics cached from earlier connections to the same host.
    pub(super) fn find_cached_tcp_metrics(
        &self,
        to: NodeId,
        transport: u16,
        ctx: &Context,
    ) -> Option<&CachedTcpMetrics> {
        self.all.metrics.get(&(self.own_topology_node(ctx), to, transport))
    }

    /// An endpoint, and the cache entry for its metrics.
    pub(super) fn endpoint_and_cached_metrics_mut(
        &mut self,
        end: EndpointToken<'n>,
        to: NodeId,
        transport: u16,
        ctx: &Context,
    ) -> (&TcpEndpoint, &mut CachedTcpMetrics) {
        let whose = (self.own_topology_node(ctx), to, transport);
        let end = self.all.ends[end.0].as_ref().expect("the place of an open flow holds a connection end");
        (end, self.all.metrics.entry(whose).or_default())
    }
}

/// Flows of datagrams.
impl<'n> BorrowedHost<'n> {
    /// The datagram source with an index.
    ///
    /// # Panics
    /// If it belongs to another host.
    pub(super) fn datagram_source_by_index(&self, place: EndpointId) -> DatagramSourceToken<'n> {
        assert!(self.all.sources[place].host == self.id, "a host was led to a source of another");
        DatagramSourceToken(place, PhantomData)
    }

    /// The datagram source at an endpoint key, if it still exists.
    pub(super) fn find_datagram_source_by_key(&self, endpoint_key: u32) -> Option<DatagramSourceToken<'n>> {
        self.all.find_endpoint_index_by_key(endpoint_key).map(|place| self.datagram_source_by_index(place))
    }

    pub(super) fn datagram_source_mut(&mut self, source: DatagramSourceToken<'n>) -> &mut DatagramSource {
        &mut self.all.sources[source.0]
    }

    /// The datagram sink at an endpoint key, if it still exists.
    ///
    /// # Panics
    /// If it belongs to another host.
    pub(super) fn find_datagram_sink_by_key(&mut self, endpoint_key: u32) -> Option<&mut DatagramSink> {
        let place = self.all.find_endpoint_index_by_key(endpoint_key)?;
        let sink = &mut self.all.sinks[place];
        assert!(sink.host == self.id, "a host was led to a sink of another");
        Some(sink)
    }

    pub(super) fn add_datagram_source(&mut self, endpoint_key: u32, source: DatagramSource) {
        let PartitionHosts { sources, free_sources, .. } = self.all;
        let place = insert_at_free_index(source, sources, free_sources);
        self.all.register_endpoint_key_in_index(endpoint_key, place);
    }

    pub(super) fn add_datagram_sink(&mut self, endpoint_key: u32, sink: DatagramSink) {
        let PartitionHosts { sinks, free_sinks, .. } = self.all;
        let place = insert_at_free_index(sink, sinks, free_sinks);
        self.all.register_endpoint_key_in_index(endpoint_key, place);
    }

    /// Frees the index of the datagram source or sink at an endpoint key.
    pub(super) fn free_datagram_endpoint_index(&mut self, endpoint_key: u32) {
        let Some(place) = self.all.find_endpoint_index_by_key(endpoint_key) else { return };
        let free = if endpoint_key & 1 == 0 { &mut self.all.free_sources } else { &mut self.all.free_sinks };
        free.push(place);
        self.unregister_endpoint_key(endpoint_key);
    }
}

/// Queue pairs.
impl BorrowedHost<'_> {
    /// The queue pairs of all hosts of the partition. `queue_pair` checks the owner of each pair that it uses.
    pub(super) fn queue_pairs_mut(&mut self) -> &mut QueuePairs {
        &mut self.all.pairs
    }

    /// The same with this host.
    #[inline(always)]
    pub(super) fn queue_pairs_and_host(&mut self) -> (&mut QueuePairs, &mut Host) {
        (&mut self.all.pairs, &mut self.all.hosts[self.id])
    }
}

/// The limiters of QCN.
impl BorrowedHost<'_> {
    /// The rate limiter of a NIC queue, if a CNM has created one.
    #[inline(always)]
    pub(super) fn find_rate_limiter_mut(
        &mut self,
        queue: NicQueueId,
    ) -> Option<(&mut QcnRateLimiter, &QcnSettings)> {
        let limiters = self.all.limiters.as_deref_mut()?;
        let number = self.all.hosts[self.id].rate_limiter_of_nic_queue(queue)?;
        let (limiter, settings) = limiters.rate_limiter_and_settings_mut(number);
        assert!(limiter.limits_queue_of_host(self.id), "a host was led to a limiter of another");
        Some((limiter, settings))
    }

    /// The rate limiter of a NIC queue, created if missing; `None` without QCN.
    pub(super) fn find_or_create_rate_limiter(
        &mut self,
        queue: NicQueueId,
        line: BitRate,
        ctx: &Context,
    ) -> Option<(&mut QcnRateLimiter, &QcnSettings)> {
        let (limiters, host) = (self.all.limiters.as_deref_mut()?, &mut self.all.hosts[self.id]);
        let id = QcnRateLimiterId { host: self.id, nic_queue: queue };
        host.attach_rate_limiter(queue, || limiters.add_rate_limiter(id, line, ctx.now()));
        self.find_rate_limiter_mut(queue)
    }
}

/// Stores `item` at a free index, or at a new one.
fn insert_at_free_index<T>(
    item: T,
    places: &mut IndexVec<EndpointId, T>,
    free: &mut Vec<EndpointId>,
) -> EndpointId {
    if let Some(place) = free.pop() {
        places[place] = item;
        return place;
    }
    places.push(item)
}
