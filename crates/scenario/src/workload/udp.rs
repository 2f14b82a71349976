//! Datagram sources that do not react (cee §IV-C: bursty UDP background; judd: UDP at a constant rate).
//!
//! A flow of this workload is what one source sends without a pause: everything from `start` on, or one burst. The
//! network sends it at the rate of the workload, so the end of a burst is known beforehand: size over rate. The pause
//! after it is exponential. Sources start together where they are always on, and after a first pause otherwise.

use super::random::exponential;
use super::{Maker, at};
use crate::spec::{BurstSpec, UdpSpec};
use pauseframe_engine::Rng;
use pauseframe_fabric::{FlowSpec, Workload};
use pauseframe_units::{BitRate, Bytes, NodeId, Span, Time};

/// The workload.
#[derive(Debug)]
pub(super) struct Udp {
    /// What the flows have in common.
    template: FlowSpec,
    destinations: Vec<NodeId>,
    rate: BitRate,
    burst: Option<BurstSpec>,
    stop: Time,
    sources: Vec<Source>,
}

/// One host that sends.
#[derive(Debug)]
struct Source {
    host: NodeId,
    /// Start of its next flow; `None` when it is through.
    next: Option<Time>,
    /// Bytes that it has left.
    remaining: u64,
    rng: Rng,
}

impl Udp {
    pub(super) fn new(spec: &UdpSpec, maker: &Maker) -> Udp {
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
            rate: spec.rate,
            burst: spec.burst.clone(),
            stop: at(spec.stop),
        }
    }

    /// The source whose turn comes first; of several at one time the first of the list.
    fn first(&self) -> Option<(Time, usize)> {
        self.sources.iter().enumerate().filter_map(|(number, source)| Some((source.next?, number))).min()
    }
}

fn pause(burst: &BurstSpec, rng: &mut Rng) -> Span {
    Span((exponential(rng) * burst.idle.0 as f64).round() as u64)
}

impl Workload for Udp {
    fn next_start(&self) -> Option<Time> {
        self.first().map(|(start, _)| start)
    }

    fn next_flow(&mut self) -> FlowSpec {
        let (start, number) = self.first().expect("asked for a flow only while next_start gives a time");
        let source = &mut self.sources[number];
        let others: Vec<NodeId> = self.destinations.iter().copied().filter(|d| *d != source.host).collect();
        let destination = others[source.rng.below(others.len() as u64) as usize];
        let size = match &self.burst {
            Some(burst) => burst.sizes.draw(&mut source.rng).min(source.remaining),
            None => source.remaining,
        };
        source.next = None;
        if let Some(burst) = &self.burst {
            if source.remaining != u64::MAX {
                source.remaining -= size;
            }
            let next = start + self.rate.serialise(Bytes(size)) + pause(burst, &mut source.rng);
            source.next = Some(next).filter(|next| *next < self.stop && source.remaining > 0);
        }
        FlowSpec { source: source.host, destination, size, start, stop: Some(self.stop), ..self.template }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{assert_within, drain, make, racks};
    use super::*;
    use crate::spec::{SizesSpec, WorkloadKind};

    fn spec() -> UdpSpec {
        UdpSpec {
            sources: None,
            destinations: None,
            rate: BitRate::gbps(1),
            datagram: Bytes(1472),
            priority: 0,
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
        // 28 KB at 1 Gb/s take 224 us, the pause 276 us: 0.5 ms a burst and source.
        let burst = BurstSpec { sizes: SizesSpec::Fixed { size: Bytes::kb(28) }, idle: Span::from_us(276) };
        let spec = UdpSpec { burst: Some(burst), stop: Span::from_secs(1), ..spec() };
        let flows = drain(&mut *make(WorkloadKind::Udp(spec), &topology));
        assert!(flows.iter().all(|flow| flow.size == 28_000));
        // The number of bursts of four sources in a second: 8000, with a standard deviation of sqrt(8000) * 276 / 500.
        assert_within(flows.len() as f64, 8000.0, 4.0 * 8000f64.sqrt() * 276.0 / 500.0);
        let mut by_source = std::collections::BTreeMap::new();
        for flow in &flows {
            let over = by_source.insert(flow.source, flow.start + Span::from_us(224));
            assert!(over.is_none_or(|over| over <= flow.start), "bursts of a source overlap");
        }
        assert_eq!(by_source.len(), 4);
    }

    #[test]
    fn the_bytes_of_a_source_end_it() {
        let topology = racks(1, 2);
        let burst = BurstSpec { sizes: SizesSpec::Fixed { size: Bytes::kb(30) }, idle: Span::from_us(1) };
        let spec = UdpSpec { burst: Some(burst), size: Some(Bytes::kb(70)), ..spec() };
        let flows = drain(&mut *make(WorkloadKind::Udp(spec), &topology));
        let host = topology.find("h0");
        let sizes: Vec<_> =
            flows.iter().filter(|flow| Some(flow.source) == host).map(|flow| flow.size).collect();
        assert_eq!(sizes, [30_000, 30_000, 10_000]);
    }
}
