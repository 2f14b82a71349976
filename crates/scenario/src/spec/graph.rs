//! Builds the graph of `[topology]` and reports its mistakes.

use super::topology::TopologySpec;
use pauseframe_schema::ledger::Ledger;
use pauseframe_topology::Topology;

/// The graph of `[topology]`. Problems are recorded: invalid parameters, links between unknown nodes, hosts without a
/// link or wired to others, and disconnected graphs.
pub(crate) fn checked(spec: &TopologySpec, ledger: &mut Ledger) -> Option<Topology> {
    match spec.graph() {
        Ok(topology) => Some(topology),
        Err(flaws) => {
            for (path, message, hint) in flaws {
                ledger.problem(&path, message, hint);
            }
            None
        }
    }
}
