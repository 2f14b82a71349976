//! Packets of `RoCEv2` (InfiniBand Architecture Specification, annex A17) with the fields that the simulation needs.

use pauseframe_units::Span;
use std::num::NonZeroU32;

/// Bytes of IPv4, UDP, BTH and ICRC headers, which each packet has.
pub const WIRE_OVERHEAD: u32 = 20 + 8 + 12 + 4;
const RETH: u32 = 16;
const AETH: u32 = 4;
/// Reserved bytes of a CNP.
const CNP: u32 = 16;
/// Packet sequence numbers have 24 bits.
pub(crate) const PSN_BITS: u32 = 24;

/// BTH operation codes of the reliable connection service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[expect(missing_docs, reason = "names of the specification")]
pub enum Opcode {
    SendFirst = 0x00,
    SendMiddle = 0x01,
    SendLast = 0x02,
    SendOnly = 0x04,
    WriteFirst = 0x06,
    WriteMiddle = 0x07,
    WriteLast = 0x08,
    WriteOnly = 0x0a,
    ReadRequest = 0x0c,
    ReadResponseFirst = 0x0d,
    ReadResponseMiddle = 0x0e,
    ReadResponseLast = 0x0f,
    ReadResponseOnly = 0x10,
    Acknowledge = 0x11,
    Cnp = 0x81,
}

impl Opcode {
    /// The operation code for a packet at this position of its message.
    pub(crate) fn of_write(is_first: bool, is_last: bool) -> Opcode {
        match (is_first, is_last) {
            (true, true) => Opcode::WriteOnly,
            (true, false) => Opcode::WriteFirst,
            (false, true) => Opcode::WriteLast,
            (false, false) => Opcode::WriteMiddle,
        }
    }

    /// As the previous function, for a message that takes a posted receive.
    pub(crate) fn of_send(is_first: bool, is_last: bool) -> Opcode {
        match (is_first, is_last) {
            (true, true) => Opcode::SendOnly,
            (true, false) => Opcode::SendFirst,
            (false, true) => Opcode::SendLast,
            (false, false) => Opcode::SendMiddle,
        }
    }

    /// The operation code of a response to a READ.
    pub(crate) fn of_response(is_first: bool, is_last: bool) -> Opcode {
        match (is_first, is_last) {
            (true, true) => Opcode::ReadResponseOnly,
            (true, false) => Opcode::ReadResponseFirst,
            (false, true) => Opcode::ReadResponseLast,
            (false, false) => Opcode::ReadResponseMiddle,
        }
    }

    /// Whether the packet carries bytes of a message.
    pub fn is_data(self) -> bool {
        !matches!(self, Opcode::Acknowledge | Opcode::Cnp | Opcode::ReadRequest)
    }

    /// Whether the packet carries bytes that a READ has asked for.
    pub(crate) fn is_response(self) -> bool {
        use Opcode::{ReadResponseFirst, ReadResponseLast, ReadResponseMiddle, ReadResponseOnly};
        matches!(self, ReadResponseFirst | ReadResponseMiddle | ReadResponseLast | ReadResponseOnly)
    }

    /// Whether the packet takes a posted receive.
    pub(crate) fn begins_send(self) -> bool {
        matches!(self, Opcode::SendFirst | Opcode::SendOnly)
    }

    /// Whether the packet completes a posted receive.
    pub(crate) fn ends_send(self) -> bool {
        matches!(self, Opcode::SendLast | Opcode::SendOnly)
    }

    /// Bytes of the headers between BTH and payload.
    pub fn extension(self) -> u32 {
        match self {
            Opcode::WriteFirst | Opcode::WriteOnly | Opcode::ReadRequest => RETH,
            Opcode::Acknowledge
            | Opcode::ReadResponseFirst
            | Opcode::ReadResponseLast
            | Opcode::ReadResponseOnly => AETH,
            Opcode::Cnp => CNP,
            _ => 0,
        }
    }
}

/// AETH syndromes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Syndrome {
    /// Acknowledges, with unlimited credits.
    Ack = 0x1f,
    /// Receiver not ready; the low five bits are the timer code ([`rnr_delay`]).
    ReceiverNotReady = 0x20,
    /// PSN sequence error: packets are missing.
    SequenceError = 0x60,
}

