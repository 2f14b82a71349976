//! Counters of a connection for the results.

/// Counters of one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ConnectionStats {
    /// Data segments with CE that arrived.
    pub ce_received: u64,
    /// Segments sent again, SYNs included.
    pub retransmits: u32,
    /// Retransmission timeouts, of SYNs too; probes of a closed window do not count.
    pub timeouts: u32,
    /// Fast recoveries entered.
    pub fast_retransmits: u32,
    /// Window reductions because of ECE.
    pub ecn_reductions: u32,
}
