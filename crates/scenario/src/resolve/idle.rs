//! Keys of `[host]`, `[switch]` and `[routing]` that act on some kinds of transport only: where those in use are of another kind, they are
//! refused or warned of.

use super::by_rate;
use super::checks::{Named, udp_source};
use crate::spec::host::{GRO_TIMEOUT, TSO_SIZE, default_nic_buffer};
use crate::spec::record::DEADLOCK_AFTER;
use crate::spec::{
    ClassSettings, HostSpec, HostStack, Marker, NicQueue, QueueDiscipline, RecordSpec, RoutingSpec, Stop,
    SwitchSpec, TransportKindName, WorkloadKind,
};
use TransportKindName::{Rdma, Tcp, Udp};
use pauseframe_fabric::CodelSettings;
use pauseframe_schema::ledger::Ledger;
use pauseframe_schema::value::Choice;
use pauseframe_topology::Topology;
use pauseframe_units::Priority;
use pauseframe_workload::Partial;

/// The kinds of transport in use.
struct Kinds(Vec<TransportKindName>);

impl Kinds {
    fn of(transports: &[Named], workloads: &[Partial]) -> Kinds {
        let used = transports.iter().filter(|named| named.is_used).map(|named| named.spec.kind);
        let is_udp = |workload: &&Partial| matches!(workload.kind, Some(WorkloadKind::Udp(_)));
        Kinds(used.chain(workloads.iter().filter(is_udp).map(|_| Udp)).collect())
    }

    fn has(&self, kind: TransportKindName) -> bool {
        self.0.contains(&kind)
    }

    /// The first one in use of these, in words.
    fn first(&self, kinds: &[TransportKindName]) -> Option<&'static str> {
        kinds.iter().find(|kind| self.has(**kind)).map(|kind| match kind {
            Tcp => "TCP",
            Rdma => "queue pairs",
            Udp => "datagrams",
        })
    }
}

/// Checks keys that not every kind of transport in use obeys.
pub(super) fn check(
    ledger: &mut Ledger,
    (host, switch, routing): (&HostSpec, &SwitchSpec, &RoutingSpec),
    graph: Option<&Topology>,
    transports: &[Named],
    workloads: &[Partial],
) {
    let kinds = Kinds::of(transports, workloads);
    if workloads.is_empty() {
        return;
    }
    // A resolved scenario has every key, so those with their defaults are not meant.
    let of_tcp = [
        ("tso", host.tso),
        ("tso_size", host.tso_size != TSO_SIZE),
        ("gro", host.gro),
        ("gro_timeout", host.gro_timeout != GRO_TIMEOUT),
        ("ticks_apart", host.ticks_apart),
    ];
    for (key, _) in of_tcp.iter().filter(|(_, is_changed)| *is_changed && !kinds.has(Tcp)) {
        ledger.warn(format!("host.{key}: it acts on TCP alone, which no workload uses: it changes nothing"));
    }
    for (key, is_changed, needs, is_on) in [
        ("tso_size", host.tso_size != TSO_SIZE, "tso", host.tso),
        ("gro_timeout", host.gro_timeout != GRO_TIMEOUT, "gro", host.gro),
    ] {
        if is_changed && !is_on && kinds.has(Tcp) {
            ledger.warn(format!("host.{key}: {needs} is off, so it changes nothing"));
        }
    }
    if !kinds.has(Tcp) && !kinds.has(Udp) && host.nic_buffer != default_nic_buffer(host.nic_queue) {
        ledger.warn("host.nic_buffer: queue pairs hold nothing in it: it changes nothing");
    }
    limits_of_lossy_queues(ledger, switch, transports, workloads);
    priorities_of_cnps(ledger, switch, transports);
    refusing_and_silent(ledger, host, &kinds);
    queues(ledger, switch, transports, workloads);
    trimming(ledger, switch, transports, workloads);
    markers_of_lossless_classes(ledger, switch);
    if host.stack == HostStack::Simulated {
        markers_without_ecn(ledger, switch, graph, transports, workloads);
    }
    codel(ledger, switch);
    codel_of_hosts(ledger, (host, switch), transports, workloads);
    let one_path = kinds.first(&[Rdma, Udp]).filter(|_| routing.picks_a_vlan_per_packet());
    if let Some(kind) = one_path {
        let message =
            format!("\"packet\", but {kind} keep one path: TCP alone picks a VLAN for every packet");
        let hint =
            "use per = \"flow\", or routing.kind = \"spray\", which spreads the packets of all transports";
        ledger.problem("routing.per", message, hint);
    }
}

