//! `[transport]` and `[transports.NAME]`: the values of a stack, those of a preset above it, and the changes of the
//! file.

use super::congestion_control::congestion_control;
use crate::presets::PRESETS;
use crate::stacks::STACKS;
use pauseframe_schema::bounds::Above;
use pauseframe_schema::document::{Item, Value};
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;
use pauseframe_schema::shape::Shape;
use pauseframe_schema::value::{Mistake, Setting, wrong_sort};
use pauseframe_schema::{choices, table};
use pauseframe_transport::CongestionControlConfig;
use pauseframe_units::{BitRate, Bytes, Span};
use std::ops::RangeInclusive;

/// Upper limit of timers: an hour.
const TIME_MAX: Span = Span::from_secs(3600);
/// Range of timers that may be off.
const TIMES: RangeInclusive<Span> = Span::ZERO..=TIME_MAX;
/// Range of timers that are always on.
const POSITIVE: RangeInclusive<Span> = Span(1)..=TIME_MAX;
/// Rates and steps of DCQCN.
const DCQCN_RATES: RangeInclusive<BitRate> = BitRate(1000)..=BitRate(1_000_000_000_000);
/// Just below the largest window that a shift of 14 can announce (RFC 7323 §2.3).
const WINDOWS: RangeInclusive<Bytes> = Bytes(1460)..=Bytes(1_000_000_000);
const SEND_BUFFERS: RangeInclusive<Bytes> = Bytes(4096)..=Bytes(1_000_000_000);

