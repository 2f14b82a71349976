//! The verifier's findings by name: as JSON, and as a summary text.

use serde::Serialize;
use std::fmt;

/// Number of occurrences of a finding, with the first examples.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding<T> {
    /// The total number.
    pub count: u64,
    /// The first of them.
    pub examples: Vec<T>,
}

impl<T> Default for Finding<T> {
    fn default() -> Finding<T> {
        Finding { count: 0, examples: Vec::new() }
    }
}

impl<T> Finding<T> {
    /// Counts `weight`; keeps up to `most` examples.
    pub(super) fn add(&mut self, weight: u64, most: usize, example: impl FnOnce() -> T) {
        self.count += weight;
        if weight > 0 && self.examples.len() < most {
            self.examples.push(example());
        }
    }
}

/// A pair of hosts.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Pair {
    /// The sending host.
    pub from: String,
    /// The receiving host.
    pub to: String,
}

/// A route, by the names of its egress ports ("leaf0:eth3"), the sender's first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Route {
    /// The sending host.
    pub from: String,
    /// The receiving host.
    pub to: String,
    /// The VLAN.
    pub vlan: u16,
    /// The egress ports.
    pub ports: Vec<String>,
}

/// A buffer: the link from one switch to another in one lane.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Buffer {
    /// The transmitting port.
    pub port: String,
    /// The receiving switch.
    pub to: String,
    /// The lane.
    pub lane: u8,
}

/// Packets in `held` wait for room in `wanted`, as `witness` shows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CycleArc {
    /// The occupied buffer.
    pub held: Buffer,
    /// The awaited buffer, occupied in the next arc.
    pub wanted: Buffer,
    /// A route through both.
    pub witness: Route,
}

/// A VLAN whose packets change lane on their way.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LaneViolation {
    /// The VLAN.
    pub vlan: u16,
    /// All its lanes.
    pub lanes: Vec<u8>,
    /// The switches that send in another lane than the rest.
    pub switches: Vec<String>,
}

/// The rows of a switch.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SwitchRows {
    /// The switch.
    pub switch: String,
    /// One entry per VLAN and host.
    pub rows: u64,
}

/// Sizes of the tables.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TableSizes {
    /// The switch with the most rows.
    pub largest: Option<SwitchRows>,
    /// Mean number of rows per switch.
    pub rows_mean: f64,
    /// Maximum number of rows that a switch can hold, if given.
    pub budget: Option<u64>,
    /// Switches that need more rows.
    pub over_budget: Finding<SwitchRows>,
}

/// What fails, and the pairs that this disconnects while no new tables are computed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Failure {
    /// The switch, or the two ends of the link ("leaf0:eth4 - spine1:eth1").
    pub what: String,
    /// Ordered pairs of hosts that lose all routes.
    pub pairs_lost: u64,
    /// The first of these pairs.
    pub example: Pair,
}

/// All single failures of one kind.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Failures {
    /// Number of failures tried.
    pub tried: usize,
    /// Number of failures that disconnect no pair.
    pub harmless: usize,
    /// The sum of the pairs lost over all failures.
    pub pairs_lost: u64,
    /// The worst failures, by the number of pairs.
    pub worst: Vec<Failure>,
}

/// All single failures.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct WhatIf {
    /// Failures of links between switches. (The failure of a host's link always disconnects the host.)
    pub links: Failures,
    /// Failures of switches; hosts at the failed switch do not count.
    pub switches: Failures,
}

/// All findings of the verifier. Numbers of routes count (VLAN, sending host, receiving host).
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// Whether the buffers have a cyclic dependency.
    pub can_deadlock: bool,
    /// Switches.
    pub switches: usize,
    /// Hosts.
    pub hosts: usize,
    /// Links between switches.
    pub links: usize,
    /// VLANs.
    pub vlans: usize,
    /// Number of lanes: the highest one plus one.
    pub lanes: usize,
    /// Number of dependencies between buffers.
    pub dependencies: usize,
    /// Sizes of the strongly connected components that contain a cycle, largest first.
    pub cyclic_components: Vec<usize>,
    /// A cycle with the fewest buffers; empty without one.
    pub shortest_cycle: Vec<CycleArc>,
    /// Routes that reach their host.
    pub delivered: u64,
    /// Routes that loop.
    pub loops: Finding<Route>,
    /// Routes that end at a switch without a row, a failed link or another host. They are harmless if the sender can
    /// use another VLAN.
    pub black_holes: Finding<Route>,
    /// Pairs that no VLAN serves.
    pub unreachable: Finding<Pair>,
    /// VLANs that share a lane with another VLAN.
    pub lane_violations: Vec<LaneViolation>,
    /// Rows.
    pub tables: TableSizes,
    /// Failures, if requested.
    pub what_if: Option<WhatIf>,
}

