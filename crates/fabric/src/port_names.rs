//! Finds ports by the globs over their names that settings have.

use pauseframe_topology::Topology;
use pauseframe_units::PortId;

/// Every port.
pub fn all_ports(topology: &Topology) -> impl Iterator<Item = PortId> {
    topology.links().ids().flat_map(|link| [PortId::of_link(link, 0), PortId::of_link(link, 1)])
}

/// The ports that match globs.
pub fn matching_ports(globs: &[String], topology: &Topology) -> Vec<PortId> {
    let named = |port: &PortId| {
        let names = [topology.port_name(*port), topology.numbered_port_name(*port)];
        globs.iter().any(|glob| names.iter().any(|name| matches_glob(glob, name)))
    };
    all_ports(topology).filter(named).collect()
}

/// Whether a glob with `*` (any text) and `?` (any one character) matches all of `text`.
pub fn matches_glob(glob: &str, text: &str) -> bool {
    wildmatch::WildMatch::new(glob).matches(text)
}
