//! Sequence numbers, windows and options of a script and of the connection, and whether segments match.

use super::parse::Packet;
use super::{DEFAULT_MSS, Setup, Stop};
use pauseframe_transport::{EcnCodepoint, SackBlocks, Segment, SynOptions, TcpFlags, TcpOptions, Timestamps};
use pauseframe_units::{Span, Time};
use std::fmt::Write as _;

/// Initial sequence numbers of the connection and its peer.
pub(super) const ISS: u32 = 1_000_000;
pub(super) const PEER_ISS: u32 = 2_000_000;
const SACK_BLOCKS: usize = 4;

/// A segment as the connection sent it, or several that follow each other, as one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) at: Time,
    pub(super) segment: Segment,
    pub(super) ecn: EcnCodepoint,
}

/// Translates between the numbers of the script and those of the connection.
#[derive(Debug)]
pub(super) struct Translator<'a> {
    setup: &'a Setup,
    /// Window scale of the connection; 0 before its SYN.
    own_scale: u8,
    /// Timestamps of the script and of the connection, in the order in which they were sent.
    stamps: Vec<(u32, u32, Time)>,
}

impl<'a> Translator<'a> {
    pub(super) fn new(setup: &'a Setup) -> Translator<'a> {
        Translator { setup, own_scale: 0, stamps: Vec::new() }
    }

    /// A packet of the script as a segment that arrives.
    pub(super) fn incoming(&self, packet: &Packet) -> Result<(Segment, EcnCodepoint), Stop> {
        let is_syn = packet.flags.contains(TcpFlags::SYN);
        let own = |number: u32| ISS.wrapping_add(number.wrapping_sub(self.setup.iss));
        let peer = |number: u32| PEER_ISS.wrapping_add(number.wrapping_sub(self.setup.peer_iss));
        let scale = if is_syn { 0 } else { self.setup.peer_scale };
        let options = if is_syn {
            TcpOptions::Syn(SynOptions {
                mss: packet.options.mss.unwrap_or(DEFAULT_MSS),
                sack: packet.options.sack_ok,
                timestamps: packet.options.stamps.is_some(),
                window_scale: packet.options.window_scale.unwrap_or(0),
            })
        } else if packet.options.sack.is_empty() {
            TcpOptions::None
        } else {
            if packet.options.sack.len() > SACK_BLOCKS {
                return Err(Stop::Failed("more than four SACK blocks".to_owned()));
            }
            let mut sack = SackBlocks::default();
            for (slot, (left, right)) in sack.blocks.iter_mut().zip(&packet.options.sack) {
                *slot = (own(*left), own(*right));
                sack.count += 1;
            }
            TcpOptions::Sack(sack)
        };
        let stamps = packet.options.stamps.filter(|_| self.setup.timestamps);
        let segment = Segment {
            seq: peer(packet.seq),
            ack: if packet.flags.contains(TcpFlags::ACK) { own(packet.ack) } else { 0 },
            len: packet.len,
            window: packet.window.unwrap_or(0) << scale,
            flags: packet.flags,
            options,
            stamps: stamps.map_or_else(Timestamps::default, |(value, echo)| Timestamps {
                value,
                echo: self.own_stamp(echo),
            }),
        };
        Ok((segment, packet.ecn.unwrap_or_default()))
    }

    /// The timestamp of the connection that the script calls `stamp`.
    fn own_stamp(&self, stamp: u32) -> u32 {
        if stamp == 0 {
            return 0;
        }
        let sent = self.stamps.iter().rev().find(|(script, ..)| *script == stamp);
        let same = sent.map(|(_, own, _)| *own);
        let first = self.stamps.first().map(|(script, own, _)| own.wrapping_add(stamp.wrapping_sub(*script)));
        same.or(first).unwrap_or(stamp)
    }

    /// Fails unless `sent` is what the script expects.
    pub(super) fn check(&mut self, packet: &Packet, sent: &Sent) -> Result<(), Stop> {
        let segment = &sent.segment;
        if let TcpOptions::Syn(syn) = segment.options {
            self.own_scale = syn.window_scale;
        }
        // As packetdrill: only `--strict_segments` compares PSH.
        let ignored = if self.setup.strict { 0 } else { TcpFlags::PSH.0 };
        let (found, expected) =
            (self.describe(segment, sent.ecn, packet, ignored), describe_script(packet, ignored));
        if found != expected {
            return Err(Stop::Failed(format!("expected {expected}, but {found} was sent")));
        }
        self.check_stamps(packet, sent)
    }

    fn check_stamps(&mut self, packet: &Packet, sent: &Sent) -> Result<(), Stop> {
        let Some((value, echo)) =
            packet.options.stamps.filter(|_| self.setup.timestamps && !packet.options.any)
        else {
            return Ok(());
        };
        let own = sent.segment.stamps;
        if own.echo != echo {
            return Err(Stop::Failed(format!("expected ecr {echo}, but {} was sent", own.echo)));
        }
        if let (Some(tick), Some((first, _, at))) = (self.setup.stamp_tick, self.stamps.first()) {
            let elapsed = Span(tick.0 * u64::from(value.wrapping_sub(*first)));
            let off = Span(elapsed.0.abs_diff(sent.at.saturating_since(*at).0));
            if off > self.setup.tolerance + tick {
                return Err(Stop::Failed(format!(
                    "TS val {value} is {off} away from the time of the segment"
                )));
            }
        }
        self.stamps.push((value, own.value, sent.at));
        Ok(())
    }

    /// A sent segment in the words of the script, with those fields that `packet` names.
    pub(super) fn describe(
        &self,
        segment: &Segment,
        ecn: EcnCodepoint,
        packet: &Packet,
        ignored: u8,
    ) -> String {
        let own = |number: u32| self.setup.iss.wrapping_add(number.wrapping_sub(ISS));
        let peer = |number: u32| self.setup.peer_iss.wrapping_add(number.wrapping_sub(PEER_ISS));
        let is_syn = segment.flags.contains(TcpFlags::SYN);
        let mut options = Vec::new();
        match segment.options {
            TcpOptions::Syn(syn) if syn.sack => options.push("sackOK".to_owned()),
            TcpOptions::Sack(sack) => {
                options.extend(
                    sack.blocks
                        .iter()
                        .take(usize::from(sack.count))
                        .map(|(l, r)| format!("{}:{}", peer(*l), peer(*r))),
                );
            }
            TcpOptions::None | TcpOptions::Syn(_) => {}
        }
        let ack = segment.flags.contains(TcpFlags::ACK).then(|| peer(segment.ack));
        let window = segment.window >> if is_syn { 0 } else { self.own_scale };
        let named = packet.window.map(|_| if is_syn { window.min(0xffff) } else { window });
        let options = (!packet.options.any).then_some(options);
        words(
            packet.ecn.map(|_| ecn),
            segment.flags.0 & !ignored,
            (own(segment.seq), segment.len),
            ack,
            named,
            options,
        )
    }
}

fn describe_script(packet: &Packet, ignored: u8) -> String {
    let own_sack = |block: &(u32, u32)| format!("{}:{}", block.0, block.1);
    let mut options: Vec<String> = packet.options.sack.iter().map(own_sack).collect();
    if packet.options.sack_ok {
        options.push("sackOK".to_owned());
    }
    let ack = packet.flags.contains(TcpFlags::ACK).then_some(packet.ack);
    let options = (!packet.options.any).then_some(options);
    words(packet.ecn, packet.flags.0 & !ignored, (packet.seq, packet.len), ack, packet.window, options)
}

fn words(
    ecn: Option<EcnCodepoint>,
    flags: u8,
    (seq, len): (u32, u32),
    ack: Option<u32>,
    window: Option<u32>,
    options: Option<Vec<String>>,
) -> String {
    const LETTERS: [(TcpFlags, char); 7] = [
        (TcpFlags::SYN, 'S'),
        (TcpFlags::FIN, 'F'),
        (TcpFlags::RST, 'R'),
        (TcpFlags::PSH, 'P'),
        (TcpFlags::ECE, 'E'),
        (TcpFlags::CWR, 'W'),
        (TcpFlags::ACK, '.'),
    ];
    let mut text = match ecn {
        Some(EcnCodepoint::NotEct) => "[noecn] ".to_owned(),
        Some(ecn) => format!("[{ecn:?}] ").to_lowercase(),
        None => String::new(),
    };
    text.extend(LETTERS.iter().filter(|(flag, _)| flags & flag.0 != 0).map(|(_, letter)| *letter));
    let _ = write!(text, " {seq}:{}({len})", seq.wrapping_add(len));
    let _ = ack.map(|ack| write!(text, " ack {ack}"));
    let _ = window.map(|window| write!(text, " win {window}"));
    if let Some(options) = options.filter(|options| !options.is_empty()) {
        let _ = write!(text, " <{}>", options.join(" "));
    }
    text
}
