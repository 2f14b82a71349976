//! The lossless network: hosts, switches, ports, buffers, PFC.
//!
//! One packet's journey: [`connection`] (TCP hands over a segment) → [`host`] (stack, NIC) → [`port`] (queue, wire)
//! → [`switch`] (route, admit, mark) → [`buffer`] and [`pfc`] (who may hold how much, who must pause) → port → … →
//! host → connection.

mod buffer;
mod class;
mod connection;
mod event;
mod flow;
mod host;
mod ideal;
mod marker;
mod network;
mod observe;
mod packet;
mod pfc;
mod port;
mod queue;
mod scheduler;
mod settings;
mod switch;

pub use buffer::Thresholds;
pub use class::ClassSettings;
pub use event::Event;
pub use flow::{FlowRecord, FlowSpec, FlowStatus, QueryRecord, Workload};
pub use ideal::IdealTime;
pub use marker::{Marker, Red, Threshold};
pub use network::{DropReason, Network, PortReport};
pub use observe::{CapturedFrame, Entity, FrameContent, Metric, Sample, SamplePlan};
pub use pfc::headroom;
pub use queue::QueueDiscipline;
pub use scheduler::{EtsGroup, Scheduler};
pub use settings::{BufferPolicy, Overhead, PfcSettings, Settings, Transport};
