//! From `[topology]` to the graph, with what is wrong with it.

use super::topology::TopologySpec;
use pauseframe_schema::ledger::Ledger;
use pauseframe_topology::Topology;

/// The graph of `[topology]`; problems go to the ledger: parameters that make no fabric, links between nodes that do not
/// exist, hosts without a link or with two, and graphs in several parts.
pub(crate) fn checked(spec: &TopologySpec, ledger: &mut Ledger) -> Option<Topology> {
    match spec.kind.graph(spec.link, spec.fabric_link) {
        Ok(topology) => Some(topology),
        Err(flaws) => {
            for (path, message, hint) in flaws {
                ledger.problem(&path, message, hint);
            }
            None
        }
    }
}
