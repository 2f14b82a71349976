//! Estimates before the run how much data a scenario records, because a wrong unit in `record.series.every`
//! would fill memory and disk.

use crate::spec::{PacketsSpec, RecordSpec, SeriesSpec, WorkloadKind, WorkloadSpec};
use pauseframe_fabric::{matches_glob, matching_ports};
use pauseframe_schema::error::Problem;
use pauseframe_topology::Topology;
use pauseframe_units::{Priority, Span};
use std::collections::BTreeSet;

/// Default maximum number of rows in the series of a run.
pub(crate) const SERIES_ROWS_MAX: u64 = 20_000_000;
/// Default maximum number of packets that a run captures.
const PACKETS_MAX: u64 = 20_000_000;
/// Memory of a row of the series in bytes: time, value, and the indices of metric and entity.
const ROW_BYTES: u64 = 24;
/// Bytes of a packet in the capture file: headers, options and the surrounding pcapng block.
const PACKET_BYTES: u64 = 120;
/// Memory of open flows of a workload, and of one, in bytes: both ends of a connection.
const OPEN_FLOWS_MAX: f64 = 4e9;
const OPEN_FLOW_BYTES: f64 = 1_300.0;
/// Number of metrics of a flow: goodput, cwnd, ssthresh, srtt, alpha.
const METRICS_OF_FLOW: u64 = 5;
/// Size of the shortest Ethernet frame with preamble and gap, in bits.
const SHORTEST_FRAME: f64 = 84.0 * 8.0;

/// The parts of a scenario that the estimate needs.
pub(crate) struct Asked<'a> {
    pub(crate) record: &'a RecordSpec,
    pub(crate) stop: Option<Span>,
    pub(crate) workloads: &'a [WorkloadSpec],
    /// All priorities that packets can have, and the lossless ones among them.
    pub(crate) priorities: &'a BTreeSet<Priority>,
    pub(crate) lossless: &'a [Priority],
    pub(crate) topology: &'a Topology,
}

