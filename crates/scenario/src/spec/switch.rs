//! `[switch]`: the fabric declares buffer, marker, scheduler, classes and flow control.

use crate::switch_models::MODELS;
use pauseframe_fabric::{
    BufferPolicy, ClassSettings, CodelSettings, LinuxSwitchSettings, Marker, PfcPorts, PfcSettings,
    QueueDiscipline, Scheduler, SwitchKind, SwitchOverride, matching_ports,
};
use pauseframe_schema::ledger::{Ledger, Origin};
use pauseframe_schema::nested::Absent;
use pauseframe_schema::reader::Table;
use pauseframe_schema::table;
use pauseframe_topology::{Node, NodeKind, Topology};
use pauseframe_units::{PortId, Priority, Span};

/// Switch settings that the transports in use need, each with its reason.
pub(crate) struct Demands {
    /// Lossless priorities: "transport.lossless = true".
    pub(crate) lossless: Option<String>,
    /// Number of lanes of the routes, each a lossless priority; 0 without lanes.
    pub(crate) lanes: usize,
}

table! {
    /// Switches
    pub struct SwitchSpec {
        /// The real switch whose published figures are the defaults
        model: String = or_row(MODELS, "none");
        /// What forwards: switching hardware, or a Linux machine (docs/models/linux-switch.md)
        kind: SwitchKind = or(SwitchKind::Hardware);
        /// A Linux machine as a switch
        linux: Option<LinuxSwitchSettings> = by(LinuxSwitchSettings::read_for, kind);
        /// Time from the last bit in to the egress queue
        latency: Span = or_in(Span::ZERO, Span::ZERO..=Span::from_secs(1));
        /// Buffer policy and size
        buffer: BufferPolicy = by(buffer, kind);
        /// Order of service within a priority, and which packet a full queue drops
        queue: QueueDiscipline = or(QueueDiscipline::Fifo);
        /// CoDel's parameters
        codel: Option<CodelSettings> = by(CodelSettings::read_for, Some(queue));
        /// ECN marking
        marker: Marker = by(marker, queue, kind);
        /// Priority flow control (IEEE 802.1Qbb), or false: no priority is lossless
        pfc: Option<PfcSettings> = by(pfc_or_none, demands);
        /// Maximum number of packets in a lossy queue, whatever their size; in a Linux switch a merged packet is one
        #[source = "Linux: pfifo limit; its default is txqueuelen, 1000"]
        queue_packets: Option<u32> = by(queue_packets, kind);
        /// Which priority is served next
        scheduler: Scheduler = section(Scheduler::read_table);
        /// Priority of transports by their DSCP, in hosts and switches, as in [[10, 1], [46, 5]]; CNPs are not among them
        #[source = "RFC 2474"]
        priority_of_dscp: Vec<[u8; 2]> = or(Vec::new()) => { check_pairs(t, &priority_of_dscp); };
        /// Other settings for some priorities
        classes: Vec<(String, ClassSettings)> = by(classes);
        /// Switches with other values
        overrides as "override": Vec<SwitchOverride> = rows("none", SwitchOverride::read);
    }
    pub fn read(t, demands: &Demands);
}

fn buffer(t: &mut Table, key: &'static str, _: &str, kind: SwitchKind) -> BufferPolicy {
    t.section(key, |t| BufferPolicy::read_table(t, kind))
}

fn marker(t: &mut Table, key: &'static str, _: &str, queue: QueueDiscipline, kind: SwitchKind) -> Marker {
    t.section(key, |t| Marker::read_table(t, queue.has_codel(), kind == SwitchKind::Linux))
}

fn queue_packets(t: &mut Table, key: &'static str, doc: &str, kind: SwitchKind) -> Option<u32> {
    let (bounds, rule) = (1..=10_000_000, "none: bytes alone count; 1000 with kind = \"linux\"");
    if kind == SwitchKind::Linux && !t.is_documenting() {
        let origin = Origin::Computed("because a Linux switch counts packets".to_owned());
        return Some(t.or_because_in(key, (1000, origin), bounds, rule, doc));
    }
    t.optional_in(key, bounds, rule, doc)
}

