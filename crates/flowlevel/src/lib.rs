//! Flow rates and completion times without packets.
//!
//! A [`demand`] defines the pairs of hosts that communicate, and [`routes`] give every flow its ports on a
//! topology. [`MaxMin`] shares the links among permanent flows, [`Shares`] among flows that arrive and end;
//! [`simulate`] finds the ends of such flows. [`ConcurrentFlow`] bounds the rates under any routing
//! of the same demand, and [`Report`] summarises rates.
//!
//! In this crate a link is one direction, named by its [`PortId`]: a host's uplink and downlink are two
//! ordinary links. Rates are `f64` in bits per second. Not modelled: queues, round-trip times, slow start,
//! headers; every flow always has its fair share immediately.

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
pub use dynamic::{Arrival, Outcome, Source, simulate};
pub use error::FlowError;
pub use max_min::{Flows, MaxMin};
pub use paths::Paths;
pub use report::Report;
pub use shares::Shares;

use pauseframe_topology::Topology;
use pauseframe_units::{Id, LinkId, PortId};

/// The rate of each port in bits per second, indexed by [`PortId`].
pub fn capacities(topology: &Topology) -> Vec<f64> {
    let port = |index: usize| PortId::of_link(LinkId::from_index(index / 2), index % 2);
    (0..topology.port_count()).map(|index| topology.channel(port(index)).rate.0 as f64).collect()
}
