//! Unresponsive UDP sources (RFC 768): no acknowledgements, retransmissions or rate control (docs/models/udp.md).
//!
//! A source sends datagrams of one size, the last one shorter, at a constant rate from its start until all bytes are sent or its stop time. A random
//! on-off source is a workload of many such flows. If the socket has no room in its NIC queue or the NIC buffer, the next datagram waits, as in a blocking
//! send; datagrams that become due meanwhile are lost. Left out: fragmentation (a datagram fits the MTU), checksums, ICMP.

mod datagrams;

use crate::flow::DatagramCounts;
use crate::order::EndpointCounters;
use crate::settings::UdpSettings;
use pauseframe_units::Time;

/// The sending side of a datagram flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DatagramSource {
    settings: UdpSettings,
    /// Bytes left to send; `u64::MAX` for a flow that ends at its stop time.
    remaining: u64,
    stop: Option<Time>,
    /// Bytes of the datagram that waits for NIC buffer space; 0 if none does.
    waiting: u32,
    /// Datagrams that were not dropped at this host.
    left: u64,
    /// Datagrams sent and dropped at this host since the last report.
    counted: DatagramCounts,
}

/// The receiving side of a datagram flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DatagramSink {
    /// Number of datagrams and bytes received, time of the last datagram, and the expected number.
    received: u64,
    bytes: u64,
    last: Time,
    awaited: u64,
    /// Datagrams received since the last report, and those of them with CE.
    counted: u64,
    ce: u64,
}

impl DatagramSource {
    pub(super) fn take_counters(&mut self) -> EndpointCounters {
        EndpointCounters { datagrams: std::mem::take(&mut self.counted), ..EndpointCounters::default() }
    }

    /// Takes the next datagram from those not yet sent; returns its bytes.
    fn next_datagram(&mut self) -> u32 {
        let len = self.remaining.min(u64::from(self.settings.payload)) as u32;
        if self.remaining != u64::MAX {
            self.remaining -= u64::from(len);
        }
        self.counted.sent += 1;
        self.counted.sent_bytes += u64::from(len);
        len
    }

    fn is_over_at(&self, now: Time) -> bool {
        self.remaining == 0 || self.stop.is_some_and(|stop| stop <= now)
    }
}

impl DatagramSink {
    pub(super) fn delivered(&self) -> u64 {
        self.bytes
    }

    pub(super) fn take_counters(&mut self) -> EndpointCounters {
        let delivered = std::mem::take(&mut self.counted);
        let datagrams = DatagramCounts { delivered, ..DatagramCounts::default() };
        let ce_packets = std::mem::take(&mut self.ce);
        EndpointCounters { ce_packets, datagrams, ..EndpointCounters::default() }
    }
}
