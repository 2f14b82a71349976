//! Paths of flows: by ECMP at the start of a flow and after each change of routes.

use super::{Traffic, sender_and_receiver};
use pauseframe_engine::mix_bits;
use pauseframe_routing::NextHops;
use pauseframe_units::{NodeId, PortId, Time};
use std::sync::Arc;

impl Traffic {
    /// The ECMP path of a flow between two hosts; the destination node if switches look up next hops.
    pub(crate) fn find_route(&mut self, [here, there]: [NodeId; 2], flow: u32) -> u32 {
        if !self.rows.is_enabled() {
            return there.0;
        }
        let path = self.ecmp_path([here, there], flow);
        self.rows.add_path(path)
    }

    /// Frees rows that no sender uses any more.
    pub(crate) fn give_up(&mut self, rows: impl Iterator<Item = u32>, now: Time) {
        if self.rows.is_enabled() {
            rows.for_each(|row| self.rows.retire_row(row, now));
        }
    }

    pub(super) fn ecmp_path(&self, [here, there]: [NodeId; 2], flow: u32) -> Vec<PortId> {
        // The 5-tuple of a flow: its hosts, and ports that differ from flow to flow.
        let tuple = mix_bits(u64::from(here.0) << 32 | u64::from(there.0)) ^ mix_bits(u64::from(flow));
        let seed = self.plan.settings.seed;
        let salt = |switch: NodeId| mix_bits(seed ^ mix_bits(u64::from(switch.0)));
        let mut path = Vec::new();
        self.routes.ecmp_path(&self.plan.topology, here, there, mix_bits(tuple), salt, &mut path);
        path
    }

    /// The ports that the data of a flow cross; `None` if switches look up next hops.
    pub(crate) fn path_of(&self, flow: u32) -> Option<Vec<PortId>> {
        let spec = self.records.get(flow).spec;
        self.rows.is_enabled().then(|| self.ecmp_path([spec.source, spec.destination], flow))
    }

    /// Recomputes the paths of open flows after a change of routes. Returns the endpoints with a new path: host, address, row.
    pub(crate) fn reroute(&mut self, routes: &Arc<NextHops>, now: Time) -> Vec<(NodeId, u32, u32)> {
        self.routes = Arc::clone(routes);
        let mut changed = Vec::new();
        if !self.rows.is_enabled() {
            return changed;
        }
        let mut open = std::mem::take(&mut self.open);
        for (flow, state) in &mut open {
            let spec = self.records.get(*flow).spec;
            for (side, route) in (0..).zip(&mut state.routes).filter(|(_, route)| **route != u32::MAX) {
                let ends = sender_and_receiver(&spec, side);
                let path = self.ecmp_path(ends, *flow);
                if !self.rows.row_equals_path(*route, &path) {
                    self.rows.retire_row(*route, now);
                    *route = self.rows.add_path(path);
                    changed.push((ends[0], flow * 2 + side, *route));
                }
            }
        }
        self.open = open;
        changed
    }
}
