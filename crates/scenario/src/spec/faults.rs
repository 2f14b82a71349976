//! `[[failure]]`, `[[corruption]]` and `[[pause_storm]]`: failures, bad links, and unsolicited pauses.

use super::lookup::{NAMED_MAX, between, no_such_node, ports_at, ports_of};
use super::stop::Stop;
use pauseframe_fabric::{FailedElement, ObeyedPausePriorities, PfcSettings, all_ports, matching_ports};
use pauseframe_schema::bounds::{Above, Each};
use pauseframe_schema::ledger::Ledger;
use pauseframe_schema::reader::Table;
use pauseframe_schema::table;
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_units::{Bytes, PortId, Priority, Span};

/// Latest time of a failure: a day, as for workloads.
const TIME_MAX: Span = Span::from_secs(86_400);

table! {
    /// The links between two nodes, the link at a `port`, or a whole `node`, from `down` to `up`
    pub struct FailureSpec {
        /// The two nodes of the links that fail
        link: Option<[String; 2]> = optional("one of link, port and node is required");
        /// A port of the one link that fails ("leaf0:3")
        port: Option<String> = optional("one of link, port and node is required");
        /// The node that fails, with all its links
        node: Option<String> = optional("one of link, port and node is required");
        /// Time of the failure
        down: Span = required_in(Span::ZERO..=TIME_MAX);
        /// Time of the repair
        up: Option<Span> = optional_in(Span(1)..=TIME_MAX, "never") => {
            one_of(t, ["link", "port", "node"]);
            if let (Some(down), Some(up)) = (down, up) {
                t.check(up > down, "up", || format!("{up} is not after down ({down})"), "choose a later time, or remove it");
            }
        };
        /// The links keep their carrier and damage every frame: routing does not notice, and hosts with several ports by LACP only
        silent: bool = or(false);
    }
    pub fn try_read(t);
}

/// Checks that exactly one of three keys is given.
fn one_of(t: &mut Table, keys: [&'static str; 3]) {
    let given: Vec<&str> = keys.into_iter().filter(|key| t.has(key)).collect();
    let [one, other, last] = keys;
    match given[..] {
        [] if !t.is_documenting() => {
            t.check(
                false,
                "",
                || format!("one of {one}, {other} and {last} is required"),
                &format!("add {one}, {other} or {last}"),
            );
        }
        [first, .., second] => {
            t.check(
                false,
                second,
                || format!("{first} is given too"),
                &format!("leave one of {} out", given.join(" and ")),
            );
        }
        _ => {}
    }
}

impl FailureSpec {
    /// The key that names what fails.
    fn key(&self) -> &'static str {
        let keys =
            [("link", self.link.is_some()), ("port", self.port.is_some()), ("node", self.node.is_some())];
        keys.into_iter().find(|(_, is_given)| *is_given).map_or("", |(key, _)| key)
    }

    /// The failing node or links of the graph. The error is a message and a hint.
    pub(crate) fn links(&self, graph: &Topology) -> Result<Vec<FailedElement>, (String, String)> {
        let node = |name: &str| graph.find(name).ok_or_else(|| no_such_node(graph, name));
        if let Some(name) = &self.node {
            let node = node(name)?;
            if graph.nodes()[node].kind == NodeKind::Switch {
                return Ok(vec![FailedElement::Node(node)]);
            }
            return Ok(ports_at(graph, node)
                .into_iter()
                .map(|port| FailedElement::Link(port.link()))
                .collect());
        }
        if let Some([a, b]) = &self.link {
            let links = between(graph, node(a)?, node(b)?);
            if links.is_empty() {
                return Err((format!("there is no link between {a:?} and {b:?}"), neighbours_of(graph, a)));
            }
            return Ok(links.into_iter().map(FailedElement::Link).collect());
        }
        let name = self.port.as_deref().unwrap_or("");
        let found = all_ports(graph)
            .find(|port| graph.port_name(*port) == name || graph.numbered_port_name(*port) == name);
        let complaint = || (format!("there is no port {name:?}"), ports_of_node_named(graph, name));
        Ok(vec![FailedElement::Link(found.ok_or_else(complaint)?.link())])
    }
}

/// The nodes at the other ends of a node's links, as a hint.
fn neighbours_of(graph: &Topology, name: &str) -> String {
    let Some(node) = graph.find(name) else { return String::new() };
    let far = |port: &PortId| graph.nodes()[graph.host_of(graph.peer(*port))].name.clone();
    let mut names: Vec<String> = ports_at(graph, node).iter().map(far).collect();
    names.dedup();
    let more = if names.len() > NAMED_MAX { ", ..." } else { "" };
    names.truncate(NAMED_MAX);
    format!("{name} has links to {}{more}", names.join(", "))
}

