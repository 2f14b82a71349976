//! The star: one switch and its hosts.

use super::{GenerateError, add_hosts, at_least_one, bound_links};
use crate::{Channel, NodeKind, Topology};

const FAMILY: &str = "star";

/// `hosts` hosts (`host0`..) at one switch, `switch`.
///
/// # Errors
/// If there is no host or the fabric is too large.
pub fn star(hosts: u32, host_link: Channel) -> Result<Topology, GenerateError> {
    at_least_one(FAMILY, "hosts", hosts)?;
    bound_links(FAMILY, &[&[u64::from(hosts)]])?;
    let mut topology = Topology::new();
    let hosts = add_hosts(&mut topology, "host", hosts);
    let switch = topology.add_node("switch", NodeKind::Switch, Some(1));
    for host in hosts {
        topology.add_link(host, switch, host_link);
    }
    Ok(topology)
}
