//! No marker.

use super::{Asked, Marking, Queue};
use pauseframe_schema::table;

table! {
    /// No ECN marking
    #[derive(Copy)]
    pub struct NoMarker {}
    pub fn read(t);
}

impl Marking for NoMarker {
    type Memory = ();

    fn memory(&self, _queue: &Queue) {}

    fn asked(&self) -> Asked {
        Asked::Backlog(u64::MAX)
    }

    fn begins(&self) -> Option<String> {
        None
    }
}
