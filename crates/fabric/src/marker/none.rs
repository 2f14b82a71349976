//! No marker.

use super::{InspectedPackets, Marking, MarkerRandomStreams};
use pauseframe_schema::table;

table! {
    /// No ECN marking
    #[derive(Copy)]
    pub struct NoMarker {}
    pub fn read(t);
}

impl Marking for NoMarker {
    type QueueState = ();

    fn new_state(&self, _queue: &MarkerRandomStreams) {}

    fn inspected_packets(&self) -> InspectedPackets {
        InspectedPackets::Backlog(u64::MAX)
    }

    fn threshold_text(&self) -> Option<String> {
        None
    }
}
