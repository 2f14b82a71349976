//! Graphs, generators and routing.
//!
//! A [`Topology`] is a plain graph; [`generate`] makes the usual families, [`check()`] says what is wrong
//! with one that was written by hand, and [`routing`] turns it into next hops, forwarding tables and deadlock
//! proofs. Nothing here knows queues, flows or time.

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
