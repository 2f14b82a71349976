//! Networks without loss and without congestion in switches. The time of a message depends on its size alone
//! (alpha-beta model), or on its size and the two NICs (like the gap per byte in `LogGP`).
//!
//! The network with shared NICs is the reference for a packet simulation: "a perfect hardware accelerated
//! transport and lossless network" (Crisan et al. 2011, §IV-D). A message is sent when its last byte has left
//! the NIC.

use crate::application::Application;
use crate::rank::{Message, Part};
use crate::replay::{Fault, Options, Outbox, Replay, Timer};
use pauseframe_units::{BitRate, Bytes, Span, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use thiserror::Error;

/// An ideal network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdealNetwork {
    /// Time of a message of zero bytes (alpha).
    pub latency: Span,
    /// Rate in bits per second; its inverse is beta.
    pub rate: BitRate,
    /// The resources that messages share: none, or the NICs at both ends.
    pub sharing: Sharing,
}

/// Where the ranks are in an ideal network.
pub struct Places<'a> {
    /// The host of each rank; without hosts each rank has its own. Ranks of a host share its NIC, and their messages take no time.
    pub hosts: &'a [u32],
    /// Additional latency between two ranks of different hosts, beyond the latency of the network.
    pub way: &'a mut dyn FnMut(u32, u32) -> Span,
}

/// The resources that messages share in an ideal network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// Messages share nothing: each takes the latency plus its size divided by the rate.
    Nothing,
    /// The NIC of a host sends one message after the other, and receives one message after the other.
    Nics,
}

/// Reasons why a replay did not finish.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ReplayError {
    /// Ranks wait for messages that will never arrive.
    #[error("{name}: {} of {ranks} ranks wait for ever:\n{}", stuck.len(), listed(stuck))]
    Stuck {
        /// Name of the application.
        name: String,
        /// Number of ranks of the application.
        ranks: u32,
        /// The ranks that wait.
        stuck: Vec<Fault>,
    },
    /// The trace breaks the rules of MPI.
    #[error("{name}: {}", listed(faults))]
    Faults {
        /// Name of the application.
        name: String,
        /// The violations of MPI rules, with their places.
        faults: Vec<Fault>,
    },
    /// Messages arrive that no receive accepts (MPI 4.0 §11.2.2 requires all communication to be complete at
    /// the end).
    #[error("{name}: messages come that nobody receives:\n{}", listed(left))]
    Unreceived {
        /// Name of the application.
        name: String,
        /// The ranks that unreceived messages reached.
        left: Vec<Fault>,
    },
    /// The replay would exceed the range of the clock.
    #[error("{name}: takes longer than {}", Span(LONGEST.0))]
    TooLong {
        /// Name of the application.
        name: String,
    },
    /// The caller stopped the replay.
    #[error("stopped")]
    Stopped,
}

impl ReplayError {
    /// The faults of each rank.
    pub fn faults(&self) -> &[Fault] {
        match self {
            ReplayError::Stuck { stuck: faults, .. }
            | ReplayError::Faults { faults, .. }
            | ReplayError::Unreceived { left: faults, .. } => faults,
            ReplayError::TooLong { .. } | ReplayError::Stopped => &[],
        }
    }
}

/// Half of the range of the clock, so that the sum of a time and a span cannot overflow.
const LONGEST: Time = Time(u64::MAX / 2);
/// Number of events between two checks whether the caller wants to continue: some milliseconds.
const LOOK_EVERY: u64 = 1 << 14;

/// Formats the first lines of a list of faults.
fn listed(faults: &[Fault]) -> String {
    let mut lines: Vec<String> = faults.iter().take(10).map(|fault| format!("  {fault}")).collect();
    if faults.len() > 10 {
        lines.push(format!("  and {} more", faults.len() - 10));
    }
    lines.join("\n")
}

