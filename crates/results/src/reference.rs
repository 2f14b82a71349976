//! The columns of all tables for the reference, taken from an empty table of each kind.

use super::collectives::collectives;
use super::column::{ColumnDoc, Columns};
use super::conweave::conweave;
use super::jobs::{jobs, ranks, timeline};
use super::kernel::{counters, sockets};
use super::lossless::{deadlocks, pause_tree};
use super::paths::{equal_links, paths};
use super::states::states;
use super::tables::{flows, ports, queries, throughput};
use super::tunnels::tunnels;
use super::{Names, Series};
use pauseframe_fabric::FlowRecords;
use pauseframe_topology::Topology;
use pauseframe_units::{Span, Time};
use std::collections::BTreeMap;

/// The tables of a run by name, with the columns of each.
pub fn reference() -> Vec<(&'static str, Vec<ColumnDoc>)> {
    empty_tables().into_iter().map(|(name, columns)| (name, columns.reference())).collect()
}

/// The table `name` without any row.
pub(super) fn empty_table(name: &str) -> Option<Columns> {
    empty_tables().into_iter().find(|(known, _)| *known == name).map(|(_, columns)| columns)
}

fn empty_tables() -> Vec<(&'static str, Columns)> {
    let topology = Topology::new();
    let names = Names { topology: &topology, workloads: &[], transports: &[] };
    vec![
        ("flows", flows(&FlowRecords::default(), 0..0, &names)),
        ("queries", queries(&[], &names)),
        ("ports", ports(&[], &names, Span::ZERO)),
        ("series", Series::in_memory(0).into_columns(&names)),
        ("throughput", throughput(Span::ZERO, std::iter::empty(), &names, Time::ZERO)),
        ("pause_tree", pause_tree(&[], &names)),
        ("states", states(&[], &names)),
        ("paths", paths(&[], &names)),
        ("equal_links", equal_links(&BTreeMap::new(), &names)),
        ("conweave", conweave(&BTreeMap::new(), &names)),
        ("tunnels", tunnels(&BTreeMap::new(), &names)),
        ("deadlocks", deadlocks(&[], &names)),
        ("jobs", jobs(&[], &names)),
        ("collectives", collectives(&[], &names)),
        ("ranks", ranks(&[], &names)),
        ("timeline", timeline(&[], &names)),
        ("kernel_sockets", sockets(&[], &names)),
        ("kernel_counters", counters(&[], &names)),
    ]
}
