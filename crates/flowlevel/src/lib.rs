//! Flow rates and completion times without packets.
//!
//! A [`demand`] says who sends to whom, [`routes`] give every flow its ports on a topology, [`MaxMin`] shares
//! the links among flows that stay, [`Shares`] among flows that come and go, whose completion times
//! [`completion_times`] finds.
//! [`ConcurrentFlow`] bounds what any routing could do for the same demand, and [`Report`] sums up.
//!
//! A link is one direction here, named by its [`PortId`]: a host's uplink and
//! downlink are links like all others. Rates are `f64` bits per second. Left out: queues, round-trip times,
//! slow start, headers; every flow always has its fair share at once.

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

/// What each port can send, in bits per second, by [`PortId`].
pub fn capacities(topology: &Topology) -> Vec<f64> {
    let port = |index: usize| PortId::of_link(LinkId::from_index(index / 2), index % 2);
    (0..topology.port_count()).map(|index| topology.channel(port(index)).rate.0 as f64).collect()
}
