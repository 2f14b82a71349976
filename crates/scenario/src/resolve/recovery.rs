//! Reads the keys of `[transport]` for loss recovery beyond the basic algorithms.

use super::reader::Table;
use super::value::Choice;
use crate::recovery::{IdleRestartName, RecoverySpec, RtoGrowthName};
use pauseframe_units::Span;

impl Choice for RtoGrowthName {
    const NAMES: &'static [(&'static str, Self)] =
        &[("segment", Self::Segment), ("delivered", Self::Delivered)];
}
impl Choice for IdleRestartName {
    const NAMES: &'static [(&'static str, Self)] =
        &[("off", Self::Off), ("rfc5681", Self::Rfc5681), ("linux", Self::Linux)];
}

/// Reads them; `sack` and `fast_retransmit` are what some of them rest on.
pub(crate) fn recovery(t: &mut Table, sack: bool, fast_retransmit: bool) -> RecoverySpec {
    let rack = t.or("rack", false, "Losses found by time (RFC 8985); with sack and fast_retransmit only");
    let tlp = t.or("tlp", false, "Tail loss probe (RFC 8985 §7); with sack only");
    let slack = "Added to RACK's reordering timer and to the probe timeout (Linux: two jiffies)";
    let prr = "Proportional rate reduction (RFC 9937), after ECE too; off: the window is cut at once";
    let packets = "Windows and what is in flight count segments, however short (Linux); off: bytes";
    let undo = "Take a reduction back when D-SACK shows that its retransmissions were needless (RFC 3708); with sack only";
    let hides = "Duplicate ACKs start no fast retransmit until the window that ECE reduced is acknowledged (FreeBSD 9); without sack only";
    let validation = "A window that is not filled does not grow (RFC 7661 §4.1); off: it grows up to the peer's window (FreeBSD 9)";
    for (key, on, able, needs) in
        [("rack", rack, sack && fast_retransmit, "sack and fast_retransmit"), ("tlp", tlp, sack, "sack")]
    {
        if on && !able && t.has(key) {
            let path = t.at(key);
            t.ledger.warn(format!("{path}: does nothing without {needs}"));
        }
    }
    RecoverySpec {
        rack,
        tlp,
        recovery_slack: t.or_in(
            "recovery_slack",
            Span::from_ms(2),
            Span::ZERO..=Span::from_secs(3600),
            slack,
        ),
        count_packets: t.or("count_packets", false, packets),
        prr: t.or("prr", false, prr),
        undo: t.or("undo", false, undo),
        frto: t.or("frto", false, "Find spurious timeouts and take them back: F-RTO (RFC 5682)"),
        ecn_hides_loss: t.or("ecn_hides_loss", false, hides),
        window_validation: t.or("window_validation", true, validation),
        rto_growth: t.or(
            "rto_growth",
            RtoGrowthName::Segment,
            "Slow start after a timeout, an ACK: a segment at most (RFC 3465 §2.3) or what it newly delivers (Linux)",
        ),
        idle_restart: t.or(
            "idle_restart",
            IdleRestartName::Off,
            "Window after an idle RTO: kept, at most the initial one (RFC 5681 §4.1), or halved for each RTO (Linux)",
        ),
        pacing: t.or("pacing", false, "Spread segments over the round trip"),
        pacing_slow_start: t.or_in(
            "pacing_slow_start",
            200,
            1..=100_000,
            "Pacing rate in percent of cwnd / srtt below half of ssthresh",
        ),
        pacing_avoidance: t.or_in("pacing_avoidance", 120, 1..=100_000, "The same above"),
        pacing_burst: t.or_in(
            "pacing_burst",
            2,
            1..=1000,
            "Segments that leave back to back (Linux: a TSO packet)",
        ),
    }
}
