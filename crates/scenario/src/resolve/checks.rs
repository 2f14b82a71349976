//! Checks that involve several tables of a scenario: buffer and MTU sizes against frames, thresholds against
//! buffers, transports against switches, workloads against topology.

use crate::spec::{
    BufferPolicy, ClassSettings, HostSpec, HostStack, NicQueue, PfcSettings, QcnSettings, RdmaSpec,
    RoutingSpec, Stop, SwitchSpec, TopologySpec, TransportSpec, UdpSpec, WireOverhead, WorkloadKind,
};
use pauseframe_fabric::{IPV4_UDP_HEADER_BYTES, all_ports};
use pauseframe_rdma::WindowKind;
use pauseframe_rdma::cc::ControlName;
use pauseframe_rdma::cc::hpcc::TELEMETRY_BYTES;
use pauseframe_schema::ledger::Ledger;
use pauseframe_schema::value::{Choice, Setting};
use pauseframe_topology::{Link, NodeKind, Topology};
use pauseframe_units::{BitRate, Bytes, PortId, Priority, Span, counted};
use pauseframe_workload::hosts::Hosts;
use pauseframe_workload::{ANSWER, COMMAND};
use pauseframe_workload::{Partial, application};

/// A transport that the resolver has read.
pub(crate) struct Named {
    /// Name of the transport; "default" for `[transport]`.
    pub(crate) name: String,
    /// Path of the transport's table: "transport" or "transports.NAME".
    pub(crate) path: String,
    pub(crate) spec: TransportSpec,
    /// The priority of the transport, if the file gives one.
    pub(crate) priority: Option<Priority>,
    /// True if the file sets how small segments are sent (Nagle's algorithm).
    pub(crate) keeps_small_segments: bool,
    /// True if a workload uses the transport.
    pub(crate) is_used: bool,
}

/// Size of the Ethernet header and FCS in bytes, which buffers count.
const FRAME_OVERHEAD: u64 = 18;

pub(crate) fn frame(host: &HostSpec) -> Bytes {
    match host.wire_overhead {
        WireOverhead::Ethernet => Bytes(host.mtu.0 + FRAME_OVERHEAD),
        WireOverhead::None => host.mtu,
    }
}

/// Checks that `host.refusing` and `host.silent` name existing hosts.
pub(crate) fn host_names(ledger: &mut Ledger, host: &HostSpec, hosts: Option<&Hosts>) {
    let Some(hosts) = hosts else { return };
    for (path, names) in [("host.refusing", &host.refusing), ("host.silent", &host.silent)] {
        if let Some(unknown) = names.iter().find(|name| !hosts.contains(name)) {
            ledger.problem(path, hosts.complaint(unknown), hosts.suggestion(unknown));
        }
    }
}

/// Checks that scale-up links join whole servers, and that no host has what only the network knows.
pub(crate) fn scale_up(
    ledger: &mut Ledger,
    topology: Option<&TopologySpec>,
    graph: &Topology,
    host: &HostSpec,
) {
    let Some(scale_up) = topology.and_then(|topology| topology.scale_up.as_ref()) else { return };
    scale_up.check(ledger, graph);
    let refused = [
        ("host.stack", host.stack == HostStack::Kernel),
        ("host.refusing", !host.refusing.is_empty()),
        ("host.silent", !host.silent.is_empty()),
        ("host.slow_receivers", !host.slow_receivers.is_empty()),
    ];
    for (path, _) in refused.iter().filter(|(_, is_given)| *is_given) {
        let message = "acts on what comes over the network, and topology.scale_up goes past it";
        ledger.problem(path, message, "remove one of the two");
    }
}

/// Checks that the scenario has workloads, and that each workload has a unique name. Hosts with a kernel may run programs alone.
pub(crate) fn workloads(ledger: &mut Ledger, workloads: &[Partial], host: &HostSpec) {
    if workloads.is_empty() && host.stack == HostStack::Simulated && !ledger.failed("workload") {
        let hint = "add one, as in [[workload]] with kind = \"permutation\" and size = \"1 MB\"";
        ledger.problem("workload", "is required: at least one", hint);
    }
    for (index, Partial { name, .. }) in workloads.iter().enumerate() {
        if workloads[..index].iter().any(|other| other.name == *name) {
            let message = format!("{name:?} names an earlier workload too");
            ledger.problem(&format!("workload.{index}.name"), message, "give each its own name");
        }
    }
}

