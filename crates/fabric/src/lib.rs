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
mod context;
mod endpoint;
mod event;
mod external;
mod failures;
mod flow;
mod frame;
pub mod hash_index;
mod headroom;
pub mod host_ports;
mod hot;
mod ideal;
mod ids;
mod invariants;
mod marker;
mod memory;
mod network;
mod observers;
mod order;
mod partition;
mod partitioning;
pub mod path_hash;
mod plan;
mod port_names;
mod prefetch;
mod queue;
mod records;
mod rounds;
mod rows;
mod settings;
mod switching;
mod thread_pool;
mod throughput;
mod ties;
mod traffic;
mod vlan;
mod wire;
mod worker;

pub use external::{
    ExternalCounterSample, ExternalSocketSample, ExternalStack, ExternalStackExchange, ExternalStackFailure,
    ExternalStackFrame, ExternalStackOpeningParameters, ExternalStackOrder, ExternalStackReport,
    ExternalStackSamples,
};
pub use failures::{FailedElement, ScheduledFailure};
pub use flow::{
    ApplicationMessage, DatagramCounts, FlowRecord, FlowSpec, FlowStatus, KeptConnection, QueryRecord,
    RdmaCounts, RetransmissionCounts, StorageOperation, WindowTime, Workload,
};
pub use headroom::{HeadroomReport, LinkHeadroom, PauseThresholds, SwitchHeadroomPool};
pub use ideal::IdealFctCalculator;
pub use marker::{
    BUFFER_MAX, MarkAt, MarkSpacing, Marker, NoMarker, NotEctAction, PortSelector, QueueLengthThreshold, Red,
    StepMarker, ValueByPort,
};
pub use memory::{StepMemoryReport, StepMemorySettings};
pub use network::{Network, PartitionPanic as RunFailed};
pub use observers::deadlock::{Deadlock, DeadlockedQueue};
pub use observers::paths::{PathCounts, PathRow};
pub use observers::pause_tree::PauseInterval;
pub use observers::ports::PortPriorityReport;
pub use observers::sampler::{Sample, SamplePlan, SampledEntity, SampledMetric};
pub use observers::states::{PortStateChange, StateLogRow};
pub use plan::NetworkPlan;
pub use port_names::{all_ports, matches_glob, matching_ports};
pub use queue::QueueDiscipline;
pub use records::FlowRecords;
pub use rounds::{OperationClock, OperationId, OperationPace, Rounds, SkippedMessages};
pub use settings::{
    ArsMode, ArsSettings, BufferPolicy, ClassSettings, CodelSettings, ConWeaveSettings, ConnectionQueuePairs,
    DualTorSettings, Ets, EtsGroup, FrameOverhead, HashPolicy, HeadroomPoolSettings, HopChoice,
    HostLinkJitterSettings, HostPortSettings, IPV4_UDP_HEADER_BYTES, IdealOutputQueuedBuffer,
    LinuxSwitchSettings, MlagSettings, NicQueue, ObeyedPausePriorities, PauseStorm, PerPortBuffer, PfcPorts,
    PfcSettings, PfcWatchdogSettings, PortChoice, ProtocolSettings, QcnSettings, RdmaSettings,
    ScaleUpSettings, Scheduler, Settings, SharedBuffer, SlowReceiverSettings, StrictPriorityScheduler,
    SwitchKind, SwitchOverride, TransportSettings, UdpSettings, VlanChoice, VlanRoutes, WatchdogAction,
};
pub use switching::conweave::state::ConWeaveCounts;
pub use switching::tunnel_state::TunnelCounts;
pub use thread_pool::CatchPanic;
pub use throughput::ThroughputSeries;
pub use wire::capture::{CapturedFlowHeaders, CapturedFrame, CapturedFrameContent};
pub use wire::counters::{DropReason, LossReason};
pub use wire::damage::ErrorModel;
