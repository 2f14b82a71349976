//! Recounts a connection. Each rule says what must hold between two calls; [`Connection::contradiction`] names the first that does not.
//!
//! Debug builds recount short flights after every call, and all builds with the other invariants of a network (`fabric/src/invariants`).

use crate::connection::{Connection, ConnectionState};
use crate::receiver::Receiver;
use crate::sender::Sender;
use pauseframe_units::{Time, first_broken};

/// Segments of a flight. A recount is linear in it, so a longer one is left to the recounts of the network.
const LONG_FLIGHT: usize = 128;

impl Connection {
    /// What contradicts itself in the state of the connection; `None`: nothing. Linear in the flight.
    pub fn contradiction(&self) -> Option<String> {
        let is_open = matches!(self.state, ConnectionState::Established | ConnectionState::Closing);
        self.sender.contradiction(is_open).or_else(|| self.receiver.contradiction())
    }

    /// Up to where the peer has acknowledged what this end sent, and up to where this end has all that the peer sent, in bytes without the FIN.
    pub fn acknowledged_and_received(&self) -> [u64; 2] {
        [self.acked_bytes(), self.receiver.rcv_nxt()]
    }

    /// Debug builds end the run at a contradiction, if the flight is short.
    #[inline(always)]
    pub(crate) fn debug_check(&self) {
        if cfg!(debug_assertions) {
            let is_short = self.sender.scoreboard.len() <= LONG_FLIGHT;
            assert!(!is_short || self.contradiction().is_none(), "{:?}: {self:?}", self.contradiction());
        }
    }
}

impl Sender {
    fn contradiction(&self, is_open: bool) -> Option<String> {
        let Sender { snd_una, snd_nxt, snd_end, .. } = *self;
        let in_flight = snd_una < snd_nxt;
        first_broken(&[
            (snd_una <= snd_nxt, "snd_una is above snd_nxt"),
            (snd_nxt <= snd_end, "snd_nxt is above the end of what is written"),
            (self.window.cwnd >= u64::from(self.window.mss), "cwnd is below one segment"),
            (
                self.scoreboard.is_consistent(snd_una, snd_nxt),
                "the scoreboard differs from its records or from the bytes in flight",
            ),
            (!is_open || !in_flight || self.rto_deadline != Time::MAX, "data are in flight without a timer"),
        ])
    }
}

impl Receiver {
    fn contradiction(&self) -> Option<String> {
        first_broken(&[
            (self.acked_offset() <= self.rcv_nxt(), "more is acknowledged than has come"),
            (self.has_ordered_ranges(), "the reassembly list is not in order above rcv_nxt"),
        ])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::{EcnCodepoint, Segment};
    use crate::{RecoveryConfig, TcpConfig};
    use std::sync::Arc;

    const MSS: u32 = 1000;

    /// A sender with ten segments in flight, the third of which is lost, and the receiver that has the others.
    fn half_way() -> [Connection; 2] {
        let config = Arc::new(TcpConfig {
            mss: MSS,
            initial_window: 10_000,
            sack: true,
            receive_window: 1 << 20,
            recovery: RecoveryConfig::PLAIN,
            ..TcpConfig::PLAIN
        });
        let mut ends = [Connection::open(config.clone(), 1, 2, Time::ZERO), Connection::accept(config, 2, 1)];
        ends[0].write(20_000, Time::ZERO);
        for number in 0.. {
            let Some((segment, _)) = ends[0].poll_transmit(Time(1)) else { break };
            if number != 2 {
                ends[1].on_segment(&segment, EcnCodepoint::NotEct, Time(2));
            }
        }
        let mut last: Option<Segment> = None;
        while let Some((segment, _)) = ends[1].poll_transmit(Time(3)) {
            last = Some(segment);
        }
        ends[0].on_segment(&last.expect("an ACK with SACK blocks"), EcnCodepoint::NotEct, Time(4));
        ends
    }

    type Falsify = fn(&mut [Connection; 2]);

    #[test]
    fn each_rule_finds_its_contradiction() {
        let break_it: [(&str, Falsify); 8] = [
            ("snd_una is above", |ends| ends[0].sender.snd_una = ends[0].sender.snd_nxt + 1),
            ("snd_nxt is above", |ends| ends[0].sender.snd_end = ends[0].sender.snd_nxt - 1),
            ("cwnd is below", |ends| ends[0].sender.window.cwnd = u64::from(MSS) - 1),
            ("the scoreboard differs", |ends| ends[0].sender.snd_nxt += 1),
            ("the scoreboard differs", |ends| ends[0].sender.scoreboard.corrupt_sacked_bytes()),
            ("without a timer", |ends| ends[0].sender.rto_deadline = Time::MAX),
            ("more is acknowledged", |ends| ends[1].receiver.corrupt_acked_offset()),
            ("the reassembly list", |ends| ends[1].receiver.corrupt_first_range()),
        ];
        for (rule, falsify) in break_it {
            let mut ends = half_way();
            assert_eq!(ends.each_ref().map(Connection::contradiction), [None, None]);
            falsify(&mut ends);
            let found: Vec<String> = ends.iter().filter_map(Connection::contradiction).collect();
            assert!(found.len() == 1 && found[0].contains(rule), "{rule}: {found:?}");
        }
    }
}
