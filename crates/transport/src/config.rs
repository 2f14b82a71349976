//! The settings of a transport. A variant (`dctcp`, `tcp_bolt` ...) is a row of these values, not a copy of code.

use crate::cc::{CongestionControlConfig, read_congestion_control};
use crate::mechanisms::{DisabledMechanisms, Mechanism};
use crate::recovery::RecoveryConfig;
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;
use pauseframe_schema::value::Setting;
use pauseframe_schema::{choices, table};
use pauseframe_units::{BitRate, Bytes, Span};
use std::ops::RangeInclusive;

/// Upper limit of timers: an hour.
const TIME_MAX: Span = Span::from_secs(3600);
/// Range of timers that may be off.
pub(crate) const TIMES: RangeInclusive<Span> = Span::ZERO..=TIME_MAX;
/// Range of timers that are always on.
const POSITIVE: RangeInclusive<Span> = Span(1)..=TIME_MAX;
/// Just below the largest window that a shift of 14 can announce (RFC 7323 §2.3).
const WINDOWS: RangeInclusive<Bytes> = Bytes(1460)..=Bytes(1_000_000_000);
const SEND_BUFFERS: RangeInclusive<Bytes> = Bytes(4096)..=Bytes(1_000_000_000);

/// Bytes of MPTCP's option DSS with 64-bit numbers, padded: mapping and `DATA_ACK` on segments with data, `DATA_ACK` on others (RFC 8684 §3.3).
const DSS_WITH_MAPPING: u32 = 28;
const DSS_WITHOUT_MAPPING: u32 = 12;

choices! {
    /// How a connection uses ECN
    pub enum EcnMode {
        /// Not negotiated
        Off = "off",
        /// RFC 3168: ECE until CWR; one halving a window
        Classic = "classic",
        /// RFC 8257: exact echo of CE; reduction by alpha / 2
        Dctcp = "dctcp",
    }
}

choices! {
    /// How the minimum affects the retransmission timeout
    pub enum RtoForm {
        /// RFC 6298 §2: max(minimum, srtt + max(G, 4 rttvar))
        Rfc = "rfc",
        /// Linux: srtt + max(minimum, 4 rttvar) (the variance term is floored)
        Linux = "linux",
        /// FreeBSD: max(minimum, srtt + 4 rttvar) + slop; back-off multiplies what the slop is added to; cee's "RTO variance" of 20 ms is the slop
        Freebsd = "freebsd",
    }
}

choices! {
    /// Timeout of delayed ACKs, and which ACKs leave immediately
    pub enum DelayedAckForm {
        /// A constant timeout; only the segment count makes an ACK leave immediately
        Fixed = "fixed",
        /// Linux 6.1: adaptive, with quick ACKs, interactive mode, and ACKs of pushed data
        Linux = "linux",
    }
}

choices! {
    /// The receive buffer, which determines the receive window
    pub enum ReceiveBuffer {
        /// `receive_window`
        Fixed = "fixed",
        /// Linux dynamic right-sizing: half of a buffer that grows from `receive_buffer_initial` (`tcp_rmem[1]`) up to
        /// `receive_buffer_max` (`tcp_rmem[2]`); equal ones are `tcp_moderate_rcvbuf` = 0
        Linux = "linux",
        /// FreeBSD 9: it grows by `receive_buffer_step` each round trip that almost fills it; needs timestamps
        Freebsd = "freebsd",
    }
}

choices! {
    /// The send buffer, which holds data until they are acknowledged
    pub enum SendBuffer {
        /// No limit; the last segment of all data has PSH
        Unlimited = "unlimited",
        /// Linux: from `send_buffer_initial` (`tcp_wmem[1]`), or twice the initial window, up to `send_buffer_max` (`tcp_wmem[2]`)
        Linux = "linux",
    }
}

