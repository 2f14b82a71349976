//! Hosts: stacks, NICs, endpoints of connections, sources and sinks of datagrams, and orders of applications.

mod connection;
mod external;
mod external_host;
mod host;
mod limiter;
mod messages;
pub(crate) mod node;
mod operations;
mod orders;
pub(crate) mod queue_pair;
mod reaction_point;
pub(crate) mod receiver;
pub(crate) mod throughput;
mod ticks;
#[cfg(any(trespass = "types", trespass = "borrows"))]
#[path = "../../tests/trespass/endpoint.rs"]
mod trespass;
pub(crate) mod udp;
mod vlan;

pub(crate) use self::connection::Endpoint;
pub(crate) use self::external::{External, HostPaths};

use self::host::{BlockedSocket, Host};
use self::limiter::RateLimiters;
use self::queue_pair::QueuePairs;
use self::receiver::SlowReceiver;
use self::throughput::ThroughputSeries;
use self::udp::{DatagramSink, DatagramSource};
use self::vlan::PerPacketVlanPicker;
use crate::ids::{EndpointId, HostId};
use crate::order::{EndpointCounters, EndpointOrder};
use crate::plan::Plan;
use crate::wire::Ports;
use pauseframe_engine::memory::{prefetch_first_line, prefetch_value};
use pauseframe_engine::random_stream;
use pauseframe_transport::CachedMetrics;
use pauseframe_units::{BitRate, IndexVec, NodeId, Time};
use std::collections::BTreeMap;

/// The hosts of a partition with all their state except their ports.
#[derive(Debug)]
pub(crate) struct Endpoints {
    pub(crate) hosts: IndexVec<HostId, Host>,
    /// Slow receivers; empty if no host drains slowly.
    pub(crate) receivers: IndexVec<HostId, Option<Box<SlowReceiver>>>,
    ends: IndexVec<EndpointId, Option<Endpoint>>,
    free_ends: Vec<EndpointId>,
    sources: IndexVec<EndpointId, DatagramSource>,
    free_sources: Vec<EndpointId>,
    sinks: IndexVec<EndpointId, DatagramSink>,
    free_sinks: Vec<EndpointId>,
    pub(crate) pairs: QueuePairs,
    /// By flow: indices of its two endpoints, as far as they are in this partition.
    places: Vec<[EndpointId; 2]>,
    /// The connection cache: source, destination, transport.
    metrics: BTreeMap<(NodeId, NodeId, u16), CachedMetrics>,
    pub(crate) limiters: Option<Box<RateLimiters>>,
    vlans: Option<Box<PerPacketVlanPicker>>,
    /// Pending orders to hosts, by time and address.
    orders: BTreeMap<(Time, u32), (HostId, Vec<EndpointOrder>)>,
    pub(crate) throughput: ThroughputSeries,
    /// The stack of hosts that are not simulated.
    pub(crate) external: Option<Box<External>>,
}

impl Endpoints {
    /// Idle hosts. `workloads` is the number of workloads.
    pub(crate) fn from_plan(plan: &Plan, workloads: usize) -> Endpoints {
        let (topology, settings) = (&plan.topology, &plan.settings);
        let host = |id: &NodeId| {
            let jitter = random_stream(settings.seed, "jitter", u64::from(id.0));
            Host::new(topology.nodes()[*id].ports[0], jitter)
        };
        Endpoints {
            hosts: plan.hosts.iter().map(host).collect(),
            receivers: SlowReceiver::for_hosts(plan),
            ends: IndexVec::new(),
            free_ends: Vec::new(),
            sources: IndexVec::new(),
            free_sources: Vec::new(),
            sinks: IndexVec::new(),
            free_sinks: Vec::new(),
            pairs: QueuePairs::default(),
            places: Vec::new(),
            metrics: BTreeMap::new(),
            limiters: RateLimiters::from_plan(plan).map(Box::new),
            vlans: PerPacketVlanPicker::from_plan(plan).map(Box::new),
            orders: BTreeMap::new(),
            throughput: ThroughputSeries::new(workloads),
            external: None,
        }
    }

    fn register_endpoint_index(&mut self, address: u32, place: EndpointId) {
        let (flow, side) = ((address / 2) as usize, (address & 1) as usize);
        if self.places.len() <= flow {
            self.places.resize(flow + 1, [EndpointId::NONE; 2]);
        }
        self.places[flow][side] = place;
    }

