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

pub use endpoint::throughput::Throughput;
pub use external::{
    ExternalStack, StackExchange, StackFailure, StackFrame, StackOpening, StackOrder, StackReport,
};
pub use failures::{Failed, Failure};
pub use flow::{
    Datagrams, FlowRecord, FlowSpec, FlowStatus, Kept, Message, QueryRecord, RdmaCounts, Repeats, Workload,
};
pub use headroom::{Headroom, HeadroomReport, PooledHeadroom, Thresholds, headroom};
pub use ideal::IdealTime;
pub use marker::{
    BUFFER_MAX, ByPort, MarkAt, Marker, NoMarker, NotEct, PortSelector, Red, Spacing, Step, Threshold,
};
pub use network::{Failed as RunFailed, Network};
pub use observers::deadlock::{Deadlock, DeadlockedQueue};
pub use observers::pause_tree::PauseInterval;
pub use observers::ports::PortReport;
pub use observers::sampler::{Entity, Metric, Sample, SamplePlan};
pub use observers::states::{State, StateChange};
pub use plan::Plan;
pub use queue::QueueDiscipline;
pub use records::FlowRecords;
pub use settings::{
    BufferPolicy, ClassSettings, DatagramSettings, EtsGroup, HeadroomPool, Jitter, Obeys, Overhead,
    PauseRule, PauseStorm, PfcSettings, QcnSettings, RdmaSettings, ReceiverSettings, Scheduler, Settings,
    Transport, VlanChoice, VlanRoutes, Watchdog, WatchdogAction, WireJitter,
};
pub use thread_pool::CatchPanic;
pub use wire::capture::{CapturedFrame, FrameContent};
pub use wire::counters::{DropReason, LossReason};
pub use wire::damage::ErrorModel;
