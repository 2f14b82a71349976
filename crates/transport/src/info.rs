//! What Linux shows of a socket in `struct tcp_info`.

use crate::connection::{Connection, ConnectionState};
use crate::recovery::RecoveryPhase;
use pauseframe_units::Span;

/// `tcpi_snd_ssthresh` before the first congestion (`TCP_INFINITE_SSTHRESH`).
const INFINITE_SSTHRESH: i64 = 0x7fff_ffff;

impl Connection {
    /// Fields of `struct tcp_info` by name: windows in segments, times in microseconds. Only those that the model has.
    pub fn tcp_info(&self) -> Vec<(&'static str, i64)> {
        let sender = &self.sender;
        let mss = u64::from(sender.window.mss);
        let segments = |bytes: u64| (bytes / mss) as i64;
        let micros = |span: Span| (span.0 / Span::from_us(1).0) as i64;
        let board = &sender.scoreboard;
        let sacked = if sender.counts_duplicates() {
            i64::from(sender.dup_acks)
        } else {
            segments(board.sacked_bytes())
        };
        let lost = segments(board.bytes_to_retransmit() + board.retransmitted_bytes_in_flight());
        let retrans = segments(board.copies_in_flight());
        let ssthresh = sender.window.ssthresh;
        let idle = sender.snd_una == sender.snd_nxt;
        let mut fields = vec![
            ("tcpi_state", self.linux_state()),
            ("tcpi_ca_state", ca_state(sender.phase, sacked > 0 || lost > 0 || retrans > 0)),
            ("tcpi_snd_cwnd", segments(sender.window.cwnd)),
            ("tcpi_snd_ssthresh", if ssthresh == u64::MAX { INFINITE_SSTHRESH } else { segments(ssthresh) }),
            ("tcpi_snd_mss", mss as i64),
            ("tcpi_unacked", board.len() as i64),
            ("tcpi_sacked", sacked),
            ("tcpi_lost", lost),
            ("tcpi_retrans", retrans),
            ("tcpi_total_retrans", i64::from(self.stats.retransmits)),
            ("tcpi_backoff", i64::from(sender.rtt.backoff())),
            ("tcpi_probes", if idle { i64::from(sender.retries) } else { 0 }),
            ("tcpi_retransmits", if idle { 0 } else { i64::from(sender.retries) }),
            ("tcpi_rto", micros(self.rto())),
        ];
        fields.extend(self.srtt().map(|srtt| ("tcpi_rtt", micros(srtt))));
        let refined = sender.refined.as_deref();
        fields.extend(refined.map(|refined| ("tcpi_min_rtt", micros(refined.min_rtt()))));
        fields.extend(
            sender
                .linux_reordering(&self.config)
                .map(|reordering| ("tcpi_reordering", i64::from(reordering))),
        );
        fields
    }

    /// States of `tcp_states.h`.
    fn linux_state(&self) -> i64 {
        match self.state {
            ConnectionState::Established => 1,
            ConnectionState::SynSent => 2,
            ConnectionState::SynReceived => 3,
            ConnectionState::Closing => self.linux_closing_state(),
            ConnectionState::Listen => 10,
            ConnectionState::Refusing | ConnectionState::Silent | ConnectionState::Failed(_) => 7,
        }
    }
}

