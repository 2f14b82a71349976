//! Flow rates and completion times without packets.
//!
//! A [`demand`] lists who sends to whom, [`routes`] assign ports of a topology to every flow, [`MaxMin`] shares the
//! links among permanent flows, and [`Shares`] among flows that start and end, whose completion times
//! [`completion_times`] computes. [`ConcurrentFlow`] bounds the rates of any routing, and [`Report`] summarises.
//!
//! A link is one direction, named by its [`PortId`]; a host's uplink and downlink are ordinary links. Rates are `f64`
//! bits per second. Queues, round-trip times, slow start and headers are not modelled; every flow has its fair share at
//! once.

mod concurrent_flow;
pub mod demand;
mod dynamic;
mod error;
mod max_min;
mod paths;
mod report;
pub mod routes;
mod shares;

pub use concurrent_flow::{Bounds, ConcurrentFlow};
pub use dynamic::{Arrival, Outcome, Source, completion_times, simulate};
pub use error::FlowError;
pub use max_min::{Flows, MaxMin};
pub use paths::Paths;
pub use report::{Report, percentile};
pub use shares::Shares;

use pauseframe_topology::Topology;
use pauseframe_units::{Id, LinkId, PortId};

/// Capacity of each port in bits per second, by [`PortId`].
pub fn capacities(topology: &Topology) -> Vec<f64> {
    let port = |index: usize| PortId::of_link(LinkId::from_index(index / 2), index % 2);
    (0..topology.port_count()).map(|index| topology.channel(port(index)).rate.0 as f64).collect()
}
