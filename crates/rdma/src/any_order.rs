//! Placement in any order: a gap may be packets that are late, so only many packets beyond it make a loss of them.

use pauseframe_schema::choices;
use std::mem::take;

choices! {
    /// Order in which cards accept packets of WRITEs and of responses to READs
    pub enum DpOrdering {
        /// A packet beyond a gap shows a loss
        InOrder = "in_order",
        /// Packets in any order; messages complete in order
        OooRw = "ooo_rw",
    }
}

/// Which missing packets have been requested again.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct GapWatch {
    /// All missing packets before this one have been.
    until: u64,
    /// Packets since then that show that copies are missing too.
    again: u32,
}

impl GapWatch {
    /// The first missing packet has come.
    pub(crate) fn on_progress(&mut self) {
        self.again = 0;
    }

    /// A packet has come: whether `missing` counts as lost, with packets `kept` beyond it (their number, the first and the last). It does once half of the
    /// window is kept (MP-RDMA: 32 of 64), and again after a quarter: with go-back-N of packets that had come before, otherwise of others.
    pub(crate) fn is_lost(
        &mut self,
        missing: u64,
        kept: (usize, Option<u64>, Option<u64>),
        is_new: bool,
        (window, selective_repeat): (u32, bool),
    ) -> bool {
        let (count, Some(first), Some(last)) = kept else { return false };
        if missing >= self.until {
            let is_lost = count as u64 >= u64::from(window / 2);
            if is_lost {
                self.until = if selective_repeat { first } else { last + 1 };
                self.again = 0;
            }
            return is_lost;
        }
        self.again += u32::from(is_new == selective_repeat);
        self.again >= window / 4 && take(&mut self.again) > 0
    }
}
