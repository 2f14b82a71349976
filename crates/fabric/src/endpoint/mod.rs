//! Hosts: stacks, NICs, endpoints of connections, sources and sinks of datagrams, and orders of applications.

mod external;
mod external_host;
mod host;
mod life;
mod limiter;
mod messages;
mod multipath;
mod nic_limits;
pub(crate) mod node;
mod operations;
mod orders;
mod qdisc;
mod queue_pair;
mod reaction_point;
pub(crate) mod receiver;
mod several_ports;
pub(crate) mod state;
mod tcp;
mod ticks;
#[cfg(any(trespass = "types", trespass = "borrows"))]
#[path = "../../tests/trespass/endpoint.rs"]
mod trespass;
mod udp;
mod vlan;

pub(crate) use self::external::{ExternalStackState, HostPairPaths};
pub(crate) use self::state::Endpoint;

use self::host::{BlockedSocket, Host};
use self::limiter::QcnRateLimiters;
use self::nic_limits::NicLimits;
use self::queue_pair::RdmaCards;
use self::receiver::SlowReceiver;
use self::state::Protocol;
use self::vlan::PerPacketVlanPicker;
use crate::frame::PacketPool;
use crate::ids::{EndpointId, HostId};
use crate::order::{EndpointCounters, EndpointOrder};
use crate::plan::NetworkPlan;
use crate::records::FIRST_PART;
use crate::throughput::ThroughputSeries;
use crate::wire::PartitionPorts;
use pauseframe_engine::memory::{prefetch_all_lines, prefetch_bytes, prefetch_first_line};
use pauseframe_engine::random_stream;
use pauseframe_rdma::IdleState;
use pauseframe_transport::CachedTcpMetrics;
use pauseframe_units::{BitRate, IndexVec, NodeId, Span, Time};
use std::collections::BTreeMap;

/// The hosts of a partition with all their state except their ports.
#[derive(Debug)]
pub(crate) struct PartitionHosts {
    /// Ports of hosts; a host with several is several of these.
    pub(crate) hosts: IndexVec<HostId, Host>,
    first_ports: IndexVec<HostId, HostId>,
    /// By first port of a host: packets that it has spread over its ports.
    spread_packets: BTreeMap<HostId, u32>,
    /// Slow receivers; empty if no host drains slowly.
    pub(crate) receivers: IndexVec<HostId, Option<Box<SlowReceiver>>>,
    ends: IndexVec<EndpointId, Endpoint>,
    free_ends: Vec<EndpointId>,
    pub(crate) cards: RdmaCards,
    /// By flow: indices of its two endpoints, as far as they are in this partition.
    places: Vec<[EndpointId; 2]>,
    /// The same of the queue pairs of flows with several.
    places_of_parts: Vec<[EndpointId; 2]>,
    /// The connection cache: source, destination, transport.
    metrics: BTreeMap<(NodeId, NodeId, u16), CachedTcpMetrics>,
    pub(crate) limiters: Option<Box<QcnRateLimiters>>,
    vlans: Option<Box<PerPacketVlanPicker>>,
    /// Pending orders to hosts, each with its endpoint key.
    orders: BTreeMap<(Time, HostId), Vec<(u32, EndpointOrder)>>,
    pub(crate) throughput: ThroughputSeries,
    /// The stack of hosts that are not simulated.
    pub(crate) external: Option<Box<ExternalStackState>>,
}

impl PartitionHosts {
    /// Idle hosts. `workloads` is the number of workloads.
    pub(crate) fn from_plan(plan: &NetworkPlan, workloads: usize) -> PartitionHosts {
        let (topology, settings) = (&plan.topology, &plan.settings);
        let host = |id: &NodeId| {
            let jitter = random_stream(settings.seed, "jitter", u64::from(id.0));
            let port = topology.nodes()[*id].ports[0];
            Host::new(port, NicLimits::new(port, plan), jitter)
        };
        PartitionHosts {
            hosts: plan.hosts.iter().map(host).collect(),
            first_ports: several_ports::first_ports(plan),
            spread_packets: BTreeMap::new(),
            receivers: SlowReceiver::by_host(plan),
            ends: IndexVec::new(),
            free_ends: Vec::new(),
            cards: RdmaCards::default(),
            places: Vec::new(),
            places_of_parts: Vec::new(),
            metrics: BTreeMap::new(),
            limiters: QcnRateLimiters::from_plan(plan).map(Box::new),
            vlans: PerPacketVlanPicker::from_plan(plan).map(Box::new),
            orders: BTreeMap::new(),
            throughput: ThroughputSeries::new(workloads),
            external: None,
        }
    }

    fn register_key(&mut self, endpoint_key: u32, place: EndpointId) {
        let (flow, side) = (endpoint_key / 2, (endpoint_key & 1) as usize);
        let (places, index) = match flow.checked_sub(FIRST_PART) {
            None => (&mut self.places, flow as usize),
            Some(part) => (&mut self.places_of_parts, part as usize),
        };
        if places.len() <= index {
            places.resize(index + 1, [EndpointId::NONE; 2]);
        }
        places[index][side] = place;
    }

    #[inline(always)]
    fn places_of_flow(&self, flow: u32) -> Option<&[EndpointId; 2]> {
        match self.places.get(flow as usize) {
            None if flow >= FIRST_PART => self.places_of_parts.get((flow - FIRST_PART) as usize),
            places => places,
        }
    }