table! {
    /// TCP: the values of a preset above those of a stack (`pauseframe presets`), with the changes of the file; other
    /// keys have the defaults below
    pub struct TransportSpec {
        /// Named set of values; keys in the file override them
        preset: String = or_row(PRESETS, PRESETS[0].name);
        /// Values of an operating system; preset and file override them. Preset pfabric uses none by default
        stack: String = or_row_below(STACKS, STACKS[0].name);
        /// Congestion control; its constants are separate keys
        congestion_control: CongestionControlConfig = by(congestion_control);
        /// "10 segments", "bdp" (host link rate times the base RTT of the longest path) or a size
        #[source = "RFC 6928"]
        initial_window: InitialWindow = or(InitialWindow::Segments(10));
        /// ECN: none, one reduction per window (classic), or the exact echo of CE (dctcp)
        #[source = "RFC 3168, RFC 8257"]
        ecn: EcnName = or(EcnName::Off);
        /// ECT on SYN and SYN-ACK too
        #[source = "RFC 3168 §6.1.1; judd §7.4: DCTCP+"]
        ect_on_syn: bool = by(all_ect, &congestion_control, &stack);
        /// ECT on pure ACKs and retransmissions too, as Linux does for DCTCP
        #[source = "RFC 3168 §6.1.4; Linux"]
        ect_on_ack: bool = by(all_ect, &congestion_control, &stack) => {
            warn_of_coarse_echo(t, &congestion_control, ecn);
        };
        /// Send in the first lossless priority of switch.pfc.priorities
        #[source = "IEEE 802.1Qbb"]
        lossless: bool = or(false);
        /// 802.1p priority of all packets of this transport
        #[source = "IEEE 802.1Q"]
        priority: u8 = by(priority_if_given, given);
        /// Differentiated services code point of its packets; switch.priority_of_dscp can map it to a priority
        #[source = "RFC 2474"]
        dscp: u8 = or_in(0, 0..=63);
        /// Selective acknowledgements
        #[source = "RFC 2018, RFC 6675"]
        sack: bool = or(true);
        /// Fast retransmit and fast recovery
        #[source = "RFC 5681 §3.2"]
        fast_retransmit: bool = by(unless_reordered, reorders);
        /// Duplicate ACKs that trigger fast retransmit
        #[source = "RFC 5681 §3.2"]
        dup_thresh: u32 = or_in(3, 1..=1000);
        /// Limited transmit
        #[source = "RFC 3042"]
        limited_transmit: bool = or(true);
        /// RACK: detect losses by time; needs sack and fast_retransmit
        #[source = "RFC 8985"]
        rack: bool = by(if_able, sack && fast_retransmit, "sack and fast_retransmit");
        /// Tail loss probe; needs sack
        #[source = "RFC 8985 §7"]
        tlp: bool = by(if_able, sack, "sack");
        /// Added to RACK's reordering timer and to the probe timeout
        #[source = "Linux: two jiffies"]
        recovery_slack: Span = or_in(Span::from_ms(2), TIMES);
        /// Count windows and data in flight in segments of any size instead of bytes
        #[source = "Linux"]
        count_packets: bool = or(false);
        /// Proportional rate reduction, also after ECE; off: the window is cut at once
        #[source = "RFC 9937"]
        prr: bool = or(false);
        /// Undo a window reduction if D-SACK shows that its retransmissions were unnecessary; needs sack
        #[source = "RFC 3708"]
        undo: bool = or(false);
        /// F-RTO: detect spurious timeouts and undo them
        #[source = "RFC 5682"]
        frto: bool = or(false);
        /// Ignore duplicate ACKs until the window that ECE reduced is acknowledged; only without sack
        #[source = "FreeBSD 9"]
        ecn_hides_loss: bool = or(false);
        /// Do not grow an unused window; off: it grows up to the peer's window
        #[source = "RFC 7661 §4.1; off: FreeBSD 9"]
        window_validation: bool = or(true);
        /// Growth per ACK in slow start after a timeout: at most a segment, or what the ACK newly delivers
        #[source = "RFC 3465 §2.3; Linux"]
        rto_growth: RtoGrowthName = or(RtoGrowthName::Segment);
        /// Window after being idle for an RTO: kept, at most the initial window, or halved per RTO
        #[source = "RFC 5681 §4.1; Linux"]
        idle_restart: IdleRestartName = or(IdleRestartName::Off);
        /// Pacing: spread segments over the round trip
        #[source = "Linux: TCP pacing in the socket"]
        pacing: bool = by(pacing_of, &congestion_control);
        /// Pacing rate in percent of cwnd / srtt below half of ssthresh
        #[source = "Linux: tcp_pacing_ss_ratio"]
        pacing_slow_start: u32 = or_in(200, 1..=100_000);
        /// Pacing rate in percent of cwnd / srtt above half of ssthresh
        #[source = "Linux: tcp_pacing_ca_ratio"]
        pacing_avoidance: u32 = or_in(120, 1..=100_000);
        /// Segments that leave back to back
        #[source = "Linux: a TSO packet"]
        pacing_burst: u32 = or_in(2, 1..=1000);
        // RFC 6298 with the values of Linux: minimum 200 ms (HZ/5), maximum 120 s, ticks of 1 ms (HZ 1000).
        /// RTO before the first sample
        #[source = "RFC 6298 §2.1"]
        rto_initial: Span = or_in(Span::from_secs(1), POSITIVE);
        /// Lower bound of the RTO
        #[source = "Linux: HZ/5"]
        rto_min: Span = or_in(Span::from_ms(200), TIMES);
        /// Upper bound of the RTO
        #[source = "Linux: 120 s"]
        rto_max: Span = or_in(Span::from_secs(120), POSITIVE) => {
            for (key, value) in [("rto_min", rto_min), ("rto_initial", rto_initial)] {
                let message = || format!("{value} is above rto_max ({rto_max})");
                t.check(value <= rto_max, key, message, "raise rto_max or lower this");
            }
        };
        /// Clock granularity: deadlines are rounded up to a multiple of it
        #[source = "RFC 6298 §2; Linux: HZ 1000"]
        rto_granularity: Span = or_in(Span::from_ms(1), POSITIVE);
        /// Formula of the RTO: rfc max(rto_min, srtt + 4 rttvar), linux srtt + max(rto_min, 4 rttvar), freebsd
        /// max(rto_min, srtt + 4 rttvar + slop)
        #[source = "RFC 6298 §2; Linux; FreeBSD"]
        rto_form: RtoFormName = or(RtoFormName::Linux);
        /// Constant added in the formula freebsd
        #[source = "cee Table I"]
        rto_slop: Span = or_in(Span::from_ms(20), TIMES);
        /// Use Linux's timer wheel: timers expire one to two ticks late, and up to an eighth late from 63 ticks on
        #[source = "Linux: kernel/time/timer.c"]
        timer_wheel: bool = or(false);
        /// Delayed ACKs with a constant timeout (fixed), or adaptive, with quick ACKs and ACKs of pushed data (linux)
        #[source = "RFC 5681 §4.2; Linux"]
        delayed_ack_form: DelayedAckFormName = or(DelayedAckFormName::Fixed);
        /// Immediate ACKs at the start and after a pause, with delayed_ack_form = "linux"
        #[source = "Linux: TCP_MAX_QUICKACKS"]
        quick_acks: u32 = or_in(16, 0..=1_000_000);
        /// Delay SACKs beyond the third for a gap by up to 5 % of the RTT, with delayed_ack_form = "linux"
        #[source = "Linux: tcp_comp_sack_delay_ns"]
        sack_compression: bool = or(true);
        // RFC 9293 §3.8.6.3: at least every second full segment. Linux: at the latest after 40 ms (HZ/25).
        /// Full segments after which an ACK is sent at the latest
        #[source = "RFC 9293 §3.8.6.3"]
        delayed_ack_segments: u32 = or_in(2, 1..=1000);
        /// Time after which an ACK is sent at the latest
        #[source = "Linux: HZ/25"]
        delayed_ack_timeout: Span = or_in(Span::from_ms(40), TIMES) => {
            let least = if rto_form == RtoFormName::Freebsd { rto_min.max(rto_slop) } else { rto_min };
            if delayed_ack_segments > 1 && delayed_ack_timeout > least {
                warn_of_held_acks(t, delayed_ack_timeout, least);
            }
        };
        // Above the BDP of 100 Gb/s times bolt's 240 us, 3 MB, so that it does not limit by default.
        /// Receive window with receive_buffer = "fixed"
        #[source = "RFC 9293 §3.8.6, RFC 7323 §2.3"]
        receive_window: Bytes = or_in(Bytes::kb(4000), WINDOWS);
        /// Receive window: constant (fixed), half of a buffer that grows with the data read (linux), or a buffer that
        /// grows in steps (freebsd, needs timestamps)
        #[source = "Linux: tcp_rcv_space_adjust; FreeBSD"]
        receive_buffer: ReceiveBufferName = or(ReceiveBufferName::Fixed);
        /// Initial receive buffer of linux and freebsd
        #[source = "Linux: tcp_rmem[1]; FreeBSD: recvspace"]
        receive_buffer_initial: Bytes = or_in(Bytes(131_072), WINDOWS);
        /// Maximum receive buffer of linux and freebsd; the initial size disables linux autotuning
        #[source = "Linux: tcp_rmem[2]; FreeBSD: recvbuf_max"]
        receive_buffer_max: Bytes = or_in(Bytes(6_291_456), WINDOWS) => {
            let able = receive_buffer == ReceiveBufferName::Fixed || receive_buffer_max >= receive_buffer_initial;
            let message =
                || format!("{receive_buffer_max} is below receive_buffer_initial ({receive_buffer_initial})");
            t.check(able, "receive_buffer_max", message, "");
        };
        /// Growth step of the freebsd receive buffer
        #[source = "FreeBSD: recvbuf_inc"]
        receive_buffer_step: Bytes = or_in(Bytes(16_384), WINDOWS);
        /// Maximum number of full segments above a gap; 0: no limit
        #[source = "cee Table I: 200"]
        reassembly_limit: u32 = or_in(0, 0..=1_000_000);
        /// D-SACK: report duplicate data; needs sack
        #[source = "RFC 2883"]
        dsack: bool = or(false);
        /// Rate at which the application reads
        read_rate: Option<BitRate> = optional("none: at once") => {
            let positive = read_rate.is_none_or(|rate: BitRate| rate.0 >= 1000);
            t.check(positive, "read_rate", || "is below 1 kbps".to_owned(), "leave it out to read at once");
        };
        /// Send buffer: unlimited, or one that grows with the window (linux), where the segment that fills it carries
        /// PSH
        #[source = "Linux: tcp_sndbuf_expand"]
        send_buffer: SendBufferName = or(SendBufferName::Unlimited);
        /// Initial send buffer of linux
        #[source = "Linux: tcp_wmem[1]"]
        send_buffer_initial: Bytes = or_in(Bytes(16_384), SEND_BUFFERS);
        /// Maximum send buffer of linux
        #[source = "Linux: tcp_wmem[2]"]
        send_buffer_max: Bytes = or_in(Bytes(4_194_304), SEND_BUFFERS) => {
            let able = send_buffer == SendBufferName::Unlimited || send_buffer_max >= send_buffer_initial;
            let message = || format!("{send_buffer_max} is below send_buffer_initial ({send_buffer_initial})");
            t.check(able, "send_buffer_max", message, "raise it, or lower send_buffer_initial");
        };
        /// When a last, not full segment is sent: at once (at_once, TCP_NODELAY), when no other small one is
        /// unacknowledged (nagle), or when more data arrive or the probe timer expires (cork, TCP_CORK). Workloads of
        /// kind application use at_once by default
        #[source = "RFC 9293 §3.7.4; Linux: tcp_nagle_test"]
        small_segments: SmallSegmentsName = or(SmallSegmentsName::AtOnce);
        /// TCP small queues: a socket keeps at most about a millisecond of data in its host's queues
        #[source = "Linux: tcp_small_queue_check"]
        small_queues: bool = or(false);
        /// Timestamps option: 12 bytes on every segment
        #[source = "RFC 7323"]
        timestamps: bool = or(false);
        /// Three-way handshake for every flow
        #[source = "RFC 9293 §3.5"]
        handshake: bool = or(true);
        /// End connections with FIN and its ACK; off: they disappear
        #[source = "RFC 9293 §3.6"]
        fin: bool = or(false);
        /// What the next connection to the same peer inherits: RTT (linux), also ssthresh (linux_ssthresh, freebsd), also the
        /// congestion window (cee)
        #[source = "RFC 9040; Linux: tcp_metrics.c"]
        cache: CacheName = or(CacheName::None);
        /// TCP connections or RoCEv2 queue pairs. Queue pairs use the keys from rdma_control on and, of those above,
        /// only ecn, lossless, priority and dscp
        kind: TransportKindName = or(TransportKindName::Tcp);
        /// Congestion control of queue pairs
        #[source = "Zhu et al., SIGCOMM 2015; NVIDIA; Mittal et al., SIGCOMM 2015; Kumar et al., SIGCOMM 2020; htsim"]
        rdma_control: RdmaControlName = or(RdmaControlName::DcqcnPaper);
        /// Time between two updates of DCQCN's alpha
        #[source = "Zhu et al., SIGCOMM 2015; NVIDIA: DCE_TCP_RTT"]
        dcqcn_alpha_interval: Option<Span> = optional_in(POSITIVE, "as rdma_control has it");
        /// Weight g of one update of DCQCN's alpha
        #[source = "Zhu et al., SIGCOMM 2015; NVIDIA: DCE_TCP_G"]
        dcqcn_gain: Option<f64> = optional_in(Above(0.0, 1.0, ""), "as rdma_control has it");
        /// Time between two increases of DCQCN's rate
        #[source = "Zhu et al., SIGCOMM 2015; NVIDIA: RPG_TIME_RESET"]
        dcqcn_rise_interval: Option<Span> = optional_in(POSITIVE, "as rdma_control has it");
        /// Bytes between two increases of DCQCN's rate
        #[source = "Zhu et al., SIGCOMM 2015"]
        dcqcn_byte_counter: Option<Bytes> = optional_in(Bytes(1)..=Bytes(1_000_000_000_000), "as rdma_control has it");
        /// Increases of DCQCN's rate before its target rate rises, F
        #[source = "Zhu et al., SIGCOMM 2015; NVIDIA: RPG_THRESHOLD"]
        dcqcn_recovery_steps: Option<u32> = optional_in(1..=1000, "as rdma_control has it");
        /// Additive increase of DCQCN's target rate
        #[source = "Zhu et al., SIGCOMM 2015; NVIDIA: RPG_AI_RATE"]
        dcqcn_additive_increase: Option<BitRate> = optional_in(DCQCN_RATES, "as rdma_control has it");
        /// Hyper increase of DCQCN's target rate
        #[source = "IEEE 802.1Qau; NVIDIA: RPG_HAI_RATE"]
        dcqcn_hyper_increase: Option<BitRate> = optional_in(DCQCN_RATES, "as rdma_control has it");
        /// Smallest rate of DCQCN
        #[source = "NVIDIA: RPG_MIN_RATE"]
        dcqcn_minimum_rate: Option<BitRate> = optional_in(DCQCN_RATES, "as rdma_control has it");
        /// Additive steps of HPCC before the next multiplicative one: 0 in the simulator's scripts, 5 in the paper's text
        #[source = "Li et al., SIGCOMM 2019: maxStage"]
        hpcc_max_stage: u32 = or_in(0, 0..=1000);
        /// Payload of a full packet of a queue pair: 256, 512, 1024, 2048 or 4096 bytes
        #[source = "InfiniBand Architecture Specification §5.2.1"]
        rdma_mtu: Bytes = or_in(Bytes(1024), Bytes(256)..=Bytes(4096)) => {
            t.check(rdma_mtu.0.is_power_of_two(), "rdma_mtu", || format!("{rdma_mtu} is not a path MTU"), "256, 512, 1024, 2048 or 4096 B");
        };
        /// Send messages as SENDs, which consume a posted receive; off: WRITEs
        rdma_send: bool = or(false);
        /// In-order packets per acknowledgement; the last packet of a message is acknowledged at once
        rdma_ack_every: u32 = or_in(1, 1..=1024);
        /// Retransmission timeout of a queue pair
        #[source = "InfiniBand Architecture Specification: 4.096 us times 2^14"]
        rdma_timeout: Span = or_in(Span(67_108_864_000), POSITIVE);
        /// Timeouts in a row before a queue pair fails
        #[source = "InfiniBand Architecture Specification: three bits"]
        rdma_retry_count: u32 = or_in(7, 0..=7);
        /// Retransmit only lost packets (IRN); off: go-back-N
        #[source = "Mittal et al., SIGCOMM 2018"]
        rdma_selective_repeat: bool = or(false);
        /// Minimum time between two CNPs of a queue pair
        #[source = "Zhu et al., SIGCOMM 2015: 50 us; NVIDIA: 4 us"]
        rdma_cnp_interval: Span = or_in(Span::from_us(50), TIMES);
        /// Time from a marked packet to its CNP
        rdma_cnp_delay: Span = or_in(Span::ZERO, TIMES);
        /// 802.1p priority of CNPs
        #[source = "NVIDIA: mlxconfig CNP_802P_PRIO"]
        rdma_cnp_priority: u8 = or_in(6, 0..=7);
        /// Differentiated services code point of CNPs
        #[source = "NVIDIA: mlxconfig CNP_DSCP"]
        rdma_cnp_dscp: u8 = or_in(48, 0..=63);
        /// SYN retransmissions before giving up
        #[source = "Linux: tcp_syn_retries"]
        syn_retries: u32 = or_in(6, 0..=255);
        /// Consecutive timeouts before giving up
        #[source = "Linux: tcp_retries2"]
        retries: u32 = or_in(15, 0..=255);
    }
    pub fn read(t, reorders: Option<&str>, given: &mut Option<u8>);
}