choices! {
    /// Handling of a last segment that is not full
    pub enum SmallSegments {
        /// Sent immediately (`TCP_NODELAY`)
        AtOnce = "at_once",
        /// Delayed while another small segment is unacknowledged (RFC 9293 §3.7.4 with Minshall's change, as Linux)
        Nagle = "nagle",
        /// Delayed until more data or the probe timer (`TCP_CORK`)
        Cork = "cork",
    }
}

choices! {
    /// What a connection inherits from an earlier one to the same peer
    pub enum CachePolicy {
        /// Nothing
        None = "none",
        /// Linux since 5.6: the RTT
        Linux = "linux",
        /// Linux with `tcp_no_ssthresh_metrics_save` = 0: ssthresh too
        LinuxSsthresh = "linux_ssthresh",
        /// FreeBSD: RTT, its deviation and ssthresh, averaged
        Freebsd = "freebsd",
        /// FreeBSD as cee describes it: the congestion window too
        Cee = "cee",
    }
}

table! {
    /// The retransmission timer (RFC 6298) with the values of Linux: minimum 200 ms (HZ/5), maximum 120 s, ticks of 1 ms (HZ 1000)
    #[derive(Copy, Eq)]
    pub struct RtoConfig {
        /// RTO before the first sample
        #[source = "RFC 6298 §2.1"]
        initial as "rto_initial": Span = or_in(Span::from_secs(1), POSITIVE);
        /// Lower bound of the RTO
        #[source = "Linux: HZ/5"]
        min as "rto_min": Span = or_in(Span::from_ms(200), TIMES);
        /// Upper bound of the RTO
        #[source = "Linux: 120 s"]
        max as "rto_max": Span = or_in(Span::from_secs(120), POSITIVE) => {
            for (key, value) in [("rto_min", min), ("rto_initial", initial)] {
                let message = || format!("{value} is above rto_max ({max})");
                t.check(value <= max, key, message, "raise rto_max or lower this");
            }
        };
        /// Clock granularity: deadlines are rounded up to a multiple of it
        #[source = "RFC 6298 §2; Linux: HZ 1000"]
        granularity as "rto_granularity": Span = or_in(Span::from_ms(1), POSITIVE);
        /// Phase of the host's clock, less than [`crate::CLOCK_PERIOD_TICKS`] ticks, so that hosts' clocks do not tick together
        phase: Span = from(Span::ZERO);
        /// Formula of the RTO: rfc max(rto_min, srtt + 4 rttvar), linux srtt + max(rto_min, 4 rttvar), freebsd
        /// max(rto_min, srtt + 4 rttvar) + rto_slop, of which back-off multiplies the first term
        #[source = "RFC 6298 §2; Linux; FreeBSD 9.3: tcp_var.h TCP_REXMTVAL, tcp_timer.c tcp_timer_rexmt"]
        form as "rto_form": RtoForm = or(RtoForm::Linux);
        /// Constant added in the formula freebsd
        #[source = "cee Table I; FreeBSD 9.3: tcp_timer.h TCPT_RANGESET"]
        slop as "rto_slop": Span = or_in(Span::from_ms(20), TIMES);
        /// Use Linux's timer wheel: timers expire one to two ticks late, and up to an eighth late from 63 ticks on
        #[source = "Linux: kernel/time/timer.c"]
        wheel as "timer_wheel": bool = or(false);
    }
    pub fn part(t);
}

