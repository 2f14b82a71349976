//! A job: an application whose ranks run on hosts, with one connection for each pair of ranks that
//! communicate.
//!
//! The owner opens a connection when the first [`Transfer`] names it, keeps it open, and appends the bytes of
//! later transfers to it. The owner reports when the last byte of each transfer has arrived
//! ([`Job::on_delivered`]) and, if the transfer requests it, when all bytes have been sent
//! ([`Job::on_sent`]). Ranks on the same host exchange messages in zero time.

use crate::application::Application;
use crate::calls::OperationId;
use crate::pace::{OperationClock, OperationPace, SkippedSlices};
use crate::rank::{Message, Part};
use crate::replay::{Options, Outbox, Replay, Timer};
use pauseframe_units::{Span, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

/// Bytes to send on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transfer {
    /// Number of the connection in the job.
    pub connection: u32,
    /// The sending host, by its number in [`Job::new`].
    pub from: u32,
    /// The receiving host.
    pub to: u32,
    /// Number of bytes; at least one.
    pub bytes: u64,
    /// Token for the reports of delivery and of sending.
    pub token: u32,
    /// True if the job requests a report when all bytes have been sent.
    pub notify: bool,
}

/// An application on hosts.
#[derive(Debug)]
pub struct Job {
    replay: Replay,
    hosts: Vec<u32>,
    start: Time,
    started: bool,
    timers: BinaryHeap<Reverse<Timer>>,
    out: Outbox,
    /// Connections by the smaller and the larger rank of the pair, and their lane.
    connections: BTreeMap<(u32, u32, u16), u32>,
    /// Messages in flight, each with the number of reports (delivered, sent) that are still to come.
    under_way: Vec<(Message, u8)>,
    /// By message in flight: it goes to the rank of its rail first.
    relays: Vec<bool>,
    /// How messages leave: their cost, and the rank on each place of a server (server, rail), if data take rails.
    cost: Span,
    rails: BTreeMap<(u32, u32), u32>,
    places: Vec<(u32, u32)>,
    /// Messages that leave later, because each costs time at its sender.
    late: VecDeque<(Time, Message)>,
    free: Vec<u32>,
    transfers: VecDeque<Transfer>,
    /// Messages between ranks on the same host.
    near: VecDeque<Message>,
    messages: u64,
    bytes: u64,
}