/// Checks that a replay finished and broke no rule.
///
/// # Errors
/// The messages that ranks wait for, or the rules that ranks broke.
pub fn verdict(replay: &Replay) -> Result<(), ReplayError> {
    let name = replay.application().name.clone();
    let faults: Vec<Fault> = replay.faults().cloned().collect();
    if !faults.is_empty() {
        return Err(ReplayError::Faults { name, faults });
    }
    let stuck = replay.stuck();
    if !stuck.is_empty() {
        return Err(ReplayError::Stuck { name, ranks: replay.application().ranks(), stuck });
    }
    let left = replay.unreceived();
    if !left.is_empty() {
        return Err(ReplayError::Unreceived { name, left });
    }
    Ok(())
}

/// An event of the ideal network; simultaneous events happen in the order of these fields.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Time,
    what: What,
    /// Index of the message of the event, or token of the timer.
    index: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Sent,
    /// The first byte is at the receiving NIC.
    Arriving,
    Delivered,
    Timer(u32),
}

/// The state of the ideal network.
struct Carrier<'a> {
    network: IdealNetwork,
    /// Additional latency between two ranks of different hosts.
    way: &'a mut dyn FnMut(u32, u32) -> Span,
    queue: BinaryHeap<Reverse<Due>>,
    /// Messages in flight, and free entries.
    messages: Vec<(Message, u8)>,
    free: Vec<u32>,
    count: u64,
    /// The host of each rank.
    hosts: Vec<u32>,
    /// By host: the times at which its NIC finishes sending and receiving.
    nics: Vec<[Time; 2]>,
    /// For each sender, receiver and matching key, the arrival time of the last message.
    last: BTreeMap<(u32, u32, u32, i32), Time>,
    /// True if wildcard receives exist; all messages between two ranks then stay in order.
    by_pair: bool,
}

/// Runs an application on an ideal network.
///
/// # Errors
/// If ranks wait for ever, or break the rules of MPI.
pub fn run(
    application: Arc<Application>,
    options: Options,
    network: IdealNetwork,
) -> Result<Replay, ReplayError> {
    let places = Places { hosts: &[], way: &mut |_, _| Span::ZERO };
    run_watched(application, options, network, places, &mut || true)
}

/// Runs an application on an ideal network whose ranks have these places. Every few milliseconds `go_on` tells whether to
/// continue.
///
/// # Errors
/// The errors of [`run`], and [`ReplayError::Stopped`].
pub fn run_watched(
    application: Arc<Application>,
    options: Options,
    network: IdealNetwork,
    places: Places,
    go_on: &mut dyn FnMut() -> bool,
) -> Result<Replay, ReplayError> {
    let Places { hosts, way } = places;
    let own = 0..application.programs.len() as u32;
    let hosts: Vec<u32> = if hosts.is_empty() { own.collect() } else { hosts.to_vec() };
    let mut carrier = Carrier {
        network,
        way,
        queue: BinaryHeap::new(),
        messages: Vec::new(),
        free: Vec::new(),
        count: 0,
        nics: vec![[Time::ZERO; 2]; hosts.iter().max().map_or(0, |last| *last as usize + 1)],
        hosts,
        last: BTreeMap::new(),
        by_pair: application.has_wildcards(),
    };
    let mut replay = Replay::new(application, options);
    let mut out = Outbox::default();
    replay.start(Time::ZERO, &mut out);
    carrier.take(&mut out, Time::ZERO);
    let mut happened = 0_u64;
    while let Some(Reverse(due)) = carrier.queue.pop() {
        happened += 1;
        if happened.is_multiple_of(LOOK_EVERY) && !go_on() {
            return Err(ReplayError::Stopped);
        }
        if due.at > LONGEST {
            return Err(ReplayError::TooLong { name: replay.application().name.clone() });
        }
        match due.what {
            What::Timer(rank) => {
                replay.on_timer(Timer { at: due.at, rank, token: due.index as u32 }, due.at, &mut out);
            }
            What::Sent => replay.on_sent(&carrier.release(due.index), due.at, &mut out),
            What::Arriving => carrier.accept(due.index, due.at),
            What::Delivered => replay.on_delivered(&carrier.release(due.index), due.at, &mut out),
        }
        carrier.take(&mut out, due.at);
    }
    verdict(&replay).map(|()| replay)
}

