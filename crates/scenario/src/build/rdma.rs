//! Converts a transport's RDMA keys into queue-pair settings of the fabric.

use crate::spec::{EcnName, RdmaControlName, TransportKindName, TransportSpec};
use pauseframe_fabric::RdmaSettings;
use pauseframe_rdma::cc::dcqcn::{DcqcnChanges, Preset};
use pauseframe_rdma::cc::hpcc::TELEMETRY_BYTES;
use pauseframe_rdma::cc::{Control, ControlChoice, NsccNetwork};
use pauseframe_rdma::{NotificationPoint, QueuePairSettings};
use pauseframe_units::{Priority, Span};

/// A requester asks for an acknowledgement at least every 64 packets (Linux `rxe_param.h`).
const ACK_REQUEST_EVERY: u32 = 64;

/// Queue-pair settings of a transport; `None` for TCP. `trims`: switches trim packets of this transport.
pub(super) fn settings(spec: &TransportSpec, trims: bool) -> Option<RdmaSettings> {
    if spec.kind == TransportKindName::Tcp {
        return None;
    }
    let is_nscc = spec.rdma_control == RdmaControlName::Nscc;
    let pair = QueuePairSettings {
        mtu: spec.rdma_mtu.0 as u32,
        uses_send: spec.rdma_send,
        ack_every: spec.rdma_ack_every,
        ack_request_every: ACK_REQUEST_EVERY,
        timeout: spec.rdma_timeout,
        retry_count: spec.rdma_retry_count,
        // Simulated applications post receives in time, so the responder is never unready (no RNR NAK).
        rnr_retry: 7,
        rnr_timer: 0,
        selective_repeat: spec.rdma_selective_repeat,
        unordered: is_nscc,
        // Acknowledgements of NSCC echo marks.
        notification: (!is_nscc)
            .then_some(NotificationPoint { interval: spec.rdma_cnp_interval, delay: spec.rdma_cnp_delay }),
        telemetry_bytes: if spec.rdma_control == RdmaControlName::Hpcc { TELEMETRY_BYTES } else { 0 },
        // The host sets the next three fields when it opens a queue pair.
        link_overhead: 0,
        line: 1,
        control: Control::None,
    };
    let changes = DcqcnChanges {
        alpha_interval: spec.dcqcn_alpha_interval,
        gain: spec.dcqcn_gain,
        rise_interval: spec.dcqcn_rise_interval,
        byte_counter: spec.dcqcn_byte_counter.map(|bytes| bytes.0),
        recovery_steps: spec.dcqcn_recovery_steps,
        additive: spec.dcqcn_additive_increase.map(|rate| rate.0),
        hyper: spec.dcqcn_hyper_increase.map(|rate| rate.0),
        minimum_rate: spec.dcqcn_minimum_rate.map(|rate| rate.0),
    };
    let control = match spec.rdma_control {
        RdmaControlName::None => ControlChoice::Fixed(Control::None),
        RdmaControlName::DcqcnPaper => ControlChoice::Dcqcn(Preset::Paper, changes),
        RdmaControlName::DcqcnConnectx => ControlChoice::Dcqcn(Preset::ConnectX, changes),
        RdmaControlName::DcqcnHpcc => ControlChoice::Dcqcn(Preset::Hpcc, changes),
        RdmaControlName::Timely => ControlChoice::Timely,
        // `set_longest_path` fills in the path length and the base round-trip time of the network.
        RdmaControlName::Swift => ControlChoice::Swift(0),
        RdmaControlName::Nscc => ControlChoice::Nscc(NsccNetwork { base_rtt: Span::ZERO, trims }),
        RdmaControlName::Hpcc => ControlChoice::Hpcc { max_stage: spec.hpcc_max_stage, base_rtt: Span::ZERO },
    };
    Some(RdmaSettings {
        pair,
        control,
        ecn: spec.ecn != EcnName::Off,
        cnp_priority: Priority::new(spec.rdma_cnp_priority).unwrap_or_default(),
    })
}

/// Sets the longest path: HPCC divides by its round-trip time in the idle network, and the target delay of
/// Swift grows with its number of links.
pub(super) fn set_longest_path(
    settings: &mut RdmaSettings,
    rtt: impl FnOnce() -> Span,
    links: impl FnOnce() -> u32,
) {
    match &mut settings.control {
        ControlChoice::Hpcc { base_rtt, .. } | ControlChoice::Nscc(NsccNetwork { base_rtt, .. }) => {
            *base_rtt = rtt();
        }
        ControlChoice::Swift(hops) => *hops = links(),
        _ => {}
    }
}
