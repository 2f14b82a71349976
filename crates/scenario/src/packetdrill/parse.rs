//! Reads the text of a packetdrill script into events, without judging them.

use super::Stop;
use pauseframe_transport::{EcnCodepoint, TcpFlags};
use pauseframe_units::{Span, Time};

/// Options of the script and its events.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// Lines `--name=value`.
    pub(super) options: Vec<(String, String)>,
    pub(super) events: Vec<Event>,
}

#[derive(Debug)]
pub(super) struct Event {
    pub(super) line: usize,
    pub(super) time: When,
    pub(super) action: Action,
}

/// When an event happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum When {
    /// At any time: `*`.
    Any,
    /// From `from` to `to`, since the start or, if `relative`, since the event before.
    Range { relative: bool, from: Span, to: Span },
    /// A call that begins at `from` and ends at `to`.
    Blocking { relative: bool, from: Span, to: Span },
}

#[derive(Debug)]
pub(super) enum Action {
    /// A packet of the peer arrives.
    Receive(Packet),
    /// The connection sends a packet.
    Expect(Packet),
    Call(Call),
    /// Python between `%{` and `}%`.
    Code(String),
    /// A shell command in backticks.
    Command(String),
    /// What this reader does not know, and why.
    Unknown(String),
}

/// A system call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) name: String,
    pub(super) arguments: Vec<String>,
    pub(super) result: String,
}

/// A TCP segment, with the numbers of the script.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Packet {
    /// The ECN field, if the script names it.
    pub(super) ecn: Option<EcnCodepoint>,
    pub(super) flags: TcpFlags,
    pub(super) seq: u32,
    pub(super) len: u32,
    pub(super) ack: u32,
    pub(super) window: Option<u32>,
    pub(super) options: Options,
}

/// Options of a segment.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Options {
    /// `<...>`: any.
    pub(super) any: bool,
    pub(super) mss: Option<u16>,
    pub(super) window_scale: Option<u8>,
    pub(super) sack_ok: bool,
    /// Value and echo.
    pub(super) stamps: Option<(u32, u32)>,
    pub(super) sack: Vec<(u32, u32)>,
}

/// Reads a whole script; an error has its line.
pub(super) fn parse(text: &str) -> Result<Script, (usize, Stop)> {
    let clean = without_comments(text);
    let mut scanner = Scanner { rest: &clean, line: 1 };
    let mut script = Script::default();
    loop {
        scanner.skip_space();
        if scanner.rest.is_empty() {
            return Ok(script);
        }
        let line = scanner.line;
        let result = if scanner.rest.starts_with("--") {
            let option = scanner.take_line();
            let (name, value) = option
                .trim_start_matches('-')
                .split_once('=')
                .unwrap_or((option.trim_start_matches('-'), ""));
            script.options.push((name.trim().to_owned(), value.trim().to_owned()));
            Ok(())
        } else {
            scanner.event().map(|event| script.events.push(event))
        };
        result.map_err(|why| (line, Stop::Failed(why)))?;
    }
}

/// Replaces comments of C and C++ by spaces, except in Python and shell commands.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let verbatim =
            [("`", "`"), ("%{", "}%"), ("\"", "\"")].into_iter().find(|(open, _)| rest.starts_with(open));
        let comment = [("//", "\n"), ("/*", "*/")].into_iter().find(|(open, _)| rest.starts_with(open));
        let (len, keeps) = match (verbatim, comment) {
            (Some((open, close)), _) => (end_of(rest, open, close), true),
            (None, Some((open, close))) => (end_of(rest, open, close), false),
            (None, None) => (first.len_utf8(), true),
        };
        let part = &rest[..len];
        if keeps {
            out.push_str(part);
        } else {
            out.extend(part.chars().map(|letter| if letter == '\n' { '\n' } else { ' ' }));
        }
        rest = &rest[len..];
    }
    out
}

fn end_of(text: &str, open: &str, close: &str) -> usize {
    text[open.len()..].find(close).map_or(text.len(), |at| open.len() + at + close.len())
}

struct Scanner<'a> {
    rest: &'a str,
    line: usize,
}

impl<'a> Scanner<'a> {
    fn take(&mut self, len: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(len);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    fn skip_space(&mut self) {
        let len = self.rest.len() - self.rest.trim_start().len();
        self.take(len);
    }

    fn take_line(&mut self) -> &'a str {
        let len = self.rest.find('\n').unwrap_or(self.rest.len());
        self.take(len).trim()
    }

