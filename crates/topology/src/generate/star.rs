//! The star: one switch and its hosts.

use super::{Family, GenerateError, add_hosts, at_least_one, bound_links};
use crate::{Channel, NodeKind, Topology};
use pauseframe_schema::table;

const FAMILY: &str = "star";

table! {
    /// One switch
    pub struct Star {
        /// Hosts at the switch
        hosts: u32 = required();
    }
    pub fn try_read(t);
}

impl Family for Star {
    fn generate(&self, host: Channel, _: Channel) -> Result<Topology, GenerateError> {
        star(self.hosts, host)
    }
}

/// Generates `hosts` hosts (`host0`..) at one switch, `switch`.
///
/// # Errors
/// Without hosts, or if the fabric is too large.
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
