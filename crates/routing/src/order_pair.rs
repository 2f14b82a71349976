//! Order pairs: short, deadlock-free routes in two lanes.
//!
//! Each lane has an order of the switches, which defines the turn rule of the lane ([`super::turn_order`]).
//! With an order in one lane and its reverse in another, every route of at most two links is legal in one of
//! the lanes, because no switch is ranked below both of its neighbours in both orders. So two lanes allow all
//! shortest routes of a graph of diameter two. If routes are longer, [`super::annealing`] improves the two
//! orders independently. Trees, and Clos networks, whose levels follow from the graph, need one lane. Further
//! lanes are used only while some pairs have no shortest route.
//!
//! Each VLAN contains a tree of next hops for every destination. The tree is legal in the lane of the VLAN
//! and balanced against all earlier trees. The last VLANs are for failures ([`super::backup`]). Together, the
//! trees of a VLAN contain loops, so MAC learning and flooding must be disabled.
//!
//! The scheme of order pairs is our own; no paper describes it.

mod costs;

use super::annealing::{Effort, Search, detours};
use super::backup::{self, Cuts, Protect, add_detours, add_missing, used_turns};
use super::budget::Ledger;
use super::levels::rank_by_level;
use super::ordered_trees::{Growth, TreeGrower, Uses, rank_from_root};
use super::turn_order::TurnOrder;
use super::up_down::widest_switch;
use super::{ForwardingTables, RoutingEngine, RoutingError};
use super::{bound_parameter, reachable_switches, unreachable};
use crate::watch::Watch;
use costs::STEPS_TO_GROW;
use pauseframe_topology::{SwitchGraph, Topology};
use pauseframe_units::{Id, PortId, counted};
use rand::seq::SliceRandom;
use rand::{Rng, RngExt, SeedableRng};
use rand_pcg::Pcg64;

/// Number of random orders that the planner compares at the start.
const CANDIDATES: usize = 4;

/// Maximum mean detour at which one lane, ordered by levels, is enough for a Clos network with failed links;
/// also the maximum fraction of pairs without an up-then-down path.
const DETOUR_MAX: f64 = 0.02;

/// The order-pair planner.
#[derive(Clone, Debug)]
pub struct OrderPair {
    /// Maximum number of lanes, up to 8. The planner uses fewer lanes if they give every pair a shortest
    /// route.
    pub lanes: usize,
    /// Number of VLANs: at least the number of lanes, at most 4094.
    pub vlans: usize,
    /// Number of VLANs that use only a random part of the links. Such VLANs contain longer routes and cover
    /// failures.
    pub sampled_vlans: usize,
    /// The part of the links that such a VLAN uses, in percent.
    pub sample_percent: u32,
    /// Number of backup VLANs, which are the last VLANs; by default a quarter of the VLANs if there are at
    /// least eight.
    pub backup_vlans: Option<usize>,
    /// True if fewer VLANs will do where the budget does not allow for trees in all of them.
    pub fewer_vlans: bool,
    /// The failures that the backup VLANs cover.
    pub protect: Protect,
    /// Duration of the search for good orders.
    pub effort: Effort,
    /// Maximum duration of the whole plan in seconds of one core, counted by [`STEPS_A_SECOND`]; the default
    /// depends on the effort.
    pub budget: Option<f64>,
    /// Number of steps after which the search ends with its current result.
    pub stop_at: Option<u64>,
    /// Number of planes that share the budget.
    pub planes: u32,
    /// Seed for orders, samples and ties.
    pub seed: u64,
}

impl Default for OrderPair {
    /// Two lanes and sixteen VLANs, of which four are backups.
    fn default() -> OrderPair {
        OrderPair {
            lanes: 2,
            vlans: 16,
            fewer_vlans: false,
            sampled_vlans: 0,
            sample_percent: 60,
            backup_vlans: None,
            protect: Protect::Link,
            effort: Effort::Normal,
            budget: None,
            stop_at: None,
            planes: 1,
            seed: 1,
        }
    }
}

