//! The dumbbell.

use super::parts::{Family, Links};
use pauseframe_schema::table;
use pauseframe_topology::generate::{self, GenerateError};
use pauseframe_topology::{Channel, Topology};

table! {
    /// Two switches and the link between them
    pub struct Dumbbell {
        /// Hosts at the left switch
        left: u32 = required();
        /// Hosts at the right switch
        right: u32 = required();
    }
    pub fn try_read(t, _links: &Links);
}

impl Family for Dumbbell {
    fn generate(&self, host: Channel, fabric: Channel) -> Result<Topology, GenerateError> {
        generate::dumbbell(self.left, self.right, host, fabric)
    }
}