fn classes(t: &mut Table, key: &'static str, doc: &str) -> Vec<(String, ClassSettings)> {
    t.named_and_documented(key, doc, |t, name| {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let is_name = !name.is_empty() && name.chars().all(plain);
        let message = || format!("{name:?} is not a name for a class");
        t.check(is_name, "", message, "use letters, digits, '_' and '-'");
        (name.to_owned(), ClassSettings::read(t))
    })
}

/// `[switch.pfc]`, on if a transport in use is lossless.
fn pfc_or_none(t: &mut Table, key: &'static str, doc: &str, demands: &Demands) -> Option<PfcSettings> {
    let absent = match &demands.lossless {
        Some(why) => Absent::On(Origin::Computed(format!("because {why}"))),
        None => Absent::Off(Origin::Computed("no transport in use is lossless".to_owned())),
    };
    let rule = "a table with its defaults if a transport in use is lossless, else false";
    t.switchable(key, absent, rule, doc, |t| PfcSettings::read(t, demands.lanes))
}

/// Pairs of DSCP and priority.
fn check_pairs(t: &mut Table, pairs: &[[u8; 2]]) {
    let bad = pairs.iter().find(|[dscp, priority]| *dscp > 63 || *priority > 7);
    let message = || format!("{:?}: a DSCP is 0 to 63, a priority 0 to 7", bad.unwrap_or(&[0, 0]));
    t.check(bad.is_none(), "priority_of_dscp", message, "");
    let twice =
        pairs.iter().enumerate().find(|(i, [dscp, _])| pairs[..*i].iter().any(|pair| pair[0] == *dscp));
    let message = || format!("DSCP {} is named twice", twice.map_or(0, |(_, pair)| pair[0]));
    t.check(twice.is_none(), "priority_of_dscp", message, "name each DSCP once");
}

impl SwitchSpec {
    /// Rows of ports and switches match some, and their keys act there.
    pub(crate) fn check(&self, ledger: &mut Ledger, graph: &Topology) {
        for (index, row) in self.pfc.iter().flat_map(|pfc| &pfc.ports).enumerate() {
            self.check_ports(ledger, graph, row, &format!("switch.pfc.ports.{index}"));
        }
        let is_switch = |node: &&Node| node.kind == NodeKind::Switch;
        for (index, row) in self.overrides.iter().enumerate() {
            let path = format!("switch.override.{index}");
            if !graph.nodes().iter().filter(is_switch).any(|node| row.matches(&node.name)) {
                let message = format!("no switch is called {}", row.switches.join(" or "));
                ledger.problem(&format!("{path}.switches"), message, "name switches, as in leaf*");
            }
            if row.buffer.is_some() && !matches!(self.buffer, BufferPolicy::Shared(_)) {
                let hint = r#"write switch.buffer.policy = "shared""#;
                ledger.problem(
                    &format!("{path}.buffer"),
                    "only shared buffers differ between switches",
                    hint,
                );
            }
            if row.headroom_pool.is_some() && self.pfc.as_ref().is_none_or(|pfc| pfc.headroom_pool.is_none())
            {
                let hint = "write [switch.pfc.headroom_pool] with the size of the other switches";
                ledger.problem(&format!("{path}.headroom_pool"), "switches have no headroom pool here", hint);
            }
            if row.buffer.is_none() && row.headroom_pool.is_none() {
                ledger.problem(&path, "changes nothing", "give buffer or headroom_pool");
            }
        }
    }

