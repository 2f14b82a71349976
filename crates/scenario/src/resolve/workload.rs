//! `[[workload]]`: who sends what to whom, and when.

use super::hosts::Hosts;
use super::ledger::Origin;
use super::nested::list_of_rows;
use super::reader::Table;
use super::value::{Choice, Setting, did_you_mean, quoted};
use super::{application, hotspot, scatter_gather, sizes, udp};
use crate::spec::{ArrivalsSpec, FlowEntry, LongFlowEntry, ReplyDelay, ReplyLaw, WorkloadKind};
use crate::{presets, workload::flow_dag::needs, workload::read_flow_list};
use pauseframe_units::{Bytes, Span};
use std::collections::BTreeSet;
use std::path::Path;

/// What a workload may refer to.
pub(crate) struct Context<'c> {
    /// Where relative file names begin.
    pub(crate) base_dir: &'c Path,
    /// `stop.time`.
    pub(crate) stop: Option<Span>,
    /// The hosts; `None` if the topology is wrong, so that names can not be judged.
    pub(crate) hosts: Option<&'c Hosts>,
    /// Names that `transport` can have.
    pub(crate) transports: &'c [String],
}

/// A workload as far as it could be read.
pub(crate) struct Partial {
    pub(crate) name: String,
    pub(crate) transport: String,
    pub(crate) kind: Option<WorkloadKind>,
}

type Reader = fn(&mut Table, &Context) -> Option<WorkloadKind>;

const KINDS: &[(&str, Reader)] = &[
    ("flows", flows),
    ("permutation", permutation),
    ("n_to_1", n_to_one),
    ("long_flows", long_flows),
    ("incast", incast),
    ("requests", requests),
    ("background", background),
    ("scatter_gather", scatter_gather::scatter_gather),
    ("hotspot", hotspot::hotspot),
    ("udp", udp::udp),
    ("application", application::application),
];

/// The largest flow, 1000 TB: far above it sums of sizes would overflow.
pub(crate) const SIZE_MAX: Bytes = Bytes(1_000_000_000_000_000);
/// After so many mistakes in a file no nearest name is looked for.
const HINTS_MAX: usize = 10;
/// A hundred days: no moment overflows.
pub(crate) const TIME_MAX: Span = Span::from_secs(100 * 24 * 3600);

/// Reads one workload; `taken` holds all names that are given, so that no default is one of them.
pub(crate) fn workload(t: &mut Table, context: &Context, taken: &mut Vec<String>) -> Partial {
    let reader = t.variant("kind", None, KINDS, "What it does");
    let kind = if reader.is_some() { t.chosen() } else { "workload" };
    let mut default = kind.to_owned();
    let mut why = Origin::Default;
    for count in 2.. {
        if !taken.contains(&default) {
            break;
        }
        default = format!("{kind}_{count}");
        why = Origin::Computed("the kind, numbered".to_owned());
    }
    let name: String =
        t.or_because("name", default, why, "the kind, numbered if it occurs again", "Its name in the tables");
    t.check(
        !name.is_empty() && name.len() <= 64,
        "name",
        || format!("{name:?} is empty or longer than 64 bytes"),
        "",
    );
    taken.push(name.clone());
    if kind == "udp" {
        let kind = reader.and_then(|read| read(t, context));
        return Partial { name, transport: "udp".to_owned(), kind };
    }
    let transport = transport_name(t, context);
    let kind = reader.and_then(|read| read(t, context));
    Partial { name, transport, kind }
}

fn transport_name(t: &mut Table, context: &Context) -> String {
    let doc = "Name of its transport: one of [transports.NAME], or \"default\" for [transport]";
    let transport: String = t.or("transport", "default".to_owned(), doc);
    let message =
        || format!("there is no transport {transport:?}; there are {}", context.transports.join(", "));
    let hint = match presets::find(&transport) {
        Some(_) => format!("for the preset add [transports.{transport}] with preset = {transport:?}"),
        None => did_you_mean(&transport, context.transports.iter().map(String::as_str)),
    };
    t.check(context.transports.contains(&transport), "transport", message, &hint);
    transport
}