/// The ports of the node that a wrong name of a port begins with.
fn ports_of_node_named(graph: &Topology, name: &str) -> String {
    let node = graph.find(name.split(':').next().unwrap_or_default());
    let Some(node) = node.filter(|node| graph.nodes()[*node].kind != NodeKind::Switch || name.contains(':'))
    else {
        return "ports are NODE:NUMBER".to_owned();
    };
    let own: Vec<String> =
        ports_at(graph, node).into_iter().take(NAMED_MAX).map(|port| graph.port_name(port)).collect();
    format!("the ports there are {}", own.join(", "))
}

table! {
    /// Loss of what these ports send: a bit error ratio `ber`, a frame error ratio `fer`, or an `mtu` that is too small
    pub struct CorruptionSpec {
        /// Globs over port names ("leaf0:*") whose frames are lost
        ports: Vec<String> = required();
        /// Bit error ratio
        ber: Option<f64> = optional_in(0.0..=1.0, "one of ber, fer and mtu is required");
        /// Frame error ratio
        fer: Option<f64> = optional_in(0.0..=1.0, "one of ber, fer and mtu is required");
        /// Largest IP packet: larger ones are lost, as at a port with this MTU
        mtu: Option<Bytes> = optional_in(Bytes(68)..=Bytes(65_535), "one of ber, fer and mtu is required") => {
            one_of(t, ["ber", "fer", "mtu"]);
        };
        /// Time at which the corruption begins
        start: Span = or_in(Span::ZERO, Span::ZERO..=TIME_MAX);
        /// Time at which the corruption ends
        stop: Option<Span> = optional_in(Span(1)..=TIME_MAX, "never") => {
            let message = || format!("{} is not after start ({start})", stop.unwrap_or_default());
            t.check(stop.is_none_or(|stop| stop > start), "stop", message, "choose a later time, or remove it");
        };
    }
    pub fn try_read(t);
}

table! {
    /// Pause frames that hosts or ports send although nothing asks for them, as a broken NIC does
    pub struct PauseStormSpec {
        /// Globs over nodes ("host1": all ports) or ports ("leaf0:3") that send
        senders: Vec<String> = required();
        /// Priorities, each with its own frames
        priorities: Option<Vec<Priority>> = optional_in(Each(Priority::ALL), "the lossless ones (switch.pfc.priorities)");
        /// Pause frames per second and priority
        frames_per_second: Option<f64> =
            optional_in(Above(0.0, 1e9, ""), "one per half of the pause time, which keeps the pause up");
        /// Pause time of a frame in quanta of 512 bit times; 0 resumes (XON)
        #[source = "IEEE 802.1Qbb"]
        quanta: u16 = or_in(u16::MAX, 0..=u16::MAX) => {
            let message = || "0 (XON) says no rate by itself".to_owned();
            t.check(quanta > 0 || frames_per_second.is_some(), "quanta", message, "give frames_per_second");
        };
        /// Time of the first frame
        start: Span = or_in(Span::ZERO, Span::ZERO..=TIME_MAX);
        /// No frame is sent from this time on
        stop: Option<Span> = optional_in(Span(1)..=TIME_MAX, "the end of the run (stop.time)") => {
            let message = || format!("{} is not after start ({start})", stop.unwrap_or_default());
            t.check(stop.is_none_or(|stop| stop > start), "stop", message, "choose a later time, or remove it");
        };
    }
    pub fn try_read(t);
}

impl PauseStormSpec {
    /// The ports that send.
    pub(crate) fn ports(&self, graph: &Topology) -> Vec<PortId> {
        ports_of(&self.senders, graph)
    }

    /// The priorities of its frames.
    pub(crate) fn priorities<'a>(&'a self, pfc: &'a PfcSettings) -> &'a [Priority] {
        self.priorities.as_deref().unwrap_or(&pfc.priorities)
    }
}

pub(crate) fn pause_storms(t: &mut Table) -> Vec<PauseStormSpec> {
    let doc =
        "Storms of pause frames: each with senders, and priorities, frames_per_second, quanta, start, stop";
    t.rows("pause_storm", "none", doc, PauseStormSpec::read).unwrap_or_default()
}

