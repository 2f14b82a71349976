//! Queue pairs of `RoCEv2` at their endpoints: the state here, opening in `opening.rs`, packets in `packets.rs`.
//!
//! What applications do with them is the same as with TCP: the bytes of an exchange or of a message are a message of the queue pair. No
//! handshake takes place. Acknowledgements, NAKs and CNPs come from the NIC itself, so they wait for no room in its buffer.

mod opening;
mod packets;

use super::state::{Protocol, Reliable};
use crate::flow::{RdmaCounts, WindowTime};
use crate::frame::TelemetryId;
use crate::ids::{HostId, NicQueueId};
use crate::order::EndpointCounters;
use pauseframe_rdma::{Failure, QueuePair, QueuePairSettings, Stats};
use pauseframe_transport::ConnectionFailure;
use pauseframe_units::{PortId, Span, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the cards of all hosts of a partition keep beside their queue pairs.
#[derive(Debug, Default)]
pub(crate) struct RdmaCards {
    /// The settings of queue pairs by transport, line rate and the links that set a target delay.
    settings: BTreeMap<(u16, u64, u32), Arc<QueuePairSettings>>,
    /// Congestion notifications sent and received, by host and class.
    notifications: BTreeMap<(HostId, u8), [u64; 2]>,
    /// The load of the inputs of hosts, by the port that sends to them, if some card answers it with CNPs.
    inputs: BTreeMap<PortId, InputMeter>,
}

impl RdmaCards {
    /// Congestion notifications that a host has sent and received in a class.
    pub(crate) fn cnps(&self, host: HostId, class: u8) -> [u64; 2] {
        self.notifications.get(&(host, class)).copied().unwrap_or_default()
    }
}

/// The load of a card's input, by intervals.
#[derive(Debug, Default)]
struct InputMeter {
    /// Begin of this interval, and the bytes on the wire since.
    since: Time,
    bytes: u64,
    /// Bytes of the interval before.
    before: u64,
}

impl InputMeter {
    const INTERVAL: Span = Span::from_us(50);

    /// Counts a frame.
    fn count(&mut self, bytes: u64, now: Time) {
        self.begin_interval(now);
        self.bytes += bytes;
    }

    /// Bits per second during the last complete interval.
    fn load(&mut self, now: Time) -> f64 {
        self.begin_interval(now);
        self.before as f64 * 8e12 / InputMeter::INTERVAL.0 as f64
    }

    fn begin_interval(&mut self, now: Time) {
        let elapsed = now.saturating_since(self.since);
        if elapsed >= InputMeter::INTERVAL {
            self.before = if elapsed.0 < 2 * InputMeter::INTERVAL.0 { self.bytes } else { 0 };
            self.since.0 += elapsed.0 / InputMeter::INTERVAL.0 * InputMeter::INTERVAL.0;
            self.bytes = 0;
        }
    }
}

/// A queue pair at its endpoint. The queue pair comes first, since packets touch its beginning.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct QueuePairEnd {
    pub(crate) pair: QueuePair,
    /// The telemetry of the last data packet, which the next acknowledgement returns.
    pub(super) telemetry: TelemetryId,
    /// NIC queue and class of CNPs; with unordered delivery of all answers.
    control_queue: NicQueueId,
    control_class: u8,
    /// Counters at the last report to the traffic.
    told: Stats,
    window: WindowObserver,
}

/// Adds up the window of a sender from acknowledgement to acknowledgement.
#[derive(Debug, Default)]
struct WindowObserver {
    /// Bytes since the last acknowledgement; 0 before the first one.
    current: u64,
    since: Time,
    sum: WindowTime,
}

impl WindowObserver {
    /// Records of shorter flows stay packed.
    const LEAST: Span = Span::from_ms(10);

    fn on_ack(&mut self, window: Option<u64>, now: Time) {
        let Some(window) = window else { return };
        if self.current > 0 {
            self.sum.add(self.current, now.saturating_since(self.since));
        }
        (self.current, self.since) = (window.max(1), now);
    }

    fn take(&mut self) -> WindowTime {
        if self.sum.time < WindowObserver::LEAST {
            WindowTime::default()
        } else {
            std::mem::take(&mut self.sum)
        }
    }
}

impl QueuePairEnd {
    pub(super) fn take_counters(&mut self) -> EndpointCounters {
        let stats = *self.pair.stats();
        let told = std::mem::replace(&mut self.told, stats);
        EndpointCounters {
            retransmits: stats.retransmits - told.retransmits,
            timeouts: stats.timeouts - told.timeouts,
            ce_packets: stats.marked_received - told.marked_received,
            rdma: RdmaCounts {
                cnps_sent: stats.cnps_sent - told.cnps_sent,
                cnps_received: stats.cnps_received - told.cnps_received,
                repeats_by_nak: stats.retransmits_by_nak - told.retransmits_by_nak,
                repeats_by_timeout: stats.retransmits_by_timeout - told.retransmits_by_timeout,
                waited: stats.waited - told.waited,
                window: self.window.take(),
            },
            ..EndpointCounters::default()
        }
    }
}

impl Reliable for QueuePairEnd {
    const HAS_OPERATIONS: bool = true;
    const DISCARDS_COUNTS_BETWEEN_FLOWS: bool = false;
    const FAILS_WHILE_CLOSING: bool = true;

    #[inline(always)]
    fn of(protocol: &Protocol) -> &QueuePairEnd {
        let Protocol::Rdma(end) = protocol else { unreachable!("the endpoint is a queue pair's") };
        end
    }

    #[inline(always)]
    fn of_mut(protocol: &mut Protocol) -> &mut QueuePairEnd {
        let Protocol::Rdma(end) = protocol else { unreachable!("the endpoint is a queue pair's") };
        end
    }

    #[inline(always)]
    fn delivered(&self) -> u64 {
        self.pair.delivered()
    }

    #[inline(always)]
    fn sent(&self) -> u64 {
        self.pair.sent()
    }

    fn acked(&self) -> u64 {
        self.pair.acked()
    }

    fn write(&mut self, bytes: u64, _now: Time) {
        self.pair.send(bytes);
    }

    fn read(&mut self, bytes: u64) {
        self.pair.read(bytes);
    }

    fn close(&mut self, discards: bool, _now: Time) {
        if discards {
            self.pair.stop_sending();
        }
    }

    fn deadline(&self, is_blocked: bool, now: Time) -> Time {
        if is_blocked { self.pair.timer_deadline() } else { self.pair.deadline(now) }
    }

    fn on_timeout(&mut self, now: Time, is_idle: bool) {
        let waited = self.pair.stats().waited;
        self.pair.on_timeout(now);
        if is_idle {
            self.told.waited += self.pair.stats().waited - waited;
        }
    }

    fn is_quiescent(&self) -> bool {
        self.pair.is_quiescent()
    }

    fn failure(&self) -> Option<ConnectionFailure> {
        self.pair.failure().map(|failure| match failure {
            Failure::RetriesExhausted => ConnectionFailure::RetriesExhausted,
            Failure::RnrRetriesExhausted => ConnectionFailure::RnrRetriesExhausted,
        })
    }
}
