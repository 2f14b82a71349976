//! The NIC: turns between destinations, sockets that wait for room, one queue for all.

use crate::common::*;
use pauseframe_fabric::{FlowSpec, FlowStatus, NicQueue, Settings};
use pauseframe_topology::generate::star;
use pauseframe_topology::{Channel, Topology};
use pauseframe_units::{Span, Time};

const US: u64 = 1_000_000;
const FULL: u64 = 1_230_400;

fn wire() -> Channel {
    link(10, Span::from_us(1))
}

/// Ends of the flows, in their order.
fn ends(topology: &Topology, settings: &Settings, flows: &[FlowSpec]) -> Vec<u64> {
    let (mut network, ending) = run(topology, settings, flows);
    assert_eq!(drops(&network, &ending), [0; 6]);
    let records = network.flow_records(ending.now);
    for record in &records {
        assert_eq!(record.status, FlowStatus::Finished);
        assert_eq!(record.delivered, record.spec.size);
        assert_eq!(record.retransmits + record.timeouts, 0);
    }
    records.iter().map(|record| record.end.0).collect()
}

/// Two destinations take turns, although one has a hundred times as much.
#[test]
fn destinations_take_turns() {
    let topology = star(3, wire()).unwrap();
    let flows = [flow(&topology, "host0", "host1", 5000 * MSS), flow(&topology, "host0", "host2", 50 * MSS)];
    let ends = ends(&topology, &settings(config()), &flows);
    // The first three packets are host1's: one met an idle NIC, one waits at the port, and the next turn was its
    // own before host2 had any. Then they alternate: host2's n-th packet is number 2 n + 2.
    assert_eq!(ends[1], (102 + 1) * FULL + 2 * US);
    assert_eq!(ends[0], (5050 + 1) * FULL + 2 * US);
}

/// Connections to one destination share its turns in the order of their packets, not among themselves.
#[test]
fn turns_are_of_destinations_not_of_connections() {
    let topology = star(3, wire()).unwrap();
    let to = |host: &str, packets: u64| flow(&topology, "host0", host, packets * MSS);
    let flows = [to("host1", 100), to("host1", 100), to("host2", 150)];
    let ends = ends(&topology, &settings(config()), &flows);
    // As above: host1's n-th packet, from any sender, is number 2 n - 3, host2's number 2 n + 2.
    assert_eq!(ends[0], (197 + 1) * FULL + 2 * US);
    assert_eq!(ends[2], (302 + 1) * FULL + 2 * US);
    assert_eq!(ends[1], (350 + 1) * FULL + 2 * US);
}

/// With a queue for each flow, flows to one destination take turns too.
#[test]
fn flows_take_turns_whatever_their_destination() {
    let topology = star(3, wire()).unwrap();
    let to = |host: &str, packets: u64| flow(&topology, "host0", host, packets * MSS);
    let settings = Settings { nic_queue: NicQueue::PerFlow, ..settings(config()) };
    let at = |packet: u64| (packet + 1) * FULL + 2 * US;
    // As above: the second flow's n-th packet is number 2 n + 2.
    let flows = [to("host1", 5000), to("host1", 50)];
    assert_eq!(ends(&topology, &settings, &flows), [at(5050), at(102)]);
    // Two packets of the first flow are ahead of the rounds of three. When it is over, the other two alternate.
    let flows = [to("host1", 100), to("host1", 100), to("host2", 150)];
    assert_eq!(ends(&topology, &settings, &flows), [at(294), at(299), at(350)]);
}

/// A flow holds no more than its share behind the ring, and a flow that waits for room holds up no other.
#[test]
fn a_flow_waits_for_room_in_its_own_queue() {
    let topology = star(3, wire()).unwrap();
    let bulk = |count: usize| vec![flow(&topology, "host0", "host1", 300 * MSS); count];
    for nic_buffer in [1, 10_000, 64_000] {
        let settings = Settings { nic_queue: NicQueue::PerFlow, nic_buffer, ..settings(config()) };
        let (network, ending) = run(&topology, &settings, &bulk(4));
        let nic = report(&network, &ending, port(&topology, "host0", "switch"));
        assert!(nic.backlog_max < 4 * (nic_buffer + FRAME) + FRAME, "{} bytes", nic.backlog_max);
        let ends = ends(&topology, &settings, &bulk(4));
        assert_eq!(*ends.iter().max().unwrap(), 1201 * FULL + 2 * US);
        let ahead = (nic_buffer / FRAME + 3) * 3 * FULL;
        assert!(*ends.iter().min().unwrap() >= 1201 * FULL + 2 * US - ahead, "{ends:?}");
        // A packet of another flow leaves behind the frame in service and the one in the ring.
        let late = FlowSpec { start: Time(100 * FULL + 1), ..flow(&topology, "host0", "host2", MSS) };
        let ends = self::ends(&topology, &settings, &[bulk(2), vec![late]].concat());
        assert!(ends[2] <= (100 + 3 + 1) * FULL + 2 * US, "{}", ends[2]);
    }
}