pub(super) fn start(t: &mut Table) -> Span {
    t.or_in("start", Span::ZERO, Span::ZERO..=TIME_MAX, "When the first flow can start")
}

/// The end of the arrivals, which is that of the run unless the workload has its own.
pub(super) fn stop(t: &mut Table, start: Span, context: &Context) -> Option<Span> {
    let doc = "Nothing new starts from here on";
    if context.stop.is_none() && !t.has("stop") && !t.is_documenting() {
        let message = || "this workload has no end and neither has the run".to_owned();
        t.check(false, "stop", message, "set stop here, or the stop of the scenario, as in stop = \"50 ms\"");
        return None;
    }
    let origin = Origin::Computed("stop.time".to_owned());
    let stop = t.or_because("stop", context.stop.unwrap_or(TIME_MAX), origin, "stop.time", doc);
    let key = if t.has("stop") { "stop" } else { "start" };
    t.check(start < stop, key, || format!("start ({start}) is not before stop ({stop})"), "");
    t.check(stop <= TIME_MAX, "stop", || format!("{stop} is more than {TIME_MAX}"), "");
    Some(stop)
}

fn size(t: &mut Table) -> Option<Bytes> {
    t.required_in("size", Bytes(1)..=SIZE_MAX, "Size of each flow")
}

/// The name of a host.
pub(super) fn host(t: &mut Table, key: &'static str, doc: &str, context: &Context) -> Option<String> {
    let name: String = t.required(key, doc)?;
    known_host(t, key, &name, context);
    Some(name)
}

pub(super) fn known_host(t: &mut Table, key: &str, name: &str, context: &Context) {
    let Some(hosts) = context.hosts else { return };
    if !hosts.contains(name) {
        let hint = if t.ledger.is_full() { String::new() } else { hosts.suggestion(name) };
        t.check(false, key, || hosts.complaint(name), &hint);
    }
}

/// Names of hosts, or `None` for all.
pub(super) fn some_hosts(
    t: &mut Table,
    key: &'static str,
    doc: &str,
    context: &Context,
) -> Option<Vec<String>> {
    let names: Option<Vec<String>> = t.optional(key, "all hosts", doc);
    if let Some(names) = &names {
        t.check(
            !names.is_empty(),
            key,
            || "[] names no host".to_owned(),
            "name one, or leave it out for all",
        );
        for (index, name) in names.iter().enumerate() {
            known_host(t, &format!("{key}.{index}"), name, context);
        }
    }
    names
}

/// `count` other hosts must exist for each host.
pub(super) fn others(t: &mut Table, key: &str, count: u32, context: &Context) {
    let Some(hosts) = context.hosts else { return };
    let others = hosts.count().saturating_sub(1);
    let message = || format!("{count} is not possible: a host has {others} others");
    let hint = if others == 0 { "enlarge the topology".to_owned() } else { format!("choose 1 to {others}") };
    t.check((1..=others).contains(&(count as usize)), key, message, &hint);
}

pub(super) fn two_hosts(t: &mut Table, context: &Context) {
    let enough = context.hosts.is_none_or(|hosts| hosts.count() >= 2);
    t.check(enough, "kind", || "this workload needs two hosts".to_owned(), "enlarge the topology");
}

