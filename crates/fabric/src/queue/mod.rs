//! Queue disciplines: the order of service, and which packet is evicted from a full queue.
//!
//! Every queue is a chain of packets in the order of their arrival (`frame/chain.rs`); FIFO needs nothing else, and `wire/` implements it directly.
//! Any other discipline decides which packet leaves next and which is evicted for a new one. Each discipline is a file here and a line of the
//! registry (`docs/how-to/extend-the-core.md`); `switching/serving.rs` calls it. Those with a state for each queue are in `timed.rs`.

mod timed;

pub(crate) use timed::{Decision, Departure, TimedDiscipline, TimedPacket, TimedQueue};

use crate::frame::{PacketFifo as Chain, PacketId, PacketPool};

/// A queue discipline.
pub(crate) trait Discipline {
    /// Whether the order differs from FIFO. If not, the discipline is never called.
    const RANKED: bool;
    /// Whether a packet that finds no room may lose its payload instead of being dropped.
    const TRIMS: bool = false;
    /// Whether it is a [`TimedDiscipline`], which is called instead.
    const TIMED: bool = false;

    /// Moves the packet that leaves next to the front.
    fn choose_next(queue: &mut Chain, packets: &mut PacketPool);

    /// Removes the packet that is evicted for `newcomer`, which is not in the queue; `None`: `newcomer` itself is dropped.
    fn evict_for(queue: &mut Chain, packets: &mut PacketPool, newcomer: PacketId) -> Option<PacketId>;
}

macro_rules! registry {
    ($($name:literal => $file:ident::$kind:ident, $doc:literal;)+) => {
        $(mod $file;)+

        pauseframe_schema::choices! {
            /// The order of service within a class at a switch
            pub enum QueueDiscipline { $(#[doc = $doc] $kind = $name,)+ }
        }

        impl QueueDiscipline {
            pub(crate) fn reorders_packets(self) -> bool {
                match self { $(QueueDiscipline::$kind => $file::$kind::RANKED,)+ }
            }

            pub(crate) fn trims_packets(self) -> bool {
                match self { $(QueueDiscipline::$kind => $file::$kind::TRIMS,)+ }
            }

            /// Whether it has CoDel: a state for each queue, which drops or marks at departure.
            pub fn has_codel(self) -> bool {
                match self { $(QueueDiscipline::$kind => $file::$kind::TIMED,)+ }
            }

            pub(crate) fn choose_next(self, queue: &mut Chain, packets: &mut PacketPool) {
                match self { $(QueueDiscipline::$kind => $file::$kind::choose_next(queue, packets),)+ }
            }

            pub(crate) fn evict_for(
                self,
                queue: &mut Chain,
                packets: &mut PacketPool,
                newcomer: PacketId,
            ) -> Option<PacketId> {
                match self { $(QueueDiscipline::$kind => $file::$kind::evict_for(queue, packets, newcomer),)+ }
            }
        }
    };
}

registry! {
    "fifo" => fifo::Fifo, "First in, first out; what finds no room is dropped";
    "pfabric" => pfabric::Pfabric, "The flow with the least left first; the packet with the most left is dropped (pFabric)";
    "trim" => trim::Trim, "First in, first out; what finds no room goes on as a header, in the priority of CNPs (NSCC), or is dropped";
    "codel" => codel::Codel, "First in, first out; at departure CoDel drops or marks packets while all have waited too long (RFC 8289)";
    "fq_codel" => fq_codel::FqCodel, "Flows take turns, those that had nothing to send first; each has CoDel (RFC 8290)";
}

#[cfg(test)]
mod contract {
    //! Contract tests of every registered discipline, on random queues.

    use super::*;
    use crate::frame::{CompactTcpSegment, FrameContent, Packet, TcpOptionsId};
    use pauseframe_engine::{Rng, random_stream};
    use pauseframe_schema::value::Choice;
    use pauseframe_transport::{EcnCodepoint, TcpFlags, Timestamps};
    use pauseframe_units::Time;

    /// A segment of `to` with `remaining` bytes behind it.
    pub(super) fn segment(to: u32, remaining: u32) -> Packet {
        let (options, stamps, ecn, flags) =
            (TcpOptionsId::NONE, Timestamps::default(), EcnCodepoint::NotEct, TcpFlags::default());
        let carried = CompactTcpSegment {
            to,
            remaining,
            seq: 0,
            ack: 0,
            window: 0,
            options,
            stamps,
            len: 0,
            ecn,
            flags,
        };
        Packet::new(FrameContent::Segment(carried), 64, 0)
    }

    /// The numbers of the packets of a chain.
    fn numbers(queue: Chain, packets: &PacketPool) -> Vec<PacketId> {
        let mut copy = queue;
        std::iter::from_fn(|| copy.pop_front(packets)).collect()
    }

    fn packet(rng: &mut Rng) -> Packet {
        let to = rng.uniform_below(5) as u32;
        segment(to, rng.uniform_below(9) as u32)
    }

    fn random_queue(packets: &mut PacketPool, rng: &mut Rng) -> Chain {
        let mut queue = Chain::EMPTY;
        for place in 0..=rng.uniform_below(12) {
            let index = packets.insert(Packet { at: Time(place / 3), ..packet(rng) });
            queue.push_back(packets, index);
        }
        queue
    }

    fn sorted(mut numbers: Vec<PacketId>) -> Vec<PacketId> {
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn one_packet_is_brought_forward() {
        for (name, discipline) in QueueDiscipline::NAMES {
            let mut rng = random_stream(1, name, 0);
            for round in 0..500 {
                let mut packets = PacketPool::new();
                let mut queue = random_queue(&mut packets, &mut rng);
                let before = numbers(queue, &packets);
                discipline.choose_next(&mut queue, &mut packets);
                let after = numbers(queue, &packets);
                assert_eq!(sorted(after.clone()), sorted(before.clone()), "{name}, round {round}");
                if before != after {
                    assert!(
                        discipline.reorders_packets(),
                        "{name} is never asked, but has an order of its own"
                    );
                    let rest: Vec<PacketId> = before.into_iter().filter(|index| *index != after[0]).collect();
                    assert_eq!(after[1..], rest, "{name}, round {round}: the others keep their order");
                }
            }
        }
    }

    #[test]
    fn one_packet_is_given_up_or_none_and_the_end_of_the_chain_is_right() {
        for (name, discipline) in QueueDiscipline::NAMES {
            let mut rng = random_stream(2, name, 0);
            for round in 0..500 {
                let mut packets = PacketPool::new();
                let mut queue = random_queue(&mut packets, &mut rng);
                let mut expected = numbers(queue, &packets);
                let newcomer = packets.insert(packet(&mut rng));
                let victim = discipline.evict_for(&mut queue, &mut packets, newcomer);
                assert_ne!(victim, Some(newcomer), "{name}, round {round}: it is not in the queue");
                expected.retain(|index| Some(*index) != victim);
                queue.push_back(&mut packets, newcomer);
                expected.push(newcomer);
                assert_eq!(numbers(queue, &packets), expected, "{name}, round {round}");
            }
        }
    }
}
