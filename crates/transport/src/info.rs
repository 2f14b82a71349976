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
        let lost = segments(board.lost_bytes_to_retransmit() + board.retransmitted_bytes_in_flight());
        let retrans = segments(board.copies_in_flight());
        let ssthresh = sender.window.ssthresh;
        let idle = sender.snd_una == sender.snd_nxt;
        let mut fields = vec![
            ("tcpi_state", self.linux_state()),
            ("tcpi_ca_state", linux_ca_state(sender.phase, sacked > 0 || lost > 0 || retrans > 0)),
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
                .reordering_as_linux(&self.config)
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
fn linux_ca_state(phase: RecoveryPhase, disorder: bool) -> i64 {
    match phase {
        RecoveryPhase::Open => i64::from(disorder),
        RecoveryPhase::Cwr => 2,
        RecoveryPhase::Recovery => 3,
        RecoveryPhase::Loss => 4,
    }
}