fn flows(t: &mut Table, context: &Context) -> Option<WorkloadKind> {
    let doc = "The flows themselves";
    let listed = t.rows("flows", "none: see file", doc, |t| {
        let src = host(t, "src", "Sending host", context);
        let dst = host(t, "dst", "Receiving host", context);
        let (size, start) = (size(t), start(t));
        t.check(src.is_none() || src != dst, "dst", || "src and dst are the same host".to_owned(), "");
        let (id, after, compute) = order(t);
        Some(FlowEntry { src: src?, dst: dst?, size: size?, start, id, after, compute })
    });
    let doc = "CSV or Parquet file with the columns src, dst, size_bytes, start_us, and id, after, compute_us if wanted";
    let file = t.source::<String>("file", "none: see flows", doc);
    let flows = match file {
        Some(file) if !t.has("flows") => from_file(t, &file, context)?,
        Some(_) => {
            t.check(false, "file", || "flows are listed too".to_owned(), "keep one of file and flows");
            return None;
        }
        None => {
            let given = t.has("flows") || t.has("file") || t.is_documenting();
            t.check(given, "flows", || "is required: list of tables, or file".to_owned(), "");
            listed?
        }
    };
    let key = if t.has("file") { "file" } else { "flows" };
    t.check(!flows.is_empty(), key, || "there is no flow in it".to_owned(), "");
    if let Err((index, message)) = needs(&flows) {
        t.check(false, key, || format!("flow {}: {message}", index + 1), "");
    }
    Some(WorkloadKind::Flows { flows })
}

/// What a flow is after; lists without an order are recorded without these keys.
fn order(t: &mut Table) -> (Option<String>, Vec<String>, Span) {
    let wanted = |t: &Table, key: &str| t.has(key) || t.is_documenting();
    let doc = "What other flows name it by";
    let id = if wanted(t, "id") { t.optional("id", "none", doc) } else { None };
    let doc = "Ids of flows that must have finished before it starts";
    let after = if wanted(t, "after") { t.or("after", Vec::new(), doc) } else { Vec::new() };
    let doc = "From the end of those, or from start, to its first byte";
    let times = Span::ZERO..=TIME_MAX;
    let compute = if wanted(t, "compute") { t.or_in("compute", Span::ZERO, times, doc) } else { Span::ZERO };
    (id, after, compute)
}

/// Reads a flow list and records it as if the scenario had it, so that the resolved one stands alone.
fn from_file(t: &mut Table, file: &str, context: &Context) -> Option<Vec<FlowEntry>> {
    let list = match read_flow_list(&context.base_dir.join(file)) {
        Ok(list) => list,
        Err(message) => {
            t.check(false, "file", || format!("{file}: {message}"), "");
            return None;
        }
    };
    let mut mistakes: Vec<(u64, String, String)> =
        list.mistakes.iter().map(|(place, message)| (*place, message.clone(), String::new())).collect();
    for (index, flow) in list.flows.iter().enumerate() {
        // A list from another topology is wrong in all rows, and looking for near names takes its time.
        let is_listed = mistakes.len() < HINTS_MAX;
        mistakes.extend(
            wrong_row(flow, context, is_listed).map(|(message, hint)| (list.place(index), message, hint)),
        );
    }
    mistakes.sort_by_key(|(place, ..)| *place);
    let path = t.at("file");
    for (place, message, hint) in mistakes {
        t.ledger.problem(&path, format!("{}: {message}", list.show(file, place)), hint);
    }
    let text = |flow: &FlowEntry| {
        let (src, dst) = (quoted(&flow.src), quoted(&flow.dst));
        let mut text =
            format!("src = {src}, dst = {dst}, size = {}, start = {}", flow.size.toml(), flow.start.toml());
        if let Some(id) = &flow.id {
            text = format!("{text}, id = {}", quoted(id));
        }
        if !flow.after.is_empty() {
            text = format!("{text}, after = {}", flow.after.toml());
        }
        if flow.compute > Span::ZERO {
            text = format!("{text}, compute = {}", flow.compute.toml());
        }
        format!("{{ {text} }}")
    };
    let rows: Vec<String> = list.flows.iter().map(text).collect();
    let origin = Origin::Computed(format!("read from {file}"));
    t.ledger.entry(t.at("flows"), list_of_rows(&rows), origin);
    Some(list.flows)
}

