//! Switches in a ring.

use super::parts::{Family, Links};
use pauseframe_schema::table;
use pauseframe_topology::generate::{self, GenerateError};
use pauseframe_topology::{Channel, Topology};

table! {
    /// Switches in a ring, at least three
    pub struct Ring {
        /// Switches in the ring, at least 3
        switches: u32 = required();
        /// Hosts at each switch
        hosts_per_switch: u32 = required();
    }
    pub fn try_read(t, _links: &Links);
}

impl Family for Ring {
    fn generate(&self, host: Channel, fabric: Channel) -> Result<Topology, GenerateError> {
        generate::ring(self.switches, self.hosts_per_switch, host, fabric)
    }
}
