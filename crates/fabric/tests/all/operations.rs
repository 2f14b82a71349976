//! Operations on storage: READs and WRITEs of queue pairs and requests of TCP, several under way on one connection.

use crate::common::*;
use crate::rdma::{NO_CONTROL, pair, rdma, roce};
use pauseframe_fabric::{
    BufferPolicy, FlowRecord, FlowSpec, FlowStatus, KeptConnection, PerPortBuffer, ProtocolSettings,
    Settings, StorageOperation, TransportSettings,
};
use pauseframe_topology::Topology;
use pauseframe_topology::generate::star;
use pauseframe_units::{Bytes, Span};

const MTU: u64 = 1024;
/// Bytes on the wire: a full packet, what an AETH and a RETH add, a READ request, an acknowledgement.
const WIRE: u64 = MTU + 62 + 4 + 20;
const AETH: u64 = 4;
const RETH: u64 = 16;
const REQUEST: u64 = 78 + 4 + 20;
const ACK: u64 = 66 + 4 + 20;
/// Picoseconds of a byte at 100 Gb/s, and of two links.
const BYTE: u64 = 80;
const LINKS: u64 = 2_000_000;

fn hosts(count: u32) -> Topology {
    star(count, link(100, Span::from_us(1))).unwrap()
}

/// Operations of `initiator` on `target`, all posted at once on one connection.
fn operations(
    topology: &Topology,
    (initiator, target): (&str, &str),
    number: u32,
    all: &[(StorageOperation, u64)],
) -> Vec<FlowSpec> {
    let one = |(index, (operation, bytes)): (usize, &(StorageOperation, u64))| {
        let (size, reply) = if *operation == StorageOperation::Read { (0, *bytes) } else { (*bytes, 0) };
        let kept = KeptConnection { number, first: index == 0, last: index + 1 == all.len() };
        let flow = flow(topology, initiator, target, size);
        FlowSpec { reply, operation: Some(*operation), kept: Some(kept), ..flow }
    };
    all.iter().enumerate().map(one).collect()
}

fn records(topology: &Topology, settings: &Settings, flows: &[FlowSpec]) -> (Vec<FlowRecord>, u64) {
    let (mut network, ending) = run(topology, settings, flows);
    let lost = drops(&network, &ending).iter().sum();
    (network.flow_records(ending.now).clone(), lost)
}

#[test]
fn one_operation_takes_what_its_packets_take() {
    let topology = hosts(2);
    for packets in [1, 2, 3, 1000] {
        let bytes = packets * MTU;
        let of = |operation| operations(&topology, ("host0", "host1"), 0, &[(operation, bytes)]);
        let rest = (packets * WIRE + if packets > 1 { 2 * AETH } else { AETH }) * BYTE;
        let read = 2 * REQUEST * BYTE + LINKS + (WIRE + AETH) * BYTE + rest + LINKS;
        let write = (WIRE + RETH) * BYTE + (packets * WIRE + RETH) * BYTE + LINKS + 2 * ACK * BYTE + LINKS;
        for (operation, time) in [(StorageOperation::Read, read), (StorageOperation::Write, write)] {
            let (records, _) = records(&topology, &roce(NO_CONTROL), &of(operation));
            let record = records[0];
            assert_eq!(
                (record.status, fct(&record).0),
                (FlowStatus::Finished, time),
                "{operation:?} {packets}"
            );
            assert_eq!((record.ideal.0, record.delivered), (time, bytes), "{operation:?} {packets}");
        }
    }
}

#[test]
fn reads_in_sequence_fill_the_link_to_within_their_headers() {
    let (topology, count, packets) = (hosts(2), 200, 64);
    let all = vec![(StorageOperation::Read, packets * MTU); count];
    let (records, _) =
        records(&topology, &roce(NO_CONTROL), &operations(&topology, ("host0", "host1"), 0, &all));
    let response = (packets * WIRE + 2 * AETH) * BYTE;
    let begin = 2 * REQUEST * BYTE + LINKS + (WIRE + AETH) * BYTE;
    for (number, record) in records.iter().enumerate() {
        let expected = begin + (number as u64 + 1) * response + LINKS;
        assert_eq!((record.end.0, record.delivered), (expected, packets * MTU), "{number}");
    }
}

/// What follows a READ waits for it, and each flow has the bytes that it moved.
#[test]
fn operations_end_in_order() {
    let topology = hosts(2);
    let kinds = |n: u64| if n % 3 == 1 { StorageOperation::Write } else { StorageOperation::Read };
    let all: Vec<_> = (0..60).map(|n| (kinds(n), 1 + n * 7919 % 200_000)).collect();
    let flows = operations(&topology, ("host0", "host1"), 0, &all);
    let tcp = Settings {
        transports: vec![TransportSettings::of_tcp(std::sync::Arc::new(config()), priority(LOSSLESS))],
        ..roce(NO_CONTROL)
    };
    let requests: Vec<_> =
        flows.iter().map(|flow| FlowSpec { size: flow.size + 72, reply: flow.reply + 24, ..*flow }).collect();
    for (settings, flows) in [(roce(NO_CONTROL), flows), (tcp, requests)] {
        let (records, _) = records(&topology, &settings, &flows);
        assert!(records.is_sorted_by_key(|record| record.end));
        for (record, flow) in records.iter().zip(&flows) {
            assert_eq!((record.status, record.delivered), (FlowStatus::Finished, flow.size + flow.reply));
        }
    }
}

/// Two targets answer one initiator: its link loses packets without PFC, and pauses the targets with it.
#[test]
fn responses_are_repaired_or_paused() {
    let topology = hosts(3);
    let all = vec![(StorageOperation::Read, 200 * MTU); 20];
    let flows: Vec<_> = [("host1", 0), ("host2", 1)]
        .into_iter()
        .flat_map(|(target, number)| operations(&topology, ("host0", target), number, &all))
        .collect();
    for selective_repeat in [false, true] {
        let mut transport = rdma(NO_CONTROL);
        if let ProtocolSettings::Rdma(rdma) = &mut transport.protocol {
            rdma.pair = pauseframe_rdma::QueuePairSettings { selective_repeat, ..pair() };
        }
        let lossy = Settings {
            buffer: BufferPolicy::PerPort(PerPortBuffer { size: Bytes(100_000) }),
            transports: vec![transport],
            nic_buffer: 20_000,
            ..settings(config())
        };
        let (records, lost) = records(&topology, &real_clocks(lossy), &flows);
        assert!(lost > 0);
        assert!(
            records
                .iter()
                .all(|record| (record.status, record.delivered) == (FlowStatus::Finished, 200 * MTU))
        );
        let again: u64 = records.iter().map(|record| u64::from(record.retransmits)).sum();
        assert!(again >= lost, "{again} sent again, {lost} lost");
    }
    let (records, lost) = records(&topology, &roce(NO_CONTROL), &flows);
    let again: u32 = records.iter().map(|record| record.retransmits).sum();
    assert_eq!((lost, again), (0, 0));
    // Each READ has half of the link.
    let last = records.iter().map(|record| record.end.0).max().unwrap();
    let whole = 40 * (200 * WIRE + 2 * AETH) * BYTE;
    assert!(last > whole && last < whole * 102 / 100, "{last} {whole}");
}
