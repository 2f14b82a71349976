//! From `[topology]` to the graph, with what is wrong with it.

use super::topology::TopologySpec;
use super::topology::parts::Flaw;
use pauseframe_schema::error::Problem;
use pauseframe_schema::ledger::Ledger;
use pauseframe_topology::Topology;

/// The graph of a resolved `[topology]`.
///
/// # Errors
/// Everything that is wrong with it: parameters that make no fabric, links between nodes that do not exist,
/// hosts without a link or with two, and graphs in several parts.
pub fn build_topology(spec: &TopologySpec) -> Result<Topology, Vec<Problem>> {
    let problem = |(path, message, hint)| {
        let (place, value) = ("topology".to_owned(), String::new());
        Problem { path, place, line: None, value, message, hint }
    };
    build(spec).map_err(|flaws| flaws.into_iter().map(problem).collect())
}

/// The same while a scenario is read: problems go to the ledger.
pub(crate) fn checked(spec: &TopologySpec, ledger: &mut Ledger) -> Option<Topology> {
    match build(spec) {
        Ok(topology) => Some(topology),
        Err(flaws) => {
            for (path, message, hint) in flaws {
                ledger.problem(&path, message, hint);
            }
            None
        }
    }
}

fn build(spec: &TopologySpec) -> Result<Topology, Vec<Flaw>> {
    spec.kind.graph(spec.link, spec.fabric_link)
}
