//! What a host has in hand while it handles an event: its one port (`wire/own.rs`), and what is its own beside it.
//!
//! Connection ends, and the ends of flows of datagrams, of all hosts of a partition lie in the same arenas: a host has a token for each of its
//! own, made here alone after a look at whose it is, in every build, which lives no longer than the borrow of the host.

use super::connection::Endpoint;
use super::external::External;
use super::host::Host;
use super::limiter::Limiter;
use super::queue_pair::QueuePairs;
use super::receiver::Receiver;
use super::udp::{Sink, Source};
use super::{Endpoints, vlan::VlanDraws};
use crate::context::Context;
use crate::event::LimiterId;
use crate::ids::{EndpointId, HostId, NicQueueId, Node};
use crate::settings::QcnSettings;
use crate::wire::own::{NodePorts, OwnPort};
use pauseframe_transport::Metrics;
use pauseframe_units::{BitRate, IndexVec, NodeId};
use std::marker::PhantomData;

/// One host of a partition.
#[derive(Debug)]
pub(crate) struct HostNode<'n> {
    pub(super) ports: NodePorts<'n>,
    /// The only one.
    pub(super) port: OwnPort<'n>,
    all: &'n mut Endpoints,
    id: HostId,
}

/// A connection end of the host in hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnEndpoint<'n>(EndpointId, PhantomData<&'n ()>);

/// A source of datagrams of the host in hand.
#[derive(Clone, Copy, Debug)]
pub(super) struct OwnSource<'n>(EndpointId, PhantomData<&'n ()>);

impl OwnEndpoint<'_> {
    pub(super) fn place(self) -> EndpointId {
        self.0
    }
}

impl OwnSource<'_> {
    pub(super) fn place(self) -> EndpointId {
        self.0
    }
}

impl<'n> HostNode<'n> {
    /// The host whose port this is, among those of its partition.
    #[inline(always)]
    pub(crate) fn of(ports: NodePorts<'n>, port: OwnPort<'n>, all: &'n mut Endpoints) -> HostNode<'n> {
        let Node::Host(id) = ports.node().node() else { unreachable!("a switch is no host") };
        HostNode { ports, port, all, id }
    }

    #[inline(always)]
    pub(super) fn id(&self) -> HostId {
        self.id
    }

    /// Its name in the topology.
    pub(super) fn node(&self, ctx: &Context) -> NodeId {
        ctx.plan.hosts[self.id.0 as usize]
    }

    #[inline(always)]
    pub(super) fn host(&mut self) -> &mut Host {
        &mut self.all.hosts[self.id]
    }

    /// What it drains slowly, if it does.
    pub(super) fn receiver(&mut self) -> Option<&mut Receiver> {
        let any = !self.all.receivers.is_empty();
        if any { self.all.receivers[self.id].as_deref_mut() } else { None }
    }

    /// Bytes for an application of a workload have come for the first time.
    #[inline(always)]
    pub(super) fn count_received(&mut self, workload: u16, bytes: u64, ctx: &Context) {
        self.all.throughput.add(workload, bytes, ctx.now());
    }

    /// The stack that it belongs to, if it is not simulated.
    pub(super) fn external(&mut self) -> Option<&mut External> {
        self.all.external.as_deref_mut()
    }

    /// The draws of its VLANs, where each packet has its own.
    pub(super) fn vlan_draws(&mut self) -> Option<(&mut VlanDraws, HostId)> {
        self.all.vlans.as_deref_mut().map(|draws| (draws, self.id))
    }
}

/// Connection ends.
impl<'n> HostNode<'n> {
    /// The end at a place, if there is still one.
    ///
    /// # Panics
    /// If it is another host's.
    #[inline(always)]
    pub(super) fn endpoint_in(&self, place: EndpointId) -> Option<OwnEndpoint<'n>> {
        let end = self.all.ends[place].as_ref()?;
        assert!(end.host == self.id, "a host was led to a connection end of another");
        Some(OwnEndpoint(place, PhantomData))
    }