choices! {
    /// What carries flows
    pub enum TransportKindName {
        /// TCP connections
        Tcp = "tcp",
        /// Queue pairs of `RoCEv2`
        Rdma = "rdma",
    }
}

choices! {
    /// Congestion controls of queue pairs
    pub enum RdmaControlName {
        /// None: line rate, PFC alone
        None = "none",
        /// DCQCN as in the paper (SIGCOMM 2015)
        DcqcnPaper = "dcqcn_paper",
        /// DCQCN with the defaults of NVIDIA `ConnectX` cards
        DcqcnConnectx = "dcqcn_connectx",
        /// DCQCN as the HPCC simulator has it
        DcqcnHpcc = "dcqcn_hpcc",
        /// TIMELY (SIGCOMM 2015)
        Timely = "timely",
        /// Swift (SIGCOMM 2020), the window for the fabric's delay
        Swift = "swift",
        /// HPCC (SIGCOMM 2019); switches stamp telemetry, 42 bytes of each packet
        Hpcc = "hpcc",
        /// NSCC as htsim has it: unordered delivery, for sprayed packets, with and without trimming (switch.queue)
        Nscc = "nscc",
    }
}

choices! {
    /// ECN modes
    pub enum EcnName {
        /// Not negotiated
        Off = "off",
        /// RFC 3168
        Classic = "classic",
        /// RFC 8257
        Dctcp = "dctcp",
    }
}

