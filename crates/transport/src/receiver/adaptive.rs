//! What an operating system's receiver does beyond the plain one, in one box a connection: the ACK policy, the buffer
//! and its window, the reader, D-SACK (RFC 2883) and the limit of the reassembly list.
//!
//! The order of work for a segment is Linux 6.1's (`tcp_rcv_established`, `tcp_event_data_recv`, `__tcp_ack_snd_check`,
//! then the reader with `tcp_rcv_space_adjust` and `tcp_cleanup_rbuf`); before it comes GRO (`gro.rs`). Left out: the socket backlog, memory
//! pressure.

use super::Receiver;
use super::buffer::Buffer;
use super::gro::{Gro, Merged, Taken};
use super::linux_acks::LinuxAcks;
use super::reader::Reader;
use crate::config::{Config, DelayedAckForm, ReceiveBuffer};
use crate::rtt::Rtt;
use crate::segment::{Ecn, Flags, Segment};
use pauseframe_units::{Span, Time};

/// Everything that only some receivers have.
#[derive(Clone, Debug)]
pub(crate) struct Adaptive {
    pub(super) acks: Option<LinuxAcks>,
    pub(super) buffer: Buffer,
    pub(super) reader: Option<Reader>,
    /// When the delayed (or compressed) ACK must go out.
    ack_at: Time,
    /// What the next SACK option reports as come twice.
    duplicate: Option<(u64, u64)>,
    dsack: bool,
    /// Bytes that the reassembly list may hold.
    limit: u64,
    pub(super) gro: Option<Box<Gro>>,
}

impl Adaptive {
    /// The box, if the settings ask for anything in it.
    pub(super) fn new(config: &Config, mss: u32) -> Option<Box<Adaptive>> {
        let acks = matches!(config.delayed_ack_form, DelayedAckForm::Linux { .. });
        let plain = !acks
            && config.receive_buffer == ReceiveBuffer::Fixed
            && !config.dsack
            && config.reassembly_limit == 0
            && config.read_rate.0 == 0
            && config.offload.gro == Span::ZERO;
        let limit = match config.reassembly_limit {
            0 => u64::MAX,
            segments => u64::from(segments) * u64::from(mss),
        };
        (!plain).then(|| {
            Box::new(Adaptive {
                acks: acks.then(|| LinuxAcks::new(mss, config.delayed_ack.timeout)),
                buffer: Buffer::new(config, mss),
                reader: (config.read_rate.0 > 0).then(|| Reader::new(config.read_rate, mss)),
                ack_at: Time::MAX,
                duplicate: None,
                dsack: config.dsack,
                limit,
                gro: Gro::new(config),
            })
        })
    }

    /// The window of a SYN or SYN-ACK, or the first one without a handshake.
    pub(super) fn first_window(&self) -> u32 {
        self.buffer.first_window()
    }

    /// In-order bytes that the application has not read.
    pub(super) fn unread(&self) -> u64 {
        self.reader.as_ref().map_or(0, |reader| reader.unread)
    }

    /// Bytes that the reassembly list may hold.
    pub(super) fn reassembly_limit(&self) -> u64 {
        self.limit
    }

    /// `start..end` came again: the next SACK option says so.
    pub(super) fn note_duplicate(&mut self, start: u64, end: u64) {
        if self.dsack {
            self.duplicate = Some((start, end));
        }
    }

    /// Old data: the sender may be in trouble, so Linux hurries (`tcp_send_dupack`).
    pub(super) fn on_old_data(&mut self) {
        if let Some(acks) = &mut self.acks {
            acks.hurry();
        }
    }

    pub(super) fn has_duplicate(&self) -> bool {
        self.duplicate.is_some()
    }

    pub(super) fn take_duplicate(&mut self) -> Option<(u64, u64)> {
        self.duplicate.take()
    }

    /// When something is due.
    fn deadline(&self) -> Time {
        let at = self.reader.as_ref().map_or(self.ack_at, |reader| self.ack_at.min(reader.next));
        self.gro.as_ref().map_or(at, |gro| at.min(gro.ends))
    }

    /// Bytes that wait for the end of a poll.
    pub(super) fn held_by_gro(&self) -> u64 {
        self.gro.as_ref().map_or(0, |gro| gro.held())
    }

