//! Congestion control: the interface of algorithms, and their registry.
//!
//! An algorithm decides how much the window changes. `sender/` and `recovery/` decide when it changes (once per window, not while
//! application-limited, not during recovery).
//!
//! To add one: a file here with its constants ([`pauseframe_plugin::constants`]) and an [`CongestionAlgorithm`], and a line in `registry!`
//! below. Scenario files, their reference, the Python package, the contract test and the fuzzers know it from that line
//! (`docs/how-to/extend-the-core.md`).

pub mod contract;
mod hystart;
mod keys;
mod plugin;
mod policer;
mod windowed_max;

pub(crate) use keys::read_congestion_control;
pub use lia::Coupling;
pub use pauseframe_plugin::{Constant, ConstantValue, PluginConfig};

use crate::recovery::RecoveryPhase;
use pauseframe_plugin::{AlgorithmConstants, LoadedPlugin};
use pauseframe_units::{Span, Time};

/// The congestion window (RFC 5681 §2). All in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct CongestionWindow {
    pub(crate) cwnd: u64,
    /// `u64::MAX` until the first congestion.
    pub(crate) ssthresh: u64,
    pub(crate) mss: u32,
}

impl CongestionWindow {
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
    pub(crate) fn segments_to_bytes(&self, segments: u32) -> u64 {
        u64::from(self.mss) * u64::from(segments)
    }
}

/// An ACK of new data, as algorithms see it. Offsets and sizes in bytes.
//
// An algorithm that needs more adds a field here and sets it in `sender/acks.rs`.
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
    /// Whether the sender is outside recovery and window reduction.
    pub(crate) open: bool,
}

/// Delivery as a control that models the path sees it: Linux's `rate_sample` and what it reads of `tcp_sock`. Amounts in bytes of window, so that
/// with packets counted each packet is a full segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DeliverySample {
    pub(crate) now: Time,
    /// `now` as the host's clock shows it, in whole ticks (`tcp_jiffies32`).
    pub(crate) ticks: Time,
    /// Delivered and presumed lost since the connection began (`tp->delivered`, `tp->lost`).
    pub(crate) delivered: u64,
    pub(crate) lost: u64,
    /// When data were last delivered (`delivered_mstamp`).
    pub(crate) delivered_at: Time,
    /// What had been delivered when the newest segment of this ACK was sent.
    pub(crate) prior_delivered: u64,
    /// Microseconds in which `delivered - prior_delivered` arrived, at least 1; `None`: the ACK gives no sample.
    pub(crate) interval: Option<u64>,
    /// The application, not the network, has limited the rate: of the sample, or without one of what is sent next.
    pub(crate) is_app_limited: bool,
    /// Delivered and presumed lost by this ACK (`acked_sacked`, `losses`).
    pub(crate) newly_delivered: u64,
    pub(crate) newly_lost: u64,
    /// In the network before and after this ACK.
    pub(crate) prior_in_flight: u64,
    pub(crate) in_flight: u64,
    /// Round-trip time of the newest segment of this ACK; when the connection begins, of the handshake.
    pub(crate) rtt: Option<Span>,
    pub(crate) srtt: Option<Span>,
    /// The receiver may have delayed this ACK.
    pub(crate) is_ack_delayed: bool,
    /// When the pacer admits the next segment.
    pub(crate) departure: Time,
    pub(crate) phase: RecoveryPhase,
}

#[cfg(test)]
impl DeliverySample {
    /// A sample that says nothing.
    pub(crate) const QUIET: DeliverySample = DeliverySample {
        now: Time::ZERO,
        ticks: Time::ZERO,
        delivered: 0,
        lost: 0,
        delivered_at: Time::ZERO,
        prior_delivered: 0,
        interval: None,
        is_app_limited: false,
        newly_delivered: 0,
        newly_lost: 0,
        prior_in_flight: 0,
        in_flight: 0,
        rtt: None,
        srtt: None,
        is_ack_delayed: false,
        departure: Time::ZERO,
        phase: RecoveryPhase::Open,
    };
}

/// Cause of a window reduction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CongestionCause {
    /// An ACK with ECE.
    Ecn,
    /// A segment was lost: fast retransmit or a retransmission timeout.
    Loss,
}

/// A congestion control algorithm.
pub(crate) trait CongestionAlgorithm {
    /// Sees every ACK of new data before the window changes, whether it may change or not. May end slow start by setting
    /// `window.ssthresh` to `window.cwnd`; leaves the window alone otherwise.
    fn on_ack(&mut self, _window: &mut CongestionWindow, _ack: &AckSample) {}