choices! {
    /// Slow start after a timeout
    pub enum RtoGrowthName {
        /// At most a segment per ACK (RFC 3465)
        Segment = "segment",
        /// What the ACK newly delivers (Linux)
        Delivered = "delivered",
    }
}

choices! {
    /// The window after idle time
    pub enum IdleRestartName {
        /// It stays
        Off = "off",
        /// At most the initial window
        Rfc5681 = "rfc5681",
        /// Halved for each RTO
        Linux = "linux",
    }
}

choices! {
    /// RTO forms
    pub enum RtoFormName {
        /// RFC 6298
        Rfc = "rfc",
        /// srtt + max(`rto_min`, 4 rttvar)
        Linux = "linux",
        /// srtt + 4 rttvar + slop
        Freebsd = "freebsd",
    }
}

choices! {
    /// Forms of the delayed ACK
    pub enum DelayedAckFormName {
        /// Constant
        Fixed = "fixed",
        /// Linux
        Linux = "linux",
    }
}

choices! {
    /// Receive buffers
    pub enum ReceiveBufferName {
        /// `receive_window`
        Fixed = "fixed",
        /// Dynamic right-sizing
        Linux = "linux",
        /// Steps of a fixed size
        Freebsd = "freebsd",
    }
}

choices! {
    /// The send buffer
    pub enum SendBufferName {
        /// Unlimited
        Unlimited = "unlimited",
        /// Grows with the window
        Linux = "linux",
    }
}

