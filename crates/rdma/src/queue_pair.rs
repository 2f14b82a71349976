//! A queue pair: a requester and a responder with a common congestion control, as a sans-IO endpoint.

use crate::any_order::DpOrdering;
use crate::cc::hpcc::Telemetry;
use crate::cc::{ControlChanges, ControlName, ControlParameters, Controller, RdmaControl};
use crate::packet::{Opcode, Packet, WIRE_OVERHEAD};
use crate::receiver::{ACK_INTERVAL, CnpLimiter, Receiver};
use crate::sender::{Entropy, EntropyChoice, Failure, Sender, Verb};
use pauseframe_schema::bounds::Above;
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::{choices, table};
use pauseframe_units::{Bytes, Span, Time};
use std::mem::offset_of;
use std::sync::Arc;

/// A requester asks for an acknowledgement at least every 64 packets (Linux `rxe_param.h`).
const ACK_REQUEST_EVERY: u32 = 64;
/// The first adaptive retransmission timer, and how often it doubles: a ConnectX-5 sent again after 2, 4, 8 and 16 ms (linux-rdma/perftest
/// issue 251).
const ADAPTIVE_FIRST: Span = Span::from_ms(2);
const ADAPTIVE_DOUBLINGS: u32 = 3;
/// IRN's N: so many packets in flight have the short timer (Mittal et al., SIGCOMM 2018).
const FEW_PACKETS: u64 = 3;
/// 4.096 us times 2^14.
const ACK_TIMEOUT: Span = Span(67_108_864_000);
/// Upper limit of timers: an hour.
const TIME_MAX: Span = Span::from_secs(3600);