impl Carrier<'_> {
    /// Schedules the timers and messages that the ranks requested.
    fn take(&mut self, out: &mut Outbox, now: Time) {
        for timer in out.timers.drain(..) {
            let due = Due { at: timer.at, what: What::Timer(timer.rank), index: u64::from(timer.token) };
            self.queue.push(Reverse(due));
        }
        for message in out.messages.drain(..) {
            let wire = self.wire_time(&message);
            let sent = self.start(&message, wire, now).saturating_add(wire);
            let place = self.free.pop().unwrap_or_else(|| {
                self.messages.push((message, 0));
                self.messages.len() as u32 - 1
            });
            self.messages[place as usize] = (message, 1 + u8::from(message.notify.is_some()));
            // The counter keeps messages with equal times in order.
            self.count += 1;
            let index = self.count << 32 | u64::from(place);
            let mut first = Time(sent.0 - wire.0);
            if !self.is_local(&message) {
                let way = (self.way)(message.from, message.to);
                first = first.saturating_add(self.network.latency).saturating_add(way);
            }
            self.queue.push(Reverse(Due { at: first, what: What::Arriving, index }));
            if message.notify.is_some() {
                self.queue.push(Reverse(Due { at: sent, what: What::Sent, index }));
            }
        }
    }

    fn is_local(&self, message: &Message) -> bool {
        self.hosts[message.from as usize] == self.hosts[message.to as usize]
    }

    /// The time of a message on the wire.
    fn wire_time(&self, message: &Message) -> Span {
        if self.is_local(message) { Span::ZERO } else { self.network.rate.serialise(Bytes(message.bytes)) }
    }

    /// Whether a message occupies NICs.
    fn takes_nics(&self, message: &Message) -> bool {
        self.network.sharing == Sharing::Nics && !self.is_local(message)
    }

    /// When a message begins to leave.
    fn start(&mut self, message: &Message, wire: Span, now: Time) -> Time {
        if !self.takes_nics(message) {
            return now;
        }
        let [free, _] = &mut self.nics[self.hosts[message.from as usize] as usize];
        let start = now.max(*free);
        *free = start.saturating_add(wire);
        start
    }

    /// The receiving NIC accepts a message whose first byte has arrived (cut-through) when it has accepted those that came before.
    fn accept(&mut self, index: u64, now: Time) {
        let message = self.messages[index as u32 as usize].0;
        let Message { from, to, part, .. } = message;
        let wire = self.wire_time(&message);
        let mut delivered = now.saturating_add(wire);
        if self.takes_nics(&message) {
            let [_, free] = &mut self.nics[self.hosts[to as usize] as usize];
            delivered = now.max(*free).saturating_add(wire);
            *free = delivered;
        }
        if let Part::Eager(envelope) | Part::Announce { envelope, .. } = part {
            let (context, tag) = if self.by_pair { (0, 0) } else { (envelope.context, envelope.tag) };
            let last = self.last.entry((from, to, context, tag)).or_default();
            delivered = delivered.max(*last);
            *last = delivered;
        }
        self.queue.push(Reverse(Due { at: delivered, what: What::Delivered, index }));
    }

    /// Returns the message of an event; frees its entry after its last event.
    fn release(&mut self, index: u64) -> Message {
        let place = index as u32;
        let (message, events) = &mut self.messages[place as usize];
        *events -= 1;
        if *events == 0 {
            self.free.push(place);
        }
        *message
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::Algorithm;
    use crate::generate::{Pattern, Shape, generate};

    const NETWORK: IdealNetwork =
        IdealNetwork { latency: Span::from_us(1), rate: BitRate::gbps(10), sharing: Sharing::Nics };

    #[test]
    fn who_does_not_want_to_wait_is_heard() {
        let shape = Shape { ranks: 32, bytes: 100, compute: Span::from_us(1), iterations: 2000 };
        let application = Arc::new(generate(&Pattern::Pipeline, shape).unwrap());
        let mut asked = 0;
        let mut patience = |most: u32| {
            asked += 1;
            asked <= most
        };
        let stopped = run_watched(
            Arc::clone(&application),
            Options::default(),
            NETWORK,
            Places { hosts: &[], way: &mut |_, _| Span::ZERO },
            &mut || patience(1),
        );
        assert_eq!(stopped.unwrap_err(), ReplayError::Stopped);
        let patient = run_watched(
            application,
            Options::default(),
            NETWORK,
            Places { hosts: &[], way: &mut |_, _| Span::ZERO },
            &mut || patience(u32::MAX),
        );
        assert!(patient.is_ok());
        assert!(asked > 4, "{asked}");
    }

    /// Each rank begins with the next one, so no two messages come to a rank at once: nobody waits but for its own NIC.
    #[test]
    fn a_rotated_exchange_takes_as_long_as_one_nic() {
        let shape = Shape { ranks: 32, bytes: 4000, compute: Span::ZERO, iterations: 1 };
        let application = Arc::new(generate(&Pattern::AllToAll(Some(Algorithm::Direct)), shape).unwrap());
        let options = Options { envelope: 0, ..Options::default() };
        let replay = run(application, options, NETWORK).unwrap();
        let expected = Span(31 * NETWORK.rate.serialise(Bytes(4000)).0) + NETWORK.latency;
        assert_eq!(replay.finish(), Some(Time::ZERO + expected));
    }

    #[test]
    fn ranks_that_are_farther_apart_wait_longer() {
        let shape = Shape { ranks: 3, bytes: 1000, compute: Span::ZERO, iterations: 1 };
        let application = Arc::new(generate(&Pattern::Pipeline, shape).unwrap());
        let options = Options { envelope: 0, ..Options::default() };
        let mut way = |from: u32, to: u32| Span::from_us(u64::from(10 * from + to));
        let replay =
            run_watched(application, options, NETWORK, Places { hosts: &[], way: &mut way }, &mut || true)
                .unwrap();
        // From rank 0 to 1 and from 1 to 2: 0.8 us for the bytes, 1 us latency, and the additional latency.
        let expected = Span::from_ns(2 * 1800) + Span::from_us(1 + 12);
        assert_eq!(replay.finish(), Some(Time::ZERO + expected));
    }

    #[test]
    fn ranks_of_a_host_share_its_nic_and_exchange_messages_at_once() {
        let time = |hosts: &[u32]| {
            let shape = Shape { ranks: 4, bytes: 4000, compute: Span::ZERO, iterations: 1 };
            let application = Arc::new(generate(&Pattern::AllToAll(Some(Algorithm::Direct)), shape).unwrap());
            let options = Options { envelope: 0, ..Options::default() };
            let places = Places { hosts, way: &mut |_, _| Span::ZERO };
            let replay = run_watched(application, options, NETWORK, places, &mut || true).unwrap();
            replay.finish().unwrap() - Time::ZERO
        };
        let message = NETWORK.rate.serialise(Bytes(4000));
        assert_eq!(time(&[]), message * 3 + NETWORK.latency);
        assert_eq!(time(&[7, 2, 5, 3]), message * 3 + NETWORK.latency);
        // Each NIC sends two messages of each of its two ranks, and the others stay in the host.
        assert_eq!(time(&[7, 7, 2, 2]), message * 4 + NETWORK.latency);
        assert_eq!(time(&[7, 7, 7, 7]), Span::ZERO);
    }

    #[test]
    fn what_takes_longer_than_the_clock_goes_is_refused() {
        let shape = Shape { ranks: 2, bytes: 8, compute: Span::from_secs(1_000_000), iterations: 30 };
        let application = Arc::new(generate(&Pattern::Pipeline, shape).unwrap());
        let error = run(application, Options::default(), NETWORK).unwrap_err();
        assert!(matches!(error, ReplayError::TooLong { .. }), "{error}");
    }
}