/// Storms have senders, an end, and a receiver that obeys them.
pub(crate) fn check_pauses(
    ledger: &mut Ledger,
    graph: &Topology,
    storms: &[PauseStormSpec],
    pfc: Option<&PfcSettings>,
    stop: &Stop,
) {
    for (index, storm) in storms.iter().enumerate() {
        let path = format!("pause_storm.{index}");
        if storm.ports(graph).is_empty() {
            let message = format!("no node or port is called {}", storm.senders.join(" or "));
            let hint = "name hosts or switches, or ports as NODE:NUMBER, as in leaf0:*";
            ledger.problem(&format!("{path}.senders"), message, hint);
        }
        if storm.stop.is_none() && stop.time.is_none() {
            let message = "is required: without stop.time the storm never ends";
            ledger.problem(&format!("{path}.stop"), message, "");
        }
        if stop.time.is_some_and(|end| storm.start >= end) {
            ledger.warn(format!(
                "{path}.start: {} is after the end of the run; lower it, or raise stop",
                storm.start
            ));
        }
        let Some(pfc) = pfc else {
            ledger.problem(&path, "nothing obeys pause frames: switch.pfc is off", "add [switch.pfc]");
            continue;
        };
        if pfc.whole_link && storm.priorities.is_some() {
            ledger.warn(format!(
                "{path}.priorities: with switch.pfc.whole_link a pause stops all priorities, so it changes nothing"
            ));
        }
        let obeys_all = pfc.ports.iter().any(|row| row.obeys == Some(ObeyedPausePriorities::All));
        let lossy = storm.priorities(pfc).iter().find(|priority| !pfc.priorities.contains(priority));
        if let Some(priority) = lossy.filter(|_| !obeys_all && !pfc.whole_link) {
            ledger.warn(format!(
                "{path}: priority {priority} is not lossless (switch.pfc.priorities), so no port obeys pause frames for it"
            ));
        }
    }
}

/// Warns of storms in lossless priorities in which nothing is sent (`carried`: the priorities in use, if known).
pub(crate) fn check_carried(
    ledger: &mut Ledger,
    storms: &[PauseStormSpec],
    pfc: Option<&PfcSettings>,
    carried: Option<&[Priority]>,
) {
    let (Some(pfc), Some(carried)) = (pfc.filter(|pfc| !pfc.whole_link), carried) else { return };
    for (index, storm) in storms.iter().enumerate() {
        let all = storm.priorities(pfc);
        let idle = |priority: &&Priority| pfc.priorities.contains(priority) && !carried.contains(priority);
        let unused: Vec<String> = all.iter().filter(idle).map(ToString::to_string).collect();
        // By default a storm has all lossless priorities, of which some may be idle.
        let is_meant = storm.priorities.is_some() || unused.len() == all.len();
        if is_meant && !unused.is_empty() {
            let mut used: Vec<String> = carried.iter().map(ToString::to_string).collect();
            used.sort_unstable();
            used.dedup();
            ledger.warn(format!(
                "pause_storm.{index}: nothing is sent in priority {}, so the storm has no effect on it; in use are {}",
                unused.join(", "),
                used.join(", ")
            ));
        }
    }
}

pub(crate) fn failures(t: &mut Table) -> Vec<FailureSpec> {
    let doc = "Failures: each with link, port or node, down and up";
    t.rows("failure", "none", doc, FailureSpec::read).unwrap_or_default()
}

pub(crate) fn corruption(t: &mut Table) -> Vec<CorruptionSpec> {
    let doc = "Links that lose frames: each with ports and ber, fer or mtu";
    t.rows("corruption", "none", doc, CorruptionSpec::read).unwrap_or_default()
}

/// Named things exist, and fail within the run.
pub(crate) fn check(
    ledger: &mut Ledger,
    graph: &Topology,
    failures: &[FailureSpec],
    corruption: &[CorruptionSpec],
    stop: &Stop,
) {
    for (index, failure) in failures.iter().enumerate() {
        let path = format!("failure.{index}");
        if let Some((message, hint)) = failure.links(graph).err().filter(|_| !ledger.failed(&path)) {
            ledger.problem(&format!("{path}.{}", failure.key()), message, hint);
        }
        if failures[..index].contains(failure) {
            ledger.problem(&path, "is the same failure as one before it", "remove it");
        }
        if stop.time.is_some_and(|end| failure.down >= end) {
            ledger.warn(format!(
                "{path}.down: {} is after the end of the run; lower it, or raise stop",
                failure.down
            ));
        }
    }
    for (index, wire) in corruption.iter().enumerate() {
        if stop.time.is_some_and(|end| wire.start >= end) {
            let start = wire.start;
            ledger.warn(format!(
                "corruption.{index}.start: {start} is after the end of the run; lower it, or raise stop"
            ));
        }
        if matching_ports(&wire.ports, graph).is_empty() {
            let message = format!("no port is called {}", wire.ports.join(" or "));
            ledger.problem(
                &format!("corruption.{index}.ports"),
                message,
                "ports are NODE:NUMBER, as in leaf0:*",
            );
        }
    }
}
