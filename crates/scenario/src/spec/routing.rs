//! `[routing]`: how packets find their way.

use pauseframe_topology::routing::verify::Tables;
use pauseframe_units::Span;
use serde::Serialize;
use std::sync::Arc;

/// `[routing]`.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct RoutingSpec {
    /// Next hops on the spot, or VLANs by forwarding tables.
    pub kind: RoutingKind,
    /// From a failure or a repair to new shortest paths everywhere; tables of VLANs stay as they are.
    pub convergence: Span,
    /// What the kinds with forwarding tables have; `None` for the others.
    pub vlans: Option<VlanRoutingSpec>,
}

/// How a next hop is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RoutingKind {
    /// Among the shortest by a hash of the flow, salted per switch.
    Ecmp,
    /// Among the shortest for every packet anew, uniformly at random.
    Spray,
    /// By the VLAN of the packet and forwarding tables.
    Vlans,
}

/// Forwarding tables, and how hosts choose among their VLANs.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct VlanRoutingSpec {
    /// Where the tables come from.
    pub engine: RoutingEngineSpec,
    /// How the VLAN is chosen.
    pub choice: ChoiceName,
    /// For each flow, or for each packet.
    pub per: Per,
    /// How many links longer than the shortest a route may be.
    pub slack: u16,
    /// What is known of the traffic, for [`ChoiceName::Demand`].
    pub demand: Vec<DemandEntry>,
    /// The tables that follow from all this.
    #[serde(skip)]
    pub tables: PlannedTables,
}

/// The tables of a scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedTables(pub Arc<Tables>);

/// Where forwarding tables come from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RoutingEngineSpec {
    /// Balanced fixed shortest routes in one lane; can deadlock.
    ShortestPath {
        /// VLANs.
        vlans: usize,
        /// Draws the order of destinations.
        seed: u64,
    },
    /// Up*/down* in one lane.
    UpDown {
        /// VLANs.
        vlans: usize,
        /// Name of the switch to rank from; by levels or the widest switch without.
        root: Option<String>,
        /// Breaks ties.
        seed: u64,
    },
    /// Edge-disjoint spanning trees, one a VLAN.
    Edst {
        /// Lanes, each with trees of its own.
        lanes: usize,
        /// The most trees a lane; as many as there are without.
        trees_per_lane: Option<usize>,
        /// How trees are found.
        packing: TreePacking,
        /// Draws the trees.
        seed: u64,
    },
    /// Shortest routes in pairs of lanes.
    OrderPair {
        /// The most lanes.
        lanes: usize,
        /// VLANs.
        vlans: usize,
        /// VLANs on a part of the links.
        sampled_vlans: usize,
        /// That part, per cent.
        sample_percent: u32,
        /// Draws the orders.
        seed: u64,
    },
    /// DFSSSP.
    Dfsssp {
        /// The most lanes.
        lanes: usize,
        /// Draws the order of destinations.
        seed: u64,
    },
    /// LASH.
    Lash {
        /// The most lanes.
        lanes: usize,
        /// Draws the order of pairs.
        seed: u64,
    },
    /// Tables from a file.
    Plan {
        /// As written: relative to the scenario.
        path: String,
        /// SHA-256 of its text, "sha256:..".
        digest: String,
    },
}

/// How edge-disjoint spanning trees are found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TreePacking {
    /// Kruskal on links in random order, on what is left.
    Random,
    /// As many as the graph has.
    Exact,
    /// As many, shallow.
    HubSeeded,
}

/// How a sender chooses its VLAN.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ChoiceName {
    /// Uniformly at random.
    Random,
    /// The less loaded of two random ones.
    BestOfTwo,
    /// The least loaded of all.
    LeastLoaded,
    /// Fixed for each pair by a planner that knows the demand.
    Demand,
}

/// How often a sender chooses its VLAN.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Per {
    /// Once.
    Flow,
    /// For every packet anew.
    Packet,
}

/// What one host will send to another.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct DemandEntry {
    /// The sending host.
    pub src: String,
    /// The receiving host.
    pub dst: String,
    /// On average.
    pub rate: pauseframe_units::BitRate,
}

impl RoutingSpec {
    /// The key because of which packets of a flow overtake each other, if they do.
    pub fn reorders(&self) -> Option<&'static str> {
        let per_packet = self.vlans.as_ref().is_some_and(|vlans| vlans.per == Per::Packet);
        match self.kind {
            RoutingKind::Spray => Some("routing.kind = spray"),
            _ => per_packet.then_some("routing.per = packet"),
        }
    }

    /// Lanes that the tables use, each a lossless priority; 0 without tables.
    pub fn lanes(&self) -> usize {
        self.vlans.as_ref().map_or(0, |vlans| vlans.tables.0.lanes())
    }
}