/// Warns of shares of flows within racks that the racks of the hosts do not allow.
pub(crate) fn racks(ledger: &mut Ledger, topology: &Topology, workloads: &[Partial]) {
    for (index, workload) in workloads.iter().enumerate() {
        let Some(WorkloadKind::Background(background)) = &workload.kind else { continue };
        if let Some(reason) = background.contrary_racks(topology) {
            ledger.warn(format!("workload.{index}.intra_rack: {reason}"));
        }
    }
}

/// Checks that the hosts of `topology` have enough places for the ranks of all applications together.
pub(crate) fn places(
    ledger: &mut Ledger,
    (topology, gpus_per_server): (&Topology, Option<u32>),
    workloads: &[Partial],
    seed: u64,
) {
    let applications = workloads.iter().map(|workload| workload.kind.as_ref()?.application());
    if let Err((index, reason)) = application::place(applications, topology, gpus_per_server, seed) {
        let path = format!("workload.{index}");
        if ledger.failed(&path) {
            return;
        }
        let is_training = matches!(workloads[index].kind, Some(WorkloadKind::Training(_)));
        let hint = if is_training {
            "set gpus to fewer, or give the fabric more hosts"
        } else {
            "give it fewer ranks, or several on a host (ranks_per_host), or the fabric more hosts"
        };
        ledger.problem(&path, reason, hint);
    }
}

pub(crate) fn end(ledger: &mut Ledger, stop: &Stop, workloads: &[Partial]) {
    let Some(end) = stop.time else { return };
    for Partial { name, kind, .. } in workloads {
        let starts = kind.as_ref().map_or_else(Vec::new, |kind| kind.starts());
        let late: Vec<&Span> = starts.iter().filter(|start| **start >= end).collect();
        match (starts.len(), &late[..]) {
            (1, [start]) => {
                ledger.warn(format!("workload {name}: it starts ({start}) after the end of the run ({end}): lower its start, or raise stop"));
            }
            (_, []) => {}
            _ => {
                let flows = counted(late.len(), "flow");
                ledger.warn(format!("workload {name}: the run ends ({end}) before the start of {flows}"));
            }
        }
    }
}

/// Warns of links so long that nothing comes back over them before the run ends: a typing error such as 10 s for 10 us.
pub(crate) fn delays(ledger: &mut Ledger, stop: &Stop, graph: &Topology) {
    let Some(end) = stop.time else { return };
    let longest =
        |link: &Link| link.channels.map(|channel| channel.delay).into_iter().max().unwrap_or_default();
    let mut long = graph.links().iter().filter(|link| longest(link) * 2 >= end);
    let Some(first) = long.next() else { return };
    let [a, b] = first.ends.map(|end| &graph.nodes()[end].name);
    let more = match long.count() {
        0 => String::new(),
        n => format!(" (and {n} more links)"),
    };
    ledger.warn(format!(
        "topology: the link between {a} and {b}{more} has a delay of {}, and the run ends at {end} (stop.time): no answer \
         comes back over it; check the delay and stop",
        longest(first)
    ));
}

/// Warns of slow receivers that are not slow.
pub(crate) fn slow_receivers(ledger: &mut Ledger, host: &HostSpec, graph: &Topology) {
    let ports_of_hosts = graph.ports_of_hosts();
    for (index, receiver) in host.slow_receivers.iter().enumerate() {
        let Some(node) = graph.find(&receiver.host) else { continue };
        // The ports of a host share its memory.
        let nodes = ports_of_hosts.get(&node).map_or(std::slice::from_ref(&node), Vec::as_slice);
        let ports: Vec<_> = nodes.iter().flat_map(|node| &graph.nodes()[*node].ports).collect();
        let rate = BitRate(ports.iter().map(|port| graph.channel(port.reverse()).rate.0).sum());
        if receiver.rate >= rate && !ports.is_empty() {
            let path = format!("host.slow_receivers.{index}.rate");
            let links = if ports.len() == 1 { "link" } else { "links" };
            ledger.warn(format!(
                "{path}: {} is not below the rate of the {links} to {} ({rate}): this receiver is never slow",
                receiver.rate, receiver.host
            ));
        }
    }
}

