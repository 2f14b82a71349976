//! `kind = "hotspot"`: an admissible load to one receiver, a burst beyond its link, and the load again.

use super::reader::Table;
use super::workload::{Context, SIZE_MAX, TIME_MAX, many_to_one, start, stop};
use crate::spec::{HotspotSpec, WorkloadKind};
use pauseframe_units::{Bytes, Span};

/// cee Fig. 3: seven sources, 4 times the sink's capacity from 100 to 110 ms.
pub(super) fn hotspot(t: &mut Table, context: &Context) -> Option<WorkloadKind> {
    let (senders, receiver) = many_to_one(t, context);
    let doc = "Offered by all senders together before and after the burst, as a share of the receiver's link";
    let load = t.or("load", 0.5, doc);
    t.check(load > 0.0 && load <= 1.0, "load", || format!("{load} is not above 0 and at most 1"), "");
    let doc = "What an application writes at a time, before and after the burst";
    let message = t.or_in("message", Bytes::kb(15), Bytes(1)..=SIZE_MAX, doc);
    let doc = "Offered by all together in the burst, in link rates of the receiver";
    let overload = t.or("overload", 4.0, doc);
    t.check(overload > 0.0 && overload <= 1e6, "overload", || format!("{overload} is not above 0"), "");
    let times = Span::ZERO..=TIME_MAX;
    let burst_start = t.or_in("burst_start", Span::from_ms(100), times, "When the burst begins");
    let burst = t.or_in("burst", Span::from_ms(10), Span(1)..=TIME_MAX, "How long it lasts");
    let start = start(t);
    let stop = stop(t, start, context)?;
    let spec = HotspotSpec { senders, receiver, load, message, overload, burst_start, burst, start, stop };
    Some(WorkloadKind::Hotspot(spec))
}
