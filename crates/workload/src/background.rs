//! Single flows between random hosts: an open loop (Poisson at a load or a rate) or a closed loop (every host keeps a
//! number of flows active, one in bolt §IV-A3).
//!
//! The offered load counts application bytes against the rate of the sender's links; headers come on top. In the closed
//! loop, the first flows of a host start at uniformly random times within the duration of a mean flow on its links, so
//! that hosts do not start in step, but never later than `stop`. A later flow starts when the previous one has ended.

use super::arrivals::{Agenda, Poisson};
use super::context::{Context, TIMES, refuse_again, some_hosts, stop, two_hosts};
use super::incast::RATES;
use super::maker::{Maker, OpenLoop, Source, at, mean_host_rate, sending_rates};
use super::sizes::SizesSpec;
use pauseframe_engine::Rng;
use pauseframe_fabric::{FlowRecord, FlowSpec, Workload};
use pauseframe_schema::bounds::Above;
use pauseframe_schema::reader::Table;
use pauseframe_schema::{kinds, table};
use pauseframe_topology::Topology;
use pauseframe_units::{Bytes, NodeId, Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

table! {
    /// Single flows between random hosts
    pub struct BackgroundSpec {
        /// Distribution of flow sizes
        sizes: SizesSpec = try_section(|t| {
            SizesSpec::read(t, "kind", None, SIZES_DOC, context)
        }) => { two_hosts(t, context); };
        /// Start times of flows
        arrivals: ArrivalsSpec = try_section(arrivals);
        /// Fraction of the flows that stay in the sender's rack
        intra_rack: Option<f64> = optional_in(0.0..=1.0, "none: the destination is uniform over all other hosts");
        /// Hosts that send and receive
        hosts: Option<Vec<String>> = by(some_hosts, context) => {
            let two = |names: &Vec<String>| names.iter().collect::<BTreeSet<_>>().len() >= 2;
            let several = hosts.as_ref().is_none_or(two);
            t.check(several, "hosts", || "a flow needs two hosts".to_owned(), "name another one");
            refuse_again(t, "hosts", hosts.as_deref());
        };
        /// Earliest start of a flow
        start: Span = or_in(Span::ZERO, TIMES);
        /// No new flow starts after this time
        stop: Span = try_by(stop, start, context);
    }
    pub fn try_read(t, context: &Context);
}

/// Parses the kind of sizes.
pub(crate) const SIZES_DOC: &str =
    "Distribution; a text alone is a fixed size or the source of a cdf";

kinds! {
    /// Start times of background flows
    #[derive(Copy)]
    pub enum ArrivalsSpec {
        "load" => Load(Load);
        "rate" => Rate(Rate);
        "concurrency" => Concurrency(Concurrency);
    }
    pub fn read(t);
}

table! {
    /// Poisson arrivals at which hosts offer this fraction of the rate of their links on average
    #[derive(Copy)]
    pub struct Load {
        /// Offered load of a host relative to the rate of its links
        load: f64 = required_in(Above(0.0, 1.0, ""));
    }
    pub fn try_read(t);
}

table! {
    /// Poisson arrivals at this rate of flows per second and host
    #[derive(Copy)]
    pub struct Rate {
        /// Flows per second and host
        per_host: f64 = required_in(RATES);
    }
    pub fn try_read(t);
}

table! {
    /// Closed loop: every host keeps this number of flows active
    #[derive(Copy)]
    pub struct Concurrency {
        /// Concurrent flows per host; the next starts when one ends
        per_host: u32 = required_in(1..=100_000);
    }
    pub fn try_read(t);
}

fn arrivals(t: &mut Table) -> Option<ArrivalsSpec> {
    ArrivalsSpec::read(t, "kind", None, "Arrival process: Poisson with a load or a rate, or a closed loop")
}

impl Source for BackgroundSpec {
    fn build(&self, maker: &Maker) -> Box<dyn Workload> {
        let among = Among { hosts: maker.named(self.hosts.as_deref()), intra_rack: self.intra_rack };
        let window = at(self.start)..at(self.stop);
        Box::new(Background::new(self.sizes.clone(), self.arrivals, among, window, maker))
    }

    fn starts(&self) -> Vec<Span> {
        vec![self.start]
    }

    fn at_once(&self, hosts: u64) -> u64 {
        let hosts = self.hosts.as_ref().map_or(hosts, |some| some.len() as u64);
        match self.arrivals {
            ArrivalsSpec::Concurrency(Concurrency { per_host }) => hosts * u64::from(per_host),
            ArrivalsSpec::Load(_) | ArrivalsSpec::Rate(_) => hosts,
        }
    }

    fn open_loop(&self, topology: &Topology, end: Span) -> Option<OpenLoop> {
        let hosts = self.hosts.as_ref().map_or(topology.hosts().count(), Vec::len) as f64;
        let bytes = self.sizes.mean();
        let per_second = match self.arrivals {
            ArrivalsSpec::Load(Load { load }) => load * mean_host_rate(topology) / (bytes * 8.0),
            ArrivalsSpec::Rate(Rate { per_host }) => per_host,
            ArrivalsSpec::Concurrency(_) => return None,
        };
        Some(OpenLoop::poisson(topology, hosts, per_second, bytes, self.start..self.stop, end))
    }
}

impl BackgroundSpec {
    /// Why the racks of the hosts do not allow the share of flows within racks; `None` if they do, or nobody set one.
    pub fn contrary_racks(&self, topology: &Topology) -> Option<String> {
        let share = self.intra_rack?;
        let hosts: BTreeSet<NodeId> = match &self.hosts {
            Some(names) => names.iter().filter_map(|name| topology.find(name)).collect(),
            None => topology.hosts().collect(),
        };
        let mut racks: BTreeMap<Option<NodeId>, usize> = BTreeMap::new();
        for host in &hosts {
            *racks.entry(rack_of(topology, *host)).or_default() += 1;
        }
        let alone = racks.values().filter(|hosts| **hosts == 1).count();
        if racks.len() == 1 && share < 1.0 {
            return Some("all hosts are in one rack, so all flows stay in it".to_owned());
        }
        (alone > 0 && racks.len() > 1 && share > 0.0).then(|| {
            format!("{} alone in a rack, so all flows from there leave it", if alone == 1 {
                "1 host is".to_owned()
            } else {
                format!("{alone} hosts are")
            })
        })
    }
}

/// The rack of a host: the switch at its first port.
fn rack_of(topology: &Topology, host: NodeId) -> Option<NodeId> {
    topology.nodes()[host].ports.first().map(|port| topology.peer(*port))
}

#[derive(Debug)]
enum Arrivals {
    Open(Poisson),
    Closed(Agenda),
}

/// The choice of sender and receiver.
#[derive(Debug)]
struct Among {
    /// The hosts, ascending.
    hosts: Vec<NodeId>,
    /// Fraction of the flows that stay in the rack; `None`: the destination is uniform over all other hosts.
    intra_rack: Option<f64>,
}

#[derive(Debug)]
struct Background {
    sizes: SizesSpec,
    arrivals: Arrivals,
    destinations: Destinations,
    /// The common settings of the flows.
    template: FlowSpec,
    size_streams: Vec<Rng>,
    destination_streams: Vec<Rng>,
}

impl Background {
    /// Makes a workload whose flows start within `window`.
    fn new(
        sizes: SizesSpec,
        arrivals: ArrivalsSpec,
        among: Among,
        window: Range<Time>,
        maker: &Maker,
    ) -> Background {
        let topology = maker.context.topology;
        let Among { hosts, intra_rack } = among;
        assert!(hosts.len() > 1, "background: a flow needs two hosts");
        let host_rates = sending_rates(topology);
        let mean_time = |host: NodeId| sizes.mean() * 8.0 / host_rates[&host];
        let arrivals = match arrivals {
            ArrivalsSpec::Load(Load { load }) => {
                let rates = hosts.iter().map(|host| load / mean_time(*host));
                Arrivals::Open(Poisson::new(rates, maker.streams("arrivals", hosts.len()), window))
            }
            ArrivalsSpec::Rate(Rate { per_host }) => {
                let rates = hosts.iter().map(|_| per_host);
                Arrivals::Open(Poisson::new(rates, maker.streams("arrivals", hosts.len()), window))
            }
            ArrivalsSpec::Concurrency(Concurrency { per_host }) => {
                let mut agenda = Agenda::until(window.end);
                for (index, host) in hosts.iter().enumerate() {
                    let mut rng = maker.stream("arrivals", index);
                    for _ in 0..per_host {
                        let delay = Span::from_secs_f64(rng.uniform_unit() * mean_time(*host));
                        agenda.enter(first_start(&window, delay), index);
                    }
                }
                Arrivals::Closed(agenda)
            }
        };
        Background {
            arrivals,
            size_streams: maker.streams("sizes", hosts.len()),
            destination_streams: maker.streams("destinations", hosts.len()),
            template: maker.flow(hosts[0], hosts[0], Bytes::ZERO, at(Span::ZERO)),
            destinations: Destinations::new(topology, &hosts, intra_rack),
            sizes,
        }
    }
}

/// `delay` into `window`, wrapped if the window is shorter.
fn first_start(window: &Range<Time>, delay: Span) -> Time {
    let length = window.end.saturating_since(window.start);
    window.start.saturating_add(Span(delay.0.checked_rem(length.0).unwrap_or(0)))
}

impl Workload for Background {
    fn is_open_loop(&self) -> bool {
        matches!(self.arrivals, Arrivals::Open(_))
    }

    fn next_start_time(&self) -> Option<Time> {
        match &self.arrivals {
            Arrivals::Open(poisson) => poisson.next(),
            Arrivals::Closed(agenda) => agenda.next(),
        }
    }

    fn next_flow(&mut self) -> FlowSpec {
        let next = match &mut self.arrivals {
            Arrivals::Open(poisson) => poisson.take(),
            Arrivals::Closed(agenda) => agenda.take(),
        };
        let (start, host) = next.expect("asked for a flow only while next_start gives a time");
        FlowSpec {
            source: self.destinations.hosts[host],
            destination: self.destinations.draw(host, &mut self.destination_streams[host]),
            size: self.sizes.draw(&mut self.size_streams[host]),
            start,
            ..self.template
        }
    }

    fn on_flow_finished(&mut self, flow: &FlowRecord, now: Time) {
        if let Arrivals::Closed(agenda) = &mut self.arrivals {
            let host = self.destinations.hosts.binary_search(&flow.spec.source);
            agenda.enter(now, host.expect("the flow is of this workload, its source one of the hosts"));
        }
    }
}

/// The choice of the receiver: any other host, or with a given probability one of the same rack.
#[derive(Debug)]
struct Destinations {
    /// All hosts, ascending.
    hosts: Vec<NodeId>,
    intra_rack: Option<f64>,
    /// All hosts, rack by rack. A rack is the hosts whose first link leads to the same switch.
    by_rack: Vec<NodeId>,
    /// For each host: its position in `by_rack`, and its rack.
    places: Vec<(usize, Range<usize>)>,
}

impl Destinations {
    fn new(topology: &Topology, hosts: &[NodeId], intra_rack: Option<f64>) -> Destinations {
        let rack = |host: usize| rack_of(topology, hosts[host]);
        let mut order: Vec<usize> = (0..hosts.len()).collect();
        order.sort_by_key(|host| rack(*host));
        let mut places = vec![(0, 0..0); hosts.len()];
        let mut begin = 0;
        for members in order.chunk_by(|a, b| rack(*a) == rack(*b)) {
            for (offset, host) in members.iter().enumerate() {
                places[*host] = (begin + offset, begin..begin + members.len());
            }
            begin += members.len();
        }
        let by_rack = order.into_iter().map(|host| hosts[host]).collect();
        Destinations { hosts: hosts.to_vec(), intra_rack, by_rack, places }
    }

    /// A random host other than `host`. If the rack has no other host, all flows leave it; with a single rack, all
    /// flows stay.
    fn draw(&self, host: usize, rng: &mut Rng) -> NodeId {
        let (place, rack) = &self.places[host];
        let outside = self.hosts.len() - rack.len();
        let Some(share) = self.intra_rack else {
            let other = rng.uniform_below(self.hosts.len() as u64 - 1) as usize;
            return self.hosts[other + usize::from(other >= host)];
        };
        let stay = rng.uniform_unit() < share;
        if outside == 0 || (stay && rack.len() > 1) {
            let other = rack.start + rng.uniform_below(rack.len() as u64 - 1) as usize;
            self.by_rack[other + usize::from(other >= *place)]
        } else {
            let other = rng.uniform_below(outside as u64) as usize;
            self.by_rack[other + if other >= rack.start { rack.len() } else { 0 }]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{assert_within, drain, ended, make, racks, two_ports};
    use super::super::sizes::{LogUniform, Uniform, Cdf};
    use super::*;
    use crate::WorkloadKind;
    use pauseframe_fabric::FlowStatus;
    use proptest::prelude::*;

    fn uniform() -> SizesSpec {
        SizesSpec::Uniform(Uniform { min: Bytes::kb(1), max: Bytes::kb(39) })
    }

    fn kind(sizes: SizesSpec, arrivals: ArrivalsSpec, intra_rack: Option<f64>, ms: u64) -> WorkloadKind {
        let (start, stop) = (Span::from_ms(2), Span::from_ms(2 + ms));
        WorkloadKind::Background(BackgroundSpec { sizes, arrivals, intra_rack, hosts: None, start, stop })
    }

    #[test]
    fn hosts_offer_the_load_asked_for() {
        let log_uniform = SizesSpec::LogUniform(LogUniform { min: Bytes::kb(2), max: Bytes::kb(64) });
        let web_search = SizesSpec::Cdf(Cdf {
            source: "web_search".into(),
            points: super::super::builtin("web_search").unwrap().to_vec(),
        });
        // Long enough that 3 % is at least four standard errors of the bytes offered.
        for (sizes, load, ms) in [(uniform(), 0.6, 100), (log_uniform, 0.2, 300), (web_search, 0.8, 20_000)] {
            let topology = racks(2, 8);
            let kind = kind(sizes, ArrivalsSpec::Load(Load { load }), None, ms);
            let flows = drain(&mut *make(kind, &topology));
            let bits = flows.iter().map(|flow| flow.size as f64 * 8.0).sum::<f64>();
            assert_within(bits / (16.0 * 10e9 * ms as f64 * 1e-3) / load, 1.0, 0.03);
        }
    }

    #[test]
    fn a_load_counts_all_ports_of_a_host_in_any_order() {
        let topology = two_ports(4);
        let flows = drain(&mut *make(kind(uniform(), ArrivalsSpec::Load(Load { load: 0.5 }), None, 50), &topology));
        for host in topology.hosts() {
            let bits = flows.iter().filter(|flow| flow.source == host).map(|flow| flow.size as f64 * 8.0).sum::<f64>();
            // 17,187 flows of 20 KB; 5 % is five standard errors.
            assert_within(bits / 50e-3 / 55e9, 1.0, 0.05);
        }
    }

    #[test]
    fn a_rate_is_flows_a_second_and_host() {
        let kind = kind(uniform(), ArrivalsSpec::Rate(Rate { per_host: 5000.0 }), None, 1000);
        let flows = drain(&mut *make(kind, &racks(1, 4)));
        assert_within(flows.len() as f64, 20_000.0, 4.0 * 20_000f64.sqrt());
    }

    #[test]
    fn destinations_are_uniform_over_the_others() {
        let topology = racks(2, 3);
        let kind = kind(uniform(), ArrivalsSpec::Rate(Rate { per_host: 10_000.0 }), None, 1000);
        let flows = drain(&mut *make(kind, &topology));
        let mut pairs = BTreeMap::new();
        for flow in &flows {
            *pairs.entry((flow.source, flow.destination)).or_insert(0u32) += 1;
        }
        assert_eq!(pairs.len(), 30);
        for count in pairs.values() {
            assert_within(f64::from(*count), 2000.0, 5.0 * 2000f64.sqrt());
        }
    }

    #[test]
    fn the_share_in_the_rack_is_kept() {
        // cee: 30 % of the flows are intra-rack.
        let topology = racks(3, 4);
        let kind = kind(uniform(), ArrivalsSpec::Rate(Rate { per_host: 10_000.0 }), Some(0.3), 500);
        let flows = drain(&mut *make(kind, &topology));
        let rack = |host: NodeId| topology.peer(topology.nodes()[host].ports[0]);
        let inside = flows.iter().filter(|flow| rack(flow.source) == rack(flow.destination)).count();
        let n = flows.len() as f64;
        assert_within(inside as f64, 0.3 * n, 4.0 * (0.21 * n).sqrt());
        let to: std::collections::BTreeSet<_> = flows.iter().map(|f| (f.source, f.destination)).collect();
        assert_eq!(to.len(), 12 * 11);
    }

    #[test]
    fn a_rack_of_one_sends_out_and_a_single_rack_stays() {
        for (topology, share) in [(racks(3, 1), 1.0), (racks(1, 3), 0.0)] {
            let kind = kind(uniform(), ArrivalsSpec::Rate(Rate { per_host: 1000.0 }), Some(share), 100);
            assert!(!drain(&mut *make(kind, &topology)).is_empty());
        }
    }

    #[test]
    fn the_closed_loop_keeps_its_flows_going() {
        let topology = racks(1, 4);
        let stop = at(Span::from_ms(4));
        let mut workload =
            make(kind(uniform(), ArrivalsSpec::Concurrency(Concurrency { per_host: 2 }), None, 2), &topology);
        let first = drain(&mut *workload);
        assert_eq!(first.len(), 8);
        // 20 KB take 16 us at 10 Gb/s.
        let latest = at(Span::from_ms(2) + Span::from_us(16));
        assert!(first.iter().all(|flow| flow.start >= at(Span::from_ms(2)) && flow.start < latest));
        assert!(first.iter().any(|flow| flow.start != first[0].start));
        for status in [FlowStatus::Finished, FlowStatus::Failed] {
            let now = stop.saturating_add(Span::ZERO).min(at(Span::from_ms(3)));
            workload.on_flow_finished(&ended(first[5], status, now, 0), now);
            let next = drain(&mut *workload);
            assert_eq!((next.len(), next[0].source, next[0].start), (1, first[5].source, now));
        }
        workload.on_flow_finished(&ended(first[5], FlowStatus::Finished, stop, 0), stop);
        assert_eq!(workload.next_start_time(), None);
    }

    #[test]
    fn a_further_host_moves_no_start_and_no_size_of_the_others() {
        let flows = |hosts| {
            let kind = kind(uniform(), ArrivalsSpec::Load(Load { load: 0.5 }), None, 5);
            let flows = drain(&mut *make(kind, &racks(1, hosts)));
            // `racks` gives the switch id 0 and the hosts the ids 1, 2, ...: the first six hosts keep their
            // ids.
            flows.iter().map(|f| (f.source, f.start, f.size)).filter(|f| f.0.0 <= 6).collect::<Vec<_>>()
        };
        assert_eq!(flows(6), flows(7));
        assert!(flows(6).len() > 100);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn starts_never_go_back(load in 0.01f64..1.0, racks_ in 1usize..4, hosts in 2usize..5, intra: bool) {
            let share = intra.then_some(load);
            let kind = kind(uniform(), ArrivalsSpec::Load(Load { load }), share, 1);
            // `drain` asserts the order and that no host sends to itself.
            let flows = drain(&mut *make(kind, &racks(racks_, hosts)));
            let window = at(Span::from_ms(2))..at(Span::from_ms(3));
            prop_assert!(flows.iter().all(|flow| window.contains(&flow.start)));
        }
    }
}