/// Priorities in which hosts send, with answers and notifications; `None` if that is not known.
pub(crate) fn carried(
    host: &HostSpec,
    routing: &RoutingSpec,
    qcn: Option<&QcnSettings>,
    transports: &[Named],
    workloads: &[Partial],
) -> Option<Vec<Priority>> {
    if host.stack != HostStack::Simulated || routing.lanes() > 0 {
        return None;
    }
    let used = || transports.iter().filter(|transport| transport.is_used).map(|transport| &transport.spec);
    let pairs = used().filter_map(TransportSpec::rdma);
    let of_sources = workloads.iter().filter_map(|workload| udp_source(workload.kind.as_ref()));
    let all = used().map(|spec| spec.priority).chain(pairs.map(|pairs| pairs.cnp_priority));
    let of_switches = qcn.map(|qcn| qcn.cnm_priority).into_iter().chain(routing.priority_between_switches());
    Some(all.chain(of_sources.map(|udp| udp.priority)).chain(of_switches).collect())
}

/// Checks that every buffer and queue has room for at least one frame.
pub(crate) fn room_for_frames(
    ledger: &mut Ledger,
    host: &HostSpec,
    switch: &SwitchSpec,
    transports: &[Named],
) {
    let frame = frame(host);
    let mut at_least = |path: &str, size: Bytes, least: Bytes, what: &str| {
        if size < least && !ledger.failed(path) && !ledger.failed("host.mtu") {
            let message = format!("{} is less than {what} of host.mtu ({})", size.plain(), least.plain());
            ledger.problem(path, message, "enlarge it, or lower host.mtu");
        }
    };
    at_least("host.nic_buffer", host.nic_buffer, frame, "one frame");
    at_least("switch.buffer.size", switch.buffer.buffer_size(), frame, "one frame");
    let of_tcp = transports.iter().filter_map(|named| Some((&named.path, named.spec.tcp()?)));
    for (path, tcp) in of_tcp {
        let segment = Bytes(host.mtu.0.saturating_sub(40));
        let window = Bytes(u64::from(tcp.config.receive_window));
        at_least(&format!("{path}.receive_window"), window, segment, "one segment");
    }
    let rows = switch.pfc.iter().flat_map(|pfc| &pfc.ports).map(|row| row.xoff).enumerate();
    let of_ports = rows.map(|(index, xoff)| (format!("switch.pfc.ports.{index}.xoff"), xoff));
    let of_all = switch.pfc.iter().map(|pfc| ("switch.pfc.xoff".to_owned(), pfc.xoff));
    for (path, xoff) in of_all.chain(of_ports) {
        if let Some(xoff) = xoff.filter(|xoff| *xoff < frame && !ledger.failed("host.mtu")) {
            ledger.warn(format!(
                "{path}: {xoff} is less than one frame of host.mtu ({frame}): each full frame is answered with a pause"
            ));
        }
    }
}

