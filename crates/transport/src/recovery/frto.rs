//! F-RTO (RFC 5682, as Linux does it): was a timeout spurious? The first ACK after it lets new data out instead of more
//! retransmissions; if the next one acknowledges (or sacks) data sent once, the originals were only late.

/// Where the detection stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum FrtoState {
    /// Not on, or answered.
    #[default]
    Off,
    /// Watching the ACKs after a timeout.
    Watching,
    /// The same; until the next ACK new data go out and no retransmissions (§2.1 step 2b).
    NewOnly,
}
