//! Datagram sources without congestion control (cee §IV-C: bursty UDP background; judd: UDP at a constant rate).
//!
//! A flow of this workload is the data that a source sends without a pause: everything from `start` on, or one burst.
//! The network sends it at the rate of the workload, so the end of a burst is known in advance: bytes on the wire over
//! rate. The pause after it is exponential. Continuous sources start together, bursty ones after a first pause.

use super::random::exponential;
use super::background::SIZES_DOC;
use super::context::{Context, SIZES, TIME_MAX, TIMES, some_hosts, stop, two_hosts};
use super::maker::{Maker, Source as Kind, at};
use super::sizes::SizesSpec;
use pauseframe_engine::Rng;
use pauseframe_fabric::{FlowSpec, FrameOverhead, Workload};
use pauseframe_schema::document::Value;
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::nested::Absent;
use pauseframe_schema::reader::Table;
use pauseframe_schema::table;
use pauseframe_units::{BitRate, Bytes, NodeId, Priority, Span, Time};

table! {
    /// Datagrams without a transport: each source sends at `rate`, all the time or in bursts
    pub struct UdpSpec {
        /// Hosts that send
        sources: Option<Vec<String>> = by(sending, context);
        /// Hosts that receive; each source (or each burst) picks a random one other than itself
        destinations: Option<Vec<String>> = by(some_hosts, context) => {
            check_destinations(t, sources.as_deref(), destinations.as_deref());
        };
        /// Rate of a source while it sends, including all overhead on the wire
        rate: BitRate = required_in(BitRate(1000)..=BitRate::gbps(10_000));
        // The largest payload for an MTU of 1500 bytes.
        /// Application bytes of a datagram
        datagram: Bytes = or_in(Bytes(1472), Bytes(1)..=Bytes(9188));
        /// Datagrams are ECN-capable (ECT(0)) and get marked; the source does not react
        #[source = "RFC 8085 §3.1.7"]
        ecn: bool = or(false);
        /// The 802.1p priority of the datagrams
        priority: Priority = or_in(Priority::default(), Priority::ALL);
        /// Random on-off bursts, or false: sources send continuously
        burst: Option<BurstSpec> = try_by(burst, context);
        /// Application bytes per source
        size: Option<Bytes> = optional_in(SIZES, "none: until stop");
        /// Earliest start of a flow
        start: Span = or_in(Span::ZERO, TIMES);
        /// No new flow starts after this time
        stop: Span = try_by(end, size, start, context);
    }
    pub fn try_read(t, context: &Context);
}

table! {
    /// Random on-off: bursts of these sizes at the rate of the workload, with pauses of this mean between
    /// them
    pub struct BurstSpec {
        /// Application bytes of a burst
        sizes: SizesSpec = try_section(|t| SizesSpec::read(t, "kind", None, SIZES_DOC, context));
        /// Mean of the exponential pause from the end of a burst to the start of the next
        idle: Span = required_in(Span(1)..=TIME_MAX);
    }
    pub fn try_read(t, context: &Context);
}

fn sending(t: &mut Table, key: &'static str, doc: &str, context: &Context) -> Option<Vec<String>> {
    two_hosts(t, context);
    some_hosts(t, key, doc, context)
}

fn check_destinations(t: &mut Table, sources: Option<&[String]>, destinations: Option<&[String]>) {
    let Some([only]) = destinations else { return };
    if let Some(sources) = sources {
        let message = || format!("{only:?} would send to itself");
        t.check(!sources.contains(only), "destinations", message, "leave it out of sources");
    } else {
        let message = || format!("all hosts send, and {only:?} would send to itself");
        t.check(false, "destinations", message, "name the sources");
    }
}

/// The end of new flows; sources with a size end by themselves.
fn end(
    t: &mut Table,
    key: &'static str,
    doc: &str,
    size: Option<Bytes>,
    start: Span,
    context: &Context,
) -> Option<Span> {
    if size.is_some() && context.stop.is_none() && !t.has(key) {
        return Some(t.or_because(key, TIME_MAX, Origin::Computed("size".to_owned()), "stop.time", doc));
    }
    stop(t, key, doc, start, context)
}

/// `Some(None)` for a continuous source; `None` if an error was recorded.
#[expect(clippy::option_option, reason = "a mistake is not the absence of a burst")]
fn burst(t: &mut Table, key: &'static str, doc: &str, context: &Context) -> Option<Option<BurstSpec>> {
    let item = t.item.and_then(|item| item.get(key));
    let wrong = item.is_some_and(|item| !matches!(item.value, Value::Table(_) | Value::Bool(false)));
    match t.switchable(key, Absent::Off(Origin::Default), "false", doc, |t| BurstSpec::read(t, context)) {
        None if wrong => None,
        None => Some(None),
        Some(read) => read.map(Some),
    }
}

