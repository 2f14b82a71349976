//! The dragonfly.

use super::parts::{Family, Links};
use pauseframe_schema::table;
use pauseframe_topology::generate::{self, GenerateError};
use pauseframe_topology::{Channel, Topology};

table! {
    /// A dragonfly (Kim et al., ISCA 2008): p hosts at each switch, a switches in each of g groups, h links of a switch to other groups
    pub struct Dragonfly {
        /// Hosts at each switch
        p: u32 = required();
        /// Switches in each group
        a: u32 = required();
        /// Links of each switch to other groups
        h: u32 = required();
        /// Groups: 2 to a h + 1
        g: u32 = required();
    }
    pub fn try_read(t, _links: &Links);
}

impl Family for Dragonfly {
    fn generate(&self, host: Channel, fabric: Channel) -> Result<Topology, GenerateError> {
        let &Dragonfly { p, a, h, g } = self;
        generate::dragonfly(generate::Dragonfly { p, a, h, g }, host, fabric)
    }
}
