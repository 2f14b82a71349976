//! Plans backup VLANs, so that no single failure removes the last route of a pair of hosts.
//!
//! Balanced shortest trees alone do not protect all pairs: two neighbours use the link between them in every
//! VLAN. So after the other VLANs are planned, each destination has a list of cuts: the failures that all
//! routes from some switch to the destination share. A backup VLAN grows its tree to the destination without
//! a random half of the links on this list. Cuts that the tree repairs leave the list, and the next backup
//! VLAN continues with the rest. The trees obey the turn rules of the lanes, so the deadlock proof stays
//! valid. For cuts that the turn rules leave, the last VLANs hold single routes whose turns close no cycle
//! with the turns in use ([`super::used_turns`]). Only bridges of the graph, and routes that fit into no
//! lane, stay on the list.

use super::budget::Ledger;
use super::cdg::Turns;
use super::used_turns::UsedTurns;
use super::{ForwardingTables, RoutingError, bound_rows};
use pauseframe_topology::SwitchGraph;
use pauseframe_units::{LinkId, PortId};
use rand::RngExt;
use rand_pcg::Pcg64;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::str::FromStr;

/// The failures that must not remove the last route of a pair; one failure at a time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Protect {
    /// Any link between switches.
    #[default]
    Link,
    /// Any link between switches, and any switch on the route.
    Switch,
    /// Any link between switches, and any of these groups of links with a common risk (a conduit, a line
    /// card).
    Groups(Vec<Vec<LinkId>>),
    /// Any two links between switches.
    TwoLinks,
}

impl FromStr for Protect {
    type Err = String;
    fn from_str(text: &str) -> Result<Protect, String> {
        match text {
            "link" => Ok(Protect::Link),
            "switch" => Ok(Protect::Switch),
            "two_links" => Ok(Protect::TwoLinks),
            _ => Err(format!("nothing is protected against {text:?}: use link, switch or two_links")),
        }
    }
}

/// One failure, or two simultaneous failures.
type Cut = [u32; 2];
const NONE: u32 = u32::MAX;

/// The failures that disconnect pairs, by destination and then by source; both are indices of switches with
/// hosts.
pub(crate) struct Cuts {
    /// For each directed link, the failures that interrupt it: its own link, the switch at its end, its
    /// groups.
    units: Vec<Vec<u32>>,
    /// For each failure, the directed links that it interrupts.
    taken: Vec<Vec<PortId>>,
    /// The failure of switch 0; the failures of other switches follow.
    first_switch: u32,
    by_row: Vec<BTreeMap<u32, Vec<Cut>>>,
    /// Number of destinations that were examined, counted from the first.
    known: usize,
}

/// Maximum number of stored cuts: on a large ring, where routes are long and have no alternative, the number
/// of cuts explodes.
const CUTS_MAX: usize = 1 << 23;
/// Number of budget steps per failure on a route.
const STEPS_A_FAILURE: u64 = 5;
/// Number of budget steps to find the turns of a row.
const STEPS_A_TURN: u64 = 20;

impl Cuts {
    /// Finds the cuts of the first `vlans` VLANs of `tables`, until the budget reaches `end`.
    ///
    /// # Errors
    /// [`RoutingError::Stopped`].
    pub(crate) fn of(
        tables: &ForwardingTables,
        vlans: usize,
        protect: &Protect,
        ledger: &mut Ledger,
        end: u64,
    ) -> Result<Cuts, RoutingError> {
        let graph = tables.graph();
        let rows = graph.attachments().len();
        let units = units(graph, protect);
        let highest = units.iter().flatten().max().map_or(0, |unit| *unit as usize + 1);
        let mut taken = vec![Vec::new(); highest];
        for (port, units) in units.iter().enumerate() {
            for unit in units {
                taken[*unit as usize].push(PortId(port as u32));
            }
        }
        let first_switch = graph.port_count() as u32 / 2;
        let mut cuts = Cuts { units, taken, first_switch, by_row: vec![BTreeMap::new(); rows], known: 0 };
        let (mut marks, mut kept, mut followed) = (Marks::new(highest), 0, 0);
        for row in 0..rows as u32 {
            ledger.step("looking for single points of failure", u64::from(row), rows as u64)?;
            if !ledger.goes_on(end) || kept > CUTS_MAX {
                break;
            }
            for from in (0..rows as u32).filter(|from| *from != row) {
                let found = if *protect == Protect::TwoLinks {
                    cuts.of_two(tables, vlans, [from, row], &mut followed)
                } else {
                    cuts.of_one(tables, vlans, [from, row], &mut marks, &mut followed)
                };
                if !found.is_empty() {
                    kept += found.len();
                    cuts.by_row[row as usize].insert(from, found);
                }
            }
            ledger.spend(std::mem::take(&mut followed) * STEPS_A_FAILURE);
            cuts.known += 1;
        }
        Ok(cuts)
    }