table! {
    /// Delayed acknowledgements (RFC 9293 §3.8.6.3, RFC 5681 §4.2)
    // RFC 9293 §3.8.6.3: at least every second full segment. Linux: at the latest after 40 ms (HZ/25).
    #[derive(Copy, Eq)]
    pub struct DelayedAckConfig {
        /// Full segments after which an ACK is sent at the latest
        #[source = "RFC 9293 §3.8.6.3"]
        segments as "delayed_ack_segments": u32 = or_in(2, 1..=1000);
        /// Time after which an ACK is sent at the latest
        #[source = "Linux: HZ/25"]
        timeout as "delayed_ack_timeout": Span = or_in(Span::from_ms(40), TIMES);
    }
    pub fn part(t);
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

table! {
    /// Settings that all connections of a transport share
    pub struct TcpConfig {
        /// Congestion control; its constants are separate keys
        congestion_control: CongestionControlConfig = by(read_congestion_control);
        /// Largest payload of a segment in bytes: MTU minus headers and timestamps, if on
        mss: u32 = from(0);
        /// Initial congestion window in bytes
        initial_window: u64 = from(0);
        /// Subflows of each connection (MPTCP); 1: TCP. Each has its own source port, or port of its host, and its own window
        #[source = "RFC 8684; Linux: net/mptcp"]
        subflows: u32 = or_in(1, 1..=32);
        /// ECN: none, one reduction per window (classic), or the exact echo of CE (dctcp)
        #[source = "RFC 3168, RFC 8257"]
        ecn: EcnMode = or(EcnMode::Off);
        /// ECT on SYN and SYN-ACK too
        #[source = "RFC 3168 §6.1.1; judd §7.4: DCTCP+"]
        ect_on_syn: bool = by(read_all_ect, &congestion_control, stack);
        /// ECT on pure ACKs and retransmissions too, as Linux does for DCTCP
        #[source = "RFC 3168 §6.1.4; Linux"]
        ect_on_ack: bool = by(read_all_ect, &congestion_control, stack) => {
            warn_coarse_echo(t, &congestion_control, ecn);
        };
        /// Selective acknowledgements
        #[source = "RFC 2018, RFC 6675"]
        sack: bool = or(true);
        /// Fast retransmit and fast recovery
        #[source = "RFC 5681 §3.2"]
        fast_retransmit: bool = by(read_unless_reordered, reorders);
        /// Duplicate ACKs that trigger fast retransmit
        #[source = "RFC 5681 §3.2"]
        dup_thresh: u32 = or_in(3, 1..=1000);
        /// Limited transmit
        #[source = "RFC 3042"]
        limited_transmit: bool = or(true);
        /// Further settings of loss recovery
        recovery: RecoveryConfig = part(RecoveryConfig::read, sack, fast_retransmit, &congestion_control);
        /// Retransmission timer
        rto: RtoConfig = part(RtoConfig::read);
        /// Delayed ACKs with a constant timeout (fixed), or adaptive, with quick ACKs and ACKs of pushed data (linux)
        #[source = "RFC 5681 §4.2; Linux"]
        delayed_ack_form: DelayedAckForm = or(DelayedAckForm::Fixed);
        /// Immediate ACKs at the start and after a pause, with delayed_ack_form = "linux"
        #[source = "Linux: TCP_MAX_QUICKACKS"]
        quick_acks: u32 = or_in(16, 0..=1_000_000);
        /// Delay SACKs beyond the third for a gap by up to 5 % of the RTT, with delayed_ack_form = "linux"
        #[source = "Linux: tcp_comp_sack_delay_ns"]
        sack_compression: bool = or(true);
        /// Delayed ACKs
        delayed_ack: DelayedAckConfig = part(DelayedAckConfig::read) => {
            let least = if rto.form == RtoForm::Freebsd { rto.min + rto.slop } else { rto.min };
            if delayed_ack.segments > 1 && delayed_ack.timeout > least {
                warn_short_rto(t, delayed_ack.timeout, least);
            }
        };
        // Above the BDP of 100 Gb/s times bolt's 240 us, 3 MB, so that it does not limit by default.
        /// Receive window with receive_buffer = "fixed"
        #[source = "RFC 9293 §3.8.6, RFC 7323 §2.3"]
        receive_window: u32 = by(read_size, Bytes::kb(4000), WINDOWS);
        /// Receive window: constant (fixed), half of a buffer that grows with the data read (linux), or a buffer that
        /// grows in steps (freebsd, needs timestamps)
        #[source = "Linux: tcp_rcv_space_adjust; FreeBSD"]
        receive_buffer: ReceiveBuffer = or(ReceiveBuffer::Fixed);
        /// Initial receive buffer of linux and freebsd
        #[source = "Linux: tcp_rmem[1]; FreeBSD: recvspace"]
        receive_buffer_initial: u32 = by(read_size, Bytes(131_072), WINDOWS);
        /// Maximum receive buffer of linux and freebsd; the initial size disables linux autotuning
        #[source = "Linux: tcp_rmem[2]; FreeBSD: recvbuf_max"]
        receive_buffer_max: u32 = by(read_size, Bytes(6_291_456), WINDOWS) => {
            let is_used = receive_buffer != ReceiveBuffer::Fixed;
            check_max_buffer(t, is_used, ("receive_buffer_initial", receive_buffer_initial), ("receive_buffer_max", receive_buffer_max), "");
        };
        /// Growth step of the freebsd receive buffer
        #[source = "FreeBSD: recvbuf_inc"]
        receive_buffer_step: u32 = by(read_size, Bytes(16_384), WINDOWS);
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
            let message = || format!("{subflows}, and each subflow would be read at read_rate");
            t.check(read_rate.is_none() || subflows == 1, "subflows", message, "use 1, or remove read_rate");
        };
        /// Send buffer: unlimited, or one that grows with the window (linux), where the segment that fills it carries
        /// PSH
        #[source = "Linux: tcp_sndbuf_expand"]
        send_buffer: SendBuffer = or(SendBuffer::Unlimited);
        /// Initial send buffer of linux
        #[source = "Linux: tcp_wmem[1]"]
        send_buffer_initial: u32 = by(read_size, Bytes(16_384), SEND_BUFFERS);
        /// Maximum send buffer of linux
        #[source = "Linux: tcp_wmem[2]"]
        send_buffer_max: u32 = by(read_size, Bytes(4_194_304), SEND_BUFFERS) => {
            let (initial, max) = (("send_buffer_initial", send_buffer_initial), ("send_buffer_max", send_buffer_max));
            check_max_buffer(t, send_buffer == SendBuffer::Linux, initial, max, "raise it, or lower send_buffer_initial");
        };
        /// When a last, not full segment is sent: at once (at_once, TCP_NODELAY), when no other small one is
        /// unacknowledged (nagle), or when more data arrive or the probe timer expires (cork, TCP_CORK). Workloads of
        /// kind application and storage use at_once by default
        #[source = "RFC 9293 §3.7.4; Linux: tcp_nagle_test"]
        small_segments: SmallSegments = or(SmallSegments::AtOnce);
        /// TCP small queues: a socket keeps at most about a millisecond of data in its host's queues
        #[source = "Linux: tcp_small_queue_check"]
        small_queues: bool = or(false);
        /// Offloads of the NIC
        offload: OffloadConfig = from(OffloadConfig::NONE);
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
        cache: CachePolicy = or(CachePolicy::None);
        /// SYN retransmissions before giving up
        #[source = "Linux: tcp_syn_retries"]
        syn_retries: u32 = or_in(6, 0..=255);
        /// Consecutive timeouts before giving up; with count_packets, as in Linux, the time that these and the first take if it is 200 ms
        #[source = "Linux: tcp_retries2, retransmits_timed_out"]
        retries: u32 = or_in(15, 0..=255);
        /// Mechanisms of Linux that are switched off, see [`TcpConfig::without`]
        without: DisabledMechanisms = from(DisabledMechanisms::NOTHING);
    }
    pub fn part(t, stack: &str, reorders: Option<&str>);
}

