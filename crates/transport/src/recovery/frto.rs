//! F-RTO (RFC 5682, as Linux does it): was a timeout spurious? After the first ACK it sends new data instead of more retransmissions. If the next ACK
//! acknowledges (or SACKs) data sent only once, the originals were merely late.

/// State of the detection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum FrtoState {
    /// Not on, or answered.
    #[default]
    Off,
    /// Watching the ACKs after a timeout.
    Watching,
    /// Watching; until the next ACK only new data are sent, no retransmissions (§2.1 step 2b).
    NewOnly,
}