    /// The failures that interrupt all routes of a pair.
    fn of_one(
        &self,
        tables: &ForwardingTables,
        vlans: usize,
        [from, to]: [u32; 2],
        marks: &mut Marks,
        followed: &mut u64,
    ) -> Vec<Cut> {
        let (mut common, mut route): (Option<Vec<u32>>, Vec<u32>) = (None, Vec::new());
        for vlan in 0..vlans {
            let arrives = self.follow(tables, vlan, from, to, &mut route);
            *followed += 4 + route.len() as u64;
            match &mut common {
                _ if !arrives => {}
                None => common = Some(route.clone()),
                Some(common) => {
                    marks.renew(&route);
                    common.retain(|unit| marks.has(*unit));
                    if common.is_empty() {
                        break;
                    }
                }
            }
        }
        common.unwrap_or_default().into_iter().map(|unit| [unit, NONE]).collect()
    }

    /// The failures, and pairs of failures, that interrupt all routes of a pair.
    fn of_two(
        &self,
        tables: &ForwardingTables,
        vlans: usize,
        [from, to]: [u32; 2],
        followed: &mut u64,
    ) -> Vec<Cut> {
        let mut routes: Vec<Vec<u32>> = Vec::new();
        for vlan in 0..vlans {
            let mut route = Vec::new();
            if self.follow(tables, vlan, from, to, &mut route) {
                routes.push(route);
            }
        }
        let all: usize = routes.iter().map(Vec::len).sum();
        *followed += 4 + (all * routes.first().map_or(0, Vec::len)) as u64;
        pairs_of_failures(&routes)
    }

    /// Number of destinations that were not examined.
    pub(crate) fn unknown(&self) -> usize {
        self.by_row.len() - self.known
    }

    /// True if no failure disconnects a pair.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_row.iter().all(BTreeMap::is_empty)
    }

    /// The sources that a failure disconnects from a destination, each with the failures.
    pub(crate) fn at(&self, row: u32) -> impl Iterator<Item = (u32, BTreeSet<u32>)> {
        let units = |cuts: &Vec<Cut>| cuts.iter().flatten().copied().filter(|unit| *unit != NONE).collect();
        self.by_row[row as usize].iter().map(move |(from, cuts)| (*from, units(cuts)))
    }

    /// True if one of these failures interrupts a directed link.
    pub(crate) fn hits(&self, units: &BTreeSet<u32>, port: PortId, to: u32) -> bool {
        self.units[port.0 as usize].iter().any(|unit| *unit != self.first_switch + to && units.contains(unit))
    }

    /// Marks the ports that the next tree to a destination avoids: the ports that the cuts interrupt. Of the
    /// failures in the cuts, a random half counts if `half` is set or if the cuts contain more than half of
    /// the destination's own links.
    pub(crate) fn avoid(
        &self,
        graph: &SwitchGraph,
        row: u32,
        half: bool,
        rng: &mut Pcg64,
        avoided: &mut [bool],
    ) {
        avoided.fill(false);
        let cuts = &self.by_row[row as usize];
        if cuts.is_empty() {
            return;
        }
        let mut cut: Vec<u32> =
            cuts.values().flatten().flatten().copied().filter(|unit| *unit != NONE).collect();
        cut.sort_unstable();
        cut.dedup();
        let arcs = graph.arcs(graph.attachments()[row as usize]);
        let own = arcs.iter().filter(|arc| cut.binary_search(&arc.port.link().0).is_ok()).count();
        let half = half || own * 2 > arcs.len();
        let chosen: Vec<u32> = cut.into_iter().filter(|_| !half || rng.random()).collect();
        for port in chosen.iter().flat_map(|unit| &self.taken[*unit as usize]) {
            avoided[port.0 as usize] = true;
        }
        // A route to the destination switch cannot avoid the failure of that switch.
        let to = graph.attachments()[row as usize];
        let is_chosen = |unit: u32| chosen.binary_search(&unit).is_ok();
        if is_chosen(self.first_switch + to) {
            for arc in graph.arcs(to) {
                avoided[arc.port.reverse().0 as usize] = is_chosen(arc.port.link().0);
            }
        }
    }

    /// True if a failure disconnects a pair with this destination.
    pub(crate) fn any(&self, row: u32) -> bool {
        !self.by_row[row as usize].is_empty()
    }

    /// Removes the cuts that the tree of `vlan` to edge switch `row` repairs.
    pub(crate) fn mend(&mut self, tables: &ForwardingTables, vlan: usize, row: u32) {
        let mut route = Vec::new();
        let mut cuts = std::mem::take(&mut self.by_row[row as usize]);
        cuts.retain(|from, cuts| {
            if self.follow(tables, vlan, *from, row, &mut route) {
                cuts.retain(|cut| cut.iter().any(|unit| route.contains(unit)));
            }
            !cuts.is_empty()
        });
        self.by_row[row as usize] = cuts;
    }

    /// Collects the failures that interrupt the route between two switches; returns false if there is no
    /// route.
    fn follow(
        &self,
        tables: &ForwardingTables,
        vlan: usize,
        from: u32,
        to: u32,
        route: &mut Vec<u32>,
    ) -> bool {
        let graph = tables.graph();
        let tree = tables.tree(vlan, to);
        let [mut at, target] = [from, to].map(|row| graph.attachments()[row as usize]);
        route.clear();
        let mut links = 0;
        while at != target {
            let port = tree[at as usize];
            let Some(next) = (port != PortId::NONE).then(|| graph.head(port)).flatten() else { return false };
            let own = self.first_switch + target;
            route.extend(self.units[port.0 as usize].iter().filter(|unit| **unit != own));
            (at, links) = (next, links + 1);
            if links > graph.len() {
                return false;
            }
        }
        true
    }
}

