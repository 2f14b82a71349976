//! What a scenario may ask of switches that are Linux machines: what a qdisc and a bridge of the kernel have, as far as it is modelled.

use super::checks::Named;
use crate::spec::{HostSpec, HostStack, RoutingKind, RoutingSpec, SwitchSpec, TransportKindName};
use pauseframe_fabric::{BufferPolicy, PortChoice, QueueDiscipline};
use pauseframe_rdma::EntropyChoice;
use pauseframe_schema::ledger::Ledger;

/// Refuses what a Linux machine as a switch does not have, and warns of what has no effect on it.
pub(super) fn check(
    ledger: &mut Ledger,
    (host, switch, routing): (&HostSpec, &SwitchSpec, &RoutingSpec),
    has_qcn: bool,
    transports: &[Named],
    has_workloads: bool,
) {
    let Some(linux) = &switch.linux else { return };
    let has_entropy =
        |named: &Named| named.spec.rdma().is_some_and(|rdma| rdma.pair.entropy != EntropyChoice::None);
    for (path, is_asked, message, hint) in [
        (
            "switch.pfc",
            switch.pfc.is_some(),
            "a Linux switch sends no pause frames",
            "use a transport that is not lossless, and switch.pfc = false",
        ),
        (
            "switch.queue",
            switch.queue != QueueDiscipline::Fifo,
            "the queues of a Linux switch are modelled as pfifo, bfifo or RED",
            "use \"fifo\"",
        ),
        (
            "switch.buffer.policy",
            !matches!(switch.buffer, BufferPolicy::PerPort(_)),
            "a Linux switch has a queue for each port, without a shared pool",
            "use \"per_port\"",
        ),
        (
            "routing.kind",
            routing.kind != RoutingKind::Ecmp,
            "a Linux switch hashes flows to next hops",
            "use \"ecmp\"",
        ),
        ("routing.mlag", routing.mlag, "a Linux switch has no peer link", "leave it out"),
        (
            "host.port_choice",
            host.port_choice == PortChoice::Mux,
            "\"mux\" needs ToR switches with tunnels",
            "choose another one, such as \"active-backup\"",
        ),
        ("qcn", has_qcn, "a Linux switch has no congestion points", "leave it out"),
        (
            "host.stack",
            host.stack == HostStack::Kernel,
            "the GRO of a Linux switch reads the segments of simulated hosts only",
            "use \"simulated\", or switch.kind = \"hardware\"",
        ),
    ] {
        if is_asked {
            ledger.problem(path, message, hint);
        }
    }
    if let Some(named) = transports.iter().find(|named| named.is_used && has_entropy(named)) {
        let message = "a Linux switch hashes flows, without entropy values of packets";
        ledger.problem(&format!("{}.entropy", named.path), message, "use \"none\"");
    }
    for (path, marker) in switch.markers().filter(|(_, marker)| marker.marks_on_departure()) {
        let message = format!("{} at departure: the qdiscs of a Linux switch mark arrivals", marker.name());
        ledger.problem(&format!("{path}.at"), message, "use \"enqueue\"");
    }
    let is_other = |queue: Option<QueueDiscipline>| queue.is_some_and(|queue| queue != QueueDiscipline::Fifo);
    for (name, _) in switch.classes.iter().filter(|(_, class)| is_other(class.queue)) {
        let message = "the queues of a Linux switch are modelled as pfifo, bfifo or RED";
        ledger.problem(&format!("switch.classes.{name}.queue"), message, "use \"fifo\"");
    }
    let has_tcp = transports.iter().any(|named| named.is_used && named.spec.kind == TransportKindName::Tcp);
    if !linux.gro && !has_tcp && has_workloads {
        ledger.warn("switch.linux.gro: it acts on TCP alone, which no workload uses: it changes nothing");
    }
}
