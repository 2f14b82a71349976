//! Checks that pause thresholds and reserved bytes fit in the buffers of all switches.

use crate::spec::{BufferPolicy, PfcSettings, SharedBuffer, SwitchSpec};
use pauseframe_fabric::{SwitchOverride, matching_ports};
use pauseframe_schema::ledger::Ledger;
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_units::{Bytes, PortId, Priority};
use std::collections::BTreeMap;

/// XOFF, XON and headroom, in this order.
const KEYS: [&str; 3] = ["xoff", "xon", "headroom"];
const XOFF: usize = 0;
const XON: usize = 1;
const HEADROOM: usize = 2;

/// Checks that thresholds and reserved bytes fit in the buffer.
pub(crate) fn check(ledger: &mut Ledger, switch: &SwitchSpec, graph: Option<&Topology>) {
    if let Some(pfc) = &switch.pfc {
        let misfit =
            misfit([pfc.xoff, pfc.xon, pfc.headroom], switch.buffer.buffer_size(), "switch.buffer.size");
        if let Some(Misfit { key, message, hint }) = misfit {
            ledger.problem(&format!("switch.pfc.{}", KEYS[key]), message, hint);
        } else if let Some(graph) = graph {
            of_ports(ledger, switch, pfc, graph);
        }
    }
    let pooled = switch.pfc.as_ref().is_some_and(|pfc| pfc.headroom_pool.is_some());
    if pooled && !matches!(switch.buffer, BufferPolicy::Shared(_)) && !ledger.failed("switch.buffer") {
        let message =
            "has no meaning: switch.buffer.policy is not \"shared\", so each ingress owns its headroom";
        ledger.problem("switch.pfc.headroom_pool", message, "leave it out, or share the buffer");
    }
    reserved_bytes(ledger, switch, graph);
}

fn reserved_bytes(ledger: &mut Ledger, switch: &SwitchSpec, graph: Option<&Topology>) {
    let size = switch.buffer.buffer_size();
    if let (BufferPolicy::Shared(SharedBuffer { reserved, .. }), Some(graph)) = (&switch.buffer, graph) {
        let switches = graph.nodes().iter().filter(|node| node.kind == NodeKind::Switch);
        let ports = switches.map(|node| node.ports.len()).max().unwrap_or(0);
        let all = reserved.0.saturating_mul((ports * Priority::COUNT) as u64);
        if all > size.0 && !ledger.failed("switch.buffer") {
            let message = format!(
                "{reserved} for each of {ports} ports and 8 priorities are {}, more than size ({size})",
                Bytes(all)
            );
            ledger.problem("switch.buffer.reserved", message, "lower it, or enlarge the buffer");
        }
    }
}

/// A key whose value does not fit.
struct Misfit {
    key: usize,
    message: String,
    hint: &'static str,
}

/// The first of XOFF, XON and headroom that does not fit in a buffer of `size`, which `name` sets.
fn misfit([xoff, xon, headroom]: [Option<Bytes>; 3], size: Bytes, name: &str) -> Option<Misfit> {
    let found = |key, message, hint| Some(Misfit { key, message, hint });
    match (xoff, headroom) {
        (Some(xoff), Some(headroom)) if xoff.0.saturating_add(headroom.0) > size.0 => {
            let message = format!("{xoff} and headroom ({headroom}) are more than {name} ({size})");
            return found(XOFF, message, "lower one of them, or enlarge the buffer");
        }
        (Some(xoff), None) if xoff >= size => {
            let message = format!("{xoff} leaves no headroom in {name} ({size})");
            return found(XOFF, message, "lower it, or enlarge the buffer");
        }
        (None, Some(headroom)) if headroom >= size => {
            let message = format!("{headroom} leaves nothing for traffic in {name} ({size})");
            return found(HEADROOM, message, "lower it, or enlarge the buffer");
        }
        _ => {}
    }
    match (xoff, xon) {
        (None, Some(xon)) if xon >= size => {
            found(XON, format!("{xon} is not below {name} ({size})"), "lower it")
        }
        _ => None,
    }
}

/// Checks the ports of switches to which rows give other thresholds or another buffer; names the first that does not fit.
fn of_ports(ledger: &mut Ledger, switch: &SwitchSpec, pfc: &PfcSettings, graph: &Topology) {
    let has_thresholds = pfc.ports.iter().any(|row| row.xoff.or(row.xon).or(row.headroom).is_some());
    if !has_thresholds && switch.overrides.iter().all(|row| row.buffer.is_none()) {
        return;
    }
    // Each value with the row that gives it: the last one that matches the port.
    let mut rows: BTreeMap<PortId, [Option<(Bytes, usize)>; 3]> = BTreeMap::new();
    for (index, row) in pfc.ports.iter().enumerate() {
        for port in matching_ports(&row.ports, graph) {
            let given = rows.entry(port).or_default();
            for (slot, value) in given.iter_mut().zip([row.xoff, row.xon, row.headroom]) {
                *slot = value.map(|value| (value, index)).or(*slot);
            }
        }
    }
    for node in graph.nodes().iter().filter(|node| node.kind == NodeKind::Switch) {
        let own = SwitchOverride::last(&switch.overrides, &node.name, |row| row.buffer);
        let size = own.unwrap_or(switch.buffer.buffer_size());
        for port in &node.ports {
            let given = rows.get(port).copied().unwrap_or_default();
            let common = [pfc.xoff, pfc.xon, pfc.headroom];
            let values = [XOFF, XON, HEADROOM].map(|key| given[key].map(|(value, _)| value).or(common[key]));
            let name = format!("the buffer of {}", node.name);
            let found = misfit(values, size, &name).or_else(|| xon_not_below_xoff(values));
            if let Some(Misfit { key, message, hint }) = found {
                let path = match given[key] {
                    Some((_, row)) => format!("switch.pfc.ports.{row}.{}", KEYS[key]),
                    None => format!("switch.pfc.{}", KEYS[key]),
                };
                ledger.problem(&path, format!("{message} at port {}", graph.port_name(*port)), hint);
                return;
            }
        }
    }
}

/// The readers of both tables compare XON and XOFF of one table; a port can have them from two.
fn xon_not_below_xoff([xoff, xon, _]: [Option<Bytes>; 3]) -> Option<Misfit> {
    let (xoff, xon) = (xoff?, xon?);
    let message = format!("{xon} is not below xoff ({xoff})");
    (xon >= xoff).then_some(Misfit { key: XON, message, hint: "lower xon by a few frames, or leave it out" })
}
