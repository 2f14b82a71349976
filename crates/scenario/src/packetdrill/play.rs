//! Runs the events of a script against a connection.

use super::compare::{ISS, PEER_ISS, Sent, Translator};
use super::parse::{Action, Call, Packet, Script, When, at};
use super::{Outcome, Setup, Snippet, Stop, Verdict};
use pauseframe_transport::{Connection, TcpConfig, TcpFlags};
use pauseframe_units::{Span, Time};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// How long `*` waits.
const WAIT_MAX: Span = Span::from_secs(1_000);
/// Segments that wait for the script's next line; more is an endless loop.
const WAITING_MAX: usize = 100_000;

/// Plays the script to its end or to the first event that differs.
pub(super) fn play(script: &Script, setup: &Setup, config: Arc<TcpConfig>) -> Outcome {
    let mut player = Player::new(setup, config);
    let ended =
        script.events.iter().try_for_each(|event| player.event(event.line, event.time, &event.action));
    let verdict = match ended.and_then(|()| player.end_calls(Time::MAX)) {
        Ok(()) => Verdict::Passed,
        Err((line, stop)) => stop.at(line),
    };
    Outcome { verdict, snippets: player.snippets }
}

struct Player<'a> {
    setup: &'a Setup,
    config: Arc<TcpConfig>,
    connection: Option<Connection>,
    translator: Translator<'a>,
    now: Time,
    /// Sent, and not yet expected.
    waiting: VecDeque<Sent>,
    /// Bytes that the application has read.
    read: u64,
    snippets: Vec<Snippet>,
    /// Calls that block: when each ends, its line, and the call.
    blocked: Vec<(Time, usize, &'a Call)>,
    /// By descriptor, the sockets that are not closed.
    sockets: BTreeMap<String, Socket>,
    /// The application has closed its direction.
    closed: bool,
}

/// What a descriptor of the script stands for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Socket {
    /// Made by `socket`; it may listen.
    Unconnected,
    /// The connection under test, or one that `connect` has begun.
    Connection,
}

