//! The tables of pauses and deadlocks: which port pauses which and why, and which queues wait for each other
//! for ever.

use super::column::{Columns, dictionary, f64s, optional, u8s, u32s, u64s};
use super::rows::Names;
use crate::columns;
use arrow_array::ArrayRef;
use arrow_array::builder::{ListBuilder, UInt32Builder};
use pauseframe_fabric::{Deadlock, DeadlockedQueue, PauseInterval};
use pauseframe_units::{Time, counted};
use std::sync::Arc;

/// The `pause_tree` table, with one row for each pause; a pause's number is its index in `intervals`.
pub fn pause_tree(intervals: &[PauseInterval], names: &Names) -> Columns {
    let topology = names.topology;
    let times = |value: fn(&PauseInterval) -> Time| f64s(intervals.iter().map(|i| value(i).as_us_f64()));
    columns! {
        /// Number, in order of start
        interval = u32s(0..intervals.len() as u32);
        /// The paused port
        port = dictionary(intervals, |i| i.port, |port| topology.port_name(port));
        /// Node of the port
        node = dictionary(intervals, |i| topology.owner(i.port), |node| names.node(node));
        /// The pausing port
        by_port = dictionary(intervals, |i| i.port.reverse(), |port| topology.port_name(port));
        /// Node of the port
        by_node = dictionary(intervals, |i| topology.peer(i.port), |node| names.node(node));
        /// The paused priority
        priority = u8s(intervals.iter().map(|i| i.priority.code_point()));
        /// When the first pause frame was requested
        asked_us = times(|i| i.asked);
        /// When the pause took effect
        start_us = times(|i| i.start);
        /// When the port could send again; null if the run ended before
        end_us or null = optional(intervals.iter().map(|i| i.end.map(Time::as_us_f64)));
        /// 0 without a parent, else one more than the largest depth of its parents
        depth = u32s(intervals.iter().map(|i| i.depth));
        /// Pauses that caused it; they began before its request
        parents = lists(intervals.iter().map(|i| i.parents.as_slice()));
    }
}

/// The `deadlocks` table, with one row for each queue of each cycle.
pub fn deadlocks(found: &[Deadlock], names: &Names) -> Columns {
    let topology = names.topology;
    let rows: Vec<(u32, u32, &Deadlock, &DeadlockedQueue)> = found
        .iter()
        .enumerate()
        .flat_map(|(number, deadlock)| {
            let queues = deadlock.cycle.iter().enumerate();
            queues.map(move |(position, queue)| (number as u32, position as u32, deadlock, queue))
        })
        .collect();
    columns! {
        /// Number of the deadlock
        deadlock = u32s(rows.iter().map(|r| r.0));
        /// Place in the cycle: each queue waits for the next, the last for the first
        position = u32s(rows.iter().map(|r| r.1));
        /// When the detector found it
        found_us = f64s(rows.iter().map(|r| r.2.found.as_us_f64()));
        /// Number of further queues that wait for the cycle
        victims = u64s(rows.iter().map(|r| r.2.victims));
        /// The port of the egress queue
        port = dictionary(&rows, |r| r.3.port, |port| topology.port_name(port));
        /// Node of the port
        node = dictionary(&rows, |r| topology.owner(r.3.port), |node| names.node(node));
        /// Node that paused it
        peer = dictionary(&rows, |r| topology.peer(r.3.port), |node| names.node(node));
        /// The priority of the queue
        priority = u8s(rows.iter().map(|r| r.3.priority.code_point()));
        /// Start of its current pause
        paused_since_us = f64s(rows.iter().map(|r| r.3.since.as_us_f64()));
        /// Waiting packets
        packets = u64s(rows.iter().map(|r| r.3.packets));
        /// Bytes of these packets or messages
        bytes = u64s(rows.iter().map(|r| r.3.bytes));
        /// Flows of these packets
        flows = lists(rows.iter().map(|r| r.3.flows.as_slice()));
    }
}

/// A sentence about a deadlock: which queue waits for which, and which host holds the cycle if one does.
pub fn describe(deadlock: &Deadlock, names: &Names, ends_run: bool) -> String {
    let queue = |q: &DeadlockedQueue| format!("{}/p{}", names.topology.port_name(q.port), q.priority);
    let around: Vec<String> = deadlock.cycle.iter().chain(deadlock.cycle.first()).map(queue).collect();
    let packets: u64 = deadlock.cycle.iter().map(|q| q.packets).sum();
    let mut flows: Vec<u32> = deadlock.cycle.iter().flat_map(|q| q.flows.iter().copied()).collect();
    flows.sort_unstable();
    flows.dedup();
    let shown: Vec<String> = flows.iter().take(8).map(ToString::to_string).collect();
    let more = if flows.len() > shown.len() { ", ..." } else { "" };
    format!(
        "deadlock since {}, found at {}: {} can never send again; {} of flows {}{more} in it, \
         {} behind it{}",
        deadlock.cycle_closed_at(),
        deadlock.found,
        around.join(" -> "),
        counted(packets, "packet"),
        shown.join(", "),
        counted(deadlock.victims, "further queue"),
        if ends_run { ". The run ends here (stop.on_deadlock)" } else { "" }
    )
}

fn lists<'a>(rows: impl Iterator<Item = &'a [u32]>) -> ArrayRef {
    let mut lists = ListBuilder::new(UInt32Builder::new());
    for row in rows {
        lists.append_value(row.iter().map(|number| Some(*number)));
    }
    Arc::new(lists.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pauseframe_topology::{Channel, NodeKind, Topology};
    use pauseframe_units::{BitRate, PortId, Priority, Span};

    #[test]
    fn a_deadlock_reads_well() {
        let channel = Channel { rate: BitRate::gbps(10), delay: Span::from_us(1) };
        let mut topology = Topology::new();
        let [s, t] = ["s", "t"].map(|name| topology.add_node(name, NodeKind::Switch, None));
        topology.add_link(s, t, channel);
        let names = Names { topology: &topology, workloads: &[], transports: &[] };
        let at = |us| Time::ZERO + Span::from_us(us);
        let queue = |port, since, flows: &[u32]| DeadlockedQueue {
            port: PortId(port),
            priority: Priority::new(3).unwrap(),
            since: at(since),
            packets: 4,
            bytes: 6088,
            flows: flows.to_vec(),
        };
        let deadlock =
            Deadlock { found: at(1500), cycle: vec![queue(0, 80, &[1, 7]), queue(1, 90, &[1])], victims: 2 };
        assert_eq!(
            describe(&deadlock, &names, true),
            "deadlock since 90 us, found at 1.5 ms: s:0/p3 -> t:0/p3 -> s:0/p3 can never send again; 8 packets of \
             flows 1, 7 in it, 2 further queues behind it. The run ends here (stop.on_deadlock)"
        );
        assert_eq!(deadlocks(&[deadlock], &names).batch().num_rows(), 2);
    }
}