choices! {
    /// When a last, not full segment is sent
    pub enum SmallSegmentsName {
        /// `TCP_NODELAY`
        AtOnce = "at_once",
        /// When no other small segment is unacknowledged
        Nagle = "nagle",
        /// `TCP_CORK`
        Cork = "cork",
    }
}

choices! {
    /// Connection caches
    pub enum CacheName {
        /// Nothing is inherited
        None = "none",
        /// RTT
        Linux = "linux",
        /// RTT and ssthresh
        LinuxSsthresh = "linux_ssthresh",
        /// RTT, its deviation and ssthresh, averaged
        Freebsd = "freebsd",
        /// Also the congestion window
        Cee = "cee",
    }
}

/// The initial congestion window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InitialWindow {
    /// This many segments.
    Segments(u32),
    /// Host link rate times the base RTT of the longest shortest path, rounded up to a segment.
    Bdp,
    /// This many bytes.
    Bytes(Bytes),
}

impl Setting for InitialWindow {
    fn shape() -> Shape {
        let segments = Shape::Pattern(r"^\s*0*[1-9][0-9]*\s*segments?\s*$");
        let forms = vec![segments, Shape::Pattern(r"^\s*bdp\s*$"), Bytes::shape()];
        Shape::Any("\"N segments\", \"bdp\" or a size", forms)
    }
    fn read(item: &Item) -> Result<InitialWindow, Mistake> {
        const EXPECTED: &str = "\"10 segments\", \"bdp\" or a size such as \"30 KB\"";
        let Value::Text(text) = &item.value else { return wrong_sort(item, EXPECTED) };
        let text = text.trim();
        if text == "bdp" {
            return Ok(InitialWindow::Bdp);
        }
        let count = text.strip_suffix("segments").or_else(|| text.strip_suffix("segment")).map(str::trim);
        let window = match count {
            Some(count) => count.parse().ok().map(InitialWindow::Segments),
            None => text.parse().ok().map(InitialWindow::Bytes),
        };
        match window {
            None | Some(InitialWindow::Segments(0) | InitialWindow::Bytes(Bytes(0))) => {
                let message = format!("{} is not an initial window; expected {EXPECTED}", item.show());
                Err(Mistake { message, hint: String::new() })
            }
            Some(window) => Ok(window),
        }
    }
    fn toml(&self) -> String {
        match self {
            InitialWindow::Segments(count) => format!("\"{count} segments\""),
            InitialWindow::Bdp => "\"bdp\"".to_owned(),
            InitialWindow::Bytes(bytes) => bytes.toml(),
        }
    }
}

