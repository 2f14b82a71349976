//! Connections of several queue pairs or subflows, and queue pairs of several paths: what can use them.

use super::checks::Named;
use crate::spec::{
    HostSpec, HostStack, QueueDiscipline, RdmaSpec, RecordSpec, RoutingKind, RoutingSpec, SwitchSpec,
    WorkloadKind,
};
use pauseframe_fabric::path_hash::HashFunction;
use pauseframe_rdma::{DpOrdering, EntropyChoice, QueuePairSettings};
use pauseframe_schema::ledger::Ledger;
use pauseframe_schema::value::Choice;
use pauseframe_transport::CongestionControlConfig;
use pauseframe_workload::Partial;

/// What helps queue pairs whose packets overtake each other.
pub(super) const ANY_ORDER: &str = "use rdma_dp_ordering = \"ooo_rw\", or rdma_control = \"nscc\"";

/// How a workload uses the queue pairs of a connection.
enum Use {
    /// Messages, one after another in either direction.
    Messages,
    /// A connection for each flow, which is one message.
    OneMessage,
    /// Exchanges that one queue pair carries.
    Exchanges(&'static str),
}

impl Use {
    fn of(kind: &WorkloadKind) -> Use {
        match kind {
            WorkloadKind::Application(_) | WorkloadKind::Training(_) => Use::Messages,
            WorkloadKind::Requests(_) | WorkloadKind::ScatterGather(_) => Use::Exchanges("waits for replies"),
            WorkloadKind::Incast(incast) if incast.request.0 > 0 => Use::Exchanges("waits for replies"),
            WorkloadKind::Storage(_) => Use::Exchanges("reads and writes in the order of one queue pair"),
            WorkloadKind::Hotspot(_) => Use::Exchanges("keeps the connections of its sources"),
            WorkloadKind::KvTransfer(_) => Use::Exchanges("keeps the connections of its GPUs"),
            WorkloadKind::Flows(_)
            | WorkloadKind::Permutation(_)
            | WorkloadKind::NToOne(_)
            | WorkloadKind::LongFlows(_)
            | WorkloadKind::Incast(_)
            | WorkloadKind::Background(_)
            | WorkloadKind::Udp(_) => Use::OneMessage,
        }
    }
}

/// Checks keys about several queue pairs of a connection.
pub(super) fn check(ledger: &mut Ledger, transports: &[Named], workloads: &[Partial]) {
    for Named { name, path, spec, is_used, .. } in transports {
        let Some(pairs) = spec.rdma().filter(|_| *is_used) else { continue };
        let key = format!("{path}.rdma_qps_per_connection");
        if pairs.qps_per_connection == 1 {
            if pairs.split_data_on_qps {
                ledger.warn(format!(
                    "{path}.rdma_split_data_on_qps: a connection has one queue pair: it changes nothing"
                ));
            }
            continue;
        }
        let own = workloads.iter().filter(|workload| workload.transport == *name);
        check_workloads(ledger, (&key, path, pairs), own);
    }
}

/// Checks keys about subflows of MPTCP.
pub(super) fn subflows(ledger: &mut Ledger, transports: &[Named], host: &HostSpec, record: &RecordSpec) {
    for Named { path, spec, is_used, .. } in transports {
        let Some(tcp) = spec.tcp().filter(|_| *is_used).map(|tcp| &tcp.config) else { continue };
        let key = format!("{path}.subflows");
        if tcp.subflows == 1 {
            if tcp.congestion_control == CongestionControlConfig::Lia {
                ledger.warn(format!(
                    "{path}.congestion_control: \"lia\" couples subflows, and a connection has one: it is newreno here; set {path}.subflows, or another control"
                ));
            }
            continue;
        }
        let refused = [
            (
                host.stack == HostStack::Kernel,
                "hosts with a kernel open TCP connections",
                "use 1, or host.stack = \"simulated\"",
            ),
            (
                record.packets.is_some(),
                "captures do not show MPTCP's options yet",
                "use 1, or remove record.packets",
            ),
        ];
        for (_, message, hint) in refused.iter().filter(|(is_so, ..)| *is_so) {
            ledger.problem(&key, *message, *hint);
        }
    }
}

/// How queue pairs take packets that overtake each other for losses; `None`: they do not.
pub(super) fn mistakes_order(pairs: &RdmaSpec) -> Option<&'static str> {
    if pairs.control.is_unordered() || pairs.pair.dp_ordering == DpOrdering::OooRw {
        None
    } else if pairs.pair.selective_repeat {
        Some("send packets again that others have overtaken")
    } else {
        Some("send all from the first gap on again (go-back-N)")
    }
}