    fn check_ports(&self, ledger: &mut Ledger, graph: &Topology, row: &PfcPorts, path: &str) {
        let ports = matching_ports(&row.ports, graph);
        if ports.is_empty() {
            let message = format!("no port is called {}", row.ports.join(" or "));
            ledger.problem(&format!("{path}.ports"), message, "ports are NODE:NUMBER, as in leaf0:*");
            return;
        }
        let given_rule = row.sends.is_some() || row.obeys.is_some();
        let thresholds = [
            ("xoff", row.xoff.is_some()),
            ("xon", row.xon.is_some()),
            ("headroom", row.headroom.is_some()),
            ("alpha", row.alpha.is_some()),
            ("watchdog", row.watchdog.is_some()),
        ];
        if !given_rule && thresholds.iter().all(|(_, given)| !given) {
            let keys = "sends, obeys, xoff, xon, headroom, alpha or watchdog";
            ledger.problem(path, "changes nothing", format!("give {keys}"));
        }
        let of_switch = |port: &PortId| graph.nodes()[graph.owner(*port)].kind == NodeKind::Switch;
        for (key, _) in thresholds.into_iter().filter(|(_, given)| *given) {
            let path = format!("{path}.{key}");
            if !ports.iter().any(of_switch) {
                let message = format!("{} is no port of a switch", row.ports.join(" or "));
                ledger.problem(&path, message, "name the switch's port of that link");
            } else if key == "alpha" && !matches!(self.buffer, BufferPolicy::Shared(_)) {
                let hint = r#"write switch.buffer.policy = "shared""#;
                ledger.problem(&path, "only shared buffers have a dynamic threshold", hint);
            } else if key == "watchdog" && self.pfc.as_ref().is_none_or(|pfc| pfc.watchdog.is_none()) {
                let hint = "turn on switch.pfc.watchdog, then write watchdog = false for ports without it";
                ledger.problem(&path, "there is no watchdog", hint);
            }
        }
    }

    /// The class of a priority.
    pub(crate) fn class_of(&self, priority: Priority) -> Option<&ClassSettings> {
        self.classes.iter().map(|(_, class)| class).find(|class| class.priorities.contains(&priority))
    }

    /// The queue discipline of a priority.
    pub(crate) fn queue_of(&self, priority: Priority) -> QueueDiscipline {
        self.class_of(priority).and_then(|class| class.queue).unwrap_or(self.queue)
    }

    /// CoDel's parameters in a priority, if it has CoDel.
    pub(crate) fn codel_of(&self, priority: Priority) -> Option<CodelSettings> {
        match self.class_of(priority) {
            Some(class) if class.queue.is_some() => class.codel,
            _ => self.codel,
        }
    }

    /// Whether CoDel marks packets of a priority.
    pub(crate) fn codel_marks(&self, priority: Priority) -> bool {
        self.codel_of(priority).is_some_and(|codel| codel.marks())
    }

    /// All markers, with their paths.
    pub(crate) fn markers(&self) -> impl Iterator<Item = (String, &Marker)> {
        let own = |(name, _): &(String, ClassSettings)| format!("switch.classes.{name}.marker");
        let of_classes = self.classes.iter().filter_map(move |row| Some((own(row), row.1.marker.as_ref()?)));
        std::iter::once(("switch.marker".to_owned(), &self.marker)).chain(of_classes)
    }

    /// CoDel's parameters of all queues that have it, with their paths.
    pub(crate) fn codels(&self) -> impl Iterator<Item = (String, QueueDiscipline, CodelSettings)> {
        let own = self.codel.map(|codel| ("switch.codel".to_owned(), self.queue, codel));
        let of_classes = self.classes.iter().filter_map(|(name, class)| {
            Some((format!("switch.classes.{name}.codel"), class.queue?, class.codel?))
        });
        own.into_iter().chain(of_classes)
    }

    /// The marker of a priority.
    pub(crate) fn marker_of(&self, priority: Priority) -> &Marker {
        self.class_of(priority).and_then(|class| class.marker.as_ref()).unwrap_or(&self.marker)
    }
}
