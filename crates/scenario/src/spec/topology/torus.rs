//! The torus.

use super::parts::{Family, Links};
use pauseframe_schema::table;
use pauseframe_topology::generate::{self, GenerateError};
use pauseframe_topology::{Channel, Topology};

table! {
    /// Switches on a grid that closes on itself, `lengths[i]` along dimension i
    pub struct Torus {
        /// Switches along each dimension
        lengths: Vec<u32> = required();
        /// Hosts at each switch
        hosts_per_switch: u32 = required();
    }
    pub fn try_read(t, _links: &Links);
}

impl Family for Torus {
    fn generate(&self, host: Channel, fabric: Channel) -> Result<Topology, GenerateError> {
        generate::torus(&self.lengths, self.hosts_per_switch, host, fabric)
    }
}