/// Fills empty VLANs with single routes for the pairs that a failure still disconnects. A route is added only
/// if it closes no cycle with the turns in use in the lane.
///
/// # Errors
/// [`RoutingError::Stopped`], or if there are too many turns to store.
pub(crate) fn add_detours(
    tables: &mut ForwardingTables,
    cuts: &mut Cuts,
    vlans: Range<usize>,
    ledger: &mut Ledger,
    end: u64,
) -> Result<(), RoutingError> {
    if cuts.is_empty() || vlans.is_empty() || !ledger.goes_on(end) {
        return Ok(());
    }
    let graph = tables.graph().clone();
    let mut lanes = used_turns(tables, ledger)?;
    let rows = graph.attachments().len() as u32;
    for vlan in vlans {
        let Some(Some(turns)) = lanes.get_mut(usize::from(tables.lane(vlan))) else { continue };
        for row in (0..rows).filter(|row| cuts.any(*row)).collect::<Vec<_>>() {
            ledger.step("looking for detours", u64::from(row), u64::from(rows))?;
            let to = graph.attachments()[row as usize];
            for (from, units) in cuts.at(row).collect::<Vec<_>>() {
                let ends = [graph.attachments()[from as usize], to];
                let may_use = |port: PortId| !cuts.hits(&units, port, to);
                if !ledger.goes_on(end) {
                    break;
                }
                turns.add_route(&graph, tables.tree_mut(vlan, row), ends, may_use);
                ledger.spend(turns.take_steps());
            }
            if !ledger.goes_on(end) {
                return Ok(());
            }
            cuts.mend(tables, vlan, row);
        }
    }
    Ok(())
}

/// Adds routes to `vlans` for these pairs (source, destination) of edge switches, for which the turn rules
/// allow no route. A route is added only if its turns close no cycle with the turns in use.
///
/// # Errors
/// If there are too many turns to store.
pub(crate) fn add_missing(
    tables: &mut ForwardingTables,
    pairs: &[(u32, u32)],
    vlans: Range<usize>,
    ledger: &mut Ledger,
    end: u64,
) -> Result<(), RoutingError> {
    let graph = tables.graph().clone();
    let mut lanes = used_turns(tables, ledger)?;
    for vlan in vlans {
        let Some(Some(turns)) = lanes.get_mut(usize::from(tables.lane(vlan))) else { continue };
        for (from, to) in pairs {
            let ends = [from, to].map(|row| graph.attachments()[*row as usize]);
            if !ledger.may(end) {
                return Ok(());
            }
            turns.add_route(&graph, tables.tree_mut(vlan, *to), ends, |_| true);
            ledger.spend(turns.take_steps());
        }
    }
    Ok(())
}

