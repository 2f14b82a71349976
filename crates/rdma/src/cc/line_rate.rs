//! No congestion control: line rate, and PFC alone.

use super::{ControlKind, RateControl};
use crate::queue_pair::QueuePairSettings;

#[derive(Clone, Debug)]
pub(crate) struct LineRate(pub(crate) u64);

impl ControlKind for LineRate {
    type Form = ();

    fn new((): (), settings: &QueuePairSettings) -> LineRate {
        LineRate(settings.line)
    }
}

impl RateControl for LineRate {
    fn rate(&self) -> u64 {
        self.0
    }
}
