//! The switch queue of pFabric (Alizadeh et al., SIGCOMM 2013, §4.2): priority dropping and priority dequeueing.
//!
//! A packet's rank is what its flow had left when the packet was sent (`Packet::remaining`); less is better. A full queue drops the packet of the
//! worst rank, and of equal ones the latest, which may be the new packet. For dequeueing, the packet of the best rank selects a flow, and the
//! earliest packet of that flow is sent, so packets of a flow stay in order. Left out: the comparator tree of the hardware (§4.3): queues are a few
//! dozen packets long and are searched.

use super::Discipline;
use crate::frame::{PacketFifo, PacketId, PacketPool};

/// The packets of a FIFO, each with its predecessor.
fn with_predecessors(queue: PacketFifo, packets: &PacketPool) -> impl Iterator<Item = (PacketId, PacketId)> {
    let step = |(_, index): &(PacketId, PacketId)| {
        let next = packets.next_in_fifo(*index)?;
        Some((*index, next))
    };
    std::iter::successors(queue.head().map(|head| (PacketId::NONE, head)), step)
}

/// pFabric's queue.
pub(super) struct Pfabric;

impl Discipline for Pfabric {
    const RANKED: bool = true;

    /// Moves the earliest packet of the best-ranked flow to the front.
    fn choose_next(queue: &mut PacketFifo, packets: &mut PacketPool) {
        let best = with_predecessors(*queue, packets)
            .min_by_key(|(_, index)| packets[*index].pfabric_rank());
        let Some((_, best)) = best else { return };
        let flow = packets[best].destination_endpoint_key();
        let first = with_predecessors(*queue, packets).find(|(_, index)| packets[*index].destination_endpoint_key() == flow);
        if let Some((before, index)) = first.filter(|(before, _)| *before != PacketId::NONE) {
            queue.unlink(packets, before, index);
            queue.push_front(packets, index);
        }
    }

    /// Removes the packet of the worst rank, if `newcomer` is better.
    fn evict_for(queue: &mut PacketFifo, packets: &mut PacketPool, newcomer: PacketId) -> Option<PacketId> {
        // `max_by_key` returns the last of equal ranks.
        let worst = with_predecessors(*queue, packets).max_by_key(|(_, index)| packets[*index].pfabric_rank());
        let (before, index) = worst?;
        if packets[index].pfabric_rank() <= packets[newcomer].pfabric_rank() {
            return None;
        }
        queue.unlink(packets, before, index);
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Packet;
    use crate::queue::contract::segment;
    use pauseframe_units::Time;

    /// A queue of packets of (flow, remaining).
    fn queue_of(ranks: &[(u32, u32)]) -> (PacketPool, PacketFifo) {
        let (mut packets, mut queue) = (PacketPool::new(), PacketFifo::EMPTY);
        for (number, (to, remaining)) in ranks.iter().enumerate() {
            let packet = Packet { at: Time(number as u64), ..segment(*to, *remaining) };
            let index = packets.insert(packet);
            queue.push_back(&mut packets, index);
        }
        (packets, queue)
    }

    fn name(packet: &Packet) -> (u32, u32) {
        (packet.destination_endpoint_key().unwrap(), packet.pfabric_rank())
    }

    fn content(packets: &PacketPool, queue: PacketFifo) -> Vec<(u32, u32)> {
        with_predecessors(queue, packets).map(|(_, index)| name(&packets[index])).collect()
    }

    fn drain(packets: &mut PacketPool, queue: &mut PacketFifo) -> Vec<(u32, u32)> {
        let mut out = Vec::new();
        while !queue.is_empty() {
            Pfabric::choose_next(queue, packets);
            out.extend(queue.pop_front(packets).map(|index| name(&packets[index])));
        }
        out
    }

    #[test]
    fn the_flow_with_the_least_left_goes_first_in_its_own_order() {
        let (mut packets, mut queue) = queue_of(&[(8, 90), (2, 50), (8, 80), (4, 60), (2, 40), (8, 10)]);
        // Flow 8 has the best rank, in its last packet: its earliest goes. Then 8 again; 8's last; then flow 2.
        let sent = [(8, 90), (8, 80), (8, 10), (2, 50), (2, 40), (4, 60)];
        assert_eq!(drain(&mut packets, &mut queue), sent);
        // What is drained can be filled again.
        let index = packets.insert(segment(0, 0));
        assert!(queue.push_back(&mut packets, index));
    }

    #[test]
    fn equal_ranks_are_served_as_they_came() {
        let ranks = [(3, 7), (1, 7), (3, 7), (2, 7)];
        let (mut packets, mut queue) = queue_of(&ranks);
        assert_eq!(drain(&mut packets, &mut queue), ranks);
    }

    #[test]
    fn the_worst_is_given_up_and_the_last_of_equals() {
        let (mut packets, mut queue) = queue_of(&[(1, 70), (2, 90), (3, 90), (4, 20)]);
        let new = |packets: &mut PacketPool, remaining| packets.insert(segment(0, remaining));
        // Not better than the worst: it is itself the one to go.
        let equal = new(&mut packets, 90);
        assert_eq!(Pfabric::evict_for(&mut queue, &mut packets, equal), None);
        let better = new(&mut packets, 30);
        let victim = Pfabric::evict_for(&mut queue, &mut packets, better).unwrap();
        assert_eq!(name(&packets[victim]), (3, 90));
        assert_eq!(content(&packets, queue), [(1, 70), (2, 90), (4, 20)]);
        let mut left = 3;
        while Pfabric::evict_for(&mut queue, &mut packets, better).is_some() {
            left -= 1;
        }
        assert_eq!((left, content(&packets, queue)), (1, vec![(4, 20)]));
        // The tail was taken out on the way: the chain still ends where it should.
        queue.push_back(&mut packets, better);
        assert_eq!(content(&packets, queue).len(), 2);
    }
}
