//! Several sources and one receiver (cee Fig. 3, after the input-generated hotspot of the 802.1Qau benchmarks): an
//! offered load below the capacity of the receiver's links, a burst of several times that capacity, and the first load
//! again.
//!
//! Each source has one connection for the whole run. Its application writes messages at regular times, and one large
//! message with all data of the burst when the burst begins. Messages that are due before the previous one has arrived
//! are written after it. Sources begin at random times of the first interval. Not modelled: an application that is
//! slower than its link in the burst, because the burst waits for the receiver anyway.

use super::context::{Context, SIZES, TIME_MAX, TIMES, receiver, senders, stop};
use super::maker::{Maker, Source as Kind, at, receiving_rates};
use pauseframe_fabric::{FlowRecord, FlowSpec, FlowStatus, KeptConnection, Workload};
use pauseframe_schema::bounds::Above;
use pauseframe_schema::table;
use pauseframe_units::{Bytes, NodeId, Span, Time};

table! {
    /// Senders with one connection each to one receiver: a load below the link rate, and a burst above it
    /// (cee Fig. 3)
    // Defaults of cee Fig. 3: seven senders, 4 times the sink's capacity from 100 to 110 ms.
    pub struct HotspotSpec {
        /// Number of senders: the first hosts other than the receiver
        senders: u32 = by(senders, context);
        /// Name of the receiver
        receiver: String = by(receiver, context);
        /// Load of all senders together before and after the burst, relative to the receiver's links
        load: f64 = or_in(0.5, Above(0.0, 1.0, ""));
        /// Bytes that an application writes at a time, before and after the burst
        message: Bytes = or_in(Bytes::kb(15), SIZES);
        /// Load of all senders together during the burst, relative to the receiver's links
        overload: f64 = or_in(4.0, Above(0.0, 1e6, ""));
        /// Start of the burst
        burst_start: Span = or_in(Span::from_ms(100), TIMES);
        /// Duration of the burst
        burst: Span = or_in(Span::from_ms(10), Span(1)..=TIME_MAX);
        /// Earliest start of a flow
        start: Span = or_in(Span::ZERO, TIMES);
        /// No new flow starts after this time
        stop: Span = try_by(stop, start, context) => {
            if let Some(stop) = stop.filter(|stop| burst_start >= *stop) {
                let path = t.at("burst_start");
                t.ledger.warn(format!("{path}: {burst_start} is not before stop ({stop}): no burst is sent"));
            }
        };
    }
    pub fn try_read(t, context: &Context);
}

impl Kind for HotspotSpec {
    fn build(&self, maker: &Maker) -> Box<dyn Workload> {
        Box::new(Hotspot::new(self, maker))
    }

    fn starts(&self) -> Vec<Span> {
        vec![self.start]
    }

    fn at_once(&self, _: u64) -> u64 {
        u64::from(self.senders)
    }
}

/// The next write of an application.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Message {
    due: Time,
    size: u64,
}

/// One sender.
#[derive(Debug)]
struct Source {
    host: NodeId,
    next: Option<Message>,
    /// Time since the connection is idle; `None` while it is busy.
    free: Option<Time>,
    written: u64,
    burst_over: bool,
}

#[derive(Debug)]
struct Hotspot {
    template: FlowSpec,
    sources: Vec<Source>,
    message: u64,
    interval: Span,
    burst: Message,
    burst_end: Time,
    stop: Time,
}

impl Hotspot {
    fn new(spec: &HotspotSpec, maker: &Maker) -> Hotspot {
        let topology = maker.context.topology;
        let receiver = topology.find(&spec.receiver).expect("resolve has checked the host's name");
        let rate = receiving_rates(topology)[&receiver];
        let hosts = maker.hosts().into_iter().filter(|host| *host != receiver).take(spec.senders as usize);
        let share = rate / f64::from(spec.senders) / 8.0;
        let interval = Span::from_secs_f64(spec.message.0 as f64 / (share * spec.load));
        let size = (share * spec.overload * spec.burst.0 as f64 * 1e-12).round() as u64;
        let burst = Message { due: at(spec.burst_start), size: size.max(1) };
        let mut hotspot = Hotspot {
            template: maker.flow(receiver, receiver, spec.message, Time::ZERO),
            sources: Vec::new(),
            message: spec.message.0,
            interval,
            burst,
            burst_end: burst.due.saturating_add(spec.burst),
            stop: at(spec.stop),
        };
        for (number, host) in hosts.enumerate() {
            let offset = Span(maker.stream("offset", number).uniform_below(interval.0.max(1)));
            let start = at(spec.start);
            let mut source = Source { host, next: None, free: Some(start), written: 0, burst_over: false };
            hotspot.advance(&mut source, start + offset);
            hotspot.sources.push(source);
        }
        hotspot
    }

    /// Sets the next write of `source`, if a message is due at `due`.
    fn advance(&self, source: &mut Source, due: Time) {
        let next = if due >= self.burst.due && !source.burst_over {
            source.burst_over = true;
            self.burst
        } else {
            Message { due, size: self.message }
        };
        source.next = Some(next).filter(|message| message.due < self.stop);
    }

    /// The source with the earliest write; ties go to the first source.
    fn first(&self) -> Option<(Time, usize)> {
        let start = |source: &Source| Some(source.next?.due.max(source.free?));
        self.sources.iter().enumerate().filter_map(|(number, source)| Some((start(source)?, number))).min()
    }
}

impl Workload for Hotspot {
    fn next_start_time(&self) -> Option<Time> {
        self.first().map(|(start, _)| start)
    }

