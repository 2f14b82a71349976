//! `[switch]`: forwarding latency, buffer, priority flow control; marker, scheduler and classes have files of their own.

use super::classes::{ALPHA_DOC, QUEUE_DOC, RESERVED_DOC, check_alpha, class, priority_of_dscp};
use super::ledger::Origin;
use super::marker::marker;
use super::nested::Absent;
use super::reader::Table;
use super::scheduler::scheduler;
use super::value::did_you_mean;
use crate::spec::{BufferSpec, PfcSpec, QueueName, SwitchSpec, WatchdogActionName, WatchdogSpec};
use crate::switch_models;
use pauseframe_units::{Bytes, Priority, Span};

/// The largest buffer: switches of today have hundreds of megabytes.
pub(crate) const BUFFER_MAX: Bytes = Bytes(4_000_000_000);
/// bolt §IV-A2: 225 KB a port.
const PER_PORT: Bytes = Bytes::kb(225);
/// The packet buffer of bolt's switch, the G8264.
const SHARED: Bytes = Bytes::kb(9_000);
/// cee Table I: 100 KB a port.
const PER_INPUT: Bytes = Bytes::kb(100);

/// What the transports in use need of the switches: the reason, if they do.
pub(crate) struct Demands {
    /// Marking: "transport.ecn = dctcp".
    pub(crate) ecn: Option<String>,
    /// Lossless priorities: "transport.lossless = true".
    pub(crate) lossless: Option<String>,
    /// Lanes of the routes, each a lossless priority; 0 where routes have none.
    pub(crate) lanes: usize,
}

pub(crate) fn switch(t: &mut Table, demands: &Demands) -> SwitchSpec {
    let model = model(t);
    SwitchSpec {
        model,
        latency: t.or_in(
            "latency",
            Span::ZERO,
            Span::ZERO..=Span::from_secs(1),
            "Time from the last bit in to the egress queue",
        ),
        buffer: t.section("buffer", buffer),
        marker: t.section("marker", |t| marker(t, demands.ecn.as_deref())),
        pfc: pfc_or_none(t, demands),
        queue: t.or("queue", QueueName::Fifo, QUEUE_DOC),
        queue_packets: t.optional_in(
            "queue_packets",
            1..=10_000_000,
            "none: bytes alone count",
            "Packets that a lossy queue holds at most, however short (Linux pfifo: limit)",
        ),
        scheduler: t.section("scheduler", scheduler),
        priority_of_dscp: priority_of_dscp(t),
        classes: t.named_and_documented("classes", "What holds for some priorities instead", class),
    }
}

fn model(t: &mut Table) -> String {
    let names = || std::iter::once("none").chain(switch_models::MODELS.iter().map(|model| model.name));
    let listed = names().collect::<Vec<_>>().join(", ");
    let doc = format!("The real switch whose published figures are the defaults: {listed}");
    let name: String = t.or("model", "none".to_owned(), &doc);
    if let Some(model) = switch_models::find(&name) {
        t.layer(model);
    }
    let message = || format!("{name:?} is not one of {listed}");
    t.check(names().any(|known| known == name), "model", message, &did_you_mean(&name, names()));
    name
}

fn buffer(t: &mut Table) -> BufferSpec {
    type Reader = fn(&mut Table) -> BufferSpec;
    const POLICIES: &[(&str, Reader)] =
        &[("per_port", per_port), ("shared", shared), ("ideal_output_queued", ideal_output_queued)];
    let doc = "Who owns the bytes: each port its own, all one pool, or each input its own. A size alone is short for \
               per_port";
    let policy = t.variant("policy", Some(("per_port", Origin::Default, "\"per_port\"")), POLICIES, doc);
    policy.map_or(BufferSpec::PerPort { size: PER_PORT }, |read| read(t))
}

fn ideal_output_queued(t: &mut Table) -> BufferSpec {
    let doc = "Bytes of each ingress (port, priority); an egress queue may hold what all of them hold (cee §III-B4)";
    BufferSpec::IdealOutputQueued { size: t.or_in("size", PER_INPUT, Bytes(1)..=BUFFER_MAX, doc) }
}

fn per_port(t: &mut Table) -> BufferSpec {
    let doc =
        "Bytes of each egress port for lossy, and of each ingress (port, priority) for lossless traffic";
    BufferSpec::PerPort { size: t.or_in("size", PER_PORT, Bytes(1)..=BUFFER_MAX, doc) }
}

fn shared(t: &mut Table) -> BufferSpec {
    let size = t.or_in(
        "size",
        SHARED,
        Bytes(1)..=BUFFER_MAX,
        "Bytes of a switch, headroom and reserved bytes included",
    );
    let alpha = t.or("alpha", 1.0, ALPHA_DOC);
    check_alpha(t, Some(alpha));
    let reserved = t.or_in("reserved", Bytes::ZERO, Bytes::ZERO..=BUFFER_MAX, RESERVED_DOC);
    let doc = "Bytes that lossy traffic alone uses; the rest is for lossless traffic";
    let stand_in = "none: one pool for all";
    let egress_pool = t.optional_in("egress_pool", Bytes(1)..=BUFFER_MAX, stand_in, doc);
    let message = || format!("{} is not below size ({size})", egress_pool.unwrap_or_default());
    t.check(egress_pool.is_none_or(|pool| pool < size), "egress_pool", message, "lower it");
    BufferSpec::Shared { size, alpha, reserved, egress_pool }
}