    /// Sees an ACK that does not advance `snd_una`: a duplicate, or the ACK field of the peer's data. In Linux, `in_ack_event` is called for it too.
    fn on_ack_without_progress(&mut self, _window: &mut CongestionWindow, _ack: &AckSample) {}

    /// Increases `window`; delay-based algorithms may also decrease it. Called for an ACK of new data outside recovery while the window limits the
    /// flow.
    fn increase_window(&mut self, window: &mut CongestionWindow, ack: &AckSample);

    /// The new ssthresh after congestion, in bytes, at least one segment. `window.cwnd` is the window when congestion occurred. Called at most once
    /// per window and cause.
    fn on_congestion(&mut self, window: &CongestionWindow, cause: CongestionCause) -> u64;

    /// The window after a loss in a window of data that ECE has already reduced (Linux): unchanged by default.
    fn on_loss_in_cwr(&mut self, window: &CongestionWindow) -> u64 {
        window.ssthresh
    }

    /// Discards credit towards the next segment, at each reduction if windows count packets, as in Linux (`snd_cwnd_cnt` in `tcp_init_cwnd_reduction`
    /// and `tcp_enter_loss`). In FreeBSD's CUBIC and RFC 9438 this credit is part of cwnd.
    fn discard_credit(&mut self) {}

    /// The retransmission timer expired; after [`Self::on_congestion`] if that is due.
    fn on_timeout(&mut self) {}

    /// Sending resumes after the time `idle` with nothing in flight.
    fn on_idle_restart(&mut self, _idle: Span) {}

    /// Consecutive timeouts after which single-byte probes replace data (pFabric).
    fn timeouts_before_probing(&self) -> u32 {
        u32::MAX
    }

    /// The fraction of marked bytes, if the algorithm estimates it (DCTCP).
    fn dctcp_alpha(&self) -> Option<f64> {
        None
    }

    /// The pacing rate in bit/s, if the algorithm sets one. Otherwise pacing, if on, follows from the window.
    fn pacing_rate(&self) -> Option<u64> {
        None
    }

    /// Whether the algorithm sets the window at every ACK in [`Self::on_delivery`] (Linux `cong_control`). Then nothing else grows or cuts it but a
    /// timeout, and the functions below are called.
    fn owns_window(&self) -> bool {
        false
    }

    /// The connection is established. `random` differs from connection to connection.
    fn on_established(&mut self, _window: &CongestionWindow, _sample: &DeliverySample, _random: u64) {}

    /// Sees every ACK while data are in flight, after loss detection. True: samples of what is in flight now count as limited by the application.
    fn on_delivery(&mut self, _window: &mut CongestionWindow, _sample: &DeliverySample) -> bool {
        false
    }

    /// Data are sent with nothing in flight (`CA_EVENT_TX_START`).
    fn on_transmission_start(&mut self, _window: &mut CongestionWindow, _sample: &DeliverySample) {}

    /// The retransmission timer has expired and `window` is cut.
    fn on_loss_state(&mut self, _window: &CongestionWindow, _sample: &DeliverySample) {}

    /// The last reduction was needless.
    fn on_undo(&mut self, _window: &CongestionWindow, _sample: &DeliverySample) {}

    /// When [`Self::on_timer`] is due; [`Time::MAX`]: never.
    fn deadline(&self) -> Time {
        Time::MAX
    }

    /// The timer of [`Self::deadline`] has expired. May change the window at any time.
    fn on_timer(&mut self, _window: &mut CongestionWindow, _now: Time) {}

    /// Windows that the send buffer holds when it grows (`sndbuf_expand`).
    fn send_buffer_windows(&self) -> u64 {
        2
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
            /// A plug-in loaded at run time.
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

            /// Description and source in one line.
            pub fn description_and_source(&self) -> &'static str {
                match self {
                    $(CongestionControlConfig::$variant { .. } => $doc,)+
                    CongestionControlConfig::Plugin(config) => config.code().doc,
                }
            }

