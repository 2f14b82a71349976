//! The lossless network: hosts, switches, ports, buffers, PFC.
//!
//! One packet's journey: [`connection`] (TCP hands over a segment) → [`host`] (stack, NIC) → [`port`] (queue, wire)
//! → [`switch`] (route, admit, mark) → [`buffer`] and [`pfc`] (who may hold how much, who must pause) → port → … →
//! host → connection.

mod buffer;
mod connection;
mod event;
mod flow;
mod host;
mod ideal;
mod network;
mod observe;
mod packet;
mod pfc;
mod port;
mod settings;
mod switch;

pub use buffer::Thresholds;
pub use event::Event;
pub use flow::{FlowRecord, FlowSpec, FlowStatus, Kept, QueryRecord, Workload};
pub use ideal::IdealTime;
pub use network::{DropReason, Network, PortReport};
pub use observe::{CapturedFrame, Entity, FrameContent, Metric, Sample, SamplePlan};
pub use pfc::headroom;
pub use settings::{BufferPolicy, Marker, Overhead, PfcSettings, Settings, Transport};
