//! TCP at its endpoints: the state here; opening, segments and metrics in `segments.rs`.
//!
//! The fabric sees TCP only through its sans-IO verbs: `write`, `on_segment`, `poll_transmit`, `deadline`,
//! `on_timeout`, `close`.

mod segments;

use super::state::{Protocol, Reliable};
use crate::order::EndpointCounters;
use pauseframe_transport::{Connection, ConnectionFailure};
use pauseframe_units::Time;

/// A connection at its endpoint.
#[derive(Debug)]
pub(crate) struct TcpEnd {
    pub(crate) connection: Connection,
    /// Counters at the last report to the traffic.
    told: LifetimeCounters,
    /// When the SYN-ACK came, until it is reported.
    connected: Option<Time>,
    /// Most bytes that had been received at once.
    received: u64,
    /// Of a subflow: the endpoint key of its MPTCP connection at this host.
    pub(super) connection_key: u32,
    /// Of a subflow: it opens when the first one is established.
    pub(super) is_held: bool,
}

/// Counters of a connection over all flows that it has carried.
#[derive(Clone, Copy, Default, Debug)]
struct LifetimeCounters {
    ce_packets: u64,
    retransmits: u32,
    timeouts: u32,
    loss_probes: u32,
    undone: u32,
}

impl TcpEnd {
    fn lifetime_counters(&self) -> LifetimeCounters {
        let stats = self.connection.stats();
        LifetimeCounters {
            retransmits: stats.retransmits,
            timeouts: stats.timeouts,
            ce_packets: stats.ce_received,
            loss_probes: self.connection.tlp_count(),
            undone: self.connection.undo_count(),
        }
    }

    pub(super) fn take_counters(&mut self) -> EndpointCounters {
        let all = self.lifetime_counters();
        let told = std::mem::replace(&mut self.told, all);
        EndpointCounters {
            retransmits: all.retransmits - told.retransmits,
            timeouts: all.timeouts - told.timeouts,
            ce_packets: all.ce_packets - told.ce_packets,
            loss_probes: all.loss_probes - told.loss_probes,
            undone: all.undone - told.undone,
            connected: self.connected.take(),
            ..EndpointCounters::default()
        }
    }
}

impl Reliable for TcpEnd {
    const HAS_OPERATIONS: bool = false;
    const DISCARDS_COUNTS_BETWEEN_FLOWS: bool = true;
    const FAILS_WHILE_CLOSING: bool = false;

    #[inline(always)]
    fn of(protocol: &Protocol) -> &TcpEnd {
        let Protocol::Tcp(tcp) = protocol else { unreachable!("the endpoint is one of TCP") };
        tcp
    }

    #[inline(always)]
    fn of_mut(protocol: &mut Protocol) -> &mut TcpEnd {
        let Protocol::Tcp(tcp) = protocol else { unreachable!("the endpoint is one of TCP") };
        tcp
    }

    #[inline(always)]
    fn delivered(&self) -> u64 {
        self.connection.delivered_bytes()
    }

    #[inline(always)]
    fn sent(&self) -> u64 {
        self.connection.acked_bytes() + self.connection.flight_size()
    }

    fn acked(&self) -> u64 {
        self.connection.acked_bytes()
    }

    fn write(&mut self, bytes: u64, now: Time) {
        self.connection.write(bytes, now);
    }

    fn read(&mut self, _bytes: u64) {
        unreachable!("TCP reads by a request and its reply")
    }

    fn close(&mut self, discards: bool, now: Time) {
        if discards {
            self.connection.discard_unsent();
        }
        self.connection.close(now);
    }

    #[inline(always)]
    fn deadline(&self, _is_blocked: bool, _now: Time) -> Time {
        self.connection.deadline().unwrap_or(Time::MAX)
    }

    fn on_timeout(&mut self, now: Time, _is_idle: bool) {
        if self.deadline(false, now) <= now {
            self.connection.on_timeout(now);
        }
    }

    #[inline(always)]
    fn is_quiescent(&self) -> bool {
        self.connection.is_quiescent()
    }

    #[inline(always)]
    fn failure(&self) -> Option<ConnectionFailure> {
        self.connection.failure()
    }
}
