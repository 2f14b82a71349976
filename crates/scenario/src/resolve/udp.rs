//! `kind = "udp"`: sources of datagrams that do not react.

use super::document::Value;
use super::ledger::Origin;
use super::reader::Table;
use super::sizes;
use super::workload::{Context, SIZE_MAX, TIME_MAX, some_hosts, start, stop, two_hosts};
use crate::spec::{BurstSpec, UdpSpec, WorkloadKind};
use pauseframe_units::{BitRate, Bytes, Span};

pub(super) fn udp(t: &mut Table, context: &Context) -> Option<WorkloadKind> {
    two_hosts(t, context);
    let sources = some_hosts(t, "sources", "Hosts that send", context);
    let doc =
        "Hosts that are sent to; each source (with bursts: each burst) takes one at random, never itself";
    let destinations = some_hosts(t, "destinations", doc, context);
    if let (Some(sources), Some([only])) = (&sources, destinations.as_deref()) {
        let itself = sources.contains(only);
        t.check(
            !itself,
            "destinations",
            || format!("{only:?} would send to itself"),
            "leave it out of sources",
        );
    } else if let Some([only]) = destinations.as_deref() {
        let message = || format!("all hosts send, and {only:?} would send to itself");
        t.check(false, "destinations", message, "name the sources");
    }
    let doc = "Rate of a source while it sends, with all that the scenario counts on the wire";
    let rate = t.required_in("rate", BitRate(1000)..=BitRate::gbps(10_000), doc);
    // The largest that an MTU of 1500 bytes takes.
    let sizes = Bytes(1)..=Bytes(9188);
    let datagram = t.or_in("datagram", Bytes(1472), sizes, "Application bytes of a datagram");
    let priority = t.or_in("priority", 0, 0..=7, "The 802.1p priority of the datagrams");
    let burst = burst(t, context);
    let stand_in = "none: until stop";
    let doc = "Application bytes that each source sends in all";
    let size = t.optional_in("size", Bytes(1)..=SIZE_MAX, stand_in, doc);
    let start = start(t);
    let stop = stop(t, start, context);
    Some(WorkloadKind::Udp(UdpSpec {
        sources,
        destinations,
        rate: rate?,
        datagram,
        priority,
        burst: burst.ok()?,
        size,
        start,
        stop: stop?,
    }))
}

/// No burst for a source that is always on; an error where the mistake is recorded.
fn burst(t: &mut Table, context: &Context) -> Result<Option<BurstSpec>, ()> {
    let doc = "Random on and off, or false: every source sends all the time";
    let off = super::nested::Absent::Off(Origin::Default);
    let wrong = t
        .item
        .and_then(|item| item.get("burst"))
        .is_some_and(|item| !matches!(item.value, Value::Table(_) | Value::Bool(false)));
    let read = t.switchable("burst", off, "false", doc, |t| {
        let sizes = t.section("sizes", |t| sizes::sizes(t, context.base_dir));
        let doc = "Mean pause between the end of a burst and the start of the next, exponential";
        let idle = t.required_in("idle", Span(1)..=TIME_MAX, doc);
        Some(BurstSpec { sizes: sizes?, idle: idle? })
    });
    match read {
        None if wrong => Err(()),
        None => Ok(None),
        Some(read) => read.map(Some).ok_or(()),
    }
}