/// The turn rules of a plan: one order of the switches for each lane.
#[derive(PartialEq)]
struct Orders {
    /// For each lane, the rank of each switch by its number.
    ranks: Vec<Vec<u32>>,
    /// True if VLAN 0 prefers downward routes; VLAN 0 then serves every pair if every switch except one has a
    /// neighbour of higher rank.
    down_first: bool,
}

impl RoutingEngine for OrderPair {
    fn plan_part(
        &self,
        topology: &Topology,
        graph: &SwitchGraph,
        parts: u32,
        watch: &mut dyn Watch,
    ) -> Result<ForwardingTables, RoutingError> {
        let orders = self.of_parts(parts)?;
        let fitted = orders.fitted(graph);
        let mut ledger = fitted.ledger(graph, watch);
        let mut plan = fitted.plan_counted(topology, graph, &mut ledger)?;
        orders.sign(&mut plan, &ledger);
        Ok(plan)
    }
}

/// Number of budget steps to find the links that a backup avoids and the cuts that it repairs, per directed
/// link.
const STEPS_TO_AVOID: u64 = 12;

impl OrderPair {
    /// Makes a plan and counts its steps. More effort never makes routes longer: the result of the longer
    /// search competes with the plan of [`Effort::Fast`], both with their backups.
    pub(super) fn plan_counted(
        &self,
        topology: &Topology,
        graph: &SwitchGraph,
        ledger: &mut Ledger,
    ) -> Result<ForwardingTables, RoutingError> {
        let (fast, searched) = self.draw_orders(Effort::Fast, topology, graph, ledger, None)?;
        if self.effort == Effort::Fast || !searched {
            return self.plan_or_rooted(topology, graph, &fast, ledger);
        }
        if detours(graph, &fast.ranks, ledger) == (0, 0) {
            let end = ledger.leaving(self.needed(graph), 3);
            let slow = self.draw_more(topology, graph, ledger, end)?;
            let is_better = |slow: &Orders| {
                let squares = |orders: &Orders| Search::new(graph, &orders.ranks, 0, self.seed).squares();
                detours(graph, &slow.ranks, ledger) == (0, 0) && squares(slow) <= squares(&fast)
            };
            let orders = slow.filter(is_better).unwrap_or(fast);
            return self.plan_or_rooted(topology, graph, &orders, ledger);
        }
        let before = ledger.spent();
        let plan = self.plan_or_rooted(topology, graph, &fast, ledger)?;
        // The second plan takes as long as the first plan, plus a proof.
        let end = ledger.leaving(ledger.spent() - before + 2 * self.to_prove(graph), 10);
        let slow = self.draw_more(topology, graph, ledger, end)?.filter(|slow| *slow != fast);
        let Some(slow) = slow else { return Ok(plan) };
        match self.plan_under(topology, graph, &slow, ledger) {
            Err(RoutingError::Unreachable { .. }) => Ok(plan),
            Ok(other) => {
                ledger.spend(2 * self.to_prove(graph));
                let is_shorter = links_of_routes(&other) < links_of_routes(&plan);
                Ok(if is_shorter { other } else { plan })
            }
            result => result,
        }
    }

    /// Searches for orders with the full effort, if the budget allows it.
    fn draw_more(
        &self,
        topology: &Topology,
        graph: &SwitchGraph,
        ledger: &mut Ledger,
        end: u64,
    ) -> Result<Option<Orders>, RoutingError> {
        if !ledger.goes_on(end) {
            return Ok(None);
        }
        self.draw_orders(self.effort, topology, graph, ledger, Some(end)).map(|(orders, _)| Some(orders))
    }