            /// Its constants.
            pub fn constants(&self) -> &'static [Constant] {
                match self {
                    $(CongestionControlConfig::$variant { .. } => registry!(@parameters $($config)?),)+
                    CongestionControlConfig::Plugin(config) => config.code().parameters,
                }
            }

            /// The value of `self.parameters()[index]`.
            pub fn get_constant(&self, index: usize) -> Option<ConstantValue> {
                match self {
                    $(CongestionControlConfig::$variant $(($constants))? =>
                        registry!(@get index $(, $constants)?),)+
                    CongestionControlConfig::Plugin(config) => config.get_constant(index),
                }
            }

            /// Sets `self.parameters()[index]`; false if there is none, or its values are of another kind.
            #[must_use]
            pub fn set_constant(&mut self, index: usize, value: ConstantValue) -> bool {
                match self {
                    $(CongestionControlConfig::$variant $(($constants))? =>
                        registry!(@set index, value $(, $constants)?),)+
                    CongestionControlConfig::Plugin(config) => config.set_constant(index, value),
                }
            }
        }

        /// The algorithm of one connection: an enum, so the per-ACK path has no indirect call.
        #[derive(Clone, Debug)]
        pub(crate) enum CongestionControl {
            $($variant($file::$variant),)+
            Plugin(Box<plugin::Plugin>),
        }

        impl CongestionControl {
            pub(crate) fn new(config: &CongestionControlConfig) -> CongestionControl {
                match *config {
                    $(CongestionControlConfig::$variant $(($constants))? =>
                        CongestionControl::$variant($file::$variant::new($($constants)?)),)+
                    CongestionControlConfig::Plugin(ref config) => {
                        CongestionControl::Plugin(Box::new(plugin::Plugin::new(config)))
                    }
                }
            }
        }

        impl CongestionAlgorithm for CongestionControl {
            #[inline]
            fn on_ack(&mut self, window: &mut CongestionWindow, ack: &AckSample) {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.on_ack(window, ack),)+
                    CongestionControl::Plugin(algorithm) => algorithm.on_ack(window, ack),
                }
            }
            fn on_ack_without_progress(&mut self, window: &mut CongestionWindow, ack: &AckSample) {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.on_ack_without_progress(window, ack),)+
                    CongestionControl::Plugin(algorithm) => algorithm.on_ack_without_progress(window, ack),
                }
            }
            #[inline]
            fn increase_window(&mut self, window: &mut CongestionWindow, ack: &AckSample) {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.increase_window(window, ack),)+
                    CongestionControl::Plugin(algorithm) => algorithm.increase_window(window, ack),
                }
            }
            fn on_congestion(&mut self, window: &CongestionWindow, cause: CongestionCause) -> u64 {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.on_congestion(window, cause),)+
                    CongestionControl::Plugin(algorithm) => algorithm.on_congestion(window, cause),
                }
            }
            fn on_loss_in_cwr(&mut self, window: &CongestionWindow) -> u64 {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.on_loss_in_cwr(window),)+
                    CongestionControl::Plugin(algorithm) => algorithm.on_loss_in_cwr(window),
                }
            }
            fn discard_credit(&mut self) {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.discard_credit(),)+
                    CongestionControl::Plugin(algorithm) => algorithm.discard_credit(),
                }
            }
            fn on_timeout(&mut self) {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.on_timeout(),)+
                    CongestionControl::Plugin(algorithm) => algorithm.on_timeout(),
                }
            }
            fn on_idle_restart(&mut self, idle: Span) {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.on_idle_restart(idle),)+
                    CongestionControl::Plugin(algorithm) => algorithm.on_idle_restart(idle),
                }
            }
            fn timeouts_before_probing(&self) -> u32 {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.timeouts_before_probing(),)+
                    CongestionControl::Plugin(algorithm) => algorithm.timeouts_before_probing(),
                }
            }
            fn dctcp_alpha(&self) -> Option<f64> {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.dctcp_alpha(),)+
                    CongestionControl::Plugin(algorithm) => algorithm.dctcp_alpha(),
                }
            }
            fn pacing_rate(&self) -> Option<u64> {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.pacing_rate(),)+
                    CongestionControl::Plugin(algorithm) => algorithm.pacing_rate(),
                }
            }
            fn owns_window(&self) -> bool {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.owns_window(),)+
                    CongestionControl::Plugin(algorithm) => algorithm.owns_window(),
                }
            }
            fn on_established(&mut self, window: &CongestionWindow, sample: &DeliverySample, random: u64) {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.on_established(window, sample, random),)+
                    CongestionControl::Plugin(algorithm) => algorithm.on_established(window, sample, random),
                }
            }
            fn on_delivery(&mut self, window: &mut CongestionWindow, sample: &DeliverySample) -> bool {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.on_delivery(window, sample),)+
                    CongestionControl::Plugin(algorithm) => algorithm.on_delivery(window, sample),
                }
            }
            fn on_transmission_start(&mut self, window: &mut CongestionWindow, sample: &DeliverySample) {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.on_transmission_start(window, sample),)+
                    CongestionControl::Plugin(algorithm) => algorithm.on_transmission_start(window, sample),
                }
            }
            fn on_loss_state(&mut self, window: &CongestionWindow, sample: &DeliverySample) {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.on_loss_state(window, sample),)+
                    CongestionControl::Plugin(algorithm) => algorithm.on_loss_state(window, sample),
                }
            }
            fn on_undo(&mut self, window: &CongestionWindow, sample: &DeliverySample) {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.on_undo(window, sample),)+
                    CongestionControl::Plugin(algorithm) => algorithm.on_undo(window, sample),
                }
            }
            #[inline]
            fn deadline(&self) -> Time {
                // No built-in algorithm has a timer.
                if let CongestionControl::Plugin(algorithm) = self { algorithm.deadline() } else { Time::MAX }
            }
            fn on_timer(&mut self, window: &mut CongestionWindow, now: Time) {
                if let CongestionControl::Plugin(algorithm) = self {
                    algorithm.on_timer(window, now);
                }
            }
            fn send_buffer_windows(&self) -> u64 {
                match self {
                    $(CongestionControl::$variant(algorithm) => algorithm.send_buffer_windows(),)+
                    CongestionControl::Plugin(algorithm) => algorithm.send_buffer_windows(),
                }
            }
        }
    };
    (@parameters) => { &[] };
    (@parameters $config:ident) => { <$config as AlgorithmConstants>::PARAMETERS };
    (@get $index:ident) => {{ let _ = $index; None }};
    (@get $index:ident, $constants:ident) => { $constants.get_constant($index) };
    (@set $index:ident, $value:ident) => {{ let _ = ($index, $value); false }};
    (@set $index:ident, $value:ident, $constants:ident) => { $constants.set_constant($index, $value) };
}

