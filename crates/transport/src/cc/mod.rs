//! Congestion control: what every algorithm answers, and the registry of them.
//!
//! An algorithm decides how far the window opens and closes; when it does (once per window, not while
//! application-limited, not during recovery) is decided once for all in `sender.rs` and `recovery`.
//!
//! To add one: a file here with its constants (`Clone`, `Copy`, `PartialEq`, `Debug`, a `DEFAULT`) and an [`Algorithm`], and a line in
//! `registry!` below. It then meets the contract test by itself.

#[cfg(test)]
mod contract;
mod dctcp;
mod new_reno;

pub use dctcp::DctcpConfig;

/// The congestion window (RFC 5681 §2). All in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    pub(crate) cwnd: u64,
    /// `u64::MAX` until the first congestion.
    pub(crate) ssthresh: u64,
    pub(crate) mss: u32,
}

impl Window {
    /// Slow start (RFC 5681 §3.1): the window grows by what was acknowledged, however few ACKs that took. Stops
    /// at ssthresh and returns the bytes left over for congestion avoidance, as Linux does.
    // Deviates from RFC 3465 §2.2: L is unlimited (as in Linux), so stretch ACKs do not slow the start down.
    #[inline]
    pub(crate) fn slow_start(&mut self, acked: u64) -> u64 {
        let room = self.ssthresh.saturating_sub(self.cwnd);
        let step = acked.min(room);
        self.cwnd += step;
        acked - step
    }

    /// `segments` full segments in bytes.
    #[inline]
    pub(crate) fn segments(&self, segments: u32) -> u64 {
        u64::from(self.mss) * u64::from(segments)
    }
}

/// What an ACK of new data tells. Offsets and sizes in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AckSample {
    /// Newly acknowledged by the cumulative ACK.
    pub(crate) acked: u64,
    /// The ACK carried ECE.
    pub(crate) ece: bool,
    /// First byte not acknowledged, after this ACK.
    pub(crate) snd_una: u64,
    /// Next new byte to send.
    pub(crate) snd_nxt: u64,
}

/// Why the window must shrink.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Congestion {
    /// An ACK with ECE.
    Ecn,
    /// A segment was lost: fast retransmit or a retransmission timeout.
    Loss,
}

/// A congestion control algorithm.
pub(crate) trait Algorithm {
    /// Sees every ACK of new data, before any change of the window.
    fn on_ack(&mut self, _ack: &AckSample) {}

    /// Opens `window`. Called for an ACK of new data while the window is what limits the flow, outside
    /// recovery.
    fn increase(&mut self, window: &mut Window, ack: &AckSample);

    /// The window after congestion (in bytes, at least one segment), the new ssthresh. `window.cwnd` is the window
    /// in use when it struck. Called at most once per window and cause.
    fn reduced(&mut self, window: &Window, cause: Congestion) -> u64;

    /// The fraction of marked bytes, if the algorithm estimates it (DCTCP).
    fn alpha(&self) -> Option<f64> {
        None
    }
}

macro_rules! registry {
    ($(
        $(#[$doc:meta])*
        $name:literal => $variant:ident $(($constants:ident: $config:ty))?, $algorithm:ty = $new:expr;
    )+) => {
        /// Which congestion control, with its constants.
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub enum CongestionControlConfig {
            $($(#[$doc])* $variant $(($config))?,)+
        }

        impl CongestionControlConfig {
            /// Every congestion control there is, with its default constants.
            pub const ALL: &[CongestionControlConfig] =
                &[$(CongestionControlConfig::$variant $((<$config>::DEFAULT))?,)+];

            /// The name in scenario files.
            pub fn name(&self) -> &'static str {
                match self {
                    $(CongestionControlConfig::$variant { .. } => $name,)+
                }
            }
        }

        /// The algorithm of one connection: an enum, so the per-ACK path has no indirect call.
        #[derive(Clone, Debug)]
        pub(crate) enum CongestionControl {
            $($variant($algorithm),)+
        }

        impl CongestionControl {
            pub(crate) fn new(config: &CongestionControlConfig) -> CongestionControl {
                match *config {
                    $(CongestionControlConfig::$variant $(($constants))? =>
                        CongestionControl::$variant($new),)+
                }
            }
        }

        impl Algorithm for CongestionControl {
            #[inline]
            fn on_ack(&mut self, ack: &AckSample) {
                match self { $(CongestionControl::$variant(algorithm) => algorithm.on_ack(ack),)+ }
            }
            #[inline]
            fn increase(&mut self, window: &mut Window, ack: &AckSample) {
                match self { $(CongestionControl::$variant(algorithm) => algorithm.increase(window, ack),)+ }
            }
            fn reduced(&mut self, window: &Window, cause: Congestion) -> u64 {
                match self { $(CongestionControl::$variant(algorithm) => algorithm.reduced(window, cause),)+ }
            }
            fn alpha(&self) -> Option<f64> {
                match self { $(CongestionControl::$variant(algorithm) => algorithm.alpha(),)+ }
            }
        }
    };
}

registry! {
    /// RFC 5681 and RFC 6582.
    "newreno" => NewReno, new_reno::NewReno = new_reno::NewReno::default();
    /// RFC 8257.
    "dctcp" => Dctcp(constants: DctcpConfig), dctcp::Dctcp = dctcp::Dctcp::new(&constants);
}