table! {
    /// Settings of a queue pair; the host and the network give those that have no key
    #[derive(Copy)]
    pub struct QueuePairSettings {
        /// Payload of a full packet, bytes
        mtu: u32 = from(1024);
        /// Send messages as SENDs, which consume a posted receive; off: WRITEs
        uses_send as "rdma_send": bool = or(false);
        /// READs of a queue pair that are under way at once
        #[source = "ConnectX: 16"]
        max_reads as "rdma_max_rd_atomic": u32 = or_in(16, 1..=255);
        /// In-order packets per acknowledgement; the last packet of a message is acknowledged at once. Packets of a
        /// congestion control with a window are acknowledged one by one
        #[source = "no vendor documents it; ns-3 forks: 1"]
        ack_every as "rdma_ack_every": u32 = or_in(16, 1..=1024);
        /// The requester requests an acknowledgement at least every this many packets
        ack_request_every: u32 = from(ACK_REQUEST_EVERY);
        /// Time after which a NAK for the same gap is repeated while packets beyond it arrive (HPCC, SimAI: 500 us)
        #[source = "ns-3 forks; by default once each time the requester has gone back"]
        nak_interval as "rdma_nak_interval": Option<Span> = optional_in(Span(1)..=TIME_MAX, "after each return of the requester");
        /// How the retransmission timer runs
        #[source = "NVIDIA: ROCE_ACCL adaptive retransmission; InfiniBand Architecture Specification"]
        timer as "rdma_timer": RetransmissionTimer = or(RetransmissionTimer::Adaptive);
        /// ACK timeout of a queue pair: its retransmission timer, and the longest adaptive one
        #[source = "InfiniBand Architecture Specification: 4.096 us times 2^14"]
        timeout as "rdma_timeout": Span = or_in(ACK_TIMEOUT, Span(1)..=TIME_MAX);
        /// Retransmission timer while at most three packets are in flight, with rdma_timer = "ibta"; each packet restarts it
        #[source = "Mittal et al., SIGCOMM 2018: RTO_low"]
        timeout_low as "rdma_timeout_low": Option<Span> = optional_in(Span(1)..=TIME_MAX, "rdma_timeout");
        /// A queue pair fails after this many ACK timeouts and one more without progress
        #[source = "InfiniBand Architecture Specification: three bits"]
        retry_count as "rdma_retry_count": u32 = or_in(7, 0..=7);
        /// With DCQCN: packets beyond a gap are answered with CNPs, as marked ones
        #[source = "NVIDIA: ROCE_ACCL roce_slow_restart_en, whose counters say that it generates CNPs"]
        slow_restart as "rdma_slow_restart": bool = or(true);
        /// Maximum bytes in flight of a queue pair
        #[source = "NVIDIA: ROCE_ACCL roce_tx_window_en, whose size is not documented"]
        tx_window as "rdma_tx_window": Option<Bytes> = optional_in(Bytes(256)..=Bytes(1_000_000_000), "unlimited");
        /// Receives that the destination posts for the SENDs of a queue pair; a SEND without one gets an RNR NAK
        #[source = "InfiniBand Architecture Specification, chapter 9"]
        receives as "rdma_receives": Option<u32> = optional_in(1..=1_000_000, "unlimited");
        /// Time from the arrival of a SEND until its receive is posted again
        repost as "rdma_repost_delay": Span = or_in(Span::from_us(1), Span::ZERO..=TIME_MAX);
        /// Timer code of RNR NAKs: 0 is 655.36 ms, 1 to 31 are 10 us to 491.52 ms
        #[source = "InfiniBand Architecture Specification; perftest and NCCL: 12, 0.64 ms"]
        rnr_timer as "rdma_rnr_timer": u8 = or_in(12, 0..=31);
        /// RNR NAKs in a row before a queue pair fails; 7: unlimited
        #[source = "InfiniBand Architecture Specification: three bits"]
        rnr_retry as "rdma_rnr_retry": u32 = or_in(7, 0..=7);
        /// Time to set a queue pair up before its first packet
        connect as "rdma_connect_time": Span = or_in(Span::ZERO, Span::ZERO..=TIME_MAX);
        /// Acknowledgements and NAKs have rdma_cnp_priority; off: the priority of the data
        #[source = "HPCC simulator: ACK_HIGH_PRIO"]
        ack_as_cnp as "rdma_ack_as_cnp": bool = or(false);
        /// Retransmit only lost packets (IRN); off: go-back-N
        #[source = "Mittal et al., SIGCOMM 2018"]
        selective_repeat as "rdma_selective_repeat": bool = or(false);
        /// Order in which cards accept packets of WRITEs and of responses to READs; any order is for switches that choose by packet
        #[source = "NVIDIA: dp_ordering, out-of-order placement of ConnectX-5 and later"]
        dp_ordering as "rdma_dp_ordering": DpOrdering = or(DpOrdering::InOrder);
        /// With rdma_dp_ordering = "ooo_rw": packets that a card keeps beyond a missing one, and packets in flight of a queue pair at most.
        /// When half of them are kept the missing packet counts as lost
        #[source = "no vendor documents it; MP-RDMA: 64; ours: half is above 100 us of packets of 4 KB at 400 Gb/s"]
        ooo_window as "rdma_ooo_window": u32 = or_in(4096, 8..=65_536);
        /// Packets may overtake each other: only a trimmed packet or a timeout counts as a loss
        unordered: bool = from(false);
        /// How the entropy value of each packet is chosen, which switches hash; none: all packets take one path
        #[source = "htsim: uec_mp.cpp"]
        entropy as "rdma_entropy": EntropyChoice = or(EntropyChoice::None);
        /// Entropy values of a queue pair: a power of two
        #[source = "htsim: -paths 64; MRC: 128 to 256"]
        entropy_values as "rdma_entropy_values": u16 = or_in(64, 2..=256) => {
            let is_power = u16::is_power_of_two(entropy_values);
            t.check(is_power, "rdma_entropy_values", || "is not a power of two".to_owned(), "2, 4, 8, ..., 256");
        };
        /// Answers to marked packets
        notification: Option<NotificationPoint> = from(None);
        /// Share of its link from which on the receiving card counts its own input as congested, and answers data packets as marked ones
        #[source = "measured on a ConnectX-5 (simllm), whose rule is not documented"]
        cnp_on_ingress as "rdma_cnp_on_ingress": Option<f64> = optional_in(Above(0.0, 1.0, ""), "never");
        /// Bytes of telemetry in data packets and acknowledgements; 0: none
        telemetry_bytes: u32 = from(0);
        /// Bytes on the wire beyond the IP packet, for pacing
        link_overhead: u32 = from(0);
        /// Window beside a control that steers a rate
        window: SideWindow = from(SideWindow::NONE);
        /// Line rate of the host, bits per second
        line: u64 = from(1);
        /// Changed constants of TIMELY and HPCC
        changes: ControlChanges = part(ControlChanges::read);
        /// Congestion control
        control: RdmaControl = from(RdmaControl::BuiltIn(ControlName::None));
        /// What it follows from besides
        parameters: ControlParameters = from(ControlParameters::default());
    }
    pub fn part(t);
}

