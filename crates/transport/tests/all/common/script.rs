//! Conformance scripts in the manner of packetdrill: one connection under test, the script plays its peer.
//!
//! A line is empty, a comment (`#`), or one of
//!
//! ```text
//! mechanism NAME                      what the script is about: it fails without it (`Mechanism::NAMES`)
//! set NAME VALUE                      settings, before the first timed line (see `Script::set`)
//! open | accept | refuse              which side is under test; then the timed lines follow
//! inherit rtt SPAN | ssthresh N | cwnd N ...   what the connection cache knows of the peer
//! TIME send BYTES                     the application hands over data
//! TIME stop                           the application takes back what was not sent
//! TIME close                          the application has nothing more to send
//! TIME < FLAGS SEQ:END(LEN) [ack N] [win N] [sack A-B ...] [mss N] [sackok] [ts V E] [ECN]
//! TIME reply BYTES < FLAGS ...        the same, and the application answers before anything is sent
//! TIME > FLAGS SEQ:END(LEN) [ack N] [win N] [sack A-B ...] [ts V E] [ECN]
//! TIME assert NAME == VALUE           cwnd ssthresh flight acked delivered received alpha srtt rto ...
//! ```
//!
//! TIME is since the start ("1.5ms") or since the line before ("+100us"). FLAGS are those of tcpdump: S, P, "." for ACK, E for ECE, W for
//! CWR. Numbers count from 0 = SYN, so data begin at 1. ECN is ect0, ce; nothing means not ECT. VALUE may be `N*mss`.
//! A `>` line must match the next segment sent, in every field and to the picosecond; a segment that no line expects is
//! an error as well. The window field and the timestamps are compared where
//! the line names them.

use pauseframe_schema::value::{Choice, names};
use pauseframe_transport::*;
use pauseframe_units::{Span, Time};
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;

/// Initial sequence numbers: the connection's numbers wrap within the first 3000 bytes.
const ISS: u32 = u32::MAX - 3_000;
const PEER_ISS: u32 = u32::MAX - 500;

/// Runs `text`; an error names the line.
pub fn run(text: &str) -> Result<(), String> {
    run_without(text, None)
}

/// The mechanisms that `text` says it is about.
pub fn mechanisms(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("mechanism ").map(str::trim)).collect()
}

/// The same with a mechanism off.
pub fn run_without(text: &str, mechanism: Option<Mechanism>) -> Result<(), String> {
    let mut script = Script::new(mechanism);
    let mut last = 0;
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        last = number + 1;
        if !line.is_empty() {
            script.line(line).map_err(|error| format!("line {}: {error}", number + 1))?;
        }
    }
    script.nothing_unexpected(Time::MAX).map_err(|error| format!("line {last} (end): {error}"))
}

struct Script {
    config: TcpConfig,
    without: Option<Mechanism>,
    connection: Option<Connection>,
    /// What the cache knows, until the connection is established.
    inherited: CachedTcpMetrics,
    now: Time,
    /// A full segment takes so long on the line.
    frame: Span,
    outgoing: VecDeque<(Time, Segment, EcnCodepoint)>,
}

impl Script {
    fn new(without: Option<Mechanism>) -> Script {
        let (now, frame) = (Time::ZERO, Span::ZERO);
        let inherited = CachedTcpMetrics::default();
        Script {
            config: super::config(),
            without,
            connection: None,
            inherited,
            now,
            frame,
            outgoing: VecDeque::new(),
        }
    }

    /// What a connection is made with.
    fn settings(&self) -> Arc<TcpConfig> {
        let config = self.config.clone();
        Arc::new(self.without.iter().fold(config, |config, mechanism| config.without(*mechanism)))
    }

