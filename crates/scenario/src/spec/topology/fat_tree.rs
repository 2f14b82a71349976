//! Three-tier fat trees.

use super::parts::{Family, Links};
use pauseframe_schema::table;
use pauseframe_topology::generate::{self, GenerateError};
use pauseframe_topology::{Channel, Topology};

table! {
    /// Three-tier fat tree of `k`-port switches: k^3/4 hosts
    pub struct FatTree {
        /// Ports a switch, even; there are k^3/4 hosts
        k: u32 = required();
    }
    pub fn try_read(t, _links: &Links);
}

impl Family for FatTree {
    fn generate(&self, host: Channel, fabric: Channel) -> Result<Topology, GenerateError> {
        generate::fat_tree(self.k, host, fabric)
    }
}
