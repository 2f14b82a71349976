//! The tables of a scenario: read in the order of their dependences, checked together, then complete.
//!
//! Switches depend on the transports in use, and the transports in use on the workloads.

use super::checks::{self, Named};
use super::idle_transport_keys;
use super::{
    by_rate, connections, conweave, dual_tor, host_ports, idle, kernel, linux_switch, routes, thresholds,
    transports,
};
use crate::presets;
use crate::spec::switch::Demands;
use crate::spec::{
    Clocks, CorruptionSpec, Fabric, FailureSpec, HostSpec, PauseStormSpec, PluginsSpec, Protocol,
    QcnSettings, RecordSpec, RememberSpec, RoutingSpec, Scenario, Stop, SwitchSpec, TopologySpec,
    WorkloadKind, WorkloadSpec, faults, graph, routing, topology,
};
use pauseframe_schema::document::{Item, Value};
use pauseframe_schema::ledger::{Ledger, Origin};
use pauseframe_schema::nested::Absent;
use pauseframe_schema::reader::Table;
use pauseframe_schema::value::Setting;
use pauseframe_topology::Topology;
use pauseframe_topology::interchange::Labels;
use pauseframe_workload::context::{Context, TIME_MAX};
use pauseframe_workload::hosts::Hosts;
use pauseframe_workload::{self as workload, Partial};
use std::path::Path;

/// Maximum length of a scenario's name in bytes, so that a file system accepts the name with a seed appended.
const NAME_MAX: usize = 200;

const CLOCKS: &str = "real: frames that arrive at the same instant, or compete for the last place of a queue, go in random order; \
                      ideal: the smaller port goes first";

const QCN: &str = "Quantized congestion notification (IEEE 802.1Qau) in all switches and NICs, or false; a text alone names the \
                   preset";

/// All tables as read. Parts with a mistake are missing, or have their defaults.
pub(super) struct Draft {
    name: String,
    seed: u64,
    clocks: Clocks,
    plugins: PluginsSpec,
    stop: Stop,
    topology: Option<TopologySpec>,
    pub(super) graph: Option<Topology>,
    labels: Labels,
    hosts: Option<Hosts>,
    pub(super) routing: RoutingSpec,
    pub(super) host: HostSpec,
    pub(super) transports: Vec<Named>,
    pub(super) workloads: Vec<Partial>,
    pub(super) switch: SwitchSpec,
    pub(super) qcn: Option<QcnSettings>,
    pub(super) record: RecordSpec,
    remember: RememberSpec,
    failure: Vec<FailureSpec>,
    corruption: Vec<CorruptionSpec>,
    pause_storm: Vec<PauseStormSpec>,
}

impl Draft {
    /// Reads all tables.
    pub(super) fn read(t: &mut Table, base_dir: &Path, default_name: &str) -> Draft {
        t.about("Scenario", "A scenario");
        let name = name(t, default_name);
        let seed = t.or("seed", 1, "Master seed of all named random streams");
        let clocks = t.or("clocks", Clocks::Real, CLOCKS);
        let plugins = t.section("plugins", PluginsSpec::read);
        let stop = t.section("stop", Stop::read);
        let topology = t.section("topology", |t| topology::topology(t, base_dir));
        let graph = topology.as_ref().and_then(|spec| graph::checked(spec, t.ledger));
        let labels = topology.as_ref().map(|spec| spec.kind.labels()).unwrap_or_default();
        let fabric = Fabric { graph: graph.as_ref(), labels: &labels, base_dir };
        let routing = t.section("routing", |t| routing::routing(t, &fabric));
        let hosts = graph.as_ref().map(Hosts::of);
        let qcn_is_on = t.is_on("qcn");
        let host = t.section("host", |t| HostSpec::read(t, hosts.as_ref(), qcn_is_on));
        let mut transports = transports::read(t, routing.reorders());
        let gpus = topology.as_ref().and_then(TopologySpec::gpus_per_server);
        let workloads = read_workloads(t, base_dir, &stop, (hosts.as_ref(), gpus), &mut transports);
        let demands = demands(&transports, routing.lanes());
        Draft {
            name,
            seed,
            clocks,
            plugins,
            stop,
            topology,
            graph,
            labels,
            hosts,
            routing,
            host,
            transports,
            workloads,
            switch: t.section("switch", |t| SwitchSpec::read(t, &demands)),
            qcn: t.switchable("qcn", Absent::Off(Origin::Default), "false", QCN, QcnSettings::read),
            record: t.section("record", RecordSpec::read),
            remember: t.section("remember", RememberSpec::read),
            failure: faults::failures(t),
            corruption: faults::corruption(t),
            pause_storm: faults::pause_storms(t),
        }
    }