/// A size of less than 4 GB.
fn read_size(
    t: &mut Table,
    key: &'static str,
    doc: &str,
    default: Bytes,
    bounds: RangeInclusive<Bytes>,
) -> u32 {
    t.or_in(key, default, bounds, doc).0 as u32
}

/// The maximum of a buffer in use is not below its initial size.
fn check_max_buffer(
    t: &mut Table,
    is_used: bool,
    (of_initial, initial): (&str, u32),
    (of_max, max): (&str, u32),
    hint: &str,
) {
    let [first, most] = [initial, max].map(|size| Bytes(u64::from(size)));
    t.check(!is_used || max >= initial, of_max, || format!("{most} is below {of_initial} ({first})"), hint);
}

// Linux 6.1: a DCTCP socket sends everything as ECT(0) (tcp_ca_needs_ecn).
fn read_all_ect(
    t: &mut Table,
    key: &'static str,
    doc: &str,
    control: &CongestionControlConfig,
    stack: &str,
) -> bool {
    let all = stack == "linux" && control.needs_exact_echo();
    let why = match control {
        CongestionControlConfig::Dctcp(_) => "DCTCP of the linux stack".to_owned(),
        other => format!("{} needs the exact echo of CE", other.name()),
    };
    let origin = if all { Origin::Computed(why) } else { Origin::Default };
    t.or_because(key, all, origin, "false; true for DCTCP of stack = \"linux\"", doc)
}