impl Job {
    /// Makes a job with ranks on these hosts that begins at `start`.
    pub fn new(application: Arc<Application>, options: Options, hosts: Vec<u32>, start: Time) -> Job {
        debug_assert_eq!(hosts.len(), application.programs.len());
        let mut options = options;
        if options.places.is_empty() {
            options.places = hosts.iter().map(|host| (*host, 0)).collect();
        }
        let rails = if options.sending.pxn { (0..).zip(&options.places) } else { (0..).zip(&[]) };
        let rails = rails.map(|(rank, place)| (*place, rank)).collect();
        Job {
            relays: Vec::new(),
            cost: options.sending.cost,
            rails,
            places: options.places.clone(),
            late: VecDeque::new(),
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

    /// The time at which the job must be called next: its start, or the end of a computation.
    pub fn next_time(&self) -> Option<Time> {
        if !self.started {
            return Some(self.start);
        }
        let timer = self.timers.peek().map(|Reverse(timer)| timer.at);
        [timer, self.late.front().map(|(at, _)| *at)].into_iter().flatten().min()
    }

    /// Handles all timers due at `now`.
    pub fn on_time(&mut self, now: Time) {
        if !self.started && self.start <= now {
            self.started = true;
            self.replay.start(now, &mut self.out);
            self.sort(now);
        }
        while let Some((_, message)) = self.late.pop_front_if(|(at, _)| *at <= now) {
            self.send(message);
        }
        while let Some(&Reverse(timer)) = self.timers.peek().filter(|Reverse(timer)| timer.at <= now) {
            self.timers.pop();
            self.replay.on_timer(timer, now, &mut self.out);
            self.sort(now);
        }
    }

    /// Reports that the last byte of a transfer has arrived at its host.
    pub fn on_delivered(&mut self, token: u32, now: Time) {
        if std::mem::take(&mut self.relays[token as usize]) {
            self.forward(token);
            return;
        }
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

    /// The next transfer to send, in order.
    pub fn next_transfer(&mut self) -> Option<Transfer> {
        self.transfers.pop_front()
    }

    /// True if all ranks are finished and no message is in flight.
    pub fn is_over(&self) -> bool {
        let is_quiet = self.late.is_empty() && self.free.len() == self.under_way.len();
        self.started && is_quiet && self.replay.is_finished()
    }

    /// The replay of the application.
    pub fn replay(&self) -> &Replay {
        &self.replay
    }

    /// The host of each rank.
    pub fn hosts(&self) -> &[u32] {
        &self.hosts
    }

    /// The start time of the job.
    pub fn start(&self) -> Time {
        self.start
    }

    /// Number of messages and bytes sent over connections up to now.
    pub fn sent(&self) -> (u64, u64) {
        (self.messages, self.bytes)
    }

    /// Number of connections opened.
    pub fn connections(&self) -> u32 {
        self.connections.len() as u32
    }

    /// How far a rank has come in the longest operation under way that has rounds.
    pub fn operation_clock(&self) -> Option<OperationClock> {
        self.replay.operation_clock()
    }

    /// How far all collective operations have come; `None` if anything but their slices is under way.
    pub fn operation_paces(&self, now: Time) -> Option<BTreeMap<OperationId, OperationPace>> {
        let is_slice = |message: &Message| matches!(message.part, Part::Slice(_));
        let mut messages = self.under_way.iter().filter(|(_, open)| *open > 0).map(|(message, _)| message);
        let has_slices_only =
            messages.all(is_slice) && self.late.iter().all(|(_, message)| is_slice(message));
        has_slices_only.then(|| self.replay.operation_paces(now))?
    }

    /// When a rank acts for another reason than a message: the start of the job, or the end of a computation.
    pub fn next_timer(&self) -> Option<Time> {
        if self.started { self.timers.peek().map(|Reverse(timer)| timer.at) } else { Some(self.start) }
    }

    /// Leaves out so many slices of each connection of these operations, which takes `by`. Returns what would have been sent, the slices of
    /// a connection as one transfer.
    pub fn skip_slices(&mut self, slices: &BTreeMap<OperationId, u32>, by: Span) -> Vec<Transfer> {
        self.late.iter_mut().for_each(|(at, _)| *at += by);
        let mut transfers = Vec::new();
        for SkippedSlices { from, to, lane, messages, bytes } in self.replay.skip_slices(slices, by) {
            let relay = self.relay(from, to);
            let legs = [(from, relay.unwrap_or(to)), (relay.unwrap_or(to), to)];
            for (from, to) in legs.into_iter().filter(|(from, to)| from != to) {
                (self.messages, self.bytes) = (self.messages + u64::from(messages), self.bytes + bytes);
                let Some(&connection) = self.connections.get(&(from.min(to), from.max(to), lane)) else {
                    continue;
                };
                let [from, to] = [from, to].map(|rank| self.hosts[rank as usize]);
                transfers.push(Transfer { connection, from, to, bytes, token: u32::MAX, notify: false });
            }
        }
        transfers
    }

    fn happened(&mut self, token: u32) -> Message {
        let (message, open) = &mut self.under_way[token as usize];
        *open -= 1;
        if *open == 0 {
            self.free.push(token);
        }
        *message
    }

    /// Converts the requests of the ranks to timers and transfers; messages between ranks on one host are
    /// delivered at once.
    fn sort(&mut self, now: Time) {
        loop {
            let mut out = std::mem::take(&mut self.out);
            self.timers.extend(out.timers.drain(..).map(Reverse));
            for message in out.messages.drain(..) {
                if self.hosts[message.from as usize] == self.hosts[message.to as usize] {
                    self.near.push_back(message);
                } else if self.cost > Span::ZERO {
                    self.late.push_back((now.saturating_add(self.cost), message));
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
        let notify = message.notify.is_some();
        let token = self.free.pop().unwrap_or_else(|| {
            self.under_way.push((message, 0));
            self.relays.push(false);
            self.under_way.len() as u32 - 1
        });
        self.under_way[token as usize] = (message, 1 + u8::from(notify));
        let relay = if notify { None } else { self.relay(message.from, message.to) };
        self.relays[token as usize] = relay.is_some();
        self.transfer(token, message.from, relay.unwrap_or(message.to));
    }

    /// The rank on the receiver's rail in the sender's server, through whose NIC a message leaves.
    fn relay(&self, from: u32, to: u32) -> Option<u32> {
        let [from, to] = [from, to].map(|rank| self.places[rank as usize]);
        if from.0 == to.0 || from.1 == to.1 {
            return None;
        }
        self.rails.get(&(from.0, to.1)).copied()
    }

    /// Sends a message on from the rank of its rail.
    fn forward(&mut self, token: u32) {
        let message = self.under_way[token as usize].0;
        let relay = self.relay(message.from, message.to).unwrap_or(message.from);
        self.transfer(token, relay, message.to);
    }

    fn transfer(&mut self, token: u32, from: u32, to: u32) {
        let message = &self.under_way[token as usize].0;
        let next = self.connections.len() as u32;
        let pair = (from.min(to), from.max(to), message.lane());
        let connection = *self.connections.entry(pair).or_insert(next);
        let (bytes, notify) = (message.bytes.max(1), message.notify.is_some());
        (self.messages, self.bytes) = (self.messages + 1, self.bytes + bytes);
        let (from, to) = (self.hosts[from as usize], self.hosts[to as usize]);
        self.transfers.push_back(Transfer { connection, from, to, bytes, token, notify });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Pattern, Shape, generate};

    /// Runs a job on a network in which data takes one microsecond and acknowledgements two.
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
        // An announcement, an answer and the data for each message between hosts, on the connection of the
        // pair.
        assert_eq!(transfers.len(), 3 * 3 * 2);
        let between = |a, b| transfers.iter().filter(move |t| (t.from, t.to) == (a, b)).count();
        assert_eq!((between(7, 8), between(8, 7), between(8, 9)), (6, 3, 6));
        assert_eq!(transfers.iter().filter(|transfer| transfer.notify).count(), 6);
        // Six batches take 10 us each and two messages take 3 us each. The sender continues a microsecond
        // after the receiver has the message; this delays three consecutive messages before each further
        // computation.
        let waits = Span::from_us(10 * 6 + 3 * 2 + 2 * 4);
        assert_eq!(job.replay().finish(), Some(start + waits));
    }
}
