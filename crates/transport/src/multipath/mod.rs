//! One end of an MPTCP connection (RFC 8684), sans-IO, as in Linux 6.1 (`net/mptcp/protocol.c`): which subflow carries which data, and what has arrived of
//! all of them. Each subflow is a [`Connection`] with its own window and loss recovery.
//!
//! The host calls [`MultipathConnection::observe`] after events of a subflow, writes what [`MultipathConnection::next_assignment`] names to the subflows, and calls
//! [`MultipathConnection::on_timeout`] at [`MultipathConnection::deadline`]. Left out: the receive window of the whole connection (each subflow has its own), backup
//! subflows, checksums, and `DATA_ACK`s as packets: data count as acknowledged when their subflow has them acknowledged.

mod mappings;

pub use mappings::MappingsOnTheWire;

use crate::cc::Coupling;
use crate::connection::{Connection, ConnectionFailure};
use mappings::{DataSet, Mappings};
use pauseframe_units::{Span, Time};
use std::sync::Arc;

/// `MPTCP_SEND_BURST_SIZE`: data that a subflow gets before the next is chosen.
const BURST: u64 = 65_428;
/// A fragment of the send queue, which is sent again as a whole (`mptcp_page_frag_refill`).
const FRAGMENT: u64 = 32_768;
/// `stale_loss_cnt`: a subflow that has been silent for more retransmission intervals is not used.
const STALE_AFTER: u32 = 4;

/// What the connection knows of a subflow.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SubflowView {
    /// Data can be sent on it.
    pub is_established: bool,
    /// Nothing is unsent, unacknowledged or to be acknowledged.
    pub is_quiescent: bool,
    /// Written and acknowledged bytes, and bytes sent at least once.
    pub written: u64,
    /// The same.
    pub acked: u64,
    /// The same.
    pub sent: u64,
    /// Bytes of the peer that are in order.
    pub delivered: u64,
    /// Bytes that the send buffer holds, with overhead (`sk_wmem_queued`), and bytes until it is full.
    pub queued: u64,
    /// The same.
    pub room: u64,
    /// `sk_pacing_rate` in bytes per second; `None` before the first round trip.
    pub pacing_rate: Option<u64>,
    /// When its retransmission timer expires; [`Time::MAX`]: it is off.
    pub rto_deadline: Time,
    /// Congestion window in bytes, and smoothed round-trip time.
    pub cwnd: u64,
    /// The same; zero before the first sample.
    pub srtt: Span,
}

/// A subflow as this end sees it.
#[derive(Debug)]
struct Subflow {
    view: SubflowView,
    /// Its unacknowledged data.
    unacked: Mappings,
    /// What the peer reads of them, and what this end reads of the peer's.
    outgoing: Arc<MappingsOnTheWire>,
    incoming: Arc<MappingsOnTheWire>,
    /// `avg_pacing_rate`; 0: unknown.
    average_rate: u64,
    /// Retransmission intervals without a word from the peer, and what had come at the last.
    silent: u32,
    heard: [u64; 2],
    is_stale: bool,
    was_established: bool,
    is_gone: bool,
}

impl Subflow {
    fn is_active(&self) -> bool {
        self.view.is_established && !self.is_stale && !self.is_gone
    }

    /// What has come from the peer: acknowledgements and data.
    fn heard_now(&self) -> [u64; 2] {
        [self.view.acked, self.view.delivered]
    }

    /// `mptcp_pm_subflow_chk_stale`; true if it has just become stale, if others are left.
    fn count_silence(&mut self, has_alternative: bool) -> bool {
        let heard = self.heard_now();
        if self.silent == 0 {
            (self.silent, self.heard) = (1, heard);
            return false;
        }
        if self.heard != heard {
            (self.silent, self.is_stale) = (0, false);
            return false;
        }
        self.silent = self.silent.saturating_add(1);
        let becomes = self.silent > STALE_AFTER && has_alternative && !self.is_stale;
        self.is_stale |= becomes;
        becomes
    }
}

