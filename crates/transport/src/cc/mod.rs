//! Congestion control: what every algorithm answers, and the registry of them.
//!
//! An algorithm decides how far the window opens and closes; when it does (once per window, not while
//! application-limited, not during recovery) is decided once for all in `sender.rs` and `recovery`.
//!
//! To add one: a file here with its constants ([`parameter::constants`]) and an [`Algorithm`], and a line in `registry!`
//! below. Scenario files, their reference, the Python package, the contract test and the fuzzers know it from that line
//! (`docs/how-to/add-a-congestion-control.md`).

pub mod contract;
mod hystart;
mod parameter;
pub mod plugin;

pub use parameter::{Constant, Parameter, Value};
pub use plugin::PluginConfig;

use parameter::Constants;
use pauseframe_units::{Span, Time};

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
//
// An algorithm that needs more than this adds a field here and fills it in `sender.rs`.
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
    /// When the ACK arrived.
    pub(crate) now: Time,
    /// Round-trip time of the oldest segment that it acknowledges; zero: no sample (Karn's rule).
    pub(crate) rtt: Span,
    /// The smoothed RTT with that sample; zero before the first.
    pub(crate) srtt: Span,
    /// No recovery and no reduction is under way.
    pub(crate) open: bool,
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
    /// Sees every ACK of new data before the window changes, whether it may change or not. May end slow start by setting
    /// `window.ssthresh` to `window.cwnd`; leaves the window alone otherwise.
    fn on_ack(&mut self, _window: &mut Window, _ack: &AckSample) {}

    /// Opens `window`; what goes by delay may close it, too. Called for an ACK of new data while the window is what
    /// limits the flow, outside recovery.
    fn increase(&mut self, window: &mut Window, ack: &AckSample);

    /// The window after congestion (in bytes, at least one segment), the new ssthresh. `window.cwnd` is the window
    /// in use when it struck. Called at most once per window and cause.
    fn reduced(&mut self, window: &Window, cause: Congestion) -> u64;

    /// The window after a loss in a window of data that ECE has reduced already (Linux): it stays as it is now.
    fn loss_after_ecn(&mut self, window: &Window) -> u64 {
        window.ssthresh
    }

    /// What is earned towards the next segment is lost: at each reduction where windows count packets, as in Linux
    /// (`snd_cwnd_cnt` in `tcp_init_cwnd_reduction` and `tcp_enter_loss`). FreeBSD's CUBIC and RFC 9438's have it in cwnd.
    fn forget_earned(&mut self) {}

    /// The retransmission timer expired; after [`Self::reduced`] if that is due.
    fn on_timeout(&mut self) {}

    /// Data are sent again after `idle` with nothing in flight.
    fn on_restart(&mut self, _idle: Span) {}

    /// After so many consecutive timeouts a single byte is sent to see whether anything gets through (pFabric).
    fn probe_after(&self) -> u32 {
        u32::MAX
    }

    /// The fraction of marked bytes, if the algorithm estimates it (DCTCP).
    fn alpha(&self) -> Option<f64> {
        None
    }

    /// The rate at which segments are to leave, in bit/s, if the algorithm sets one; else pacing, where it is on, follows
    /// from the window.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }
}