    /// Index of the endpoint at an address, if it exists in this partition.
    fn endpoint_index_at(&self, address: u32) -> Option<EndpointId> {
        self.places.get((address / 2) as usize)?[(address & 1) as usize].to_option()
    }

    /// Host of the endpoint at an address, if it exists in this partition.
    #[inline]
    pub(crate) fn host_of_endpoint(&self, address: u32) -> Option<HostId> {
        self.ends[self.endpoint_index_at(address)?].as_ref().map(|end| end.host)
    }

    /// The host of the source of a flow of datagrams.
    pub(crate) fn host_of_source(&self, flow: u32) -> Option<HostId> {
        Some(self.sources[self.endpoint_index_at(flow * 2)?].host)
    }

    /// Changes the path of an endpoint.
    pub(crate) fn set_path(&mut self, address: u32, row: u32) {
        self.pairs.take_path(address, row);
        if let Some(external) = &mut self.external {
            external.take_path(address, row);
        }
        let Some(place) = self.endpoint_index_at(address) else { return };
        if self.sources.get(place).is_some_and(|source| source.flow * 2 == address) {
            self.sources[place].route = row;
        }
        if self.ends.get(place).is_some()
            && let Some(end) = self.ends[place].as_mut().filter(|end| end.own_address() == address)
        {
            end.route = row;
        }
    }

    /// Maximum number of simultaneously open endpoints.
    pub(crate) fn max_open_endpoints(&self) -> usize {
        self.ends.len()
    }

    /// Passes the unreported counters of all endpoints to `take`.
    pub(crate) fn drain_counters(&mut self, now: Time, mut take: impl FnMut(EndpointCounters)) {
        self.ends.iter_mut().flatten().filter_map(Endpoint::take_counters).for_each(&mut take);
        self.sources.iter_mut().map(DatagramSource::take_counters).for_each(&mut take);
        self.sinks.iter_mut().map(DatagramSink::take_counters).for_each(&mut take);
        self.pairs.drain_counters(&mut take);
        if let Some(external) = &mut self.external {
            external.drain_counters(now, &mut take);
        }
    }

    /// The open endpoint of `flow` on `side` in this partition, for samples.
    pub(crate) fn find_open_endpoint(&self, flow: u32, side: usize) -> Option<&Endpoint> {
        let place = self.places.get(flow as usize)?[side];
        self.ends.get(place)?.as_ref()
    }

    /// Rate that QCN allows a host of this partition towards `destination` in a class; `None` without QCN.
    pub(crate) fn qcn_rate(
        &self,
        host: HostId,
        destination: NodeId,
        class: u8,
        ports: &Ports,
    ) -> Option<BitRate> {
        let limiters = self.limiters.as_ref()?;
        let limiter = self.hosts[host].existing_limiter(destination, class);
        let line = ports.ports[self.hosts[host].port].rate.rate();
        Some(limiter.map_or(line, |limiter| limiters.current_rate(limiter)))
    }
}

/// Prefetches for upcoming events (`prefetch/`).
impl Endpoints {
    #[inline(always)]
    pub(crate) fn prefetch_host(&self, host: HostId) {
        prefetch_value(self.hosts.get(host));
    }

    #[inline(always)]
    pub(crate) fn prefetch_endpoint_index(&self, address: u32) {
        prefetch_first_line(self.places.get(address as usize / 2));
        self.pairs.prefetch_index(address);
    }

    /// Prefetches the connection or the queue pair at an address.
    #[inline(always)]
    pub(crate) fn prefetch_endpoint(&self, address: u32) {
        prefetch_value(self.endpoint_index_at(address).and_then(|place| self.ends.get(place)));
        self.pairs.prefetch_end(address);
    }

    #[inline(always)]
    pub(crate) fn prefetch_oldest_in_flight(&self, address: u32) {
        let end =
            self.endpoint_index_at(address).and_then(|place| self.ends.get(place)).and_then(Option::as_ref);
        prefetch_first_line(end.and_then(|end| end.connection.oldest_in_flight()));
        self.pairs.prefetch_oldest_in_flight(address);
    }

    /// Prefetches the first endpoint that waits for NIC buffer space.
    #[inline(always)]
    pub(crate) fn prefetch_first_blocked_endpoint(&self, host: HostId) {
        if let Some(BlockedSocket::Connection(place)) =
            self.hosts.get(host).and_then(Host::first_blocked_socket)
        {
            prefetch_value(self.ends.get(place));
        }
    }
}
