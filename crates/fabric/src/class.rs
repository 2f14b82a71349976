//! Settings of switches for each class: queue discipline, marker and share of the buffer.

use crate::marker::{InspectedPackets, Marker};
use crate::queue::QueueDiscipline;
use crate::settings::{
    BufferPolicy, CodelSettings, PerPortBuffer, Settings, SharedBuffer, TransportSettings,
};
use pauseframe_units::{Bytes, Priority};

/// The complete settings of one class.
#[derive(Clone, Debug)]
pub(crate) struct ClassPolicy {
    pub(crate) marker: Marker,
    pub(crate) queue: QueueDiscipline,
    /// Parameters of `queue`, if it has CoDel.
    pub(crate) codel: Option<CodelSettings>,
    /// Priority in which the headers of trimmed packets go on, if packets are trimmed.
    pub(crate) trim_to: Option<Priority>,
    pub(crate) alpha: f64,
    pub(crate) reserved: u64,
    /// Bytes of one egress queue where lossy classes have a fixed limit; `u64::MAX` with other buffers.
    pub(crate) limit: u64,
    /// Packets of one egress queue of a lossy class.
    pub(crate) packets: u32,
    /// Bytes of one egress queue, whatever the buffer (`switch.codel.memory_limit`).
    pub(crate) memory: u64,
}

impl ClassPolicy {
    /// The policy that `settings` give `priority`.
    pub(crate) fn new(settings: &Settings, priority: Priority) -> ClassPolicy {
        let class = settings.classes.iter().find(|class| class.priorities.contains(&priority));
        let (alpha, reserved, limit) = match settings.buffer {
            BufferPolicy::PerPort(PerPortBuffer { size }) => (0.0, Bytes::ZERO, size.0),
            BufferPolicy::Shared(SharedBuffer { alpha, reserved, .. }) => (alpha, reserved, u64::MAX),
            BufferPolicy::IdealOutputQueued(_) => (0.0, Bytes::ZERO, u64::MAX),
        };
        let own = class.and_then(|class| class.queue.map(|queue| (queue, class.codel)));
        let (queue, codel) = own.unwrap_or((settings.queue, settings.codel));
        let codel = queue.has_codel().then(|| codel.unwrap_or_else(|| CodelSettings::of(queue)));
        let marker = class.and_then(|class| class.marker.clone()).unwrap_or_else(|| settings.marker.clone());
        let packets = settings.queue_packets.unwrap_or(u32::MAX);
        ClassPolicy {
            // CoDel marks itself.
            marker: if codel.is_some() { Marker::NONE } else { marker },
            queue,
            codel,
            trim_to: queue
                .trims_packets()
                .then(|| trimmed_priority(&settings.transports, priority))
                .flatten(),
            alpha: class.and_then(|class| class.alpha).unwrap_or(alpha),
            reserved: class.and_then(|class| class.reserved).unwrap_or(reserved).0,
            limit,
            packets: codel.map_or(packets, |codel| packets.min(codel.limit)),
            memory: match codel {
                Some(codel) if queue == QueueDiscipline::FqCodel => codel.memory_limit.0,
                _ => u64::MAX,
            },
        }
    }

    /// Whether the marker must see every arrival, and not only packets that meet a long queue.
    pub(crate) fn needs_every_arrival(&self) -> bool {
        let asked = match self.marker.inspected_packets() {
            InspectedPackets::Waiting | InspectedPackets::All | InspectedPackets::CountedDepartures => true,
            // Each port then has its own threshold, so the class has none.
            InspectedPackets::Backlog(_) => self.marker.varies_by_port(),
            InspectedPackets::Departures | InspectedPackets::AllDepartures => false,
        };
        asked || self.packets < u32::MAX
    }

    /// Up to this backlog the marker marks nothing and is not called. 0 if it must see every packet, `u64::MAX` if it marks no arrivals.
    pub(crate) fn marking_threshold(&self) -> u64 {
        match self.marker.inspected_packets() {
            InspectedPackets::Backlog(bytes) if !self.marker.varies_by_port() => bytes,
            _ => u64::MAX,
        }
    }

    /// Whether a departing packet needs work beyond FIFO: by the discipline or the marker.
    pub(crate) fn needs_departure_work(&self) -> bool {
        let asked = matches!(
            self.marker.inspected_packets(),
            InspectedPackets::Departures | InspectedPackets::AllDepartures
        );
        asked || self.needs_every_arrival() || self.queue.reorders_packets()
    }
}

/// Where a class sends the headers of trimmed packets: the priority of control packets of the transport that uses the class.
fn trimmed_priority(transports: &[TransportSettings], priority: Priority) -> Option<Priority> {
    let uses = transports.iter().filter(|transport| transport.priority == priority);
    uses.filter_map(TransportSettings::rdma).find(|rdma| rdma.pair.unordered).map(|rdma| rdma.cnp_priority)
}