    /// Up to and with `close`; the part between.
    fn take_between(&mut self, open: &str, close: &str) -> Result<&'a str, String> {
        let end = self.rest[open.len()..].find(close).ok_or_else(|| format!("{open:?} without {close:?}"))?;
        let taken = self.take(open.len() + end + close.len());
        Ok(&taken[open.len()..open.len() + end])
    }

    fn event(&mut self) -> Result<Event, String> {
        let line = self.line;
        if self.rest.starts_with('`') {
            let command = self.take_between("`", "`")?.to_owned();
            let time = When::Range { relative: true, from: Span::ZERO, to: Span::ZERO };
            return Ok(Event { line, time, action: Action::Command(command) });
        }
        let time = self.time()?;
        self.skip_space();
        let action = match self.rest.chars().next() {
            Some('`') => Action::Command(self.take_between("`", "`")?.to_owned()),
            Some('%') if self.rest.starts_with("%{") => {
                Action::Code(self.take_between("%{", "}%")?.to_owned())
            }
            Some('<') => read(packet(self.packet_text()), Action::Receive),
            Some('>') => read(packet(self.packet_text()), Action::Expect),
            Some(first) if first.is_ascii_alphabetic() => self.call()?,
            _ => return Err(format!("cannot read {:?}", self.take_line())),
        };
        Ok(Event { line, time, action })
    }

    fn time(&mut self) -> Result<When, String> {
        if self.rest.starts_with('*') {
            self.take(1);
            return Ok(When::Any);
        }
        let (relative, from) = self.one_time()?;
        self.skip_blanks();
        // `a~b` is a range; `a...b` is a call that blocks from a to b.
        if self.rest.starts_with('~') {
            self.take(1);
            self.skip_blanks();
            let (_, to) = self.one_time()?;
            return Ok(When::Range { relative, from, to });
        }
        if self.rest.starts_with("...") {
            self.take("...".len());
            self.skip_blanks();
            let (_, to) = self.one_time()?;
            return Ok(When::Blocking { relative, from, to });
        }
        Ok(When::Range { relative, from, to: from })
    }

    fn skip_blanks(&mut self) {
        let len = self.rest.len() - self.rest.trim_start_matches([' ', '\t']).len();
        self.take(len);
    }

    fn one_time(&mut self) -> Result<(bool, Span), String> {
        let relative = self.rest.starts_with('+');
        if relative {
            self.take(1);
            self.skip_blanks();
        }
        let mut len = self
            .rest
            .find(|letter: char| !letter.is_ascii_digit() && letter != '.')
            .unwrap_or(self.rest.len());
        if let Some(dots) = self.rest[..len].find("...") {
            len = dots;
        }
        let text = self.take(len);
        match text.parse::<f64>() {
            // Scripts have microseconds at the finest.
            Ok(seconds) if seconds < 1e6 => Ok((relative, Span::from_us((seconds * 1e6).round() as u64))),
            _ => Err(format!("expected a time in seconds, found {:?}", self.take_line())),
        }
    }

    /// The text of a packet behind its direction; options may continue on the next line.
    fn packet_text(&mut self) -> String {
        self.take(1);
        let mut text = self.take_line().to_owned();
        while text.matches('<').count() > text.matches('>').count() && !self.rest.is_empty() {
            self.skip_space();
            text += self.take_line();
        }
        text
    }

    fn call(&mut self) -> Result<Action, String> {
        let len = self
            .rest
            .find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
            .unwrap_or(self.rest.len());
        let name = self.take(len).to_owned();
        self.skip_blanks();
        if !self.rest.starts_with('(') {
            return Err(format!("expected \"(\" behind {name}"));
        }
        let (mut depth, mut end) = (0_u32, None);
        for (at, letter) in self.rest.char_indices() {
            depth = match letter {
                '(' | '[' | '{' => depth + 1,
                ')' | ']' | '}' => depth.saturating_sub(1),
                _ => depth,
            };
            if depth == 0 {
                end = Some(at);
                break;
            }
        }
        let end = end.ok_or_else(|| format!("{name} has no end"))?;
        let inside = self.take(end + 1);
        let arguments = split_arguments(&inside[1..end]);
        let rest = self.take_line();
        let result = rest.strip_prefix('=').unwrap_or(rest).trim().to_owned();
        Ok(Action::Call(Call { name, arguments, result }))
    }
}

fn read(packet: Result<Packet, String>, action: fn(Packet) -> Action) -> Action {
    packet.map_or_else(Action::Unknown, action)
}

