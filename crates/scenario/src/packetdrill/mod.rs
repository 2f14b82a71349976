//! Runs scripts of packetdrill (github.com/google/packetdrill) against the TCP model, for the subset that concerns the data path.
//!
//! The script plays the peer and the application of one connection with `stack = "linux"`, whose clock is exact. `parse.rs` reads the
//! text, `environment.rs` turns sysctls and options into settings, `play.rs` runs the events, `compare.rs` matches segments. What the
//! model leaves out makes a script not applicable, with the reason; nothing of a script is executed.
//!
//! As in packetdrill a packet of the script matches several segments that follow each other, and PSH is not compared, unless the script
//! has `--strict_segments`. Left out: values of the MSS and window scale options of our SYN, and the reader's pace: the application reads at once.

mod compare;
mod environment;
mod parse;
mod play;

use crate::build;
use crate::resolve::{Input, resolve};
use environment::Environment;
use parse::{Action, Call, Packet, Script};
use pauseframe_fabric::TransportSettings;
use pauseframe_transport::{TcpConfig, TcpFlags};
use pauseframe_units::Span;
use std::path::Path;
use std::sync::Arc;

/// Bytes of the timestamps option in each segment.
const STAMPS_BYTES: u32 = 12;
/// MSS of a peer that does not name one (RFC 9293 §3.7.1).
const DEFAULT_MSS: u16 = 536;

/// `TCP_INIT_CWND`
const INITIAL_SEGMENTS: u64 = 10;

/// How a script ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// All events happened as the script says.
    Passed,
    /// At this line something else happened.
    Failed(usize, String),
    /// At this line the script needs what the model leaves out.
    NotApplicable(usize, String),
}

/// Python of a script between `%{` and `}%`, with the fields of `struct tcp_info` at its time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snippet {
    /// Line in the script.
    pub line: usize,
    /// The Python text.
    pub text: String,
    /// Fields and values.
    pub values: Vec<(&'static str, i64)>,
}

/// The end of a script and the snippets up to there, which the caller evaluates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// How it ended.
    pub verdict: Verdict,
    /// In the order of the script.
    pub snippets: Vec<Snippet>,
}

/// Why a script stops.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Stop {
    Failed(String),
    NotApplicable(String),
}

impl Stop {
    fn at(self, line: usize) -> Verdict {
        match self {
            Stop::Failed(why) => Verdict::Failed(line, why),
            Stop::NotApplicable(why) => Verdict::NotApplicable(line, why),
        }
    }
}

/// Runs the script `text`, whose commands refer to files relative to `folder`.
pub fn run(text: &str, folder: &Path) -> Outcome {
    let ended = |(line, stop): (usize, Stop)| Outcome { verdict: stop.at(line), snippets: Vec::new() };
    let script = match parse::parse(text) {
        Ok(script) => script,
        Err(error) => return ended(error),
    };
    match prepare(&script, folder) {
        Ok((setup, config)) => play::play(&script, &setup, Arc::new(config)),
        Err(error) => ended(error),
    }
}

/// What must be known before the connection exists.
#[derive(Debug)]
struct Setup {
    /// The connection is opened by its own `connect`, not by the peer.
    opens: bool,
    /// Initial sequence numbers in the script: ours and the peer's.
    iss: u32,
    peer_iss: u32,
    /// The longest segment that the peer takes, without options.
    peer_mss: u32,
    /// Window scale of the peer.
    peer_scale: u8,
    timestamps: bool,
    /// Segments must be as long as the script says, and have its PSH.
    strict: bool,
    tolerance: Span,
    /// Tick of the timestamps, if the script wants their values compared.
    stamp_tick: Option<Span>,
}

/// Collects the settings of the whole script, because a connection is made with all of them.
fn prepare(script: &Script, folder: &Path) -> Result<(Setup, TcpConfig), (usize, Stop)> {
    let mut environment = Environment::default();
    let (mut seen_syn, mut wrote) = (false, false);
    for event in &script.events {
        let at = |stop| (event.line, stop);
        match &event.action {
            Action::Unknown(why) => return Err(at(Stop::NotApplicable(why.clone()))),
            Action::Command(_) if seen_syn => {}
            Action::Command(text) => environment.read_command(text, folder).map_err(at)?,
            Action::Call(call) => {
                wrote |= matches!(call.name.as_str(), "write" | "send" | "sendto");
                prepare_call(call, wrote, &mut environment).map_err(at)?;
            }
            Action::Receive(packet) | Action::Expect(packet) => {
                seen_syn |= packet.flags.contains(TcpFlags::SYN);
            }
            Action::Code(_) => {}
        }
    }
    let first_line = script.events.first().map_or(1, |event| event.line);
    let setup = setup(script, &environment).map_err(|stop| (first_line, stop))?;
    let config = config(&setup, environment).map_err(|stop| (first_line, stop))?;
    Ok((setup, config))
}

/// Options of sockets, which hold for the whole script.
fn prepare_call(call: &Call, wrote: bool, environment: &mut Environment) -> Result<(), Stop> {
    if call.arguments.iter().any(|argument| argument.contains("MSG_FASTOPEN")) {
        return Err(Stop::NotApplicable("TCP Fast Open".to_owned()));
    }
    if call.name != "setsockopt" {
        return Ok(());
    }
    let [_, _, option, value, ..] = call.arguments.as_slice() else {
        return Err(Stop::Failed("setsockopt needs five arguments".to_owned()));
    };
    let value = value.trim_matches(['[', ']', '"']);
    match option.as_str() {
        "SO_REUSEADDR" | "SO_KEEPALIVE" => Ok(()),
        "SO_SNDBUF" => match value.parse() {
            Ok(bytes) => {
                environment.send_buffer(bytes);
                Ok(())
            }
            Err(_) => Err(Stop::Failed(format!("SO_SNDBUF {value:?}"))),
        },
        "TCP_NODELAY" if value == "1" && !wrote => {
            environment.keys.insert("small_segments".to_owned(), "\"at_once\"".to_owned());
            Ok(())
        }
        "TCP_CONGESTION" => environment.control(value),
        option => Err(Stop::NotApplicable(format!("the socket option {option}"))),
    }
}