choices! {
    /// How the retransmission timer of a queue pair runs
    pub enum RetransmissionTimer {
        /// First 2 ms, doubled up to 16 ms, reset by progress, at most rdma_timeout; an expiry counts as a CNP
        Adaptive = "adaptive",
        /// Always rdma_timeout
        Ibta = "ibta",
    }
}

table! {
    /// Which packets the receiver answers with CNPs, and when
    #[derive(Copy, Eq)]
    pub struct NotificationPoint {
        /// Minimum time between two CNPs of a queue pair or a port
        #[source = "Zhu et al., SIGCOMM 2015: 50 us; NVIDIA: MIN_TIME_BETWEEN_CNPS 4 us; HPCC simulator: 0"]
        interval as "rdma_cnp_interval": Span = or_because_in((default.0, origin.clone()), Span::ZERO..=TIME_MAX, BY_CONTROL);
        /// What rdma_cnp_interval limits
        #[source = "Zhu et al., SIGCOMM 2015; NVIDIA: MIN_TIME_BETWEEN_CNPS counts from the port"]
        scope as "rdma_cnp_scope": CnpScope = or_because(default.1, origin.clone(), BY_CONTROL_SCOPE);
        /// Time from a marked packet to its CNP
        delay as "rdma_cnp_delay": Span = or_in(Span::ZERO, Span::ZERO..=TIME_MAX);
    }
    pub fn part(t, default: (Span, CnpScope), origin: Origin);
}

const BY_CONTROL: &str = "by rdma_control: 50 us for dcqcn_paper, 0 for dcqcn_hpcc, otherwise 4 us";
const BY_CONTROL_SCOPE: &str = "by rdma_control: queue_pair for dcqcn_paper and dcqcn_hpcc, otherwise port";

choices! {
    /// What shares one limit of CNPs
    pub enum CnpScope {
        /// Each queue pair of the receiver
        QueuePair = "queue_pair",
        /// All queue pairs of a port of the receiver
        Port = "port",
    }
}

choices! {
    /// Windows beside controls that steer a rate
    pub enum WindowKind {
        /// None
        None = "none",
        /// Line rate times the idle round trip of the longest path
        Fixed = "fixed",
        /// The same times the rate over the line rate
        ByRate = "by_rate",
    }
}

/// What a queue pair keeps while nothing is under way.
#[derive(Clone, Debug)]
pub struct IdleState {
    /// When it sent its last acknowledgement.
    acked_at: Time,
    control: Option<Box<Controller>>,
}

/// A window beside a control that steers a rate (HPCC simulator: `HAS_WIN`, `VAR_WIN`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SideWindow {
    /// How it follows the rate.
    pub kind: WindowKind,
    /// Idle round trip of the longest path.
    pub base_rtt: Span,
}

impl SideWindow {
    /// No window.
    pub const NONE: SideWindow = SideWindow { kind: WindowKind::None, base_rtt: Span::ZERO };

    /// Bytes that may be in flight at a rate of a line; `None`: any number.
    pub(crate) fn bytes(self, rate: u64, line: u64) -> Option<u64> {
        let rate = match self.kind {
            WindowKind::None => return None,
            WindowKind::Fixed => line,
            WindowKind::ByRate => rate,
        };
        let full = u128::from(line) * u128::from(self.base_rtt.0) / 8_000_000_000_000;
        Some((full * u128::from(rate) / u128::from(line)).max(1) as u64)
    }
}