/// Checks that the switches meet the requirements of the transports in use.
pub(crate) fn transports(
    ledger: &mut Ledger,
    switch: &SwitchSpec,
    transports: &[Named],
    workloads: &[Partial],
) {
    for Named { name, spec, is_used, .. } in transports {
        if !is_used {
            if name != "default" {
                ledger.warn(format!("transports.{name}: no workload uses it"));
            }
            continue;
        }
        if spec.lossless && switch.pfc.is_none() && !ledger.failed("switch.pfc") {
            let message = format!("false, but transport {name:?} is lossless (preset {:?})", spec.preset);
            ledger.problem("switch.pfc", message, "remove it, or set lossless = false there");
        }
        let marker = switch.marker_of(spec.priority);
        match (marker.threshold_text(), spec.is_ecn_capable()) {
            (None, true) if switch.codel_marks(spec.priority) => {}
            (None, true) => ledger.warn(format!(
                "transport {name:?} has ECN, but nothing is marked: switch.marker is {:?}",
                marker.name()
            )),
            (Some(backlog), false) if !spec.lossless && marker.drops_not_ect() => ledger.warn(format!(
                "transport {name:?} has no ECN: switch.marker drops its packets above {backlog}"
            )),
            _ => {}
        }
    }
    let sources = workloads.iter().filter_map(|workload| udp_source(workload.kind.as_ref()));
    let priorities: Vec<Priority> = sources.map(|udp| udp.priority).collect();
    let pauses = |pfc: &PfcSettings| {
        let of_sources = priorities.iter().any(|priority| pfc.priorities.contains(priority));
        pfc.whole_link || of_sources || transports.iter().any(|t| t.is_used && t.spec.lossless)
    };
    if switch.pfc.as_ref().is_some_and(|pfc| !pauses(pfc)) {
        ledger.warn("switch.pfc is on, but no transport in use is lossless: nothing is ever paused");
    }
    if let Some((key, bytes)) = switch.marker.byte_threshold()
        && bytes >= switch.buffer.buffer_size()
    {
        let why = format!("switch.marker.{key} ({bytes}) is not below switch.buffer.size");
        ledger.warn(format!("{why}: nothing is ever marked"));
    }
}

/// Checks that the ECN setting of datagrams fits the markers.
pub(crate) fn marks_of_datagrams(ledger: &mut Ledger, switch: &SwitchSpec, workloads: &[Partial]) {
    for workload in workloads {
        let Some(udp) = udp_source(workload.kind.as_ref()) else { continue };
        let marker = switch.marker_of(udp.priority);
        match marker.threshold_text() {
            None if udp.ecn && switch.codel_marks(udp.priority) => {}
            None if udp.ecn => ledger.warn(format!(
                "workload {:?} has ecn = true, but nothing is marked: switch.marker is {:?}",
                workload.name,
                marker.name()
            )),
            Some(_) if !udp.ecn && marker.marks_on_departure() => ledger.warn(format!(
                "workload {:?} is not ECN-capable (ecn = false): switch.marker lets its datagrams go on as they leave, \
                 and marks none",
                workload.name
            )),
            _ => {}
        }
    }
}

/// Checks that every port of a switch has one value of each marker key, and that every value applies to some
/// port.
pub(crate) fn markers(ledger: &mut Ledger, switch: &SwitchSpec, graph: &Topology) {
    let at_switch = |port: &PortId| graph.nodes()[graph.owner(*port)].kind == NodeKind::Switch;
    let ports: Vec<(String, BitRate)> = all_ports(graph)
        .filter(at_switch)
        .map(|port| (graph.port_name(port), graph.channel(port).rate))
        .collect();
    for (path, marker) in switch.markers().filter(|(_, marker)| marker.varies_by_port()) {
        if let Some((key, message)) = ports.iter().find_map(|(port, rate)| marker.for_port(port, *rate).err())
        {
            ledger.problem(&format!("{path}.{key}"), message, "");
        }
        for (key, selector) in marker.unmatched_selectors(&ports) {
            ledger.warn(format!("{path}.{key}: no port of a switch matches {selector:?}"));
        }
    }
}

pub(super) fn udp_source(kind: Option<&WorkloadKind>) -> Option<&UdpSpec> {
    match kind {
        Some(WorkloadKind::Udp(udp)) => Some(udp),
        _ => None,
    }
}

/// Size of the IPv4, UDP, BTH, RETH and ICRC headers, in bytes.
const RDMA_HEADERS: u64 = 60;

