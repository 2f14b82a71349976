//! A complete scenario. Only [`crate::resolve`] makes one.
//!
//! Each file here declares the keys of a table: name, type, default, range and meaning, once
//! ([`pauseframe_schema::table!`]). The struct, its reader, the reference, the JSON Schema and the Python classes come
//! from the declaration. Workloads declare theirs in `workload`.

mod clocks;
pub(crate) mod engines;
pub(crate) mod faults;
pub(crate) mod graph;
pub(crate) mod host;
pub(crate) mod lookup;
mod planned;
pub(crate) mod plugins;
pub(crate) mod record;
pub(crate) mod remember;
pub(crate) mod routing;
mod source;
pub(crate) mod stop;
pub(crate) mod switch;
pub(crate) mod topology;
pub(crate) mod transport;

pub use clocks::Clocks;
pub use engines::TreePacking;
pub use faults::{CorruptionSpec, FailureSpec, PauseStormSpec};
pub(crate) use host::{FLOW_SHARE, INTERRUPT_DELAY};
pub use host::{HostSpec, HostStack, LacpRate, SlowReceiver, WireJitterSpec, WireOverhead};
pub use pauseframe_fabric::{
    BufferPolicy, ClassSettings, CodelSettings, Ets, EtsGroup, HeadroomPoolSettings, IdealOutputQueuedBuffer,
    MarkAt, MarkSpacing, Marker, NicQueue, NoMarker, NotEctAction, ObeyedPausePriorities, PerPortBuffer,
    PfcPorts, PfcSettings, PfcWatchdogSettings, PortSelector, QcnSettings, QueueDiscipline,
    QueueLengthThreshold, Red, Scheduler, SharedBuffer, StepMarker, StrictPriorityScheduler, ValueByPort,
    WatchdogAction,
};
pub use pauseframe_rdma::QueuePairSettings;
pub use pauseframe_rdma::cc::dcqcn::DcqcnChanges;
pub use pauseframe_topology::generate::Family;
pub use pauseframe_workload::{
    ApplicationSource, ApplicationSpec, ArrivalsSpec, BackgroundSpec, BurstSpec, Cdf, Concurrency,
    Exponential, Fixed, FlowEntry, FlowsSpec, GapsSpec, HotspotSpec, IncastSpec, List, Load, LogNormal,
    LogUniform, LongFlowEntry, LongFlows, NToOne, PatternName, Permutation, PlacementName, Rate, ReplyLaw,
    RequestsSpec, ScatterGatherSpec, SizesSpec, StorageSpec, TrainingSpec, UdpSpec, Uniform, WorkloadKind,
    WorkloadSpec,
};
pub(crate) use planned::Fabric;
pub use plugins::PluginsSpec;
pub use record::{PacketsSpec, PauseTreeSpec, RecordSpec, SeriesSpec, StatesSpec};
pub use remember::{RememberSpec, RememberSteps};
pub use routing::{
    ChoiceName, DemandEntry, Per, PlannedTables, RoutingKind, RoutingSpec, TunnelClass, UseOfTables,
    VlanRoutingSpec,
};
pub use stop::Stop;
pub use switch::SwitchSpec;
pub use topology::custom::CustomLink;
pub use topology::file::FabricFile;
pub use topology::*;
pub use transport::{
    DatagramsSpec, EcnCapability, InitialWindow, PathMtu, Protocol, RdmaSpec, TcpSpec, TransportKindName,
    TransportSpec,
};

/// A repeatable run: the same scenario, seed and version give the same bytes.
#[derive(Clone, PartialEq, Debug)]
pub struct Scenario {
    /// Names the results.
    pub name: String,
    /// Master seed of all named random streams.
    pub seed: u64,
    /// Real or ideal clocks.
    pub clocks: Clocks,
    /// The end of the run.
    pub stop: Stop,
    /// The graph.
    pub topology: TopologySpec,
    /// How packets find their way.
    pub routing: RoutingSpec,
    /// Hosts and their NICs.
    pub host: HostSpec,
    /// Switches.
    pub switch: SwitchSpec,
    /// Quantized congestion notification in switches and NICs, if enabled.
    pub qcn: Option<QcnSettings>,
    /// `[transport]`, the default of workloads.
    pub transport: TransportSpec,
    /// `[transports.NAME]`: further ones, by name.
    pub transports: Vec<(String, TransportSpec)>,
    /// `[[workload]]`, in the order of the file.
    pub workload: Vec<WorkloadSpec>,
    /// `[[failure]]`: failures with their times.
    pub failure: Vec<FailureSpec>,
    /// `[[corruption]]`: links that damage frames.
    pub corruption: Vec<CorruptionSpec>,
    /// `[[pause_storm]]`: senders of unsolicited pauses.
    pub pause_storm: Vec<PauseStormSpec>,
    /// The records.
    pub record: RecordSpec,
    /// What repeats is simulated once.
    pub remember: RememberSpec,
}

impl Scenario {
    /// `[transport]` and `[transports.NAME]`, in the order of their indices.
    pub fn transport_specs(&self) -> impl Iterator<Item = &TransportSpec> {
        std::iter::once(&self.transport).chain(self.transports.iter().map(|(_, spec)| spec))
    }

    /// The transport of this name; "default" is `[transport]`.
    pub(crate) fn transport_named(&self, name: &str) -> &TransportSpec {
        let named = self.transports.iter().find(|(other, _)| other == name);
        named.map_or(&self.transport, |(_, spec)| spec)
    }

    /// Whether a deadlock ends the run. By default it does, unless a PFC watchdog, which needs time, can break it: one that only alerts
    /// cannot.
    pub(crate) fn ends_at_deadlock(&self) -> bool {
        let watchdog = self.switch.pfc.as_ref().and_then(|pfc| pfc.watchdog.as_ref());
        let is_breakable = watchdog.is_some_and(|watchdog| watchdog.action != WatchdogAction::Alert);
        self.stop.ends_at_deadlock(is_breakable)
    }
}