    /// Makes a plan under these orders; if they leave a pair without a route, makes a plan under rooted
    /// orders.
    fn plan_or_rooted(
        &self,
        topology: &Topology,
        graph: &SwitchGraph,
        orders: &Orders,
        ledger: &mut Ledger,
    ) -> Result<ForwardingTables, RoutingError> {
        match self.plan_under(topology, graph, orders, ledger) {
            Err(RoutingError::Unreachable { .. }) => {
                let orders = self.rooted_orders(graph, ledger)?;
                self.plan_under(topology, graph, &orders, ledger)
            }
            result => result,
        }
    }

    /// Returns orders, and whether they come from a search: for levels and trees, no search is necessary. The
    /// search ends at `end`, if given.
    fn draw_orders(
        &self,
        effort: Effort,
        topology: &Topology,
        graph: &SwitchGraph,
        ledger: &mut Ledger,
        end: Option<u64>,
    ) -> Result<(Orders, bool), RoutingError> {
        self.check_settings()?;
        backup::check(&self.protect, graph)?;
        reachable_switches(topology, graph)?;
        let by_level = rank_by_level(topology, graph);
        let rooted = rank_from_root(graph, widest_switch(graph));
        for (rank, detour) in by_level.iter().map(|rank| (rank, DETOUR_MAX)).chain([(&rooted, 0.0)]) {
            let search = Search::new(graph, std::slice::from_ref(rank), 0, self.seed);
            ledger.spend(search.steps_of_a_look());
            if search.stretch() <= detour && search.unserved() <= detour {
                return Ok((Orders { ranks: vec![rank.clone()], down_first: true }, false));
            }
        }
        if self.lanes == 1 {
            return Ok((self.improved(effort, graph, vec![rooted], 0, ledger, end)?, true));
        }
        let mut rng = Pcg64::seed_from_u64(self.seed);
        let random = (0..CANDIDATES).map(|_| random_rank(graph.len(), &mut rng));
        let starts =
            by_level.into_iter().chain([rooted]).chain(random).map(|rank| vec![reversed(&rank), rank]);
        let start = starts.min_by_key(|ranks| {
            let search = Search::new(graph, ranks, 0, self.seed);
            ledger.spend(search.steps_of_a_look());
            search.cost()
        });
        Ok((self.improved(effort, graph, start.unwrap_or_default(), 0, ledger, end)?, true))
    }

    /// Improves these orders by a search, with further lanes while they shorten routes.
    fn improved(
        &self,
        effort: Effort,
        graph: &SwitchGraph,
        mut ranks: Vec<Vec<u32>>,
        fixed: usize,
        ledger: &mut Ledger,
        end: Option<u64>,
    ) -> Result<Orders, RoutingError> {
        let mut rng = Pcg64::seed_from_u64(self.seed ^ 0x006c_616e_6573);
        let end = end.unwrap_or_else(|| ledger.before(self.needed(graph)));
        loop {
            let rounds = 1 + self.lanes.saturating_sub(ranks.len()).div_ceil(2);
            let end = ledger.round(rounds, end);
            let mut search = Search::new(graph, &ranks, fixed, self.seed);
            search.improve(effort, ledger, end)?;
            ranks = search.ranks();
            if search.cost() == 0 || ranks.len() >= self.lanes {
                return Ok(Orders { ranks, down_first: fixed > 0 });
            }
            let rank = random_rank(graph.len(), &mut rng);
            ranks.extend([reversed(&rank), rank]);
            ranks.truncate(self.lanes);
        }
    }

    /// Makes the first order by distance from a root, so that its lane serves every pair, and improves the
    /// other orders.
    fn rooted_orders(&self, graph: &SwitchGraph, ledger: &mut Ledger) -> Result<Orders, RoutingError> {
        let rank = rank_from_root(graph, widest_switch(graph));
        let mut ranks = vec![rank.clone(), reversed(&rank)];
        ranks.truncate(self.lanes);
        self.improved(Effort::Fast, graph, ranks, 1, ledger, None)
    }