/// Checks that datagrams fit the MTU, because IP fragmentation is not simulated.
pub(crate) fn datagrams(ledger: &mut Ledger, host: &HostSpec, workloads: &[Partial]) {
    for (index, workload) in workloads.iter().enumerate() {
        let Some(udp) = udp_source(workload.kind.as_ref()) else { continue };
        let path = format!("workload.{index}.datagram");
        let most = Bytes(host.mtu.0.saturating_sub(u64::from(IPV4_UDP_HEADER_BYTES)));
        if udp.datagram > most && !ledger.failed(&path) && !ledger.failed("host.mtu") {
            let message = format!("{} and 28 bytes of headers are more than host.mtu", udp.datagram.plain());
            ledger.problem(&path, message, format!("at most {}", most.plain()));
        }
    }
}

/// Checks that packets of queue pairs fit the MTU.
pub(crate) fn queue_pairs(ledger: &mut Ledger, host: &HostSpec, transports: &[Named]) {
    for (table, spec) in rdma_of(transports) {
        let path = format!("{table}.rdma_mtu");
        let telemetry = if spec.control.reads_telemetry() { TELEMETRY_BYTES } else { 0 };
        let mtu = spec.mtu.of(host.mtu, telemetry);
        let needed = Bytes(mtu.0 + RDMA_HEADERS + u64::from(telemetry));
        if needed > host.mtu && !ledger.failed(&path) && !ledger.failed("host.mtu") {
            let message =
                format!("{} and {} bytes of headers are more than host.mtu", mtu.plain(), needed.0 - mtu.0);
            ledger.problem(&path, message, "lower it, or raise host.mtu");
        } else if mtu != spec.mtu.of(host.mtu, 0) {
            ledger.warn(format!(
                "{path}: telemetry leaves room for {}, where other transports have {}: name the size in all, or raise host.mtu by {telemetry} B",
                mtu.plain(),
                spec.mtu.of(host.mtu, 0).plain()
            ));
        }
        idle_keys_of_queue_pairs(ledger, table, spec);
    }
}

/// The transports with queue pairs: path of the table and settings.
fn rdma_of(transports: &[Named]) -> impl Iterator<Item = (&str, &RdmaSpec)> {
    transports.iter().filter_map(|named| Some((named.path.as_str(), named.spec.rdma()?)))
}

/// Refuses keys of queue pairs that another key leaves without an effect.
fn idle_keys_of_queue_pairs(ledger: &mut Ledger, path: &str, spec: &RdmaSpec) {
    let (pair, is_nscc) = (&spec.pair, spec.control.is_unordered());
    let unordered = "NSCC delivers in any order by rules of its own";
    let no_cnps = "rdma_control does not react to CNPs";
    let has_cnps = spec.control.reacts_to_cnps();
    for (key, is_idle, why) in [
        (
            "rdma_receives",
            pair.receives.is_some() && !pair.uses_send,
            "messages are WRITEs; set rdma_send = true",
        ),
        ("rdma_receives", pair.receives.is_some() && is_nscc, unordered),
        ("rdma_tx_window", pair.tx_window.is_some() && is_nscc, unordered),
        ("rdma_nak_interval", pair.nak_interval.is_some() && is_nscc, unordered),
        ("rdma_cnp_on_ingress", pair.cnp_on_ingress.is_some() && !has_cnps, no_cnps),
    ] {
        if is_idle {
            ledger.problem(&format!("{path}.{key}"), format!("has no effect: {why}"), "leave it out");
        }
    }
}

/// Checks that no control has two windows.
pub(crate) fn controls(ledger: &mut Ledger, transports: &[Named]) {
    for (path, spec) in rdma_of(transports) {
        let control = spec.control.name();
        let key = format!("{path}.rdma_window");
        if spec.control.has_window() && spec.window != WindowKind::None && !ledger.failed(&key) {
            let hint = "leave it out, or set rdma_control to one that steers a rate (dcqcn_*, timely, none)";
            ledger.problem(&key, format!("{control} has a window already"), hint);
        }
    }
}

