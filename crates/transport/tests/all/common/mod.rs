//! A wire between two connections, for tests: a fixed delay each way, no bandwidth limit, and a hook that decides what
//! becomes of each segment. Deterministic; times are exact.
#![allow(dead_code, unreachable_pub, clippy::allow_attributes, reason = "each test file uses a part of it")]

pub mod script;

use pauseframe_transport::*;
use pauseframe_units::{Span, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

pub const MSS: u64 = 1000;

/// Plain settings: NewReno without SACK, ACK every segment, no handshake.
pub fn config() -> TcpConfig {
    TcpConfig {
        mss: MSS as u32,
        initial_window: 10 * MSS,
        rto: RtoConfig { initial: Span::from_ms(100), min: Span::from_ms(10), ..TcpConfig::PLAIN.rto },
        ..TcpConfig::PLAIN
    }
}

/// The same with DCTCP at both ends.
pub fn dctcp() -> TcpConfig {
    TcpConfig {
        congestion_control: CongestionControlConfig::Dctcp(DctcpConfig::default()),
        ecn: EcnMode::Dctcp,
        ..config()
    }
}

/// A segment as it leaves an end.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    pub at: Time,
    /// The end that sent it: 0 opened, 1 accepted.
    pub from: usize,
    /// How many this end had sent before.
    pub index: usize,
    pub segment: Segment,
    pub codepoint: EcnCodepoint,
}

/// What the wire does with a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    Deliver,
    Drop,
    /// Congestion experienced, if it is ECN-capable.
    Mark,
    /// Arrives later than others by this much.
    Late(Span),
    /// Arrives twice, the second time later by this much.
    Twice(Span),
    /// Arrives with a window of zero.
    Closed,
    /// Arrives with an acknowledgement of what was never sent.
    WildAck,
}

pub type Hook<'a> = Box<dyn FnMut(&Sent) -> Fate + 'a>;

/// Two connections and what is between them.
pub struct Wire<'a> {
    pub ends: [Connection; 2],
    pub now: Time,
    pub log: Vec<Sent>,
    delay: Span,
    flying: BTreeMap<(Time, u64), (usize, Segment, EcnCodepoint)>,
    count: u64,
    sent: [usize; 2],
    hook: Hook<'a>,
}

impl<'a> Wire<'a> {
    pub fn new(config: TcpConfig, delay: Span, hook: impl FnMut(&Sent) -> Fate + 'a) -> Wire<'a> {
        Wire::with_iss(config, delay, 1_000, 2_000, hook)
    }

    pub fn with_iss(
        config: TcpConfig,
        delay: Span,
        iss: u32,
        peer_iss: u32,
        hook: impl FnMut(&Sent) -> Fate + 'a,
    ) -> Wire<'a> {
        let config = Arc::new(config);
        Wire {
            ends: [
                Connection::open(config.clone(), iss, peer_iss, Time::ZERO),
                Connection::accept(config, peer_iss, iss),
            ],
            now: Time::ZERO,
            log: Vec::new(),
            delay,
            flying: BTreeMap::new(),
            count: 0,
            sent: [0, 0],
            hook: Box::new(hook),
        }
    }

    /// Hands data to an end and lets it send.
    pub fn send(&mut self, end: usize, bytes: u64) {
        self.ends[end].write(bytes, self.now);
        self.poll(end);
    }

    /// The application of an end has nothing more to send.
    pub fn close(&mut self, end: usize) {
        self.ends[end].close(self.now);
        self.poll(end);
    }

    fn poll(&mut self, from: usize) {
        let mut burst = 0;
        while let Some((segment, codepoint)) = self.ends[from].poll_transmit(self.now) {
            burst += 1;
            assert!(burst < 100_000, "poll_transmit does not come to an end");
            let sent = Sent { at: self.now, from, index: self.sent[from], segment, codepoint };
            self.sent[from] += 1;
            self.log.push(sent);
            let arrival = self.now + self.delay;
            match (self.hook)(&sent) {
                Fate::Deliver => self.fly(arrival, sent, codepoint),
                Fate::Drop => {}
                Fate::Mark if codepoint == EcnCodepoint::NotEct => self.fly(arrival, sent, codepoint),
                Fate::Mark => self.fly(arrival, sent, EcnCodepoint::Ce),
                Fate::Closed => {
                    let segment = Segment { window: 0, ..segment };
                    self.fly(arrival, Sent { segment, ..sent }, codepoint);
                }
                Fate::WildAck => {
                    let segment = Segment { ack: segment.ack.wrapping_add(1 << 30), ..segment };
                    self.fly(arrival, Sent { segment, ..sent }, codepoint);
                }
                Fate::Late(span) => self.fly(arrival + span, sent, codepoint),
                Fate::Twice(span) => {
                    self.fly(arrival, sent, codepoint);
                    self.fly(arrival + span, sent, codepoint);
                }
            }
        }
    }

    fn fly(&mut self, arrival: Time, sent: Sent, codepoint: EcnCodepoint) {
        self.flying.insert((arrival, self.count), (1 - sent.from, sent.segment, codepoint));
        self.count += 1;
    }

    /// Does the next thing that happens; false if nothing will.
    pub fn step(&mut self) -> bool {
        let arrival = self.flying.keys().next().copied();
        let timer = (0..2).filter_map(|end| Some((self.ends[end].deadline()?, end))).min();
        match (arrival, timer) {
            (Some(key), timer) if timer.is_none_or(|(at, _)| key.0 <= at) => {
                self.now = key.0;
                let (end, segment, codepoint) = self.flying.remove(&key).expect("just seen");
                self.ends[end].on_segment(&segment, codepoint, self.now);
                self.poll(end);
            }
            (_, Some((at, end))) => {
                assert!(at >= self.now, "a deadline in the past");
                self.now = at;
                self.ends[end].on_timeout(at);
                assert!(
                    self.ends[end].deadline() != Some(at) || self.delay == Span::ZERO,
                    "a timer that stays"
                );
                self.poll(end);
            }
            _ => return false,
        }
        true
    }

    /// Runs until nothing is left to happen.
    pub fn run(&mut self) {
        let mut steps = 0;
        while self.step() {
            steps += 1;
            assert!(steps < 1_000_000, "no end in sight");
        }
    }

    /// Runs until everything up to `until` has happened.
    pub fn run_until(&mut self, until: Time) {
        while self.next_at().is_some_and(|at| at <= until) {
            self.step();
        }
        self.now = until;
    }

    /// Runs until `end` has delivered `bytes` and returns when that was.
    pub fn run_until_delivered(&mut self, end: usize, bytes: u64) -> Time {
        while self.ends[end].delivered_bytes() < bytes {
            assert!(self.step(), "stalled at {} of {bytes} bytes", self.ends[end].delivered_bytes());
        }
        self.now
    }

    fn next_at(&self) -> Option<Time> {
        let arrival = self.flying.keys().next().map(|key| key.0);
        let timers = self.ends.iter().filter_map(Connection::deadline);
        arrival.into_iter().chain(timers).min()
    }
}

/// `n` microseconds after the start.
pub fn us(n: u64) -> Time {
    Time(n * 1_000_000)
}
