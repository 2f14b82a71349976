//! Defaults of switches that follow from the rates and delays of the links: marking thresholds and buffer sizes.
//!
//! They depend on the graph and the MTU alone, never on which transports a scenario has.

use crate::spec::{BufferPolicy, HostSpec, SwitchSpec};
use pauseframe_fabric::{
    FrameOverhead, LinkHeadroom, Marker, PfcSettings, PortSelector, QueueLengthThreshold, StepMarker,
    ValueByPort, all_ports,
};
use pauseframe_schema::ledger::{Ledger, Origin};
use pauseframe_schema::reader::defaults;
use pauseframe_schema::value::Setting;
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_units::{BitRate, Bytes, PortId, Priority};
use std::collections::BTreeSet;

/// Buffer of a port by the rate of the fastest link, in Gb/s and KB: that of chips of the rate, divided by their ports.
/// Up to 10 Gb/s bolt's switch; 25 and 100: Trident 3, 32 MB; 40: Trident 2, 12 MB; 200: Spectrum 3, 64 MB; 400:
/// Tomahawk 3, 64 MB; 800: Tomahawk 5, 165 MB.
const PORT_BUFFERS: [(u64, u64); 8] =
    [(10, 225), (25, 250), (40, 375), (50, 500), (100, 1_000), (200, 1_000), (400, 2_000), (800, 2_600)];
/// The same of a whole switch: G8264, Trident 2, Trident 3, Tomahawk 3, Tomahawk 5.
const SHARED_BUFFERS: [(u64, u64); 5] =
    [(10, 9_000), (40, 12_000), (100, 32_000), (400, 64_000), (800, 165_000)];
/// Rate up to which the default threshold of a step marker holds; DCTCP's threshold is proportional to the rate (Alizadeh et al. 2010, (13)).
const MARKER_RATE: BitRate = BitRate::gbps(10);

/// Sets the thresholds and sizes that the scenario does not give.
pub(super) fn settle(
    ledger: &mut Ledger,
    graph: &Topology,
    host: &HostSpec,
    has_vlans: bool,
    switch: &mut SwitchSpec,
) {
    settle_marker(ledger, graph, "switch.marker", &mut switch.marker);
    for (name, class) in &mut switch.classes {
        if let Some(marker) = &mut class.marker {
            settle_marker(ledger, graph, &format!("switch.classes.{name}.marker"), marker);
        }
    }
    settle_buffer(ledger, graph, host.frame_overhead(has_vlans), host.mtu, switch);
}

/// Scales the default threshold with the rates of ports above 10 Gb/s.
fn settle_marker(ledger: &mut Ledger, graph: &Topology, path: &str, marker: &mut Marker) {
    let Marker::StepMarker(StepMarker { k, .. }) = marker else { return };
    let ValueByPort::All(QueueLengthThreshold::Bytes(base)) = *k else { return };
    let path = format!("{path}.k");
    let Some(by_rate) = thresholds(graph, base).filter(|_| ledger.is_default(&path)) else { return };
    *k = by_rate;
    let why = format!("in proportion to the rate of the port, {base} at {MARKER_RATE}");
    ledger.settle(&path, k.toml(), Origin::Computed(why));
}

/// Whether a marker is what a scenario without one has.
pub(super) fn is_default(marker: &Marker, graph: Option<&Topology>) -> bool {
    let mut default = defaults(StepMarker::read);
    if let (ValueByPort::All(QueueLengthThreshold::Bytes(base)), Some(graph)) = (&default.k, graph)
        && let Some(by_rate) = thresholds(graph, *base)
    {
        default.k = by_rate;
    }
    *marker == Marker::StepMarker(default)
}

/// Thresholds in proportion to the rates; `None` if no port is faster than 10 Gb/s.
fn thresholds(graph: &Topology, base: Bytes) -> Option<ValueByPort<QueueLengthThreshold>> {
    let rates: BTreeSet<u64> = switch_ports(graph).map(|port| graph.channel(port).rate.0).collect();
    if rates.last().is_none_or(|fastest| *fastest <= MARKER_RATE.0) {
        return None;
    }
    let scaled = |rate: u64| {
        let bytes = u128::from(base.0) * u128::from(rate.max(MARKER_RATE.0)) / u128::from(MARKER_RATE.0);
        QueueLengthThreshold::Bytes(Bytes(bytes as u64))
    };
    Some(match rates.len() {
        1 => ValueByPort::All(scaled(*rates.first().expect("it has one"))),
        _ => ValueByPort::Rows(
            rates.iter().map(|rate| (PortSelector::Rate(BitRate(*rate)), scaled(*rate))).collect(),
        ),
    })
}

/// Makes the default buffer that of chips of the fastest rate, and at least twice the headroom.
fn settle_buffer(
    ledger: &mut Ledger,
    graph: &Topology,
    overhead: FrameOverhead,
    mtu: Bytes,
    switch: &mut SwitchSpec,
) {
    const PATH: &str = "switch.buffer.size";
    let fastest = switch_ports(graph).map(|port| graph.channel(port).rate).max();
    let (true, Some(fastest)) = (ledger.is_default(PATH), fastest) else { return };
    let max_frame = overhead.frame_size(mtu.0 as u32, *Priority::ALL.end());
    let lossless = switch.pfc.as_ref().map_or(1, |pfc| pfc.priorities.len() as u32);
    let headroom = |port: PortId| {
        let (data, back) = (graph.channel(port.reverse()), graph.channel(port));
        let reaction = PfcSettings::reaction_time(switch.pfc.as_ref(), data.rate);
        LinkHeadroom::new(data, back, max_frame, overhead, reaction, lossless).headroom_bytes().0
    };
    let of_chip = |rows: &[(u64, u64)]| {
        let row = rows.iter().find(|(gbps, _)| fastest <= BitRate::gbps(*gbps)).or(rows.last());
        Bytes::kb(row.map_or(0, |(_, kb)| *kb))
    };
    let largest = switch_ports(graph).map(headroom).max().unwrap_or_default();
    let (chip, needed) = match &switch.buffer {
        BufferPolicy::PerPort(_) => (of_chip(&PORT_BUFFERS), largest),
        BufferPolicy::IdealOutputQueued(own) => (own.size, largest),
        BufferPolicy::Shared(_) => {
            let sum = |node| graph.nodes()[node].ports.iter().map(|port| headroom(*port)).sum();
            (of_chip(&SHARED_BUFFERS), graph.switches().map(sum).max().unwrap_or_default())
        }
    };
    let needed = Bytes((2 * needed).next_multiple_of(1_000));
    let size = chip.max(needed);
    let own = match &mut switch.buffer {
        BufferPolicy::PerPort(own) => &mut own.size,
        BufferPolicy::Shared(own) => &mut own.size,
        BufferPolicy::IdealOutputQueued(own) => &mut own.size,
    };
    if *own == size {
        return;
    }
    *own = size;
    let why = if needed > chip {
        "twice the headroom of the links".to_owned()
    } else {
        format!("that of switches with ports of {fastest}")
    };
    ledger.settle(PATH, size.toml(), Origin::Computed(why));
}

/// All ports of switches.
fn switch_ports(graph: &Topology) -> impl Iterator<Item = PortId> + '_ {
    all_ports(graph).filter(|port| graph.nodes()[graph.owner(*port)].kind == NodeKind::Switch)
}
