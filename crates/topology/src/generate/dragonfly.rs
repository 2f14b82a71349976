//! The dragonfly (Kim, Dally, Scott, Abts, ISCA 2008): groups of fully meshed switches, each pair of groups
//! joined by global links.
//!
//! The generator assigns the global links of a group to the other groups in the order of their distance on
//! the circle of groups, so that both ends agree. With fewer groups than possible, each pair of groups gets
//! the same number of links, and the remaining global ports stay unused.

use super::{Family, GenerateError, add_hosts, at_least_one, bound_links, refuse};
use crate::{Channel, NodeKind, Topology};
use pauseframe_schema::table;
use pauseframe_units::NodeId;

const FAMILY: &str = "dragonfly";

table! {
    /// A dragonfly (Kim et al., ISCA 2008): p hosts at each switch, a switches in each of g groups, h links of a switch to other groups
    #[derive(Copy, Eq)]
    pub struct Dragonfly {
        /// Hosts at each switch
        p: u32 = required();
        /// Switches in each group
        a: u32 = required();
        /// Links of each switch to other groups
        h: u32 = required();
        /// Number of groups: 2 to a h + 1
        g: u32 = required();
    }
    pub fn try_read(t);
}

impl Family for Dragonfly {
    fn generate(&self, host: Channel, fabric: Channel) -> Result<Topology, GenerateError> {
        dragonfly(*self, host, fabric)
    }
}

/// Generates a dragonfly. Names: `s{group}_{i}` for switches; `host0`.. for hosts, in the order of their
/// switches.
///
/// # Errors
/// If a number is zero, there are fewer than two groups or more than a h + 1, or the fabric is too large.
pub fn dragonfly(
    size: Dragonfly,
    host_link: Channel,
    fabric_link: Channel,
) -> Result<Topology, GenerateError> {
    let Dragonfly { p, a, h, g } = size;
    for (parameter, value) in [("p", p), ("a", a), ("h", h)] {
        at_least_one(FAMILY, parameter, value)?;
    }
    if g < 2 || u64::from(g) > u64::from(a) * u64::from(h) + 1 {
        return refuse(FAMILY, "g", g.to_string(), "it must be 2 to a h + 1");
    }
    let [wide_p, wide_a, wide_h, wide_g] = [p, a, h, g].map(u64::from);
    bound_links(FAMILY, &[&[wide_g, wide_a, wide_p + wide_a / 2 + wide_h / 2 + 1]])?;

    let mut topology = Topology::new();
    let hosts = add_hosts(&mut topology, "host", p * a * g);
    let places = (0..g).flat_map(|group| (0..a).map(move |i| (group, i)));
    let switches: Vec<NodeId> =
        places.map(|(group, i)| topology.add_node(format!("s{group}_{i}"), NodeKind::Switch, None)).collect();
    for (i, host) in hosts.iter().enumerate() {
        topology.add_link(*host, switches[i / p as usize], host_link);
    }
    for group in switches.chunks(a as usize) {
        for (i, one) in group.iter().enumerate() {
            for other in &group[i + 1..] {
                topology.add_link(*one, *other, fabric_link);
            }
        }
    }
    add_global_links(&mut topology, &switches, size, fabric_link);
    Ok(topology)
}

fn add_global_links(topology: &mut Topology, switches: &[NodeId], size: Dragonfly, channel: Channel) {
    let [a, h, g] = [size.a, size.h, size.g].map(|n| n as usize);
    let per_pair = a * h / (g - 1);
    let end = |group: usize, other: usize, copy: usize| {
        let slot = copy * (g - 1) + (other + g - group - 1) % g;
        switches[group * a + slot / h]
    };
    for one in 0..g {
        for other in one + 1..g {
            for copy in 0..per_pair {
                topology.add_link(end(one, other, copy), end(other, one, copy), channel);
            }
        }
    }
}