    /// The application reads what is there, at its own pace.
    fn arrived(&mut self, bytes: u64, now: Time) {
        if let Some(reader) = &mut self.reader {
            reader.arrived(bytes, now);
        }
    }
}

impl Receiver {
    /// A frame comes to a receiver that merges them.
    pub(crate) fn merge(&mut self, segment: &Segment, codepoint: Ecn, now: Time) -> Taken {
        let gro = self.adaptive.as_deref_mut().and_then(|adaptive| adaptive.gro.as_deref_mut());
        let taken = gro.map_or(Taken::Passed(None), |gro| gro.take(segment, codepoint, now));
        self.settle_deadline();
        taken
    }

    /// What was merged in a poll that has ended by `now`.
    pub(crate) fn end_poll(&mut self, now: Time) -> Option<Merged> {
        let gro = self.adaptive.as_deref_mut()?.gro.as_deref_mut().filter(|gro| gro.ends <= now)?;
        let merged = gro.release();
        self.settle_deadline();
        merged
    }

    /// [`Self::on_data`] of a receiver with a box.
    pub(super) fn on_data_adaptively(&mut self, segment: &Segment, now: Time, config: &Config, rtt: &Rtt) {
        let before = self.rcv_nxt;
        let in_order = self.is_next(segment);
        if in_order {
            self.advance_to(before + u64::from(segment.len));
        } else {
            self.on_data_out_of_order(segment);
        }
        let fresh = self.rcv_nxt - before;
        let held = self.held_above_gap();
        let unacked = self.rcv_nxt - self.acked;
        let Some(adaptive) = self.adaptive.as_deref_mut() else { return };
        let announced = u64::from(self.window) + unacked;
        if fresh > 0 {
            let frame = adaptive.gro.as_ref().map_or(segment.len, |gro| gro.frame_of(segment.len));
            if let Some(acks) = &mut adaptive.acks {
                acks.on_data(segment, frame, now, announced as u32, config, rtt);
            }
            let unread = adaptive.unread() + fresh;
            let grown = adaptive.buffer.on_data(segment, frame, now, self.rcv_nxt, announced, unread + held);
            if grown && let Some(acks) = &mut adaptive.acks {
                acks.grant_one();
            }
            adaptive.arrived(fresh, now);
        } else if !in_order && !self.ranges.is_empty() {
            self.compress(now, config, rtt);
        }
        if in_order {
            self.decide_on_ack(segment.flags, now, config, rtt);
        }
        if fresh > 0 {
            self.after_read(now);
        }
        self.settle_deadline();
    }

    /// Whether an ACK goes out for data in order, or when.
    fn decide_on_ack(&mut self, flags: Flags, now: Time, config: &Config, rtt: &Rtt) {
        let unacked = self.rcv_nxt - self.acked;
        let Some(adaptive) = self.adaptive.as_deref_mut() else { return };
        let (due, delay) = match &adaptive.acks {
            None => (unacked > u64::from(self.delay_bytes), config.delayed_ack.timeout),
            Some(acks) => {
                // `tcp_cleanup_rbuf`: what was pushed is acknowledged when the reader has emptied the buffer.
                let drained = adaptive.reader.as_ref().is_none_or(|reader| reader.unread == 0);
                let due = acks.is_due(unacked, config) || (drained && acks.is_pushed(config));
                (due, acks.delay(config, rtt))
            }
        };
        if due {
            self.ack_now = true;
        } else if adaptive.acks.is_none() {
            adaptive.ack_at = adaptive.ack_at.min(now.saturating_add(delay));
        } else {
            let at = config.rto.expiry(now, delay);
            // `tcp_send_delayed_ack`: what would expire soon anyway goes out now.
            if adaptive.ack_at <= now.saturating_add(delay / 4) {
                self.ack_now = true;
            }
            adaptive.ack_at = adaptive.ack_at.min(at);
        }
        self.after_push(flags);
    }

