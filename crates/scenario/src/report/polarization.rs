//! Warns of polarization: switches whose hash leaves equal links idle that an even hash would use.

use super::warnings::PATHS_MAX;
use crate::spec::Scenario;
use pauseframe_fabric::path_hash::HashFunction;
use pauseframe_routing::FlowsByNextHop;
use pauseframe_topology::Topology;

/// True if the hash of the switches may be uneven, and few enough flows to look at their paths.
pub(crate) fn may_polarize(scenario: &Scenario, flows: usize) -> bool {
    scenario.routing.hash.function != HashFunction::Ideal && flows <= PATHS_MAX
}

/// The warning, if flows use half of the equal links that they would use with an even hash, or fewer.
pub(crate) fn polarized(groups: &FlowsByNextHop, topology: &Topology) -> Option<String> {
    let used = |flows: &[u32]| flows.iter().filter(|count| **count > 0).count();
    // An even hash uses 1 - (1 - 1/n)^m of n links for m flows.
    let is_polarized = |flows: &[u32]| {
        let (links, all) = (flows.len() as f64, flows.iter().sum::<u32>());
        let expected = links * (1.0 - (1.0 - 1.0 / links).powi(all.min(1_000) as i32));
        all as usize >= 2 * flows.len() && used(flows) as f64 <= 0.5 * expected
    };
    let crowded =
        groups.values().filter(|flows| flows.iter().sum::<u32>() as usize >= 2 * flows.len()).count();
    let polarized: Vec<_> = groups.iter().filter(|(_, flows)| is_polarized(flows)).collect();
    let ((switch, _), flows) = polarized.iter().min_by_key(|(_, flows)| used(flows))?;
    Some(format!(
        "routing.hash: polarized: {} of {} equal links of {} are used by {} flows, and {} of {crowded} groups of links are like this: \
         tiers choose in step; rotate the hash (hash_offsets), or take a function whose seed helps (hash = \"murmur3\", hash_seeds = \"switch\")",
        used(flows),
        flows.len(),
        topology.nodes()[*switch].name,
        flows.iter().sum::<u32>(),
        polarized.len()
    ))
}