macro_rules! registry {
    ($($name:literal => $file:ident::$variant:ident $(($constants:ident: $config:ident))?, $doc:literal;)+) => {
        $(
            mod $file;
            $(pub use $file::$config;)?
        )+

        /// Which congestion control, with its constants.
        #[derive(Clone, Copy, PartialEq, Debug)]
        #[expect(clippy::large_enum_variant, reason = "one a transport, not one a connection")]
        pub enum CongestionControlConfig {
            $(#[doc = $doc] $variant $(($config))?,)+
            /// One that was loaded when the program ran.
            Plugin(PluginConfig),
        }

        impl CongestionControlConfig {
            /// Every built-in congestion control by its name in scenario files, with its default constants.
            pub const NAMES: &[(&'static str, CongestionControlConfig)] =
                &[$(($name, CongestionControlConfig::$variant $((<$config>::DEFAULT))?),)+];

            /// The name in scenario files.
            pub fn name(&self) -> &'static str {
                match self {
                    $(CongestionControlConfig::$variant { .. } => $name,)+
                    CongestionControlConfig::Plugin(config) => config.code().name,
                }
            }

            /// What it is and from which document, in one line.
            pub fn doc(&self) -> &'static str {
                match self {
                    $(CongestionControlConfig::$variant { .. } => $doc,)+
                    CongestionControlConfig::Plugin(config) => config.code().doc,
                }
            }

            /// Its constants.
            pub fn parameters(&self) -> &'static [Parameter] {
                match self {
                    $(CongestionControlConfig::$variant { .. } => registry!(@parameters $($config)?),)+
                    CongestionControlConfig::Plugin(config) => config.code().parameters,
                }
            }

            /// The value of `self.parameters()[index]`.
            pub fn get(&self, index: usize) -> Option<Value> {
                match self {
                    $(CongestionControlConfig::$variant $(($constants))? =>
                        registry!(@get index $(, $constants)?),)+
                    CongestionControlConfig::Plugin(config) => config.get(index),
                }
            }

            /// Sets `self.parameters()[index]`; false if there is none, or its values are of another kind.
            #[must_use]
            pub fn set(&mut self, index: usize, value: Value) -> bool {
                match self {
                    $(CongestionControlConfig::$variant $(($constants))? =>
                        registry!(@set index, value $(, $constants)?),)+
                    CongestionControlConfig::Plugin(config) => config.set(index, value),
                }
            }
        }

        /// The algorithm of one connection: an enum, so the per-ACK path has no indirect call.
        #[derive(Clone, Debug)]
        pub(crate) enum CongestionControl {
            $($variant($file::$variant),)+
            Plugin(plugin::Plugin),
        }

        impl CongestionControl {
            pub(crate) fn new(config: &CongestionControlConfig) -> CongestionControl {
                match *config {
                    $(CongestionControlConfig::$variant $(($constants))? =>
                        CongestionControl::$variant($file::$variant::new($($constants)?)),)+
                    CongestionControlConfig::Plugin(ref config) => {
                        CongestionControl::Plugin(plugin::Plugin::new(config))
                    }
                }
            }
        }

        impl Algorithm for CongestionControl {
            #[inline]
            fn on_ack(&mut self, window: &mut Window, ack: &AckSample) {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.on_ack(window, ack),)+
                    CongestionControl::Plugin(algorithm) => algorithm.on_ack(window, ack),
                }
            }
            #[inline]
            fn increase(&mut self, window: &mut Window, ack: &AckSample) {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.increase(window, ack),)+
                    CongestionControl::Plugin(algorithm) => algorithm.increase(window, ack),
                }
            }
            fn reduced(&mut self, window: &Window, cause: Congestion) -> u64 {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.reduced(window, cause),)+
                    CongestionControl::Plugin(algorithm) => algorithm.reduced(window, cause),
                }
            }
            fn loss_after_ecn(&mut self, window: &Window) -> u64 {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.loss_after_ecn(window),)+
                    CongestionControl::Plugin(algorithm) => algorithm.loss_after_ecn(window),
                }
            }
            fn forget_earned(&mut self) {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.forget_earned(),)+
                    CongestionControl::Plugin(algorithm) => algorithm.forget_earned(),
                }
            }
            fn on_timeout(&mut self) {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.on_timeout(),)+
                    CongestionControl::Plugin(algorithm) => algorithm.on_timeout(),
                }
            }
            fn on_restart(&mut self, idle: Span) {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.on_restart(idle),)+
                    CongestionControl::Plugin(algorithm) => algorithm.on_restart(idle),
                }
            }
            fn probe_after(&self) -> u32 {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.probe_after(),)+
                    CongestionControl::Plugin(algorithm) => algorithm.probe_after(),
                }
            }
            fn alpha(&self) -> Option<f64> {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.alpha(),)+
                    CongestionControl::Plugin(algorithm) => algorithm.alpha(),
                }
            }
            fn pacing_rate(&self) -> Option<u64> {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.pacing_rate(),)+
                    CongestionControl::Plugin(algorithm) => algorithm.pacing_rate(),
                }
            }
        }
    };
    (@parameters) => { &[] };
    (@parameters $config:ident) => { <$config as Constants>::PARAMETERS };
    (@get $index:ident) => {{ let _ = $index; None }};
    (@get $index:ident, $constants:ident) => { $constants.get($index) };
    (@set $index:ident, $value:ident) => {{ let _ = ($index, $value); false }};
    (@set $index:ident, $value:ident, $constants:ident) => { $constants.set($index, $value) };
}

registry! {
    "newreno" => new_reno::NewReno, "Reno's window (RFC 5681, RFC 6582)";
    "dctcp" => dctcp::Dctcp(constants: DctcpConfig), "DCTCP (RFC 8257)";
    "cubic" => cubic::Cubic(constants: CubicConfig), "CUBIC (RFC 9438) with HyStart, as Linux";
    "vegas" => vegas::Vegas(constants: VegasConfig), "Vegas (Brakmo and Peterson 1995), as Linux";
    "pfabric" => pfabric::Pfabric(constants: PfabricConfig), "pFabric's rate control (Alizadeh et al. 2013)";
    "aimd" => aimd::Aimd(constants: AimdConfig), "AIMD(a, b) (Yang and Lam 2000)";
}

impl CongestionControlConfig {
    /// Every congestion control that scenarios can name: the built-in ones and the loaded plug-ins.
    pub fn all() -> Vec<(&'static str, CongestionControlConfig)> {
        let of_code = |code| (PluginConfig::new(code).code().name, Self::Plugin(PluginConfig::new(code)));
        Self::NAMES.iter().copied().chain(plugin::loaded().into_iter().map(of_code)).collect()
    }

    /// Whether it needs each mark echoed (RFC 8257 §3.2).
    pub fn needs_exact_ecn(&self) -> bool {
        match self {
            Self::Dctcp(_) => true,
            Self::Plugin(config) => config.code().needs_exact_ecn(),
            _ => false,
        }
    }

    /// Whether it sets a pacing rate.
    pub fn paces(&self) -> bool {
        matches!(self, Self::Plugin(config) if config.code().paces())
    }
}

impl CongestionControl {
    /// The algorithm for a check of the contract: a plug-in must not even ask for less than a segment.
    pub(crate) fn strict(config: &CongestionControlConfig) -> CongestionControl {
        let mut cc = CongestionControl::new(config);
        if let CongestionControl::Plugin(plugin) = &mut cc {
            plugin.be_strict();
        }
        cc
    }

    /// The flow of the connection, for the messages of plug-ins.
    pub(crate) fn set_flow(&mut self, flow: u32) {
        if let CongestionControl::Plugin(plugin) = self {
            plugin.set_flow(flow);
        }
    }
}