    fn line(&mut self, line: &str) -> Result<(), String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["mechanism", name] => {
                let known = Mechanism::NAMES.iter().any(|(known, _)| *known == name);
                return if known { Ok(()) } else { Err(format!("no mechanism {name:?}")) };
            }
            ["set", name, value] if self.connection.is_none() => return self.set(name, value),
            ["open"] => {
                self.connection = Some(Connection::open(self.settings(), ISS, PEER_ISS, self.now));
                let frame = self.frame;
                self.connection().set_frame_time(frame);
                self.poll();
                return Ok(());
            }
            ["refuse"] => {
                let connection = Connection::accept(self.settings(), ISS, PEER_ISS);
                self.connection = Some(connection.without_listener());
                return Ok(());
            }
            ["inherit", ref pairs @ ..] if self.connection.is_some() => return self.inherit(pairs),
            ["accept"] => {
                self.connection = Some(Connection::accept(self.settings(), ISS, PEER_ISS));
                return Ok(());
            }
            _ => {}
        }
        if self.connection.is_none() {
            return Err(format!("{line:?} before `open` or `accept`"));
        }
        let (time, action) = words.split_first().ok_or("nothing on the line")?;
        self.advance(self.time(time)?)?;
        match action {
            [">", expected @ ..] => self.expect(expected),
            ["<", segment @ ..] => {
                self.take_in(segment)?;
                self.poll();
                Ok(())
            }
            ["reply", bytes, "<", segment @ ..] => {
                self.take_in(segment)?;
                let (bytes, now) = (number(bytes)?, self.now);
                self.connection().write(bytes, now);
                self.poll();
                Ok(())
            }
            ["send", bytes] => {
                let (bytes, now) = (number(bytes)?, self.now);
                self.connection().write(bytes, now);
                self.poll();
                Ok(())
            }
            ["stop"] => {
                self.connection().discard_unsent();
                Ok(())
            }
            ["close"] => {
                let now = self.now;
                self.connection().close(now);
                self.poll();
                Ok(())
            }
            ["assert", name, "==", value] => self.check(name, value),
            _ => Err(format!("cannot read {line:?}")),
        }
    }

    fn take_in(&mut self, segment: &[&str]) -> Result<(), String> {
        self.nothing_unexpected(Time::MAX)?;
        let (segment, codepoint) = parse_segment(segment, PEER_ISS, ISS)?;
        let now = self.now;
        let was_established = self.connection().is_established();
        self.connection().on_segment(&segment, codepoint, now);
        if !was_established && self.connection().is_established() {
            let metrics = std::mem::take(&mut self.inherited);
            self.connection().inherit_metrics(&metrics);
        }
        Ok(())
    }

    fn inherit(&mut self, pairs: &[&str]) -> Result<(), String> {
        let mut metrics = CachedTcpMetrics::default();
        for pair in pairs.chunks(2) {
            match *pair {
                ["rtt", value] => metrics.rtt = span(value)?,
                ["rttvar", value] => metrics.rttvar = span(value)?,
                ["ssthresh", value] => metrics.ssthresh = number(value)?,
                ["cwnd", value] => metrics.cwnd = number(value)?,
                _ => return Err(format!("cannot inherit {pair:?}")),
            }
        }
        if self.connection().is_established() {
            self.connection().inherit_metrics(&metrics);
        } else {
            self.inherited = metrics;
        }
        Ok(())
    }

    fn connection(&mut self) -> &mut Connection {
        self.connection.as_mut().expect("checked in `line`")
    }

    fn time(&self, text: &str) -> Result<Time, String> {
        match text.strip_prefix('+') {
            Some(after) => Ok(self.now + span(after)?),
            None => Ok(Time(span(text)?.0)),
        }
    }

    fn poll(&mut self) {
        let now = self.now;
        while let Some((segment, codepoint)) = self.connection().poll_transmit(now) {
            self.outgoing.push_back((now, segment, codepoint));
            assert!(self.outgoing.len() < 10_000, "poll_transmit does not come to an end");
        }
    }

    /// Lets time pass; timers fire on the way.
    fn advance(&mut self, to: Time) -> Result<(), String> {
        if to < self.now {
            return Err(format!("time goes back from {:?} to {to:?}", self.now));
        }
        while let Some(deadline) = self.connection().deadline().filter(|&deadline| deadline <= to) {
            self.now = deadline;
            self.connection().on_timeout(deadline);
            self.poll();
        }
        self.now = to;
        self.nothing_unexpected(to)
    }

    /// Fails if a segment went out before `before` (or at it, if time is about to move on).
    fn nothing_unexpected(&self, before: Time) -> Result<(), String> {
        match self.outgoing.front() {
            Some((at, segment, codepoint)) if *at < before => {
                Err(format!("unexpected at {at:?}: {}", describe(segment, *codepoint)))
            }
            _ => Ok(()),
        }
    }

    fn expect(&mut self, words: &[&str]) -> Result<(), String> {
        let (expected, expected_codepoint) = parse_segment(words, ISS, PEER_ISS)?;
        let named = |word| words.contains(&word);
        let full = |segment: &Segment, codepoint| {
            let mut text = describe(segment, codepoint);
            if named("win") {
                let _ = write!(text, " win {}", segment.window);
            }
            if named("ts") {
                let _ = write!(text, " ts {} {}", segment.stamps.value, segment.stamps.echo);
            }
            text
        };
        let expected = full(&expected, expected_codepoint);
        let Some((at, segment, codepoint)) = self.outgoing.pop_front() else {
            return Err(format!("expected {expected}, but nothing was sent"));
        };
        let sent = full(&segment, codepoint);
        if at != self.now {
            return Err(format!("expected {expected} at {:?}, but {sent} was sent at {at:?}", self.now));
        }
        if sent == expected { Ok(()) } else { Err(format!("expected {expected}, but {sent} was sent")) }
    }

    fn check(&mut self, name: &str, value: &str) -> Result<(), String> {
        let connection = self.connection.as_ref().expect("checked in `line`");
        let stats = connection.stats();
        let seen = match name {
            "cwnd" => connection.cwnd(),
            "ssthresh" => connection.ssthresh(),
            "flight" => connection.flight_size(),
            "acked" => connection.acked_bytes(),
            "delivered" => connection.delivered_bytes(),
            "received" => connection.received_bytes(),
            "retransmits" => stats.retransmits.into(),
            "timeouts" => stats.timeouts.into(),
            "fast_retransmits" => stats.fast_retransmits.into(),
            "ecn_reductions" => stats.ecn_reductions.into(),
            "loss_probes" => connection.tlp_count().into(),
            "undone" => connection.undo_count().into(),
            "ce_received" => stats.ce_received,
            "srtt" => return same(name, &connection.srtt(), &Some(span(value)?)),
            "rto" => return same(name, &connection.rto(), &span(value)?),
            "alpha" => {
                let value = value.parse::<f64>().map_err(|error| format!("{value:?}: {error}"))?;
                return same(name, &connection.dctcp_alpha(), &Some(value));
            }
            "failure" => {
                return same(name, &format!("{:?}", connection.failure()), &value.to_owned());
            }
            "established" => return same(name, &connection.is_established().to_string().as_str(), &value),
            "quiescent" => return same(name, &connection.is_quiescent().to_string().as_str(), &value),
            _ => return Err(format!("cannot assert {name:?}")),
        };
        let expected = match (value.strip_suffix("*mss"), value) {
            (Some(segments), _) => number(segments)? * u64::from(self.config.mss),
            (None, "infinite") => u64::MAX,
            _ => number(value)?,
        };
        same(name, &seen, &expected)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let config = &mut self.config;
        match name {
            "cc" => {
                let found = CongestionControlConfig::NAMES.iter().find(|(name, _)| *name == value);
                config.congestion_control =
                    found.map(|(_, cc)| *cc).ok_or_else(|| format!("no congestion control {value:?}"))?;
            }
            "alpha" => {
                let alpha_initial = value.parse::<f64>().map_err(|error| format!("{value:?}: {error}"))?;
                config.congestion_control =
                    CongestionControlConfig::Dctcp(DctcpConfig { alpha_initial, ..DctcpConfig::default() });
            }
            "fixed_point" => match &mut config.congestion_control {
                CongestionControlConfig::Dctcp(constants) => constants.fixed_point = on(value)?,
                other => return Err(format!("{} has no fixed point", other.name())),
            },
            "mss" => config.mss = number(value)? as u32,
            "iw" => config.initial_window = number(value)? * u64::from(config.mss),
            "ecn" => config.ecn = named(value)?,
            "ect_on_syn" => config.ect_on_syn = on(value)?,
            "ect_on_ack" => config.ect_on_ack = on(value)?,
            "sack" => config.sack = on(value)?,
            "timestamps" => config.timestamps = on(value)?,
            "fast_retransmit" => config.fast_retransmit = on(value)?,
            "dup_thresh" => config.dup_thresh = number(value)? as u32,
            "limited_transmit" => config.limited_transmit = on(value)?,
            "handshake" => config.handshake = on(value)?,
            "rto_initial" => config.rto.initial = span(value)?,
            "rto_min" => config.rto.min = span(value)?,
            "rto_max" => config.rto.max = span(value)?,
            "rto_granularity" => config.rto.granularity = span(value)?,
            "timer_wheel" => config.rto.wheel = on(value)?,
            "rto_slop" => config.rto.slop = span(value)?,
            "rto_form" => config.rto.form = named(value)?,
            "delayed_ack" => config.delayed_ack.segments = number(value)? as u32,
            "delayed_ack_timeout" => config.delayed_ack.timeout = span(value)?,
            "delayed_ack_form" => {
                let (form, quick_acks, compresses) = match value {
                    "linux" => (DelayedAckForm::Linux, 16, false),
                    "linux_compressed" => (DelayedAckForm::Linux, 16, true),
                    "linux_slow" => (DelayedAckForm::Linux, 0, false),
                    other => (named(other)?, 0, false),
                };
                (config.delayed_ack_form, config.quick_acks) = (form, quick_acks);
                config.sack_compression = compresses;
            }
            "send_buffer" => {
                let (form, sizes) = buffer(value)?;
                config.send_buffer = named(form)?;
                (config.send_buffer_initial, config.send_buffer_max) = (sizes[0], sizes[1]);
            }
            "tso" => config.offload.tso = number(value)? as u32,
            "gro" => config.offload.gro = span(value)?,
            "small_queues" => {
                config.small_queues = true;
                self.frame = span(value)?;
            }
            "small_segments" => config.small_segments = named(value)?,
            "receive_buffer" => {
                let (form, sizes) = buffer(value)?;
                config.receive_buffer = named(form)?;
                (config.receive_buffer_initial, config.receive_buffer_max) = (sizes[0], sizes[1]);
                config.receive_buffer_step = sizes[2];
            }
            "reassembly_limit" => config.reassembly_limit = number(value)? as u32,
            "dsack" => config.dsack = on(value)?,
            "read_rate" => config.read_rate = Some(value.parse().map_err(|error| format!("{error}"))?),
            "fin" => config.fin = on(value)?,
            "cache" => config.cache = named(value)?,
            "receive_window" => config.receive_window = number(value)? as u32,
            "syn_retries" => config.syn_retries = number(value)? as u32,
            "retries" => config.retries = number(value)? as u32,
            _ => return self.set_recovery(name, value),
        }
        Ok(())
    }

    fn set_recovery(&mut self, name: &str, value: &str) -> Result<(), String> {
        let config = &mut self.config;
        match name {
            "stack" if value == "linux" => config.recovery = RecoveryConfig::LINUX,
            "rack" => config.recovery.rack = on(value)?,
            "tlp" => config.recovery.tlp = on(value)?,
            "recovery_slack" => config.recovery.timer_slack = span(value)?,
            "count_packets" => config.recovery.count_packets = on(value)?,
            "prr" => config.recovery.prr = on(value)?,
            "ecn_hides_loss" => config.recovery.ecn_hides_loss = on(value)?,
            "window_validation" => config.recovery.window_validation = on(value)?,
            "undo" => config.recovery.undo = on(value)?,
            "frto" => config.recovery.frto = on(value)?,
            "rto_growth" => config.recovery.rto_growth = named(value)?,
            "idle_restart" => config.recovery.idle_restart = named(value)?,
            "pacing" => config.recovery.pacing.on = on(value)?,
            "pacing_burst" => config.recovery.pacing.burst = number(value)? as u32,
            _ => return Err(format!("no setting {name:?}")),
        }
        Ok(())
    }
}

