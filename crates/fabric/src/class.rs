//! What the switches do with each class: its queue, its marker and its part of a shared buffer.

use crate::marker::{Asked, Marker};
use crate::queue::QueueDiscipline;
use crate::settings::{BufferPolicy, Settings, Transport};
use pauseframe_units::{Bytes, Priority};

/// The settings of one class, complete.
#[derive(Clone, Debug)]
pub(crate) struct ClassPolicy {
    pub(crate) marker: Marker,
    pub(crate) queue: QueueDiscipline,
    /// Priority in which the headers of trimmed packets go on, if packets are trimmed.
    pub(crate) trim_to: Option<Priority>,
    pub(crate) alpha: f64,
    pub(crate) reserved: u64,
    /// Bytes of one egress queue where lossy classes have a fixed limit; `u64::MAX` with other buffers.
    pub(crate) limit: u64,
    /// Packets of one egress queue of a lossy class.
    pub(crate) packets: u32,
}

impl ClassPolicy {
    /// What `settings` say about `priority`.
    pub(crate) fn new(settings: &Settings, priority: Priority) -> ClassPolicy {
        let class = settings.classes.iter().find(|class| class.priorities.contains(&priority));
        let marker = class.and_then(|class| class.marker.clone()).unwrap_or_else(|| settings.marker.clone());
        let (alpha, reserved, limit) = match settings.buffer {
            BufferPolicy::PerPort(size) => (0.0, Bytes::ZERO, size.0),
            BufferPolicy::Shared { alpha, reserved, .. } => (alpha, reserved, u64::MAX),
            BufferPolicy::IdealOutputQueued(_) => (0.0, Bytes::ZERO, u64::MAX),
        };
        let queue = class.and_then(|class| class.queue).unwrap_or(settings.queue);
        ClassPolicy {
            marker,
            queue,
            trim_to: queue.trims().then(|| trim_to(&settings.transports, priority)).flatten(),
            alpha: class.and_then(|class| class.alpha).unwrap_or(alpha),
            reserved: class.and_then(|class| class.reserved).unwrap_or(reserved).0,
            limit,
            packets: settings.queue_packets.unwrap_or(u32::MAX),
        }
    }

    /// Whether its queues must see every packet come, and not only those that meet a long queue.
    pub(crate) fn watches_arrivals(&self) -> bool {
        let asked = match self.marker.asked() {
            Asked::Waiting | Asked::All | Asked::CountedDepartures => true,
            // Then each port has a threshold of its own, and the one of the class says nothing.
            Asked::Backlog(_) => self.marker.varies(),
            Asked::Departures | Asked::AllDepartures => false,
        };
        asked || self.packets < u32::MAX
    }

    /// Up to this backlog its marker picks nothing, and need not be asked; `u64::MAX` where only being asked tells.
    pub(crate) fn mark_above(&self) -> u64 {
        match self.marker.asked() {
            Asked::Backlog(bytes) if !self.marker.varies() => bytes,
            _ => u64::MAX,
        }
    }

    /// Whether something is to be done when a packet leaves.
    pub(crate) fn watches_departures(&self) -> bool {
        let asked = matches!(self.marker.asked(), Asked::Departures | Asked::AllDepartures);
        asked || self.watches_arrivals() || self.queue.is_ranked()
    }
}

/// Where a class sends the headers of trimmed packets: the priority of control packets of the transport that uses the class.
fn trim_to(transports: &[Transport], priority: Priority) -> Option<Priority> {
    let uses = transports.iter().filter(|transport| transport.priority == priority);
    uses.filter_map(|transport| transport.rdma).find(|rdma| rdma.pair.unordered).map(|rdma| rdma.cnp_priority)
}