// Linux 6.1: a DCTCP socket sends everything as ECT(0) (tcp_ca_needs_ecn).
fn all_ect(
    t: &mut Table,
    key: &'static str,
    doc: &str,
    control: &CongestionControlConfig,
    stack: &str,
) -> bool {
    let all = stack == "linux" && control.needs_exact_ecn();
    let why = match control {
        CongestionControlConfig::Dctcp(_) => "DCTCP of the linux stack".to_owned(),
        other => format!("{} needs the exact echo of CE", other.name()),
    };
    let origin = if all { Origin::Computed(why) } else { Origin::Default };
    t.or_because(key, all, origin, "false; true for DCTCP of stack = \"linux\"", doc)
}

// Linux 6.7 and later (tcp_delack_max) holds no ACK as long as its own smallest RTO, for this reason.
fn warn_of_held_acks(t: &mut Table, held: Span, least: Span) {
    let key = t.at("delayed_ack_timeout");
    t.ledger.warn(format!(
        "{key}: an ACK is held for up to {held}, longer than the smallest RTO ({least}): timeouts without a loss; lower it \
         below that, or raise rto_min"
    ));
}

fn warn_of_coarse_echo(t: &mut Table, control: &CongestionControlConfig, ecn: EcnName) {
    if control.needs_exact_ecn() && ecn != EcnName::Dctcp {
        let path = t.at("ecn");
        t.ledger.warn(format!(
            "{path}: {} with congestion_control {:?}, which needs the exact echo of CE (ecn = \"dctcp\")",
            ecn.plain(),
            control.name()
        ));
    }
}

