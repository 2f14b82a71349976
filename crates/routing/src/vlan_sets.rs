//! The VLANs that a sender may choose from: for every pair of switches with hosts, the VLANs with the
//! shortest routes.

use super::ForwardingTables;
use pauseframe_units::NodeId;

/// For every pair of hosts, the VLANs whose routes are shortest (or nearly shortest).
#[derive(Clone, Debug)]
pub struct VlanSets {
    rows: Vec<u32>,
    sources: usize,
    /// The VLANs of pair (destination x edge switches + source) are `vlans[first[pair]..first[pair + 1]]`.
    first: Vec<u32>,
    vlans: Vec<u16>,
    length: Vec<u16>,
}

impl VlanSets {
    /// Finds the VLANs whose routes have at most `slack` links more than the shortest route of any VLAN.
    /// Longer routes pay off only if the sender chooses by load.
    pub fn of(tables: &ForwardingTables, slack: u16) -> VlanSets {
        let lengths = tables.lengths();
        let sources = tables.graph().attachments().len();
        let pairs = sources * sources;
        let mut sets = VlanSets {
            rows: tables.graph().attachment_rows_of_nodes(),
            sources,
            first: vec![0],
            vlans: Vec::new(),
            length: Vec::with_capacity(pairs),
        };
        for pair in 0..pairs {
            let of_vlan = |vlan: usize| lengths[vlan * pairs + pair];
            let shortest = (0..tables.vlans()).map(of_vlan).min().unwrap_or(u16::MAX);
            let limit = shortest.saturating_add(slack).min(u16::MAX - 1);
            sets.vlans.extend((0..tables.vlans()).filter(|v| of_vlan(*v) <= limit).map(|vlan| vlan as u16));
            sets.first.push(sets.vlans.len() as u32);
            sets.length.push(shortest);
        }
        sets
    }

    /// The VLANs for packets from host `from` to host `to`, ascending; empty if no VLAN serves the pair.
    /// Hosts at the same switch may use any VLAN.
    ///
    /// # Panics
    /// If `from` or `to` is not a host.
    #[inline]
    pub fn between(&self, from: NodeId, to: NodeId) -> &[u16] {
        let pair = self.pair(from, to);
        &self.vlans[self.first[pair] as usize..self.first[pair + 1] as usize]
    }

    /// Number of links between switches on the shortest route of any VLAN, if the pair has a route.
    ///
    /// # Panics
    /// If `from` or `to` is not a host.
    pub fn length(&self, from: NodeId, to: NodeId) -> Option<u16> {
        Some(self.length[self.pair(from, to)]).filter(|length| *length != u16::MAX)
    }

    fn pair(&self, from: NodeId, to: NodeId) -> usize {
        let [from, to] = [from, to].map(|host| self.rows[host.0 as usize]);
        assert!(from != u32::MAX && to != u32::MAX, "VLANs are chosen between hosts only");
        to as usize * self.sources + from as usize
    }
}