/// The arguments between commas outside of brackets.
fn split_arguments(text: &str) -> Vec<String> {
    let (mut depth, mut arguments) = (0_u32, vec![String::new()]);
    for letter in text.chars() {
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if letter == ',' && depth == 0 {
            arguments.push(String::new());
        } else if let Some(last) = arguments.last_mut() {
            last.push(letter);
        }
    }
    arguments.iter().map(|argument| argument.trim().to_owned()).collect()
}

/// Reads a packet, without its direction. The error says what is not known.
pub(super) fn packet(text: impl AsRef<str>) -> Result<Packet, String> {
    let mut packet = Packet::default();
    let mut rest = text.as_ref().trim();
    loop {
        let close = match rest.chars().next() {
            Some('[') => ']',
            Some('(') => ')',
            _ => break,
        };
        let end = rest.find(close).ok_or_else(|| format!("{rest:?} has no {close:?}"))?;
        if close == ']' {
            packet.ecn = ecn(rest[1..end].trim())?;
        }
        rest = rest[end + 1..].trim_start();
    }
    let options = rest.find('<');
    let head = &rest[..options.unwrap_or(rest.len())];
    let mut words = head.split_whitespace();
    let letters = words.next().ok_or("a packet without flags")?;
    if let Some(kind) =
        ["icmp", "udp", "ipv4", "ipv6", "gre", "mpls"].iter().find(|kind| letters.starts_with(**kind))
    {
        return Err(format!("{kind} packets"));
    }
    packet.flags = flags(letters)?;
    let range = words.next().ok_or("a packet without sequence numbers")?;
    (packet.seq, packet.len) = sequence_range(range)?;
    while let Some(word) = words.next() {
        let mut value = || -> Result<u32, String> {
            let text = words.next().ok_or_else(|| format!("{word} needs a number"))?;
            text.parse().map_err(|_| format!("{word} {text}"))
        };
        match word {
            "ack" => packet.ack = value()?,
            "win" => packet.window = Some(value()?),
            _ => return Err(format!("knows no {word:?} in a packet")),
        }
    }
    if let Some(start) = options {
        let end = rest[start..].find('>').ok_or("options without \">\"")? + start;
        packet.options = read_options(&rest[start + 1..end])?;
        let behind = rest[end + 1..].trim();
        if !behind.is_empty() {
            return Err(format!("{behind:?} behind a packet"));
        }
    }
    Ok(packet)
}

fn ecn(word: &str) -> Result<Option<EcnCodepoint>, String> {
    Ok(Some(match word {
        "noecn" => EcnCodepoint::NotEct,
        "ect0" => EcnCodepoint::Ect0,
        "ect1" => EcnCodepoint::Ect1,
        "ce" => EcnCodepoint::Ce,
        "ect01" => return Ok(None),
        _ => return Err(format!("[{word}] of a packet")),
    }))
}

fn flags(letters: &str) -> Result<TcpFlags, String> {
    let mut flags = TcpFlags::default();
    for letter in letters.chars() {
        let bit = match letter {
            'S' => TcpFlags::SYN,
            'F' => TcpFlags::FIN,
            'R' => TcpFlags::RST,
            'P' => TcpFlags::PSH,
            '.' => TcpFlags::ACK,
            'E' => TcpFlags::ECE,
            'W' => TcpFlags::CWR,
            '-' => TcpFlags::default(),
            'A' => return Err("AccECN (Linux 6.18)".to_owned()),
            _ => return Err(format!("the flags {letters:?}")),
        };
        flags = TcpFlags(flags.0 | bit.0);
    }
    Ok(flags)
}

/// `SEQ:END(LENGTH)`
fn sequence_range(text: &str) -> Result<(u32, u32), String> {
    let unread = || format!("the sequence numbers {text:?}");
    let (seq, rest) = text.split_once(':').ok_or_else(unread)?;
    let (end, len) = rest.split_once('(').ok_or_else(unread)?;
    let parse = |text: &str| text.trim_end_matches(')').parse::<u32>().map_err(|_| unread());
    let (seq, end, len) = (parse(seq)?, parse(end)?, parse(len)?);
    if seq.wrapping_add(len) == end {
        Ok((seq, len))
    } else {
        Err(format!("{text}: the length does not fit"))
    }
}

