//! Sans-IO TCP: connection, loss recovery, congestion control.
//!
//! A [`Connection`] is one endpoint. It has no event queue, packets or network: a simulated host, a test or a script passes segments and the time to
//! it, and takes segments and a deadline from it.

mod cache;
mod cc;
mod closing;
mod config;
mod connection;
mod handshake;
mod info;
mod invariants;
mod mechanisms;
mod multipath;
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

pub use cache::CachedTcpMetrics;
pub use cc::*;
pub use config::{
    CachePolicy, DelayedAckConfig, DelayedAckForm, EcnMode, OffloadConfig, ReceiveBuffer, RtoConfig, RtoForm,
    SendBuffer, SmallSegments, TcpConfig,
};
pub use connection::{Connection, ConnectionFailure};
pub use mechanisms::{DisabledMechanisms, Mechanism};
pub use multipath::{Assignment, MappingsOnTheWire, MultipathConnection, SubflowView};
pub use receiver::{ForwardedFrame, ForwardingGro};
pub use recovery::{IdleRestart, PacingConfig, RecoveryConfig, RtoGrowth};
pub use rtt::CLOCK_PERIOD_TICKS;
pub use segment::{EcnCodepoint, SackBlocks, Segment, SynOptions, TcpFlags, TcpOptions, Timestamps};
pub use stats::ConnectionStats;
