//! `kind = "hotspot"`: an admissible load to one receiver, a burst beyond its link, and the load again.

use super::ledger::Origin;
use super::reader::Table;
use super::workload::{Context, SIZE_MAX, TIME_MAX, known_host, others, start, stop, two_hosts};
use crate::spec::{HotspotSpec, WorkloadKind};
use pauseframe_units::{Bytes, Span};

/// cee Fig. 3: seven sources, 4 times the sink's capacity from 100 to 110 ms.
pub(super) fn hotspot(t: &mut Table, context: &Context) -> Option<WorkloadKind> {
    two_hosts(t, context);
    let all = context.hosts.map_or(1, |hosts| hosts.count().saturating_sub(1));
    let (rule, doc) = ("all other hosts", "How many senders: the first hosts that are not the receiver");
    let origin = Origin::Computed("all other hosts".to_owned());
    let senders = t.or_because("senders", all as u32, origin, rule, doc);
    others(t, "senders", senders, context);
    let first = context.hosts.and_then(|hosts| hosts.first()).unwrap_or("").to_owned();
    let origin = Origin::Computed("the first host".to_owned());
    let receiver: String = t.or_because("receiver", first, origin, "the first host", "Name of the receiver");
    known_host(t, "receiver", &receiver, context);
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
