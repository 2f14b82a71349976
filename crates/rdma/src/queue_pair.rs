//! A queue pair: a requester and a responder with a common congestion control, as a sans-IO endpoint.

use crate::cc::hpcc::Telemetry;
use crate::cc::{Control, Controller};
use crate::packet::{Opcode, Packet, WIRE_OVERHEAD};
use crate::receiver::{NotificationPoint, Receiver};
use crate::sender::{Failure, Sender};
use pauseframe_units::{Span, Time};

/// Settings of a queue pair.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct QueuePairSettings {
    /// Payload of a full packet, bytes.
    pub mtu: u32,
    /// Messages are SENDs, not WRITEs.
    pub uses_send: bool,
    /// In-order packets per acknowledgement.
    pub ack_every: u32,
    /// The requester requests an acknowledgement at least every this many packets.
    pub ack_request_every: u32,
    /// Retransmission timeout.
    pub timeout: Span,
    /// Timeouts in a row before the queue pair fails.
    pub retry_count: u32,
    /// RNR NAKs in a row before the queue pair fails; 7: unlimited.
    pub rnr_retry: u32,
    /// Timer code of an RNR NAK ([`crate::rnr_delay`]).
    pub rnr_timer: u8,
    /// Selective repeat (IRN) instead of go-back-N.
    pub selective_repeat: bool,
    /// Packets may overtake each other: only a trimmed packet or a timeout counts as a loss.
    pub unordered: bool,
    /// Answers to marked packets.
    pub notification: Option<NotificationPoint>,
    /// Bytes of telemetry in data packets and acknowledgements; 0: none.
    pub telemetry_bytes: u32,
    /// Bytes on the wire beyond the IP packet, for pacing.
    pub link_overhead: u32,
    /// Line rate of the host, bits per second.
    pub line: u64,
    /// Congestion control.
    pub control: Control,
}

impl QueuePairSettings {
    /// Bytes of a packet from the IP header on.
    pub fn ip_size(&self, packet: &Packet) -> u32 {
        let telemetry = if packet.opcode == Opcode::Cnp { 0 } else { self.telemetry_bytes };
        packet.ip_size() + telemetry
    }

    /// Bytes of a full packet on the wire.
    pub fn full_packet(&self) -> u64 {
        u64::from(WIRE_OVERHEAD + self.telemetry_bytes + self.mtu + self.link_overhead)
    }

    /// The packets of a message of this size in sending order: their number, and the bytes of each IP packet.
    pub fn train(&self, bytes: u64) -> Vec<(u64, u32)> {
        let packets = bytes.div_ceil(u64::from(self.mtu)).max(1);
        let of = if self.uses_send { Opcode::of_send } else { Opcode::of_write };
        let size = |opcode: Opcode, payload: u64| {
            WIRE_OVERHEAD + self.telemetry_bytes + opcode.extension() + (payload as u32).next_multiple_of(4)
        };
        let last = bytes - (packets - 1) * u64::from(self.mtu);
        if packets == 1 {
            return vec![(1, size(of(true, true), last))];
        }
        let full = u64::from(self.mtu);
        let mut train = vec![(1, size(of(true, false), full))];
        if packets > 2 {
            train.push((packets - 2, size(of(false, false), full)));
        }
        train.push((1, size(of(false, true), last)));
        train
    }
}

/// Counters of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Retransmitted packets.
    pub retransmits: u32,
    /// Packets retransmitted after a NAK.
    pub retransmits_by_nak: u64,
    /// Packets retransmitted after a timeout.
    pub retransmits_by_timeout: u64,
    /// Retransmission timeouts.
    pub timeouts: u32,
    /// Sequence errors reported.
    pub naks_sent: u64,
    /// Sequence errors received.
    pub naks_received: u64,
    /// RNR NAKs sent.
    pub rnr_naks_sent: u64,
    /// RNR NAKs received.
    pub rnr_naks_received: u64,
    /// Congestion notifications sent.
    pub cnps_sent: u64,
    /// Congestion notifications received.
    pub cnps_received: u64,
    /// Data packets that came with CE.
    pub marked_received: u64,
    /// Duplicate data packets.
    pub duplicates: u64,
}

/// One end of a reliable connection.
#[derive(Clone, Debug)]
pub struct QueuePair {
    settings: QueuePairSettings,
    sender: Sender,
    receiver: Receiver,
    control: Controller,
    stats: Stats,
    /// Data of the last data packet that acknowledgements return.
    echo: Telemetry,
}

