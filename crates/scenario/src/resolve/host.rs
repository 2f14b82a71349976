//! `[host]`.

use super::hosts::Hosts;
use super::ledger::Origin;
use super::reader::Table;
use crate::spec::{HostSpec, NicQueue, SlowReceiver, WireJitterSpec, WireOverhead};
use pauseframe_units::{BitRate, Bytes, Span};

pub(crate) fn host(t: &mut Table, hosts: Option<&Hosts>) -> HostSpec {
    let second = Span::from_secs(1);
    HostSpec {
        mtu: t.or_in("mtu", Bytes(1500), Bytes(576)..=Bytes(9216), "Largest IP packet"),
        tx_delay: t.or_in(
            "tx_delay",
            Span::ZERO,
            Span::ZERO..=second,
            "Time that a segment spends in the stack before the NIC has it",
        ),
        tx_jitter: t.or_in(
            "tx_jitter",
            Span::ZERO,
            Span::ZERO..=second,
            "Up to this much more, at random for each segment, in order: keeps flows from locking in phase",
        ),
        wire_jitter: t.or_in(
            "wire_jitter",
            Span::ZERO,
            Span::ZERO..=second,
            "Up to this much later what a host has sent reaches its switch, at random, in order; not with PFC",
        ),
        wire_burst: t.or_in(
            "wire_burst",
            Bytes(0),
            Bytes(0)..=Bytes(1_000_000),
            "Links of hosts, both ways, are token buckets of so many bytes (Linux TBF): a frame takes at least their time from coming to \
             leaving, and more only where it waits; 0: links store and forward",
        ),
        wire_jitters: wire_jitters(t, hosts),
        ticks_apart: t.or(
            "ticks_apart",
            false,
            "Clocks of hosts tick (transport.rto_granularity) each at moments of their own, not all at once",
        ),
        rx_delay: t.or_in(
            "rx_delay",
            Span::ZERO,
            Span::ZERO..=second,
            "Time from the last bit at the NIC to TCP",
        ),
        // cee Table I: 512 KB a NIC.
        nic_buffer: t.or_in(
            "nic_buffer",
            Bytes::kb(512),
            Bytes(1)..=Bytes(4_000_000_000),
            "Bytes that the stack and the NIC hold; sockets wait for room, nothing is dropped",
        ),
        nic_queue: t.or(
            "nic_queue",
            NicQueue::PerDestination,
            "Queues of the NIC: one for each destination, served in turn, or a single one",
        ),
        tso: t.or("tso", false, "Segmentation offload: TCP sends super-packets, which the NIC cuts into frames"),
        tso_size: t.or_in(
            "tso_size",
            Bytes::kb(64),
            Bytes(1_000)..=Bytes(65_536),
            "Data of the largest super-packet (gso_max_size less headers)",
        ),
        gro: t.or(
            "gro",
            false,
            "Receive offload: in-order frames of a connection that come in one poll of the NIC are one segment for TCP",
        ),
        gro_timeout: t.or_in(
            "gro_timeout",
            Span::from_us(10),
            Span::from_ns(1)..=Span::from_ms(10),
            "How long a poll gathers frames from the first on: the NIC's interrupt moderation, or gro_flush_timeout",
        ),
        wire_overhead: t.or(
            "wire_overhead",
            WireOverhead::Ethernet,
            "Header, FCS, preamble and gap of a frame, or none of them, as the papers' simulators have it",
        ),
        slow_receivers: slow_receivers(t, hosts),
        refusing: t.or("refusing", Vec::new(), "Hosts where nobody listens: they answer a SYN with RST"),
        silent: t.or("silent", Vec::new(), "Hosts that answer nothing, as if down"),
    }
}

fn wire_jitters(t: &mut Table, hosts: Option<&Hosts>) -> Vec<WireJitterSpec> {
    let doc = "Hosts whose links are unsteady in another way than wire_jitter says";
    let mut names: Vec<String> = Vec::new();
    let rows = t.rows("wire_jitters", "[]", doc, |t| {
        let host = host_of_row(t, &mut names, hosts);
        let range = Span::ZERO..=Span::from_secs(1);
        let doc = "Up to this much later what it sends reaches its switch, at random, in order";
        let to_switch = t.or_in("to_switch", Span::ZERO, range.clone(), doc);
        let doc = "Up to this much later what its switch sends reaches it";
        let to_host = t.or_in("to_host", Span::ZERO, range, doc);
        Some(WireJitterSpec { host: host?, to_switch, to_host })
    });
    if !t.has("wire_jitters") && !t.is_documenting() {
        t.ledger.entry(t.at("wire_jitters"), "[]".to_owned(), Origin::Default);
    }
    rows.unwrap_or_default()
}

/// The host that a row is about: one of the topology, in one row only.
fn host_of_row(t: &mut Table, names: &mut Vec<String>, hosts: Option<&Hosts>) -> Option<String> {
    let host: Option<String> = t.required("host", "Name of the host");
    let twice = host.as_ref().is_some_and(|name| names.contains(name));
    t.check(!twice, "host", || "is in an earlier row too".to_owned(), "one row a host");
    names.extend(host.clone());
    if let (Some(name), Some(hosts)) = (&host, hosts) {
        t.check(hosts.contains(name), "host", || hosts.complaint(name), &hosts.suggestion(name));
    }
    host
}

fn slow_receivers(t: &mut Table, hosts: Option<&Hosts>) -> Vec<SlowReceiver> {
    let doc = "Hosts that take frames out of a receive buffer of their own at a rate of their own";
    let mut names: Vec<String> = Vec::new();
    let rows = t.rows("slow_receivers", "[]", doc, |t| {
        let host = host_of_row(t, &mut names, hosts);
        let rates = BitRate(1000)..=BitRate::gbps(10_000);
        let rate = t.required_in("rate", rates, "Rate at which it takes frames out of the buffer");
        // As much as a NIC holds on its way out: cee Table I, 512 KB.
        let sizes = Bytes(576)..=Bytes(4_000_000_000);
        let doc = "The buffer: lossless classes pause the link before it is full, lossy ones are dropped";
        let buffer = t.or_in("buffer", Bytes::kb(512), sizes, doc);
        Some(SlowReceiver { host: host?, rate: rate?, buffer })
    });
    if !t.has("slow_receivers") && !t.is_documenting() {
        t.ledger.entry(t.at("slow_receivers"), "[]".to_owned(), Origin::Default);
    }
    rows.unwrap_or_default()
}
