//! Graphs: generators, files of other tools, checks and statistics.
//!
//! A [`Topology`] is a plain graph; [`generate`] makes common topology families, [`interchange`] reads and
//! writes files, and [`check()`] reports mistakes in a graph that was written by hand. [`SwitchGraph`] is the
//! compact form that routing works on.

mod check;
pub mod generate;
mod graph;
pub mod interchange;
mod statistics;
mod switch_graph;

pub use check::{TopologyError, check};
pub use graph::{Channel, Link, Node, NodeKind, PortOfHost, Topology};
pub use statistics::{Bisection, Rate, Statistics};
pub use switch_graph::{Arc, Edge, HostLinks, SwitchGraph};
