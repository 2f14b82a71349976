//! Leaves and spines.

use super::parts::{Family, Links};
use pauseframe_schema::table;
use pauseframe_topology::generate::{self, GenerateError};
use pauseframe_topology::{Channel, Topology};

table! {
    /// Every leaf linked to every spine
    pub struct LeafSpine {
        /// Leaf switches
        leaves: u32 = required();
        /// Spine switches; every leaf has a link to each
        spines: u32 = required();
        /// Hosts at each leaf
        hosts_per_leaf: u32 = required();
    }
    pub fn try_read(t, _links: &Links);
}

impl Family for LeafSpine {
    fn generate(&self, host: Channel, fabric: Channel) -> Result<Topology, GenerateError> {
        generate::leaf_spine(self.leaves, self.spines, self.hosts_per_leaf, host, fabric)
    }
}