/// A congestion control that sets a pacing rate needs pacing.
fn pacing_of(t: &mut Table, key: &'static str, doc: &str, control: &CongestionControlConfig) -> bool {
    let (paces, name) = (control.sets_pacing_rate(), control.name());
    let origin = if paces { Origin::Computed(format!("{name} sets a pacing rate")) } else { Origin::Default };
    let rule = "false; true for a plug-in that sets a pacing rate";
    let on = t.or_because(key, paces, origin, rule, doc);
    if paces && !on {
        let path = t.at(key);
        t.ledger.warn(format!("{path}: false, so the pacing rate that {name} sets has no effect"));
    }
    on
}

/// The priority in the file; otherwise it follows from the switches later.
fn priority_if_given(t: &mut Table, key: &'static str, doc: &str, given: &mut Option<u8>) -> u8 {
    let rule = "by switch.priority_of_dscp, else the first of switch.pfc.priorities if lossless, else the lowest other one";
    *given = t.optional_in(key, 0..=7, rule, doc);
    given.unwrap_or(0)
}

/// bolt §IV-A2 disables fast retransmit if packets of a flow overtake each other.
fn unless_reordered(t: &mut Table, key: &'static str, doc: &str, reorders: Option<&str>) -> bool {
    let (fast, origin) = match reorders {
        None => (true, Origin::Default),
        Some(why) => (false, Origin::Computed(format!("because {why}"))),
    };
    let rule = "true; false if routing.kind = \"spray\" or routing.per = \"packet\"";
    t.or_because(key, fast, origin, rule, doc)
}

/// A mechanism that needs others: without them it is off if a stack enables it, and a warning if the file does.
fn if_able(t: &mut Table, key: &'static str, doc: &str, able: bool, needs: &str) -> bool {
    let on = t.or(key, false, doc);
    let path = t.at(key);
    if on && !able && t.has(key) {
        t.ledger.warn(format!("{path}: does nothing without {needs}"));
    } else if on && !able {
        t.ledger.settle(&path, "false".to_owned(), Origin::Computed(format!("it needs {needs}")));
        return false;
    }
    on
}