/// Warns of queue pairs that take packets for lost which others overtake.
pub(super) fn overtaking(ledger: &mut Ledger, transports: &[Named], routing: &RoutingSpec) {
    let Some(reason) = routing.reorders() else { return };
    let key = reason.split_once(' ').map_or(reason, |(key, _)| key);
    for Named { path, spec, is_used, .. } in transports {
        let pairs = spec.rdma().filter(|_| *is_used);
        let Some((pairs, how)) = pairs.and_then(|pairs| Some((pairs, mistakes_order(pairs)?))) else {
            continue;
        };
        let able = !pairs.pair.uses_send && !pairs.control.reads_telemetry();
        let cure = if able { ANY_ORDER } else { "use rdma_control = \"nscc\"" };
        ledger.warn(format!(
            "{key}: packets overtake each other ({reason}), and queue pairs of {path} then {how}: {cure}, or routing \
             by flow or flowlet (\"ecmp\", \"letflow\")"
        ));
    }
}

/// Checks keys about placement in any order.
pub(super) fn placement(ledger: &mut Ledger, transports: &[Named]) {
    for Named { path, spec, is_used, .. } in transports {
        let Some(pairs) = spec.rdma().filter(|_| *is_used) else { continue };
        if pairs.pair.dp_ordering == DpOrdering::InOrder {
            if pairs.pair.ooo_window != QueuePairSettings::default().ooo_window {
                ledger.warn(format!(
                    "{path}.rdma_ooo_window: rdma_dp_ordering is \"in_order\": it changes nothing"
                ));
            }
            continue;
        }
        let refused = [
            (pairs.control.is_unordered(), "NSCC delivers in any order by rules of its own", "leave it out"),
            (
                pairs.control.reads_telemetry(),
                "HPCC compares the stamps of packets that took the same links",
                "use another rdma_control, or \"in_order\"",
            ),
            (
                pairs.pair.uses_send,
                "SENDs are placed in order, each in the next posted receive",
                "use WRITEs (rdma_send = false), or \"in_order\"",
            ),
        ];
        if let Some((_, message, hint)) = refused.iter().find(|(is_so, ..)| *is_so) {
            ledger.problem(&format!("{path}.rdma_dp_ordering"), *message, *hint);
        }
    }
}

/// Checks keys about entropy values of packets.
pub(super) fn entropy(ledger: &mut Ledger, transports: &[Named], routing: &RoutingSpec, switch: &SwitchSpec) {
    for Named { path, spec, is_used, .. } in transports {
        let Some(pairs) = spec.rdma().filter(|_| *is_used) else { continue };
        let (key, choice) = (format!("{path}.rdma_entropy"), pairs.pair.entropy);
        if choice == EntropyChoice::None {
            if pairs.pair.entropy_values != 64 {
                ledger.warn(format!(
                    "{path}.rdma_entropy_values: rdma_entropy is \"none\": it changes nothing"
                ));
            }
            continue;
        }
        let is_nscc = pairs.control.is_unordered();
        let trims = switch.queue_of(spec.priority) == QueueDiscipline::Trim;
        let refused = [
            (
                routing.kind != RoutingKind::Ecmp,
                "switches do not hash packets with this routing.kind",
                "use routing.kind = \"ecmp\"",
            ),
            (
                routing.hash.function != HashFunction::Ideal,
                "routing.hash is computed for flows here, not for packets",
                "use routing.hash = \"ideal\"",
            ),
            (
                !pairs.pair.selective_repeat && mistakes_order(pairs).is_some(),
                "packets overtake each other, and go-back-N takes each for a loss",
                ANY_ORDER,
            ),
            (
                !is_nscc && choice != EntropyChoice::Oblivious,
                "only acknowledgements of NSCC name the packet whose value was good or bad",
                "use rdma_control = \"nscc\", or \"oblivious\"",
            ),
            (
                choice == EntropyChoice::Reps && !trims,
                "without trimming a timeout need not mean a broken path, as in htsim",
                "use switch.queue = \"trim\", or \"mixed\"",
            ),
        ];
        if let Some((_, message, hint)) = refused.iter().find(|(is_so, ..)| *is_so) {
            ledger.problem(&key, format!("{}: {message}", choice.name()), *hint);
        }
    }
}

fn check_workloads<'a>(
    ledger: &mut Ledger,
    (key, path, pairs): (&str, &str, &RdmaSpec),
    workloads: impl Iterator<Item = &'a Partial>,
) {
    let mut has_messages = false;
    let mut single = Vec::new();
    for workload in workloads {
        match workload.kind.as_ref().map(Use::of) {
            Some(Use::Messages) => has_messages = true,
            Some(Use::OneMessage) => single.push(workload.name.as_str()),
            Some(Use::Exchanges(why)) => {
                let message = format!("workload {} {why}, on one queue pair", workload.name);
                ledger.problem(key, message, "set it to 1, or give this workload its own transport");
            }
            None => {}
        }
    }
    if !pairs.split_data_on_qps && !has_messages && !single.is_empty() {
        let named = single.join(", ");
        ledger.warn(format!(
            "{key}: each flow of {named} is one message, which takes one queue pair: it changes nothing; \
             set {path}.rdma_split_data_on_qps = true to cut it in parts"
        ));
    }
}
