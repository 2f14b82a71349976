//! Queue disciplines: in which order a queue gives its packets, and which it gives up when there is no room.
//!
//! Every queue is a chain of packets in the order of their arrival (`frame/chain.rs`); first in, first out needs nothing
//! else and is what `wire/` does by itself. Another discipline says two things about the chain: which packet is to
//! be first when one leaves, and which is to go when there is no room for a new one. A discipline is a file here and a line
//! of the registry (`docs/how-to/add-a-queue-discipline.md`); `switching/serving.rs` asks it.

use crate::frame::{Fifo as Chain, Packet, PacketId, PacketPool};

/// What a discipline has to do.
pub(crate) trait Discipline {
    /// Whether anything but the order of arrival counts: else it is never asked.
    const RANKED: bool;
    /// Whether a packet that finds no room may lose its payload instead of being dropped.
    const TRIMS: bool = false;

    /// Puts the packet first that is to leave next, among those that `may_go`.
    fn bring_forward(queue: &mut Chain, packets: &mut PacketPool, may_go: impl Fn(&Packet) -> bool);

    /// Takes the packet out that is to be given up for `newcomer`, which is not in the queue; `None`: that is itself the one to go.
    fn take_victim(queue: &mut Chain, packets: &mut PacketPool, newcomer: PacketId) -> Option<PacketId>;
}

macro_rules! registry {
    ($($name:literal => $file:ident::$kind:ident, $doc:literal;)+) => {
        $(mod $file;)+

        pauseframe_schema::choices! {
            /// The order of service within a class at a switch
            pub enum QueueDiscipline { $(#[doc = $doc] $kind = $name,)+ }
        }

        impl QueueDiscipline {
            pub(crate) fn is_ranked(self) -> bool {
                match self { $(QueueDiscipline::$kind => $file::$kind::RANKED,)+ }
            }

            pub(crate) fn trims(self) -> bool {
                match self { $(QueueDiscipline::$kind => $file::$kind::TRIMS,)+ }
            }

            pub(crate) fn bring_forward(
                self,
                queue: &mut Chain,
                packets: &mut PacketPool,
                may_go: impl Fn(&Packet) -> bool,
            ) {
                match self { $(QueueDiscipline::$kind => $file::$kind::bring_forward(queue, packets, may_go),)+ }
            }

            pub(crate) fn take_victim(
                self,
                queue: &mut Chain,
                packets: &mut PacketPool,
                newcomer: PacketId,
            ) -> Option<PacketId> {
                match self { $(QueueDiscipline::$kind => $file::$kind::take_victim(queue, packets, newcomer),)+ }
            }
        }
    };
}

registry! {
    "fifo" => fifo::Fifo, "First in, first out; what finds no room is dropped";
    "pfabric" => pfabric::Pfabric, "The flow with the least left first; the packet with the most left is dropped (pFabric)";
    "trim" => trim::Trim, "First in, first out; what finds no room goes on as a header, in the priority of CNPs (NSCC), or is dropped";
}

#[cfg(test)]
mod contract {
    //! What every discipline of the registry keeps to, on random queues.

    use super::*;
    use crate::frame::{Carried, Content, OptionsId};
    use pauseframe_engine::{Rng, stream};
    use pauseframe_schema::value::Choice;
    use pauseframe_transport::{Ecn, Flags, Stamps};
    use pauseframe_units::Time;

    /// A segment of `to` with `remaining` bytes behind it.
    pub(super) fn segment(to: u32, remaining: u32) -> Packet {
        let (options, stamps, ecn, flags) =
            (OptionsId::NONE, Stamps::default(), Ecn::NotEct, Flags::default());
        let carried =
            Carried { to, remaining, seq: 0, ack: 0, window: 0, options, stamps, len: 0, ecn, flags };
        Packet::new(Content::Segment(carried), 64, 0)
    }

    /// The numbers of the packets of a chain.
    fn numbers(queue: Chain, packets: &PacketPool) -> Vec<PacketId> {
        let mut copy = queue;
        std::iter::from_fn(|| copy.pop(packets)).collect()
    }

    fn packet(rng: &mut Rng) -> Packet {
        let to = rng.below(5) as u32;
        segment(to, rng.below(9) as u32)
    }

    fn random_queue(packets: &mut PacketPool, rng: &mut Rng) -> Chain {
        let mut queue = Chain::EMPTY;
        for place in 0..=rng.below(12) {
            let index = packets.add(Packet { at: Time(place / 3), ..packet(rng) });
            queue.push(packets, index);
        }
        queue
    }

    fn sorted(mut numbers: Vec<PacketId>) -> Vec<PacketId> {
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn what_is_brought_forward_may_go_and_nothing_is_lost() {
        for (name, discipline) in QueueDiscipline::NAMES {
            let mut rng = stream(1, name, 0);
            for round in 0..500 {
                let (mut packets, due) = (PacketPool::new(), Time(rng.below(4)));
                let mut queue = random_queue(&mut packets, &mut rng);
                let before = numbers(queue, &packets);
                discipline.bring_forward(&mut queue, &mut packets, |packet| packet.at <= due);
                let after = numbers(queue, &packets);
                assert_eq!(sorted(after.clone()), sorted(before.clone()), "{name}, round {round}");
                if before != after {
                    assert!(discipline.is_ranked(), "{name} is never asked, but has an order of its own");
                    assert!(packets[after[0]].at <= due, "{name}, round {round}: still in the pipeline");
                    let rest: Vec<PacketId> = before.into_iter().filter(|index| *index != after[0]).collect();
                    assert_eq!(after[1..], rest, "{name}, round {round}: the others keep their order");
                }
            }
        }
    }

    #[test]
    fn one_packet_is_given_up_or_none_and_the_end_of_the_chain_is_right() {
        for (name, discipline) in QueueDiscipline::NAMES {
            let mut rng = stream(2, name, 0);
            for round in 0..500 {
                let mut packets = PacketPool::new();
                let mut queue = random_queue(&mut packets, &mut rng);
                let mut expected = numbers(queue, &packets);
                let newcomer = packets.add(packet(&mut rng));
                let victim = discipline.take_victim(&mut queue, &mut packets, newcomer);
                assert_ne!(victim, Some(newcomer), "{name}, round {round}: it is not in the queue");
                expected.retain(|index| Some(*index) != victim);
                queue.push(&mut packets, newcomer);
                expected.push(newcomer);
                assert_eq!(numbers(queue, &packets), expected, "{name}, round {round}");
            }
        }
    }
}