impl<'a> Player<'a> {
    fn new(setup: &'a Setup, config: Arc<TcpConfig>) -> Player<'a> {
        let (now, waiting, translator) = (Time::ZERO, VecDeque::new(), Translator::new(setup));
        Player {
            setup,
            config,
            connection: None,
            translator,
            now,
            waiting,
            read: 0,
            snippets: Vec::new(),
            blocked: Vec::new(),
            sockets: BTreeMap::new(),
            closed: false,
        }
    }

    fn event(&mut self, line: usize, time: When, action: &'a Action) -> Result<(), (usize, Stop)> {
        let base = self.now;
        let range = |relative, from, to| if relative { (base + from, base + to) } else { (at(from), at(to)) };
        let (from, to) = match time {
            When::Any => (base, base + WAIT_MAX),
            When::Range { relative, from, to } | When::Blocking { relative, from, to } => {
                range(relative, from, to)
            }
        };
        if time != When::Any {
            self.end_calls(from)?;
        }
        match (action, time) {
            (Action::Expect(packet), _) => return self.expect(packet, from, to).map_err(|stop| (line, stop)),
            (Action::Call(call), When::Blocking { .. })
                if matches!(call.name.as_str(), "accept" | "read" | "recv") =>
            {
                self.blocked.push((to, line, call));
                return Ok(());
            }
            _ => {}
        }
        self.advance(if time == When::Any { base } else { from.max(base) });
        self.act(line, action).map_err(|stop| (line, stop))
    }

    /// Ends the blocking calls that must have ended before `to`.
    fn end_calls(&mut self, to: Time) -> Result<(), (usize, Stop)> {
        let tolerance = self.setup.tolerance;
        while let Some(index) = self.blocked.iter().position(|(end, ..)| end.saturating_add(tolerance) < to) {
            let (end, line, call) = self.blocked.remove(index);
            self.advance(end.max(self.now));
            self.call(call).map_err(|stop| (line, stop))?;
        }
        Ok(())
    }

    fn act(&mut self, line: usize, action: &Action) -> Result<(), Stop> {
        match action {
            Action::Receive(packet) => self.receive(packet),
            Action::Call(call) => self.call(call),
            Action::Code(text) => {
                let values = self.connection.as_ref().map(Connection::tcp_info).unwrap_or_default();
                self.snippets.push(Snippet { line, text: text.clone(), values });
                Ok(())
            }
            Action::Command(text) => self.command(text),
            Action::Unknown(why) => Err(Stop::NotApplicable(why.clone())),
            Action::Expect(_) => Ok(()),
        }
    }

    /// Commands before the connection were read in advance; later ones would change it.
    fn command(&self, text: &str) -> Result<(), Stop> {
        if self.connection.is_none() || text.contains("sysctl_restore") {
            return Ok(());
        }
        Err(Stop::NotApplicable(format!("the command {:?} during the connection", text.trim())))
    }

    fn connection(&mut self) -> Result<&mut Connection, Stop> {
        self.connection.as_mut().ok_or_else(|| Stop::Failed("there is no connection yet".to_owned()))
    }

    fn poll(&mut self) {
        let now = self.now;
        let Some(connection) = &mut self.connection else { return };
        while let Some((segment, ecn)) = connection.poll_transmit(now) {
            self.waiting.push_back(Sent { at: now, segment, ecn });
            assert!(self.waiting.len() < WAITING_MAX, "poll_transmit does not end");
        }
    }

    /// The next deadline of the connection until `to`, handled; false if there is none.
    fn step(&mut self, to: Time) -> bool {
        let Some(connection) = &mut self.connection else { return false };
        let Some(deadline) = connection.deadline().filter(|deadline| *deadline <= to) else {
            return false;
        };
        self.now = self.now.max(deadline);
        connection.on_timeout(self.now);
        self.poll();
        true
    }

    fn advance(&mut self, to: Time) {
        while self.step(to) {}
        self.now = self.now.max(to);
    }

    fn receive(&mut self, packet: &Packet) -> Result<(), Stop> {
        let (segment, ecn) = self.translator.incoming(packet)?;
        let now = self.now;
        let opens = packet.flags.contains(TcpFlags::SYN) && !packet.flags.contains(TcpFlags::ACK);
        if self.connection.is_none() && opens && !self.setup.opens {
            self.connection = Some(Connection::accept(self.config.clone(), ISS, PEER_ISS));
        }
        self.connection()?.on_segment(&segment, ecn, now);
        self.poll();
        Ok(())
    }

    fn expect(&mut self, packet: &Packet, from: Time, to: Time) -> Result<(), Stop> {
        if packet.flags.contains(TcpFlags::RST) {
            return Err(Stop::NotApplicable("RST of the connection under test".to_owned()));
        }
        let tolerance = self.setup.tolerance;
        let latest = to.saturating_add(tolerance);
        let mut sent = self.next_sent(latest).ok_or_else(|| {
            Stop::Failed(format!("expected a packet at {}, but nothing was sent", seconds(from)))
        })?;
        while !self.setup.strict && sent.segment.len < packet.len && sent.segment.len > 0 {
            let end = sent.segment.seq.wrapping_add(sent.segment.len);
            let Some(next) =
                self.next_sent(latest).filter(|next| next.segment.seq == end && next.segment.len > 0)
            else {
                break;
            };
            sent.segment.len += next.segment.len;
            sent.segment.flags = TcpFlags(sent.segment.flags.0 | next.segment.flags.0);
        }
        self.translator.check(packet, &sent)?;
        if sent.at > latest || sent.at.saturating_add(tolerance) < from {
            return Err(Stop::Failed(format!(
                "expected at {}, but it was sent at {}",
                seconds(from),
                seconds(sent.at)
            )));
        }
        self.now = self.now.max(sent.at);
        Ok(())
    }

    /// The next segment, waited for until `latest`.
    fn next_sent(&mut self, latest: Time) -> Option<Sent> {
        while self.waiting.is_empty() && self.step(latest) {}
        self.waiting.pop_front()
    }

    fn call(&mut self, call: &Call) -> Result<(), Stop> {
        let fails = call.result.starts_with('-');
        let result = call.result.split_whitespace().next().unwrap_or("");
        let count =
            |index: usize| call.arguments.get(index).and_then(|argument| argument.parse::<u64>().ok());
        let socket = self.socket_of(call)?;
        match call.name.as_str() {
            "socket" if !fails => {
                self.sockets.insert(result.to_owned(), Socket::Unconnected);
                Ok(())
            }
            "bind" | "listen" | "setsockopt" | "fcntl" if !fails => Ok(()),
            "connect" if !fails || call.result.contains("EINPROGRESS") => self.connect(call),
            "accept" if !fails && self.connection()?.is_established() => {
                self.sockets.insert(result.to_owned(), Socket::Connection);
                Ok(())
            }
            "accept" if !fails => Err(Stop::Failed("accept: the connection is not established".to_owned())),
            "getsockopt" if call.arguments.get(2).is_some_and(|option| option == "SO_ERROR") && !fails => {
                let failure = self.connection()?.failure();
                let wanted = call.arguments.get(3).is_some_and(|value| value == "[0]");
                if failure.is_none() == wanted {
                    Ok(())
                } else {
                    Err(Stop::Failed(format!("SO_ERROR: {failure:?}")))
                }
            }
            "getsockopt" if call.arguments.get(2).is_some_and(|option| option == "TCP_MAXSEG") && !fails => {
                let mss = self.config.mss;
                let wanted = call.arguments.get(3).is_some_and(|value| *value == format!("[{mss}]"));
                if wanted { Ok(()) } else { Err(Stop::Failed(format!("TCP_MAXSEG is {mss}"))) }
            }
            "write" | "send" | "sendto" | "read" | "recv" if socket != Some(Socket::Connection) => {
                let descriptor = &call.arguments[0];
                Err(Stop::Failed(format!("{}: the socket {descriptor} is not connected", call.name)))
            }
            "write" | "send" if self.closed && call.result.starts_with("-1 EPIPE") => Ok(()),
            "write" | "send" | "sendto" if !fails => self.write(call, count(2), result),
            "read" | "recv" => self.read(count(2).unwrap_or(0), result, &call.result),
            "close" if !fails => self.close_socket(&call.arguments[0]),
            "shutdown" if !fails && call.arguments.get(1).is_some_and(|how| how == "SHUT_WR") => {
                self.close();
                Ok(())
            }
            name if fails => Err(Stop::NotApplicable(format!("{name} that returns {}", call.result))),
            name => Err(Stop::NotApplicable(format!("the call {name}({})", call.arguments.join(", ")))),
        }
    }

    /// The socket of the call's first argument, which all calls but `socket` need.
    fn socket_of(&self, call: &Call) -> Result<Option<Socket>, Stop> {
        const OF_A_SOCKET: [&str; 14] = [
            "bind",
            "listen",
            "setsockopt",
            "getsockopt",
            "fcntl",
            "connect",
            "accept",
            "write",
            "send",
            "sendto",
            "read",
            "recv",
            "close",
            "shutdown",
        ];
        if !OF_A_SOCKET.contains(&call.name.as_str()) {
            return Ok(None);
        }
        let descriptor = call.arguments.first().map_or("", String::as_str);
        let socket = self.sockets.get(descriptor).copied();
        let unknown =
            || Stop::Failed(format!("{}: no open socket has the descriptor {descriptor:?}", call.name));
        socket.map(Some).ok_or_else(unknown)
    }

    fn write(&mut self, call: &Call, bytes: Option<u64>, result: &str) -> Result<(), Stop> {
        if let Some(flags) =
            call.arguments.get(3).filter(|_| call.name != "write").filter(|flags| *flags != "0")
        {
            return Err(Stop::NotApplicable(format!("{} with {flags}", call.name)));
        }
        if self.closed {
            return Err(Stop::Failed(format!("{} after the end of sending returns -1 EPIPE", call.name)));
        }
        let bytes = bytes.ok_or_else(|| Stop::Failed("the call needs a number of bytes".to_owned()))?;
        if result != bytes.to_string() {
            return Err(Stop::NotApplicable(format!("a write that returns {result} of {bytes}")));
        }
        let now = self.now;
        if let Some(room) = self.config.largest_write().filter(|room| bytes > *room) {
            return Err(Stop::NotApplicable(format!(
                "a write of {bytes} bytes into a send buffer of {room}"
            )));
        }
        self.connection()?.write(bytes, now);
        self.poll();
        Ok(())
    }

    fn connect(&mut self, call: &Call) -> Result<(), Stop> {
        if !self.setup.opens {
            return Err(Stop::NotApplicable("connect beside a connection of the peer".to_owned()));
        }
        self.connection = Some(Connection::open(self.config.clone(), ISS, PEER_ISS, self.now));
        self.sockets.insert(call.arguments[0].clone(), Socket::Connection);
        self.poll();
        Ok(())
    }

    /// Our reader has taken everything already; the script's reads are counted against it.
    fn read(&mut self, most: u64, result: &str, text: &str) -> Result<(), Stop> {
        let read = self.read;
        let connection = self.connection()?;
        let (unread, has_ended) = (connection.delivered_bytes() - read, connection.has_peer_closed());
        if unread == 0 && !has_ended && most > 0 {
            let waits = "read waits, or returns -1 EAGAIN: nothing has come, and the peer has not closed";
            let would_block = text.starts_with("-1 EAGAIN");
            return if would_block { Ok(()) } else { Err(Stop::Failed(format!("{waits}, not {text}"))) };
        }
        let bytes = unread.min(most);
        if result != bytes.to_string() {
            return Err(Stop::Failed(format!("read returns {bytes}, not {text}")));
        }
        self.read += bytes;
        Ok(())
    }

    /// Closes one socket: the connection, or one that it does not depend on.
    fn close_socket(&mut self, descriptor: &str) -> Result<(), Stop> {
        let closed = self.sockets.remove(descriptor);
        if closed == Some(Socket::Connection) {
            self.close();
        } else if self.connection.is_some()
            && !self.sockets.values().any(|left| *left == Socket::Connection)
            && !self.closed
        {
            return Err(Stop::NotApplicable(
                "a listening socket that closes before its connection is accepted".to_owned(),
            ));
        }
        Ok(())
    }

    fn close(&mut self) {
        let now = self.now;
        if let Some(connection) = &mut self.connection {
            connection.close(now);
            self.closed = true;
            self.poll();
        }
    }
}

fn seconds(time: Time) -> String {
    format!("{:.6} s", time.0 as f64 / 1e12)
}
