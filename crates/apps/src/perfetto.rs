//! The time lines of a replay as a Perfetto trace: a process for each job, a thread for each rank, a slice for each stretch.
//!
//! The subset of `perfetto.protos.Trace` that this takes; times are nanoseconds, as in the format.

use crate::application::Application;
use crate::rank::Stretch;
use pauseframe_units::Time;
use prost::Message;

/// `Trace`.
#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packet: Vec<TracePacket>,
}

/// `TracePacket`.
#[derive(Clone, PartialEq, Message)]
struct TracePacket {
    #[prost(uint64, optional, tag = "8")]
    timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    trusted_packet_sequence_id: u32,
    #[prost(message, optional, tag = "11")]
    track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "60")]
    track_descriptor: Option<TrackDescriptor>,
}

/// `TrackEvent`.
#[derive(Clone, PartialEq, Message)]
struct TrackEvent {
    #[prost(int32, tag = "9")]
    kind: i32,
    #[prost(uint64, tag = "11")]
    track_uuid: u64,
    #[prost(string, repeated, tag = "22")]
    categories: Vec<String>,
    #[prost(string, tag = "23")]
    name: String,
}

/// `TrackEvent.Type`.
const SLICE_BEGIN: i32 = 1;
const SLICE_END: i32 = 2;

/// `TrackDescriptor`.
#[derive(Clone, PartialEq, Message)]
struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    uuid: u64,
    #[prost(message, optional, tag = "3")]
    process: Option<ProcessDescriptor>,
    #[prost(message, optional, tag = "4")]
    thread: Option<ThreadDescriptor>,
}

/// `ProcessDescriptor`.
#[derive(Clone, PartialEq, Message)]
struct ProcessDescriptor {
    #[prost(int32, tag = "1")]
    pid: i32,
    #[prost(string, tag = "6")]
    process_name: String,
}

/// `ThreadDescriptor`.
#[derive(Clone, PartialEq, Message)]
struct ThreadDescriptor {
    #[prost(int32, tag = "1")]
    pid: i32,
    #[prost(int32, tag = "2")]
    tid: i32,
    #[prost(string, tag = "5")]
    thread_name: String,
}

/// A job and the time lines of its ranks.
#[derive(Clone, Debug)]
pub struct JobTimeline<'a> {
    /// The name of its process.
    pub name: &'a str,
    /// What it runs.
    pub application: &'a Application,
    /// One for each rank.
    pub ranks: Vec<&'a [Stretch]>,
}

/// The bytes of a trace that ui.perfetto.dev opens.
pub fn perfetto(jobs: &[JobTimeline]) -> Vec<u8> {
    let mut packet = Vec::new();
    for (pid, job) in (1..).zip(jobs) {
        let process = ProcessDescriptor { pid, process_name: job.name.to_owned() };
        let uuid = (pid as u64) << 32;
        packet.push(descriptor(TrackDescriptor { uuid, process: Some(process), thread: None }));
        for (rank, stretches) in (0_u32..).zip(&job.ranks) {
            let track_uuid = uuid + 1 + u64::from(rank);
            let thread = ThreadDescriptor { pid, tid: rank as i32 + 1, thread_name: format!("rank {rank}") };
            packet.push(descriptor(TrackDescriptor {
                uuid: track_uuid,
                process: None,
                thread: Some(thread),
            }));
            for stretch in *stretches {
                let name = job.application.programs[rank as usize].describe(stretch.step);
                let categories = vec![stretch.activity.name().to_owned()];
                let begin = TrackEvent { kind: SLICE_BEGIN, track_uuid, categories, name };
                packet.push(event(stretch.start, begin));
                let end = TrackEvent { kind: SLICE_END, track_uuid, ..TrackEvent::default() };
                packet.push(event(stretch.end, end));
            }
        }
    }
    Trace { packet }.encode_to_vec()
}

fn descriptor(descriptor: TrackDescriptor) -> TracePacket {
    TracePacket {
        trusted_packet_sequence_id: 1,
        track_descriptor: Some(descriptor),
        ..TracePacket::default()
    }
}

fn event(at: Time, event: TrackEvent) -> TracePacket {
    TracePacket {
        timestamp: Some(at.0 / 1000),
        trusted_packet_sequence_id: 1,
        track_event: Some(event),
        ..TracePacket::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::{Pattern, Shape, generate};
    use crate::ideal::{IdealNetwork, Sharing, run};
    use crate::{Options, RankReport};
    use pauseframe_units::{BitRate, Span};
    use std::sync::Arc;

    #[test]
    fn a_trace_has_a_thread_for_each_rank_and_slices_that_add_up() {
        let shape = Shape { ranks: 3, bytes: 1000, compute: Span::from_us(5), iterations: 2 };
        let application = Arc::new(generate(&Pattern::Pipeline, shape).unwrap());
        let network =
            IdealNetwork { latency: Span::from_us(1), rate: BitRate::gbps(8), sharing: Sharing::Nics };
        let options = Options { timeline: true, ..Options::default() };
        let replay = run(Arc::clone(&application), options, network).unwrap();
        let reports: Vec<RankReport> = replay.ranks().collect();
        let ranks = reports.iter().map(|report| report.stretches).collect();
        let bytes = perfetto(&[JobTimeline { name: "pipe", application: &application, ranks }]);
        let trace = Trace::decode(bytes.as_slice()).unwrap();
        let threads: Vec<&ThreadDescriptor> = trace
            .packet
            .iter()
            .filter_map(|packet| packet.track_descriptor.as_ref()?.thread.as_ref())
            .collect();
        assert_eq!(
            threads.iter().map(|thread| thread.thread_name.as_str()).collect::<Vec<_>>(),
            ["rank 0", "rank 1", "rank 2"]
        );
        for (rank, report) in reports.iter().enumerate() {
            let mut waiting = 0;
            let mut compute = 0;
            let mut category = String::new();
            for packet in &trace.packet {
                let Some(event) = packet.track_event.as_ref() else { continue };
                if event.track_uuid != (1 << 32) + 1 + rank as u64 {
                    continue;
                }
                let total = if event.kind == SLICE_BEGIN {
                    category.clone_from(&event.categories[0]);
                    -1
                } else {
                    1
                } * packet.timestamp.unwrap() as i64;
                *(if category == "compute" { &mut compute } else { &mut waiting }) += total;
            }
            assert_eq!(compute as u64, report.totals.compute.0 / 1000);
            assert_eq!(waiting as u64, report.totals.waiting.0 / 1000);
        }
        assert_eq!(reports[2].totals.waiting, Span::from_us(10 + 2 + 2) + Span::from_ns(2 * 32));
    }
}