/// The form of a buffer and its sizes in bytes: "fixed", "linux:INITIAL:MAX" or "freebsd:INITIAL:MAX:STEP".
fn buffer(text: &str) -> Result<(&str, [u32; 3]), String> {
    let (form, rest) = text.split_once(':').unwrap_or((text, ""));
    let mut sizes = [0; 3];
    for (size, word) in sizes.iter_mut().zip(rest.split(':').filter(|word| !word.is_empty())) {
        *size = number(word)? as u32;
    }
    Ok((form, sizes))
}

/// The choice with a name.
fn named<C: Choice>(text: &str) -> Result<C, String> {
    let found = C::NAMES.iter().find(|(name, _)| *name == text);
    found.map(|(_, choice)| *choice).ok_or_else(|| format!("{text:?} is not one of {}", names(C::NAMES)))
}

fn same<T: PartialEq + std::fmt::Debug>(name: &str, seen: &T, expected: &T) -> Result<(), String> {
    if seen == expected { Ok(()) } else { Err(format!("{name} is {seen:?}, not {expected:?}")) }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|error| format!("{text:?}: {error}"))
}

fn span(text: &str) -> Result<Span, String> {
    if text == "0" { Ok(Span::ZERO) } else { text.parse().map_err(|error| format!("{error}")) }
}