/// Bytes for a subflow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Assignment {
    /// Its number.
    pub subflow: usize,
    /// Bytes to write to it.
    pub bytes: u64,
}

/// One end of a connection over several subflows.
#[derive(Debug)]
pub struct MultipathConnection {
    subflows: Vec<Subflow>,
    /// End of the application's data, of what has been given to subflows, and of what they got before it waited for others again.
    written: u64,
    assigned: u64,
    highest: u64,
    /// Bytes below which all have been sent, when that was last asked.
    sent: u64,
    /// A fragment that goes to a subflow again.
    repeated: Option<(usize, std::ops::Range<u64>)>,
    acked: DataSet,
    received: DataSet,
    /// The subflow of the last burst, and the bytes that it has not used up.
    last: usize,
    burst: u64,
    /// `rto_min`.
    least_timeout: Span,
    /// When the retransmission timer of the connection expires; [`Time::MAX`]: it is off.
    retransmit_at: Time,
    is_closing: bool,
    failure: Option<ConnectionFailure>,
}

impl MultipathConnection {
    /// An end with the mappings of each subflow: those that it writes and those that it reads.
    pub fn new(
        mappings: impl Iterator<Item = [Arc<MappingsOnTheWire>; 2]>,
        least_timeout: Span,
    ) -> MultipathConnection {
        let subflow = |[outgoing, incoming]: [Arc<MappingsOnTheWire>; 2]| Subflow {
            view: SubflowView::default(),
            unacked: Mappings::default(),
            outgoing,
            incoming,
            average_rate: 0,
            silent: 0,
            heard: [0; 2],
            is_stale: false,
            was_established: false,
            is_gone: false,
        };
        MultipathConnection {
            subflows: mappings.map(subflow).collect(),
            written: 0,
            assigned: 0,
            highest: 0,
            sent: 0,
            repeated: None,
            acked: DataSet::default(),
            received: DataSet::default(),
            last: 0,
            burst: 0,
            least_timeout,
            retransmit_at: Time::MAX,
            is_closing: false,
            failure: None,
        }
    }

    /// Number of subflows, open or gone.
    pub fn subflow_count(&self) -> usize {
        self.subflows.len()
    }

    /// Whether further subflows can be opened.
    pub fn is_first_established(&self) -> bool {
        self.subflows.first().is_some_and(|first| first.view.is_established)
    }

    /// The application writes `bytes`.
    pub fn write(&mut self, bytes: u64) {
        self.written = self.written.saturating_add(bytes);
    }

    /// The application closes; `discards`: data that no subflow has are dropped.
    pub fn close(&mut self, discards: bool) {
        self.is_closing = true;
        if discards {
            self.written = self.highest;
        }
    }

    /// Whether all is acknowledged and the application has closed: subflows can be closed.
    pub fn may_close_subflows(&self) -> bool {
        self.is_closing && self.acked.first == self.written
    }

    /// In-order bytes of the peer.
    pub fn delivered_bytes(&self) -> u64 {
        self.received.first
    }

    /// Bytes that the peer has in order.
    pub fn acked_bytes(&self) -> u64 {
        self.acked.first
    }

    /// Bytes below which all have been sent, whether or not they wait to be sent again.
    pub fn sent_bytes(&self) -> u64 {
        self.sent
    }

    fn update_sent_bytes(&mut self) {
        let unsent = |subflow: &Subflow| subflow.unacked.data_at(subflow.view.sent);
        let first = self.subflows.iter().filter(|subflow| !subflow.is_gone).filter_map(unsent).min();
        self.sent = self.sent.max(first.unwrap_or(self.assigned).min(self.assigned));
    }

    /// Whether nothing is pending here or at a subflow.
    pub fn is_quiescent(&self) -> bool {
        self.acked.first == self.written
            && self.subflows.iter().all(|subflow| subflow.is_gone || subflow.view.is_quiescent)
    }

    /// Why it failed, if all its subflows are gone before its end.
    pub fn failure(&self) -> Option<ConnectionFailure> {
        self.failure
    }

