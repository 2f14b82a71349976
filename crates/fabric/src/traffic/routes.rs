//! Paths of flows: by ECMP at the start of a flow and after each change of routes.

use super::{Traffic, source_and_destination_of_side};
use pauseframe_engine::mix_bits;
use pauseframe_routing::NextHops;
use pauseframe_units::{NodeId, PortId, Time};
use std::sync::Arc;

impl Traffic {
    /// The ECMP path of a flow between two hosts; the destination node if switches look up next hops.
    pub(crate) fn find_ecmp_path_and_add_row(&mut self, [here, there]: [NodeId; 2], flow: u32) -> u32 {
        if !self.rows.packets_carry_paths() {
            return there.0;
        }
        let path = self.find_ecmp_path([here, there], flow);
        self.rows.add_path_row(path)
    }

    /// Frees rows that no sender uses any more.
    pub(crate) fn retire_path_rows_without_sender(&mut self, rows: impl Iterator<Item = u32>, now: Time) {
        if self.rows.packets_carry_paths() {
            rows.for_each(|row| self.rows.schedule_path_row_retirement(row, now));
        }
    }

    pub(super) fn find_ecmp_path(&self, [here, there]: [NodeId; 2], flow: u32) -> Vec<PortId> {
        // The 5-tuple of a flow: its hosts, and ports that differ from flow to flow.
        let tuple = mix_bits(u64::from(here.0) << 32 | u64::from(there.0)) ^ mix_bits(u64::from(flow));
        let seed = self.plan.settings.seed;
        let salt = |switch: NodeId| mix_bits(seed ^ mix_bits(u64::from(switch.0)));
        let mut path = Vec::new();
        self.routes.ecmp_path(&self.plan.topology, here, there, mix_bits(tuple), salt, &mut path);
        path
    }

    /// The ports that the data of a flow cross; `None` if switches look up next hops.
    pub(crate) fn path_of_flow(&self, flow: u32) -> Option<Vec<PortId>> {
        let spec = self.records.flow_record(flow).spec;
        self.rows.packets_carry_paths().then(|| self.find_ecmp_path([spec.source, spec.destination], flow))
    }

    /// Recomputes the paths of open flows after a change of routes. Returns the endpoints with a new path: host, endpoint key, row.
    pub(crate) fn reroute_open_flows(
        &mut self,
        routes: &Arc<NextHops>,
        now: Time,
    ) -> Vec<(NodeId, u32, u32)> {
        self.routes = Arc::clone(routes);
        let mut changed = Vec::new();
        if !self.rows.packets_carry_paths() {
            return changed;
        }
        let mut open = std::mem::take(&mut self.open);
        for (flow, state) in &mut open {
            let spec = self.records.flow_record(*flow).spec;
            for (side, route) in (0..).zip(&mut state.routes).filter(|(_, route)| **route != u32::MAX) {
                let ends = source_and_destination_of_side(&spec, side);
                let path = self.find_ecmp_path(ends, *flow);
                if !self.rows.path_row_equals(*route, &path) {
                    self.rows.schedule_path_row_retirement(*route, now);
                    *route = self.rows.add_path_row(path);
                    changed.push((ends[0], flow * 2 + side, *route));
                }
            }
        }
        self.open = open;
        changed
    }
}