impl Report {
    /// Whether the buffers have a cyclic dependency, which is necessary for a deadlock (Dally and Seitz 1987) but not
    /// sufficient.
    pub fn can_deadlock(&self) -> bool {
        self.can_deadlock
    }

    /// Whether nothing needs repair: no cycle, no loop, no pair without a route, every VLAN in one lane, every table
    /// within its budget.
    pub fn is_clean(&self) -> bool {
        !self.can_deadlock
            && self.loops.count == 0
            && self.unreachable.count == 0
            && self.lane_violations.is_empty()
            && self.tables.over_budget.count == 0
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {} in VLAN {} by {}", self.from, self.to, self.vlan, self.ports.join(", "))
    }
}

impl fmt::Display for CycleArc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CycleArc { held, wanted, witness } = self;
        let (held_lane, wanted_lane) = (held.lane, wanted.lane);
        write!(
            f,
            "{} (lane {held_lane}) waits for {} (lane {wanted_lane}): {witness}",
            held.port, wanted.port
        )
    }
}

impl fmt::Display for Report {
    /// A summary in a few lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { switches, hosts, links, vlans, lanes, dependencies, .. } = self;
        writeln!(f, "{switches} switches, {hosts} hosts, {links} links, {vlans} VLANs, {lanes} lanes")?;
        if self.can_deadlock {
            let components = self.cyclic_components.len();
            writeln!(f, "CAN DEADLOCK: {dependencies} dependencies, {components} cyclic components")?;
            writeln!(f, "a shortest cycle, {} buffers:", self.shortest_cycle.len())?;
            for arc in &self.shortest_cycle {
                writeln!(f, "  {arc}")?;
            }
        } else {
            writeln!(f, "cannot deadlock: {dependencies} dependencies, no cycle")?;
        }
        let Report { delivered, loops, black_holes, unreachable, .. } = self;
        let counts = [loops.count, black_holes.count];
        writeln!(f, "routes: {delivered} arrive, {} circle, {} are lost", counts[0], counts[1])?;
        for (what, routes) in [("circles", loops), ("is lost", black_holes)] {
            for route in routes.examples.iter().take(1) {
                writeln!(f, "  {what}: {route}")?;
            }
        }
        writeln!(f, "pairs that no VLAN serves: {}", unreachable.count)?;
        for Pair { from, to } in unreachable.examples.iter().take(1) {
            writeln!(f, "  {from} to {to}")?;
        }
        for violation in &self.lane_violations {
            writeln!(f, "VLAN {} has the lanes {:?}", violation.vlan, violation.lanes)?;
        }
        if let Some(SwitchRows { switch, rows }) = &self.tables.largest {
            write!(
                f,
                "rows of a switch: {:.1} on average, at most {rows} ({switch})",
                self.tables.rows_mean
            )?;
            let budget = self.tables.budget.map(|budget| {
                format!("; {budget} fit, {} switches need more", self.tables.over_budget.count)
            });
            writeln!(f, "{}", budget.unwrap_or_default())?;
        }
        let Some(what_if) = &self.what_if else { return Ok(()) };
        for (what, failures) in [("link", &what_if.links), ("switch", &what_if.switches)] {
            let Failures { tried, harmless, .. } = failures;
            writeln!(f, "one {what} down: {harmless} of {tried} cost no pair its last route")?;
            for Failure { what, pairs_lost, .. } in failures.worst.iter().take(1) {
                writeln!(f, "  worst: {what}, {pairs_lost} pairs")?;
            }
        }
        Ok(())
    }
}
