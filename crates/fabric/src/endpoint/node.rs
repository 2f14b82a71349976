//! Access of a host to its state while it handles an event: its one port (`wire/own.rs`) and its endpoints.
//!
//! Endpoints of all hosts of a partition share arenas. A host names its own ones by tokens. Only this file creates tokens, after checking the owner
//! in every build, and a token lives no longer than the borrow of the host.

use super::connection::Endpoint;
use super::external::External;
use super::host::Host;
use super::limiter::RateLimiter;
use super::queue_pair::QueuePairs;
use super::receiver::SlowReceiver;
use super::udp::{DatagramSink, DatagramSource};
use super::{Endpoints, vlan::PerPacketVlanPicker};
use crate::context::Context;
use crate::event::LimiterId;
use crate::ids::{EndpointId, HostId, NicQueueId, SwitchOrHost};
use crate::settings::QcnSettings;
use crate::wire::own::{NodePorts, OwnPort};
use pauseframe_transport::CachedMetrics;
use pauseframe_units::{BitRate, IndexVec, NodeId};
use std::marker::PhantomData;

/// The borrow of one host of a partition.
#[derive(Debug)]
pub(crate) struct HostNode<'n> {
    pub(super) ports: NodePorts<'n>,
    /// The only one.
    pub(super) port: OwnPort<'n>,
    all: &'n mut Endpoints,
    id: HostId,
}

/// Token of an endpoint of the borrowed host.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnEndpoint<'n>(EndpointId, PhantomData<&'n ()>);

/// Token of a datagram source of the borrowed host.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnDatagramSource<'n>(EndpointId, PhantomData<&'n ()>);

impl OwnEndpoint<'_> {
    pub(super) fn arena_index(self) -> EndpointId {
        self.0
    }
}

impl OwnDatagramSource<'_> {
    pub(super) fn arena_index(self) -> EndpointId {
        self.0
    }
}

impl<'n> HostNode<'n> {
    /// Borrows the host that owns `port`.
    #[inline(always)]
    pub(crate) fn new(ports: NodePorts<'n>, port: OwnPort<'n>, all: &'n mut Endpoints) -> HostNode<'n> {
        let SwitchOrHost::Host(id) = ports.node().unpack() else { unreachable!("a switch is no host") };
        HostNode { ports, port, all, id }
    }

    #[inline(always)]
    pub(super) fn id(&self) -> HostId {
        self.id
    }

    /// The node of this host in the topology.
    pub(super) fn topology_node(&self, ctx: &Context) -> NodeId {
        ctx.plan.hosts[self.id.0 as usize]
    }

    #[inline(always)]
    pub(super) fn host(&mut self) -> &mut Host {
        &mut self.all.hosts[self.id]
    }

    /// The receive buffer, if the host drains slowly.
    pub(super) fn receiver(&mut self) -> Option<&mut SlowReceiver> {
        let any = !self.all.receivers.is_empty();
        if any { self.all.receivers[self.id].as_deref_mut() } else { None }
    }

    /// Counts application bytes of a workload on their first arrival.
    #[inline(always)]
    pub(super) fn count_received(&mut self, workload: u16, bytes: u64, ctx: &Context) {
        self.all.throughput.add_bytes(workload, bytes, ctx.now());
    }

    /// The stack that it belongs to, if it is not simulated.
    pub(super) fn external(&mut self) -> Option<&mut External> {
        self.all.external.as_deref_mut()
    }

    /// Picks VLANs, if each packet has its own.
    pub(super) fn vlan_picker(&mut self) -> Option<(&mut PerPacketVlanPicker, HostId)> {
        self.all.vlans.as_deref_mut().map(|draws| (draws, self.id))
    }
}

/// TCP endpoints.
impl<'n> HostNode<'n> {
    /// The endpoint with an index, if it still exists.
    ///
    /// # Panics
    /// If it belongs to another host.
    #[inline(always)]
    pub(super) fn endpoint_by_index(&self, place: EndpointId) -> Option<OwnEndpoint<'n>> {
        let end = self.all.ends[place].as_ref()?;
        assert!(end.host == self.id, "a host was led to a connection end of another");
        Some(OwnEndpoint(place, PhantomData))
    }

