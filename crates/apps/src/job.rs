//! A job: an application whose ranks run on hosts, with one connection per communicating pair of ranks.
//!
//! The owner opens a connection for its first [`Transfer`], keeps it, and appends the bytes of further transfers. It
//! reports when the last byte of a transfer has arrived ([`Job::on_delivered`]) and, if requested, when all of it has
//! been sent ([`Job::on_sent`]). Ranks on the same host exchange messages in no time.

use crate::application::Application;
use crate::rank::Message;
use crate::replay::{Options, Outbox, Replay, Timer};
use pauseframe_units::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

/// Bytes for a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// Number of the connection in the job.
    pub connection: u32,
    /// Host (as given to [`Job::new`]) that sends.
    pub from: u32,
    /// Host that receives.
    pub to: u32,
    /// Number of bytes, at least one.
    pub bytes: u64,
    /// Returned in the reports about it.
    pub token: u32,
    /// Whether the job needs a report when the bytes have been sent.
    pub notify: bool,
}

/// An application on hosts.
#[derive(Debug)]
pub struct Job {
    replay: Replay,
    /// Host of each rank.
    hosts: Vec<u32>,
    start: Time,
    started: bool,
    timers: BinaryHeap<Reverse<Timer>>,
    out: Outbox,
    /// Sorted by the smaller and the larger rank.
    connections: BTreeMap<(u32, u32), u32>,
    /// Messages in flight, with the reports that each still expects (delivered, sent).
    under_way: Vec<(Message, u8)>,
    free: Vec<u32>,
    transfers: VecDeque<Transfer>,
    /// Messages between ranks on the same host.
    near: VecDeque<Message>,
    messages: u64,
    bytes: u64,
}

impl Job {
    /// Ranks on these hosts, from `start` on.
    pub fn new(application: Arc<Application>, options: Options, hosts: Vec<u32>, start: Time) -> Job {
        debug_assert_eq!(hosts.len(), application.programs.len());
        Job {
            replay: Replay::new(application, options),
            hosts,
            start,
            started: false,
            timers: BinaryHeap::new(),
            out: Outbox::default(),
            connections: BTreeMap::new(),
            under_way: Vec::new(),
            free: Vec::new(),
            transfers: VecDeque::new(),
            near: VecDeque::new(),
            messages: 0,
            bytes: 0,
        }
    }

    /// Time of the next call: its start, or the end of a computation.
    pub fn next_time(&self) -> Option<Time> {
        if self.started { self.timers.peek().map(|Reverse(timer)| timer.at) } else { Some(self.start) }
    }

    /// Does everything due.
    pub fn on_time(&mut self, now: Time) {
        if !self.started && self.start <= now {
            self.started = true;
            self.replay.start(now, &mut self.out);
            self.sort(now);
        }
        while let Some(&Reverse(timer)) = self.timers.peek().filter(|Reverse(timer)| timer.at <= now) {
            self.timers.pop();
            self.replay.on_timer(timer, now, &mut self.out);
            self.sort(now);
        }
    }

    /// Reports that the last byte of a transfer has arrived.
    pub fn on_delivered(&mut self, token: u32, now: Time) {
        let message = self.happened(token);
        self.replay.on_delivered(&message, now, &mut self.out);
        self.sort(now);
    }

    /// Reports that all bytes of a transfer have been sent.
    pub fn on_sent(&mut self, token: u32, now: Time) {
        let message = self.happened(token);
        self.replay.on_sent(&message, now, &mut self.out);
        self.sort(now);
    }

    /// The next bytes to send, in order.
    pub fn next_transfer(&mut self) -> Option<Transfer> {
        self.transfers.pop_front()
    }

    /// Whether all ranks have finished and no message is in flight.
    pub fn is_over(&self) -> bool {
        self.started && self.free.len() == self.under_way.len() && self.replay.is_finished()
    }

    /// The ranks.
    pub fn replay(&self) -> &Replay {
        &self.replay
    }

    /// The host of each rank.
    pub fn hosts(&self) -> &[u32] {
        &self.hosts
    }

    /// Start time.
    pub fn start(&self) -> Time {
        self.start
    }

    /// Messages and bytes sent over connections so far.
    pub fn sent(&self) -> (u64, u64) {
        (self.messages, self.bytes)
    }

