//! `kind = "scatter_gather"`: queries through two levels of aggregators.

use super::ledger::Origin;
use super::reader::Table;
use super::workload::{Context, SIZE_MAX, TIME_MAX, known_host, some_hosts, start, stop};
use crate::spec::{GapsSpec, ScatterGatherSpec, WorkloadKind};
use pauseframe_units::{Bytes, Span};

/// 188,000 queries in ten minutes to 45 servers (Alizadeh et al., "Data center TCP", SIGCOMM 2010, §4.3): one every 144 ms
/// at each; cee §III-C1 has them a hundred times as often.
const MEAN_GAP: Span = Span::from_us(1436);
/// The requests of the same paper, §2.2.
const REQUEST: Bytes = Bytes(1600);

pub(super) fn scatter_gather(t: &mut Table, context: &Context) -> Option<WorkloadKind> {
    let aggregators = t.required::<Vec<String>>("aggregators", "Hosts that launch queries");
    for name in aggregators.iter().flatten() {
        known_host(t, "aggregators", name, context);
    }
    let some = aggregators.as_ref().is_none_or(|names| !names.is_empty());
    t.check(some, "aggregators", || "[] names no host".to_owned(), "name one");
    let doc = "Hosts that answer; a query asks one of each rack, and that one all others of its rack";
    let servers = some_hosts(t, "servers", doc, context);
    let both = servers.iter().flatten().find(|name| aggregators.iter().flatten().any(|other| other == *name));
    let message = || format!("{:?} is an aggregator too", both.map_or("", String::as_str));
    t.check(both.is_none(), "servers", message, "leave it out of one of them");
    let none_left = servers.is_none()
        && context.hosts.zip(aggregators.as_ref()).is_some_and(|(hosts, names)| hosts.count() <= names.len());
    t.check(!none_left, "aggregators", || "no host is left to answer".to_owned(), "enlarge the topology");
    let gaps = t.section("gaps", gaps);
    let sizes = Bytes(1)..=SIZE_MAX;
    let request = t.or_in("request", REQUEST, sizes.clone(), "Size of a request, at both levels");
    let response = t.or_in("response", Bytes::kb(20), sizes, "Size of a response, at both levels");
    let start = start(t);
    let stop = stop(t, start, context)?;
    let (aggregators, gaps) = (aggregators?, gaps?);
    let spec = ScatterGatherSpec { aggregators, servers, gaps, request, response, start, stop };
    Some(WorkloadKind::ScatterGather(spec))
}

fn gaps(t: &mut Table) -> Option<GapsSpec> {
    type Reader = fn(&mut Table) -> GapsSpec;
    const KINDS: &[(&str, Reader)] = &[("exponential", exponential), ("log_normal", log_normal)];
    let doc = "Law of the times between the queries of an aggregator";
    Some(t.variant("kind", Some(("exponential", Origin::Default, "exponential")), KINDS, doc)?(t))
}

fn mean(t: &mut Table) -> Span {
    t.or_in("mean", MEAN_GAP, Span::from_ns(1)..=TIME_MAX, "Mean time between two queries of an aggregator")
}

fn exponential(t: &mut Table) -> GapsSpec {
    GapsSpec::Exponential { mean: mean(t) }
}

fn log_normal(t: &mut Table) -> GapsSpec {
    let doc = "Standard deviation of the logarithm of the times";
    GapsSpec::LogNormal { mean: mean(t), sigma: t.or_in("sigma", 1.5, 0.0..=4.0, doc) }
}
