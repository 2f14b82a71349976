//! The ring: the smallest fabric in which shortest-path routes can deadlock under pause.

use super::{Family, GenerateError, add_switches_with_hosts, at_least_one, bound_links, refuse};
use crate::{Channel, Topology};
use pauseframe_schema::table;

const FAMILY: &str = "ring";

table! {
    /// Switches in a ring, at least three
    pub struct Ring {
        /// Switches in the ring, at least 3
        switches: u32 = required();
        /// Hosts at each switch
        hosts_per_switch: u32 = required();
    }
    pub fn try_read(t);
}

impl Family for Ring {
    fn generate(&self, host: Channel, fabric: Channel) -> Result<Topology, GenerateError> {
        ring(self.switches, self.hosts_per_switch, host, fabric)
    }
}

/// Generates `switches` switches (`s0`..) in a ring with `hosts_per_switch` hosts at each: `host0`.. at `s0`,
/// and so on.
///
/// # Errors
/// If there are fewer than three switches, no hosts, or the fabric is too large.
pub fn ring(
    switches: u32,
    hosts_per_switch: u32,
    host_link: Channel,
    fabric_link: Channel,
) -> Result<Topology, GenerateError> {
    if switches < 3 {
        return refuse(FAMILY, "switches", switches.to_string(), "it must be at least 3");
    }
    at_least_one(FAMILY, "hosts_per_switch", hosts_per_switch)?;
    bound_links(FAMILY, &[&[u64::from(switches), u64::from(hosts_per_switch) + 1]])?;

    let mut topology = Topology::new();
    let ring = add_switches_with_hosts(&mut topology, switches, hosts_per_switch, host_link);
    for (i, switch) in ring.iter().enumerate() {
        topology.add_link(*switch, ring[(i + 1) % ring.len()], fabric_link);
    }
    Ok(topology)
}
