//! Hosts with several ports: keys that then act, and what is not simulated with them.

use super::draft::Draft;
use crate::spec::{HostSpec, HostStack, LacpRate};
use pauseframe_fabric::{HostPortSettings, PortChoice};
use pauseframe_schema::ledger::Ledger;
use pauseframe_schema::value::Choice;
use pauseframe_units::Span;

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
    let hashes = matches!(choice, PortChoice::Lacp | PortChoice::Xor | PortChoice::QueueAffinity);
    if host.hash_policy != HostPortSettings::DEFAULT.hash && !hashes {
        ledger.warn(format!(
            "host.hash_policy: port_choice = \"{}\" uses no hash: it changes nothing",
            choice.name()
        ));
    }
    if choice == PortChoice::Lacp && host.miimon == Span::ZERO {
        ledger.warn(
            "host.miimon: with 802.3ad Linux sets 100 ms where it is 0: here nobody looks at the carrier",
        );
    }
    if host.lacp_rate != LacpRate::Slow && choice != PortChoice::Lacp {
        ledger.warn(format!(
            "host.lacp_rate: port_choice = \"{}\" has no LACP: it changes nothing; use \"802.3ad\"",
            choice.name()
        ));
    }
}

/// The keys, and whether they differ from their defaults.
fn changed(host: &HostSpec) -> [(&'static str, bool); 4] {
    let default = HostPortSettings::DEFAULT;
    [
        ("host.port_choice", host.port_choice != default.choice),
        ("host.hash_policy", host.hash_policy != default.hash),
        ("host.miimon", host.miimon != default.carrier),
        ("host.lacp_rate", host.lacp_rate != LacpRate::Slow),
    ]
}
