//! The star.

use super::parts::{Family, Links};
use pauseframe_schema::table;
use pauseframe_topology::generate::{self, GenerateError};
use pauseframe_topology::{Channel, Topology};

table! {
    /// One switch
    pub struct Star {
        /// Hosts at the one switch
        hosts: u32 = required();
    }
    pub fn try_read(t, _links: &Links);
}

impl Family for Star {
    fn generate(&self, host: Channel, _: Channel) -> Result<Topology, GenerateError> {
        generate::star(self.hosts, host)
    }
}
