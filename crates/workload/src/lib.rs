//! Workloads, which generate flows. One file per kind declares its keys and makes its flows; flows are generated
//! lazily, in the order of their starts.
//!
//! Every draw comes from a stream named after the workload, the purpose and the host ("incast/arrivals", 5). Another
//! workload, another transport or a further host therefore changes no other draw: variants of a scenario with the same
//! seed see the same traffic (common random numbers).

mod arrivals;
pub mod cdf;
mod collectives;
mod columns;
pub mod context;
mod distributions;
pub mod flow_dag;
pub mod flow_list;
pub mod hosts;
mod kv_trace;
pub mod maker;
mod queries;
mod random;
mod sizes;
#[cfg(test)]
mod test_support;
mod trace;

pub use application::{ApplicationSource, PatternName, PlacementName};
pub use background::{ArrivalsSpec, Concurrency, Load, Rate};
pub use cdf::{builtin, builtin_names, read_cdf};
pub use collectives::{CollectivesSpec, Library, NcclAlgorithm, Slice};
pub use context::Context;
pub use flow_list::FlowEntry;
pub use long_flows::LongFlowEntry;
pub use maker::nothing;
pub use maker::{IdealOfQuery, Maker, QueryNumbers, Source, WorkloadContext};
pub use requests::ReplyLaw;
pub use scatter_gather::{Exponential, GapsSpec, LogNormal};
pub use sizes::{Cdf, Fixed, List, LogUniform, SizesSpec, Uniform};
pub use storage::{ANSWER, COMMAND};
pub use udp::BurstSpec;

use pauseframe_fabric::Workload;
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;
use pauseframe_schema::registry;
use pauseframe_schema::value::did_you_mean;

registry! {
    /// The kinds of workloads
    pub enum WorkloadKind {
        "flows" => flows::Flows(FlowsSpec);
        "permutation" => permutation::Permutation(Permutation);
        "n_to_1" => n_to_one::NToOne(NToOne);
        "long_flows" => long_flows::LongFlows(LongFlows);
        "incast" => incast::Incast(IncastSpec);
        "requests" => requests::Requests(RequestsSpec);
        "background" => background::Background(BackgroundSpec);
        "scatter_gather" => scatter_gather::ScatterGather(ScatterGatherSpec);
        "hotspot" => hotspot::Hotspot(HotspotSpec);
        "storage" => storage::Storage(StorageSpec);
        "kv_transfer" => kv_transfer::KvTransfer(KvTransferSpec);
        "udp" => udp::Udp(UdpSpec);
        "application" => application::Application(ApplicationSpec);
        "training" => training::Training(TrainingSpec);
    }
    pub fn read(t, context: &Context);
    impl Source;
}

impl WorkloadKind {
    /// The application, if it is one.
    pub fn application(&self) -> Option<&ApplicationSpec> {
        match self {
            WorkloadKind::Application(spec) => Some(spec),
            WorkloadKind::Training(spec) => Some(&spec.job),
            _ => None,
        }
    }
}

/// The keys of a table `[[workload]]`.
#[derive(Clone, PartialEq, Debug)]
pub struct WorkloadSpec {
    /// Unique name in the tables; by default the name of the kind.
    pub name: String,
    /// Name of the transport: "default" stands for `[transport]`, "udp" for datagrams without one.
    pub transport: String,
    /// The kind and its keys.
    pub kind: WorkloadKind,
}

/// A workload, as far as it is valid.
pub struct Partial {
    /// Name in the tables.
    pub name: String,
    /// Name of the transport.
    pub transport: String,
    /// `None` if an error was recorded.
    pub kind: Option<WorkloadKind>,
}

/// Reads a workload; `taken` holds all given names, so that no default name is one of them. `is_preset` recognises the
/// names of presets, which are not transports by themselves.
pub fn workload(
    t: &mut Table,
    context: &Context,
    taken: &mut Vec<String>,
    is_preset: fn(&str) -> bool,
) -> Partial {
    let chosen = WorkloadKind::choose(t, "kind", None, "Kind of workload");
    let kind = chosen.unwrap_or("workload");
    let mut default = kind.to_owned();
    let mut why = Origin::Default;
    for count in 2.. {
        if !taken.contains(&default) {
            break;
        }
        default = format!("{kind}_{count}");
        why = Origin::Computed("the kind, numbered".to_owned());
    }
    let name: String = t.or_because(
        "name",
        default,
        why,
        "the kind, numbered if it occurs again",
        "Name of the workload in the tables",
    );
    t.check(
        !name.is_empty() && name.len() <= 64,
        "name",
        || format!("{name:?} is empty or longer than 64 bytes"),
        "",
    );
    taken.push(name.clone());
    let transport = if kind == "udp" {
        transport_of_datagrams(t, context)
    } else {
        transport_name(t, context, is_preset)
    };
    let kind = chosen.and_then(|chosen| WorkloadKind::read_as(chosen, t, context));
    Partial { name, transport, kind }
}

fn transport_name(t: &mut Table, context: &Context, is_preset: fn(&str) -> bool) -> String {
    let doc = "Name of its transport: one of [transports.NAME], or \"default\" for [transport]";
    let transport: String = t.or("transport", "default".to_owned(), doc);
    let is_of_datagrams = context.of_datagrams.contains(&transport);
    let message = || match context.transports {
        _ if is_of_datagrams => {
            format!(
                "transport {transport:?} is of kind \"udp\", which carries workloads of kind \"udp\" alone"
            )
        }
        names => format!("there is no transport {transport:?}; there are {}", names.join(", ")),
    };
    let hint = if is_of_datagrams {
        match context.transports {
            [] => "choose a preset of TCP or RoCE, such as \"dctcp\" or \"roce_dcqcn\"".to_owned(),
            names => format!("name another: {}", names.join(", ")),
        }
    } else if is_preset(&transport) {
        format!("for the preset add [transports.{transport}] with preset = {transport:?}")
    } else {
        did_you_mean(&transport, context.transports.iter().map(String::as_str))
    };
    t.check(context.transports.contains(&transport), "transport", message, &hint);
    transport
}

/// The transport of datagrams that the document names; by default `[transport]` if that is one.
fn transport_of_datagrams(t: &mut Table, context: &Context) -> String {
    let doc = "Name of its transport, of kind \"udp\": it sets priority and ecn";
    let is_default = context.of_datagrams.iter().any(|name| name == "default");
    let rule = "[transport] if that is of kind \"udp\", else one with ecn = false";
    let given: Option<String> = t.optional_if_given("transport", rule, doc);
    let Some(name) = given else { return if is_default { "default" } else { "udp" }.to_owned() };
    let message = || match context.of_datagrams {
        [] => format!("there is no transport {name:?} of kind \"udp\""),
        names => format!("{name:?} is not a transport of kind \"udp\"; there are {}", names.join(", ")),
    };
    let hint = format!("add [transports.{name}] with preset = \"udp\", or leave transport out");
    t.check(name == "udp" || context.of_datagrams.contains(&name), "transport", message, &hint);
    name
}

/// Makes the workload that `spec` describes. `index` is the workload's position in the scenario, and
/// `transport` is the position of its transport in the network; every [`pauseframe_fabric::FlowSpec`]
/// contains both.
///
/// # Panics
/// If `spec` names an unknown host, or needs more hosts than exist: `resolve` rejects such scenarios.
pub fn build(
    spec: &WorkloadSpec,
    index: u16,
    transport: u16,
    context: &WorkloadContext,
) -> Box<dyn Workload> {
    spec.kind.build(&Maker { context, name: &spec.name, workload: index, transport })
}