    /// Sets the keys whose defaults depend on several tables, and checks the tables against each other.
    pub(super) fn settle_and_check(&mut self, ledger: &mut Ledger) {
        self.plugins.settle(ledger, self.transports.iter().map(|transport| &transport.spec));
        settle_transports(ledger, &mut self.transports, &self.switch, &self.workloads);
        settle_datagrams(ledger, &self.transports, &mut self.workloads);
        if let Some(graph) = &self.graph {
            by_rate::settle(ledger, graph, &self.host, self.routing.vlans.is_some(), &mut self.switch);
            conweave::settle(ledger, graph, &mut self.routing);
        }
        let Draft { stop, labels, routing, host, transports, workloads, switch, .. } = &*self;
        let graph = self.graph.as_ref();
        checks::host_names(ledger, host, self.hosts.as_ref());
        checks::workloads(ledger, workloads, host);
        if let Some(graph) = graph {
            faults::check(ledger, graph, &self.failure, &self.corruption, stop);
            let carried = checks::carried(host, routing, self.qcn.as_ref(), transports, workloads);
            switch.check(ledger, graph);
            faults::check_pauses(ledger, graph, &self.pause_storm, switch.pfc.as_ref(), stop);
            faults::check_carried(ledger, &self.pause_storm, switch.pfc.as_ref(), carried.as_deref());
            idle::classes(ledger, switch, carried.as_deref());
            for key in self.topology.iter().flat_map(|topology| topology.idle_link_keys(graph)) {
                ledger.warn(format!("topology.{key}: no link takes it: it changes nothing"));
            }
            checks::delays(ledger, stop, graph);
            checks::slow_receivers(ledger, host, graph);
            checks::scale_up(ledger, self.topology.as_ref(), graph, host);
            let gpus = self.topology.as_ref().and_then(TopologySpec::gpus_per_server);
            checks::places(ledger, (graph, gpus), workloads, self.seed);
            checks::racks(ledger, graph, workloads);
            checks::markers(ledger, switch, graph);
        }
        checks::end(ledger, stop, workloads);
        checks::room_for_frames(ledger, host, switch, transports);
        thresholds::check(ledger, switch, graph);
        checks::transports(ledger, switch, transports, workloads);
        checks::classes(ledger, switch);
        idle::deadlocks(ledger, switch, stop, &self.record);
        idle::check(ledger, (host, switch, routing), graph, transports, workloads);
        routes::judge(ledger, (routing, host), (graph, labels), switch, transports);
        checks::datagrams(ledger, host, workloads);
        checks::queue_pairs(ledger, host, transports);
        checks::controls(ledger, transports);
        idle_transport_keys::check(ledger, transports, workloads);
        checks::reads(ledger, transports, workloads);
        checks::marks_of_datagrams(ledger, switch, workloads);
        checks::qcn(ledger, self.qcn.as_ref(), host, switch, routing);
        connections::check(ledger, transports, workloads);
        connections::subflows(ledger, transports, host, &self.record);
        connections::entropy(ledger, transports, routing, switch);
        connections::placement(ledger, transports);
        connections::overtaking(ledger, transports, routing);
        conweave::check(ledger, self);
        host_ports::check(ledger, self);
        dual_tor::check(ledger, self);
        kernel::check(ledger, self);
        linux_switch::check(
            ledger,
            (&self.host, &self.switch, &self.routing),
            self.qcn.is_some(),
            &self.transports,
            !self.workloads.is_empty(),
        );
    }

    /// The scenario and its graph. Returns `None` only if a mistake was recorded.
    pub(super) fn complete(self) -> Option<(Scenario, Topology)> {
        let mut transports = self.transports.into_iter().map(|transport| (transport.name, transport.spec));
        let complete =
            |Partial { name, transport, kind }| Some(WorkloadSpec { name, transport, kind: kind? });
        let scenario = Scenario {
            name: self.name,
            seed: self.seed,
            clocks: self.clocks,
            stop: self.stop,
            topology: self.topology?,
            routing: self.routing,
            host: self.host,
            switch: self.switch,
            qcn: self.qcn,
            transport: transports.next()?.1,
            transports: transports.collect(),
            workload: self.workloads.into_iter().map(complete).collect::<Option<Vec<_>>>()?,
            failure: self.failure,
            corruption: self.corruption,
            pause_storm: self.pause_storm,
            record: self.record,
            remember: self.remember,
        };
        Some((scenario, self.graph?))
    }
}

/// Sets the keys of transports whose defaults depend on the switches and on the workloads.
fn settle_transports(
    ledger: &mut Ledger,
    transports: &mut [Named],
    switch: &SwitchSpec,
    workloads: &[Partial],
) {
    let lossless = switch.pfc.as_ref().map_or(&[][..], |pfc| &pfc.priorities);
    for Named { path, spec, priority, is_used, .. } in transports.iter_mut() {
        transports::settle_priority(ledger, path, spec, *priority, (lossless, switch), *is_used);
    }
    for transport in transports.iter_mut() {
        let without_delay = |workload: &Partial| match workload.kind.as_ref()? {
            WorkloadKind::Storage(_) => Some("storage"),
            WorkloadKind::KvTransfer(_) => Some("kv_transfer"),
            kind => kind.application().map(|_| "an application"),
        };
        let mut on_it = workloads.iter().filter(|workload| workload.transport == transport.name);
        let first = on_it.find_map(|workload| Some((workload.name.as_str(), without_delay(workload)?)));
        if let Some(workload) = first {
            transports::settle_small_segments(ledger, transport, workload);
        }
    }
}

