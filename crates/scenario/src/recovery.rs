//! Converts the keys of `[transport]` for loss recovery beyond RFC 5681, 6582 and 6675 into settings of the
//! transport.

use crate::spec::{IdleRestartName, RtoGrowthName, TransportSpec};
use pauseframe_transport::{IdleRestart, PacingConfig, RecoveryConfig, RtoGrowth};

/// The loss-recovery settings of a transport.
pub(crate) fn recovery(spec: &TransportSpec) -> RecoveryConfig {
    RecoveryConfig {
        rack: spec.rack,
        tlp: spec.tlp,
        timer_slack: spec.recovery_slack,
        count_packets: spec.count_packets,
        prr: spec.prr,
        undo: spec.undo,
        frto: spec.frto,
        ecn_hides_loss: spec.ecn_hides_loss,
        window_validation: spec.window_validation,
        rto_growth: match spec.rto_growth {
            RtoGrowthName::Segment => RtoGrowth::Segment,
            RtoGrowthName::Delivered => RtoGrowth::Delivered,
        },
        idle_restart: match spec.idle_restart {
            IdleRestartName::Off => IdleRestart::Off,
            IdleRestartName::Rfc5681 => IdleRestart::Rfc5681,
            IdleRestartName::Linux => IdleRestart::Linux,
        },
        pacing: PacingConfig {
            on: spec.pacing,
            slow_start_percent: spec.pacing_slow_start,
            avoidance_percent: spec.pacing_avoidance,
            burst: spec.pacing_burst,
        },
    }
}
