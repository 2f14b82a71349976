//! The `states` table: the log of state changes that the player replays.

use super::column::{Columns, dictionary, f64s, optional, u8s};
use super::rows::Names;
use crate::columns;
use arrow_array::types::Int32Type;
use arrow_array::{Array, DictionaryArray, Int32Array, StringArray};
use pauseframe_fabric::{PortStateChange, StateLogRow};
use std::sync::Arc;

/// The texts of the `kind` column, in the order of [`number`].
const KINDS: [&str; 9] =
    ["backlog", "load", "marks", "drops", "asked", "paused", "resumed", "cnps_sent", "cnps_received"];

fn number(state: PortStateChange) -> i32 {
    match state {
        PortStateChange::Backlog(_) => 0,
        PortStateChange::Load(_) => 1,
        PortStateChange::Marked(_) => 2,
        PortStateChange::Dropped(_) => 3,
        PortStateChange::PauseRequested(_) => 4,
        PortStateChange::Paused => 5,
        PortStateChange::Resumed => 6,
        PortStateChange::NotificationsSent(_) => 7,
        PortStateChange::NotificationsReceived(_) => 8,
    }
}

fn value(state: PortStateChange) -> Option<f64> {
    match state {
        PortStateChange::Backlog(count)
        | PortStateChange::Marked(count)
        | PortStateChange::Dropped(count)
        | PortStateChange::NotificationsSent(count)
        | PortStateChange::NotificationsReceived(count) => Some(count as f64),
        PortStateChange::Load(share) => Some(share),
        PortStateChange::PauseRequested(_) | PortStateChange::Paused | PortStateChange::Resumed => None,
    }
}

/// The `states` table, with one row for each change, in the order of time.
pub fn states(changes: &[StateLogRow], names: &Names) -> Columns {
    let topology = names.topology;
    let kinds = Int32Array::from_iter_values(changes.iter().map(|change| number(change.state)));
    let kinds = DictionaryArray::<Int32Type>::try_new(kinds, Arc::new(StringArray::from(KINDS.to_vec())));
    let cause = |change: &StateLogRow| match change.state {
        PortStateChange::PauseRequested(cause) => cause,
        _ => None,
    };
    let causes: Vec<_> = changes.iter().filter_map(cause).collect();
    let named = dictionary(&causes, |port| *port, |port| topology.port_name(port));
    let named = named.as_any().downcast_ref::<DictionaryArray<Int32Type>>().expect("just made");
    let mut next = named.keys().values().iter().copied();
    let numbers: Int32Array = changes.iter().map(|change| cause(change).and_then(|_| next.next())).collect();
    let causes = DictionaryArray::<Int32Type>::try_new(numbers, Arc::clone(named.values()));
    columns! {
        /// Time of the change; for backlog, load, marks, drops and CNPs the end of their interval
        time_us = f64s(changes.iter().map(|change| change.time.as_us_f64()));
        /// See the text
        kind = Arc::new(kinds.expect("every kind has a name"));
        /// Egress port
        port = dictionary(changes, |change| change.port, |port| topology.port_name(port));
        /// Priority
        priority = u8s(changes.iter().map(|change| change.priority.code_point()));
        /// See the text; null for asked, paused and resumed
        value or null = optional(changes.iter().map(|change| value(change.state)));
        /// For asked: the egress queue of the peer that holds most packets from this port; null if a host asks
        because_of or null = Arc::new(causes.expect("every number is a position among the names"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use pauseframe_topology::{Channel, NodeKind, Topology};
    use pauseframe_units::{BitRate, PortId, Priority, Span, Time};

    #[test]
    fn causes_have_names() {
        let channel = Channel { rate: BitRate::gbps(10), delay: Span::from_us(1) };
        let mut topology = Topology::new();
        let [s, t] = ["s", "t"].map(|name| topology.add_node(name, NodeKind::Switch, None));
        topology.add_link(s, t, channel);
        let names = Names { topology: &topology, workloads: &[], transports: &[] };
        let change = |us, state| StateLogRow {
            time: Time::ZERO + Span::from_us(us),
            port: PortId(0),
            priority: Priority::new(3).unwrap(),
            state,
        };
        let batch = states(
            &[
                change(1, PortStateChange::Backlog(1500)),
                change(2, PortStateChange::PauseRequested(Some(PortId(1)))),
                change(2, PortStateChange::PauseRequested(None)),
                change(3, PortStateChange::PauseRequested(Some(PortId(1)))),
            ],
            &names,
        )
        .batch();
        let causes = batch.column_by_name("because_of").unwrap().as_dictionary::<Int32Type>();
        let causes: Vec<_> = causes.downcast_dict::<StringArray>().unwrap().into_iter().collect();
        assert_eq!(causes, [None, Some("t:0"), None, Some("t:0")]);
        let kinds = batch.column_by_name("kind").unwrap().as_dictionary::<Int32Type>();
        let kinds: Vec<_> = kinds.downcast_dict::<StringArray>().unwrap().into_iter().flatten().collect();
        assert_eq!(kinds, ["backlog", "asked", "asked", "asked"]);
    }
}
