//! The lossless network: hosts, switches, ports, buffers, PFC.
//!
//! One packet's journey: [`endpoint`] (TCP hands over a segment; stack, NIC) → [`wire`] (queue, link) → [`switching`] (route, admit, mark;
//! who may hold how much, who must pause) → wire → … → endpoint. A [`cell`] drives it, [`watch`] looks at it.

mod cell;
mod class;
mod crew;
mod endpoint;
mod event;
mod failures;
mod flow;
mod foresight;
mod frame;
mod headroom;
mod hot;
mod ideal;
mod ids;
mod memory;
mod near;
mod network;
mod order;
mod partition;
mod plan;
mod room;
mod rows;
mod settings;
mod switching;
mod traffic;
mod vlan;
mod watch;
mod wire;

pub use endpoint::throughput::Throughput;
pub use failures::{Failed, Failure};
pub use flow::{Datagrams, FlowRecord, FlowSpec, FlowStatus, Kept, Message, QueryRecord, Workload};
pub use headroom::{Headroom, HeadroomReport, Thresholds, headroom};
pub use ideal::IdealTime;
pub use network::{Failed as RunFailed, Network, Shield};
pub use plan::Plan;
pub use settings::{
    BufferPolicy, ClassSettings, DatagramSettings, EtsGroup, Marker, Overhead, PfcSettings, QcnSettings,
    QueueDiscipline, ReceiverSettings, Red, Scheduler, Settings, Threshold, Transport, VlanChoice,
    VlanRoutes, Watchdog, WatchdogAction, WireJitter,
};
pub use watch::deadlock::{Deadlock, DeadlockedQueue};
pub use watch::pause_tree::PauseInterval;
pub use watch::ports::PortReport;
pub use watch::sampler::{Entity, Metric, Sample, SamplePlan};
pub use watch::states::{State, StateChange};
pub use wire::capture::{CapturedFrame, FrameContent};
pub use wire::counters::{DropReason, LossReason};
pub use wire::damage::ErrorModel;