// Linux 6.7 and later (tcp_delack_max) holds no ACK as long as its own smallest RTO, for this reason.
fn warn_short_rto(t: &mut Table, held: Span, least: Span) {
    let key = t.at("delayed_ack_timeout");
    t.ledger.warn(format!(
        "{key}: an ACK is held for up to {held}, longer than the smallest RTO ({least}): timeouts without a loss; lower it \
         below that, or raise rto_min"
    ));
}

fn warn_coarse_echo(t: &mut Table, control: &CongestionControlConfig, ecn: EcnMode) {
    if control.needs_exact_echo() && ecn != EcnMode::Dctcp {
        let path = t.at("ecn");
        t.ledger.warn(format!(
            "{path}: {} with congestion_control {:?}, which needs the exact echo of CE (ecn = \"dctcp\")",
            ecn.plain(),
            control.name()
        ));
    }
}

/// bolt §IV-A2 disables fast retransmit if packets of a flow overtake each other.
fn read_unless_reordered(t: &mut Table, key: &'static str, doc: &str, reorders: Option<&str>) -> bool {
    let (fast, origin) = match reorders {
        None => (true, Origin::Default),
        Some(why) => (false, Origin::Computed(format!("because {why}"))),
    };
    let rule =
        "true; false if packets overtake (routing.kind spray, drill, adaptive, or routing.per = \"packet\")";
    t.or_because(key, fast, origin, rule, doc)
}

impl TcpConfig {
    /// Bytes of MPTCP's option DSS on a segment with `len` bytes of data.
    #[inline]
    pub fn dss_bytes(&self, len: u32) -> u32 {
        match (self.subflows, len) {
            (1, _) => 0,
            (_, 0) => DSS_WITHOUT_MAPPING,
            _ => DSS_WITH_MAPPING,
        }
    }

    /// Whether a buffer limits how far the application can write ahead of what is acknowledged.
    pub fn limits_writer(&self) -> bool {
        self.send_buffer != SendBuffer::Unlimited
    }

    /// NewReno (RFC 5681, RFC 6582) with the timer of RFC 6298, the initial window of RFC 6928 and an ACK for every segment, without handshake and
    /// later extensions: the basis of tests and examples.
    pub const PLAIN: TcpConfig = TcpConfig {
        congestion_control: CongestionControlConfig::NewReno,
        mss: 1460,
        initial_window: 14_600,
        subflows: 1,
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
        quick_acks: 16,
        sack_compression: true,
        receive_window: 1 << 24,
        receive_buffer: ReceiveBuffer::Fixed,
        receive_buffer_initial: 131_072,
        receive_buffer_max: 6_291_456,
        receive_buffer_step: 16_384,
        send_buffer: SendBuffer::Unlimited,
        send_buffer_initial: 16_384,
        send_buffer_max: 4_194_304,
        small_segments: SmallSegments::AtOnce,
        small_queues: false,
        offload: OffloadConfig::NONE,
        reassembly_limit: 0,
        dsack: false,
        read_rate: None,
        fin: false,
        cache: CachePolicy::None,
        syn_retries: 6,
        retries: 15,
        without: DisabledMechanisms::NOTHING,
    };

