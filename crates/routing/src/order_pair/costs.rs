//! What a plan costs, in steps of the budget, and what the budget allows for.

use super::{Effort, OrderPair, directed_links};
use crate::budget::{Ledger, STEPS_A_SECOND};
use crate::reach::steps_of_depths;
use crate::watch::Watch;
use crate::{ForwardingTables, RoutingError};
use pauseframe_topology::SwitchGraph;
use pauseframe_units::counted;

/// The default budget in seconds.
fn usual_budget(effort: Effort) -> f64 {
    match effort {
        Effort::Fast | Effort::Normal => 10.0,
        Effort::Best => 60.0,
    }
}

/// Number of budget steps to grow a tree, per directed link between switches; also to prove a tree, per
/// switch.
pub(super) const STEPS_TO_GROW: u64 = 10;
const STEPS_TO_PROVE: u64 = 15;
/// Number of budget steps to verify and write a row of the tables, per VLAN, destination and switch: what
/// follows a plan in `route plan`.
const STEPS_TO_WRITE: u64 = 80;

impl OrderPair {
    /// Makes the ledger with the budget of the plan, without the steps that verify and write its tables.
    pub(crate) fn ledger<'w>(&self, graph: &SwitchGraph, watch: &'w mut dyn Watch) -> Ledger<'w> {
        let all = self.steps_of_all();
        let budget = all.saturating_sub(self.rows(graph) * STEPS_TO_WRITE).max(all / 10);
        Ledger::new(budget, self.stop_at, watch)
    }

    /// The budget in steps, including the steps that verify and write the tables.
    fn steps_of_all(&self) -> u64 {
        (self.budget.unwrap_or(usual_budget(self.effort)) / f64::from(self.planes) * STEPS_A_SECOND) as u64
    }

    /// The settings for one of several planes.
    pub(crate) fn of_parts(&self, planes: u32) -> Result<OrderPair, RoutingError> {
        if let Some(stop) = self.stop_at.filter(|_| planes > 1) {
            let allowed = "the planes of a fabric are searched one after the other; leave it out".to_owned();
            return Err(RoutingError::Parameter { parameter: "steps", value: stop as usize, allowed });
        }
        Ok(OrderPair { planes, ..self.clone() })
    }

    /// These settings with as many VLANs as four fifths of the budget allow for, if fewer VLANs will do.
    pub(crate) fn fitted(&self, graph: &SwitchGraph) -> OrderPair {
        let mut fitted = self.clone();
        let least = self.lanes + self.sampled_vlans + self.backup_vlans.unwrap_or(0);
        let costs = |plan: &OrderPair| plan.needed(graph) + plan.rows(graph) * STEPS_TO_WRITE;
        while self.fewer_vlans && fitted.vlans > least && costs(&fitted) > self.steps_of_all() / 5 * 4 {
            fitted.vlans -= 1;
        }
        fitted
    }

    /// Adds notes on the steps of a plan under [`Self::fitted`] settings, and on VLANs that it lacks.
    pub(crate) fn sign(&self, plan: &mut ForwardingTables, ledger: &Ledger) {
        plan.set_steps(ledger.steps(), ledger.was_cut());
        if ledger.was_cut() && self.planes > 1 {
            plan.note("the search was ended early: no setting gives this plan again".to_owned());
        } else if ledger.was_cut() {
            plan.note(format!(
                "the search was ended early: the same settings with --steps {} give this plan again",
                ledger.steps()
            ));
        }
        let needed = self.needed(plan.graph()) + self.rows(plan.graph()) * STEPS_TO_WRITE;
        let (seconds, fitted) = (needed as f64 / STEPS_A_SECOND, self.fitted(plan.graph()).vlans);
        if fitted < self.vlans && plan.vlans() == fitted {
            plan.note(format!(
                "{} instead of {}, which would take {seconds:.0} s and more: --vlans {1} --budget {:.0} plans them",
                counted(fitted, "VLAN"),
                self.vlans,
                (2.0 * seconds).ceil(),
            ));
        } else if needed > self.steps_of_all() {
            plan.note(format!(
                "the trees of {} VLANs, their proof and tables alone take about {seconds:.0} s: fewer VLANs take less",
                self.vlans,
            ));
        }
    }

    /// Number of budget steps for the trees, their depths and their proof.
    pub(super) fn needed(&self, graph: &SwitchGraph) -> u64 {
        let trees = (self.vlans * graph.attachments().len()) as u64;
        let depths = self.lanes as u64 * steps_of_depths(graph, levels_of_a_tree(graph));
        trees * directed_links(graph) * STEPS_TO_GROW + depths + self.to_prove(graph)
    }

    /// Number of budget steps for the proof.
    pub(super) fn to_prove(&self, graph: &SwitchGraph) -> u64 {
        self.rows(graph) * STEPS_TO_PROVE
    }

    /// Number of rows of the tables: one per VLAN, destination and switch.
    fn rows(&self, graph: &SwitchGraph) -> u64 {
        (self.vlans * graph.attachments().len() * graph.len()) as u64
    }
}

/// Number of levels of a tree of shortest paths from the first edge switch.
fn levels_of_a_tree(graph: &SwitchGraph) -> usize {
    let (mut distance, mut queue) = (vec![0; graph.len()], Vec::new());
    let first = graph.attachments().len().min(1);
    graph.distances_to_any(&graph.attachments()[..first], &mut distance, &mut queue);
    queue.last().map_or(1, |last| 1 + distance[*last as usize] as usize)
}
