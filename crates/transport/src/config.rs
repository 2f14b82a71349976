//! The settings of a transport. A variant (`dctcp`, `tcp_bolt` ...) is a row of these values, not a copy of code.

use crate::cc::CongestionControlConfig;
use crate::mechanisms::{DisabledMechanisms, Mechanism};
use crate::recovery::RecoveryConfig;
use pauseframe_units::{BitRate, Span};

/// How a connection uses ECN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EcnMode {
    /// Not negotiated.
    Off,
    /// RFC 3168: ECE until CWR; one halving a window.
    Classic,
    /// RFC 8257: exact echo of CE; reduction by alpha / 2.
    Dctcp,
}

/// How the minimum affects the retransmission timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RtoForm {
    /// RFC 6298 §2: max(minimum, srtt + max(G, 4 rttvar)).
    Rfc,
    /// Linux: srtt + max(minimum, 4 rttvar) (the variance term is floored).
    Linux,
    /// FreeBSD: max(minimum, srtt + 4 rttvar + slop); cee's "RTO variance" of 20 ms is the slop.
    Freebsd,
}

/// The retransmission timer (RFC 6298).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RtoConfig {
    /// Before the first RTT sample, and for SYN and SYN-ACK.
    pub initial: Span,
    /// Lower bound; see [`RtoForm`].
    pub min: Span,
    /// Upper bound, also of the back-off.
    pub max: Span,
    /// Clock granularity G: deadlines are rounded up to a tick.
    pub granularity: Span,
    /// Phase of the host's clock, less than [`crate::CLOCK_PERIOD_TICKS`] ticks, so that hosts' clocks do not tick together.
    pub phase: Span,
    /// How `min` affects the timeout.
    pub form: RtoForm,
    /// Constant added in the `Freebsd` form, else unused.
    pub slop: Span,
    /// Timers expire as on Linux's timer wheel: one to two ticks late, and coarser the longer they are.
    pub wheel: bool,
}

/// Timeout of delayed ACKs, and which ACKs leave immediately.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DelayedAckForm {
    /// The constant `timeout`; only the segment count makes an ACK leave immediately.
    Fixed,
    /// Linux 6.1: adaptive, starting at `timeout`, with quick ACKs, interactive mode, and ACKs of pushed data.
    Linux {
        /// ACKs sent at once when a connection begins and after a pause (`TCP_MAX_QUICKACKS`: 16); 0: none.
        quick_acks: u32,
        /// SACKs after the third for a gap are delayed by up to 5 % of the round trip (`tcp_comp_sack_*`).
        compress: bool,
    },
}

/// Delayed acknowledgements (RFC 9293 §3.8.6.3, RFC 5681 §4.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelayedAckConfig {
    /// Unacknowledged full segments that trigger an ACK; 1 = every segment.
    pub segments: u32,
    /// ... or after this time.
    pub timeout: Span,
}

/// The receive buffer, which determines the receive window. Sizes in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceiveBuffer {
    /// `receive_window`.
    Fixed,
    /// Linux dynamic right-sizing: half of a buffer that grows from `initial` (`tcp_rmem[1]`) up to `max`
    /// (`tcp_rmem[2]`); equal ones are `tcp_moderate_rcvbuf` = 0.
    Linux {
        /// First buffer.
        initial: u32,
        /// Largest buffer.
        max: u32,
    },
    /// FreeBSD 9: from `initial` to `max` by `step` each round trip that almost fills it; needs timestamps.
    Freebsd {
        /// `net.inet.tcp.recvspace`.
        initial: u32,
        /// `net.inet.tcp.recvbuf_max`.
        max: u32,
        /// `net.inet.tcp.recvbuf_inc`.
        step: u32,
    },
}

/// The send buffer, which holds data until they are acknowledged. Sizes in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendBuffer {
    /// No limit; the last segment of all data has PSH.
    Unlimited,
    /// Linux: from `initial` (`tcp_wmem[1]`), or twice the initial window, up to `max` (`tcp_wmem[2]`).
    Linux {
        /// First buffer.
        initial: u32,
        /// Largest buffer.
        max: u32,
    },
}

/// Handling of a last segment that is not full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SmallSegments {
    /// Sent immediately (`TCP_NODELAY`).
    AtOnce,
    /// Delayed while another small segment is unacknowledged (RFC 9293 §3.7.4 with Minshall's change, as Linux).
    Nagle,
    /// Delayed until more data or the probe timer (`TCP_CORK`).
    Cork,
}

/// What a connection inherits from an earlier one to the same peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CachePolicy {
    /// Nothing.
    Off,
    /// Linux since 5.6: the RTT.
    Linux,
    /// Linux with `tcp_no_ssthresh_metrics_save` = 0: ssthresh too.
    LinuxSsthresh,
    /// FreeBSD: RTT and ssthresh.
    Freebsd,
    /// FreeBSD as cee describes it: the congestion window too.
    Cee,
}

/// Offloads of the NIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OffloadConfig {
    /// Bytes of the largest super-packet that the stack passes to the NIC (TSO); 0: single segments.
    pub tso: u32,
    /// In-order segments that arrive within this time of the first are merged before TCP (GRO); zero: no merging.
    pub gro: Span,
}

impl OffloadConfig {
    /// No offloads.
    pub const NONE: OffloadConfig = OffloadConfig { tso: 0, gro: Span::ZERO };
}

