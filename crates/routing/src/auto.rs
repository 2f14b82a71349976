//! The engine `auto`, which chooses the routing method for the graph.
//!
//! Clos networks and trees get a plan in one lane, based on their levels. For other graphs the engine
//! improves two orders of the switches. If these orders give every pair a shortest route, the engine uses
//! them, because they offer several routes per pair and backups. Otherwise the engine tries LASH, which needs
//! no orders but has one route per pair. If LASH needs too many lanes, or the graph is too large for LASH,
//! the engine keeps the orders.

use super::budget::Ledger;
use super::levels::rank_by_level;
use super::{ForwardingTables, Lash, OrderPair, RoutingEngine, RoutingError};
use crate::watch::Watch;
use pauseframe_topology::{SwitchGraph, Topology};
use pauseframe_units::counted;

/// Largest product of switches and directed links for which the engine tries LASH: 700 switches with 32 links
/// each take seconds.
const LASH_MAX: usize = 1 << 24;

/// Order pairs; LASH instead if the orders cause detours and LASH fits into the lanes.
#[derive(Clone, Debug, Default)]
pub struct Auto {
    /// Settings of the orders: lanes, VLANs, backups, effort and seed.
    pub orders: OrderPair,
}

impl RoutingEngine for Auto {
    fn plan_part(
        &self,
        topology: &Topology,
        graph: &SwitchGraph,
        parts: u32,
        watch: &mut dyn Watch,
    ) -> Result<ForwardingTables, RoutingError> {
        let orders = self.orders.of_parts(parts)?;
        let fitted = Auto { orders: orders.fitted(graph) };
        let mut ledger = fitted.orders.ledger(graph, watch);
        let mut plan = fitted.choose(topology, graph, &mut ledger)?;
        orders.sign(&mut plan, &ledger);
        Ok(plan)
    }
}

impl Auto {
    fn choose(
        &self,
        topology: &Topology,
        graph: &SwitchGraph,
        ledger: &mut Ledger,
    ) -> Result<ForwardingTables, RoutingError> {
        let mut plan = self.orders.plan_counted(topology, graph, ledger)?;
        let leveled = rank_by_level(topology, graph).is_some();
        if plan.lanes() == 1 {
            let why = if leveled {
                "the switches have levels, which one lane suffices for"
            } else {
                "one lane gives every pair a shortest route"
            };
            plan.note(format!("auto chose order_pair: {why}"));
            return Ok(plan);
        }
        let levels = if leveled {
            "too many pairs have only long ways up and down the levels, or none"
        } else {
            "there are no levels"
        };
        if graph.len() * graph.port_count() > LASH_MAX {
            plan.note(format!("auto chose order_pair: {levels}, and the graph is too large to try lash too"));
            return Ok(plan);
        }
        let detour = detour(&plan);
        if detour == 0.0 {
            plan.note(format!(
                "auto chose order_pair: {levels}, and {} orders give every pair a shortest route",
                plan.lanes()
            ));
            return Ok(plan);
        }
        let orders =
            format!("{levels}, and {} orders cost a mean detour of {:.2} %", plan.lanes(), detour * 100.0);
        let lash = Lash { lanes_max: self.orders.lanes, seed: self.orders.seed };
        let end = ledger.part(10);
        match lash.plan_within(topology, graph, self.orders.lanes, ledger, end) {
            Ok(None) => {
                plan.note(format!(
                    "auto chose order_pair: {orders}, and the budget ended before lash had placed all routes"
                ));
                Ok(plan)
            }
            Ok(Some(mut lash)) => {
                lash.note(format!(
                    "auto chose lash: {orders}; lash needs {} for shortest routes, one a pair and without backups",
                    counted(lash.lanes(), "lane")
                ));
                Ok(lash)
            }
            Err(RoutingError::Lanes { allowed, .. }) => {
                plan.note(format!(
                    "auto chose order_pair: {orders}, and lash would need more than {}",
                    counted(allowed, "lane")
                ));
                Ok(plan)
            }
            Err(other) => Err(other),
        }
    }
}

/// Mean detour over all pairs: the number of links of the shortest route beyond the shortest path, as a
/// fraction of the shortest path.
fn detour(plan: &ForwardingTables) -> f64 {
    let graph = plan.graph();
    let (routes, rows) = (plan.shortest(), graph.attachments().len());
    let (mut distance, mut queue) = (vec![0; graph.len()], Vec::new());
    let (mut all, mut shortest) = (0_u64, 0_u64);
    for (to, target) in graph.attachments().iter().enumerate() {
        graph.distances(*target, &mut distance, &mut queue);
        for (from, source) in graph.attachments().iter().enumerate() {
            all += u64::from(routes[to * rows + from]);
            shortest += u64::from(distance[*source as usize]);
        }
    }
    if shortest == 0 { 0.0 } else { all as f64 / shortest as f64 - 1.0 }
}
