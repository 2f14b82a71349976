//! F-RTO (RFC 5682, as Linux does it): was a timeout spurious? The first ACK after it lets new data out instead of more
//! retransmissions; if the next one acknowledges (or sacks) data sent once, the originals were only late.

use super::Phase;
use crate::config::Config;
use crate::sender::{Outgoing, Sender};
use pauseframe_units::Time;

/// Where the detection stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Frto {
    /// Not on, or answered.
    #[default]
    Off,
    /// Watching the ACKs after a timeout.
    Watching,
    /// The same; until the next ACK new data go out and no retransmissions (§2.1 step 2b).
    NewOnly,
}

impl Sender {
    fn set_frto(&mut self, state: Frto) {
        if let Some(refined) = self.refined.as_deref_mut() {
            refined.frto = state;
        }
    }

    /// A timeout struck. `first`: not in a recovery, or not the first timeout in a row.
    pub(super) fn begin_frto(&mut self, first: bool, config: &Config) {
        let state = if config.recovery.frto && first { Frto::Watching } else { Frto::Off };
        self.set_frto(state);
    }

    /// An ACK after a timeout. `duplicate`: it acknowledges nothing new, or has news in its SACK option.
    pub(super) fn on_ack_after_timeout(&mut self, advanced: bool, duplicate: bool) {
        let Some(refined) = self.refined.as_deref() else { return };
        if refined.frto == Frto::Off {
            return;
        }
        if refined.delivery.original {
            // §3.1 step 3b
            self.set_frto(Frto::Off);
            self.undo();
        } else if self.snd_nxt > self.recover {
            // Step 3a: the segments after the gap arrive, the gap is real.
            self.set_frto(if duplicate { Frto::Off } else { Frto::Watching });
        } else if advanced && self.snd_una < self.recover {
            // Step 2b, if there is anything new to send.
            let possible = self.fits_peer().is_some();
            self.set_frto(if possible { Frto::NewOnly } else { Frto::Off });
        }
    }

    /// Whether only new data may go out now.
    pub(super) fn is_new_only(&self) -> bool {
        self.phase == Phase::Loss
            && self.refined.as_deref().is_some_and(|refined| refined.frto == Frto::NewOnly)
    }

    /// The next new segment; if there never was one, recovery goes on as ever from here.
    pub(super) fn next_in_frto(&mut self, now: Time, config: &Config) -> Option<Outgoing> {
        let outgoing = self.next_new(now, config);
        if outgoing.is_none() && self.snd_nxt == self.recover {
            self.set_frto(Frto::Off);
        }
        outgoing
    }
}
