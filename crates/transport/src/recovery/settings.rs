//! The settings of loss recovery beyond RFC 5681, 6582 and 6675, each with its own switch.

use crate::cc::CongestionWindow;
use pauseframe_units::Span;

/// How far an ACK opens the window in slow start after a retransmission timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RtoGrowth {
    /// RFC 3465 §2.3: at most one segment, so that a filled gap causes no burst.
    Segment,
    /// Linux: the newly delivered data, without data that SACK had reported.
    Delivered,
}

/// Handling of an unused window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IdleRestart {
    /// Unchanged.
    Off,
    /// RFC 5681 §4.1: at most the initial window after an idle RTO.
    Rfc5681,
    /// Linux (`tcp_slow_start_after_idle`, RFC 2861): halved for each RTO idle, not below the initial window; and while
    /// the application leaves a part unused, half-way to what it uses, once an RTO.
    Linux,
}

/// Pacing: segments are spread over the round trip (Linux `sk_pacing_rate`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacingConfig {
    /// Whether segments are paced.
    pub on: bool,
    /// Rate in percent of cwnd / srtt while cwnd is below half of ssthresh (Linux: 200).
    pub slow_start_percent: u32,
    /// The same above (Linux: 120).
    pub avoidance_percent: u32,
    /// Segments that leave back to back (in Linux a TSO packet: at least 2).
    pub burst: u32,
}

impl PacingConfig {
    /// Off, with the ratios of Linux.
    pub const OFF: PacingConfig =
        PacingConfig { on: false, slow_start_percent: 200, avoidance_percent: 120, burst: 2 };

    /// Percent of cwnd / srtt with this window (`tcp_update_pacing_rate`).
    pub(crate) fn percent(&self, window: &CongestionWindow) -> u32 {
        if window.cwnd < window.ssthresh / 2 { self.slow_start_percent } else { self.avoidance_percent }
    }
}

/// Loss recovery beyond the basic algorithms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, each a row of the settings")]
pub struct RecoveryConfig {
    /// Loss by time instead of by counting duplicates (RFC 8985); with SACK and fast retransmit only.
    pub rack: bool,
    /// Tail loss probe (RFC 8985 §7); with SACK only.
    pub tlp: bool,
    /// Added to the reordering timer and to the probe timeout (Linux `TCP_TIMEOUT_MIN`: two jiffies).
    pub timer_slack: Span,
    /// Windows and flight size count segments of any length (Linux); off: bytes.
    pub count_packets: bool,
    /// Proportional rate reduction in recovery and after ECE (RFC 9937); off: the window is cut at once.
    pub prr: bool,
    /// Undo a reduction if D-SACK shows that all its retransmissions were needless (RFC 3708).
    pub undo: bool,
    /// Undo a timeout if the following ACKs are for the original segments (RFC 5682).
    pub frto: bool,
    /// FreeBSD 9 without SACK: duplicate ACKs start no fast retransmit until the window that ECE reduced is acknowledged.
    pub ecn_hides_loss: bool,
    /// A window that is not filled does not grow (RFC 7661 §4.1); off: it does up to the peer's window (FreeBSD 9).
    pub window_validation: bool,
    /// Slow start after a timeout.
    pub rto_growth: RtoGrowth,
    /// The window after an idle time.
    pub idle_restart: IdleRestart,
    /// Pacing.
    pub pacing: PacingConfig,
}

impl RecoveryConfig {
    /// The basic algorithms alone.
    pub const PLAIN: RecoveryConfig = RecoveryConfig {
        rack: false,
        tlp: false,
        timer_slack: Span::from_ms(2),
        count_packets: false,
        prr: false,
        undo: false,
        frto: false,
        ecn_hides_loss: false,
        window_validation: true,
        rto_growth: RtoGrowth::Segment,
        idle_restart: IdleRestart::Off,
        pacing: PacingConfig::OFF,
    };

    /// What Linux 6.1 has on.
    pub const LINUX: RecoveryConfig = RecoveryConfig {
        rack: true,
        tlp: true,
        timer_slack: Span::from_ms(2),
        count_packets: true,
        prr: true,
        undo: true,
        frto: true,
        ecn_hides_loss: false,
        window_validation: true,
        rto_growth: RtoGrowth::Delivered,
        idle_restart: IdleRestart::Linux,
        pacing: PacingConfig::OFF,
    };

    /// Whether nothing here is on, so that a connection needs no state for it.
    pub(crate) fn is_plain(&self) -> bool {
        let switches =
            [self.rack, self.tlp, self.count_packets, self.prr, self.undo, self.frto, self.pacing.on];
        !switches.contains(&true)
            && self.rto_growth == RtoGrowth::Segment
            && self.idle_restart == IdleRestart::Off
    }
}

impl Default for RecoveryConfig {
    fn default() -> Self {
        RecoveryConfig::PLAIN
    }
}
