//! New routes of frames under way: after a change of routes each switch looks up what arrives, and frames that still wait in a host take the new path.
//!
//! Where packets carry their path, that of a frame is replaced from the next switch on, once for each path and place at the change itself, so hops pay
//! nothing. Otherwise switches look up each frame anyway, and only a new destination port has to be written.

use super::Traffic;
use super::routes::ends_of_program;
use crate::records::NO_FLOW;
use crate::rows::{TUNNEL_BEGINS, TUNNEL_ENDS};
use pauseframe_topology::NodeKind;
use pauseframe_units::{NodeId, PortId, Time};

/// The longest path that a frame can count ([`Packet::hop`](crate::frame::Packet::hop)).
const PATH_LENGTH_MAX: usize = 250;

/// Where a frame is on its way.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct FramePosition {
    /// The offset of its path, or the destination node where switches look up the next hop.
    pub(crate) route: u32,
    /// The index in its path of the port that its next switch sends it by.
    pub(crate) hop: u8,
    /// The endpoint key that it goes to.
    pub(crate) to: u32,
}

impl Traffic {
    /// The route of a frame by the current routes; `None` if it keeps its own.
    pub(crate) fn current_route(&mut self, frame: FramePosition, now: Time) -> Option<u32> {
        if self.rows.packets_carry_paths() {
            return self.route_from_next_switch(frame, now);
        }
        // Another port is not in the same VLAN.
        if self.vlans.is_some() || frame.to == NO_FLOW {
            return None;
        }
        let (before, key) = (NodeId(frame.route), frame.to ^ 1);
        let open = self.open.get(&(key / 2))?;
        let is_used = open.ways[(key & 1) as usize].iter().any(|way| way.ports[1] == before);
        let to = self.destination_port(key, None).filter(|to| !is_used && *to != before)?;
        let hosts = [before, to].map(|port| self.plan.topology.host_of(port));
        (hosts[0] == hosts[1] && self.routes.distance(before, to) < u32::MAX).then_some(to.0)
    }

    /// A row with the old path up to the next switch and the new one from there.
    fn route_from_next_switch(&mut self, frame: FramePosition, now: Time) -> Option<u32> {
        let FramePosition { route, hop, to } = frame;
        let topology = &self.plan.topology;
        let mut path = self.rows.path(route, topology);
        let hop = usize::from(hop);
        let (next, exit) = (topology.peer(*path.get(hop.checked_sub(1)?)?), topology.peer(*path.last()?));
        if topology.nodes()[next].kind != NodeKind::Switch {
            return None; // Nothing is left to look up.
        }
        let from = topology.owner(path[0]);
        let side = (to != NO_FLOW).then_some(to ^ 1);
        let ends = match side {
            Some(key) => self.ends_of_side(key / 2, (key & 1) as usize),
            None => ends_of_program([from, exit], *self.choice_of_program_row.get(&route)?),
        };
        let onward = if let Some(entered_by) = tunnel_around(&path[..hop]) {
            // The outer header names the end of the tunnel.
            let mut onward = self.path_in_tunnel(next, [topology.owner(entered_by), exit], &ends);
            onward.insert(onward.len() - 1, TUNNEL_ENDS);
            onward
        } else {
            let chosen = side.and_then(|key| self.destination_port(key, Some(from))).unwrap_or(exit);
            let to = if self.routes.ports(next, chosen).is_empty() { exit } else { chosen };
            self.find_path_row_from(next, [from, to], &ends)
        };
        if path[hop..] == onward || hop + onward.len() > PATH_LENGTH_MAX {
            return None;
        }
        path.truncate(hop);
        path.extend(onward);
        if let Some(row) = side.and_then(|key| self.row_of_side(key, &path)) {
            return Some(row);
        }
        let row = self.rows.add_row(path);
        // Only frames under way use it.
        self.rows.schedule_retirement(row, now);
        if side.is_none() {
            self.choice_of_program_row.insert(row, ends.flow);
        }
        Some(row)
    }

    /// The port that frames of an endpoint go to, if it is open: of one that takes ports in turn, by the port that a frame has left.
    fn destination_port(&self, endpoint_key: u32, from: Option<NodeId>) -> Option<NodeId> {
        let (open, side) = (self.open.get(&(endpoint_key / 2))?, (endpoint_key & 1) as usize);
        let way = open.ways[side].iter().find(|way| Some(way.ports[0]) == from);
        Some(way.map_or(open.ports[side], |way| way.ports)[1])
    }

    /// The row of new packets of an endpoint, if that holds `path`.
    fn row_of_side(&self, endpoint_key: u32, path: &[PortId]) -> Option<u32> {
        let (open, side) = (self.open.get(&(endpoint_key / 2))?, (endpoint_key & 1) as usize);
        let rows = open.ways[side].iter().map(|way| way.route).chain([open.routes[side]]);
        rows.filter(|row| *row != u32::MAX).find(|row| self.rows.row_equals(*row, path))
    }
}

/// The port by which a frame entered the tunnel that it is in, if it is in one; `past`: its path up to now.
fn tunnel_around(past: &[PortId]) -> Option<PortId> {
    let last = past.iter().rposition(|port| [TUNNEL_BEGINS, TUNNEL_ENDS].contains(port))?;
    (past[last] == TUNNEL_BEGINS).then(|| past[last + 1])
}
