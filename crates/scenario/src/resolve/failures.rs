//! `[[failure]]` and `[[corruption]]`: what breaks, when, and which wires are bad.

use super::ledger::Ledger;
use super::reader::Table;
use super::value::did_you_mean;
use crate::spec::{CorruptionSpec, FailedSpec, FailureSpec, Stop};
use pauseframe_topology::Topology;
use pauseframe_units::Span;

/// The latest failure: a day, as for workloads.
const TIME_MAX: Span = Span::from_secs(86_400);

pub(crate) fn failures(t: &mut Table) -> Vec<FailureSpec> {
    let doc = "Links and nodes that fail: each with link, port or node, down and up";
    t.rows("failure", "none", doc, failure).unwrap_or_default()
}

fn failure(t: &mut Table) -> Option<FailureSpec> {
    let none = "one of link, port and node is required";
    let link = t.optional::<[String; 2]>("link", none, "The two nodes of the links that fail");
    let port = t.optional::<String>("port", none, "A port of the one link that fails (\"leaf0:3\")");
    let node = t.optional::<String>("node", none, "The node that fails, with all its links");
    let down = t.required_in("down", Span::ZERO..=TIME_MAX, "When it goes down");
    let up = t.optional_in("up", Span(1)..=TIME_MAX, "never", "When it is back");
    let given = [link.is_some(), port.is_some(), node.is_some()].iter().filter(|given| **given).count();
    let is_sound = given == 1 || t.is_documenting();
    t.check(is_sound, "", || format!("{given} of link, port and node; expected one"), "");
    if let (Some(down), Some(up)) = (down, up) {
        t.check(up > down, "up", || format!("{up} is not after down ({down})"), "");
    }
    let what = link.map(FailedSpec::Link).or(port.map(FailedSpec::Port)).or(node.map(FailedSpec::Node))?;
    Some(FailureSpec { what, down: down?, up })
}

pub(crate) fn corruption(t: &mut Table) -> Vec<CorruptionSpec> {
    let doc = "Wires that damage frames: each with ports and ber or fer";
    t.rows("corruption", "none", doc, bad_wire).unwrap_or_default()
}

fn bad_wire(t: &mut Table) -> Option<CorruptionSpec> {
    let ports =
        t.required::<Vec<String>>("ports", "Globs over port names (\"leaf0:*\"): what these send is damaged");
    let none = "one of ber and fer is required";
    let ber = t.optional_in("ber", 0.0..=1.0, none, "Bit error ratio");
    let fer = t.optional_in("fer", 0.0..=1.0, none, "Frame error ratio");
    let given = usize::from(ber.is_some()) + usize::from(fer.is_some());
    t.check(given == 1 || t.is_documenting(), "", || format!("{given} of ber and fer; expected one"), "");
    Some(CorruptionSpec { ports: ports?, ber, fer })
}

/// What is named exists, and fails within the run.
pub(crate) fn check(
    ledger: &mut Ledger,
    graph: &Topology,
    failures: &[FailureSpec],
    corruption: &[CorruptionSpec],
    stop: &Stop,
) {
    for (index, failure) in failures.iter().enumerate() {
        if let Err((message, hint)) = failure.what.links(graph) {
            ledger.problem(&format!("failure.{index}"), message, hint);
        }
        if stop.time.is_some_and(|end| failure.down >= end) {
            ledger.warn(format!("failure {index}: {} is after the end of the run", failure.down));
        }
    }
    for (index, wire) in corruption.iter().enumerate() {
        if crate::faults::ports_matching(&wire.ports, graph).is_empty() {
            let message = format!("no port is called {}", wire.ports.join(" or "));
            ledger.problem(
                &format!("corruption.{index}.ports"),
                message,
                "ports are NODE:NUMBER, as in leaf0:*",
            );
        }
    }
}

/// A node that is not there.
pub(crate) fn no_such_node(graph: &Topology, name: &str) -> (String, String) {
    let names = graph.nodes().iter().map(|node| node.name.as_str());
    (format!("there is no node {name:?}"), did_you_mean(name, names))
}
