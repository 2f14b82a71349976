//! Hosts: their stacks and NICs, the ends of connections, sources and sinks of datagrams, and what their applications do.

mod connection;
mod external;
mod host;
mod limiter;
mod messages;
pub(crate) mod node;
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

use self::host::{Host, Socket};
use self::limiter::Limiters;
use self::queue_pair::QueuePairs;
use self::receiver::Receiver;
use self::throughput::Throughput;
use self::udp::{Sink, Source};
use self::vlan::VlanDraws;
use crate::ids::{EndpointId, HostId};
use crate::order::{EndpointCounters, Order};
use crate::plan::Plan;
use crate::wire::Ports;
use pauseframe_engine::memory::{prefetch_all, prefetch_line};
use pauseframe_engine::stream;
use pauseframe_transport::Metrics;
use pauseframe_units::{BitRate, IndexVec, NodeId, Time};
use std::collections::BTreeMap;

/// The hosts of a partition, and what is theirs beside their ports.
#[derive(Debug)]
pub(crate) struct Endpoints {
    pub(crate) hosts: IndexVec<HostId, Host>,
    /// Where any drains slowly.
    pub(crate) receivers: IndexVec<HostId, Option<Box<Receiver>>>,
    ends: IndexVec<EndpointId, Option<Endpoint>>,
    free_ends: Vec<EndpointId>,
    sources: IndexVec<EndpointId, Source>,
    free_sources: Vec<EndpointId>,
    sinks: IndexVec<EndpointId, Sink>,
    free_sinks: Vec<EndpointId>,
    pub(crate) pairs: QueuePairs,
    /// By flow: the places of those of its two ends that are here.
    places: Vec<[EndpointId; 2]>,
    /// The connection cache: source, destination, transport.
    metrics: BTreeMap<(NodeId, NodeId, u16), Metrics>,
    pub(crate) limiters: Option<Box<Limiters>>,
    vlans: Option<Box<VlanDraws>>,
    /// What the hosts are to do, by time and address.
    orders: BTreeMap<(Time, u32), (HostId, Vec<Order>)>,
    pub(crate) throughput: Throughput,
    /// The stack to which hosts belong that are not simulated.
    pub(crate) external: Option<Box<External>>,
}

impl Endpoints {
    /// Idle hosts; `workloads`: how many there are.
    pub(crate) fn of(plan: &Plan, workloads: usize) -> Endpoints {
        let (topology, settings) = (&plan.topology, &plan.settings);
        let host = |id: &NodeId| {
            let jitter = stream(settings.seed, "jitter", u64::from(id.0));
            Host::new(topology.nodes()[*id].ports[0], jitter)
        };
        Endpoints {
            hosts: plan.hosts.iter().map(host).collect(),
            receivers: Receiver::of_hosts(plan),
            ends: IndexVec::new(),
            free_ends: Vec::new(),
            sources: IndexVec::new(),
            free_sources: Vec::new(),
            sinks: IndexVec::new(),
            free_sinks: Vec::new(),
            pairs: QueuePairs::default(),
            places: Vec::new(),
            metrics: BTreeMap::new(),
            limiters: Limiters::of(plan).map(Box::new),
            vlans: VlanDraws::of(plan).map(Box::new),
            orders: BTreeMap::new(),
            throughput: Throughput::new(workloads),
            external: None,
        }
    }

    fn record_index(&mut self, address: u32, place: EndpointId) {
        let (flow, side) = ((address / 2) as usize, (address & 1) as usize);
        if self.places.len() <= flow {
            self.places.resize(flow + 1, [EndpointId::NONE; 2]);
        }
        self.places[flow][side] = place;
    }

    /// The place of the end at an address, if it is here and has not gone.
    fn index_at(&self, address: u32) -> Option<EndpointId> {
        self.places.get((address / 2) as usize)?[(address & 1) as usize].known()
    }

    /// The host of the connection end at an address, if it is here and has not gone.
    #[inline]
    pub(crate) fn host_of_endpoint(&self, address: u32) -> Option<HostId> {
        self.ends[self.index_at(address)?].as_ref().map(|end| end.host)
    }

    /// The host of the source of a flow of datagrams.
    pub(crate) fn host_of_source(&self, flow: u32) -> Option<HostId> {
        Some(self.sources[self.index_at(flow * 2)?].host)
    }

    /// An end takes another path.
    pub(crate) fn take_path(&mut self, address: u32, row: u32) {
        self.pairs.take_path(address, row);
        if let Some(external) = &mut self.external {
            external.take_path(address, row);
        }
        let Some(place) = self.index_at(address) else { return };
        if self.sources.get(place).is_some_and(|source| source.flow * 2 == address) {
            self.sources[place].route = row;
        }
        if self.ends.get(place).is_some()
            && let Some(end) = self.ends[place].as_mut().filter(|end| end.address() == address)
        {
            end.route = row;
        }
    }

    /// The most connection ends that were open together.
    pub(crate) fn most_ends(&self) -> usize {
        self.ends.len()
    }

    /// What all ends have counted that they have not told.
    pub(crate) fn drain_counters(&mut self, now: Time, mut take: impl FnMut(EndpointCounters)) {
        self.ends.iter_mut().flatten().filter_map(Endpoint::take_counters).for_each(&mut take);
        self.sources.iter_mut().map(Source::take_counters).for_each(&mut take);
        self.sinks.iter_mut().map(Sink::take_counters).for_each(&mut take);
        self.pairs.drain_counters(&mut take);
        if let Some(external) = &mut self.external {
            external.drain_counters(now, &mut take);
        }
    }

    /// The end of `flow` on this `side`, if it is open here, for samples.
    pub(crate) fn known_endpoint(&self, flow: u32, side: usize) -> Option<&Endpoint> {
        let place = self.places.get(flow as usize)?[side];
        self.ends.get(place)?.as_ref()
    }

    /// The rate that QCN allows what a host of this partition sends to `destination` in a class; `None` without QCN.
    pub(crate) fn limited_rate(
        &self,
        host: HostId,
        destination: NodeId,
        class: u8,
        ports: &Ports,
    ) -> Option<BitRate> {
        let limiters = self.limiters.as_ref()?;
        let limiter = self.hosts[host].known_limiter(destination, class);
        let line = ports.ports[self.hosts[host].port].rate.rate();
        Some(limiter.map_or(line, |limiter| limiters.current_rate(limiter)))
    }
}

/// What comes soon is brought near (`prefetch/`).
impl Endpoints {
    #[inline(always)]
    pub(crate) fn prefetch_host(&self, host: HostId) {
        prefetch_all(self.hosts.get(host));
    }

    #[inline(always)]
    pub(crate) fn prefetch_index_entry(&self, address: u32) {
        prefetch_line(self.places.get(address as usize / 2));
    }

    #[inline(always)]
    pub(crate) fn prefetch_endpoint(&self, address: u32) {
        prefetch_all(self.index_at(address).and_then(|place| self.ends.get(place)));
    }

    #[inline(always)]
    pub(crate) fn prefetch_oldest_segment(&self, address: u32) {
        let end = self.index_at(address).and_then(|place| self.ends.get(place)).and_then(Option::as_ref);
        prefetch_line(end.and_then(|end| end.connection.first_in_flight()));
    }

    /// The connection end that is the first to get room in the NIC.
    #[inline(always)]
    pub(crate) fn prefetch_first_waiting(&self, host: HostId) {
        if let Some(Socket::Connection(place)) = self.hosts.get(host).and_then(Host::first_in_line) {
            prefetch_all(self.ends.get(place));
        }
    }
}