/// The defaults of a scenario.
impl Default for QueuePairSettings {
    fn default() -> QueuePairSettings {
        QueuePairSettings {
            mtu: 1024,
            uses_send: false,
            max_reads: 16,
            ack_every: 16,
            ack_request_every: ACK_REQUEST_EVERY,
            nak_interval: None,
            timer: RetransmissionTimer::Adaptive,
            timeout: ACK_TIMEOUT,
            timeout_low: None,
            retry_count: 7,
            slow_restart: true,
            tx_window: None,
            receives: None,
            repost: Span::from_us(1),
            rnr_timer: 12,
            rnr_retry: 7,
            connect: Span::ZERO,
            ack_as_cnp: false,
            selective_repeat: false,
            dp_ordering: DpOrdering::InOrder,
            ooo_window: 4096,
            unordered: false,
            notification: None,
            cnp_on_ingress: None,
            entropy: EntropyChoice::None,
            entropy_values: 64,
            telemetry_bytes: 0,
            link_overhead: 0,
            window: SideWindow::NONE,
            line: 1,
            changes: ControlChanges::default(),
            control: RdmaControl::BuiltIn(ControlName::None),
            parameters: ControlParameters::default(),
        }
    }
}

impl QueuePairSettings {
    /// Bytes of a packet from the IP header on.
    pub fn ip_size(&self, packet: &Packet) -> u32 {
        let telemetry = if packet.opcode == Opcode::Cnp { 0 } else { self.telemetry_bytes };
        packet.ip_size() + telemetry
    }

    /// Whether packets are placed in any order. SENDs need theirs: what they take is that of the next posted receive.
    #[inline]
    pub(crate) fn places_any_order(&self) -> bool {
        self.dp_ordering == DpOrdering::OooRw && !self.uses_send && !self.unordered
    }

    /// Maximum bytes in flight beside those of the congestion control.
    #[inline]
    pub(crate) fn flight_limit(&self) -> Option<Bytes> {
        if !self.places_any_order() {
            return self.tx_window;
        }
        let kept = Bytes(u64::from(self.ooo_window) * u64::from(self.mtu));
        Some(self.tx_window.map_or(kept, |window| window.min(kept)))
    }

    /// The retransmission timer after this many expiries in a row, with so many packets in flight.
    pub(crate) fn timer_after(&self, expiries: u32, in_flight: u64) -> Span {
        match self.timer {
            _ if self.unordered => self.timeout,
            RetransmissionTimer::Ibta => {
                self.timeout_low.filter(|_| in_flight <= FEW_PACKETS).unwrap_or(self.timeout)
            }
            RetransmissionTimer::Adaptive => {
                self.timeout.min(Span(ADAPTIVE_FIRST.0 << expiries.min(ADAPTIVE_DOUBLINGS)))
            }
        }
    }

    /// Whether a packet sent can lengthen the retransmission timer.
    pub(crate) fn timer_depends_on_flight(&self) -> bool {
        self.timer == RetransmissionTimer::Ibta && self.timeout_low.is_some() && !self.unordered
    }

    /// Time without progress after which a queue pair fails. htsim's senders of unordered packets never give up; so that a run to a silent host ends,
    /// ours wait as long as others do by default.
    pub(crate) fn patience(&self) -> Span {
        let timeout = if self.unordered { self.timeout.max(ACK_TIMEOUT) } else { self.timeout };
        timeout * u64::from(self.retry_count + 1)
    }

    /// Bytes of a full packet on the wire.
    pub fn full_packet(&self) -> u64 {
        u64::from(WIRE_OVERHEAD + self.telemetry_bytes + self.mtu + self.link_overhead)
    }

    /// Whether the packet behind the next one comes too late for a coalesced acknowledgement: at a rate that was just cut,
    /// the timer would expire first.
    #[inline]
    pub(crate) fn is_slower_than_acks(&self, rate: u64) -> bool {
        rate < self.full_packet() * 8 * (Span::from_secs(1).0 / ACK_INTERVAL.0)
    }

    /// The packets of a message of this size in sending order: their number, and the bytes of each IP packet.
    pub fn train(&self, bytes: u64) -> Vec<(u64, u32)> {
        self.train_of(bytes, if self.uses_send { Opcode::of_send } else { Opcode::of_write })
    }

    /// The same of the response to a READ.
    pub fn response_train(&self, bytes: u64) -> Vec<(u64, u32)> {
        self.train_of(bytes, Opcode::of_response)
    }

