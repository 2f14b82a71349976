//! `kind = "application"`.

use pauseframe_apps::{Application, Choices};
use pauseframe_units::{Bytes, Span};
use serde::{Serialize, Serializer};
use std::sync::Arc;

/// A parallel application and its ranks' places.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ApplicationSpec {
    /// What the ranks do; told by its digest or its pattern.
    pub application: ApplicationSource,
    /// Compute times are multiplied by this.
    pub compute_scale: f64,
    /// Messages of at most so many bytes are sent without asking.
    pub eager_limit: Bytes,
    /// Bytes before each message.
    pub envelope: Bytes,
    /// `"allreduce = ring"`: collective algorithms that do not go by size.
    pub algorithms: Vec<String>,
    /// The same, understood.
    #[serde(skip)]
    pub choices: Choices,
    /// Which rank runs where.
    pub placement: PlacementName,
    /// Host of each rank, with the placement "hosts".
    pub hosts: Option<Vec<String>>,
    /// Ranks that share a host.
    pub ranks_per_host: u32,
    /// When it begins.
    pub start: Span,
    /// Whether it is run alone, too, for the interference.
    pub alone: bool,
    /// Whether ranks keep their time line.
    pub timeline: bool,
}

/// The steps of all ranks.
#[derive(Clone, PartialEq, Debug)]
pub struct ApplicationSource(pub Arc<Application>);

impl Serialize for ApplicationSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.name)
    }
}

/// Patterns instead of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PatternName {
    /// A sum to all.
    AllReduce,
    /// A block from each to each.
    AllToAll,
    /// From rank to rank.
    Pipeline,
    /// Centres to all, sums to one.
    KMeans,
    /// Neighbours on a grid.
    Stencil,
}

/// Where ranks go.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PlacementName {
    /// The next free hosts in the order of the topology.
    Packed,
    /// A host of each rack in turn.
    RoundRobin,
    /// Free hosts by lot.
    Random,
    /// As listed.
    Hosts,
}