/// Checks that the congestion control of READs needs no acknowledgements: a responder gets none, so it learns no round-trip
/// time and no telemetry.
pub(crate) fn reads(ledger: &mut Ledger, transports: &[Named], workloads: &[Partial]) {
    for (index, Partial { transport, kind, .. }) in workloads.iter().enumerate() {
        let Some(WorkloadKind::Storage(storage)) = kind else { continue };
        let named = transports.iter().find(|named| named.name == *transport);
        let Some((path, spec)) = named.and_then(|named| Some((&named.path, named.spec.rdma()?))) else {
            continue;
        };
        for (key, is_changed) in
            [("command", storage.command != COMMAND), ("answer", storage.answer != ANSWER)]
        {
            if is_changed {
                ledger.warn(format!(
                    "workload.{index}.{key}: queue pairs read and write without capsules: it changes nothing"
                ));
            }
        }
        let needs_answers = spec.control.has_window() || spec.control.built_in() == Some(ControlName::Timely);
        if needs_answers && storage.read_share > 0.0 {
            let control = spec.control.name();
            let message = format!(
                "reads, but {control} needs acknowledgements, and RoCEv2 does not acknowledge the responses to a READ"
            );
            let hint = format!(
                "set read_share = 0, or {path}.rdma_control to \"none\" or one of DCQCN, or use kind = \"requests\", \
                 whose responses are WRITEs"
            );
            ledger.problem(&format!("workload.{index}.read_share"), message, hint);
        }
    }
}

/// Checks that no priority belongs to two classes, and that only classes of a shared buffer set buffer keys.
pub(crate) fn classes(ledger: &mut Ledger, switch: &SwitchSpec) {
    let shared = matches!(switch.buffer, BufferPolicy::Shared(_));
    for (index, (name, class)) in switch.classes.iter().enumerate() {
        let path = format!("switch.classes.{name}");
        let earlier = switch.classes[..index].iter();
        let overlap = |(_, other): &&(String, ClassSettings)| {
            class.priorities.iter().any(|p| other.priorities.contains(p))
        };
        if let Some((other, _)) = earlier.into_iter().find(overlap) {
            let message = format!("switch.classes.{other} has some of them too");
            ledger.problem(&format!("{path}.priorities"), message, "a priority belongs to one class at most");
        }
        for (key, given) in [("alpha", class.alpha.is_some()), ("reserved", class.reserved.is_some())] {
            if given && !shared && !ledger.failed("switch.buffer") {
                let message = "has no meaning: switch.buffer.policy is not \"shared\"";
                ledger.problem(&format!("{path}.{key}"), message, "leave it out, or share the buffer");
            }
        }
    }
}

/// Checks that hosts and switches meet the requirements of QCN.
pub(crate) fn qcn(
    ledger: &mut Ledger,
    qcn: Option<&QcnSettings>,
    host: &HostSpec,
    switch: &SwitchSpec,
    routing: &RoutingSpec,
) {
    let Some(qcn) = qcn else { return };
    if routing.vlans.is_some() && !ledger.failed("routing.kind") {
        let message = "the tables of VLANs lead to hosts, not from a congestion point back to the source";
        ledger.problem("routing.kind", message, "with QCN use ecmp or spray, or qcn = false");
    }
    if host.nic_queue != NicQueue::PerDestination && !ledger.failed("host.nic_queue") {
        let message = format!("{}, but QCN limits the queue of one destination", host.nic_queue.name());
        ledger.problem("host.nic_queue", message, "use per_destination, or qcn = false");
    }
    lossless_control(ledger, "qcn.cnm_priority", qcn.cnm_priority, switch.pfc.as_ref());
}

/// Checks that control frames between switches are lossy.
pub(crate) fn lossless_control(
    ledger: &mut Ledger,
    path: &str,
    priority: Priority,
    pfc: Option<&PfcSettings>,
) {
    if pfc.is_some_and(|pfc| !pfc.whole_link && pfc.priorities.contains(&priority)) && !ledger.failed(path) {
        let message = format!("{priority} is lossless (switch.pfc.priorities)");
        let what = if path.starts_with("qcn") { "a CNM" } else { "a reply" };
        ledger.problem(path, message, format!("{what} must not wait behind a pause: take another"));
    }
}
