//! The settings of loss recovery beyond RFC 5681, 6582 and 6675, each with its own switch.

use crate::cc::{CongestionControlConfig, CongestionWindow};
use crate::config::TIMES;
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;
use pauseframe_schema::{choices, table};
use pauseframe_units::Span;

choices! {
    /// How far an ACK opens the window in slow start after a retransmission timeout
    pub enum RtoGrowth {
        /// RFC 3465 §2.3: at most one segment, so that a filled gap causes no burst
        Segment = "segment",
        /// Linux: the newly delivered data, without data that SACK had reported
        Delivered = "delivered",
    }
}

choices! {
    /// Handling of an unused window
    pub enum IdleRestart {
        /// Unchanged
        Off = "off",
        /// RFC 5681 §4.1: at most the initial window after an idle RTO
        Rfc5681 = "rfc5681",
        /// Linux (`tcp_slow_start_after_idle`, RFC 2861): halved for each RTO idle, not below the initial window; and while
        /// the application leaves a part unused, half-way to what it uses, once an RTO
        Linux = "linux",
    }
}

table! {
    /// Pacing: segments are spread over the round trip (Linux `sk_pacing_rate`)
    #[derive(Copy, Eq)]
    pub struct PacingConfig {
        /// Pacing: spread segments over the round trip
        #[source = "Linux: TCP pacing in the socket"]
        on as "pacing": bool = by(read_pacing, control);
        /// Pacing rate in percent of cwnd / srtt below half of ssthresh
        #[source = "Linux: tcp_pacing_ss_ratio"]
        slow_start_percent as "pacing_slow_start": u32 = or_in(200, 1..=100_000);
        /// Pacing rate in percent of cwnd / srtt above half of ssthresh
        #[source = "Linux: tcp_pacing_ca_ratio"]
        avoidance_percent as "pacing_avoidance": u32 = or_in(120, 1..=100_000);
        /// Segments that leave back to back
        #[source = "Linux: a TSO packet"]
        burst as "pacing_burst": u32 = or_in(2, 1..=1000);
    }
    pub fn part(t, control: &CongestionControlConfig);
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

table! {
    /// Loss recovery beyond the basic algorithms
    #[derive(Copy, Eq)]
    pub struct RecoveryConfig {
        /// RACK: detect losses by time; needs sack and fast_retransmit
        #[source = "RFC 8985"]
        rack: bool = by(read_if_supported, sack && fast_retransmit, "sack and fast_retransmit");
        /// Tail loss probe; needs sack
        #[source = "RFC 8985 §7"]
        tlp: bool = by(read_if_supported, sack, "sack");
        /// Added to RACK's reordering timer and to the probe timeout
        #[source = "Linux: two jiffies"]
        timer_slack as "recovery_slack": Span = or_in(Span::from_ms(2), TIMES);
        /// Count windows and data in flight in segments of any size instead of bytes
        #[source = "Linux"]
        count_packets: bool = or(false);
        /// Proportional rate reduction, also after ECE; off: the window is cut at once
        #[source = "RFC 9937"]
        prr: bool = or(false);
        /// Undo a window reduction if D-SACK shows that its retransmissions were unnecessary; needs sack
        #[source = "RFC 3708"]
        undo: bool = or(false);
        /// F-RTO: detect spurious timeouts and undo them
        #[source = "RFC 5682"]
        frto: bool = or(false);
        /// Ignore duplicate ACKs until the window that ECE reduced is acknowledged; only without sack
        #[source = "FreeBSD 9"]
        ecn_hides_loss: bool = or(false);
        /// Do not grow an unused window; off: it grows up to the peer's window
        #[source = "RFC 7661 §4.1; off: FreeBSD 9"]
        window_validation: bool = or(true);
        /// Growth per ACK in slow start after a timeout: at most a segment, or what the ACK newly delivers
        #[source = "RFC 3465 §2.3; Linux"]
        rto_growth: RtoGrowth = or(RtoGrowth::Segment);
        /// Window after being idle for an RTO: kept, at most the initial window, or halved per RTO
        #[source = "RFC 5681 §4.1; Linux"]
        idle_restart: IdleRestart = or(IdleRestart::Off);
        /// Pacing
        pacing: PacingConfig = part(PacingConfig::read, control);
    }
    pub fn part(t, sack: bool, fast_retransmit: bool, control: &CongestionControlConfig);
}

/// A congestion control that sets a pacing rate needs pacing.
fn read_pacing(t: &mut Table, key: &'static str, doc: &str, control: &CongestionControlConfig) -> bool {
    let (paces, name) = (control.sets_pacing_rate(), control.name());
    let origin = if paces { Origin::Computed(format!("{name} sets a pacing rate")) } else { Origin::Default };
    let rule = "false; true for bbr, and for a plug-in that sets a pacing rate";
    let on = t.or_because(key, paces, origin, rule, doc);
    if paces && !on {
        let path = t.at(key);
        t.ledger.warn(format!("{path}: false, so the pacing rate that {name} sets has no effect"));
    }
    on
}

/// A mechanism that needs others: without them it is off if a stack enables it, and a warning if the file does.
fn read_if_supported(t: &mut Table, key: &'static str, doc: &str, able: bool, needs: &str) -> bool {
    let on = t.or(key, false, doc);
    let path = t.at(key);
    if on && !able && t.has(key) {
        t.ledger.warn(format!("{path}: does nothing without {needs}"));
    } else if on && !able {
        t.ledger.settle(&path, "false".to_owned(), Origin::Computed(format!("it needs {needs}")));
        return false;
    }
    on
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
    pub(crate) fn has_no_refinements(&self) -> bool {
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
