//! Tail loss probe (RFC 8985 §7): after about two round trips of silence one segment, new or the last again, draws an ACK, so
//! that a lost tail is repaired by fast recovery and not by the timeout. When it is due stands in `timer.rs`.

/// The probe of the present episode.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct TailLossProbe {
    /// To be sent.
    due: bool,
    /// `snd_nxt` when it was sent; one episode lasts until this is acknowledged.
    end: Option<u64>,
    /// It repeated data.
    repeated: bool,
}

impl TailLossProbe {
    /// Its time has come. False: one is out already (§7.3: one at a time).
    pub(super) fn request_probe(&mut self) -> bool {
        self.due = self.end.is_none();
        self.due
    }

    /// Whether it is to be sent now, once.
    #[inline]
    pub(super) fn take_due_probe(&mut self) -> bool {
        std::mem::take(&mut self.due)
    }

    /// It was sent, with `snd_nxt` after it; `repeated`: data that were sent before.
    pub(super) fn on_probe_sent(&mut self, snd_nxt: u64, repeated: bool) {
        (self.end, self.repeated) = (Some(snd_nxt), repeated);
    }

    /// Whether it is out and repeated data.
    pub(super) fn repeats_data(&self) -> bool {
        self.repeated && self.end.is_some()
    }

    /// Whether it repeated the data that end at `end`.
    pub(super) fn repeats_segment_ending_at(&self, end: u64) -> bool {
        self.repeated && self.end == Some(end)
    }

    /// §7.4: what an ACK says about it. True: the segment it repeated had been lost, and the window must answer for it.
    /// `silent`: the ACK has no other news; `dsack`: it reports the probe as a duplicate.
    pub(super) fn reveals_loss(&mut self, snd_una: u64, silent: bool, dsack: bool) -> bool {
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