registry! {
    "newreno" => new_reno::NewReno, "Reno's window (RFC 5681, RFC 6582)";
    "dctcp" => dctcp::Dctcp(constants: DctcpConfig), "DCTCP (RFC 8257)";
    "cubic" => cubic::Cubic(constants: CubicConfig), "CUBIC (RFC 9438) with HyStart, as Linux";
    "vegas" => vegas::Vegas(constants: VegasConfig), "Vegas (Brakmo and Peterson 1995), as Linux";
    "pfabric" => pfabric::Pfabric(constants: PfabricConfig), "pFabric's rate control (Alizadeh et al. 2013)";
    "aimd" => aimd::Aimd(constants: AimdConfig), "AIMD(a, b) (Yang and Lam 2000)";
    "lia" => lia::Lia, "LIA, the coupled windows of MPTCP's subflows (RFC 6356); of one subflow Reno's";
    "bbr" => bbr::Bbr, "BBR version 1 (Cardwell et al. 2016), as Linux";
}

impl CongestionControlConfig {
    /// Every congestion control that scenarios can name: the built-in ones and the loaded plug-ins.
    pub fn all() -> Vec<(&'static str, CongestionControlConfig)> {
        let loaded = pauseframe_plugin::loaded_plugins().into_iter().filter(|code| !code.is_rate_control());
        let of_code = |code: &'static LoadedPlugin| (code.name, Self::Plugin(PluginConfig::new(code)));
        Self::NAMES.iter().copied().chain(loaded.map(of_code)).collect()
    }

    /// Whether it needs each mark echoed (RFC 8257 §3.2).
    pub fn needs_exact_echo(&self) -> bool {
        match self {
            Self::Dctcp(_) => true,
            Self::Plugin(config) => config.code().needs_exact_echo(),
            _ => false,
        }
    }

    /// Whether it sets a pacing rate.
    pub fn sets_pacing_rate(&self) -> bool {
        match self {
            Self::Plugin(config) => config.code().sets_pacing_rate(),
            _ => self.owns_window(),
        }
    }

    /// Whether it models the path by delivery samples and sets the window from them.
    pub fn owns_window(&self) -> bool {
        match self {
            Self::Plugin(config) => config.code().owns_window(),
            _ => matches!(self, Self::Bbr),
        }
    }
}

impl CongestionControl {
    /// The algorithm for contract checks, in which a plug-in that requests less than a segment fails.
    pub(crate) fn new_strict(config: &CongestionControlConfig) -> CongestionControl {
        let mut cc = CongestionControl::new(config);
        if let CongestionControl::Plugin(plugin) = &mut cc {
            plugin.enable_strict_checks();
        }
        cc
    }

    /// Couples the window with those of the other subflows of an MPTCP connection.
    pub(crate) fn couple(&mut self, coupling: Option<Coupling>) {
        if let CongestionControl::Lia(lia) = self {
            lia.couple(coupling);
        }
    }

    /// Tells a plug-in the flow of its connection, and what decides its random numbers.
    pub(crate) fn identify_plugin(&mut self, flow: u32, seed: u64) {
        if let CongestionControl::Plugin(plugin) = self {
            plugin.identify(flow, seed);
        }
    }
}