    fn train_of(&self, bytes: u64, of: fn(bool, bool) -> Opcode) -> Vec<(u64, u32)> {
        let packets = bytes.div_ceil(u64::from(self.mtu)).max(1);
        let size = |opcode: Opcode, payload: u64| {
            WIRE_OVERHEAD + self.telemetry_bytes + opcode.extension() + (payload as u32).next_multiple_of(4)
        };
        let last = bytes - (packets - 1) * u64::from(self.mtu);
        if packets == 1 {
            return vec![(1, size(of(true, true), last))];
        }
        let full = u64::from(self.mtu);
        let mut train = vec![(1, size(of(true, false), full))];
        if packets > 2 {
            train.push((packets - 2, size(of(false, false), full)));
        }
        train.push((1, size(of(false, true), last)));
        train
    }
}

/// Counters of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Retransmitted packets, of responses too.
    pub retransmits: u32,
    /// Of these, packets retransmitted after a NAK, a trimmed packet, or a repeated request for a response.
    pub retransmits_by_nak: u64,
    /// Of these, packets retransmitted after a timeout.
    pub retransmits_by_timeout: u64,
    /// Retransmission timeouts.
    pub timeouts: u32,
    /// Time without progress that ended with these timeouts.
    pub waited: Span,
    /// Sequence errors reported.
    pub naks_sent: u64,
    /// Sequence errors received.
    pub naks_received: u64,
    /// RNR NAKs sent.
    pub rnr_naks_sent: u64,
    /// RNR NAKs received.
    pub rnr_naks_received: u64,
    /// Congestion notifications sent.
    pub cnps_sent: u64,
    /// Congestion notifications received.
    pub cnps_received: u64,
    /// Data packets that came with CE.
    pub marked_received: u64,
    /// Duplicate data packets.
    pub duplicates: u64,
}

/// One end of a reliable connection. What every packet touches comes first.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct QueuePair {
    /// Queue pairs of equal hosts share them.
    settings: Arc<QueuePairSettings>,
    /// The last data packet sent was part of a response.
    has_responded: bool,
    control: Controller,
    receiver: Receiver,
    sender: Sender,
    stats: Stats,
}

impl QueuePair {
    /// Bytes at its start that packets touch, for prefetching.
    pub const TOUCHED_BY_EACH_PACKET: usize = offset_of!(QueuePair, sender) + Sender::TOUCHED_BY_EACH_PACKET;

    /// A queue pair that is ready to send and to receive.
    pub fn new(settings: impl Into<Arc<QueuePairSettings>>) -> QueuePair {
        let settings = settings.into();
        QueuePair {
            control: Controller::new(&settings),
            sender: Sender::new(),
            receiver: Receiver::new(&settings),
            stats: Stats::default(),
            has_responded: false,
            settings,
        }
    }

    /// Begins a plug-in: the flow of its queue pair, and what decides its random numbers.
    pub fn start_plugin(&mut self, flow: u32, seed: u64, now: Time) {
        self.control.start_plugin(flow, seed, now);
    }

    /// Seeds the draw of entropy values.
    pub fn set_entropy_seed(&mut self, seed: u64) {
        self.sender.entropy = Entropy::new(self.settings.entropy, self.settings.entropy_values, seed);
    }

    /// Posts a message of this size.
    pub fn send(&mut self, bytes: u64) {
        let verb = if self.settings.uses_send { Verb::Send } else { Verb::Write };
        self.sender.post(bytes, verb, self.settings.mtu);
    }

    /// Posts a READ of this size.
    pub fn read(&mut self, bytes: u64) {
        self.sender.post(bytes, Verb::Read, self.settings.mtu);
    }

    /// Sends retransmissions only, and one packet that requests the acknowledgement of those before it.
    pub fn stop_sending(&mut self) {
        self.sender.stop();
    }

    /// Sets the connection up from this time on; nothing is sent before that is done.
    pub fn connect(&mut self, from: Time) {
        self.sender.connect_at(from + self.settings.connect);
    }

    /// Handles a packet; `is_marked`: with CE.
    pub fn on_packet(&mut self, packet: &Packet, is_marked: bool, now: Time) {
        self.on_packet_with(packet, &Telemetry::EMPTY, is_marked, &mut CnpLimiter::default(), now);
    }

