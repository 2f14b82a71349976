//! Stacks outside of the simulator, to which hosts of the network belong: the kernel of an operating system.
//!
//! The network grants the clock of such a stack. It owns its hosts' sockets and transmit rings; the network takes frames from
//! a ring as its port can send them, and hands over what arrives. Orders of the traffic reach the applications in the stack, whose
//! reports come back. Frames carry their real bytes.

use crate::frame::FrameBytes;
use pauseframe_transport::{ConnectionFailure, EcnCodepoint};
use pauseframe_units::{NodeId, Time};
use std::fmt;

/// What a stack could not do; the run ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExternalStackFailure(pub String);

/// A stack to which hosts belong.
///
/// The network calls it at times that never decrease, all of them multiples of a nanosecond.
pub trait ExternalStack: fmt::Debug + Send {
    /// Whether a host belongs to it.
    fn owns_host(&self, host: NodeId) -> bool;
    /// When it acts next by itself; `None` if it waits for the network.
    fn next_event_time(&self) -> Option<Time>;
    /// Acts at `now`. Nothing reaches it before `until`, so it may run ahead as long as nothing leaves it.
    ///
    /// # Errors
    /// If the stack has failed.
    fn run_until(&mut self, now: Time, until: Time) -> Result<(), ExternalStackFailure>;
    /// A frame has arrived at a host. It acts on it at `next_event_time`.
    ///
    /// # Errors
    /// If the stack has failed.
    fn receive_frame(&mut self, host: NodeId, frame: &[u8], now: Time) -> Result<(), ExternalStackFailure>;
    /// The next frame in the transmit ring of a host.
    ///
    /// # Errors
    /// If the stack has failed.
    fn take_frame(
        &mut self,
        host: NodeId,
        now: Time,
    ) -> Result<Option<ExternalStackFrame>, ExternalStackFailure>;
    /// Hosts that have put frames into rings that were empty, since this was last read.
    fn take_ready_hosts(&mut self) -> Vec<NodeId>;
    /// What the application at an endpoint key (flow * 2 + side) does now. It acts on it at `next_event_time`.
    fn execute_order(&mut self, host: NodeId, endpoint_key: u32, order: &ExternalStackOrder, now: Time);
    /// What applications report since this was last read.
    fn take_reports(&mut self) -> Vec<(u32, ExternalStackReport)>;
    /// Whether programs of the user still run in it.
    fn has_running_programs(&self) -> bool;
    /// Samples of its sockets and counters since this was last read.
    fn take_stack_samples(&mut self) -> ExternalStackSamples;
    /// What a person should know after the run.
    fn stack_warnings(&self) -> Vec<String>;
    /// Reports what all ends have counted: the run is over at `now`.
    ///
    /// # Errors
    /// If the stack has failed.
    fn report_final_counters(&mut self, now: Time) -> Result<(), ExternalStackFailure>;
}

/// What an application does at one end of a connection.
#[derive(Clone, Copy, Debug)]
pub enum ExternalStackOrder {
    /// Opens a connection.
    Open(ExternalStackOpeningParameters),
    /// Begins the next exchange on it.
    Continue(ExternalStackExchange),
    /// The exchange is over.
    EndExchange,
    /// Closes when all is sent.
    Close,
    /// Writes nothing more, and closes.
    Stop,
    /// The end is freed.
    Free,
}

/// One end of a connection as it opens.
#[derive(Clone, Copy, Debug)]
pub struct ExternalStackOpeningParameters {
    /// 0: it connects; 1: it accepts.
    pub side: u8,
    /// The other host.
    pub peer: NodeId,
    /// Position among the transports of the settings.
    pub transport: u16,
    /// When the application writes first.
    pub start: Time,
    /// What it does.
    pub exchange: ExternalStackExchange,
}

/// What the application at one end writes and waits for.
#[derive(Clone, Copy, Debug)]
pub struct ExternalStackExchange {
    /// The flow.
    pub flow: u32,
    /// Bytes that are written at once.
    pub writes: u64,
    /// Bytes that the application waits for; `u64::MAX`: none.
    pub expects: u64,
    /// What it answers then; 0: nothing.
    pub reply: u64,
    /// Nanoseconds until it answers.
    pub reply_delay: u64,
}

/// What an application reports of one end of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExternalStackReport {
    /// The connection is established.
    Connected,
    /// All bytes that it waited for are in.
    Complete,
    /// The connection failed.
    Failed(ConnectionFailure),
    /// Nothing is under way any more.
    Drained,
    /// What was counted for a flow since the last report.
    Counted {
        /// The flow.
        flow: u32,
        /// Bytes that the application has read.
        delivered: u64,
        /// Segments that were sent again.
        retransmits: u32,
        /// Expiries of the retransmission timer.
        timeouts: u32,
    },
}

