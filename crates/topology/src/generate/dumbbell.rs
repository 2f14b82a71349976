//! The dumbbell: two switches and one link between them, which all traffic from one side to the other shares.

use super::{Family, GenerateError, add_hosts, at_least_one, bound_links};
use crate::{Channel, NodeKind, Topology};
use pauseframe_schema::table;

const FAMILY: &str = "dumbbell";

table! {
    /// Two switches and the link between them
    pub struct Dumbbell {
        /// Hosts at the left switch
        left: u32 = required();
        /// Hosts at the right switch
        right: u32 = required();
    }
    pub fn try_read(t);
}

impl Family for Dumbbell {
    fn generate(&self, host: Channel, fabric: Channel) -> Result<Topology, GenerateError> {
        dumbbell(self.left, self.right, host, fabric)
    }
}

/// Generates `left` hosts (`l0`..) at the switch `left` and `right` hosts (`r0`..) at the switch `right`; one
/// `fabric_link` joins the switches.
///
/// # Errors
/// If a side is empty or the fabric too large.
pub fn dumbbell(
    left: u32,
    right: u32,
    host_link: Channel,
    fabric_link: Channel,
) -> Result<Topology, GenerateError> {
    at_least_one(FAMILY, "left", left)?;
    at_least_one(FAMILY, "right", right)?;
    bound_links(FAMILY, &[&[u64::from(left)], &[u64::from(right)], &[1]])?;

    let mut topology = Topology::new();
    let left_hosts = add_hosts(&mut topology, "l", left);
    let right_hosts = add_hosts(&mut topology, "r", right);
    let left = topology.add_node("left", NodeKind::Switch, None);
    let right = topology.add_node("right", NodeKind::Switch, None);
    for (hosts, switch) in [(left_hosts, left), (right_hosts, right)] {
        for host in hosts {
            topology.add_link(host, switch, host_link);
        }
    }
    topology.add_link(left, right, fabric_link);
    Ok(topology)
}