/// Without PFC no queue is paused, and none waits for another.
pub(super) fn deadlocks(ledger: &mut Ledger, switch: &SwitchSpec, stop: &Stop, record: &RecordSpec) {
    let changed = [
        ("stop.on_deadlock", stop.on_deadlock.is_some()),
        ("record.deadlock_after", record.deadlock_after != DEADLOCK_AFTER),
    ];
    for (key, _) in changed.iter().filter(|(_, is_changed)| *is_changed && switch.pfc.is_none()) {
        ledger.warn(format!("{key}: no priority is lossless, so nothing deadlocks: it changes nothing"));
    }
}

/// Warns of a class whose priorities nobody uses. Bytes that it reserves are missing in the pool nevertheless.
pub(super) fn classes(ledger: &mut Ledger, switch: &SwitchSpec, carried: Option<&[Priority]>) {
    let Some(carried) = carried else { return };
    for (name, class) in &switch.classes {
        let is_idle = !class.priorities.iter().any(|priority| carried.contains(priority));
        if is_idle && class.reserved.is_none() {
            ledger.warn(format!(
                "switch.classes.{name}: nothing is sent in its priorities: it changes nothing"
            ));
        }
    }
}

/// A DSCP gives a transport its priority; CNPs have their own keys.
fn priorities_of_cnps(ledger: &mut Ledger, switch: &SwitchSpec, transports: &[Named]) {
    for Named { path, spec, .. } in transports.iter().filter(|named| named.is_used) {
        let Some(pairs) = spec.rdma().filter(|pairs| pairs.control.reacts_to_cnps()) else { continue };
        let (dscp, own) = (pairs.cnp_dscp, pairs.cnp_priority);
        let mut mapped = switch.priority_of_dscp.iter().filter(|[of_map, _]| *of_map == dscp);
        if let Some([_, priority]) = mapped.find(|[_, priority]| Priority::new(*priority) != Some(own)) {
            ledger.warn(format!(
                "switch.priority_of_dscp: DSCP {dscp} has priority {priority}, and CNPs with this DSCP keep priority {own}: set {path}.rdma_cnp_priority"
            ));
        }
    }
}

/// A number of packets limits lossy queues; what little else travels beside lossless data, such as CNPs, never fills one.
fn limits_of_lossy_queues(
    ledger: &mut Ledger,
    switch: &SwitchSpec,
    transports: &[Named],
    workloads: &[Partial],
) {
    let lossless = lossless_priorities(switch);
    let of_sources = workloads.iter().filter_map(|workload| udp_source(workload.kind.as_ref()));
    let used = transports.iter().filter(|named| named.is_used).map(|named| named.spec.priority);
    let mut priorities = used.chain(of_sources.map(|udp| udp.priority));
    if switch.queue_packets.is_some() && priorities.all(|priority| lossless.contains(&priority)) {
        ledger.warn("switch.queue_packets: it limits lossy queues, and all data is lossless");
    }
}

/// A host without a listener refuses TCP's connections; one that is down answers nobody.
fn refusing_and_silent(ledger: &mut Ledger, host: &HostSpec, kinds: &Kinds) {
    if let Some(kind) = kinds.first(&[Rdma, Udp]).filter(|_| !host.refusing.is_empty()) {
        ledger.warn(format!("host.refusing: {kind} are not refused: only TCP asks a listener"));
    }
    if kinds.has(Udp) && !host.silent.is_empty() {
        ledger.warn("host.silent: datagrams need no answer and count as delivered there, if the host is a destination");
    }
}

