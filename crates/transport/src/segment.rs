//! TCP segments, with header fields by their RFC 9293 names. Payload is counted, never stored.

use pauseframe_units::{Span, Time};

/// The timestamps option of every segment, padded (RFC 7323 appendix A).
pub(crate) const TIMESTAMPS_OPTION_BYTES: u32 = 12;

/// The ECN field of the IP header (RFC 3168 §5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum EcnCodepoint {
    /// Not ECN-capable: dropped where others are marked.
    #[default]
    NotEct = 0,
    /// ECN-capable, code point ECT(1).
    Ect1 = 1,
    /// ECN-capable, code point ECT(0).
    Ect0 = 2,
    /// Congestion experienced.
    Ce = 3,
}

/// The control bits (RFC 9293 §3.1, RFC 3168 §6.1).
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No more data from the sender.
    pub const FIN: TcpFlags = TcpFlags(0x01);
    /// Synchronise sequence numbers.
    pub const SYN: TcpFlags = TcpFlags(0x02);
    /// Reset the connection.
    pub const RST: TcpFlags = TcpFlags(0x04);
    /// Push.
    pub const PSH: TcpFlags = TcpFlags(0x08);
    /// The acknowledgment field is significant.
    pub const ACK: TcpFlags = TcpFlags(0x10);
    /// ECN echo.
    pub const ECE: TcpFlags = TcpFlags(0x40);
    /// Congestion window reduced.
    pub const CWR: TcpFlags = TcpFlags(0x80);

    /// Flags of the beginning or the end of a connection.
    pub(crate) const CONTROL_FLAGS: TcpFlags = TcpFlags(TcpFlags::SYN.0 | TcpFlags::FIN.0 | TcpFlags::RST.0);

    /// Whether every bit of `other` is set.
    #[inline]
    pub fn contains(self, other: TcpFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// These bits without those of `other`.
    #[inline]
    #[must_use]
    pub fn without(self, other: TcpFlags) -> TcpFlags {
        TcpFlags(self.0 & !other.0)
    }

    /// These bits and those of `other`.
    #[inline]
    #[must_use]
    pub fn with(self, other: TcpFlags) -> TcpFlags {
        TcpFlags(self.0 | other.0)
    }
}

impl std::fmt::Debug for TcpFlags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names = [
            (TcpFlags::FIN, "FIN"),
            (TcpFlags::SYN, "SYN"),
            (TcpFlags::RST, "RST"),
            (TcpFlags::PSH, "PSH"),
            (TcpFlags::ACK, "ACK"),
            (TcpFlags::ECE, "ECE"),
            (TcpFlags::CWR, "CWR"),
        ];
        let set: Vec<&str> =
            names.iter().filter(|(flag, _)| self.contains(*flag)).map(|(_, name)| *name).collect();
        f.write_str(&set.join("|"))
    }
}

/// Up to four SACK blocks (RFC 2018 §3; three when timestamps are on), the most recent first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SackBlocks {
    /// How many of `blocks` are in use.
    pub count: u8,
    /// Left edge and right edge (one past the end) of each block.
    pub blocks: [(u32, u32); 4],
}

/// The options of a SYN (RFC 9293 §3.7.1, RFC 7323, RFC 2018).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SynOptions {
    /// Largest segment that the sender of this SYN accepts.
    pub mss: u16,
    /// SACK permitted.
    pub sack: bool,
    /// Timestamps.
    pub timestamps: bool,
    /// Window scale shift.
    pub window_scale: u8,
}

/// Options that vary between segments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TcpOptions {
    /// None, or timestamps alone.
    #[default]
    None,
    /// On a segment with SYN.
    Syn(SynOptions),
    /// On an ACK that reports data above a gap.
    Sack(SackBlocks),
}

/// The timestamps of a segment (RFC 7323 §3) in milliseconds, as Linux and FreeBSD count; 0: none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timestamps {
    /// `TSval`: the sender's clock.
    pub value: u32,
    /// `TSecr`: the peer's clock as the sender has last seen it.
    pub echo: u32,
}

impl Timestamps {
    /// The time since the echoed timestamp left, in whole milliseconds and at least one (Linux `tcp_rtt_tsopt_us`).
    pub(crate) fn round_trip(self, now: Time) -> Option<Span> {
        let ticks = timestamp_at(now).wrapping_sub(self.echo).max(1);
        (self.echo != 0).then(|| Span::from_ms(1) * u64::from(ticks))
    }
}

/// The clock of the timestamps, in milliseconds; never 0.
pub(crate) fn timestamp_at(now: Time) -> u32 {
    ((now.0 / Span::from_ms(1).0) as u32).wrapping_add(1).max(1)
}

/// One TCP segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// Sequence number of the first byte (or of the SYN or FIN).
    pub seq: u32,
    /// Next sequence number expected, if `flags` has ACK.
    pub ack: u32,
    /// Bytes of data.
    pub len: u32,
    /// Receive window in bytes (the scale is already applied).
    pub window: u32,
    /// Control bits.
    pub flags: TcpFlags,
    /// Variable options.
    pub options: TcpOptions,
    /// Timestamps, if the connection uses them.
    pub stamps: Timestamps,
}

impl Segment {
    /// Length of the TCP header with its options in bytes: 20, plus options padded to four. `timestamps`:
    /// whether the connection uses them (RFC 7323: 10 bytes and two of padding on every segment).
    pub fn header_len(&self, timestamps: bool) -> u32 {
        let stamp = if timestamps { TIMESTAMPS_OPTION_BYTES } else { 0 };
        20 + match self.options {
            TcpOptions::None => stamp,
            // MSS 4, SACK permitted 2, window scale 3, timestamps 10; padded.
            TcpOptions::Syn(syn) => {
                let used = 4 + 3 + if syn.sack { 2 } else { 0 } + if syn.timestamps { 10 } else { 0 };
                (used + 3) & !3
            }
            // Two bytes of padding, kind, length, and eight a block (RFC 2018 §3).
            TcpOptions::Sack(sack) => stamp + 4 + 8 * u32::from(sack.count),
        }
    }
}