fn read_options(text: &str) -> Result<Options, String> {
    let mut options = Options::default();
    for option in text.split(',').map(str::trim).filter(|option| !option.is_empty()) {
        let words: Vec<&str> = option.split_whitespace().collect();
        let number = |text: &str| text.parse::<u32>().map_err(|_| format!("the option {option:?}"));
        match words[..] {
            ["..."] => options.any = true,
            ["nop" | "eol"] | [] => {}
            ["sackOK"] => options.sack_ok = true,
            ["mss", value] => options.mss = Some(number(value)?.min(u32::from(u16::MAX)) as u16),
            ["wscale", value] => options.window_scale = Some(number(value)?.min(14) as u8),
            ["TS", "val", value, "ecr", echo] => options.stamps = Some((number(value)?, number(echo)?)),
            ["sack", ref blocks @ ..] => {
                for block in blocks {
                    let (left, right) =
                        block.split_once(':').ok_or_else(|| format!("the option {option:?}"))?;
                    options.sack.push((number(left)?, number(right)?));
                }
            }
            [name, ..] if name.starts_with("FO") => return Err("TCP Fast Open".to_owned()),
            [name, ..] if name.starts_with("md5") => return Err("TCP MD5 signatures".to_owned()),
            [name, ..] => return Err(format!("the TCP option {name}")),
        }
    }
    Ok(options)
}

/// The time of `span` after the start.
pub(super) fn at(span: Span) -> Time {
    Time(span.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(text: &str) -> Vec<Event> {
        parse(text).unwrap().events
    }

    #[test]
    fn times_are_absolute_relative_any_or_ranges() {
        let range = |relative, from: u64, to: u64| When::Range {
            relative,
            from: Span::from_us(from),
            to: Span::from_us(to),
        };
        for (text, expected) in [
            ("0 close(3) = 0", range(false, 0, 0)),
            ("0.25 close(3) = 0", range(false, 250_000, 250_000)),
            ("+.01 close(3) = 0", range(true, 10_000, 10_000)),
            ("+0~+0.002 close(3) = 0", range(true, 0, 2_000)),
            ("1 ~ 1.5 close(3) = 0", range(false, 1_000_000, 1_500_000)),
            (
                "+.1 ... 0.2 connect(3, ..., ...) = 0",
                When::Blocking { relative: true, from: Span::from_us(100_000), to: Span::from_us(200_000) },
            ),
            ("* > . 1:1(0) ack 1", When::Any),
        ] {
            assert_eq!(events(text)[0].time, expected, "{text}");
        }
    }

    #[test]
    fn comments_go_and_lines_stay() {
        let text = "// one\n/* two\n three */ 0 socket(..., A, B) = 3 // end\n`echo // kept`\n+0 %{ assert 1 // 1 == 1 }%\n";
        let found = events(text);
        assert_eq!(found.iter().map(|event| event.line).collect::<Vec<_>>(), [3, 4, 5]);
        let Action::Call(call) = &found[0].action else { panic!("a call") };
        assert_eq!((call.name.as_str(), call.arguments.len(), call.result.as_str()), ("socket", 3, "3"));
        assert!(matches!(&found[1].action, Action::Command(text) if text == "echo // kept"));
        assert!(matches!(&found[2].action, Action::Code(text) if text.contains("1 // 1")));
    }

    #[test]
    fn packets_have_ecn_flags_numbers_and_options() {
        let read =
            packet("[ce] PEW. 1:1001(1000) ack 5 win 257 <nop,nop,TS val 7 ecr 3,nop,nop,sack 5:6 8:9>")
                .unwrap();
        assert_eq!(read.ecn, Some(EcnCodepoint::Ce));
        assert_eq!((read.seq, read.len, read.ack, read.window), (1, 1000, 5, Some(257)));
        assert_eq!(read.options.stamps, Some((7, 3)));
        assert_eq!(read.options.sack, [(5, 6), (8, 9)]);
        let syn = packet("S 0:0(0) <mss 1460,sackOK,nop,wscale 8>").unwrap();
        assert_eq!(
            (syn.options.mss, syn.options.sack_ok, syn.options.window_scale),
            (Some(1460), true, Some(8))
        );
        for (text, why) in [
            ("icmp unreachable", "icmp"),
            ("S 0:0(0) <FO abcd>", "Fast Open"),
            ("S 0:0(1)", "length"),
            ("SA. 0:0(0)", "AccECN"),
            (". 1:1(0) ack x", "ack x"),
            ("S 0:0(0) <mptcp dss>", "option mptcp"),
        ] {
            let error = packet(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn what_cannot_be_read_has_its_line() {
        for (text, line) in
            [("\n\nnow close(3) = 0", 3), ("0 close(3 = 0\n", 1), ("0 `never ends", 1), ("0\n", 1)]
        {
            let (found, why) = parse(text).unwrap_err();
            assert_eq!(found, line, "{text:?}: {why:?}");
        }
    }
}
