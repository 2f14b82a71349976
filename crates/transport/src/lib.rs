//! Sans-IO TCP: connection, loss recovery, congestion control.
//!
//! A [`Connection`] is one endpoint. It knows no event queue, no packet and no network: a simulated host, a test or
//! a script gives it segments and the time, and takes segments and a deadline from it.

mod cache;
mod cc;
mod closing;
mod config;
mod connection;
mod handshake;
mod mechanisms;
mod receiver;
mod recovery;
mod rtt;
mod scoreboard;
mod segment;
mod sender;
mod sequence;
mod small_queue;
mod stats;
mod super_packets;
mod writer;

pub use cache::Metrics;
pub use cc::*;
pub use config::{
    CachePolicy, Config, DelayedAckConfig, DelayedAckForm, EcnMode, Offload, ReceiveBuffer, RtoConfig,
    RtoForm, SendBuffer, SmallSegments,
};
pub use connection::{Connection, Failure};
pub use mechanisms::{Mechanism, Without};
pub use recovery::{IdleRestart, PacingConfig, RecoveryConfig, RtoGrowth};
pub use rtt::CLOCK_PERIOD;
pub use segment::{Ecn, Flags, Options, SackBlocks, Segment, Stamps, SynOptions};
pub use stats::Stats;
