//! The line ("parking lot"): switches in a row.

use super::{Family, GenerateError, add_switches_with_hosts, at_least_one, bound_links};
use crate::{Channel, Topology};
use pauseframe_schema::table;

const FAMILY: &str = "line";

table! {
    /// Switches in a line
    pub struct Line {
        /// Switches in the line
        switches: u32 = required();
        /// Hosts at each switch
        hosts_per_switch: u32 = required();
    }
    pub fn try_read(t);
}

impl Family for Line {
    fn generate(&self, host: Channel, fabric: Channel) -> Result<Topology, GenerateError> {
        line(self.switches, self.hosts_per_switch, host, fabric)
    }
}

/// Generates `switches` switches (`s0`..) in a row with `hosts_per_switch` hosts at each: `host0`.. at `s0`,
/// and so on.
///
/// # Errors
/// If a number is zero or the fabric too large.
pub fn line(
    switches: u32,
    hosts_per_switch: u32,
    host_link: Channel,
    fabric_link: Channel,
) -> Result<Topology, GenerateError> {
    at_least_one(FAMILY, "switches", switches)?;
    at_least_one(FAMILY, "hosts_per_switch", hosts_per_switch)?;
    bound_links(FAMILY, &[&[u64::from(switches), u64::from(hosts_per_switch) + 1]])?;

    let mut topology = Topology::new();
    let row = add_switches_with_hosts(&mut topology, switches, hosts_per_switch, host_link);
    for pair in row.windows(2) {
        topology.add_link(pair[0], pair[1], fabric_link);
    }
    Ok(topology)
}