    fn next_flow(&mut self) -> FlowSpec {
        let (start, number) = self.first().expect("asked for a flow only while next_start gives a time");
        let mut source = std::mem::replace(
            &mut self.sources[number],
            Source { host: self.template.destination, next: None, free: None, written: 0, burst_over: true },
        );
        let message = source.next.expect("the first source has a message");
        let after_burst = message == self.burst;
        let due = if after_burst { self.burst_end } else { message.due + self.interval };
        self.advance(&mut source, due);
        source.free = None;
        let kept = KeptConnection { number: number as u32, first: source.written == 0, last: source.next.is_none() };
        source.written += 1;
        let flow =
            FlowSpec { source: source.host, size: message.size, start, kept: Some(kept), ..self.template };
        self.sources[number] = source;
        flow
    }

    /// A failed connection carries no more data.
    fn on_flow_finished(&mut self, flow: &FlowRecord, now: Time) {
        let number = flow.spec.kept.expect("every flow of this workload is on a kept connection").number;
        self.sources[number as usize].free = (flow.status == FlowStatus::Finished).then_some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_support::{assert_within, ended, make, racks, two_ports};
    use super::*;
    use crate::WorkloadKind;
    use pauseframe_units::Bytes;

    /// Four senders to "h0".
    fn spec() -> HotspotSpec {
        HotspotSpec {
            senders: 4,
            receiver: "h0".into(),
            load: 0.5,
            message: Bytes::kb(10),
            overload: 4.0,
            burst_start: Span::from_ms(1),
            burst: Span::from_us(100),
            start: Span::ZERO,
            stop: Span::from_ms(2),
        }
    }

    /// At 10 Gb/s.
    fn workload() -> Box<dyn Workload> {
        make(WorkloadKind::Hotspot(spec()), &racks(1, 6))
    }

    /// Plays a workload in which every message arrives `latency` after it was written.
    fn play(workload: &mut dyn Workload, latency: Span) -> Vec<FlowSpec> {
        let (mut flows, mut under_way) = (Vec::new(), Vec::<(Time, FlowSpec)>::new());
        loop {
            under_way.sort_by_key(|(end, _)| *end);
            let end = under_way.first().map(|(end, _)| *end);
            match workload.next_start_time() {
                Some(start) if end.is_none_or(|end| start < end) => {
                    let flow = workload.next_flow();
                    under_way.push((start + latency, flow));
                    flows.push(flow);
                }
                _ if under_way.is_empty() => return flows,
                _ => {
                    let (end, flow) = under_way.remove(0);
                    workload.on_flow_finished(&ended(flow, FlowStatus::Finished, end, 0), end);
                }
            }
        }
    }

    #[test]
    fn the_load_and_the_burst_are_offered_on_one_connection_a_source() {
        let flows = play(&mut *workload(), Span::from_us(10));
        for number in 0..4 {
            let mine: Vec<_> = flows.iter().filter(|flow| flow.kept.unwrap().number == number).collect();
            // Each sender offers 1.25 Gb/s: 10 KB every 64 us, for 1 ms before the burst and 0.9 ms after the
            // burst.
            let steady = || mine.iter().filter(|flow| flow.size == 10_000);
            let before = steady().filter(|flow| flow.start < at(Span::from_ms(1))).count();
            let after = steady().count() - before;
            assert!((15..=16).contains(&before), "{before}");
            assert_eq!(after, 15, "from 1.1 ms on, every 64 us");
            // 4 times 10 Gb/s for 100 us are 500 KB, a quarter per source.
            let burst: Vec<_> = mine.iter().filter(|flow| flow.size == 125_000).collect();
            assert_eq!((burst.len(), burst[0].start), (1, at(Span::from_ms(1))));
            assert!(mine.iter().all(|flow| flow.source == mine[0].source && flow.destination.0 == 1));
            let ends: Vec<_> =
                mine.iter().map(|flow| (flow.kept.unwrap().first, flow.kept.unwrap().last)).collect();
            assert!(ends[0].0 && ends[ends.len() - 1].1);
            assert_eq!(ends.iter().filter(|(first, last)| *first || *last).count(), 2);
        }
        assert!(flows.is_sorted_by_key(|flow| flow.start));
    }

    #[test]
    fn a_load_is_relative_to_all_ports_of_the_receiver() {
        for receiver in ["h0", "h1"] {
            let spec = HotspotSpec { receiver: receiver.into(), message: Bytes::kb(1), ..spec() };
            let mut workload = make(WorkloadKind::Hotspot(spec), &two_ports(6));
            let flows = play(&mut *workload, Span(1));
            let before = flows.iter().filter(|flow| flow.start < at(Span::from_ms(1)));
            // Half of 110 Gb/s for a millisecond.
            assert_within(before.map(|flow| flow.size as f64).sum::<f64>() / 6.875e6, 1.0, 0.001);
            let burst: Vec<u64> = flows.iter().map(|flow| flow.size).filter(|size| *size > 1000).collect();
            assert_eq!(burst, [1_375_000; 4], "4 times 110 Gb/s for 100 us are 5.5 MB, a quarter per source");
        }
    }

    #[test]
    fn what_is_due_waits_for_the_message_before_it() {
        // An interval is 64 us; a message takes 100 us.
        let flows = play(&mut *workload(), Span::from_us(100));
        let mine: Vec<_> = flows.iter().filter(|flow| flow.kept.unwrap().number == 2).collect();
        assert!(mine.windows(2).all(|pair| pair[1].start == pair[0].start + Span::from_us(100)));
        assert_eq!(mine.iter().filter(|flow| flow.size == 125_000).count(), 1);
    }
}