impl QueuePair {
    /// A queue pair that is ready to send and to receive.
    pub fn new(settings: QueuePairSettings) -> QueuePair {
        QueuePair {
            control: Controller::new(&settings),
            sender: Sender::new(),
            receiver: Receiver::default(),
            stats: Stats::default(),
            echo: Telemetry::default(),
            settings,
        }
    }

    /// Posts a message of this size.
    pub fn send(&mut self, bytes: u64) {
        self.sender.post(bytes, self.settings.uses_send, self.settings.mtu);
    }

    /// Only retransmissions are sent.
    pub fn stop_sending(&mut self) {
        self.sender.stop(self.settings.mtu);
    }

    /// Limits the receives for SENDs; without this call they are unlimited.
    pub fn post_receives(&mut self, count: u64) {
        *self.receiver.receives.get_or_insert_default() += count;
    }

    /// The telemetry that an acknowledgement carries.
    pub fn echo(&self) -> Telemetry {
        self.echo
    }

    /// Handles a packet; `is_marked`: with CE.
    pub fn on_packet(&mut self, packet: &Packet, is_marked: bool, now: Time) {
        self.on_packet_with(packet, &Telemetry::default(), is_marked, now);
    }

    /// The same, with telemetry.
    pub fn on_packet_with(&mut self, packet: &Packet, telemetry: &Telemetry, is_marked: bool, now: Time) {
        if packet.opcode.is_data() {
            self.echo = *telemetry;
        }
        self.control.on_timeout(now);
        match packet.opcode {
            Opcode::Acknowledge if self.settings.unordered => {
                let Self { sender, control, settings, stats, .. } = self;
                sender.on_unordered_ack(packet, control, settings, stats, now);
            }
            Opcode::Acknowledge => {
                self.sender.on_ack(
                    (packet, telemetry),
                    &mut self.control,
                    &self.settings,
                    &mut self.stats,
                    now,
                );
            }
            Opcode::Cnp => {
                self.stats.cnps_received += 1;
                self.control.on_cnp(now);
            }
            _ => self.receiver.on_data(packet, is_marked, &self.settings, &mut self.stats, now),
        }
    }

    /// The next acknowledgement, NAK or CNP to send at `now`.
    pub fn poll_reply(&mut self, now: Time) -> Option<Packet> {
        self.receiver.poll(&mut self.stats, now)
    }

    /// The next packet to send at `now`: replies go before data.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        self.poll_reply(now).or_else(|| self.poll_data(now))
    }

    /// The next data packet to send at `now`.
    pub fn poll_data(&mut self, now: Time) -> Option<Packet> {
        self.sender.poll(&mut self.control, &self.settings, &mut self.stats, now)
    }

    /// The next time at which [`Self::on_timeout`] and [`Self::poll_transmit`] may have work; `Time::MAX`: none.
    pub fn deadline(&self, now: Time) -> Time {
        let cnp = self.receiver.cnps.front().copied().unwrap_or(Time::MAX);
        let control = if self.sender.is_idle() { Time::MAX } else { self.control.deadline() };
        self.sender.deadline(&self.control, &self.settings, now).min(cnp).min(control)
    }

    /// Handles timers that have expired by `now`.
    pub fn on_timeout(&mut self, now: Time) {
        self.control.on_timeout(now);
        self.sender.on_timeout(&mut self.control, &self.settings, &mut self.stats, now);
    }

    /// Bytes of messages delivered in order.
    pub fn delivered(&self) -> u64 {
        self.receiver.delivered()
    }

    /// Bytes acknowledged.
    pub fn acked(&self) -> u64 {
        self.sender.acked_bytes()
    }

    /// Bytes sent at least once.
    pub fn sent(&self) -> u64 {
        self.sender.sent_bytes()
    }

    /// Whether nothing is left to send, to acknowledge or to answer.
    pub fn is_quiescent(&self) -> bool {
        self.sender.is_idle() && self.receiver.replies.is_empty() && self.receiver.cnps.is_empty()
    }

    /// The rate of its congestion control, bits per second.
    pub fn rate(&self) -> u64 {
        self.control.rate()
    }

    /// Maximum bytes in flight; `None` without a window.
    pub fn window(&self) -> Option<u64> {
        self.control.window()
    }

    /// The reason of the failure, if the queue pair has failed.
    pub fn failure(&self) -> Option<Failure> {
        self.sender.failure
    }

    /// Its counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
}

#[cfg(test)]
#[path = "queue_pair_tests.rs"]
mod tests;