/// Delay requested by an RNR NAK, by its timer code (Linux `rxe_comp.c`).
pub fn rnr_delay(code: u8) -> Span {
    const TEN_US: [u64; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
        3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    Span::from_us(10 * TEN_US[usize::from(code & 31)])
}

/// A PSN that need not be there: a frame is one cache line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NamedPsn(NonZeroU32);

impl NamedPsn {
    pub(crate) fn of(number: u64) -> NamedPsn {
        NamedPsn(NonZeroU32::MIN | psn(number) << 1)
    }

    /// The PSN.
    pub fn psn(self) -> u32 {
        self.0.get() >> 1
    }
}

/// A packet of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The kind of packet.
    pub opcode: Opcode,
    /// Sequence number; in an acknowledgement that of the last acknowledged packet, in a NAK and with unordered delivery
    /// that of the expected packet.
    pub psn: u32,
    /// Bytes of the message.
    pub payload: u16,
    /// Requests an acknowledgement at once.
    pub ack_request: bool,
    /// The content of an acknowledgement.
    pub syndrome: Syndrome,
    /// With selective repeat, in a NAK: the packet that arrived out of order. With unordered delivery: the answered packet.
    pub selective: Option<NamedPsn>,
    /// In an acknowledgement of unordered delivery: number of packets that have arrived so far, modulo 2^16. In a
    /// packet with a RETH: the high half of [`Packet::length`].
    pub received: u16,
    /// In an acknowledgement of unordered delivery: which of the 16 packets before the answered one have arrived, the
    /// nearest in the lowest bit. In a packet with a RETH: the low half of [`Packet::length`].
    pub arrived: u16,
    /// In an acknowledgement of unordered delivery: the answered packet arrived with CE.
    pub echoes_ce: bool,
    /// A switch has cut the payload off.
    pub is_trimmed: bool,
    /// What switches hash beside the flow; in an acknowledgement that of the answered packet.
    pub entropy: u8,
}

impl Packet {
    /// A packet without a payload.
    pub const fn new(opcode: Opcode, psn: u32) -> Packet {
        Packet {
            opcode,
            psn,
            payload: 0,
            ack_request: false,
            syndrome: Syndrome::Ack,
            selective: None,
            received: 0,
            arrived: 0,
            echoes_ce: false,
            is_trimmed: false,
            entropy: 0,
        }
    }

    /// A request for `bytes` bytes; the first packet of the response has the PSN of the request.
    pub const fn read_request(psn: u32, bytes: u32) -> Packet {
        Packet::new(Opcode::ReadRequest, psn).with_length(bytes)
    }

    /// The same with a length in its RETH.
    #[must_use]
    pub const fn with_length(self, bytes: u32) -> Packet {
        Packet { received: (bytes >> 16) as u16, arrived: bytes as u16, ..self }
    }

    /// The length in the RETH: bytes of the message, or of the rest of a READ.
    pub fn length(&self) -> u32 {
        u32::from(self.received) << 16 | u32::from(self.arrived)
    }

    /// The same without its payload, as a switch sends it on.
    #[must_use]
    pub fn trimmed(self) -> Packet {
        Packet { payload: 0, is_trimmed: true, ..self }
    }

    /// Bytes of the IP packet, pad included.
    pub fn ip_size(&self) -> u32 {
        WIRE_OVERHEAD + self.opcode.extension() + u32::from(self.payload).next_multiple_of(4)
    }
}

/// Packets in flight at most: beyond, a PSN could be that of an old packet or of a new one.
pub(crate) const HALF_OF_PSNS: u64 = 1 << (PSN_BITS - 1);

/// The low 24 bits of a packet's number.
pub(crate) fn psn(number: u64) -> u32 {
    (number & ((1 << PSN_BITS) - 1)) as u32
}

/// The packet number closest to `near` with this PSN.
pub(crate) fn unwrap_psn(psn: u32, near: u64) -> u64 {
    let wrap = 1i64 << PSN_BITS;
    let ahead = (i64::from(psn) - (near as i64 & (wrap - 1)) + wrap / 2).rem_euclid(wrap) - wrap / 2;
    (near as i64 + ahead).max(0) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_those_of_the_specification() {
        // Frame sizes of the table in docs/models/rdma.md, without Ethernet's 18 bytes.
        let packet = |opcode, payload| Packet { payload, ..Packet::new(opcode, 0) };
        for (opcode, payload, frame) in [
            (Opcode::WriteMiddle, 1024, 1086),
            (Opcode::WriteFirst, 1024, 1102),
            (Opcode::SendOnly, 1, 66),
            (Opcode::Acknowledge, 0, 66),
            (Opcode::Cnp, 0, 78),
            (Opcode::ReadRequest, 0, 78),
            (Opcode::ReadResponseFirst, 1024, 1090),
            (Opcode::ReadResponseMiddle, 1024, 1086),
            (Opcode::ReadResponseLast, 1024, 1090),
            (Opcode::ReadResponseOnly, 1, 70),
        ] {
            assert_eq!(packet(opcode, payload).ip_size() + 18, frame, "{opcode:?}");
        }
    }

    #[test]
    fn sequence_numbers_wrap() {
        for number in [0u64, 5, (1 << 24) - 1, 1 << 24, (1 << 24) + 7, 5 << 24] {
            for near in [number, number + 1000, number.saturating_sub(1000)] {
                assert_eq!(unwrap_psn(psn(number), near), number, "near {near}");
            }
        }
    }

    #[test]
    fn a_receiver_that_is_not_ready_asks_for_a_delay() {
        assert_eq!([0, 1, 14, 31].map(rnr_delay).map(|delay| delay.0 / 10_000_000), [65536, 1, 128, 49152]);
    }
}