/// What is wrong with a row of a file: the message and a hint.
fn wrong_row(flow: &FlowEntry, context: &Context, with_hint: bool) -> Option<(String, String)> {
    let unknown = |name: &&String| context.hosts.is_some_and(|hosts| !hosts.contains(name));
    if let Some((hosts, name)) = context.hosts.zip([&flow.src, &flow.dst].into_iter().find(unknown)) {
        let hint = if with_hint { hosts.suggestion(name) } else { String::new() };
        return Some((hosts.complaint(name), hint));
    }
    let message = if flow.src == flow.dst {
        "src and dst are the same host".to_owned()
    } else if !(Bytes(1)..=SIZE_MAX).contains(&flow.size) {
        format!("{} is outside 1 B to {SIZE_MAX}", flow.size)
    } else if flow.start > TIME_MAX {
        format!("{} is more than {TIME_MAX}", flow.start)
    } else {
        return None;
    };
    Some((message, String::new()))
}

fn permutation(t: &mut Table, context: &Context) -> Option<WorkloadKind> {
    two_hosts(t, context);
    let (size, start) = (size(t), start(t));
    Some(WorkloadKind::Permutation { size: size?, start })
}

/// `senders`, the first hosts that are not the receiver, and `receiver`, by default the first host.
pub(super) fn many_to_one(t: &mut Table, context: &Context) -> (u32, String) {
    two_hosts(t, context);
    let all = context.hosts.map_or(1, |hosts| hosts.count().saturating_sub(1));
    let (rule, doc) = ("all other hosts", "How many senders: the first hosts that are not the receiver");
    let origin = Origin::Computed("all other hosts".to_owned());
    let senders = t.or_because("senders", all as u32, origin, rule, doc);
    others(t, "senders", senders, context);
    let first = context.hosts.and_then(|hosts| hosts.first()).unwrap_or("").to_owned();
    let origin = Origin::Computed("the first host".to_owned());
    let receiver: String = t.or_because("receiver", first, origin, "the first host", "Name of the receiver");
    known_host(t, "receiver", &receiver, context);
    (senders, receiver)
}

fn n_to_one(t: &mut Table, context: &Context) -> Option<WorkloadKind> {
    let (senders, receiver) = many_to_one(t, context);
    let size = size(t);
    let start = start(t);
    let doc = "Each flow starts at a random moment of this time after start; 0 s: all at once";
    let spread = t.or_in("spread", Span::ZERO, Span::ZERO..=TIME_MAX, doc);
    Some(WorkloadKind::NToOne { senders, receiver, size: size?, start, spread })
}

fn long_flows(t: &mut Table, context: &Context) -> Option<WorkloadKind> {
    let rows = t.rows("flows", "required", "Flows without an end of their own", |t| {
        let src = host(t, "src", "Sending host", context);
        let dst = host(t, "dst", "Receiving host", context);
        t.check(src.is_none() || src != dst, "dst", || "src and dst are the same host".to_owned(), "");
        let start = start(t);
        let stop =
            t.optional_in("stop", Span(1)..=TIME_MAX, "none: the end of the run", "When it stops sending");
        t.check(
            stop.is_none_or(|stop| start < stop),
            "stop",
            || format!("start ({start}) is not before it"),
            "",
        );
        let ends = stop.is_some() || context.stop.is_some();
        t.check(
            ends,
            "stop",
            || "this flow has no end and neither has the run".to_owned(),
            "set stop here, or the stop of the scenario, as in stop = \"50 ms\"",
        );
        Some(LongFlowEntry { src: src?, dst: dst?, start, stop })
    });
    let given = t.has("flows") || t.is_documenting();
    t.check(given, "flows", || "is required: list of tables".to_owned(), "");
    let empty = rows.as_ref().is_some_and(Vec::is_empty);
    t.check(!empty, "flows", || "there is no flow in it".to_owned(), "");
    Some(WorkloadKind::LongFlows { flows: rows? })
}

