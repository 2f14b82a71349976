//! Extended generalised fat trees: XGFT (Öhring, Ibel, Das, Kumar, IPPS 1995).
//!
//! The label of a node of level l has h digits; digit i is below `w_i` for i <= l and below `m_i` for i > l.
//! Nodes of the levels l and l + 1 are linked if their labels agree in all digits except digit l + 1. Not
//! supported: hosts with more than one link (`w_1` > 1), because a host of this simulator has one port.

use super::{Family, GenerateError, bound_links, refuse};
use crate::{Channel, NodeKind, Topology};
use pauseframe_schema::table;
use pauseframe_units::NodeId;

table! {
    /// XGFT(h; m_1..m_h; w_1..w_h), Öhring 1995: children and parents of a node at each level, from the hosts up
    pub struct Xgft {
        /// Number of children of a node on each level above the hosts, m_1 to m_h
        m: Vec<u32> = required();
        /// Number of parents of a node on each level from the hosts up, w_1 to w_h; w_1 is 1
        w: Vec<u32> = required();
        /// Number of further hosts (ext0, ext1, ...) at each switch of the highest level, like the query
        /// sources in cee Fig. 2
        external: u32 = or_in(0, 0..=1_000_000);
    }
    pub fn try_read(t);
}

impl Family for Xgft {
    fn generate(&self, host: Channel, fabric: Channel) -> Result<Topology, GenerateError> {
        xgft_with_external(&self.m, &self.w, self.external, host, fabric)
    }
}

/// Generates XGFT(h; m; w): a node of level i + 1 has `m[i]` children and a node of level i has `w[i]`
/// parents; level 0 holds the hosts.
///
/// XGFT(2; 16,4; 1,2) has 64 hosts, 4 leaves and 2 spines. Names: `host{i}` and `s{level}_{i}`; hosts of the
/// same subtree have consecutive numbers. Links between the levels 0 and 1 are like `host_link`, all others
/// like `fabric_link`.
///
/// # Errors
/// If the lists are empty, differ in length or contain a zero, or the fabric is too large.
pub fn xgft(
    m: &[u32],
    w: &[u32],
    host_link: Channel,
    fabric_link: Channel,
) -> Result<Topology, GenerateError> {
    build("xgft", m, w, &vec![1; m.len()], host_link, fabric_link)
}

/// Generates an XGFT with `external` further hosts at each switch of the highest level; these hosts model
/// traffic from outside of the fabric (the query sources of Crisan et al., "Short and fat: TCP performance in
/// CEE datacenter networks", HOTI 2011, Fig. 2).
///
/// External hosts are named `ext{i}`, switch by switch, follow all other nodes, have no level, and have links
/// like `host_link`.
///
/// # Errors
/// The errors of [`xgft`].
pub fn xgft_with_external(
    m: &[u32],
    w: &[u32],
    external: u32,
    host_link: Channel,
    fabric_link: Channel,
) -> Result<Topology, GenerateError> {
    let mut topology = xgft(m, w, host_link, fabric_link)?;
    let top = Some(m.len() as u8);
    let roots: Vec<NodeId> =
        topology.nodes().iter_enumerated().filter(|(_, node)| node.level == top).map(|(id, _)| id).collect();
    bound_links("xgft", &[&[roots.len() as u64, u64::from(external)]])?;
    for (index, root) in roots.iter().enumerate() {
        for i in 0..external as usize {
            let name = format!("ext{}", index * external as usize + i);
            let host = topology.add_node(name, NodeKind::Host, None);
            topology.add_link(host, *root, host_link);
        }
    }
    Ok(topology)
}

/// Generates an XGFT with `p[i]` parallel links between a node of level i and each of its parents.
pub(super) fn build(
    family: &'static str,
    m: &[u32],
    w: &[u32],
    p: &[u32],
    host_link: Channel,
    fabric_link: Channel,
) -> Result<Topology, GenerateError> {
    validate(family, m, w, p)?;
    let mut topology = Topology::new();
    let mut below = add_level(&mut topology, 0, level_size(m, w, 0));
    for level in 0..m.len() {
        let above = add_level(&mut topology, level + 1, level_size(m, w, level + 1));
        let channel = if level == 0 { host_link } else { fabric_link };
        // The digits below digit `level` are the `w` of lower levels and vary fastest.
        let stride: usize = w[..level].iter().map(|digit| *digit as usize).product();
        let (children, parents) = (m[level] as usize, w[level] as usize);
        for (i, child) in below.iter().enumerate() {
            let (low, high) = (i % stride, i / (stride * children));
            for digit in 0..parents {
                let parent = above[low + stride * (digit + parents * high)];
                for _ in 0..p[level] {
                    topology.add_link(*child, parent, channel);
                }
            }
        }
        below = above;
    }
    Ok(topology)
}

fn add_level(topology: &mut Topology, level: usize, count: usize) -> Vec<NodeId> {
    let kind = if level == 0 { NodeKind::Host } else { NodeKind::Switch };
    let name = |i| if level == 0 { format!("host{i}") } else { format!("s{level}_{i}") };
    (0..count).map(|i| topology.add_node(name(i), kind, Some(level as u8))).collect()
}

fn level_size(m: &[u32], w: &[u32], level: usize) -> usize {
    w[..level].iter().chain(&m[level..]).map(|digit| *digit as usize).product()
}

fn validate(family: &'static str, m: &[u32], w: &[u32], p: &[u32]) -> Result<(), GenerateError> {
    if m.is_empty() || m.len() > usize::from(u8::MAX) {
        return refuse(family, "m", format!("{m:?}"), "it must name 1 to 255 levels");
    }
    if w.len() != m.len() {
        return refuse(family, "w", format!("{w:?}"), "it must be as long as m");
    }
    if p.len() != m.len() {
        return refuse(family, "p", format!("{p:?}"), "it must be as long as m");
    }
    for (parameter, list) in [("m", m), ("w", w), ("p", p)] {
        if list.contains(&0) {
            return refuse(family, parameter, format!("{list:?}"), "every number must be at least 1");
        }
    }
    let wide = |list: &[u32]| list.iter().map(|digit| u64::from(*digit)).collect::<Vec<_>>();
    let links_above =
        |level: usize| [wide(&w[..=level]), wide(&m[level..]), wide(&p[level..=level])].concat();
    let terms: Vec<Vec<u64>> = (0..m.len()).map(links_above).collect();
    bound_links(family, &terms.iter().map(Vec::as_slice).collect::<Vec<_>>())
}
