//! The report of the verifier, with names: as JSON, and as a summary for people.

use pauseframe_units::counted;
use serde::Serialize;
use std::fmt;

/// The number of occurrences of a finding, with the first examples.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding<T> {
    /// Number of occurrences.
    pub count: u64,
    /// The first occurrences.
    pub examples: Vec<T>,
}

impl<T> Default for Finding<T> {
    fn default() -> Finding<T> {
        Finding { count: 0, examples: Vec::new() }
    }
}

impl<T> Finding<T> {
    /// Adds `weight` occurrences; stores the example if there are fewer than `most` examples.
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

/// A route as a list of egress ports by name ("leaf0:eth3"), beginning with the sender's port.
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

/// A buffer, which holds the packets of one lane that one switch receives from another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Buffer {
    /// The transmitting port.
    pub port: String,
    /// The receiving switch.
    pub to: String,
    /// The lane.
    pub lane: u8,
}

/// An arc of a cycle: packets in `held` wait for space in `wanted`, as the route `witness` shows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct CycleArc {
    /// The buffer that the packets occupy.
    pub held: Buffer,
    /// The buffer that the packets wait for; the next arc of the cycle holds it.
    pub wanted: Buffer,
    /// A route that uses both buffers.
    pub witness: Route,
}

/// A VLAN whose packets change lane on the way.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct LaneViolation {
    /// The VLAN.
    pub vlan: u16,
    /// All lanes of the VLAN.
    pub lanes: Vec<u8>,
    /// The switches whose lane differs from the lane of most switches.
    pub switches: Vec<String>,
}

/// The size of a switch's forwarding table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SwitchRows {
    /// The switch.
    pub switch: String,
    /// Number of table rows, one for each VLAN and host.
    pub rows: u64,
}

/// The sizes of all forwarding tables.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct TableSizes {
    /// The switch with the largest table.
    pub largest: Option<SwitchRows>,
    /// Mean number of table rows over all switches.
    pub rows_mean: f64,
    /// The maximum number of table rows that a switch can hold, if given.
    pub budget: Option<u64>,
    /// Switches that need more table rows.
    pub over_budget: Finding<SwitchRows>,
}

/// A failure and its effect while nobody recomputes the tables.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Failure {
    /// The switch, or the two ends of the link ("leaf0:eth4 - spine1:eth1").
    pub what: String,
    /// Number of ordered pairs of hosts that lose all routes.
    pub pairs_lost: u64,
    /// The first pair of hosts that loses all routes.
    pub example: Pair,
}

/// All single failures of links, or of switches.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Failures {
    /// Number of failures examined.
    pub tried: usize,
    /// Number of failures that remove the last route of no pair.
    pub harmless: usize,
    /// Number of pairs lost, summed over all failures.
    pub pairs_lost: u64,
    /// The worst failures, sorted by the number of lost pairs.
    pub worst: Vec<Failure>,
}

/// The effects of every single failure.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct WhatIf {
    /// Failures of links between switches. (A failure of a host's link always disconnects the host.)
    pub links: Failures,
    /// Failures of switches; the hosts at the failed switch do not count.
    pub switches: Failures,
}

/// A plane of a fabric: switches that links join, without those of other planes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Plane {
    /// The name of the plane's first switch.
    pub first_switch: String,
    /// Number of switches.
    pub switches: usize,
    /// Number of ports of hosts in the plane.
    pub ports: usize,
    /// The VLANs with rows in the plane.
    pub vlans: Vec<u16>,
    /// Number of dependencies between buffers of the plane.
    pub dependencies: usize,
    /// Number of strongly connected components that contain a cycle.
    pub cyclic_components: usize,
}

/// All findings of the verifier. Routes are counted as (VLAN, sending host, receiving host).
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Report {
    /// True if the buffers have a cyclic dependency.
    pub can_deadlock: bool,
    /// Number of switches.
    pub switches: usize,
    /// Number of hosts.
    pub hosts: usize,
    /// Number of links between switches.
    pub links: usize,
    /// Number of VLANs.
    pub vlans: usize,
    /// Number of lanes: the highest lane plus one.
    pub lanes: usize,
    /// The planes of a fabric of several; empty otherwise.
    pub planes: Vec<Plane>,
    /// Number of dependencies between buffers.
    pub dependencies: usize,
    /// The sizes of the strongly connected components that contain a cycle, largest first.
    pub cyclic_components: Vec<usize>,
    /// A cycle with the fewest buffers; empty if there is no cycle.
    pub shortest_cycle: Vec<CycleArc>,
    /// Number of routes whose packets arrive.
    pub delivered: u64,
    /// Routes that loop.
    pub loops: Finding<Route>,
    /// Routes that end at a switch without a table row, at a failed link or at another host. A black hole is
    /// harmless if the sender may use another VLAN.
    pub black_holes: Finding<Route>,
    /// Pairs that no VLAN serves.
    pub unreachable: Finding<Pair>,
    /// VLANs whose packets change lane.
    pub lane_violations: Vec<LaneViolation>,
    /// The sizes of the tables.
    pub tables: TableSizes,
    /// The effects of failures, if requested.
    pub what_if: Option<WhatIf>,
}

