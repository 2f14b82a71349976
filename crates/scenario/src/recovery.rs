//! Keys of `[transport]` for loss recovery beyond RFC 5681, 6582 and 6675: what they mean, and the settings they become.

use pauseframe_transport::{IdleRestart, PacingConfig, RecoveryConfig, RtoGrowth};
use pauseframe_units::Span;
use serde::Serialize;

/// Loss recovery beyond the basic algorithms. The keys stand in `[transport]` itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of its own")]
pub struct RecoverySpec {
    /// Losses found by time (RFC 8985).
    pub rack: bool,
    /// Tail loss probe.
    pub tlp: bool,
    /// Added to RACK's reordering timer and to the probe timeout.
    pub recovery_slack: Span,
    /// Windows are numbers of segments.
    pub count_packets: bool,
    /// Proportional rate reduction, after ECE too.
    pub prr: bool,
    /// Reductions are taken back when D-SACK shows that they were needless.
    pub undo: bool,
    /// Spurious timeouts are found by F-RTO.
    pub frto: bool,
    /// Without SACK: no fast retransmit in a window that ECE has reduced.
    pub ecn_hides_loss: bool,
    /// A window that is not filled does not grow.
    pub window_validation: bool,
    /// Slow start after a timeout.
    pub rto_growth: RtoGrowthName,
    /// The window after an idle time.
    pub idle_restart: IdleRestartName,
    /// Pacing.
    pub pacing: bool,
    /// Percent of cwnd / srtt while cwnd is below half of ssthresh.
    pub pacing_slow_start: u32,
    /// The same above.
    pub pacing_avoidance: u32,
    /// Segments that leave back to back.
    pub pacing_burst: u32,
}

/// Slow start after a timeout, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RtoGrowthName {
    /// A segment an ACK at most (RFC 3465).
    Segment,
    /// What the ACK newly delivers (Linux).
    Delivered,
}

/// What becomes of a window that was not used, by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IdleRestartName {
    /// It stays.
    Off,
    /// At most the initial window.
    Rfc5681,
    /// Halved for each RTO.
    Linux,
}

impl RecoverySpec {
    /// The settings of the transport.
    pub(crate) fn config(&self) -> RecoveryConfig {
        RecoveryConfig {
            rack: self.rack,
            tlp: self.tlp,
            timer_slack: self.recovery_slack,
            count_packets: self.count_packets,
            prr: self.prr,
            undo: self.undo,
            frto: self.frto,
            ecn_hides_loss: self.ecn_hides_loss,
            window_validation: self.window_validation,
            rto_growth: match self.rto_growth {
                RtoGrowthName::Segment => RtoGrowth::Segment,
                RtoGrowthName::Delivered => RtoGrowth::Delivered,
            },
            idle_restart: match self.idle_restart {
                IdleRestartName::Off => IdleRestart::Off,
                IdleRestartName::Rfc5681 => IdleRestart::Rfc5681,
                IdleRestartName::Linux => IdleRestart::Linux,
            },
            pacing: PacingConfig {
                on: self.pacing,
                slow_start_percent: self.pacing_slow_start,
                avoidance_percent: self.pacing_avoidance,
                burst: self.pacing_burst,
            },
        }
    }
}
