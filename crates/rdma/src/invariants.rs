//! Recounts a queue pair. Each rule says what must hold between two calls; [`QueuePair::contradiction`] names the first that does not.
//!
//! Debug builds recount after every call, and all builds with the other invariants of a network (`fabric/src/invariants`).

use crate::queue_pair::QueuePair;
use pauseframe_units::first_broken;

/// Packets up to which debug builds recount after every call.
const YOUNG: u64 = 4096;

impl QueuePair {
    /// What contradicts itself in the state of the queue pair; `None`: nothing.
    pub fn contradiction(&self) -> Option<String> {
        let control = || {
            first_broken(&[(self.rate() > 0, "its rate is 0"), (self.window() != Some(0), "its window is 0")])
        };
        self.sender_contradiction().or_else(|| self.receiver_contradiction()).or_else(control)
    }

    /// Debug builds end the run at a contradiction. Old queue pairs are recounted at some calls only.
    #[inline(always)]
    pub(crate) fn debug_check(&self) {
        let [acknowledged, received] = self.acknowledged_and_received();
        let is_young = acknowledged.max(received) < YOUNG;
        if cfg!(debug_assertions) && (is_young || (acknowledged + received).is_multiple_of(61)) {
            assert_eq!(self.contradiction(), None, "{self:?}");
        }
    }
}
