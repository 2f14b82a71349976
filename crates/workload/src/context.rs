//! What the readers of workloads share: host names, bounds of times and sizes, and common keys.

use super::hosts::Hosts;
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;
use pauseframe_units::{Bytes, Span};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;

/// Context for reading a workload.
pub struct Context<'c> {
    /// Base folder of relative file names.
    pub base_dir: &'c Path,
    /// The value of `stop.time`.
    pub stop: Option<Span>,
    /// The hosts; `None` if the topology is wrong, so that names cannot be checked.
    pub hosts: Option<&'c Hosts>,
    /// Hosts of a server, if scale-up links join them.
    pub gpus_per_server: Option<u32>,
    /// The names of transports of flows: TCP and queue pairs.
    pub transports: &'c [String],
    /// The names of transports of datagrams.
    pub of_datagrams: &'c [String],
}

/// The largest flow, 1000 TB: sums of sizes cannot overflow.
pub const SIZE_MAX: Bytes = Bytes(1_000_000_000_000_000);
/// A hundred days: no time overflows.
pub const TIME_MAX: Span = Span::from_secs(100 * 24 * 3600);
/// Bounds of sizes.
pub const SIZES: RangeInclusive<Bytes> = Bytes(1)..=SIZE_MAX;
/// Points in time and waits.
pub const TIMES: RangeInclusive<Span> = Span::ZERO..=TIME_MAX;

/// The end of the arrivals: the end of the run, unless the workload sets another.
pub(crate) fn stop(
    t: &mut Table,
    key: &'static str,
    doc: &str,
    start: Span,
    context: &Context,
) -> Option<Span> {
    if context.stop.is_none() && !t.has(key) && !t.is_documenting() {
        let message = || "this workload has no end and neither has the run".to_owned();
        t.check(false, key, message, "set stop here, or the stop of the scenario, as in stop = \"50 ms\"");
        return None;
    }
    let origin = Origin::Computed("stop.time".to_owned());
    let stop = t.or_because(key, context.stop.unwrap_or(TIME_MAX), origin, "stop.time", doc);
    let at_fault = if t.has(key) { key } else { "start" };
    t.check(start < stop, at_fault, || format!("start ({start}) is not before stop ({stop})"), "");
    t.check(stop <= TIME_MAX, key, || format!("{stop} is more than {TIME_MAX}"), "");
    Some(stop)
}

/// What to do about a file that cannot be read: where a missing one is looked for.
pub(crate) fn remedy_of_file(context: &Context, file: &str) -> &'static str {
    if context.base_dir.join(file).exists() { "" } else { "name a file, relative to the scenario" }
}

/// Reads the name of a host.
pub(crate) fn host(t: &mut Table, key: &'static str, doc: &str, context: &Context) -> Option<String> {
    let name: String = t.required(key, doc)?;
    known_host(t, key, &name, context);
    Some(name)
}

/// Checks that the key names a host.
pub(crate) fn known_host(t: &mut Table, key: &str, name: &str, context: &Context) {
    let Some(hosts) = context.hosts else { return };
    if !hosts.contains(name) {
        let hint = if t.ledger.is_full() { String::new() } else { hosts.suggestion(name) };
        t.check(false, key, || hosts.complaint(name), &hint);
    }
}

/// Reads names of hosts; `None` stands for all hosts.
pub(crate) fn some_hosts(
    t: &mut Table,
    key: &'static str,
    doc: &str,
    context: &Context,
) -> Option<Vec<String>> {
    hosts_or(t, key, doc, "all hosts", context)
}

/// Reads names of hosts; `None` stands for the hosts that `default` describes.
pub(crate) fn hosts_or(
    t: &mut Table,
    key: &'static str,
    doc: &str,
    default: &str,
    context: &Context,
) -> Option<Vec<String>> {
    let names: Option<Vec<String>> = t.optional(key, default, doc);
    if let Some(names) = &names {
        t.check(
            !names.is_empty(),
            key,
            || "[] names no host".to_owned(),
            &format!("name one, or leave it out for {default}"),
        );
        for (index, name) in names.iter().enumerate() {
            known_host(t, &format!("{key}.{index}"), name, context);
        }
    }
    names
}

/// Refuses a list that names a host twice, where hosts count once.
pub(crate) fn refuse_again(t: &mut Table, key: &str, names: Option<&[String]>) {
    let names = names.unwrap_or_default();
    let mut seen = BTreeSet::new();
    for (index, name) in names.iter().enumerate() {
        let is_new = seen.insert(name);
        t.check(is_new, &format!("{key}.{index}"), || format!("names {name:?} again"), "remove it");
    }
}

/// At least `count` other hosts must exist for each host.
pub(crate) fn others(t: &mut Table, key: &str, count: u32, context: &Context) {
    let Some(hosts) = context.hosts else { return };
    let others = hosts.count().saturating_sub(1);
    let message = || format!("{count} is not possible: a host has {others} others");
    let hint = if others == 0 { "enlarge the topology".to_owned() } else { format!("choose 1 to {others}") };
    t.check((1..=others).contains(&(count as usize)), key, message, &hint);
}

/// Checks that the network has two hosts, which this kind of workload needs.
pub(crate) fn two_hosts(t: &mut Table, context: &Context) {
    let enough = context.hosts.is_none_or(|hosts| hosts.count() >= 2);
    t.check(enough, "kind", || "this workload needs two hosts".to_owned(), "enlarge the topology");
}

/// Number of senders: the first hosts other than the receiver, by default all.
pub(crate) fn senders(t: &mut Table, key: &'static str, doc: &str, context: &Context) -> u32 {
    two_hosts(t, context);
    let all = context.hosts.map_or(1, |hosts| hosts.count().saturating_sub(1));
    let origin = Origin::Computed("all other hosts".to_owned());
    let senders = t.or_because(key, all as u32, origin, "all other hosts", doc);
    others(t, key, senders, context);
    senders
}

/// The receiver, by default the first host.
pub(crate) fn receiver(t: &mut Table, key: &'static str, doc: &str, context: &Context) -> String {
    let first = context.hosts.and_then(|hosts| hosts.first()).unwrap_or("").to_owned();
    let origin = Origin::Computed("the first host".to_owned());
    let receiver: String = t.or_because(key, first, origin, "the first host", doc);
    known_host(t, key, &receiver, context);
    receiver
}
