//! Graphs, generators and routing.
//!
//! A [`Topology`] is a plain graph; [`generate`] makes the usual families, [`check()`] finds mistakes in a hand-written
//! one, and [`routing`] computes next hops, forwarding tables and deadlock proofs. This crate knows no queues, flows or
//! time.

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
