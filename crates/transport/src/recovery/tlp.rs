//! Tail loss probe (RFC 8985 §7): after about two round trips of silence one segment, new or the last again, draws an ACK, so that a lost tail is
//! repaired by fast recovery and not by the timeout. `timer.rs` computes when it is due.

/// The probe of the current episode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct TailLossProbe {
    /// To be sent.
    due: bool,
    /// `snd_nxt` when it was sent; one episode lasts until this is acknowledged.
    end: Option<u64>,
    /// It was a retransmission.
    repeated: bool,
}

impl TailLossProbe {
    /// Requests a probe. False: one is already in flight (§7.3: one at a time).
    pub(super) fn request(&mut self) -> bool {
        self.due = self.end.is_none();
        self.due
    }

    /// Takes the request: whether to send a probe now.
    #[inline]
    pub(super) fn take_request(&mut self) -> bool {
        std::mem::take(&mut self.due)
    }

    /// Records that it was sent, with `snd_nxt` after it. `repeated`: it was a retransmission.
    pub(super) fn record_sent(&mut self, snd_nxt: u64, repeated: bool) {
        (self.end, self.repeated) = (Some(snd_nxt), repeated);
    }

    /// Whether it is in flight and was a retransmission.
    pub(super) fn is_retransmission(&self) -> bool {
        self.repeated && self.end.is_some()
    }

    /// Whether it repeated the data that end at `end`.
    pub(super) fn has_repeated(&self, end: u64) -> bool {
        self.repeated && self.end == Some(end)
    }

    /// §7.4: evaluates an ACK. True: the repeated segment had been lost, so the window must be reduced. `silent`: the ACK reports nothing else new;
    /// `dsack`: it reports the probe as a duplicate.
    pub(super) fn process_ack(&mut self, snd_una: u64, silent: bool, dsack: bool) -> bool {
        let Some(end) = self.end.filter(|end| snd_una >= *end) else { return false };
        if !self.repeated || dsack || (snd_una == end && silent) {
            // Nothing was lost: new data arrived, or both copies.
            self.end = None;
            return false;
        }
        if snd_una == end {
            return false;
        }
        self.end = None;
        true
    }
}