fn on(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("{text:?} is neither on nor off")),
    }
}

/// Reads a segment whose own numbers start at `iss` and whose ACK and SACK numbers at `peer_iss`.
fn parse_segment(words: &[&str], iss: u32, peer_iss: u32) -> Result<(Segment, EcnCodepoint), String> {
    let [flags, range, rest @ ..] = words else { return Err("a segment is FLAGS SEQ:END(LEN) ...".into()) };
    let mut segment = Segment { window: 1 << 24, ..Segment::default() };
    let mut codepoint = EcnCodepoint::NotEct;
    for letter in flags.chars() {
        segment.flags = segment.flags.with(match letter {
            'S' => TcpFlags::SYN,
            'F' => TcpFlags::FIN,
            'R' => TcpFlags::RST,
            'P' => TcpFlags::PSH,
            '.' => TcpFlags::ACK,
            'E' => TcpFlags::ECE,
            'W' => TcpFlags::CWR,
            _ => return Err(format!("no flag {letter:?}")),
        });
    }
    let (seq, rest_of_range) = range.split_once(':').ok_or_else(|| format!("no range: {range:?}"))?;
    let (end, len) = rest_of_range.split_once('(').ok_or_else(|| format!("no length: {range:?}"))?;
    segment.len = number(len.trim_end_matches(')'))? as u32;
    let (seq, end) = (number(seq)?, number(end)?);
    if end != seq + u64::from(segment.len) {
        return Err(format!("the range {range:?} does not have that length"));
    }
    // The RST that answers a SYN has the number 0 of the wire, whatever anything counts from.
    segment.seq =
        if segment.flags.contains(TcpFlags::RST) && seq == 0 { 0 } else { iss.wrapping_add(seq as u32) };
    let (mut mss, mut sack_ok, mut sack) = (None, false, SackBlocks::default());
    let mut rest = rest.iter().copied();
    while let Some(word) = rest.next() {
        let mut value = || rest.next().ok_or_else(|| format!("{word} needs a value"));
        match word {
            "ack" => segment.ack = peer_iss.wrapping_add(number(value()?)? as u32),
            "win" => segment.window = number(value()?)? as u32,
            "ts" => {
                segment.stamps.value = number(value()?)? as u32;
                segment.stamps.echo = number(value()?)? as u32;
            }
            "mss" => mss = Some(number(value()?)? as u16),
            "sackok" => sack_ok = true,
            "sack" => {}
            "ect0" => codepoint = EcnCodepoint::Ect0,
            "ce" => codepoint = EcnCodepoint::Ce,
            block => {
                let (left, right) = block.split_once('-').ok_or_else(|| format!("cannot read {word:?}"))?;
                sack.blocks[usize::from(sack.count)] = (
                    peer_iss.wrapping_add(number(left)? as u32),
                    peer_iss.wrapping_add(number(right)? as u32),
                );
                sack.count += 1;
            }
        }
    }
    if segment.flags.contains(TcpFlags::SYN) {
        segment.options = TcpOptions::Syn(SynOptions {
            mss: mss.unwrap_or(1460),
            sack: sack_ok,
            timestamps: false,
            window_scale: 0,
        });
    } else if sack.count > 0 {
        segment.options = TcpOptions::Sack(sack);
    }
    Ok((segment, codepoint))
}

/// A segment of the connection under test as text, for comparison and messages: everything but the window and what a
/// SYN does not negotiate.
fn describe(segment: &Segment, codepoint: EcnCodepoint) -> String {
    let seq = if segment.flags.contains(TcpFlags::RST) && segment.seq == 0 {
        0
    } else {
        segment.seq.wrapping_sub(ISS)
    };
    let mut text = format!("{:?} {}:{}({})", segment.flags, seq, seq.wrapping_add(segment.len), segment.len);
    if segment.flags.contains(TcpFlags::ACK) {
        let _ = write!(text, " ack {}", segment.ack.wrapping_sub(PEER_ISS));
    }
    match segment.options {
        TcpOptions::None => {}
        TcpOptions::Syn(syn) => {
            let _ = write!(text, " mss {}{}", syn.mss, if syn.sack { " sackok" } else { "" });
        }
        TcpOptions::Sack(sack) => {
            for (left, right) in &sack.blocks[..usize::from(sack.count)] {
                let _ = write!(text, " {}-{}", left.wrapping_sub(PEER_ISS), right.wrapping_sub(PEER_ISS));
            }
        }
    }
    if codepoint != EcnCodepoint::NotEct {
        let _ = write!(text, " {codepoint:?}");
    }
    text
}
