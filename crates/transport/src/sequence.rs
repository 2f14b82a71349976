//! Sequence numbers (RFC 9293 §3.4): 32 bits with wrap-around on the wire, 64-bit byte offsets internally.

/// The numbering of one direction of a connection. Offset 0 is the first byte of data; the SYN stands one
/// before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SequenceSpace {
    first: u32,
}

impl SequenceSpace {
    /// The numbering that a SYN with sequence number `iss` starts.
    pub(crate) fn after_syn(iss: u32) -> SequenceSpace {
        SequenceSpace { first: iss.wrapping_add(1) }
    }

    /// The sequence number of the SYN.
    pub(crate) fn iss(self) -> u32 {
        self.first.wrapping_sub(1)
    }

    /// The numbering after a FIN, which takes one sequence number.
    pub(crate) fn after_fin(self) -> SequenceSpace {
        SequenceSpace { first: self.first.wrapping_add(1) }
    }

    /// The number on the wire of the byte at `offset`.
    #[inline]
    pub(crate) fn wire_seq(self, offset: u64) -> u32 {
        self.first.wrapping_add(offset as u32)
    }

    /// Distance of `wire` from `offset`, positive if ahead, by the shorter direction around the number space.
    #[inline]
    pub(crate) fn distance(self, wire: u32, offset: u64) -> i32 {
        wire.wrapping_sub(self.wire_seq(offset)) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_and_distances_do_not() {
        let space = SequenceSpace::after_syn(u32::MAX - 10);
        assert_eq!(space.iss(), u32::MAX - 10);
        assert_eq!(space.wire_seq(0), u32::MAX - 9);
        assert_eq!(space.wire_seq(10), 0);
        assert_eq!(space.wire_seq((1 << 33) + 10), 0);
        assert_eq!(space.distance(5, 0), 15);
        assert_eq!(space.distance(space.wire_seq(3), 7), -4);
    }
}