    /// Takes in what has happened at a subflow; returns bytes of the peer that are new.
    pub fn observe(&mut self, number: usize, view: SubflowView) -> u64 {
        let subflow = &mut self.subflows[number];
        subflow.view = view;
        subflow.was_established |= view.is_established;
        if subflow.is_stale && subflow.heard != subflow.heard_now() {
            (subflow.is_stale, subflow.silent) = (false, 0);
        }
        let before = self.acked.first;
        subflow.unacked.take_before(view.acked, |data| {
            self.acked.insert(data);
        });
        let mut new = 0;
        subflow.incoming.take_before(view.delivered, |data| new += self.received.insert(data));
        if self.acked.first > before {
            self.retransmit_at = Time::MAX;
            self.assigned = self.assigned.max(self.acked.first);
        }
        self.update_sent_bytes();
        new
    }

    /// A subflow has failed or its peer has: other subflows send what it had (`__mptcp_close_ssk`).
    pub fn lose_subflow(&mut self, number: usize, failure: ConnectionFailure) {
        let subflow = &mut self.subflows[number];
        if std::mem::replace(&mut subflow.is_gone, true) {
            return;
        }
        // Further subflows are opened by an established connection.
        let is_first = number == 0 && !subflow.was_established;
        let had_data = !subflow.unacked.is_empty();
        if had_data {
            self.requeue_unacked();
        }
        if is_first || self.subflows.iter().all(|subflow| subflow.is_gone) {
            self.failure.get_or_insert(failure);
        }
    }

    /// `__mptcp_retransmit_pending_data`: all that is not acknowledged waits for a subflow again.
    fn requeue_unacked(&mut self) {
        (self.assigned, self.repeated, self.burst) = (self.acked.first, None, 0);
    }

    /// The next bytes for a subflow, if one has room (`mptcp_subflow_get_send`). The caller writes them, and observes the subflow.
    pub fn next_assignment(&mut self, now: Time) -> Option<Assignment> {
        let next = self.choose_assignment();
        if self.retransmit_at == Time::MAX && self.acked.first < self.assigned {
            self.retransmit_at = now + self.retransmission_interval(now);
        }
        next
    }

    fn choose_assignment(&mut self) -> Option<Assignment> {
        if let Some((subflow, data)) = self.repeated.take() {
            return Some(self.assign(subflow, data));
        }
        let waiting = self.written - self.assigned;
        if waiting == 0 {
            return None;
        }
        let last = &self.subflows[self.last];
        if self.burst == 0 || !last.is_active() || last.view.room == 0 {
            self.last = self.begin_burst()?;
        }
        let bytes = self.burst.min(waiting).min(self.subflows[self.last].view.room);
        self.burst -= bytes;
        let data = self.assigned..self.assigned + bytes;
        self.assigned = data.end;
        self.highest = self.highest.max(data.end);
        Some(self.assign(self.last, data))
    }

    /// The active subflow that will have sent what it holds first, if it has room.
    fn begin_burst(&mut self) -> Option<usize> {
        let lingers = |(number, subflow): (usize, &Subflow)| {
            // Without a sample Linux has the largest number of 32 bits: the fewest bytes queued count.
            let now = subflow.view.pacing_rate.unwrap_or(u64::from(u32::MAX));
            let rate = if subflow.average_rate == 0 { now } else { subflow.average_rate };
            ((u128::from(subflow.view.queued) << 32) / u128::from(rate.max(1)), number)
        };
        let active = self.subflows.iter().enumerate().filter(|(_, subflow)| subflow.is_active());
        let (_, chosen) = active.map(lingers).min()?;
        let subflow = &mut self.subflows[chosen];
        if subflow.view.room == 0 {
            return None;
        }
        let (queued, rate) = (u128::from(subflow.view.queued), subflow.view.pacing_rate);
        if let Some(rate) = rate {
            let before = if subflow.average_rate == 0 { rate } else { subflow.average_rate };
            let sum = u128::from(before) * queued + u128::from(rate) * u128::from(BURST);
            subflow.average_rate = (sum / (queued + u128::from(BURST))) as u64;
        }
        self.burst = BURST;
        Some(chosen)
    }

