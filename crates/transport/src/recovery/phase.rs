//! The states of loss recovery, which are Linux's (`tcp_ca_state`) without Disorder.

/// Congestion state of the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecoveryPhase {
    /// The window may grow.
    Open,
    /// The window was reduced because of ECE, and not all data sent before are acknowledged.
    Cwr,
    /// Fast recovery, until everything sent before it is acknowledged.
    Recovery,
    /// After a retransmission timeout, until everything sent before it is acknowledged.
    Loss,
}
