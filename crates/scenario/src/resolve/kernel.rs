//! What a scenario may ask of hosts that are namespaces of a Linux kernel.

use super::checks::Named;
use super::draft::Draft;
use super::kernel_keys::{conflicts, unreached};
use crate::spec::lookup::no_such_node;
use crate::spec::{HostSpec, HostStack, INTERRUPT_DELAY, NicQueue, TransportSpec, WorkloadKind};
use pauseframe_fabric::matches_glob;
use pauseframe_schema::ledger::Ledger;
use pauseframe_topology::Topology;
use pauseframe_transport::{CongestionControlConfig, EcnMode};
use pauseframe_units::{NodeId, Span};
use pauseframe_workload::Partial;
use std::collections::HashSet;

/// Of our congestion controls, those that Linux has too, and their names there.
const IN_LINUX: [(&str, &str); 5] =
    [("newreno", "reno"), ("cubic", "cubic"), ("dctcp", "dctcp"), ("vegas", "vegas"), ("bbr", "bbr")];
/// One kernel has interrupts for so many network cards.
const HOSTS_MAX: usize = 52;

/// The name of a congestion control in Linux, if it has it.
pub(crate) fn name_in_linux(control: &CongestionControlConfig) -> Option<&'static str> {
    IN_LINUX.iter().find(|(ours, _)| *ours == control.name()).map(|(_, theirs)| *theirs)
}

/// The hosts that have the kernel.
pub(crate) fn kernel_hosts(topology: &Topology, host: &HostSpec) -> Vec<NodeId> {
    let is_chosen = |name: &str| host.kernel_hosts.iter().any(|pattern| matches_glob(pattern, name));
    let name = |host: NodeId| topology.nodes()[host].name.as_str();
    topology.hosts().filter(|node| host.kernel_hosts.is_empty() || is_chosen(name(*node))).collect()
}

/// Checks that the kernel can do what the scenario sets for hosts, and that only kernel hosts have what the kernel alone offers.
pub(super) fn check(ledger: &mut Ledger, draft: &Draft) {
    let host = &draft.host;
    if host.stack == HostStack::Kernel {
        check_kernel(ledger, draft);
        return;
    }
    let given = [
        ("host.kernel_hosts", host.kernel_hosts.is_empty()),
        ("host.sysctl", host.sysctl.is_empty()),
        ("host.qdisc", host.qdisc.is_empty()),
        ("host.route", host.route.is_empty()),
        ("host.interrupt_delay", host.interrupt_delay == INTERRUPT_DELAY),
        ("record.kernel", draft.record.kernel.is_none()),
    ];
    for (path, _) in given.iter().filter(|(_, is_empty)| !is_empty) {
        ledger.problem(path, "is for hosts with a kernel", "set host.stack = \"kernel\", or remove it");
    }
}

/// Each pattern names a host, and the kernel has an interrupt for each host.
fn check_hosts(ledger: &mut Ledger, host: &HostSpec, graph: &Topology) {
    for (index, pattern) in host.kernel_hosts.iter().enumerate() {
        if !graph.hosts().any(|node| matches_glob(pattern, &graph.nodes()[node].name)) {
            let (message, hint) = no_such_node(graph, pattern);
            ledger.problem(&format!("host.kernel_hosts.{index}"), message, hint);
        }
    }
    let hosts = kernel_hosts(graph, host).len();
    if hosts > HOSTS_MAX {
        let message = format!("a kernel has at most {HOSTS_MAX} hosts, and {hosts} are to have it");
        ledger.problem("host.stack", message, "name fewer in host.kernel_hosts, or use a smaller topology");
    }
}

/// Listed flows have the kernel at both ends or at none. Flows that a workload draws are checked when they start.
fn check_ends(ledger: &mut Ledger, host: &HostSpec, graph: &Topology, workloads: &[Partial]) {
    let nodes = kernel_hosts(graph, host);
    let names: HashSet<&str> = nodes.iter().map(|node| graph.nodes()[*node].name.as_str()).collect();
    let has_kernel = |name: &str| names.contains(name);
    for (index, workload) in workloads.iter().enumerate() {
        let (key, ends): (&str, Vec<(&str, &str)>) = match &workload.kind {
            Some(WorkloadKind::Flows(list)) => {
                ("flows", list.flows.iter().map(|flow| (flow.src.as_str(), flow.dst.as_str())).collect())
            }
            Some(WorkloadKind::LongFlows(list)) => {
                ("flows", list.flows.iter().map(|flow| (flow.src.as_str(), flow.dst.as_str())).collect())
            }
            Some(WorkloadKind::Requests(spec)) => {
                let servers = spec.server.iter().chain(&spec.servers);
                ("client", servers.map(|server| (spec.client.as_str(), server.as_str())).collect())
            }
            _ => continue,
        };
        if let Some((src, dst)) = ends.iter().find(|(src, dst)| has_kernel(src) != has_kernel(dst)) {
            let message = format!("the flow from {src} to {dst} has a kernel at one end only");
            let hint = "name both hosts in host.kernel_hosts, or neither";
            ledger.problem(&format!("workload.{index}.{key}"), message, hint);
        }
    }
}

/// These words reach `tc`, `ip` and a shell in the kernel, which sees the files of this computer.
fn check_words(ledger: &mut Ledger, host: &HostSpec) {
    let is_plain = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || " ._:/%+-".contains(c));
    let of_path = |path: &str, is_fine: bool, ledger: &mut Ledger| {
        if !is_fine {
            let hint = "use letters, digits, spaces and . _ : / % + - only";
            ledger.problem(path, "has characters that a command could misread", hint);
        }
    };
    of_path("host.qdisc", is_plain(&host.qdisc), ledger);
    of_path("host.route", is_plain(&host.route), ledger);
    for (index, setting) in host.sysctl.iter().enumerate() {
        let path = format!("host.sysctl.{index}");
        match setting.split_once('=') {
            Some((key, value)) => {
                let is_key = key.trim().chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
                of_path(&path, is_key && is_plain(value), ledger);
            }
            None => ledger.problem(&path, "is not \"key = value\"", "such as \"net.ipv4.tcp_ecn = 1\""),
        }
    }
}