/// Settings that all connections of a transport share.
#[derive(Clone, PartialEq, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, each a row of the settings")]
pub struct TcpConfig {
    /// Congestion control and its constants.
    pub congestion_control: CongestionControlConfig,
    /// Largest payload of a segment in bytes: MTU minus headers and timestamps, if on.
    pub mss: u32,
    /// Initial congestion window in bytes.
    pub initial_window: u64,
    /// ECN use.
    pub ecn: EcnMode,
    /// ECT(0) on SYN and SYN-ACK too (judd §7.4, DCTCP+; RFC 8257 §5 asks for it).
    pub ect_on_syn: bool,
    /// ECT(0) on pure ACKs, retransmissions and window probes too, as Linux does for DCTCP.
    pub ect_on_ack: bool,
    /// Selective acknowledgements (RFC 2018, RFC 6675).
    pub sack: bool,
    /// Timestamps option: 12 bytes on every segment.
    pub timestamps: bool,
    /// Fast retransmit and fast recovery; off where spraying reorders packets (bolt §IV-A2).
    pub fast_retransmit: bool,
    /// Duplicate ACKs that trigger fast retransmit (RFC 5681: 3).
    pub dup_thresh: u32,
    /// Limited transmit (RFC 3042).
    pub limited_transmit: bool,
    /// Further settings of loss recovery.
    pub recovery: RecoveryConfig,
    /// Three-way handshake; off: both ends are established from the start (a connection opened before).
    pub handshake: bool,
    /// Retransmission timer.
    pub rto: RtoConfig,
    /// Delayed ACKs.
    pub delayed_ack: DelayedAckConfig,
    /// Form of delayed ACKs: constant timeout, or as in Linux.
    pub delayed_ack_form: DelayedAckForm,
    /// Receive window in bytes, if fixed.
    pub receive_window: u32,
    /// How the receive window is determined.
    pub receive_buffer: ReceiveBuffer,
    /// Send buffer.
    pub send_buffer: SendBuffer,
    /// Handling of a last segment that is not full.
    pub small_segments: SmallSegments,
    /// A socket keeps about one millisecond of data at its rate in the host's queues (Linux's TCP small queues).
    pub small_queues: bool,
    /// Offloads of the NIC.
    pub offload: OffloadConfig,
    /// Maximum full segments in the reassembly list; 0: no limit (FreeBSD `net.inet.tcp.reass`, cee Table I: 200).
    pub reassembly_limit: u32,
    /// Report duplicate data (RFC 2883); needs SACK.
    pub dsack: bool,
    /// Rate at which the application reads; 0: immediately.
    pub read_rate: BitRate,
    /// Connections close by FIN and its ACK (RFC 9293 §3.6); otherwise without any segment.
    pub fin: bool,
    /// What the next connection to the same peer inherits.
    pub cache: CachePolicy,
    /// Retransmissions of SYN or SYN-ACK before the connection fails (Linux: 6).
    pub syn_retries: u32,
    /// Consecutive timeouts of data before the connection fails (Linux: 15).
    pub retries: u32,
    /// Mechanisms of Linux that are switched off, see [`TcpConfig::without_mechanism`].
    pub without: DisabledMechanisms,
}

impl TcpConfig {
    /// NewReno (RFC 5681, RFC 6582) with the timer of RFC 6298, the initial window of RFC 6928 and an ACK for every segment, without handshake and
    /// later extensions: the basis of tests and examples.
    pub const PLAIN: TcpConfig = TcpConfig {
        congestion_control: CongestionControlConfig::NewReno,
        mss: 1460,
        initial_window: 14_600,
        ecn: EcnMode::Off,
        ect_on_syn: false,
        ect_on_ack: false,
        sack: false,
        timestamps: false,
        fast_retransmit: true,
        dup_thresh: 3,
        limited_transmit: false,
        recovery: RecoveryConfig::PLAIN,
        handshake: false,
        rto: RtoConfig {
            initial: Span::from_secs(1),
            min: Span::from_secs(1),
            max: Span::from_secs(60),
            granularity: Span::ZERO,
            phase: Span::ZERO,
            form: RtoForm::Rfc,
            slop: Span::ZERO,
            wheel: false,
        },
        delayed_ack: DelayedAckConfig { segments: 1, timeout: Span::from_ms(40) },
        delayed_ack_form: DelayedAckForm::Fixed,
        receive_window: 1 << 24,
        receive_buffer: ReceiveBuffer::Fixed,
        send_buffer: SendBuffer::Unlimited,
        small_segments: SmallSegments::AtOnce,
        small_queues: false,
        offload: OffloadConfig::NONE,
        reassembly_limit: 0,
        dsack: false,
        read_rate: BitRate(0),
        fin: false,
        cache: CachePolicy::Off,
        syn_retries: 6,
        retries: 15,
        without: DisabledMechanisms::NOTHING,
    };

    /// These settings with `mechanism` off. A mechanism with its own setting is switched off there.
    #[must_use]
    pub fn without_mechanism(mut self, mechanism: Mechanism) -> TcpConfig {
        match mechanism {
            Mechanism::Frto => self.recovery.frto = false,
            Mechanism::PacketCounting => self.recovery.count_packets = false,
            Mechanism::SmallQueues => self.small_queues = false,
            other => self.without = self.without.with_disabled(other),
        }
        self
    }

    /// Whether a mechanism without its own setting is on.
    #[inline]
    pub(crate) fn has_mechanism(&self, mechanism: Mechanism) -> bool {
        !self.without.includes(mechanism)
    }
}
