//! Parallel-port generalised fat trees: PGFT, an XGFT with parallel links (Zahavi, "Fat-tree routing and node ordering
//! providing contention free traffic for MPI global collectives", JPDC 2012).

use super::{Family, GenerateError, xgft};
use crate::{Channel, Topology};
use pauseframe_schema::table;

table! {
    /// PGFT(h; m_1..m_h; w_1..w_h; p_1..p_h), Zahavi 2012: an XGFT with parallel links
    pub struct Pgft {
        /// Number of children of a node on each level above the hosts, m_1 to m_h
        m: Vec<u32> = required();
        /// Number of parents of a node on each level from the hosts up, w_1 to w_h; w_1 is 1
        w: Vec<u32> = required();
        /// Number of parallel links from a node on each level to each of its parents, p_1 to p_h; p_1 is 1
        p: Vec<u32> = required();
    }
    pub fn try_read(t);
}

impl Family for Pgft {
    fn generate(&self, host: Channel, fabric: Channel) -> Result<Topology, GenerateError> {
        pgft(&self.m, &self.w, &self.p, host, fabric)
    }
}

/// Generates PGFT(h; m; w; p): an XGFT with `p[i]` parallel links between a node of level i and each of its
/// parents.
///
/// # Errors
/// The errors of [`xgft`](super::xgft()); also if `p[0]` is not 1.
pub fn pgft(
    m: &[u32],
    w: &[u32],
    p: &[u32],
    host_link: Channel,
    fabric_link: Channel,
) -> Result<Topology, GenerateError> {
    xgft::build("pgft", m, w, p, host_link, fabric_link)
}
