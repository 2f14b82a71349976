//! The lossless network: hosts, switches, ports, buffers, PFC.
//!
//! One packet's journey: [`endpoint`] (TCP hands over a segment; stack, NIC) → [`wire`] (queue, link) → [`switching`] (route, admit, mark;
//! buffer limits, pauses) → wire → … → endpoint. A [`partition`] runs the events; [`observers`] samples the state.

#![expect(unexpected_cfgs, reason = "tests/all/reach.rs has the compiler refuse what is in tests/trespass")]

// The tests of the invariants build networks as those in tests/all do, which see the crate from outside.
#[cfg(test)]
extern crate self as pauseframe_fabric;

mod class;
#[cfg(test)]
#[path = "../tests/all/common.rs"]
#[expect(dead_code, reason = "made for the tests outside, which need more of it")]
mod common;
mod contention;
mod context;
mod endpoint;
mod event;
mod external;
mod failures;
mod flow;
mod frame;
mod headroom;
mod hot;
mod ideal;
mod ids;
mod invariants;
mod marker;
mod network;
mod observers;
mod order;
mod partition;
mod partitioning;
mod plan;
mod port_names;
mod prefetch;
mod queue;
mod records;
mod rows;
mod settings;
mod switching;
mod thread_pool;
mod ties;
mod traffic;
mod vlan;
mod wire;
mod worker;

pub use endpoint::throughput::ThroughputSeries;
pub use external::{
    CounterSample, ExternalStack, SocketSample, StackExchange, StackFailure, StackFrame, StackOpening,
    StackOrder, StackReport, StackSamples,
};
pub use failures::{FailedElement, LinkFailure};
pub use flow::{
    DatagramCounts, FlowRecord, FlowSpec, FlowStatus, KeptConnection, Message, Operation, QueryRecord,
    RdmaCounts, RetransmissionCounts, Workload,
};
pub use headroom::{Headroom, HeadroomReport, PauseThresholds, PooledHeadroom};
pub use ideal::IdealCompletionTime;
pub use marker::{
    BUFFER_MAX, MarkAt, Marker, NoMarker, NotEct, PortSelector, Red, Spacing, Step, Threshold, ValueByPort,
};
pub use network::{Network, PartitionFailure as RunFailed};
pub use observers::deadlock::{Deadlock, DeadlockedQueue};
pub use observers::pause_tree::PauseInterval;
pub use observers::ports::PortReport;
pub use observers::sampler::{Sample, SamplePlan, SampledEntity, SampledMetric};
pub use observers::states::{PortState, StateChange};
pub use plan::Plan;
pub use port_names::{all_ports, matches, ports_matching};
pub use queue::QueueDiscipline;
pub use records::FlowRecords;
pub use settings::{
    BufferPolicy, ClassSettings, DatagramSettings, Ets, EtsGroup, HeadroomPool, HostLinkJitter,
    IdealOutputQueued, Jitter, ObeyedPauses, Overhead, PauseRule, PauseStorm, PerPort, PfcPorts, PfcSettings,
    PfcWatchdogSettings, QcnSettings, RdmaSettings, ReceiverSettings, Scheduler, Settings, Shared, Strict,
    TransportSettings, VlanChoice, VlanRoutes, WatchdogAction,
};
pub use thread_pool::CatchPanic;
pub use wire::capture::{CapturedFrame, FlowHeaders, FrameContent};
pub use wire::counters::{DropReason, LossReason};
pub use wire::damage::ErrorModel;