impl Asked<'_> {
    /// The first workload or recording in the file `place` that is too large. Without a stop time the length of the run
    /// is unknown; the series then ends at its row limit.
    pub(crate) fn too_large(&self, place: &str) -> Option<Problem> {
        if let Some(problem) = self.open_flows(place) {
            return Some(problem);
        }
        let series = self.record.series.as_ref().and_then(|spec| self.series(spec));
        let (path, value, message, hint) =
            series.or_else(|| self.record.packets.as_ref().and_then(|spec| self.packets(spec)))?;
        let hint = format!("{hint}, or allow it with --force-large (in Python force_large=True)");
        let (path, place) = (path.to_owned(), place.to_owned());
        Some(Problem { path, place, line: None, value, message, hint })
    }

    /// A workload whose flows pile up, because they begin faster than links can end them.
    fn open_flows(&self, place: &str) -> Option<Problem> {
        let end = self.stop?;
        let (index, open) = self.workloads.iter().enumerate().find_map(|(index, workload)| {
            let open = workload.kind.open_loop(self.topology, end)?;
            (open.backlog * OPEN_FLOW_BYTES > OPEN_FLOWS_MAX).then_some((index, open))
        })?;
        let bytes = (open.backlog * OPEN_FLOW_BYTES) as u64;
        Some(Problem {
            path: format!("workload.{index}"),
            place: place.to_owned(),
            line: None,
            value: format!("\"{}\"", self.workloads[index].name),
            message: format!(
                "about {} of its flows are open at the end, {} of memory: they begin faster than the links of the hosts can end them",
                million(open.backlog as u64),
                gigabytes(bytes)
            ),
            hint: "lower the rate of arrivals, or end the run earlier (stop), or allow it with --force-large (in Python \
                   force_large=True)"
                .to_owned(),
        })
    }

    fn series(&self, spec: &SeriesSpec) -> Option<Flaw> {
        let times = self.stop?.0 / spec.every.0.max(1);
        let lossless = self.priorities.iter().filter(|p| self.lossless.contains(p)).count() as u64;
        let metrics = 2 * self.priorities.len() as u64 + 2 * lossless;
        let ports = matching_ports(&spec.ports, self.topology).len() as u64;
        let sampled = |w: &&WorkloadSpec| spec.flows.iter().any(|glob| matches_glob(glob, &w.name));
        let sampled = self.workloads.iter().filter(sampled).map(|w| self.flows(&w.kind, spec.every));
        let flows = sampled.fold(Flows::default(), |sum, of| Flows {
            count: sum.count + of.count,
            samples: sum.samples + of.samples,
        });
        let rows =
            times.saturating_mul(ports * metrics).saturating_add(flows.samples as u64 * METRICS_OF_FLOW);
        if rows <= SERIES_ROWS_MAX {
            return None;
        }
        let message = format!(
            "{times} samples of {ports} ports, and samples of about {:.0} flows while each is open, are {} rows, {} of \
             memory; up to {} are recorded",
            flows.count,
            million(rows),
            gigabytes(rows.saturating_mul(ROW_BYTES)),
            million(SERIES_ROWS_MAX),
        );
        Some((
            "record.series.every",
            format!("\"{}\"", spec.every),
            message,
            "lengthen it, or name fewer record.series.ports and record.series.flows",
        ))
    }

    /// Number of flows of a workload, and number of their samples.
    fn flows(&self, kind: &WorkloadKind, every: Span) -> Flows {
        let Some(end) = self.stop else { return Flows::default() };
        let every = every.as_secs_f64().max(1e-12);
        if let Some(open) = kind.open_loop(self.topology, end) {
            // Transfer time in an idle network, stretched by the queue of the flow's own link (M/G/1
            // processor sharing: 1 / (1 - load)).
            let transfer = open.serialisation / (1.0 - open.load.min(LOAD_MAX));
            let lifetime = (ROUND_TRIPS * self.round_trip() + transfer).min(end.as_secs_f64());
            // Even a flow that begins and ends between two samples is counted with one sample.
            return Flows { count: open.flows, samples: open.flows * (lifetime / every).max(1.0) };
        }
        let at_once = kind.at_once(self.topology.hosts().count() as u64) as f64;
        Flows { count: at_once, samples: at_once * end.as_secs_f64() / every }
    }

    /// Round-trip time in seconds of a path through three switches, without queues.
    fn round_trip(&self) -> f64 {
        let delays = self.topology.links().iter().map(|link| link.channels[0].delay.as_secs_f64());
        8.0 * delays.fold(0.0, f64::max)
    }

    fn packets(&self, spec: &PacketsSpec) -> Option<Flaw> {
        let ports = matching_ports(&spec.ports, self.topology);
        let rate = |port| self.topology.channel(port).rate.0 as f64;
        // Rates of both directions of the links.
        let bits: f64 = ports.iter().map(|port| rate(*port) + rate(port.reverse())).sum();
        let possible = self.stop.map_or(f64::INFINITY, |stop| bits * stop.0 as f64 * 1e-12 / SHORTEST_FRAME);
        let packets = spec.limit.min(possible as u64);
        if packets <= PACKETS_MAX {
            return None;
        }
        let message = format!(
            "up to {} packets, {} of file; up to {} are captured",
            million(packets),
            gigabytes(packets * PACKET_BYTES),
            million(PACKETS_MAX)
        );
        Some(("record.packets.limit", spec.limit.to_string(), message, "lower it"))
    }
}

/// Number of flows, and number of their samples.
#[derive(Clone, Copy, Default)]
struct Flows {
    count: f64,
    samples: f64,
}

/// Largest load for which the queueing time is computed.
const LOAD_MAX: f64 = 0.95;
/// Round-trip times from the SYN to the last FIN, in addition to the transmission of the data.
const ROUND_TRIPS: f64 = 4.0;

/// Path, value, message and hint of a mistake.
type Flaw = (&'static str, String, String, &'static str);

/// The 802.1p priorities that packets can have; each priority has its own samples.
pub(crate) fn priorities(
    transports: impl Iterator<Item = Priority>,
    workloads: &[WorkloadSpec],
    lanes: &[Priority],
    cnm: Option<Priority>,
) -> BTreeSet<Priority> {
    let sources = workloads.iter().filter_map(|workload| match &workload.kind {
        WorkloadKind::Udp(udp) => Some(udp.priority),
        _ => None,
    });
    transports.chain(sources).chain(lanes.iter().copied()).chain(cnm).collect()
}

fn million(count: u64) -> String {
    format!("{:.0} million", count as f64 / 1e6)
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}
