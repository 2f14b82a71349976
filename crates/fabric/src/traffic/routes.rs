//! The paths of flows: by ECMP when one begins, and anew when routes have changed.

use super::{Traffic, ends};
use pauseframe_engine::mix;
use pauseframe_topology::routing::NextHops;
use pauseframe_units::{NodeId, PortId, Time};
use std::sync::Arc;

impl Traffic {
    /// The path of a flow's packets between two hosts, by ECMP; packets that switches look up name their destination.
    pub(crate) fn find_route(&mut self, [here, there]: [NodeId; 2], flow: u32) -> u32 {
        if !self.rows.are_used() {
            return there.0;
        }
        let path = self.path([here, there], flow);
        self.rows.add(path)
    }

    /// Nobody sends by these rows any more.
    pub(crate) fn give_up(&mut self, rows: impl Iterator<Item = u32>, now: Time) {
        if self.rows.are_used() {
            rows.for_each(|row| self.rows.retire(row, now));
        }
    }

    pub(super) fn path(&self, [here, there]: [NodeId; 2], flow: u32) -> Vec<PortId> {
        // The 5-tuple of a flow: its hosts, and ports that differ from flow to flow.
        let tuple = mix(u64::from(here.0) << 32 | u64::from(there.0)) ^ mix(u64::from(flow));
        let seed = self.plan.settings.seed;
        let salt = |switch: NodeId| mix(seed ^ mix(u64::from(switch.0)));
        let mut path = Vec::new();
        self.routes.ecmp_path(&self.plan.topology, here, there, mix(tuple), salt, &mut path);
        path
    }

    /// The ports that the data of a flow cross; `None` where switches look up the next hop.
    pub(crate) fn path_of(&self, flow: u32) -> Option<Vec<PortId>> {
        let spec = self.records.get(flow).spec;
        self.rows.are_used().then(|| self.path([spec.source, spec.destination], flow))
    }

    /// Routes have changed: every open flow takes its path anew. The ends with another path: host, address, row.
    pub(crate) fn reroute(&mut self, routes: &Arc<NextHops>, now: Time) -> Vec<(NodeId, u32, u32)> {
        self.routes = Arc::clone(routes);
        let mut changed = Vec::new();
        if !self.rows.are_used() {
            return changed;
        }
        let mut open = std::mem::take(&mut self.open);
        for (flow, state) in &mut open {
            let spec = self.records.get(*flow).spec;
            for (side, route) in (0..).zip(&mut state.routes).filter(|(_, route)| **route != u32::MAX) {
                let ends = ends(&spec, side);
                let path = self.path(ends, *flow);
                if !self.rows.is(*route, &path) {
                    self.rows.retire(*route, now);
                    *route = self.rows.add(path);
                    changed.push((ends[0], flow * 2 + side, *route));
                }
            }
        }
        self.open = open;
        changed
    }
}