impl Kind for UdpSpec {
    fn build(&self, maker: &Maker) -> Box<dyn Workload> {
        Box::new(Udp::new(self, maker))
    }

    fn starts(&self) -> Vec<Span> {
        vec![self.start]
    }

    fn at_once(&self, hosts: u64) -> u64 {
        self.sources.as_ref().map_or(hosts, |sources| sources.len() as u64)
    }
}

#[derive(Debug)]
struct Udp {
    /// The common settings of the flows.
    template: FlowSpec,
    destinations: Vec<NodeId>,
    pace: Pace,
    burst: Option<BurstSpec>,
    stop: Time,
    sources: Vec<Source>,
}

/// How fast a source sends.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// On the wire.
    rate: BitRate,
    /// Application bytes of a datagram.
    datagram: u64,
    priority: Priority,
    overhead: FrameOverhead,
}

impl Pace {
    /// How long a source sends so many application bytes.
    fn sending_time(self, size: u64) -> Span {
        let wire = |bytes: u64| self.overhead.datagram_wire_size(bytes as u32, self.priority);
        let time = |bytes: u64| self.rate.serialise(Bytes(u64::from(wire(bytes))));
        let (full, rest) = (size / self.datagram, size % self.datagram);
        let last = if rest > 0 { time(rest) } else { Span::ZERO };
        time(self.datagram).saturating_mul(full).saturating_add(last)
    }
}

/// A sending host.
#[derive(Debug)]
struct Source {
    host: NodeId,
    /// Start of its next flow; `None` after the last.
    next: Option<Time>,
    /// Bytes left to send.
    remaining: u64,
    rng: Rng,
}

impl Udp {
    fn new(spec: &UdpSpec, maker: &Maker) -> Udp {
        let named = |names: &Option<Vec<String>>| match names {
            Some(names) => names
                .iter()
                .map(|name| maker.context.topology.find(name).expect("resolve knows its hosts"))
                .collect(),
            None => maker.hosts(),
        };
        let (hosts, destinations): (Vec<NodeId>, Vec<NodeId>) =
            (named(&spec.sources), named(&spec.destinations));
        let start = at(spec.start);
        let source = |(number, host): (usize, NodeId)| {
            let mut rng = maker.stream("udp", number);
            let first = match &spec.burst {
                Some(burst) => start + pause(burst, &mut rng),
                None => start,
            };
            let remaining = spec.size.map_or(u64::MAX, |size| size.0);
            Source { host, next: Some(first).filter(|first| *first < at(spec.stop)), remaining, rng }
        };
        Udp {
            template: maker.flow(hosts[0], hosts[0], Bytes(u64::MAX), start),
            sources: hosts.iter().copied().enumerate().map(source).collect(),
            destinations,
            pace: Pace {
                rate: spec.rate,
                datagram: spec.datagram.0,
                priority: spec.priority,
                overhead: maker.context.overhead,
            },
            burst: spec.burst.clone(),
            stop: at(spec.stop),
        }
    }

    /// The source with the earliest flow; ties go to the first in the list.
    fn first(&self) -> Option<(Time, usize)> {
        self.sources.iter().enumerate().filter_map(|(number, source)| Some((source.next?, number))).min()
    }
}

fn pause(burst: &BurstSpec, rng: &mut Rng) -> Span {
    Span((exponential(rng) * burst.idle.0 as f64).round() as u64)
}

impl Workload for Udp {
    fn is_open_loop(&self) -> bool {
        true
    }

    fn next_start_time(&self) -> Option<Time> {
        self.first().map(|(start, _)| start)
    }