/// Samples of a stack.
#[derive(Clone, Debug, Default)]
pub struct ExternalStackSamples {
    /// Of its sockets, in the order of time.
    pub sockets: Vec<ExternalSocketSample>,
    /// Of the counters that have changed since the sample before.
    pub counters: Vec<ExternalCounterSample>,
}

/// A socket of a stack at one time (Linux: `struct tcp_info`).
#[derive(Clone, Debug)]
pub struct ExternalSocketSample {
    /// When.
    pub time: Time,
    /// Its host.
    pub host: NodeId,
    /// Its port.
    pub port: u16,
    /// The other host.
    pub peer: NodeId,
    /// Its port.
    pub peer_port: u16,
    /// Its endpoint key (flow * 2 + side), if the ports are those of a flow.
    pub endpoint_key: Option<u32>,
    /// State of the connection: `enum` of `include/net/tcp_states.h`.
    pub state: u8,
    /// Name of its congestion control.
    pub congestion_control: String,
    /// Congestion window in segments.
    pub cwnd: u32,
    /// Slow start threshold in segments.
    pub ssthresh: u32,
    /// Largest segment that it sends.
    pub mss: u32,
    /// Smoothed round-trip time.
    pub srtt_us: u32,
    /// Variation of the round-trip time.
    pub rttvar_us: u32,
    /// Retransmission timeout.
    pub rto_us: u32,
    /// Segments that are not acknowledged.
    pub unacked: u32,
    /// Segments sent again so far.
    pub retransmits: u32,
    /// State of loss recovery: `enum tcp_ca_state`.
    pub ca_state: u8,
    /// Bytes acknowledged so far.
    pub acked_bytes: u64,
    /// Bytes received in order so far.
    pub received_bytes: u64,
    /// Bytes written that are not acknowledged.
    pub send_queue_bytes: u32,
    /// DCTCP's estimate of the marked fraction.
    pub alpha: Option<f64>,
}

/// A counter of a host at one time.
#[derive(Clone, Debug)]
pub struct ExternalCounterSample {
    /// When.
    pub time: Time,
    /// Where.
    pub host: NodeId,
    /// Name of the counter.
    pub name: String,
    /// Its value.
    pub value: u64,
}

/// A frame that a stack sends.
#[derive(Clone, Debug)]
pub struct ExternalStackFrame {
    /// From its Ethernet header on, without a tag.
    pub bytes: Vec<u8>,
    /// Bytes of its IP packet.
    pub ip_size: u32,
    /// The endpoint key (flow * 2 + side) that its ports name, if they are ports of a flow.
    pub to: Option<u32>,
    /// The host that it goes to; `None` if it goes to several, or to none.
    pub destination: Option<NodeId>,
    /// Its TCP or UDP ports: they choose one of several paths where it belongs to no flow.
    pub ports: u32,
    /// The ECN field of its IP header.
    pub ecn: EcnCodepoint,
}

const ETHERNET: usize = 14;

/// Sets the ECN field of an untagged IPv4 frame to CE, and its header checksum (RFC 1624).
pub(crate) fn mark_ce(frame: &mut FrameBytes) {
    let Some(header) = frame.get_mut(ETHERNET..ETHERNET + 20) else { return };
    let word = |header: &[u8], at: usize| u32::from(u16::from_be_bytes([header[at], header[at + 1]]));
    let before = word(header, 0);
    header[1] |= 3;
    let after = word(header, 0);
    // HC' = ~(~HC + ~m + m'), in one's complement.
    let mut sum = (!word(header, 10) & 0xffff) + (!before & 0xffff) + after;
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    header[10..12].copy_from_slice(&(!sum as u16).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1071: the one's complement sum over a header with its checksum is all ones.
    fn is_valid(header: &[u8]) -> bool {
        let sum = header.chunks(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]]))).sum::<u32>();
        let sum = (sum & 0xffff) + (sum >> 16);
        (sum & 0xffff) + (sum >> 16) == 0xffff
    }

    fn frame() -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([8, 0]);
        // An IPv4 header with ECT(0) and its checksum.
        frame.extend([0x45, 2, 0, 40, 0, 1, 0x40, 0, 64, 6, 0x26, 0xcb, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame
    }

    #[test]
    fn a_mark_keeps_the_checksum_valid() {
        let mut frame = frame();
        assert!(is_valid(&frame[14..34]));
        mark_ce(&mut frame);
        assert_eq!(frame[15] & 3, 3);
        assert!(is_valid(&frame[14..34]));
    }
}