    /// The same, with telemetry that an acknowledgement returns from its data packet, and the limiter of CNPs of the port.
    pub fn on_packet_with(
        &mut self,
        packet: &Packet,
        telemetry: &Telemetry,
        is_marked: bool,
        port: &mut CnpLimiter,
        now: Time,
    ) {
        self.process_packet(packet, telemetry, is_marked, port, now);
        self.debug_check();
    }

    #[inline]
    fn process_packet(
        &mut self,
        packet: &Packet,
        telemetry: &Telemetry,
        is_marked: bool,
        port: &mut CnpLimiter,
        now: Time,
    ) {
        self.control.on_timeout(now);
        if packet.is_trimmed && (!self.settings.unordered || packet.opcode.is_response()) {
            // A card that does not know trimming finds a wrong ICRC and discards the packet.
            return;
        }
        match packet.opcode {
            Opcode::Acknowledge if self.settings.unordered => {
                let Self { sender, control, settings, stats, .. } = self;
                sender.on_unordered_ack(packet, control, settings, stats, now);
            }
            Opcode::Acknowledge => {
                self.sender.on_ack(
                    (packet, telemetry),
                    &mut self.control,
                    &self.settings,
                    &mut self.stats,
                    now,
                );
            }
            Opcode::Cnp => {
                self.stats.cnps_received += 1;
                self.control.on_cnp(now);
            }
            opcode if opcode.is_response() => {
                let Self { sender, receiver, control, settings, stats, .. } = self;
                receiver.on_mark(is_marked, port, settings, stats, now);
                let is_beyond_gap = sender.on_response(packet, control, settings, stats, now);
                if is_beyond_gap && settings.slow_restart {
                    receiver.notify(port, settings, now);
                }
            }
            _ => {
                let Self { receiver, settings, stats, .. } = self;
                receiver.on_mark(is_marked, port, settings, stats, now);
                receiver.on_data(packet, is_marked, port, settings, stats, now);
            }
        }
    }

    /// Share of its link from which on the input of this card counts as congested; `None`: never.
    #[inline]
    pub fn input_limit(&self) -> Option<f64> {
        self.settings.cnp_on_ingress
    }

    /// A data packet has come while the input of this card is congested.
    pub fn on_congested_input(&mut self, port: &mut CnpLimiter, now: Time) {
        self.receiver.notify(port, &self.settings, now);
    }

    /// The next acknowledgement, NAK or CNP to send at `now`.
    #[inline]
    pub fn poll_reply(&mut self, now: Time) -> Option<Packet> {
        if self.receiver.is_silent() { None } else { self.receiver.poll(&mut self.stats, now) }
    }

