//! Disciplines with a state for each queue: they know how long packets have waited, and drop or mark at departure.

use super::QueueDiscipline;
use super::codel::CodelQueue;
use super::fq_codel::FqCodelQueue;
use crate::frame::{Packet, PacketFifo, PacketId, PacketPool};
use crate::settings::CodelSettings;
use pauseframe_transport::EcnCodepoint;
use pauseframe_units::{Span, Time};
use std::fmt::Debug;

/// A discipline with a state for each queue.
pub(crate) trait TimedDiscipline: Debug {
    /// Moves the packet that leaves next to the front of the queue, and takes out those that are dropped before it. Changes nothing if that packet is
    /// there and has not left.
    fn choose_next(&mut self, leaving: &mut Departure);

    /// The chosen packet has left.
    fn on_departure(&mut self);

    /// Takes out packets to make room for a new one. If it takes none, the new one is dropped.
    fn evict(&mut self, leaving: &mut Departure);

    /// Packets that are not in the queue of the port.
    fn fifos(&self) -> Vec<PacketFifo>;

    /// Puts all packets into `queue` and forgets everything else.
    fn reset(&mut self, queue: &mut PacketFifo, packets: &mut PacketPool);
}

/// A queue from which packets leave, and what is decided about them.
pub(crate) struct Departure<'a> {
    /// The queue of the port; arrivals are appended to it.
    pub(crate) queue: &'a mut PacketFifo,
    pub(crate) packets: &'a mut PacketPool,
    /// Bytes of all waiting packets, wherever they are.
    pub(crate) backlog: u64,
    pub(crate) now: Time,
    pub(crate) decision: Decision,
}

/// What a discipline has decided.
#[derive(Default)]
pub(crate) struct Decision {
    /// Packets taken out to be dropped; they still count in [`Departure::backlog`].
    pub(crate) dropped: Vec<PacketId>,
    /// The packet chosen now, at the front of the queue; `None`: none waits, or it had been chosen before.
    pub(crate) chosen: Option<PacketId>,
    /// The chosen packet gets CE.
    pub(crate) mark: bool,
    /// How long the chosen packet has waited.
    pub(crate) sojourn: Span,
    /// Flows that joined the new ones.
    pub(crate) new_flows: u64,
}

impl Departure<'_> {
    /// Chooses a packet that has waited for `sojourn`, and puts it at the front of the queue.
    pub(crate) fn choose(&mut self, index: PacketId, sojourn: Span, mark: bool) {
        self.queue.push_front(self.packets, index);
        (self.decision.chosen, self.decision.sojourn, self.decision.mark) = (Some(index), sojourn, mark);
    }
}

/// What a discipline has to know of a packet.
pub(crate) struct TimedPacket {
    pub(crate) size: u32,
    pub(crate) sojourn: Span,
    pub(crate) is_ect: bool,
}

impl TimedPacket {
    pub(crate) fn of(packet: &Packet, now: Time) -> TimedPacket {
        TimedPacket {
            size: u32::from(packet.size),
            sojourn: now - packet.at,
            is_ect: packet.ecn_codepoint() != EcnCodepoint::NotEct,
        }
    }
}

/// The state of a queue; disciplines without one have none.
#[derive(Debug)]
pub(crate) enum TimedQueue {
    None,
    Codel(CodelQueue),
    FqCodel(Box<FqCodelQueue>),
}

impl TimedQueue {
    /// An empty queue. `mtu`: bytes of the largest frame; `seed` decides the hash of flows.
    pub(crate) fn new(queue: QueueDiscipline, settings: CodelSettings, mtu: u32, seed: u64) -> TimedQueue {
        match queue {
            QueueDiscipline::Codel => TimedQueue::Codel(CodelQueue::new(settings, mtu)),
            QueueDiscipline::FqCodel => TimedQueue::FqCodel(Box::new(FqCodelQueue::new(settings, mtu, seed))),
            _ => TimedQueue::None,
        }
    }

    pub(crate) fn discipline(&self) -> Option<&dyn TimedDiscipline> {
        match self {
            TimedQueue::None => None,
            TimedQueue::Codel(queue) => Some(queue),
            TimedQueue::FqCodel(queue) => Some(&**queue),
        }
    }

    pub(crate) fn discipline_mut(&mut self) -> Option<&mut dyn TimedDiscipline> {
        match self {
            TimedQueue::None => None,
            TimedQueue::Codel(queue) => Some(queue),
            TimedQueue::FqCodel(queue) => Some(&mut **queue),
        }
    }
}
