//! MPTCP connections at their hosts. The connection is an endpoint without packets, whose application it serves; each of its subflows is an endpoint
//! of TCP with a number from [`FIRST_PART`](crate::records::FIRST_PART) on, perhaps at another port of the host. A subflow wakes its connection after each of its
//! events, and the connection the subflows to which it has written, at another port by timer events of the same time
//! (`subflows.rs`).

mod subflows;

use super::state::{Protocol, Reliable};
use crate::order::EndpointCounters;
use pauseframe_transport::{ConnectionFailure, MultipathConnection};
use pauseframe_units::Time;

/// One end of an MPTCP connection.
#[derive(Debug)]
pub(crate) struct MultipathEnd {
    connection: MultipathConnection,
    /// Endpoint key of its first subflow at this host; those of the others follow in steps of two.
    first: u32,
    /// Subflows at which something has happened, a bit each.
    noted: u32,
    /// What its subflows have counted since the last report.
    counted: EndpointCounters,
    /// Further subflows wait until the first is established.
    holds_further: bool,
    subflows_close: bool,
}

impl MultipathEnd {
    /// Their endpoint keys.
    fn subflows(&self) -> impl Iterator<Item = u32> + use<> {
        (self.first..).step_by(2).take(self.connection.subflow_count())
    }

    /// Something has happened at the subflow with an endpoint key.
    fn note_event_at(&mut self, key: u32) {
        self.noted |= 1 << ((key - self.first) / 2);
    }

    pub(super) fn take_counters(&mut self) -> EndpointCounters {
        std::mem::take(&mut self.counted)
    }
}

impl Reliable for MultipathEnd {
    const HAS_OPERATIONS: bool = false;
    const DISCARDS_COUNTS_BETWEEN_FLOWS: bool = true;
    const FAILS_WHILE_CLOSING: bool = false;

    fn of(protocol: &Protocol) -> &MultipathEnd {
        let Protocol::Multipath(end) = protocol else { unreachable!("the endpoint is one of MPTCP") };
        end
    }

    fn of_mut(protocol: &mut Protocol) -> &mut MultipathEnd {
        let Protocol::Multipath(end) = protocol else { unreachable!("the endpoint is one of MPTCP") };
        end
    }

    fn delivered(&self) -> u64 {
        self.connection.delivered_bytes()
    }

    fn sent(&self) -> u64 {
        self.connection.sent_bytes()
    }

    fn acked(&self) -> u64 {
        self.connection.acked_bytes()
    }

    fn write(&mut self, bytes: u64, _now: Time) {
        self.connection.write(bytes);
    }

    fn read(&mut self, _bytes: u64) {
        unreachable!("MPTCP reads by a request and its reply")
    }

    fn close(&mut self, discards: bool, _now: Time) {
        self.connection.close(discards);
    }

    fn deadline(&self, _is_blocked: bool, _now: Time) -> Time {
        self.connection.deadline()
    }

    fn on_timeout(&mut self, now: Time, _is_idle: bool) {
        self.connection.on_timeout(now);
    }

    fn is_quiescent(&self) -> bool {
        self.connection.is_quiescent()
    }

    fn failure(&self) -> Option<ConnectionFailure> {
        self.connection.failure()
    }
}
