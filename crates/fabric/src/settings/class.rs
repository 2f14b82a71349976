//! `[switch.classes.NAME]`: settings that differ between classes.

use super::buffer::ALPHAS;
use super::codel::CodelSettings;
use crate::marker::{BUFFER_MAX, Marker};
use crate::queue::QueueDiscipline;
use pauseframe_schema::bounds::Each;
use pauseframe_schema::reader::Table;
use pauseframe_schema::table;
use pauseframe_units::{Bytes, Priority};

table! {
    /// Settings for some priorities: their queue, marker, and part of a shared buffer
    pub struct ClassSettings as "SwitchClass" {
        /// The priorities of the class
        priorities: Vec<Priority> = by(read_required_priorities);
        /// Order of service within a priority, and which packet a full queue drops
        queue: Option<QueueDiscipline> = optional("as for all priorities");
        /// CoDel's parameters
        codel: Option<CodelSettings> = by(CodelSettings::read_for, queue);
        // Without its own table it has the common marker.
        /// ECN marking
        marker: Option<Marker> = by(read_marker, queue);
        /// Dynamic threshold: a queue may hold alpha times the free pool
        #[source = "Choudhury and Hahne 1998"]
        alpha: Option<f64> = optional_in(ALPHAS, "as for all priorities");
        /// Bytes reserved for each (port, priority) besides the pool
        reserved: Option<Bytes> = optional_in(Bytes::ZERO..=BUFFER_MAX, "as for all priorities");
    }
    pub fn read(t);
}

fn read_marker(t: &mut Table, key: &'static str, _: &str, queue: Option<QueueDiscipline>) -> Option<Marker> {
    let has_codel = queue.is_some_and(QueueDiscipline::has_codel);
    let read = |t: &mut Table| t.section(key, |t| Marker::read_table(t, has_codel, false));
    (t.has(key) || t.is_documenting()).then(|| read(t))
}

fn read_required_priorities(t: &mut Table, key: &'static str, doc: &str) -> Vec<Priority> {
    read_priority_list(t, key, doc).unwrap_or_default()
}

/// A required list of priorities.
pub(super) fn read_priority_list(t: &mut Table, key: &'static str, doc: &str) -> Option<Vec<Priority>> {
    let priorities: Vec<Priority> = t.required_in(key, Each(Priority::ALL), doc)?;
    t.check(!priorities.is_empty(), key, || "[] names no priority".to_owned(), "name one, as in [3]");
    Some(priorities)
}