    /// Linux holds back ACKs that only report further data above a gap, after the first three (`tcp_comp_sack_*`).
    fn compress(&mut self, now: Time, config: &Config, rtt: &Rtt) {
        let rcv_nxt = self.rcv_nxt;
        let Some(adaptive) = self.adaptive.as_deref_mut() else { return };
        let Some(acks) = &mut adaptive.acks else { return };
        let estimate = adaptive.buffer.rtt().into_iter().chain(rtt.srtt()).min();
        if adaptive.duplicate.is_some() || self.before_change != super::NONE || self.rcv_nxt > self.acked {
            return;
        }
        if let Some(hold) = acks.compression(rcv_nxt, estimate, config) {
            self.ack_now = false;
            adaptive.ack_at = adaptive.ack_at.min(now.saturating_add(hold));
        }
    }

    /// The application has read: the buffer may grow, and a window that opened far enough is announced.
    fn after_read(&mut self, now: Time) {
        let read = self.delivered();
        let held = self.held_above_gap();
        let Some(adaptive) = self.adaptive.as_deref_mut() else { return };
        adaptive.buffer.on_read(read, now);
        let held = held + adaptive.unread();
        if adaptive.reader.is_some() && adaptive.buffer.is_worth_an_update(held, self.window) {
            self.ack_now = true;
        }
    }

    /// An ACK has been taken to travel: it announces the window of this moment. The right edge never moves back (RFC
    /// 9293 §3.8.6).
    pub(super) fn after_ack(&mut self) {
        let held = self.held_above_gap();
        let Some(adaptive) = self.adaptive.as_deref_mut() else { return };
        self.window = self.window.max(adaptive.buffer.offer(held + adaptive.unread()));
        adaptive.ack_at = Time::MAX;
        if let Some(acks) = &mut adaptive.acks {
            acks.on_ack_sent();
        }
        self.settle_deadline();
    }

    /// The window of a SYN or SYN-ACK.
    pub(crate) fn syn_window(&self) -> u32 {
        self.window
    }

    /// The smallest shift that lets every window of this receiver be written in 16 bits, at most 14 (RFC 7323 §2.3).
    pub(crate) fn window_scale(&self) -> u8 {
        let largest = self.adaptive.as_ref().map_or(self.window, |adaptive| adaptive.buffer.largest_window());
        (32 - (largest >> 16).leading_zeros()).min(14) as u8
    }

    /// The handshake is over: measuring begins.
    pub(crate) fn established(&mut self, now: Time) {
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.buffer.established(now);
        }
    }

    /// Data went out at `now`: if in reply to data, the exchange is interactive and ACKs can travel with them.
    pub(crate) fn data_sent(&mut self, now: Time, config: &Config) {
        if let Some(acks) = self.adaptive.as_mut().and_then(|adaptive| adaptive.acks.as_mut()) {
            acks.on_data_sent(now, config);
        }
    }

    /// A segment of the connection left at `now` (RFC 7323: its ACK can be echoed).
    pub(crate) fn ack_stamped(&mut self, stamp: u32) {
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.buffer.ack_stamped(stamp);
        }
    }

    /// [`Self::on_timeout`] of a receiver with a box.
    pub(super) fn on_adaptive_timeout(&mut self, now: Time, config: &Config, rtt: &Rtt) {
        let unacked = self.rcv_nxt - self.acked;
        let Some(adaptive) = self.adaptive.as_deref_mut() else { return };
        if now >= adaptive.ack_at {
            adaptive.ack_at = Time::MAX;
            self.ack_now = true;
            if let Some(acks) = &mut adaptive.acks {
                acks.on_timeout(config, rtt);
            }
        }
        if adaptive.reader.as_mut().is_some_and(|reader| reader.read(now)) {
            let drained = adaptive.unread() == 0;
            if let Some(acks) = &adaptive.acks
                && (acks.is_due(unacked, config) || (drained && unacked > 0 && acks.is_pushed(config)))
            {
                self.ack_now = true;
            }
            self.after_read(now);
        }
        self.settle_deadline();
    }

    fn settle_deadline(&mut self) {
        self.deadline = self.adaptive.as_ref().map_or(Time::MAX, |adaptive| adaptive.deadline());
    }
}

/// How long at most Linux compresses SACKs (`tcp_comp_sack_delay_ns`), and how many (`tcp_comp_sack_nr`).
pub(super) const COMPRESSION: (Span, u32) = (Span::from_ms(1), 44);
