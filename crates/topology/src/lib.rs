//! Graphs, generators and routing.
//!
//! A [`Topology`] is a plain graph; [`generate`] makes common topology families, [`check()`] reports mistakes
//! in a graph that was written by hand, and [`routing`] computes next hops, forwarding tables and deadlock
//! proofs. This crate contains no queues, no flows and no simulated time.

mod check;
pub mod files;
pub mod generate;
mod graph;
pub mod interchange;
pub mod routing;
mod statistics;
pub mod watch;

pub use check::{TopologyError, check};
pub use graph::{Channel, Link, Node, NodeKind, Topology};
pub use statistics::{Bisection, Rate, Statistics};