    /// Index of the endpoint at an endpoint key, if it exists in this partition.
    fn find_endpoint_id(&self, endpoint_key: u32) -> Option<EndpointId> {
        self.places_of_flow(endpoint_key / 2)?[(endpoint_key & 1) as usize].to_option()
    }

    /// Host of the endpoint at an endpoint key, if it exists in this partition.
    #[inline]
    pub(crate) fn find_local_host(&self, endpoint_key: u32) -> Option<HostId> {
        self.find_open_endpoint(endpoint_key).map(|end| end.host)
    }

    /// The open endpoint at an endpoint key, if it exists in this partition.
    #[inline]
    pub(crate) fn find_open_endpoint(&self, endpoint_key: u32) -> Option<&Endpoint> {
        let end = &self.ends[self.find_endpoint_id(endpoint_key)?];
        (!end.is_free()).then_some(end)
    }

    /// Gives a queue pair a state back, if it is in this partition.
    pub(crate) fn restore_queue_pair(&mut self, endpoint_key: u32, state: &IdleState, later: Span) {
        let Some(place) = self.find_endpoint_id(endpoint_key) else { return };
        if let Protocol::Rdma(end) = &mut self.ends[place].protocol {
            end.pair.restore_idle_state(state, later);
        }
    }

    /// The open endpoints of this partition.
    pub(crate) fn open_endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.ends.iter().filter(|end| !end.is_free())
    }

    /// All places of endpoints, for tests that make one wrong.
    #[cfg(test)]
    pub(crate) fn endpoints_mut(&mut self) -> impl Iterator<Item = &mut Endpoint> {
        self.ends.iter_mut()
    }

    /// Maximum number of simultaneously open endpoints.
    pub(crate) fn peak_endpoints(&self) -> usize {
        self.ends.len()
    }

    /// Passes the unreported counters of all endpoints to `take`.
    pub(crate) fn drain_counters(&mut self, now: Time, mut take: impl FnMut(EndpointCounters)) {
        self.ends.iter_mut().filter_map(Endpoint::take_counters).for_each(&mut take);
        if let Some(external) = &mut self.external {
            external.drain_counters(now, &mut take);
        }
    }

    /// Rate that QCN allows a host of this partition towards `destination` in a class; `None` without QCN.
    pub(crate) fn qcn_rate(
        &self,
        host: HostId,
        destination: NodeId,
        class: u8,
        ports: &PartitionPorts,
    ) -> Option<BitRate> {
        let limiters = self.limiters.as_ref()?;
        let limiter = self.hosts[host].find_limiter(destination, class);
        let line = ports.ports[self.hosts[host].port].rate.rate();
        Some(limiter.map_or(line, |limiter| limiters.current_rate(limiter)))
    }
}

/// Prefetches for upcoming events (`prefetch/`).
impl PartitionHosts {
    #[inline(always)]
    pub(crate) fn prefetch_host(&self, host: HostId) {
        prefetch_all_lines(self.hosts.get(host));
    }

    #[inline(always)]
    pub(crate) fn prefetch_endpoint_index(&self, endpoint_key: u32) {
        prefetch_first_line(self.places_of_flow(endpoint_key / 2));
    }

    /// Prefetches the endpoint at an endpoint key.
    #[inline(always)]
    pub(crate) fn prefetch_endpoint(&self, endpoint_key: u32) {
        let place = self.find_endpoint_id(endpoint_key);
        let end = place.and_then(|place| self.ends.get(place));
        prefetch_bytes(end, Endpoint::TOUCHED_BY_EACH_PACKET);
    }

    /// Prefetches the oldest packet of an endpoint, and the ends of its messages.
    #[inline(always)]
    pub(crate) fn prefetch_oldest_packet(&self, endpoint_key: u32) {
        if let Some(place) = self.find_endpoint_id(endpoint_key) {
            self.prefetch_oldest_of(place);
        }
    }

    #[inline(always)]
    fn prefetch_oldest_of(&self, place: EndpointId) {
        let Some(end) = self.ends.get(place) else { return };
        prefetch_first_line(end.messages.as_deref());
        match &end.protocol {
            Protocol::Tcp(tcp) => prefetch_first_line(tcp.connection.oldest_in_flight()),
            Protocol::Rdma(end) => end.pair.oldest_in_flight().into_iter().for_each(prefetch_first_line),
            _ => {}
        }
    }

    /// With many flows their NIC queues, packets and endpoints miss the cache, and each names the next: a step for each of the next three turns.
    fn prefetch_next_turns(&self, host: HostId, class: u8, packets: &PacketPool) {
        let Some([first, second]) = self.hosts[host].prefetch_turns(class, packets) else { return };
        if let Some(BlockedSocket::Endpoint(place)) = second {
            prefetch_bytes(self.ends.get(place), Endpoint::TOUCHED_BY_EACH_PACKET);
        }
        if let Some(BlockedSocket::Endpoint(place)) = first {
            self.prefetch_oldest_of(place);
        }
    }

    /// Prefetches the first endpoint that waits for NIC buffer space.
    #[inline(always)]
    pub(crate) fn prefetch_first_blocked(&self, host: HostId) {
        if let Some(BlockedSocket::Endpoint(place)) = self.hosts.get(host).and_then(Host::first_blocked) {
            prefetch_bytes(self.ends.get(place), Endpoint::TOUCHED_BY_EACH_PACKET);
        }
    }
}
