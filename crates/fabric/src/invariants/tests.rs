//! Corrupts each counter once in the middle of a run; the check must name it.

use crate::common::*;
use crate::endpoint::state::Protocol;
use crate::frame::{FrameContent, Packet, PacketId};
use crate::ids::{HostId, SlotId, SwitchId};
use crate::network::Network;
use crate::partition::Partition;
use crate::settings::{BufferPolicy, HopChoice, Settings, SharedBuffer};
use crate::{ErrorModel, FailedElement, ScheduledFailure};
use pauseframe_topology::Topology;
use pauseframe_transport::Connection;
use pauseframe_units::{Bytes, PortId, Span, Time};

const HALF: Time = Time(300_000_000);

fn topology() -> Topology {
    star_of(&[("a", link(10, Span::ZERO)), ("b", link(10, Span::ZERO)), ("c", link(1, Span::from_us(1)))])
}

/// Two senders to a slow link, stopped while packets wait everywhere; returns the switch port of the slow link.
fn half_way(shared: bool) -> (Network, PortId) {
    let topology = topology();
    let mut settings = lossless(config(), 100_000);
    if shared {
        settings.buffer = BufferPolicy::Shared(SharedBuffer {
            size: Bytes(400_000),
            alpha: 0.5,
            reserved: Bytes(1_000),
            egress_pool: None,
        });
    }
    let flows = ["a", "b"].map(|from| flow(&topology, from, "c", 1_000_000));
    let (network, _) = run_until(&topology, &settings, &flows, HALF);
    (network, port(&topology, "s", "c"))
}

/// The same traffic before its start, with the switch and the hosts in two partitions.
fn divided() -> Network {
    let topology = topology();
    let flows = ["a", "b"].map(|from| flow(&topology, from, "c", 1_000_000));
    let mut network = build(&topology, &lossless(config(), 100_000), &flows);
    let switch = topology.find("s").expect("a node of the topology");
    let partition_of: Vec<u16> = topology.nodes().ids().map(|node| u16::from(node == switch)).collect();
    network.divide_into_partitions(&partition_of);
    network
}

/// The message of the check after `falsify` changed a counter of the partition.
fn complaint(shared: bool, falsify: impl FnOnce(&mut Partition, PortId)) -> String {
    let (mut network, slow) = half_way(shared);
    network.check_invariants(BARE).expect("all is well");
    falsify(network.last_partition(), slow);
    complaint_of(&mut network)
}

fn complaint_of(network: &mut Network) -> String {
    let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| network.check_invariants(BARE)));
    let said = looked.expect_err("the audit sees it");
    let literal = said.downcast_ref::<&str>().map(ToString::to_string);
    said.downcast_ref::<String>().cloned().or(literal).expect("a message")
}

/// A wrong counter in a partition on another thread is reported as an error.
#[test]
fn every_partition_is_checked() {
    let mut network = divided();
    proceed(&mut network, HALF);
    network.last_partition().ports.by_switch[SwitchId(0)].bytes -= 64;
    let said = network.check_invariants(|work| {
        let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        looked.map_err(|said| said.downcast_ref::<String>().cloned().unwrap_or_default())
    });
    let said = said.expect_err("the audit sees it").message;
    assert!(said.contains("s counts") && said.contains("in all its queues"), "{said}");
}

/// A run may end at the instant at which a cross-partition link comes back and its port sends.
#[test]
fn what_a_link_sends_as_it_is_back_is_in_one_place() {
    let mut network = divided();
    let link = port(&topology(), "a", "s").link();
    let failure = ScheduledFailure {
        is_silent: false,
        what: FailedElement::Link(link),
        down: Time(HALF.0 / 2),
        up: Some(HALF),
    };
    network.schedule_failures(vec![failure], Span::from_us(10));
    proceed(&mut network, HALF);
}

/// A receiver that has forgotten what it acknowledged.
#[test]
fn nothing_is_acknowledged_that_has_not_come() {
    let said = complaint(false, |partition, _| {
        let config = std::sync::Arc::new(config());
        let receiver =
            partition.endpoints.endpoints_mut().find(|end| end.key() & 1 == 1).expect("a receiver");
        let Protocol::Tcp(tcp) = &mut receiver.protocol else { panic!("it is one of TCP") };
        tcp.connection = Connection::accept(config, 1, 1);
    });
    assert!(said.contains("is acknowledged, and the other end has 0"), "{said}");
}

fn first_of(partition: &Partition, port: PortId) -> PacketId {
    partition.ports.slots[partition.ctx.hot.slot(port, 0)]
        .queue
        .head()
        .expect("packets wait for the slow link")
}

#[test]
fn a_backlog_is_the_sum_of_its_packets() {
    let said = complaint(false, |partition, slow| {
        let slot = partition.ctx.hot.slot(slow, 0);
        partition.ports.slots[slot].backlog += 1;
    });
    assert!(said.contains("the backlog of s:2 counts"), "{said}");
}

#[test]
fn an_account_is_the_sum_of_what_came_by_it() {
    let said = complaint(false, |partition, _| {
        let accounts = &mut partition.ports.ingress.accounts;
        let slot = accounts.iter().position(|account| account.bytes > 0).expect("some came");
        accounts[SlotId(slot as u32)].bytes -= 100;
    });
    assert!(said.contains("the ingress account of s:0 counts"), "{said}");
}

