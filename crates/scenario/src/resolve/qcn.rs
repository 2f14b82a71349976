//! `[qcn]`: quantized congestion notification (IEEE 802.1Qau), by presets.

use super::ledger::{Ledger, Origin};
use super::nested::Absent;
use super::reader::Table;
use super::value::{Setting, did_you_mean};
use crate::presets::QCN_PRESETS;
use crate::spec::{HostSpec, NicQueue, QcnSpec, RoutingSpec, SwitchSpec};
use pauseframe_units::{BitRate, Bytes, Span};

pub(crate) fn qcn_or_none(t: &mut Table) -> Option<QcnSpec> {
    let doc = "Quantized congestion notification (IEEE 802.1Qau) in all switches and NICs, or false; a text alone is short \
               for its preset";
    t.switchable("qcn", Absent::Off(Origin::Default), "false", doc, qcn)
}

fn qcn(t: &mut Table) -> QcnSpec {
    let name = preset(t);
    let preset = QCN_PRESETS.iter().find(|preset| preset.name == name).unwrap_or(&QCN_PRESETS[0]);
    t.layer(preset);
    let rates = BitRate(1000)..=BitRate::gbps(10_000);
    let sizes = Bytes(1)..=Bytes(1_000_000_000);
    let doc = "Priorities whose egress queues are watched";
    let priorities: Option<Vec<u8>> = t.optional("priorities", "all but cnm_priority", doc);
    let bad = priorities.iter().flatten().find(|priority| **priority > 7);
    t.check(bad.is_none(), "priorities", || format!("{} is outside 0 to 7", bad.unwrap_or(&0)), "");
    let cnm_priority = t.or_in("cnm_priority", 7, 0..=7, "Priority of the CNMs");
    let itself = priorities.as_ref().is_some_and(|list| list.contains(&cnm_priority));
    t.check(!itself, "priorities", || format!("{cnm_priority} is that of the CNMs"), "CNMs are not sampled");
    QcnSpec {
        preset: name,
        priorities,
        cnm_priority,
        q_eq: t.or_in("q_eq", Bytes::kb(26), sizes.clone(), "The queue that a congestion point aims at"),
        w: t.or_in("w", 2.0, 0.0..=64.0, "Weight of the queue's growth in the feedback"),
        sample: t.or_in(
            "sample",
            Bytes::kb(150),
            sizes.clone(),
            "Bytes between two samples without congestion",
        ),
        jitter: t.or_in(
            "jitter",
            0.15,
            0.0..=0.9,
            "Intervals and cycles are uniform within this share of their mean",
        ),
        g_d: t.or_in(
            "g_d",
            1.0 / 128.0,
            0.0..=1.0,
            "Share of its rate that a limiter gives up for each step of the six-bit feedback",
        ),
        min_decrease: t.or_in("min_decrease", 0.5, 0.0..=1.0, "Least factor of one cut"),
        fast_recovery: t.or_in("fast_recovery", 5, 1..=1000, "Cycles of fast recovery"),
        active_increase: t.or_in(
            "active_increase",
            BitRate(5_000_000),
            rates.clone(),
            "Growth of the target rate a cycle after fast recovery",
        ),
        hyper_active_increase: t.or_in(
            "hyper_active_increase",
            BitRate(50_000_000),
            rates.clone(),
            "The same when byte counter and timer are both beyond it, for each cycle beyond",
        ),
        byte_counter: t.or_in("byte_counter", Bytes::kb(150), sizes, "Bytes of a cycle of the byte counter"),
        timer: t.or_in(
            "timer",
            Span::from_ms(15),
            Span::from_ns(1)..=Span::from_secs(10),
            "Cycle of the timer",
        ),
        extra_fast_recovery: t.or(
            "extra_fast_recovery",
            true,
            "A target rate beyond ten times the current one falls to an eighth after the first cycle",
        ),
        min_rate: t.or_in("min_rate", BitRate(5_000_000), rates, "Least rate of a limiter"),
    }
}

/// The name of the row below the file's own values.
fn preset(t: &mut Table) -> String {
    let doc = "Where the defaults of this table come from: IEEE 802.1Q (standard), or cee Table I with Q_eq 20 KB (qcn20) \
               or 66 KB (qcn66)";
    let name: String = t.or("preset", QCN_PRESETS[0].name.to_owned(), doc);
    let names: Vec<&str> = QCN_PRESETS.iter().map(|preset| preset.name).collect();
    let message = || format!("{} is not one of {}", name.toml(), names.join(", "));
    t.check(names.contains(&name.as_str()), "preset", message, &did_you_mean(&name, names.iter().copied()));
    name
}

/// What QCN needs of hosts and switches.
pub(crate) fn check(
    ledger: &mut Ledger,
    qcn: Option<&QcnSpec>,
    host: &HostSpec,
    switch: &SwitchSpec,
    routing: &RoutingSpec,
) {
    let Some(qcn) = qcn else { return };
    if routing.vlans.is_some() && !ledger.failed("routing.kind") {
        let message = "the tables of VLANs lead to hosts, not from a congestion point back to the source";
        ledger.problem("routing.kind", message, "with QCN use ecmp or spray, or qcn = false");
    }
    if host.nic_queue == NicQueue::Fifo && !ledger.failed("host.nic_queue") {
        let message = "fifo, but QCN limits the queue of one destination";
        ledger.problem("host.nic_queue", message, "use per_destination, or qcn = false");
    }
    let lossless =
        switch.pfc.as_ref().is_some_and(|pfc| !pfc.whole_link && pfc.priorities.contains(&qcn.cnm_priority));
    if lossless && !ledger.failed("qcn.cnm_priority") {
        let message = format!("{} is lossless (switch.pfc.priorities)", qcn.cnm_priority);
        ledger.problem("qcn.cnm_priority", message, "a CNM must not wait behind a pause: take another");
    }
}