/// Gives workloads of datagrams the priority and ECN of the transport that they name.
fn settle_datagrams(ledger: &mut Ledger, transports: &[Named], workloads: &mut [Partial]) {
    for (index, workload) in workloads.iter_mut().enumerate() {
        let Some(WorkloadKind::Udp(udp)) = &mut workload.kind else { continue };
        let Some(named) = transports.iter().find(|named| named.name == workload.transport) else { continue };
        let (priority, ecn) = (named.spec.priority, named.spec.is_ecn_capable());
        let own = [
            ("priority", udp.priority.toml(), priority.toml()),
            ("ecn", udp.ecn.to_string(), ecn.to_string()),
        ];
        for (key, given, of_transport) in own {
            let path = format!("workload.{index}.{key}");
            let (_, is_written) = ledger.root.nearest(&path);
            if is_written && given != of_transport {
                let message = format!("{given}, but its transport has {of_transport} ({})", named.path);
                ledger.problem(&path, message, "leave one of the two out");
            } else if !is_written {
                let origin = Origin::Computed(format!("that of {}", named.path));
                ledger.settle(&path, of_transport, origin);
            }
        }
        (udp.priority, udp.ecn) = (priority, ecn);
    }
}

/// The scenario's name, which becomes part of the results folder's name and must not point outside of the
/// parent folder.
fn name(t: &mut Table, default: &str) -> String {
    let name: String = t.or("name", default.to_owned(), "Name of the results: not a path, at most 200 bytes");
    let of_file = if t.has("name") { "" } else { ", the name of the file," };
    if let Some(flaw) = wrong_name(&name) {
        let hint = "choose a plain name, as in name = \"incast\"; --out names the folder of the results";
        t.check(false, "name", || format!("{}{of_file} {flaw}", shown(&name)), hint);
    }
    name
}

/// Reason why a name cannot name a folder on every operating system.
fn wrong_name(name: &str) -> Option<String> {
    const FORBIDDEN: &str = "/\\:*?\"<>|";
    if name.trim().is_empty() {
        return Some("is empty".to_owned());
    }
    if name.len() > NAME_MAX {
        return Some(format!("has {} bytes; at most {NAME_MAX} are allowed", name.len()));
    }
    if name.chars().any(char::is_control) {
        return Some("has control characters".to_owned());
    }
    if let Some(c) = name.chars().find(|c| FORBIDDEN.contains(*c)) {
        return Some(format!("has a {c:?}, which names of folders cannot have"));
    }
    if name.starts_with(['.', '-', '~']) || name.trim() != name {
        return Some("begins with '.', '-', '~' or a blank, or ends with a blank".to_owned());
    }
    None
}

/// A name in quotes for messages, without control characters and shortened if too long.
fn shown(name: &str) -> String {
    let short: String = name.chars().take(60).collect();
    format!("{short:?}{}", if short.len() < name.len() { "..." } else { "" })
}

/// Whether the file has a time at which the run ends, right or wrong.
fn is_stop_given(root: &Item) -> bool {
    root.get("stop").is_some_and(|stop| !matches!(stop.value, Value::Table(_)) || stop.get("time").is_some())
}

/// Reads `[[workload]]`, and marks the transports in use.
fn read_workloads(
    t: &mut Table,
    base_dir: &Path,
    stop: &Stop,
    (hosts, gpus_per_server): (Option<&Hosts>, Option<u32>),
    transports: &mut [Named],
) -> Vec<Partial> {
    let is_udp = |transport: &&Named| matches!(transport.spec.protocol, Protocol::Udp(_));
    let (udp, others): (Vec<&Named>, Vec<&Named>) = transports.iter().partition(is_udp);
    let [of_datagrams, names] =
        [udp, others].map(|list| list.iter().map(|transport| transport.name.clone()).collect::<Vec<_>>());
    // A mistake in `stop` is reported once, and not again for each workload.
    let stop = stop.time.or_else(|| is_stop_given(t.ledger.root).then_some(TIME_MAX));
    let context =
        Context { base_dir, stop, hosts, gpus_per_server, transports: &names, of_datagrams: &of_datagrams };
    let mut taken = given_names(t.ledger.root);
    let workloads = t.tables("workload", "Who sends what to whom, and when", |t| {
        workload::workload(t, &context, &mut taken, |name| presets::find(name).is_some())
    });
    for transport in transports {
        transport.is_used = workloads.iter().any(|workload| workload.transport == transport.name);
    }
    workloads
}

/// The names of workloads that the file sets.
fn given_names(root: &Item) -> Vec<String> {
    let Some(Value::Array(workloads)) = root.get("workload").map(|item| &item.value) else {
        return Vec::new();
    };
    workloads.iter().filter_map(|workload| String::read(workload.get("name")?).ok()).collect()
}

fn demands(transports: &[Named], lanes: usize) -> Demands {
    let used = || transports.iter().filter(|transport| transport.is_used);
    let lossless = used().find(|transport| transport.spec.lossless);
    Demands { lanes, lossless: lossless.map(|t| format!("{}.lossless = true", t.path)) }
}