    /// These settings with `mechanism` off. A mechanism with its own setting is switched off there.
    #[must_use]
    pub fn without(mut self, mechanism: Mechanism) -> TcpConfig {
        match mechanism {
            Mechanism::Frto => self.recovery.frto = false,
            Mechanism::PacketCounting => self.recovery.count_packets = false,
            Mechanism::SmallQueues => self.small_queues = false,
            other => self.without = self.without.with(other),
        }
        self
    }

    /// Whether a mechanism without its own setting is on.
    #[inline]
    pub(crate) fn is_enabled(&self, mechanism: Mechanism) -> bool {
        !self.without.is_disabled(mechanism)
    }

    /// The time of `retries` timeouts and one more, from one of `TCP_RTO_MIN` on, whatever the connection's own (Linux `tcp_model_timeout`).
    pub(crate) fn time_of_retries(&self) -> Span {
        const FIRST: Span = Span::from_ms(200);
        let doublings = (self.rto.max.0 / FIRST.0).checked_ilog2().unwrap_or(0);
        let doubled = FIRST.saturating_mul((2 << doublings.min(self.retries)) - 1);
        doubled.saturating_add(self.rto.max.saturating_mul(u64::from(self.retries.saturating_sub(doublings))))
    }

    /// The most bytes that a socket takes before data are acknowledged; `None`: any number.
    pub fn largest_write(&self) -> Option<u64> {
        (self.send_buffer != SendBuffer::Unlimited).then(|| u64::from(self.send_buffer_max))
    }

    /// Whether a timestamp times the answer to a retransmission, which gives no round-trip time by itself.
    pub(crate) fn times_by_stamps(&self) -> bool {
        self.timestamps && self.is_enabled(Mechanism::RttOfTimestamp)
    }

    /// Whether a closed window is probed without data, as Linux does.
    #[inline]
    pub(crate) fn sends_empty_probes(&self) -> bool {
        self.recovery.count_packets && self.is_enabled(Mechanism::EmptyProbe)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pauseframe_schema::document::{Item, Place, Value};
    use pauseframe_schema::language::Language;
    use pauseframe_schema::ledger::Ledger;

    /// What is wrong with these keys of the linux stack, each as "key: message".
    fn mistakes(keys: &[(&str, &str)]) -> Vec<String> {
        static LANGUAGE: Language = Language::new(|_| {}, &[], &[]);
        let mut root = Item::table(Place::Nowhere);
        for (key, text) in keys {
            root.insert(key, Item { value: Value::Text((*text).to_owned()), place: Place::Nowhere });
        }
        let mut ledger = Ledger::new(&root, "", &LANGUAGE);
        TcpConfig::read(&mut Table::root(&mut ledger), "linux", None);
        let problems = ledger.close().err().unwrap_or_default();
        problems.iter().map(|problem| format!("{}: {}", problem.path, problem.message)).collect()
    }

    #[test]
    fn a_buffer_in_use_grows_from_its_initial_size_upwards() {
        for (kind, initial, max) in [
            ("receive_buffer", "receive_buffer_initial", "receive_buffer_max"),
            ("send_buffer", "send_buffer_initial", "send_buffer_max"),
        ] {
            let unused = if kind == "send_buffer" { "unlimited" } else { "fixed" };
            for (form, most, is_wrong) in
                [("linux", "4999 B", true), ("linux", "5000 B", false), (unused, "4999 B", false)]
            {
                let expected = is_wrong.then(|| format!("{max}: 4.999 KB is below {initial} (5 KB)"));
                let keys = [(kind, form), (initial, "5000 B"), (max, most)];
                assert_eq!(mistakes(&keys), expected.into_iter().collect::<Vec<_>>(), "{form} {most}");
            }
        }
    }
}