/// The turns that the routes of each lane take; none for a lane whose turns contain a cycle.
///
/// # Errors
/// If there are too many turns to store.
pub(crate) fn used_turns(
    tables: &ForwardingTables,
    ledger: &mut Ledger,
) -> Result<Vec<Option<UsedTurns>>, RoutingError> {
    let rows = tables.vlans() * tables.graph().attachments().len() * tables.graph().len();
    ledger.spend(rows as u64 * STEPS_A_TURN);
    let (graph, turns) = (tables.graph(), Turns::of(tables.graph()));
    bound_rows(&[turns.count(), tables.lanes()])?;
    let mut known = vec![vec![false; turns.count()]; tables.lanes()];
    let mut found: Vec<Vec<(PortId, PortId)>> = vec![Vec::new(); tables.lanes()];
    for vlan in 0..tables.vlans() {
        let lane = usize::from(tables.lane(vlan));
        for row in 0..graph.attachments().len() as u32 {
            let tree = tables.tree(vlan, row);
            let mut seen = vec![false; graph.len()];
            for start in graph.attachments() {
                let (mut at, mut held) = (*start, PortId::NONE);
                while tree[at as usize] != PortId::NONE {
                    let wanted = tree[at as usize];
                    if held != PortId::NONE {
                        let turn = turns.number(graph, at, held, wanted);
                        if !std::mem::replace(&mut known[lane][turn], true) {
                            found[lane].push((held, wanted));
                        }
                    }
                    if std::mem::replace(&mut seen[at as usize], true) {
                        break;
                    }
                    let Some(next) = graph.head(wanted) else { break };
                    (held, at) = (wanted, next);
                }
            }
        }
    }
    let of_lane = |mut turns: Vec<_>| {
        turns.sort_unstable();
        UsedTurns::of(graph.port_count(), turns.into_iter())
    };
    Ok(found.into_iter().map(of_lane).collect())
}

fn units(graph: &SwitchGraph, protect: &Protect) -> Vec<Vec<u32>> {
    let links = graph.port_count() as u32 / 2;
    let mut units: Vec<Vec<u32>> =
        (0..graph.port_count() as u32).map(|port| vec![PortId(port).link().0]).collect();
    match protect {
        Protect::Link | Protect::TwoLinks => {}
        Protect::Switch => {
            for (port, units) in units.iter_mut().enumerate() {
                units.extend(graph.head(PortId(port as u32)).map(|switch| links + switch));
            }
        }
        Protect::Groups(groups) => {
            for (group, members) in groups.iter().enumerate() {
                for link in members {
                    for end in 0..2 {
                        units[PortId::of_link(*link, end).0 as usize].push(links + group as u32);
                    }
                }
            }
        }
    }
    units
}

/// A set of numbers for fast membership tests.
struct Marks {
    of: Vec<u32>,
    list: u32,
}

impl Marks {
    fn new(numbers: usize) -> Marks {
        Marks { of: vec![0; numbers], list: 0 }
    }

    /// Replaces the set by the numbers of this list.
    fn renew(&mut self, list: &[u32]) {
        self.list = self.list.checked_add(1).unwrap_or_else(|| {
            self.of.fill(0);
            1
        });
        for number in list {
            self.of[*number as usize] = self.list;
        }
    }

    fn has(&self, number: u32) -> bool {
        self.of[number as usize] == self.list
    }
}

/// The failures that all routes share, and the pairs of failures that together interrupt all routes.
fn pairs_of_failures(routes: &[Vec<u32>]) -> Vec<Cut> {
    let Some((first, rest)) = routes.split_first() else { return Vec::new() };
    let mut found = Vec::new();
    for unit in first {
        let left: Vec<&Vec<u32>> = rest.iter().filter(|route| !route.contains(unit)).collect();
        match left.split_first() {
            None => found.push([*unit, NONE]),
            Some((next, rest)) => {
                let others = next.iter().filter(|other| rest.iter().all(|route| route.contains(other)));
                found.extend(others.map(|other| [*unit, *other]));
            }
        }
    }
    found
}

/// Checks that every group names only links of the graph.
pub(crate) fn check(protect: &Protect, graph: &SwitchGraph) -> Result<(), RoutingError> {
    let Protect::Groups(groups) = protect else { return Ok(()) };
    let links = graph.port_count() / 2;
    match groups.iter().flatten().find(|link| link.0 as usize >= links) {
        None => Ok(()),
        Some(link) => Err(RoutingError::Parameter {
            parameter: "groups",
            value: link.0 as usize,
            allowed: "it must be the number of a link".to_owned(),
        }),
    }
}