fn check_kernel(ledger: &mut Ledger, draft: &Draft) {
    let Draft { graph, routing, host, qcn, transports, workloads, .. } = draft;
    check_words(ledger, host);
    if let Some(graph) = graph {
        check_hosts(ledger, host, graph);
        check_ends(ledger, host, graph, workloads);
    }
    let refused = [
        ("host.tx_delay", host.tx_delay > Span::ZERO && !host.kernel_hosts.is_empty()),
        ("host.refusing", !host.refusing.is_empty()),
        ("host.silent", !host.silent.is_empty()),
        ("host.tso", host.tso),
        ("host.gro", host.gro),
        ("routing.vlans", routing.vlans.is_some()),
        ("qcn", qcn.is_some()),
    ];
    for (path, _) in refused.iter().filter(|(_, given)| *given) {
        ledger.problem(
            path,
            "is not supported with host.stack = \"kernel\"",
            "remove it, or use \"simulated\"",
        );
    }
    check_transports(ledger, host, transports);
    warn_of_ignored_keys(ledger, host);
    for (index, workload) in workloads.iter().enumerate() {
        if matches!(
            workload.kind,
            Some(
                WorkloadKind::Udp(_)
                    | WorkloadKind::Application(_)
                    | WorkloadKind::Training(_)
                    | WorkloadKind::Storage(_)
                    | WorkloadKind::KvTransfer(_)
            )
        ) {
            let message = "the agent in the kernel opens TCP connections for flows only";
            ledger.problem(
                &format!("workload.{index}.kind"),
                message,
                "use another kind, or host.stack = \"simulated\"",
            );
        }
    }
}

/// Transports that Linux has. A kernel has one value of most keys for all its flows.
fn check_transports(ledger: &mut Ledger, host: &HostSpec, transports: &[Named]) {
    // Programs send in the class of the first transport.
    let is_alone = transports.iter().all(|transport| !transport.is_used);
    let used = |(index, transport): &(usize, &Named)| transport.is_used || is_alone && *index == 0;
    let used: Vec<&Named> =
        transports.iter().enumerate().filter(used).map(|(_, transport)| transport).collect();
    for Named { path, spec, .. } in &used {
        let Some(tcp) = spec.tcp().map(|tcp| &tcp.config) else {
            ledger.problem(
                &format!("{path}.kind"),
                "the kernel has TCP only",
                "use \"tcp\", or host.stack = \"simulated\"",
            );
            continue;
        };
        if name_in_linux(&tcp.congestion_control).is_none() {
            let known: Vec<&str> = IN_LINUX.iter().map(|(ours, _)| *ours).collect();
            let message = format!("Linux has no {}", tcp.congestion_control.name());
            ledger.problem(
                &format!("{path}.congestion_control"),
                message,
                format!("one of {}", known.join(", ")),
            );
        } else if tcp.ecn == EcnMode::Dctcp && tcp.congestion_control.name() != "dctcp" {
            let hint = "use \"off\", \"classic\", or congestion_control = \"dctcp\"";
            ledger.problem(&format!("{path}.ecn"), "Linux echoes marks as DCTCP only for dctcp", hint);
        } else {
            warn_of_unreached_keys(ledger, path, spec);
        }
    }
    let mut of_tcp = used.iter().filter_map(|named| Some((named, named.spec.tcp()?)));
    let Some((first, of_first)) = of_tcp.next() else { return };
    for (other, tcp) in of_tcp {
        let mut keys = conflicts(&first.spec, &other.spec);
        if tcp.initial_window != of_first.initial_window && !host.route.contains("initcwnd") {
            keys.push("initial_window");
        }
        for key in keys {
            let message = format!("the kernel has one {key} for all flows, and {} has another", first.path);
            ledger.problem(&format!("{}.{key}", other.path), message, "use the same for all");
        }
    }
}

fn warn_of_unreached_keys(ledger: &mut Ledger, path: &str, spec: &TransportSpec) {
    let key = |path_of_entry: &str| path_of_entry.strip_prefix(path)?.strip_prefix('.').map(str::to_owned);
    let entries: Vec<(String, String)> =
        ledger.entries().iter().filter_map(|entry| Some((key(&entry.path)?, entry.value.clone()))).collect();
    let entries: Vec<(&str, &str)> =
        entries.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    for [key, value, of_kernel, advice] in unreached(spec, &entries) {
        ledger.warn(format!(
            "{path}.{key} = {value} does not reach kernel hosts, which have {of_kernel}: {advice}"
        ));
    }
}

/// Keys of `[host]` that only simulated hosts have, and that change no result where they do not matter.
fn warn_of_ignored_keys(ledger: &mut Ledger, host: &HostSpec) {
    let ignored = [
        ("host.tx_jitter", host.tx_jitter > Span::ZERO),
        ("host.nic_buffer", host.nic_buffer != crate::spec::FLOW_SHARE),
        ("host.nic_queue", host.nic_queue != NicQueue::PerFlow),
        ("host.ticks_apart", host.ticks_apart),
    ];
    for (path, _) in ignored.iter().filter(|(_, given)| *given) {
        ledger.warn(format!(
            "{path} does not reach kernel hosts: use host.qdisc, or host.stack = \"simulated\""
        ));
    }
}
