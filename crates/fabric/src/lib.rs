//! The lossless network: hosts, switches, ports, buffers, PFC.
//!
//! One packet's journey: [`connection`] (TCP hands over a segment) → [`host`] (stack, NIC) → [`port`] (queue, wire)
//! → [`switch`] (route, admit, mark) → [`buffer`] and [`pfc`] (who may hold how much, who must pause) → port → … →
//! host → connection.

// The audit's tests build networks as those in tests/all do, which see the crate from outside.
#[cfg(test)]
extern crate self as pauseframe_fabric;

mod audit;
mod border;
mod buffer;
mod capture;
mod cell;
mod class;
mod connection;
mod counters;
mod crew;
mod deadlock;
mod event;
mod failures;
mod flow;
mod foresight;
mod headroom;
mod host;
mod hot;
mod ideal;
mod marker;
mod marking;
mod messages;
mod network;
mod notes;
mod order;
mod packet;
mod partition;
mod paths;
mod pause_tree;
mod pfc;
mod plan;
mod port;
mod qcn;
mod queue;
mod receiver;
mod room;
mod rows;
mod sampler;
mod scheduler;
mod serving;
mod settings;
mod states;
mod switch;
mod throughput;
mod ticks;
mod traffic;
mod udp;
mod view;
mod vlan;
mod watchdog;
mod wire_jitter;

pub use buffer::Thresholds;
pub use capture::{CapturedFrame, FrameContent};
pub use class::ClassSettings;
pub use counters::DropReason;
pub use deadlock::{Deadlock, DeadlockedQueue};
pub use event::{Event, LimiterId};
pub use failures::{ErrorModel, Failed, Failure, LossReason};
pub use flow::{Datagrams, FlowRecord, FlowSpec, FlowStatus, Kept, Message, QueryRecord, Workload};
pub use headroom::{Headroom, HeadroomReport, headroom};
pub use ideal::IdealTime;
pub use marker::{BUFFER_MAX, MarkAt, Marker, NoMarker, NotEct, Red, Step, Threshold};
pub use network::{Failed as RunFailed, Network, PortReport, Shield};
pub use pause_tree::PauseInterval;
pub use plan::Plan;
pub use qcn::QcnSettings;
pub use queue::QueueDiscipline;
pub use receiver::ReceiverSettings;
pub use sampler::{Entity, Metric, Sample, SamplePlan};
pub use scheduler::{EtsGroup, Scheduler};
pub use settings::{BufferPolicy, Overhead, PfcSettings, Settings, Transport, WireJitter};
pub use states::{State, StateChange};
pub use throughput::Throughput;
pub use udp::DatagramSettings;
pub use vlan::{VlanChoice, VlanRoutes};
pub use watchdog::{Watchdog, WatchdogAction};