    /// The endpoint at an address, if it still exists.
    #[inline(always)]
    pub(super) fn endpoint_at(&self, address: u32) -> Option<OwnEndpoint<'n>> {
        self.endpoint_by_index(self.all.endpoint_index_at(address)?)
    }

    #[inline(always)]
    pub(super) fn endpoint_mut(&mut self, end: OwnEndpoint<'n>) -> &mut Endpoint {
        self.all.ends[end.0].as_mut().expect("the place of an open flow holds a connection end")
    }

    /// Both at once.
    #[inline(always)]
    pub(super) fn endpoint_and_host(&mut self, end: OwnEndpoint<'n>) -> (&mut Endpoint, &mut Host) {
        let state = self.all.ends[end.0].as_mut().expect("the place of an open flow holds a connection end");
        (state, &mut self.all.hosts[self.id])
    }

    /// Adds an endpoint and registers its address.
    pub(super) fn add_endpoint(&mut self, end: Endpoint) -> OwnEndpoint<'n> {
        assert!(end.host == self.id, "a connection end is opened at its host");
        let address = end.own_address();
        let place = if let Some(place) = self.all.free_ends.pop() {
            self.all.ends[place] = Some(end);
            place
        } else {
            self.all.ends.push(Some(end))
        };
        self.all.register_endpoint_index(address, place);
        OwnEndpoint(place, PhantomData)
    }

    /// Registers a further address of an endpoint.
    pub(super) fn register_address(&mut self, address: u32, end: OwnEndpoint<'n>) {
        self.all.register_endpoint_index(address, end.0);
    }

    /// Removes an address from the index.
    pub(super) fn unregister_address(&mut self, address: u32) {
        self.all.register_endpoint_index(address, EndpointId::NONE);
    }

    /// Removes the endpoint; its index stays reserved until [`Self::release_index`].
    pub(super) fn remove_endpoint(&mut self, end: OwnEndpoint<'n>) -> Option<Endpoint> {
        self.all.ends[end.0].take()
    }

    /// Frees the index of a removed endpoint that nothing refers to any more.
    pub(super) fn release_index(&mut self, place: EndpointId) {
        assert!(self.all.ends[place].is_none(), "the place of an end that is open");
        self.all.free_ends.push(place);
    }

    /// Metrics cached from earlier connections to the same host.
    pub(super) fn cached_metrics(&self, to: NodeId, transport: u16, ctx: &Context) -> Option<&CachedMetrics> {
        self.all.metrics.get(&(self.topology_node(ctx), to, transport))
    }

    /// An endpoint, and the cache entry for its metrics.
    pub(super) fn endpoint_and_metrics_cache(
        &mut self,
        end: OwnEndpoint<'n>,
        to: NodeId,
        transport: u16,
        ctx: &Context,
    ) -> (&Endpoint, &mut CachedMetrics) {
        let whose = (self.topology_node(ctx), to, transport);
        let end = self.all.ends[end.0].as_ref().expect("the place of an open flow holds a connection end");
        (end, self.all.metrics.entry(whose).or_default())
    }
}

/// Flows of datagrams.
impl<'n> HostNode<'n> {
    /// The datagram source with an index.
    ///
    /// # Panics
    /// If it belongs to another host.
    pub(super) fn source_by_index(&self, place: EndpointId) -> OwnDatagramSource<'n> {
        assert!(self.all.sources[place].host == self.id, "a host was led to a source of another");
        OwnDatagramSource(place, PhantomData)
    }

    /// The datagram source at an address, if it still exists.
    pub(super) fn source_at(&self, address: u32) -> Option<OwnDatagramSource<'n>> {
        self.all.endpoint_index_at(address).map(|place| self.source_by_index(place))
    }

    pub(super) fn source_mut(&mut self, source: OwnDatagramSource<'n>) -> &mut DatagramSource {
        &mut self.all.sources[source.0]
    }

    /// The datagram sink at an address, if it still exists.
    ///
    /// # Panics
    /// If it belongs to another host.
    pub(super) fn sink_at(&mut self, address: u32) -> Option<&mut DatagramSink> {
        let place = self.all.endpoint_index_at(address)?;
        let sink = &mut self.all.sinks[place];
        assert!(sink.host == self.id, "a host was led to a sink of another");
        Some(sink)
    }

    pub(super) fn add_source(&mut self, address: u32, source: DatagramSource) {
        let Endpoints { sources, free_sources, .. } = self.all;
        let place = insert_at_free_index(source, sources, free_sources);
        self.all.register_endpoint_index(address, place);
    }

    pub(super) fn add_sink(&mut self, address: u32, sink: DatagramSink) {
        let Endpoints { sinks, free_sinks, .. } = self.all;
        let place = insert_at_free_index(sink, sinks, free_sinks);
        self.all.register_endpoint_index(address, place);
    }

    /// Frees the index of the datagram source or sink at an address.
    pub(super) fn free_datagram_index(&mut self, address: u32) {
        let Some(place) = self.all.endpoint_index_at(address) else { return };
        let free = if address & 1 == 0 { &mut self.all.free_sources } else { &mut self.all.free_sinks };
        free.push(place);
        self.unregister_address(address);
    }
}

/// Queue pairs.
impl HostNode<'_> {
    /// The queue pairs of all hosts of the partition. `queue_pair` checks the owner of each pair that it uses.
    pub(super) fn queue_pairs(&mut self) -> &mut QueuePairs {
        &mut self.all.pairs
    }

    /// The same with this host.
    #[inline(always)]
    pub(super) fn queue_pairs_and_host(&mut self) -> (&mut QueuePairs, &mut Host) {
        (&mut self.all.pairs, &mut self.all.hosts[self.id])
    }
}

/// The limiters of QCN.
impl HostNode<'_> {
    /// The rate limiter of a NIC queue, if a CNM has created one.
    #[inline(always)]
    pub(super) fn limiter(&mut self, queue: NicQueueId) -> Option<(&mut RateLimiter, &QcnSettings)> {
        let limiters = self.all.limiters.as_deref_mut()?;
        let number = self.all.hosts[self.id].limiter_of_queue(queue)?;
        let (limiter, settings) = limiters.limiter_and_settings(number);
        assert!(limiter.belongs_to_host(self.id), "a host was led to a limiter of another");
        Some((limiter, settings))
    }

    /// The rate limiter of a NIC queue, created if missing; `None` without QCN.
    pub(super) fn limiter_or_new(
        &mut self,
        queue: NicQueueId,
        line: BitRate,
        ctx: &Context,
    ) -> Option<(&mut RateLimiter, &QcnSettings)> {
        let (limiters, host) = (self.all.limiters.as_deref_mut()?, &mut self.all.hosts[self.id]);
        let id = LimiterId { host: self.id, nic_queue: queue };
        host.attach_limiter(queue, || limiters.add_limiter(id, line, ctx.now()));
        self.limiter(queue)
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