/// `enum tcp_ca_state`; `disorder`: duplicate ACKs or SACKs outside recovery.
fn ca_state(phase: RecoveryPhase, disorder: bool) -> i64 {
    match phase {
        RecoveryPhase::Open => i64::from(disorder),
        RecoveryPhase::Cwr => 2,
        RecoveryPhase::Recovery => 3,
        RecoveryPhase::Loss => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::TcpConfig;
    use crate::recovery::RecoveryConfig;
    use crate::segment::{EcnCodepoint, SackBlocks, Segment, TcpOptions};
    use pauseframe_units::Time;
    use std::sync::Arc;

    fn field(connection: &Connection, name: &str) -> Option<i64> {
        connection.tcp_info().into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// `tcp_states.h`: LISTEN 10, SYN-SENT 2, SYN-RECEIVED 3, ESTABLISHED 1.
    #[test]
    fn a_handshake_goes_through_the_states_of_linux() {
        let config = Arc::new(TcpConfig { handshake: true, ..TcpConfig::PLAIN });
        let mut ends = [Connection::open(config.clone(), 1, 0, Time::ZERO), Connection::accept(config, 9, 0)];
        let states = |ends: &[Connection; 2]| ends.each_ref().map(|end| field(end, "tcpi_state"));
        assert_eq!(states(&ends), [Some(2), Some(10)]);
        for (from, expected) in [(0, [2, 3]), (1, [1, 3]), (0, [1, 1])] {
            let (segment, _) = ends[from].poll_transmit(Time::ZERO).expect("the handshake goes on");
            ends[1 - from].on_segment(&segment, EcnCodepoint::NotEct, Time::ZERO);
            assert_eq!(states(&ends), expected.map(Some));
        }
    }

    /// `tcp_states.h`: FIN-WAIT-1 4, FIN-WAIT-2 5, LAST-ACK 9, CLOSE 7.
    #[test]
    fn a_close_goes_through_the_states_of_linux() {
        let config = Arc::new(TcpConfig { fin: true, ..TcpConfig::PLAIN });
        let mut ends = [Connection::open(config.clone(), 1, 9, Time::ZERO), Connection::accept(config, 9, 1)];
        let states = |ends: &[Connection; 2]| ends.each_ref().map(|end| field(end, "tcpi_state"));
        let mut seen = Vec::new();
        for closing in [0, 1] {
            ends[closing].close(Time::ZERO);
            seen.push(states(&ends));
            for from in [closing, 1 - closing] {
                let (segment, _) = ends[from].poll_transmit(Time::ZERO).expect("a FIN, then its ACK");
                ends[1 - from].on_segment(&segment, EcnCodepoint::NotEct, Time::ZERO);
                seen.push(states(&ends));
            }
        }
        assert_eq!(seen, [[4, 1], [4, 1], [5, 1], [5, 9], [7, 9], [7, 7]].map(|row| row.map(Some)));
    }

    /// `tcp_process_loss`: a duplicate ACK after a timeout stands for no delivered packet, so more of them than packets show no reordering.
    #[test]
    fn duplicate_acks_after_a_timeout_show_no_reordering() {
        let recovery = RecoveryConfig::LINUX;
        let config = TcpConfig { mss: 1000, recovery, ..TcpConfig::PLAIN };
        let mut connection = Connection::open(Arc::new(config), 1, 9, Time::ZERO);
        connection.write(5000, Time::ZERO);
        while connection.poll_transmit(Time::ZERO).is_some() {}
        let now = connection.deadline().expect("a timeout");
        connection.on_timeout(now);
        while connection.poll_transmit(now).is_some() {}
        let (seq, ack) = (10, connection.sender.space.wire_seq(0));
        let flags = crate::segment::TcpFlags::ACK;
        for _ in 0..5 {
            let duplicate = Segment { seq, ack, flags, window: 1 << 20, ..Segment::default() };
            connection.on_segment(&duplicate, EcnCodepoint::NotEct, now);
            assert_eq!(field(&connection, "tcpi_reordering"), Some(3));
        }
        assert_eq!((connection.stats().timeouts, field(&connection, "tcpi_sacked")), (1, Some(0)));
    }

    /// `tcp_reordering` is 3 until a segment arrives late: here the first one, sent once, after SACK reported the second.
    #[test]
    fn reordering_is_three_until_sack_shows_some() {
        let recovery = RecoveryConfig::LINUX;
        let config = TcpConfig { mss: 1000, sack: true, recovery, ..TcpConfig::PLAIN };
        let mut connection = Connection::open(Arc::new(config), 1, 9, Time::ZERO);
        connection.write(3000, Time::ZERO);
        while connection.poll_transmit(Time::ZERO).is_some() {}
        let space = connection.sender.space;
        let now = Time::ZERO + Span::from_ms(1);
        let mut acknowledge = |ack: u64, sacked: Option<(u64, u64)>| {
            let block = |(start, end)| (space.wire_seq(start), space.wire_seq(end));
            let options = sacked.map_or(TcpOptions::None, |sacked| {
                TcpOptions::Sack(SackBlocks { count: 1, blocks: [block(sacked), (0, 0), (0, 0), (0, 0)] })
            });
            let (seq, ack) = (10, space.wire_seq(ack));
            let flags = crate::segment::TcpFlags::ACK;
            let segment = Segment { seq, ack, flags, window: 1 << 20, options, ..Segment::default() };
            connection.on_segment(&segment, EcnCodepoint::NotEct, now);
            field(&connection, "tcpi_reordering")
        };
        assert_eq!(acknowledge(0, Some((1000, 2000))), Some(3));
        assert_eq!(acknowledge(2000, None), None);
    }
}