impl Report {
    /// True if the buffers have a cyclic dependency: necessary for a deadlock (Dally and Seitz 1987), not
    /// sufficient.
    pub fn can_deadlock(&self) -> bool {
        self.can_deadlock
    }

    /// True if nothing needs repair: no cycle, no loop, no pair without a route, every VLAN in one lane,
    /// every table within its budget.
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

impl fmt::Display for Plane {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plane { first_switch, switches, ports, vlans, dependencies, cyclic_components } = self;
        let numbers = match vlans.as_slice() {
            [] => "none".to_owned(),
            [first, .., last] if usize::from(last - first) + 1 == vlans.len() => format!("{first} to {last}"),
            vlans => vlans.iter().map(u16::to_string).collect::<Vec<_>>().join(", "),
        };
        let verdict = match cyclic_components {
            0 => "cannot deadlock".to_owned(),
            count => format!("CAN DEADLOCK, {}", counted(*count, "cyclic component")),
        };
        write!(
            f,
            "{} from {first_switch} on, {} of hosts, VLANs {numbers}: {verdict}, {}",
            counted(*switches, "switch"),
            counted(*ports, "port"),
            counted(*dependencies, "dependency")
        )
    }
}

impl fmt::Display for Report {
    /// Formats a summary of a few lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { switches, hosts, links, vlans, lanes, dependencies, .. } = self;
        let parts = [
            counted(*switches, "switch"),
            counted(*hosts, "host"),
            counted(*links, "link"),
            counted(*vlans, "VLAN"),
            counted(*lanes, "lane"),
        ];
        writeln!(f, "{}", parts.join(", "))?;
        let dependencies = counted(*dependencies, "dependency");
        if self.can_deadlock {
            let components = counted(self.cyclic_components.len(), "cyclic component");
            writeln!(f, "CAN DEADLOCK: {dependencies}, {components}")?;
            writeln!(f, "a shortest cycle, {}:", counted(self.shortest_cycle.len(), "buffer"))?;
            for arc in &self.shortest_cycle {
                writeln!(f, "  {arc}")?;
            }
        } else {
            writeln!(f, "cannot deadlock: {dependencies}, no cycle")?;
        }
        for (number, plane) in self.planes.iter().enumerate() {
            writeln!(f, "plane {number}: {plane}")?;
        }
        let Report { delivered, loops, black_holes, unreachable, .. } = self;
        let counts = [loops.count, black_holes.count];
        let served = counts.iter().sum::<u64>() > 0 && unreachable.count == 0;
        let served = if served { "; another VLAN serves their pairs" } else { "" };
        writeln!(f, "routes: {delivered} arrive, {} circle, {} are lost{served}", counts[0], counts[1])?;
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
                "rows of a switch: {} on average, at most {rows} ({switch})",
                (self.tables.rows_mean * 10.0).round() / 10.0
            )?;
            let budget = self.tables.budget.map(|budget| {
                format!("; {budget} fit, too few for {}", counted(self.tables.over_budget.count, "switch"))
            });
            writeln!(f, "{}", budget.unwrap_or_default())?;
        }
        let Some(what_if) = &self.what_if else { return Ok(()) };
        // The hosts of a failed switch have no other one.
        let of_others = " of other hosts";
        for (what, failures, whose) in
            [("link", &what_if.links, ""), ("switch", &what_if.switches, of_others)]
        {
            let Failures { tried, harmless, .. } = failures;
            writeln!(f, "one {what} down: {harmless} of {tried} cost no pair{whose} its last route")?;
            for Failure { what, pairs_lost, .. } in failures.worst.iter().take(1) {
                writeln!(f, "  worst: {what}, {}", counted(*pairs_lost, "pair"))?;
            }
        }
        Ok(())
    }
}