    /// Computes tables under given orders.
    ///
    /// # Errors
    /// If the tables do not fit, or a pair has no route that the orders allow or that closes no cycle.
    fn plan_under(
        &self,
        topology: &Topology,
        graph: &SwitchGraph,
        orders: &Orders,
        ledger: &mut Ledger,
    ) -> Result<ForwardingTables, RoutingError> {
        let rules: Vec<TurnOrder> =
            orders.ranks.iter().map(|rank| TurnOrder::of_ranks(graph, rank)).collect();
        let lanes = (0..self.vlans).map(|vlan| (vlan % rules.len()) as u8).collect();
        let mut tables = ForwardingTables::new(graph, lanes)?;
        let usual = self.vlans - self.backup_vlans();
        let uses = uses(graph, orders, usual);
        ledger.spend(uses.steps);
        let mut grower = TreeGrower::new(graph).counting(uses);
        let mut rng = Pcg64::seed_from_u64(self.seed ^ 0x706c_616e);
        let links = graph.port_count() / 2;
        let mut rows: Vec<u32> = (0..graph.attachments().len() as u32).collect();
        for vlan in 0..usual {
            let growth = if vlan == 0 && orders.down_first { Growth::DownFirst } else { Growth::Nearest };
            let sampled = vlan + self.sampled_vlans >= usual;
            let usable: Vec<bool> =
                (0..links).map(|_| !sampled || rng.random_range(0..100) < self.sample_percent).collect();
            let may_use = |port: PortId| usable[port.link().index()];
            rows.shuffle(&mut rng);
            for (done, row) in rows.iter().enumerate() {
                ledger.step(
                    "growing trees",
                    (vlan * rows.len() + done) as u64,
                    (self.vlans * rows.len()) as u64,
                )?;
                let to = graph.attachments()[*row as usize];
                let rule = &rules[vlan % rules.len()];
                grower.grow(rule, to, growth, may_use, rng.next_u64(), tables.tree_mut(vlan, *row));
                ledger.spend(directed_links(graph) * STEPS_TO_GROW);
            }
        }
        let mut left = tables.unserved();
        ledger.spend(self.to_prove(graph));
        let has_exceptions = !left.is_empty();
        if has_exceptions {
            let pairs = counted(left.len(), "pair");
            let end = ledger.part(10);
            add_missing(&mut tables, &left, 0..usual, ledger, end)?;
            left = tables.unserved();
            tables.note(format!(
                "{pairs} of switches without a way that the orders allow got routes of their own"
            ));
        }
        if let Some((from, to)) = left.first() {
            return Err(unreachable(topology, graph, *from, *to));
        }
        self.add_backups(&mut tables, &rules, &mut grower, &mut rng, has_exceptions, ledger)?;
        Ok(tables)
    }

    /// Number of backup VLANs that leave room for one other VLAN per lane.
    fn backup_vlans(&self) -> usize {
        let usual = if self.vlans < 8 { 0 } else { self.vlans / 4 };
        self.backup_vlans.unwrap_or(usual).min(self.vlans - self.sampled_vlans - self.lanes)
    }