#[test]
fn in_a_fifo_the_later_flow_waits_for_all_of_the_earlier_one() {
    let topology = star(3, wire()).unwrap();
    let flows = [flow(&topology, "host0", "host1", 500 * MSS), flow(&topology, "host0", "host2", 50 * MSS)];
    let settings = Settings { nic_queue: NicQueue::Fifo, ..settings(config()) };
    let ends = ends(&topology, &settings, &flows);
    assert_eq!(ends, [501 * FULL + 2 * US, 551 * FULL + 2 * US]);
}

/// A full NIC pushes back: nothing is lost, and sockets get room in turn, so that equal flows end together.
#[test]
fn sockets_wait_for_room_in_turn() {
    let topology = star(2, wire()).unwrap();
    let flows = vec![flow(&topology, "host0", "host1", 300 * MSS); 4];
    let (apart, fifo) = (NicQueue::PerDestination, NicQueue::Fifo);
    for (nic_queue, nic_buffer) in [(apart, 1), (apart, 10_000), (fifo, 10_000), (fifo, 64_000)] {
        let settings = Settings { nic_queue, nic_buffer, ..settings(config()) };
        let (network, ending) = run(&topology, &settings, &flows);
        let nic = report(&network, &ending, port(&topology, "host0", "switch"));
        // A socket may hand over a packet while less than `nic_buffer` is held.
        assert!(nic.backlog_max < nic_buffer + FRAME, "{} bytes in a NIC of {nic_buffer}", nic.backlog_max);
        let ends = ends(&topology, &settings, &flows);
        assert_eq!(*ends.iter().max().unwrap(), 1201 * FULL + 2 * US);
        // The first flow alone fills the buffer before the others come: so much is it ahead.
        let ahead = (nic_buffer / FRAME + 3) * 3 * FULL;
        assert!(*ends.iter().min().unwrap() >= 1201 * FULL + 2 * US - ahead, "{ends:?}");
    }
}

/// Packets in the stack count too: a host that holds `nic_buffer` bytes there waits until the NIC has them, also when
/// the NIC is idle and puts each straight on the wire.
#[test]
fn sockets_wait_for_room_behind_the_stack_too() {
    let topology = star(2, wire()).unwrap();
    let flows = vec![flow(&topology, "host0", "host1", 100 * MSS); 2];
    for nic_buffer in [1, 2 * FRAME, 20_000, 200_000] {
        let settings = Settings { nic_buffer, tx_delay: Span::from_us(50), ..settings(config()) };
        let ends = ends(&topology, &settings, &flows);
        // At most nic_buffer, rounded up to packets, comes through the stack in 50 us.
        let in_stack = nic_buffer.div_ceil(FRAME);
        let rounds = 200_u64.div_ceil(in_stack);
        let bound = (rounds * (50 * US + in_stack.min(200) * FULL) + FULL + 2 * US) * 101 / 100;
        assert!(*ends.iter().max().unwrap() <= bound, "{ends:?} for {nic_buffer} bytes, bound {bound}");
    }
}

/// Strict priority at the NIC: what is urgent overtakes what waits, but not what is in service.
#[test]
fn a_higher_priority_goes_first() {
    let topology = star(3, wire()).unwrap();
    let mut settings = settings(config());
    settings.transports.push(settings.transports[0].clone());
    settings.transports[1].priority = priority(7);
    let mut flows =
        [flow(&topology, "host0", "host1", 500 * MSS), flow(&topology, "host0", "host1", 10 * MSS)];
    flows[1] = FlowSpec { transport: 1, start: Time(100 * FULL + 1), ..flows[1] };
    let ends = ends(&topology, &settings, &flows);
    let tagged = FULL + 4 * 800;
    assert_eq!(ends[1], 101 * FULL + 11 * tagged + 2 * US);
    // The first tagged packet comes to the switch four bytes later than its link falls idle.
    assert_eq!(ends[0], 501 * FULL + 10 * tagged + 3200 + 2 * US);
}
