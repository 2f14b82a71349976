//! The settings of a transport. A variant (`dctcp`, `tcp_bolt` ...) is a row of these values, not a copy of code.

use crate::cc::CongestionControlConfig;
use crate::mechanisms::{Mechanism, Without};
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

/// How the minimum enters the retransmission timeout.
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
    /// When the clock is at zero, less than [`crate::CLOCK_PERIOD`] ticks: hosts' clocks do not tick together.
    pub phase: Span,
    /// How `min` enters.
    pub form: RtoForm,
    /// Constant added in the `Freebsd` form, else unused.
    pub slop: Span,
    /// Timers expire as on Linux's timer wheel: late by one to two ticks, and the longer they are the coarser.
    pub wheel: bool,
}

/// How the timeout of a delayed ACK is chosen, and what goes out at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DelayedAckForm {
    /// The constant `timeout`; the count alone makes an ACK go out at once.
    Fixed,
    /// Linux 6.1: adaptive from `timeout` on, with quick ACKs, interactive mode, and ACKs of pushed data.
    Linux {
        /// ACKs sent at once when a connection begins and after a pause (`TCP_MAX_QUICKACKS`: 16); 0: none.
        quick_acks: u32,
        /// SACKs beyond the third for a gap wait up to 5 % of the round trip (`tcp_comp_sack_*`).
        compress: bool,
    },
}

/// Delayed acknowledgements (RFC 9293 §3.8.6.3, RFC 5681 §4.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DelayedAckConfig {
    /// An ACK goes out at the latest with this many full segments unacknowledged; 1 = every segment.
    pub segments: u32,
    /// ... or after this time.
    pub timeout: Span,
}

/// What the receive window follows from. Sizes in bytes.
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

/// What the application's data wait in until they are acknowledged. Sizes in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendBuffer {
    /// Whatever it takes: PSH is on the last segment of all data.
    Unlimited,
    /// Linux: from `initial` (`tcp_wmem[1]`), or twice the initial window, up to `max` (`tcp_wmem[2]`).
    Linux {
        /// First buffer.
        initial: u32,
        /// Largest buffer.
        max: u32,
    },
}

/// What becomes of a last segment that is not full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SmallSegments {
    /// It goes out (`TCP_NODELAY`).
    AtOnce,
    /// It waits while another small one is not acknowledged (RFC 9293 §3.7.4 with Minshall's change, as Linux).
    Nagle,
    /// It waits for more data, or the probe timer (`TCP_CORK`).
    Cork,
}

/// What a connection inherits from the one before it to the same peer.
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

/// What the NIC does for the stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offload {
    /// Bytes of the largest super-packet that the stack hands to the NIC (TSO); 0: it hands over segments.
    pub tso: u32,
    /// In-order segments that come within this time of the first are merged before TCP sees them (GRO); zero: none are.
    pub gro: Span,
}

impl Offload {
    /// None: every segment by itself.
    pub const NONE: Offload = Offload { tso: 0, gro: Span::ZERO };
}

/// Everything that two connections of the same transport share.
#[derive(Clone, PartialEq, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, each a row of the settings")]
pub struct Config {
    /// Congestion control and its constants.
    pub congestion_control: CongestionControlConfig,
    /// Largest payload of a segment in bytes: MTU less headers and, if they are on, timestamps.
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
    /// Loss recovery beyond that.
    pub recovery: RecoveryConfig,
    /// Three-way handshake; off: both ends are established from the start (a connection opened before).
    pub handshake: bool,
    /// Retransmission timer.
    pub rto: RtoConfig,
    /// Delayed ACKs.
    pub delayed_ack: DelayedAckConfig,
    /// Whether their timeout is constant, or as in Linux.
    pub delayed_ack_form: DelayedAckForm,
    /// Receive window in bytes where it is fixed.
    pub receive_window: u32,
    /// Whether it is.
    pub receive_buffer: ReceiveBuffer,
    /// Where the application's data wait.
    pub send_buffer: SendBuffer,
    /// Whether a last segment that is not full goes out.
    pub small_segments: SmallSegments,
    /// A socket keeps about a millisecond of its rate in its host (Linux's TCP small queues).
    pub small_queues: bool,
    /// What the NIC does.
    pub offload: Offload,
    /// Full segments that may wait above a gap; 0: no limit (FreeBSD `net.inet.tcp.reass`, cee Table I: 200).
    pub reassembly_limit: u32,
    /// Report data that came twice (RFC 2883); needs SACK.
    pub dsack: bool,
    /// The application reads at this rate; 0: at once.
    pub read_rate: BitRate,
    /// Connections end with FIN and its ACK (RFC 9293 §3.6); else they vanish.
    pub fin: bool,
    /// What the next connection to the same peer inherits.
    pub cache: CachePolicy,
    /// SYN or SYN-ACK is given up after this many retransmissions (Linux: 6).
    pub syn_retries: u32,
    /// Data are given up after this many consecutive timeouts (Linux: 15).
    pub retries: u32,
    /// Mechanisms of Linux that are off for once, see [`Config::without`].
    pub without: Without,
}

impl Config {
    /// NewReno (RFC 5681, RFC 6582) with the timer of RFC 6298, the initial window of RFC 6928 and an ACK for every segment, on a
    /// connection that is open already, without what later documents and stacks add: what tests and examples begin with.
    pub const PLAIN: Config = Config {
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
        offload: Offload::NONE,
        reassembly_limit: 0,
        dsack: false,
        read_rate: BitRate(0),
        fin: false,
        cache: CachePolicy::Off,
        syn_retries: 6,
        retries: 15,
        without: Without::NOTHING,
    };

    /// The same with `mechanism` off. Those that have a setting of their own are off by it.
    #[must_use]
    pub fn without(mut self, mechanism: Mechanism) -> Config {
        match mechanism {
            Mechanism::Frto => self.recovery.frto = false,
            Mechanism::PacketCounting => self.recovery.count_packets = false,
            Mechanism::SmallQueues => self.small_queues = false,
            other => self.without = self.without.and(other),
        }
        self
    }

    /// Whether a mechanism that has no setting of its own is on.
    #[inline]
    pub(crate) fn has(&self, mechanism: Mechanism) -> bool {
        !self.without.includes(mechanism)
    }
}