    fn add_backups(
        &self,
        tables: &mut ForwardingTables,
        rules: &[TurnOrder],
        grower: &mut TreeGrower<'_>,
        rng: &mut Pcg64,
        has_exceptions: bool,
        ledger: &mut Ledger,
    ) -> Result<(), RoutingError> {
        let backups = self.vlans - self.backup_vlans()..self.vlans;
        if backups.is_empty() {
            return Ok(());
        }
        let end = ledger.part(8);
        let mut cuts = Cuts::of(tables, backups.start, &self.protect, ledger, end)?;
        if cuts.unknown() > 0 {
            let (unknown, all) = (cuts.unknown(), tables.graph().attachments().len());
            tables.note(format!(
                "backups were planned for {} of {all} destinations: the budget did not allow for more",
                all - unknown
            ));
        }
        let graph = tables.graph().clone();
        let mut avoided = vec![false; graph.port_count()];
        // The last VLAN of each lane is for routes that the turn rules forbid.
        let last = if cuts.is_empty() { 0 } else { rules.len().min(backups.len() / 2) };
        let ruled = backups.start..backups.end - last;
        // A turn that the turn rules forbid may close a cycle with allowed turns that no route takes yet.
        let mut checked = if has_exceptions { used_turns(tables, ledger)? } else { Vec::new() };
        for vlan in ruled.clone() {
            for row in 0..graph.attachments().len() as u32 {
                ledger.step("growing backups", u64::from(row), graph.attachments().len() as u64)?;
                if cuts.any(row) {
                    ledger.spend(directed_links(&graph) * STEPS_TO_AVOID);
                }
                cuts.avoid(&graph, row, vlan - ruled.start > rules.len(), rng, &mut avoided);
                let (to, rule) = (graph.attachments()[row as usize], &rules[vlan % rules.len()]);
                let may_use = |port: PortId| !avoided[port.0 as usize];
                grower.grow(rule, to, Growth::Nearest, may_use, rng.next_u64(), tables.tree_mut(vlan, row));
                ledger.spend(directed_links(&graph) * STEPS_TO_GROW);
                if let Some(Some(turns)) = checked.get_mut(vlan % rules.len()) {
                    turns.add_tree(&graph, tables.tree_mut(vlan, row), to);
                    ledger.spend(turns.take_steps());
                }
                if cuts.any(row) {
                    cuts.mend(tables, vlan, row);
                }
            }
        }
        let end = ledger.part(10);
        add_detours(tables, &mut cuts, ruled.end..backups.end, ledger, end)
    }

    fn check_settings(&self) -> Result<(), RoutingError> {
        bound_parameter("lanes", self.lanes, 1..=8, "it must be 1 to 8")?;
        let OrderPair { lanes, vlans, .. } = *self;
        let (of_lanes, verb) = (counted(lanes, "lane"), if lanes == 1 { "needs" } else { "need" });
        let allowed = format!("{of_lanes} {verb} {lanes} to 4094; allow fewer lanes, or more VLANs");
        bound_parameter("vlans", vlans, lanes..=4094, allowed)?;
        let allowed = format!("of {} each lane needs one on all links; sample fewer", counted(vlans, "VLAN"));
        bound_parameter("sampled_vlans", self.sampled_vlans, 0..=vlans - lanes, allowed)?;
        let most = vlans - lanes - self.sampled_vlans;
        let allowed = format!("of {} at most {most} can wait for failures", counted(vlans, "VLAN"));
        bound_parameter("backup_vlans", self.backup_vlans.unwrap_or(0), 0..=most, allowed)?;
        bound_parameter("sample_percent", self.sample_percent as usize, 1..=100, "it must be 1 to 100")
    }
}

/// Determines which of the first `vlans` VLANs senders will use.
fn uses(graph: &SwitchGraph, orders: &Orders, vlans: usize) -> Uses {
    let lanes = orders.ranks.len();
    let vlans_of = |lane: usize| (vlans + lanes - 1 - lane) / lanes;
    let lanes: Vec<(&[u32], u16)> =
        orders.ranks.iter().enumerate().map(|(lane, rank)| (&rank[..], vlans_of(lane) as u16)).collect();
    Uses::of(graph, &lanes)
}

fn random_rank(switches: usize, rng: &mut Pcg64) -> Vec<u32> {
    let mut rank: Vec<u32> = (0..switches as u32).collect();
    rank.shuffle(rng);
    rank
}

fn reversed(rank: &[u32]) -> Vec<u32> {
    let highest = rank.iter().max().copied().unwrap_or(0);
    rank.iter().map(|r| highest - r).collect()
}

/// Number of links between switches, counted once per direction.
fn directed_links(graph: &SwitchGraph) -> u64 {
    2 * graph.edges().len() as u64
}

/// Sum over all pairs of the number of links on the shortest route.
fn links_of_routes(tables: &ForwardingTables) -> u64 {
    tables.shortest().into_iter().map(u64::from).sum()
}