    fn next_flow(&mut self) -> FlowSpec {
        let (start, number) = self.first().expect("asked for a flow only while next_start gives a time");
        let source = &mut self.sources[number];
        let others: Vec<NodeId> = self.destinations.iter().copied().filter(|d| *d != source.host).collect();
        let destination = others[source.rng.uniform_below(others.len() as u64) as usize];
        let size = match &self.burst {
            Some(burst) => burst.sizes.draw(&mut source.rng).min(source.remaining),
            None => source.remaining,
        };
        source.next = None;
        if let Some(burst) = &self.burst {
            if source.remaining != u64::MAX {
                source.remaining -= size;
            }
            let over = start.saturating_add(self.pace.sending_time(size));
            let next = over.saturating_add(pause(burst, &mut source.rng));
            source.next = Some(next).filter(|next| *next < self.stop && source.remaining > 0);
        }
        FlowSpec { source: source.host, destination, size, start, stop: Some(self.stop), ..self.template }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{assert_within, drain, make, racks};
    use super::super::sizes::{Fixed};
    use super::*;
    use crate::{SizesSpec, WorkloadKind};

    fn spec() -> UdpSpec {
        UdpSpec {
            sources: None,
            destinations: None,
            rate: BitRate::gbps(1),
            datagram: Bytes(1472),
            ecn: false,
            priority: Priority::default(),
            burst: None,
            size: None,
            start: Span::from_us(5),
            stop: Span::from_secs(10),
        }
    }

    #[test]
    fn a_source_that_is_always_on_is_one_flow() {
        let topology = racks(1, 3);
        let destinations = Some(vec!["h0".to_owned()]);
        let sources = Some(vec!["h2".to_owned(), "h1".to_owned()]);
        let spec = UdpSpec { sources, destinations, size: Some(Bytes::kb(3)), ..spec() };
        let flows = drain(&mut *make(WorkloadKind::Udp(spec), &topology));
        let ends: Vec<_> =
            flows.iter().map(|flow| (Some(flow.source), Some(flow.destination), flow.size)).collect();
        assert_eq!(ends, ["h2", "h1"].map(|name| (topology.find(name), topology.find("h0"), 3000)));
        assert!(
            flows
                .iter()
                .all(|flow| flow.start == at(Span::from_us(5)) && flow.stop == Some(at(Span::from_secs(10))))
        );
    }

    #[test]
    fn bursts_have_their_size_and_pauses_their_mean() {
        let topology = racks(1, 4);
        // 19 datagrams of 1472 bytes and one of 32, with headers, frame, preamble and gap of 66 bytes each, take 234.56 us at 1 Gb/s, the pause 265.44
        // us: 0.5 ms per burst and source.
        let sending = Span((28_000 + 20 * 66) * 8_000);
        let idle = Span::from_us(500) - sending;
        let burst = BurstSpec { sizes: SizesSpec::Fixed(Fixed { size: Bytes::kb(28) }), idle };
        let spec = UdpSpec { burst: Some(burst), stop: Span::from_secs(1), ..spec() };
        let flows = drain(&mut *make(WorkloadKind::Udp(spec), &topology));
        assert!(flows.iter().all(|flow| flow.size == 28_000));
        // Four sources send 8000 bursts per second on average, with a standard deviation of sqrt(8000) * 265.44
        // / 500.
        assert_within(flows.len() as f64, 8000.0, 4.0 * 8000f64.sqrt() * 265.44 / 500.0);
        let mut by_source = std::collections::BTreeMap::new();
        for flow in &flows {
            let over = by_source.insert(flow.source, flow.start + sending);
            assert!(over.is_none_or(|over| over <= flow.start), "bursts of a source overlap");
        }
        assert_eq!(by_source.len(), 4);
    }

    /// A byte takes a frame of 84 bytes on the wire, so a source of 1 Gb/s sends one each 672 ns at most.
    #[test]
    fn small_bursts_keep_to_the_rate() {
        let topology = racks(1, 2);
        let burst = BurstSpec { sizes: SizesSpec::Fixed(Fixed { size: Bytes(1) }), idle: Span(1) };
        let stop = Span::from_us(5 + 672);
        let spec = UdpSpec { burst: Some(burst), sources: Some(vec!["h0".into()]), stop, ..spec() };
        assert_within(drain(&mut *make(WorkloadKind::Udp(spec), &topology)).len() as f64, 1_000.0, 1.0);
    }

    #[test]
    fn the_bytes_of_a_source_end_it() {
        let topology = racks(1, 2);
        let burst = BurstSpec { sizes: SizesSpec::Fixed(Fixed { size: Bytes::kb(30) }), idle: Span::from_us(1) };
        let spec = UdpSpec { burst: Some(burst), size: Some(Bytes::kb(70)), ..spec() };
        let flows = drain(&mut *make(WorkloadKind::Udp(spec), &topology));
        let host = topology.find("h0");
        let sizes: Vec<_> =
            flows.iter().filter(|flow| Some(flow.source) == host).map(|flow| flow.size).collect();
        assert_eq!(sizes, [30_000, 30_000, 10_000]);
    }
}
