//! The states of loss recovery, which are Linux's (`tcp_ca_state`) without Disorder.

/// Where the sender stands with regard to congestion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecoveryPhase {
    /// The window may grow.
    Open,
    /// The window was reduced because of ECE, and the data sent before that are not all acknowledged.
    Cwr,
    /// Fast recovery, until everything sent before it is acknowledged.
    Recovery,
    /// After a retransmission timeout, until everything sent before it is acknowledged.
    Loss,
}
