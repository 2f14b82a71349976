//! The torus (k-ary n-cube with its own length in each dimension; Dally, "Performance analysis of k-ary
//! n-cube interconnection networks", IEEE Transactions on Computers 1990).

use super::{Family, GenerateError, add_hosts, at_least_one, bound_links, refuse};
use crate::{Channel, NodeKind, Topology};
use pauseframe_schema::table;

const FAMILY: &str = "torus";

table! {
    /// Switches on a periodic grid, `lengths[i]` along dimension i
    pub struct Torus {
        /// Switches along each dimension
        lengths: Vec<u32> = required();
        /// Hosts at each switch
        hosts_per_switch: u32 = or(1);
    }
    pub fn try_read(t);
}

impl Family for Torus {
    fn generate(&self, host: Channel, fabric: Channel) -> Result<Topology, GenerateError> {
        torus(&self.lengths, self.hosts_per_switch, host, fabric)
    }
}

/// Generates a torus with `lengths[i]` switches along dimension i and `hosts_per_switch` hosts at each
/// switch.
///
/// The name of a switch contains its coordinates (`s0_2_1`), and the last dimension varies fastest; hosts are
/// named `host0`.. in the order of their switches. A dimension of length 2 has one link, not two.
///
/// # Errors
/// If the torus has no dimension or no hosts, a length is below 2, or the fabric is too large.
pub fn torus(
    lengths: &[u32],
    hosts_per_switch: u32,
    host_link: Channel,
    fabric_link: Channel,
) -> Result<Topology, GenerateError> {
    if lengths.is_empty() || lengths.iter().any(|length| *length < 2) {
        return refuse(FAMILY, "lengths", format!("{lengths:?}"), "it must list lengths of at least 2");
    }
    at_least_one(FAMILY, "hosts_per_switch", hosts_per_switch)?;
    let mut factors: Vec<u64> = lengths.iter().map(|length| u64::from(*length)).collect();
    factors.push(u64::from(hosts_per_switch) + lengths.len() as u64);
    bound_links(FAMILY, &[&factors])?;

    let lengths: Vec<usize> = lengths.iter().map(|length| *length as usize).collect();
    let count: usize = lengths.iter().product();
    let mut topology = Topology::new();
    let hosts = add_hosts(&mut topology, "host", count as u32 * hosts_per_switch);
    let switches: Vec<_> =
        (0..count).map(|i| topology.add_node(place_name(i, &lengths), NodeKind::Switch, None)).collect();
    for (i, host) in hosts.iter().enumerate() {
        topology.add_link(*host, switches[i / hosts_per_switch as usize], host_link);
    }
    for dimension in 0..lengths.len() {
        let (length, stride) = (lengths[dimension], lengths[dimension + 1..].iter().product::<usize>());
        for (i, switch) in switches.iter().enumerate() {
            let digit = i / stride % length;
            if digit + 1 < length {
                topology.add_link(*switch, switches[i + stride], fabric_link);
            } else if length > 2 {
                topology.add_link(*switch, switches[i - digit * stride], fabric_link);
            }
        }
    }
    Ok(topology)
}

fn place_name(mut index: usize, lengths: &[usize]) -> String {
    let mut digits = Vec::new();
    for length in lengths.iter().rev() {
        digits.push((index % length).to_string());
        index /= length;
    }
    digits.reverse();
    format!("s{}", digits.join("_"))
}