fn pfc_or_none(t: &mut Table, demands: &Demands) -> Option<PfcSpec> {
    let absent = match &demands.lossless {
        Some(why) => Absent::On(Origin::Computed(format!("because {why}"))),
        None => Absent::Off(Origin::Computed("no transport in use is lossless".to_owned())),
    };
    let rule = "a table with its defaults if a transport in use is lossless, else false";
    let doc = "Priority flow control (IEEE 802.1Qbb), or false: no priority is lossless";
    t.switchable("pfc", absent, rule, doc, |t| pfc(t, demands.lanes))
}

/// The default lossless priorities: 3 and then 4, as `SONiC` has them; 0 last, which everything else uses.
const LOSSLESS: [u8; Priority::COUNT] = [3, 4, 5, 2, 6, 1, 7, 0];

fn pfc(t: &mut Table, lanes: usize) -> PfcSpec {
    let doc = "The lossless priorities, each 0 to 7; the first is that of lane 0 of the routes, and so on";
    let (default, why) = match lanes {
        0 | 1 => (vec![3], t.why()),
        lanes => {
            let default = LOSSLESS[..lanes.min(LOSSLESS.len())].to_vec();
            (default, Origin::Computed(format!("one for each of {lanes} lanes of the routes")))
        }
    };
    let priorities: Vec<u8> =
        t.or_because("priorities", default, why, "[3]; one for each lane of the routes", doc);
    let bad = priorities.iter().find(|priority| **priority > 7);
    t.check(bad.is_none(), "priorities", || format!("{} is outside 0 to 7", bad.unwrap_or(&0)), "");
    let message = || "[] names no priority".to_owned();
    t.check(!priorities.is_empty(), "priorities", message, "name one, as in [3], or write pfc = false");
    let twice = priorities.iter().enumerate().find(|(i, priority)| priorities[..*i].contains(priority));
    let message = || format!("{} is named twice", twice.map_or(0, |(_, priority)| *priority));
    t.check(twice.is_none(), "priorities", message, "name each priority once");

    let doc = "Pause whole links (PAUSE, IEEE 802.3 Annex 31B) instead of priorities: one ingress account a port, every \
               priority lossless; then priorities only says which one lossless transports have";
    let whole_link = t.or("whole_link", false, doc);
    let limits = Bytes::ZERO..=BUFFER_MAX;
    let stand_in = "automatic: what the buffer leaves after the headroom, or the dynamic threshold";
    let doc = "Pause above this many ingress bytes";
    let xoff = t.optional_in("xoff", limits.clone(), stand_in, doc);
    let stand_in = "automatic: two frames of the MTU below xoff";
    let xon = t.optional_in("xon", limits.clone(), stand_in, "Resume at or below this many ingress bytes");
    let stand_in = "automatic: computed for each link (802.1Qbb Annex O)";
    let doc = "Bytes of each ingress (port, priority) for what arrives after XOFF";
    let headroom = t.optional_in("headroom", limits, stand_in, doc);
    if let (Some(xoff), Some(xon)) = (xoff, xon) {
        let message = || format!("{xon} is not below xoff ({xoff})");
        t.check(xon < xoff, "xon", message, "lower xon by a few frames, or leave it out");
    }
    PfcSpec {
        priorities,
        whole_link,
        xoff,
        xon,
        headroom,
        // IEEE 802.3 31B.3.7 lets a 10 Gb/s port take 60 quanta of 512 bit times; the bounds of the faster
        // rates are shorter in time (40 Gb/s: 118 quanta, 1.51 us; 100 Gb/s: 394 quanta, 2.02 us).
        reaction: t.or_in(
            "reaction",
            Span::from_ns(3072),
            Span::ZERO..=Span::from_ms(1),
            "From the last bit of a pause frame to the stop; default: bound at 10 Gb/s, IEEE 802.3 31B.3.7",
        ),
        quanta: t.or_in("quanta", u16::MAX, 1..=u16::MAX, "Pause time asked for, in quanta of 512 bit times"),
        watchdog: watchdog(t),
    }
}

/// Defaults as in `SONiC`'s `pfcwd start_default`: 200 ms each, drop.
fn watchdog(t: &mut Table) -> Option<WatchdogSpec> {
    let doc =
        "Takes a queue of a switch that is paused for too long out of flow control (SONiC's pfcwd), or false";
    let range = || Span::from_us(1)..=Span::from_secs(60);
    t.switchable("watchdog", Absent::Off(Origin::Default), "false", doc, |t| WatchdogSpec {
        detection: t.or_in(
            "detection",
            Span::from_ms(200),
            range(),
            "Paused for this long without a break, with packets waiting: a storm",
        ),
        action: t.or(
            "action",
            WatchdogActionName::Drop,
            "In a storm what the queue holds and gets is dropped, or is sent in spite of pauses",
        ),
        restoration: t.or_in(
            "restoration",
            Span::from_ms(200),
            range(),
            "Without a pause frame for this long the storm is over",
        ),
    })
}