    /// The end at an address, if it has not gone.
    #[inline(always)]
    pub(super) fn endpoint_at(&self, address: u32) -> Option<OwnEndpoint<'n>> {
        self.endpoint_in(self.all.index_at(address)?)
    }

    #[inline(always)]
    pub(super) fn end(&mut self, end: OwnEndpoint<'n>) -> &mut Endpoint {
        self.all.ends[end.0].as_mut().expect("the place of an open flow holds a connection end")
    }

    /// Both at once.
    #[inline(always)]
    pub(super) fn endpoint_and_host(&mut self, end: OwnEndpoint<'n>) -> (&mut Endpoint, &mut Host) {
        let state = self.all.ends[end.0].as_mut().expect("the place of an open flow holds a connection end");
        (state, &mut self.all.hosts[self.id])
    }

    /// An end of this host comes to be at an address.
    pub(super) fn add_endpoint(&mut self, end: Endpoint) -> OwnEndpoint<'n> {
        assert!(end.host == self.id, "a connection end is opened at its host");
        let address = end.address();
        let place = if let Some(place) = self.all.free_ends.pop() {
            self.all.ends[place] = Some(end);
            place
        } else {
            self.all.ends.push(Some(end))
        };
        self.all.record_index(address, place);
        OwnEndpoint(place, PhantomData)
    }

    /// It is found at another address too.
    pub(super) fn list_endpoint(&mut self, address: u32, end: OwnEndpoint<'n>) {
        self.all.record_index(address, end.0);
    }

    /// Nothing of this host is found at an address any more.
    pub(super) fn unlist(&mut self, address: u32) {
        self.all.record_index(address, EndpointId::NONE);
    }

    /// It is no more. Its place is nobody's until it is given back.
    pub(super) fn take_endpoint(&mut self, end: OwnEndpoint<'n>) -> Option<Endpoint> {
        self.all.ends[end.0].take()
    }

    /// A place in which there is no end any more, and which nothing names.
    pub(super) fn release_index(&mut self, place: EndpointId) {
        assert!(self.all.ends[place].is_none(), "the place of an end that is open");
        self.all.free_ends.push(place);
    }

    /// What connections of this host to another have learnt before.
    pub(super) fn metrics(&self, to: NodeId, transport: u16, ctx: &Context) -> Option<&Metrics> {
        self.all.metrics.get(&(self.node(ctx), to, transport))
    }

    /// An end, and where what it has learnt is kept.
    pub(super) fn endpoint_and_metrics(
        &mut self,
        end: OwnEndpoint<'n>,
        to: NodeId,
        transport: u16,
        ctx: &Context,
    ) -> (&Endpoint, &mut Metrics) {
        let whose = (self.node(ctx), to, transport);
        let end = self.all.ends[end.0].as_ref().expect("the place of an open flow holds a connection end");
        (end, self.all.metrics.entry(whose).or_default())
    }
}

/// Flows of datagrams.
impl<'n> HostNode<'n> {
    /// The source at a place.
    ///
    /// # Panics
    /// If it is another host's.
    pub(super) fn source_in(&self, place: EndpointId) -> OwnSource<'n> {
        assert!(self.all.sources[place].host == self.id, "a host was led to a source of another");
        OwnSource(place, PhantomData)
    }

    /// The source at an address, if it has not gone.
    pub(super) fn source_at(&self, address: u32) -> Option<OwnSource<'n>> {
        self.all.index_at(address).map(|place| self.source_in(place))
    }

    pub(super) fn source(&mut self, source: OwnSource<'n>) -> &mut Source {
        &mut self.all.sources[source.0]
    }

    /// The sink at an address, if it has not gone.
    ///
    /// # Panics
    /// If it is another host's.
    pub(super) fn sink_at(&mut self, address: u32) -> Option<&mut Sink> {
        let place = self.all.index_at(address)?;
        let sink = &mut self.all.sinks[place];
        assert!(sink.host == self.id, "a host was led to a sink of another");
        Some(sink)
    }

    pub(super) fn add_source(&mut self, address: u32, source: Source) {
        let Endpoints { sources, free_sources, .. } = self.all;
        let place = put(source, sources, free_sources);
        self.all.record_index(address, place);
    }

    pub(super) fn add_sink(&mut self, address: u32, sink: Sink) {
        let Endpoints { sinks, free_sinks, .. } = self.all;
        let place = put(sink, sinks, free_sinks);
        self.all.record_index(address, place);
    }

    /// The place of the source or the sink at an address is free again.
    pub(super) fn free_datagrams_at(&mut self, address: u32) {
        let Some(place) = self.all.index_at(address) else { return };
        let free = if address & 1 == 0 { &mut self.all.free_sources } else { &mut self.all.free_sinks };
        free.push(place);
        self.unlist(address);
    }
}

/// Queue pairs.
impl HostNode<'_> {
    /// Those of all hosts of the partition: `queue_pair.rs` takes no pair of another host.
    pub(super) fn pairs(&mut self) -> &mut QueuePairs {
        &mut self.all.pairs
    }
}

/// The limiters of QCN.
impl HostNode<'_> {
    /// The limiter of a NIC queue, if a CNM has made one.
    #[inline(always)]
    pub(super) fn limiter(&mut self, queue: NicQueueId) -> Option<(&mut Limiter, &QcnSettings)> {
        let limiters = self.all.limiters.as_deref_mut()?;
        let number = self.all.hosts[self.id].limiter_of(queue)?;
        let (limiter, settings) = limiters.get(number);
        assert!(limiter.is_of(self.id), "a host was led to a limiter of another");
        Some((limiter, settings))
    }

    /// The same, made if there is none; nothing without QCN.
    pub(super) fn limiter_for(
        &mut self,
        queue: NicQueueId,
        line: BitRate,
        ctx: &Context,
    ) -> Option<(&mut Limiter, &QcnSettings)> {
        let (limiters, host) = (self.all.limiters.as_deref_mut()?, &mut self.all.hosts[self.id]);
        let id = LimiterId { host: self.id, nic_queue: queue };
        host.limit(queue, || limiters.add(id, line, ctx.now()));
        self.limiter(queue)
    }
}

/// Puts `item` in a place, a free one if there is any.
fn put<T>(item: T, places: &mut IndexVec<EndpointId, T>, free: &mut Vec<EndpointId>) -> EndpointId {
    if let Some(place) = free.pop() {
        places[place] = item;
        return place;
    }
    places.push(item)
}