/// bolt §IV-A3: 200 jobs a second and host, ten servers, 2, 4 or 8 KB.
fn incast(t: &mut Table, context: &Context) -> Option<WorkloadKind> {
    let rate = rate(t, "rate", Some(200.0), "Jobs a second and host, Poisson")?;
    let fan_in = t.or("fan_in", 10, "Servers a job, drawn at random from the other hosts");
    others(t, "fan_in", fan_in, context);
    let doc = "Response sizes; each job draws one for all its servers";
    let response = t.or("response", vec![Bytes::kb(2), Bytes::kb(4), Bytes::kb(8)], doc);
    let bad = response.iter().find(|size| !(Bytes(1)..=SIZE_MAX).contains(size));
    let message = || format!("{} is outside 1 B to {SIZE_MAX}", bad.unwrap_or(&Bytes::ZERO));
    t.check(bad.is_none(), "response", message, "");
    t.check(!response.is_empty(), "response", || "[] has no size".to_owned(), "name one, as in [\"2 KB\"]");
    let doc = "Size of the request; 0 B: the responses start by themselves when the job does";
    let request = t.or_in("request", Bytes::ZERO, Bytes::ZERO..=SIZE_MAX, doc);
    let start = start(t);
    let stop = stop(t, start, context)?;
    Some(WorkloadKind::Incast { rate, fan_in, response, request, start, stop })
}

/// repro: 20 KB responses in sequence on a persistent connection.
fn requests(t: &mut Table, context: &Context) -> Option<WorkloadKind> {
    two_hosts(t, context);
    let client = host(t, "client", "Host that asks", context);
    let servers = servers(t, client.as_deref(), context);
    let sizes = Bytes(1)..=SIZE_MAX;
    let request = t.or_in("request", Bytes(100), sizes.clone(), "Size of a request");
    let response = t.or_in("response", Bytes::kb(20), sizes, "Size of a response");
    let count = t.or_in("count", 1000, 1..=100_000_000, "How many requests, one after the other");
    let doc = "From the end of a response to the next request";
    let pause = t.or_in("pause", Span::ZERO, Span::ZERO..=TIME_MAX, doc);
    let persistent = t.or("persistent", true, "All on one connection, or each on its own");
    let start = start(t);
    let doc =
        "How long before that kept connections are opened, so that the first request needs no handshake";
    let connect_ahead = t.or_in("connect_ahead", Span::ZERO, Span::ZERO..=TIME_MAX, doc);
    let message = || "needs connections that are kept".to_owned();
    t.check(connect_ahead == Span::ZERO || persistent, "connect_ahead", message, "set persistent = true");
    let message = || format!("{connect_ahead} is more than start ({start})");
    t.check(connect_ahead <= start, "connect_ahead", message, "raise start, or lower it");
    let doc = "From the request to one of several servers to that to the next";
    let spacing = t.or_in("spacing", Span::ZERO, Span::ZERO..=TIME_MAX, doc);
    let doc = "From a request to its response: see reply_law";
    let time = t.or_in("reply_delay", Span::ZERO, Span::ZERO..=TIME_MAX, doc);
    let doc = "What reply_delay is: constant, the largest of uniform ones, the mean of exponential ones, or the step from each server to \
               the next (staggered)";
    let law = t.or("reply_law", ReplyLaw::Constant, doc);
    let reply_delay = ReplyDelay { law, time };
    let (client, servers) = (client?, servers?);
    Some(WorkloadKind::Requests {
        client,
        servers,
        request,
        response,
        count,
        pause,
        persistent,
        start,
        connect_ahead,
        spacing,
        reply_delay,
    })
}

impl Choice for ReplyLaw {
    const NAMES: &'static [(&'static str, Self)] = &[
        ("constant", Self::Constant),
        ("uniform", Self::Uniform),
        ("exponential", Self::Exponential),
        ("staggered", Self::Staggered),
    ];
}