    fn assign(&mut self, number: usize, data: std::ops::Range<u64>) -> Assignment {
        let (bytes, subflow) = (data.end - data.start, &mut self.subflows[number]);
        subflow.unacked.append(subflow.view.written, data.clone());
        subflow.outgoing.append(subflow.view.written, data);
        Assignment { subflow: number, bytes }
    }

    /// When [`Self::on_timeout`] is due; [`Time::MAX`]: never.
    pub fn deadline(&self) -> Time {
        self.retransmit_at
    }

    /// The longest time until the retransmission timer of a subflow that is not silent (`__mptcp_set_timeout`).
    fn retransmission_interval(&self, now: Time) -> Span {
        let pending = |subflow: &&Subflow| {
            subflow.is_active()
                && subflow.silent == 0
                && (now..Time::MAX).contains(&subflow.view.rto_deadline)
        };
        let left = self.subflows.iter().filter(pending).map(|subflow| subflow.view.rto_deadline - now).max();
        left.filter(|left| *left > Span::ZERO).unwrap_or(self.least_timeout)
    }

    /// The retransmission timer has expired without progress (`__mptcp_retrans`): a subflow that has nothing to do sends the first fragment again.
    pub fn on_timeout(&mut self, now: Time) {
        if now < self.retransmit_at {
            return;
        }
        self.retransmit_at = Time::MAX;
        if self.acked.first == self.assigned {
            return;
        }
        self.retransmit_at = now + self.retransmission_interval(now).max(Span(1));
        let idle = |subflow: &Subflow| subflow.view.acked == subflow.view.written;
        let hears = |subflow: &Subflow| subflow.is_active() && subflow.silent < STALE_AFTER;
        let hearing: Vec<bool> = self.subflows.iter().map(hears).collect();
        let mut is_one_stale = false;
        for (number, subflow) in self.subflows.iter_mut().enumerate() {
            let has_alternative = hearing.iter().enumerate().any(|(other, hears)| other != number && *hears);
            if subflow.view.is_established && !subflow.is_gone && !idle(subflow) {
                is_one_stale |= subflow.count_silence(has_alternative);
            }
        }
        if is_one_stale {
            self.requeue_unacked();
            return;
        }
        let pick = self.subflows.iter().position(|subflow| subflow.is_active() && idle(subflow));
        let end = self.assigned.min(self.acked.first + FRAGMENT);
        self.repeated = pick.map(|number| (number, self.acked.first..end));
    }

    /// What couples the windows of subflows ([`Coupling`]).
    pub fn coupling(&self) -> Option<Coupling> {
        let active = self.subflows.iter().filter(|subflow| subflow.is_active());
        Coupling::of_subflows(active.map(|subflow| (subflow.view.cwnd, subflow.view.srtt)))
    }
}

impl Connection {
    /// What an MPTCP connection has to know of this subflow.
    pub fn subflow_view(&mut self) -> SubflowView {
        let (queued, room) = self.sender.buffer_usage_and_room();
        SubflowView {
            is_established: self.is_established(),
            is_quiescent: self.is_quiescent(),
            written: self.sender.data_end() + self.sender.unwritten_bytes(),
            acked: self.acked_bytes(),
            sent: self.sender.snd_nxt,
            delivered: self.delivered_bytes(),
            queued,
            room,
            pacing_rate: self.sender.pacing_rate(&self.config),
            rto_deadline: self.sender.rto_deadline,
            cwnd: self.cwnd(),
            srtt: self.srtt().unwrap_or_default(),
        }
    }

    /// Couples its window with those of the other subflows, if its congestion control is one that couples.
    pub fn couple_window(&mut self, coupling: Option<Coupling>) {
        self.sender.cc.couple(coupling);
    }

    /// Gives up without a word, as a subflow that is not needed any more.
    pub fn abandon(&mut self) {
        self.fail(ConnectionFailure::Reset);
    }
}

#[cfg(test)]
mod tests;
