//! Settings that differ between classes.

use crate::marker::Marker;
use crate::queue::QueueDiscipline;
use pauseframe_units::{Bytes, Priority};

/// Settings of some priorities that replace the common ones; `None` keeps the common one.
#[derive(Clone, PartialEq, Debug)]
pub struct ClassSettings {
    /// The priorities.
    pub priorities: Vec<Priority>,
    /// ECN marking.
    pub marker: Option<Marker>,
    /// Order of service.
    pub queue: Option<QueueDiscipline>,
    /// Dynamic threshold factor in a shared buffer.
    pub alpha: Option<f64>,
    /// Bytes that each (port, priority) owns beyond the pool of a shared buffer.
    pub reserved: Option<Bytes>,
}
