//! Hosts with several ports: keys that then act, and what is not simulated with them.

use super::checks::Named;
use super::connections::{ANY_ORDER, mistakes_order};
use super::draft::Draft;
use crate::spec::{HostSpec, HostStack, LacpRate, Protocol};
use pauseframe_fabric::{DualTorSettings, HostPortSettings, NicQueue, PortChoice};
use pauseframe_schema::ledger::Ledger;
use pauseframe_schema::value::Choice;
use pauseframe_topology::Topology;
use pauseframe_units::{BitRate, NodeId, Span, counted};
use std::collections::BTreeSet;

/// Keys of mux cables.
const OF_MUX: [&str; 3] = ["host.mux_active", "host.link_prober_interval", "host.negative_signal_count"];

/// Checks keys about ports of hosts against the graph.
pub(super) fn check(ledger: &mut Ledger, draft: &Draft) {
    let Some(graph) = &draft.graph else { return };
    let host = &draft.host;
    let several = graph.ports_of_hosts();
    let Some((first, ports)) = several.first_key_value() else {
        for (key, _) in changed(host).iter().filter(|(_, is_changed)| *is_changed) {
            ledger.warn(format!(
                "{key}: every host has one port (topology.ports_per_host, topology.planes): it changes nothing"
            ));
        }
        return;
    };
    let name = &graph.nodes()[*first].name;
    let refused = [
        ("host.stack", host.stack == HostStack::Kernel, "a kernel host has one port", "use \"simulated\""),
        ("qcn", draft.qcn.is_some(), "notifications find hosts with one port only", "use qcn = false"),
    ];
    for (path, _, message, cure) in refused.iter().filter(|(_, is_given, ..)| *is_given) {
        ledger.problem(path, format!("{message}, and {name} has {}", ports.len()), *cure);
    }
    let choice = host.port_choice;
    if choice == PortChoice::RoundRobin {
        check_packets(ledger, draft);
    } else if host.packets_per_slave != HostPortSettings::DEFAULT.packets_per_slave {
        ledger.warn(format!(
            "host.packets_per_slave: port_choice = \"{}\" keeps a flow on its port: it changes nothing; use \"balance-rr\"",
            choice.name()
        ));
    }
    let of_mux = changed(host).into_iter().filter(|(key, is_changed)| *is_changed && OF_MUX.contains(key));
    for (key, _) in of_mux.filter(|_| choice != PortChoice::Mux) {
        ledger.warn(format!(
            "{key}: port_choice = \"{}\" has no mux cable: it changes nothing; use \"mux\"",
            choice.name()
        ));
    }
    let hashes = matches!(choice, PortChoice::Lacp | PortChoice::Xor | PortChoice::QueueAffinity);
    if host.hash_policy != HostPortSettings::DEFAULT.hash && !hashes {
        ledger.warn(format!(
            "host.hash_policy: port_choice = \"{}\" uses no hash: it changes nothing",
            choice.name()
        ));
    }
    if choice == PortChoice::Lacp {
        warn_of_aggregators(ledger, graph);
    }
    if choice == PortChoice::Lacp && host.miimon == Span::ZERO {
        ledger.warn(
            "host.miimon: with 802.3ad Linux sets 100 ms where it is 0: here nobody looks at the carrier",
        );
    }
    if choice == PortChoice::Mux && host.miimon != HostPortSettings::DEFAULT.carrier {
        ledger.warn(
            "host.miimon: with port_choice = \"mux\" the ToRs probe the host: it changes nothing; use host.link_prober_interval",
        );
    }
    if host.lacp_rate != LacpRate::Slow && choice != PortChoice::Lacp {
        ledger.warn(format!(
            "host.lacp_rate: port_choice = \"{}\" has no LACP: it changes nothing; use \"802.3ad\"",
            choice.name()
        ));
    }
}

/// Warns of hosts whose ports differ in rate: a bond of 802.3ad uses those of one rate.
fn warn_of_aggregators(ledger: &mut Ledger, graph: &Topology) {
    let rate = |port: &NodeId| graph.channel(graph.nodes()[*port].ports[0]).rate;
    let several = graph.ports_of_hosts();
    let unequal: Vec<_> =
        several.iter().filter(|(_, ports)| ports.iter().any(|port| rate(port) != rate(&ports[0]))).collect();
    let Some((host, ports)) = unequal.first() else { return };
    let rates: BTreeSet<BitRate> = ports.iter().map(rate).collect();
    let rates: Vec<String> = rates.iter().map(ToString::to_string).collect();
    ledger.warn(format!(
        "host.port_choice: {}, as {}, with ports of {}: 802.3ad uses the ports of one rate, those that are fastest together",
        counted(unequal.len(), "host"),
        graph.nodes()[**host].name,
        rates.join(" and ")
    ));
}

/// Checks what a host that spreads packets over its ports can do.
fn check_packets(ledger: &mut Ledger, draft: &Draft) {
    if draft.host.nic_queue != NicQueue::PerFlow {
        let message =
            format!("{}: packets that take ports in turn wait by flow", draft.host.nic_queue.name());
        ledger.problem("host.nic_queue", message, "use per_flow, or another host.port_choice");
    }
    if draft.routing.vlans.is_some() {
        let message = "\"balance-rr\": a flow keeps the VLANs of one port";
        ledger.problem("host.port_choice", message.to_owned(), "use another one, or routing.kind = \"ecmp\"");
    }
    let how = |transport: &Named| match &transport.spec.protocol {
        Protocol::Rdma(pairs) => mistakes_order(pairs),
        Protocol::Tcp(_) | Protocol::Udp(_) => None,
    };
    let mut used = draft.transports.iter().filter(|one| one.is_used);
    if let Some((transport, how)) = used.find_map(|one| Some((one, how(one)?))) {
        ledger.warn(format!(
            "host.port_choice: \"balance-rr\" delivers packets out of order, and queue pairs of {} then {how}: \
             {ANY_ORDER}, or choose ports by flow as cards do",
            transport.path
        ));
    }
}

/// The keys, and whether they differ from their defaults.
fn changed(host: &HostSpec) -> [(&'static str, bool); 8] {
    let (default, dual_tor) = (HostPortSettings::DEFAULT, DualTorSettings::new());
    [
        ("host.port_choice", host.port_choice != default.choice),
        ("host.hash_policy", host.hash_policy != default.hash),
        ("host.packets_per_slave", host.packets_per_slave != default.packets_per_slave),
        ("host.miimon", host.miimon != default.carrier),
        ("host.lacp_rate", host.lacp_rate != LacpRate::Slow),
        ("host.mux_active", !host.mux_active.is_empty()),
        ("host.link_prober_interval", host.link_prober_interval != dual_tor.probe_interval),
        ("host.negative_signal_count", host.negative_signal_count != dual_tor.missed_probes),
    ]
}