    /// Connections that were opened.
    pub fn connections(&self) -> u32 {
        self.connections.len() as u32
    }

    fn happened(&mut self, token: u32) -> Message {
        let (message, open) = &mut self.under_way[token as usize];
        *open -= 1;
        if *open == 0 {
            self.free.push(token);
        }
        *message
    }

    /// Turns requests of ranks into timers and transfers; messages within a host arrive at once.
    fn sort(&mut self, now: Time) {
        loop {
            let mut out = std::mem::take(&mut self.out);
            self.timers.extend(out.timers.drain(..).map(Reverse));
            for message in out.messages.drain(..) {
                if self.hosts[message.from as usize] == self.hosts[message.to as usize] {
                    self.near.push_back(message);
                } else {
                    self.send(message);
                }
            }
            self.out = out;
            let Some(message) = self.near.pop_front() else { return };
            self.replay.on_sent(&message, now, &mut self.out);
            self.replay.on_delivered(&message, now, &mut self.out);
        }
    }

    fn send(&mut self, message: Message) {
        let pair = (message.from.min(message.to), message.from.max(message.to));
        let next = self.connections.len() as u32;
        let connection = *self.connections.entry(pair).or_insert(next);
        let notify = message.notify.is_some();
        let token = self.free.pop().unwrap_or_else(|| {
            self.under_way.push((message, 0));
            self.under_way.len() as u32 - 1
        });
        self.under_way[token as usize] = (message, 1 + u8::from(notify));
        let bytes = message.bytes.max(1);
        (self.messages, self.bytes) = (self.messages + 1, self.bytes + bytes);
        let (from, to) = (self.hosts[message.from as usize], self.hosts[message.to as usize]);
        self.transfers.push_back(Transfer { connection, from, to, bytes, token, notify });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Pattern, Shape, generate};
    use pauseframe_units::Span;

    /// A network in which everything takes a microsecond and acknowledgements two.
    fn run(mut job: Job) -> (Job, Vec<Transfer>) {
        let (mut under_way, mut all): (Vec<(Time, u32, bool)>, Vec<Transfer>) = Default::default();
        let mut now = Time::ZERO;
        while !job.is_over() {
            let due = under_way.iter().map(|&(at, ..)| at).chain(job.next_time()).min();
            now = due.expect("the job ends").max(now);
            job.on_time(now);
            under_way.sort_by_key(|&(at, ..)| at);
            while under_way.first().is_some_and(|&(at, ..)| at <= now) {
                let (_, token, come) = under_way.remove(0);
                if come { job.on_delivered(token, now) } else { job.on_sent(token, now) }
            }
            while let Some(transfer) = job.next_transfer() {
                under_way.push((now + Span::from_us(1), transfer.token, true));
                if transfer.notify {
                    under_way.push((now + Span::from_us(2), transfer.token, false));
                }
                all.push(transfer);
            }
        }
        (job, all)
    }

    #[test]
    fn pairs_have_one_connection_and_neighbours_none() {
        let shape = Shape { ranks: 4, bytes: 100_000, compute: Span::from_us(10), iterations: 3 };
        let application = Arc::new(generate(&Pattern::Pipeline, shape).unwrap());
        let start = Time::ZERO + Span::from_us(100);
        let job = Job::new(Arc::clone(&application), Options::default(), vec![7, 8, 8, 9], start);
        let (job, transfers) = run(job);
        assert_eq!(job.connections(), 2);
        // Announcement, answer and data for each message between hosts, on the connection of the pair.
        assert_eq!(transfers.len(), 3 * 3 * 2);
        let between = |a, b| transfers.iter().filter(move |t| (t.from, t.to) == (a, b)).count();
        assert_eq!((between(7, 8), between(8, 7), between(8, 9)), (6, 3, 6));
        assert_eq!(transfers.iter().filter(|transfer| transfer.notify).count(), 6);
        // Six batches of 10 us and two messages of 3 us; the sender goes on a microsecond after the receiver has the
        // message, three times in a row before it computes the next.
        let waits = Span::from_us(10 * 6 + 3 * 2 + 2 * 4);
        assert_eq!(job.replay().finish(), Some(start + waits));
    }
}
