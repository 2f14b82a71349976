//! Extended generalised fat trees (Öhring 1995).

use super::parts::{Family, Links};
use pauseframe_schema::table;
use pauseframe_topology::generate::{self, GenerateError};
use pauseframe_topology::{Channel, Topology};

table! {
    /// XGFT(h; m_1..m_h; w_1..w_h), Öhring 1995: children and parents of a node at each level, from the hosts up
    pub struct Xgft {
        /// Children of a node of each level above the hosts, m_1 to m_h
        m: Vec<u32> = required();
        /// Parents of a node of each level from the hosts on, w_1 to w_h; w_1 is 1
        w: Vec<u32> = required();
        /// Further hosts (ext0, ext1, ...) at each switch of the highest level, as cee Fig. 2 has its query sources
        external: u32 = or_in(0, 0..=1_000_000);
    }
    pub fn try_read(t, _links: &Links);
}

impl Family for Xgft {
    fn generate(&self, host: Channel, fabric: Channel) -> Result<Topology, GenerateError> {
        generate::xgft_with_external(&self.m, &self.w, self.external, host, fabric)
    }
}