/// `server` or `servers`: other hosts than the client, each once.
fn servers(t: &mut Table, client: Option<&str>, context: &Context) -> Option<Vec<String>> {
    let one: Option<String> = t.optional("server", "none: see servers", "Host that answers");
    let doc = "Hosts that answer, all asked at once: the next round begins when the last response is in";
    let mut servers: Vec<String> = t.or("servers", Vec::new(), doc);
    let single = one.is_some();
    let either = one.is_some() == servers.is_empty();
    t.check(either, "server", || "needs either server or servers".to_owned(), "name the host that answers");
    servers.extend(one);
    for (index, server) in servers.iter().enumerate() {
        let key = if single { "server".to_owned() } else { format!("servers.{index}") };
        known_host(t, &key, server, context);
        let itself = client == Some(server);
        t.check(!itself, &key, || "client and server are the same host".to_owned(), "");
        let twice = servers[..index].contains(server);
        t.check(!twice, &key, || format!("{server:?} is there twice"), "name each host once");
    }
    either.then_some(servers)
}

fn rate(t: &mut Table, key: &'static str, default: Option<f64>, doc: &str) -> Option<f64> {
    let rate = match default {
        Some(default) => t.or(key, default, doc),
        None => t.required(key, doc)?,
    };
    // More than one a nanosecond is no rate that a host could have.
    t.check(rate > 0.0 && rate <= 1e9, key, || format!("{rate} is not above 0 and at most 1e9"), "");
    Some(rate)
}

fn background(t: &mut Table, context: &Context) -> Option<WorkloadKind> {
    two_hosts(t, context);
    let sizes = t.section("sizes", |t| sizes::sizes(t, context.base_dir));
    let arrivals = t.section("arrivals", arrivals);
    let stand_in = "none: the destination is uniform over all other hosts";
    let doc = "Share of the flows that stay in the sender's rack";
    let intra_rack = t.optional_in("intra_rack", 0.0..=1.0, stand_in, doc);
    let hosts = some_hosts(t, "hosts", "Hosts that send and receive", context);
    let several = hosts.as_ref().is_none_or(|names| names.iter().collect::<BTreeSet<_>>().len() >= 2);
    t.check(several, "hosts", || "a flow needs two hosts".to_owned(), "name another one");
    let start = start(t);
    let stop = stop(t, start, context)?;
    Some(WorkloadKind::Background { sizes: sizes?, arrivals: arrivals?, intra_rack, hosts, start, stop })
}

fn arrivals(t: &mut Table) -> Option<ArrivalsSpec> {
    type Reader = fn(&mut Table) -> Option<ArrivalsSpec>;
    const KINDS: &[(&str, Reader)] = &[("load", load), ("rate", flow_rate), ("concurrency", concurrency)];
    t.variant("kind", None, KINDS, "When flows start: Poisson by load or by rate, or in a closed loop")?(t)
}

fn load(t: &mut Table) -> Option<ArrivalsSpec> {
    let load = t.required(
        "load",
        "Offered load: share of its link rate that a host sends on average, above 0 to 1",
    )?;
    let message = || format!("{load} is not above 0 and at most 1");
    t.check(load > 0.0 && load <= 1.0, "load", message, "a share, not per cent: 0.4 is 40 %");
    Some(ArrivalsSpec::Load { load })
}

fn flow_rate(t: &mut Table) -> Option<ArrivalsSpec> {
    Some(ArrivalsSpec::Rate { per_host: rate(t, "per_host", None, "Flows a second and host")? })
}

fn concurrency(t: &mut Table) -> Option<ArrivalsSpec> {
    let doc = "Flows that every host keeps going; the next starts when one ends";
    Some(ArrivalsSpec::Concurrency { per_host: t.required_in("per_host", 1..=100_000, doc)? })
}