fn setup(script: &Script, environment: &Environment) -> Result<Setup, Stop> {
    let syn_of = |packet: &&Packet| packet.flags.contains(TcpFlags::SYN);
    let mut received = script.events.iter().filter_map(|event| match &event.action {
        Action::Receive(packet) => Some(packet),
        _ => None,
    });
    let mut expected = script.events.iter().filter_map(|event| match &event.action {
        Action::Expect(packet) => Some(packet),
        _ => None,
    });
    let calls = |name: &str| {
        script
            .events
            .iter()
            .filter(|event| matches!(&event.action, Action::Call(call) if call.name == name))
            .count()
    };
    if calls("accept") + calls("connect") > 1 {
        return Err(Stop::NotApplicable("several connections".to_owned()));
    }
    let none = || Stop::NotApplicable("no connection is established".to_owned());
    let peer = received.find(syn_of).ok_or_else(none)?;
    let own = expected.find(syn_of).ok_or_else(none)?;
    let option = |name: &str| script.options.iter().find(|(found, _)| found == name).map(|(_, value)| value);
    let micros = |name: &str| match option(name).map(|value| value.parse()) {
        None => Ok(None),
        Some(Ok(micros)) if micros < 1_000_000_000 => Ok(Some(Span::from_us(micros))),
        Some(_) => Err(Stop::Failed(format!("--{name} needs a number of microseconds"))),
    };
    for (name, _) in &script.options {
        const KNOWN: [&str; 13] = [
            "tolerance_usecs",
            "tcp_ts_tick_usecs",
            "tcp_ts_ecr_scaled",
            "local_ip",
            "remote_ip",
            "gateway_ip",
            "netmask_ip",
            "bind_port",
            "connect_port",
            "non_fatal",
            "strict_segments",
            "mss",
            "verbose",
        ];
        let is_known = KNOWN.contains(&name.as_str())
            || (name == "ip_version" && option(name).is_some_and(|value| value == "ipv4"));
        if !is_known {
            return Err(Stop::NotApplicable(format!("the option --{name}")));
        }
    }
    let timestamps = environment.timestamps && peer.options.stamps.is_some();
    let peer_mss = u32::from(peer.options.mss.unwrap_or(DEFAULT_MSS));
    Ok(Setup {
        peer_mss: peer_mss.saturating_sub(if timestamps { STAMPS_BYTES } else { 0 }).max(1),
        opens: peer.flags.contains(TcpFlags::ACK),
        iss: own.seq,
        peer_iss: peer.seq,
        peer_scale: peer.options.window_scale.unwrap_or(0),
        timestamps,
        strict: option("strict_segments").is_some(),
        tolerance: micros("tolerance_usecs")?.unwrap_or(Span::from_us(4_000)),
        stamp_tick: micros("tcp_ts_tick_usecs")?,
    })
}

/// The settings of a Linux host on a device of MTU 1500 without a queue.
fn config(setup: &Setup, environment: Environment) -> Result<TcpConfig, Stop> {
    let ecn = if environment.ecn == 1 || (environment.ecn == 2 && !setup.opens) { "classic" } else { "off" };
    let [of_syn, of_syn_ack] = environment.handshake_retries;
    let mut keys = environment.keys;
    let mut set = |key: &str, value: String| keys.insert(key.to_owned(), value);
    set("timestamps", setup.timestamps.to_string());
    set("syn_retries", if setup.opens { of_syn } else { of_syn_ack });
    let control = keys.entry("congestion_control".to_owned()).or_insert_with(|| "\"cubic\"".to_owned());
    let ecn = if control == "\"dctcp\"" { "dctcp" } else { ecn };
    keys.insert("ecn".to_owned(), format!("\"{ecn}\""));
    let transport = keys.iter().fold(String::new(), |text, (key, value)| text + key + " = " + value + "\n");
    let text = format!(
        "name = \"packetdrill\"\nstop = \"1 s\"\n\
         topology = {{ kind = \"star\", hosts = 2, link = {{ rate = \"10 Gbps\", delay = \"1 us\" }} }}\n\
         workload = [{{ kind = \"n_to_1\", senders = 1, size = \"1 KB\" }}]\n\
         host = {{ mtu = \"1500 B\", tso = {} }}\n[transport]\nstack = \"linux\"\n{transport}",
        environment.tso
    );
    let input = Input {
        text: &text,
        file_name: "packetdrill.toml",
        base_dir: Path::new("."),
        overrides: &[],
        seed: None,
    };
    let resolved = resolve(&input).map_err(|error| Stop::NotApplicable(error.to_string()))?;
    let transports = build::all_transports(&resolved.scenario);
    let Some(config) = transports.first().and_then(TransportSettings::tcp) else {
        return Err(Stop::Failed("no transport of TCP".to_owned()));
    };
    let mut config = TcpConfig::clone(config);
    config.mss = config.mss.min(setup.peer_mss);
    config.initial_window = INITIAL_SEGMENTS * u64::from(config.mss);
    config.handshake = true;
    config.small_queues = false;
    config.offload.gro = Span::ZERO;
    config.rto.phase = Span::ZERO;
    Ok(config)
}

#[cfg(test)]
mod tests;