#[test]
fn a_switch_and_its_pool_are_the_sums_of_its_queues() {
    let said = complaint(true, |partition, _| partition.ports.by_switch[SwitchId(0)].bytes -= 64);
    assert!(said.contains("s counts") && said.contains("in all its queues"), "{said}");
    let said = complaint(true, |partition, _| partition.switching.switches[SwitchId(0)].pools[0].used -= 1);
    assert!(said.contains("a pool of s counts"), "{said}");
}

#[test]
fn a_packet_is_in_one_place() {
    let said = complaint(false, |partition, slow| {
        partition.endpoints.hosts[HostId(0)].receiving =
            partition.ports.slots[partition.ctx.hot.slot(slow, 0)].queue;
    });
    assert!(said.contains("a packet in the stack at a:0 is in two places"), "{said}");
    let said = complaint(false, |partition, _| {
        partition.ctx.packets.insert(Packet::new(FrameContent::Lost, 64, 0));
    });
    assert!(said.contains("1 packets are in no queue"), "{said}");
    let said = complaint(false, |partition, slow| {
        let index = first_of(partition, slow);
        partition.ctx.packets.remove(index);
        partition.ctx.packets.remove(index);
    });
    assert!(said.contains("given back twice"), "{said}");
}

#[test]
fn what_comes_goes_or_is_lost() {
    let said = complaint(false, |partition, slow| {
        partition.ports.ports[slow.reverse()].tx_packets += 1;
    });
    assert!(said.contains("have come to s"), "{said}");
    let said = complaint(false, |partition, _| partition.ports.by_switch[SwitchId(0)].discarded.bytes += 1);
    assert!(said.contains("have come to s"), "{said}");
}

#[test]
fn who_has_something_to_send_will() {
    let said = complaint(false, |partition, slow| partition.ports.ports[slow].tx_pending = false);
    assert!(said.contains("s:2 has something to send and will not"), "{said}");
}

#[test]
fn both_ends_of_a_link_agree_on_pauses() {
    let paused = |partition: &Partition| {
        let port = (0..6).map(PortId).find(|port| partition.ports.ports[*port].paused != 0);
        port.expect("the slow link has paused a sender")
    };
    let said = complaint(false, |partition, _| {
        let port = paused(partition);
        partition.ports.ports[port].paused = 0;
        partition.ports.ports[port].tx_pending = true;
    });
    assert!(said.contains("is not paused, its peer has asked for a pause"), "{said}");
    for shared in [false, true] {
        let said = complaint(shared, |partition, _| {
            let slot = partition.ctx.hot.slot(paused(partition), 0);
            partition.ports.ingress.accounts[slot].pause_sent = false;
        });
        assert!(said.contains("does not ask for a pause") || said.contains("has asked for none"), "{said}");
    }
}

/// A flow leaves a slow path, so the leaf of its receiver holds packets; a timer releases them when they go on at the latest, or before.
#[test]
fn held_packets_have_a_timer() {
    let topology = slow_and_fast();
    let settings =
        Settings { hop_choice: Some(HopChoice::ConWeave(CONWEAVE)), ..lossless(config(), 100_000) };
    for timer in [None, Some(Time::MAX)] {
        let mut network = build(&topology, &settings, &[flow(&topology, "a", "b", 3_000_000)]);
        let mut now = Time::ZERO;
        loop {
            now += Span::from_us(1);
            assert_eq!(proceed(&mut network, now).now, now, "it ends before a packet is held");
            network.check_invariants(BARE).expect("all is well");
            let switches = &mut network.last_partition().switching.switches;
            if switches
                .iter_mut()
                .filter_map(|switch| switch.conweave.as_mut())
                .any(|state| state.set_hold_timers(timer))
            {
                break;
            }
        }
        let said = complaint_of(&mut network);
        assert!(said.contains("the timer of packets held for b is at"), "{timer:?}: {said}");
    }
}

/// Regression: a damaged frame whose link then failed was not counted.
#[test]
fn damaged_frames_on_a_wire_that_fails_are_counted() {
    let topology = topology();
    let flows = ["a", "b"].map(|from| flow(&topology, from, "c", 100_000));
    let mut network = build(&topology, &settings(config()), &flows);
    let wire = port(&topology, "a", "s");
    network.add_error_models(&[(wire, ErrorModel::FrameErrors(1.0))], &(Time::ZERO..Time::MAX));
    let (down, up) = (Time(1_000_000), Some(Time(9_000_000)));
    network.schedule_failures(
        vec![ScheduledFailure { is_silent: false, what: FailedElement::Link(wire.link()), down, up }],
        Span::from_ms(1),
    );
    let ending = proceed(&mut network, HALF);
    let report = report(&network, &ending, wire);
    assert!(report.tx_packets > 0);
    assert_eq!(report.lost.iter().sum::<u64>(), report.tx_packets);
}

/// A packet routed to a wrong port never touches a queue of another node.
#[test]
fn a_switch_that_is_led_to_a_port_of_another_node_stops() {
    for (elsewhere, whose) in [(("a", "s"), "a:0"), (("c", "s"), "c:0")] {
        let (mut network, _) = half_way(false);
        let elsewhere = port(&topology(), elsewhere.0, elsewhere.1);
        let partition = network.last_partition();
        let rows: Vec<u32> = partition.ctx.packets.iter().map(|packet| packet.route).collect();
        for row in rows {
            partition.switching.paths.store_path(row, &[elsewhere, elsewhere]);
        }
        let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| proceed(&mut network, Time::MAX)));
        let said = ran.expect_err("it is not its own port");
        let said = said.downcast_ref::<String>().expect("a message");
        assert_eq!(*said, format!("s was led to {whose}, which is not its own"));
    }
}
