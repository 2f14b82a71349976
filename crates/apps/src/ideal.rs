//! Networks that lose nothing and whose switches never fill: the time of a message depends on its size alone
//! (alpha-beta), or on its size and the two NICs (as `LogGP`'s gap per byte).
//!
//! The second is the reference of a run: "a perfect hardware accelerated transport and lossless network" (Crisan et al.
//! 2011, §IV-D). A message is gone when its last byte has left.

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
    /// Time of a message of no bytes (alpha).
    pub latency: Span,
    /// Bytes take this long (beta).
    pub rate: BitRate,
    /// Messages share nothing, or the NICs at both ends.
    pub sharing: Sharing,
}

/// What messages of an ideal network share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sharing {
    /// Nothing: the time of each is latency and size over rate.
    Nothing,
    /// The NIC of a rank sends one message after the other, and receives one after the other.
    Nics,
}

/// Why a replay did not finish.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum ReplayError {
    /// Ranks wait for things that will not come.
    #[error("{name}: {} of {ranks} ranks wait for ever:\n{}", stuck.len(), listed(stuck))]
    Stuck {
        /// The application.
        name: String,
        /// How many ranks it has.
        ranks: u32,
        /// Those that wait.
        stuck: Vec<Fault>,
    },
    /// The trace breaks the rules of MPI.
    #[error("{name}: {}", listed(faults))]
    Faults {
        /// The application.
        name: String,
        /// Where and how.
        faults: Vec<Fault>,
    },
}

/// The first lines of a list of faults.
fn listed(faults: &[Fault]) -> String {
    let mut lines: Vec<String> = faults.iter().take(10).map(|fault| format!("  {fault}")).collect();
    if faults.len() > 10 {
        lines.push(format!("  and {} more", faults.len() - 10));
    }
    lines.join("\n")
}

/// The replay that ran, if it finished and broke no rule.
///
/// # Errors
/// What the ranks wait for, or what they did.
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
    Ok(())
}

/// What can happen. Simultaneous things happen in the order of their fields.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Time,
    what: What,
    /// Position of the message, or the timer's token.
    index: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Sent,
    Delivered,
    Timer(u32),
}

/// The network at work.
struct Carrier {
    network: IdealNetwork,
    queue: BinaryHeap<Reverse<Due>>,
    /// Messages under way, and free places.
    messages: Vec<(Message, u8)>,
    free: Vec<u32>,
    count: u64,
    /// By rank: when its NIC has sent, has received what it was given.
    nics: Vec<[Time; 2]>,
    /// When the last message that matching looks at came, by sender and receiver, and by what tells them apart.
    last: BTreeMap<(u32, u32, u32, i32), Time>,
    /// Receives with wildcards tell messages by their order alone.
    by_pair: bool,
}

/// Runs an application on an ideal network.
///
/// # Errors
/// What ranks wait for if they wait for ever; what breaks the rules of MPI.
pub fn run(
    application: Arc<Application>,
    options: Options,
    network: IdealNetwork,
) -> Result<Replay, ReplayError> {
    let mut carrier = Carrier {
        network,
        queue: BinaryHeap::new(),
        messages: Vec::new(),
        free: Vec::new(),
        count: 0,
        nics: vec![[Time::ZERO; 2]; application.programs.len()],
        last: BTreeMap::new(),
        by_pair: application.has_wildcards(),
    };
    let mut replay = Replay::new(application, options);
    let mut out = Outbox::default();
    replay.start(Time::ZERO, &mut out);
    carrier.take(&mut out, Time::ZERO);
    while let Some(Reverse(due)) = carrier.queue.pop() {
        match due.what {
            What::Timer(rank) => {
                replay.on_timer(Timer { at: due.at, rank, token: due.index as u32 }, due.at, &mut out);
            }
            What::Sent => replay.on_sent(&carrier.release(due.index), due.at, &mut out),
            What::Delivered => replay.on_delivered(&carrier.release(due.index), due.at, &mut out),
        }
        carrier.take(&mut out, due.at);
    }
    verdict(&replay).map(|()| replay)
}

impl Carrier {
    /// Does what the ranks want.
    fn take(&mut self, out: &mut Outbox, now: Time) {
        for timer in out.timers.drain(..) {
            let due = Due { at: timer.at, what: What::Timer(timer.rank), index: u64::from(timer.token) };
            self.queue.push(Reverse(due));
        }
        for message in out.messages.drain(..) {
            let (sent, delivered) = self.times(&message, now);
            let place = self.free.pop().unwrap_or_else(|| {
                self.messages.push((message, 0));
                self.messages.len() as u32 - 1
            });
            self.messages[place as usize] = (message, 1 + u8::from(message.notify.is_some()));
            // The count keeps the order of messages that are due together.
            self.count += 1;
            let index = self.count << 32 | u64::from(place);
            self.queue.push(Reverse(Due { at: delivered, what: What::Delivered, index }));
            if message.notify.is_some() {
                self.queue.push(Reverse(Due { at: sent, what: What::Sent, index }));
            }
        }
    }

    /// When a message has left, and when it is there.
    fn times(&mut self, message: &Message, now: Time) -> (Time, Time) {
        let Message { from, to, bytes, .. } = *message;
        let (latency, wire) = (self.network.latency, self.network.rate.serialise(Bytes(bytes)));
        let (sent, mut delivered) = match self.network.sharing {
            Sharing::Nothing => (now + wire, now + wire + latency),
            Sharing::Nics => {
                let start = now.max(self.nics[from as usize][0]);
                self.nics[from as usize][0] = start + wire;
                // Cut through: the receiving NIC takes the first byte as soon as it is there and it is free.
                let first = (start + latency).max(self.nics[to as usize][1]);
                self.nics[to as usize][1] = first + wire;
                (start + wire, first + wire)
            }
        };
        if let Part::Eager(envelope) | Part::Announce { envelope, .. } = message.part {
            let (context, tag) = if self.by_pair { (0, 0) } else { (envelope.context, envelope.tag) };
            let last = self.last.entry((from, to, context, tag)).or_default();
            delivered = delivered.max(*last);
            *last = delivered;
        }
        (sent, delivered)
    }

    /// A message of which one event has happened.
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