    /// The next packet to send at `now`: replies go before data.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Packet> {
        self.poll_reply(now).or_else(|| self.poll_data(now))
    }

    /// The next data packet to send at `now`.
    #[inline]
    pub fn poll_data(&mut self, now: Time) -> Option<Packet> {
        let is_due = now >= self.sender.pace_at()
            && (self.sender.has_work(&self.settings) || self.receiver.is_responding());
        if is_due {
            let packet = self.poll_due_data(now);
            self.debug_check();
            return packet;
        }
        self.has_responded = false;
        None
    }

    /// The next data packet; pacing must have released it.
    fn poll_due_data(&mut self, now: Time) -> Option<Packet> {
        // Requests and responses take turns.
        let first = if self.has_responded { None } else { self.poll_response(now) };
        let Self { sender, control, settings, stats, .. } = self;
        let request = first.is_none().then(|| sender.poll(control, settings, stats, now)).flatten();
        let packet = first.or(request).or_else(|| self.poll_response(now));
        self.has_responded = packet.is_some_and(|packet| packet.opcode.is_response());
        packet
    }

    /// The next packet of a response to a READ, at the rate of this end.
    fn poll_response(&mut self, now: Time) -> Option<Packet> {
        let Self { sender, receiver, control, settings, stats, .. } = self;
        if !receiver.is_responding() {
            return None;
        }
        let packet = receiver.poll_response(settings.mtu, stats)?;
        let entropy = sender.entropy.as_mut().map_or(0, |entropy| entropy.next());
        let packet = Packet { entropy, ..packet };
        sender.pace(&packet, control, settings, now);
        Some(packet)
    }

    /// The next time at which [`Self::on_timeout`] and [`Self::poll_transmit`] may have work; `Time::MAX`: none.
    #[inline]
    pub fn deadline(&self, now: Time) -> Time {
        let (timer, paced) = (self.timer_deadline(), self.sender.pace_at());
        let may_send =
            || self.receiver.is_responding() || self.sender.may_send(&self.control, &self.settings);
        if paced > now && may_send() { timer.min(paced) } else { timer }
    }

    /// The same while the host takes no data: pacing releases nothing then.
    #[inline]
    pub fn timer_deadline(&self) -> Time {
        let (is_idle, is_silent) = (self.sender.is_idle(), self.receiver.is_silent());
        if is_idle && is_silent {
            return self.sender.timer_at();
        }
        let cnp = self.receiver.cnps.front().copied().unwrap_or(Time::MAX);
        let responds = self.receiver.is_responding();
        let control = if is_idle && !responds { Time::MAX } else { self.control.deadline() };
        self.sender.timer_at().min(cnp).min(control)
    }

    /// Handles timers that have expired by `now`.
    pub fn on_timeout(&mut self, now: Time) {
        self.control.on_timeout(now);
        self.sender.on_timeout(&mut self.control, &self.settings, &mut self.stats, now);
        self.debug_check();
    }

    /// What it keeps while nothing is under way; `has_changed`: with its congestion control.
    pub fn idle_state(&self, has_changed: bool) -> IdleState {
        IdleState {
            acked_at: self.receiver.acked_at(),
            control: has_changed.then(|| Box::new(self.control.clone())),
        }
    }

    /// Gets such a state back, as if all that led to it had happened so much later.
    pub fn restore_idle_state(&mut self, state: &IdleState, later: Span) {
        self.receiver.set_acked_at(state.acked_at + later);
        if let Some(control) = &state.control {
            self.control = Controller::clone(control);
            self.control.move_later(later);
        }
    }

    /// Up to which packet the peer has acknowledged what this end sent, and up to which this end has all that the peer sent.
    pub fn acknowledged_and_received(&self) -> [u64; 2] {
        [self.sender.unacknowledged(), self.receiver.expected()]
    }

    pub(crate) fn sender_contradiction(&self) -> Option<String> {
        self.sender.contradiction(&self.settings)
    }

    pub(crate) fn receiver_contradiction(&self) -> Option<String> {
        self.receiver.contradiction()
    }

    /// Bytes delivered in order: of messages of the peer, and of READs.
    #[inline]
    pub fn delivered(&self) -> u64 {
        self.receiver.delivered() + self.sender.read_bytes()
    }

    /// Bytes of complete packets of the messages that it posted, in order: acknowledged, or read.
    #[inline]
    pub fn acked(&self) -> u64 {
        self.sender.acked_bytes()
    }

    /// Bytes sent at least once.
    #[inline]
    pub fn sent(&self) -> u64 {
        self.sender.sent_bytes()
    }

    /// What an acknowledgement reads outside of the queue pair, for prefetching: when the oldest packet in flight was sent, and its message.
    #[inline]
    pub fn oldest_in_flight(&self) -> [Option<&u64>; 2] {
        self.sender.oldest_in_flight()
    }

    /// Whether nothing is left to send, to acknowledge or to answer.
    pub fn is_quiescent(&self) -> bool {
        self.sender.is_idle() && self.receiver.is_silent()
    }

    /// The rate of its congestion control, bits per second.
    pub fn rate(&self) -> u64 {
        self.control.rate()
    }

    /// Maximum bytes in flight; `None` without a window.
    pub fn window(&self) -> Option<u64> {
        self.control.window(&self.settings)
    }

    /// The reason of the failure, if the queue pair has failed.
    #[inline]
    pub fn failure(&self) -> Option<Failure> {
        self.sender.failure
    }

    /// The requester alone, for tests.
    #[cfg(test)]
    pub(crate) fn into_sender(self) -> Sender {
        self.sender
    }

    /// Its counters.
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
}

#[cfg(test)]
#[path = "queue_pair_tests.rs"]
mod tests;