/// Nothing lossless is dropped for want of ECN.
fn markers_of_lossless_classes(ledger: &mut Ledger, switch: &SwitchSpec) {
    let lossless = lossless_priorities(switch);
    for (name, class) in &switch.classes {
        let is_lossless = class.priorities.iter().all(|priority| lossless.contains(priority));
        if is_lossless && class.marker.as_ref().is_some_and(Marker::has_changed_not_ect) {
            let path = format!("switch.classes.{name}.marker.not_ect");
            ledger.warn(format!("{path}: it changes nothing: the priorities of this class are lossless"));
        }
    }
}

/// Markers that a person chose, where nothing that passes them is ECN-capable or dropped in place of a mark.
fn markers_without_ecn(
    ledger: &mut Ledger,
    switch: &SwitchSpec,
    graph: Option<&Topology>,
    transports: &[Named],
    workloads: &[Partial],
) {
    let lossless = lossless_priorities(switch);
    let of_sources = workloads.iter().filter_map(|workload| udp_source(workload.kind.as_ref()));
    let of_sources = of_sources.map(|udp| (udp.priority, udp.ecn));
    let used = transports.iter().filter(|named| named.is_used);
    let carried: Vec<(Priority, bool)> =
        used.map(|named| (named.spec.priority, named.spec.is_ecn_capable())).chain(of_sources).collect();
    for (path, marker) in switch.markers() {
        let passes = |(priority, _): &&(Priority, bool)| std::ptr::eq(switch.marker_of(*priority), marker);
        let acts = |(priority, has_ecn): &(Priority, bool)| {
            *has_ecn || (marker.drops_not_ect() && !lossless.contains(priority))
        };
        let mut passing = carried.iter().filter(passes).peekable();
        let is_chosen = *marker != Marker::NONE && !by_rate::is_default(marker, graph);
        if is_chosen && !ledger.failed(&path) && passing.peek().is_some() && !passing.any(acts) {
            ledger.warn(format!("{path}: nothing that passes it is ECN-capable: it marks nothing"));
        }
    }
    for (path, queue, codel) in switch.codels() {
        let passes = |priority: Priority| switch.codel_of(priority) == Some(codel);
        let is_marked = carried.iter().any(|(priority, has_ecn)| *has_ecn && passes(*priority));
        let is_passed = carried.iter().any(|(priority, _)| passes(*priority));
        let changed = [
            ("ecn", codel.ecn != CodelSettings::of(queue).ecn),
            ("ce_threshold", codel.ce_threshold.is_some()),
        ];
        for (key, _) in changed.iter().filter(|(_, is_changed)| *is_changed && is_passed && !is_marked) {
            ledger.warn(format!(
                "{path}.{key}: nothing that passes the queue is ECN-capable, so it changes nothing"
            ));
        }
    }
}

/// The lossless priorities: with PAUSE of whole links, all.
fn lossless_priorities(switch: &SwitchSpec) -> Vec<Priority> {
    match &switch.pfc {
        Some(pfc) if pfc.whole_link => (0..8).filter_map(Priority::new).collect(),
        Some(pfc) => pfc.priorities.clone(),
        None => Vec::new(),
    }
}

/// CoDel drops, so no lossless priority has it; and it takes the place of a marker.
fn codel(ledger: &mut Ledger, switch: &SwitchSpec) {
    let lossless = lossless_priorities(switch);
    let of_classes = switch.classes.iter().map(|(name, class)| (format!("switch.classes.{name}"), class));
    let of_classes: Vec<_> = of_classes.filter(|(_, class)| class.queue.is_some()).collect();
    let path = |priority: &Priority| {
        let own = of_classes.iter().find(|(_, class)| class.priorities.contains(priority));
        own.map_or("switch", |(path, _)| path)
    };
    if let Some(priority) = lossless.iter().find(|priority| switch.queue_of(**priority).has_codel()) {
        let message = format!("CoDel drops packets, and priority {priority} is lossless");
        let hint = "write queue = \"fifo\" in a class of switch.classes with the lossless priorities";
        ledger.problem(&format!("{}.queue", path(priority)), message, hint);
    }
    let own = (switch.queue.has_codel() && switch.marker != Marker::NONE).then(|| "switch".to_owned());
    let marked = |(_, class): &&(String, &ClassSettings)| {
        let is_on = class.marker.as_ref().is_some_and(|marker| *marker != Marker::NONE);
        class.queue.is_some_and(QueueDiscipline::has_codel) && is_on
    };
    for path in own.into_iter().chain(of_classes.iter().filter(marked).map(|(path, _)| path.clone())) {
        let message = "the queue has CoDel, which marks in its place";
        ledger.problem(&format!("{path}.marker"), message, "remove it, or write marker = \"none\"");
    }
}

