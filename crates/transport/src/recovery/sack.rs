//! Recovery with SACK (RFC 6675): which segments are retransmitted in which order (`NextSeg`).

use crate::config::TcpConfig;
use crate::scoreboard::Retransmission;
use crate::segment::{Segment, TcpOptions};
use crate::sender::Sender;

impl Sender {
    /// Processes the SACK option, if there is one; returns the newly sacked bytes.
    #[inline]
    pub(crate) fn on_sack(&mut self, segment: &Segment) -> u64 {
        match &segment.options {
            TcpOptions::Sack(blocks) if self.sack => {
                let delivery = self.refined.as_deref_mut().map(|refined| &mut refined.delivery);
                self.scoreboard.mark_sacked(blocks, self.space, self.snd_una, self.snd_nxt, delivery)
            }
            _ => 0,
        }
    }

    /// §4 `NextSeg` rules 3 and 4, tried when no segment is marked lost and no new data waits: a hole that is not known to be lost, or once
    /// per recovery the last segment. Not with RACK, and not in Linux, which waits for the timeout (`tcp_update_scoreboard`).
    pub(crate) fn next_speculative_retransmission(&mut self, config: &TcpConfig) -> Option<Retransmission> {
        if self.uses_rack(config) || config.recovery.count_packets {
            return None;
        }
        if let Some(hole) = self.scoreboard.next_hole(self.snd_una) {
            return Some(hole);
        }
        if self.rescued {
            return None;
        }
        let last = self.scoreboard.last_hole(self.snd_una)?;
        self.rescued = true;
        Some(last)
    }
}
