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
mod qcn;
mod receiver;
mod settings;
mod switch;
mod udp;
mod vlan;

pub use buffer::Thresholds;
pub use event::Event;
pub use flow::{Datagrams, FlowRecord, FlowSpec, FlowStatus, QueryRecord, Workload};
pub use ideal::IdealTime;
pub use network::{DropReason, Network, PortReport};
pub use observe::{CapturedFrame, Entity, FrameContent, Metric, Sample, SamplePlan};
pub use pfc::headroom;
pub use qcn::QcnSettings;
pub use receiver::ReceiverSettings;
pub use settings::{BufferPolicy, Marker, Overhead, PfcSettings, Settings, Transport};
pub use udp::DatagramSettings;
pub use vlan::{VlanChoice, VlanRoutes};