/// CoDel of hosts is for what sockets send over lossy Ethernet.
fn codel_of_hosts(
    ledger: &mut Ledger,
    (host, switch): (&HostSpec, &SwitchSpec),
    transports: &[Named],
    workloads: &[Partial],
) {
    if !matches!(host.nic_queue, NicQueue::Codel | NicQueue::FqCodel) || ledger.failed("host.nic_queue") {
        return;
    }
    let name = host.nic_queue.name();
    let lossless = lossless_priorities(switch);
    let is_lossless = |priority: Priority| lossless.contains(&priority);
    let used = || transports.iter().filter(|named| named.is_used);
    let of_sources = workloads.iter().any(|workload| match &workload.kind {
        Some(WorkloadKind::Udp(udp)) => is_lossless(udp.priority),
        _ => false,
    });
    let why = if used().any(|named| named.spec.kind == Rdma) {
        "packets of queue pairs pass no queueing discipline"
    } else if of_sources || used().any(|named| is_lossless(named.spec.priority)) {
        "it drops packets, and hosts send in a lossless priority"
    } else {
        return;
    };
    ledger.problem("host.nic_queue", format!("{name:?}, but {why}"), "use \"per_flow\"");
}

/// A queue that serves by what a sender has left needs TCP, whose packets tell it.
fn queues(ledger: &mut Ledger, switch: &SwitchSpec, transports: &[Named], workloads: &[Partial]) {
    let of_transports = transports.iter().filter(|named| named.is_used && named.spec.kind != Tcp);
    let of_transports = of_transports.map(|named| (named.spec.priority, named.spec.kind.name()));
    let of_sources = workloads.iter().filter_map(|workload| match &workload.kind {
        Some(WorkloadKind::Udp(udp)) => Some((udp.priority, Udp.name())),
        _ => None,
    });
    for (priority, kind) in of_transports.chain(of_sources) {
        if switch.queue_of(priority) != QueueDiscipline::Pfabric {
            continue;
        }
        let path = path_of_queue(switch, priority);
        if !ledger.failed(&path) {
            let message = format!(
                "\"pfabric\" serves by the bytes that a flow has left, which packets of kind {kind:?} (priority {priority}) do not say"
            );
            ledger.problem(&path, message, "use \"fifo\" for their priority (switch.classes), or TCP");
        }
    }
}

/// The key that gives a priority its queue discipline.
fn path_of_queue(switch: &SwitchSpec, priority: Priority) -> String {
    let class = switch.classes.iter().find(|(_, class)| class.priorities.contains(&priority));
    let class = class.filter(|(_, class)| class.queue.is_some());
    class.map_or("switch.queue".to_owned(), |(name, _)| format!("switch.classes.{name}.queue"))
}

/// Trimming needs a receiver that asks for the payload at once, which is NSCC's.
fn trimming(ledger: &mut Ledger, switch: &SwitchSpec, transports: &[Named], workloads: &[Partial]) {
    let used = transports.iter().filter(|named| named.is_used);
    let of_transports = used.map(|named| {
        let asks = named.spec.rdma().is_some_and(|pairs| pairs.control.is_unordered());
        (named.spec.priority, asks, named.path.clone())
    });
    let of_sources = workloads.iter().filter_map(|workload| udp_source(workload.kind.as_ref()));
    let of_sources = of_sources.map(|udp| (udp.priority, false, "datagrams".to_owned()));
    for (priority, asks, whose) in of_transports.chain(of_sources) {
        if !asks && switch.queue_of(priority) == QueueDiscipline::Trim {
            let path = path_of_queue(switch, priority);
            ledger.warn(format!(
                "{path}: \"trim\" trims packets of NSCC alone (rdma_control = \"nscc\"): those of {whose} are queued and dropped as with \"fifo\""
            ));
        }
    }
}
