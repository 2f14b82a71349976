//! A congestion control that is loaded when the program runs, by the C interface of `pauseframe_cc.h`.
//!
//! Whatever a plug-in returns is checked here: a value that makes no sense ends the run.

#![expect(unsafe_code, reason = "calls through a C interface")]

use super::{AckSample, CongestionAlgorithm, CongestionCause, CongestionWindow, DeliverySample};
use crate::recovery::RecoveryPhase;
use pauseframe_plugin::abi::{self, WindowAlgorithm};
use pauseframe_plugin::{
    Instance, PluginConfig, PluginFunction, PluginFunctions, saturate_to_i64, show_value,
};
use pauseframe_units::{Span, Time};
use std::ffi::{c_int, c_void};

/// Largest window that a plug-in may set: 2^40 bytes.
const MAX_WINDOW: u64 = 1 << 40;
/// Largest pacing rate that a plug-in may set: 10^15 bit/s.
const MAX_PACING_RATE: u64 = 1_000_000_000_000_000;

/// The plug-in of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Plugin {
    instance: Instance,
    /// Bit/s; 0: the plug-in sets none.
    pacing_rate: u64,
    /// When its timer expires; [`Time::MAX`]: never.
    timer: Time,
    /// Smallest round-trip time of its delivery samples.
    min_rtt: Span,
    /// Less than a segment is a failure ([`super::contract`]); else it counts as a segment.
    strict: bool,
}

impl Plugin {
    pub(crate) fn new(config: &PluginConfig) -> Plugin {
        let instance = Instance::new(config, 0);
        Plugin { instance, pacing_rate: 0, timer: Time::MAX, min_rtt: Span::ZERO, strict: false }
    }

    pub(super) fn enable_strict_checks(&mut self) {
        self.strict = true;
    }

    /// The flow of the connection, and what decides its random numbers.
    pub(crate) fn identify(&mut self, flow: u32, seed: u64) {
        self.instance.set_flow(flow);
        self.instance.set_seed(seed);
    }

    #[inline]
    fn functions(&self) -> &'static WindowAlgorithm {
        match &self.instance.code().functions {
            PluginFunctions::Window(functions) => functions,
            PluginFunctions::Rate(_) => unreachable!("a rate control is no congestion control of TCP"),
        }
    }

    fn raw_window(&mut self, window: &CongestionWindow) -> abi::Window {
        let random = self.instance.draw_random();
        abi::Window { random, ..self.raw_window_without_random(window) }
    }

    fn raw_window_without_random(&self, window: &CongestionWindow) -> abi::Window {
        abi::Window {
            cwnd: saturate_to_i64(window.cwnd),
            ssthresh: saturate_to_i64(window.ssthresh),
            pacing_rate: saturate_to_i64(self.pacing_rate),
            mss: i64::from(window.mss),
            random: 0,
            timer: if self.timer == Time::MAX { 0 } else { saturate_to_i64(self.timer.0) },
        }
    }

    /// A window in bytes that a plug-in has set, raised to one segment.
    #[inline]
    fn clamp_window(&self, function: PluginFunction, what: &str, window: i64, mss: u32) -> u64 {
        if window < 1 || window > MAX_WINDOW as i64 {
            let message = format!("set {what} to {}; it must be from 1 to 2^40 bytes", show_value(window));
            self.instance.fail(function, &message);
        }
        if self.strict && window < i64::from(mss) {
            let message = format!("set {what} to {window} bytes, less than one segment of {mss} bytes");
            self.instance.fail(function, &message);
        }
        (window as u64).max(u64::from(mss))
    }

    /// Takes over what a plug-in did to `raw` at `now`.
    #[inline]
    fn apply(
        &mut self,
        function: PluginFunction,
        window: &mut CongestionWindow,
        raw: &abi::Window,
        now: Time,
    ) {
        let before = saturate_to_i64(window.cwnd);
        if raw.cwnd != before {
            if function == PluginFunction::OnAck {
                let message = "changed cwnd, which only increase (or on_delivery) may; on_ack may set ssthresh, pacing_rate and timer";
                self.instance.fail(function, message);
            }
            window.cwnd = self.clamp_window(function, "cwnd", raw.cwnd, window.mss);
        }
        if raw.ssthresh != saturate_to_i64(window.ssthresh) {
            window.ssthresh = if raw.ssthresh == i64::MAX {
                u64::MAX
            } else {
                self.clamp_window(function, "ssthresh", raw.ssthresh, window.mss)
            };
        }
        if raw.pacing_rate != saturate_to_i64(self.pacing_rate) {
            if raw.pacing_rate < 0 || raw.pacing_rate > MAX_PACING_RATE as i64 {
                let rate = show_value(raw.pacing_rate);
                let message = format!("set pacing_rate to {rate}; it must be from 0 (none) to 10^15 bit/s");
                self.instance.fail(function, &message);
            }
            if !self.instance.code().sets_pacing_rate() {
                let message = "set pacing_rate, but the algorithm is not declared to pace: write paces=True in \
                               @congestion_control (in C: the flag PAUSEFRAME_CC_PACES)";
                self.instance.fail(function, message);
            }
            self.pacing_rate = raw.pacing_rate as u64;
        }
        let armed = if self.timer == Time::MAX { 0 } else { saturate_to_i64(self.timer.0) };
        if raw.timer != armed {
            self.set_timer(function, raw.timer, now);
        }
    }

    #[cold]
    fn set_timer(&mut self, function: PluginFunction, timer: i64, now: Time) {
        if self.functions().on_timer.is_none() {
            self.instance.fail(function, "set timer, but the algorithm has no function on_timer");
        }
        if timer != 0 && timer <= saturate_to_i64(now.0) {
            let message =
                format!("set timer to {} ps, which is not after now ({} ps)", show_value(timer), now.0);
            self.instance.fail(function, &message);
        }
        self.timer = if timer == 0 { Time::MAX } else { Time(timer as u64) };
    }

    #[inline]
    fn call_with_ack(
        &mut self,
        function: PluginFunction,
        call: abi::OnAck,
        window: &mut CongestionWindow,
        ack: &AckSample,
    ) {
        let (mut raw, raw_ack) = (self.raw_window(window), raw_ack(ack));
        // SAFETY: `register_plugin` was promised functions that keep to the interface.
        self.instance.notify(function, |state| unsafe { call(state, &raw mut raw, &raw const raw_ack) });
        self.apply(function, window, &raw, ack.now);
    }

    fn window_after(
        &mut self,
        function: PluginFunction,
        window: &CongestionWindow,
        call: impl FnOnce(*mut c_void, *const abi::Window) -> i64,
    ) -> u64 {
        let raw = self.raw_window(window);
        let cwnd = self.instance.call(function, |state| call(state, &raw const raw));
        self.clamp_window(function, "the window", cwnd, window.mss)
    }

    fn notify(&mut self, function: PluginFunction, notice: Option<abi::Notice>) {
        let Some(notice) = notice else { return };
        // SAFETY: as in `call_with_ack`.
        self.instance.notify(function, |state| unsafe { notice(state) });
    }
}

fn raw_ack(ack: &AckSample) -> abi::Ack {
    abi::Ack {
        acked: saturate_to_i64(ack.acked),
        ece: i64::from(ack.ece),
        snd_una: saturate_to_i64(ack.snd_una),
        snd_nxt: saturate_to_i64(ack.snd_nxt),
        now: saturate_to_i64(ack.now.0),
        rtt: saturate_to_i64(ack.rtt.0),
        srtt: saturate_to_i64(ack.srtt.0),
        open: i64::from(ack.open),
    }
}

fn raw_delivery(sample: &DeliverySample, min_rtt: Span) -> abi::Delivery {
    let delivered = sample.delivered - sample.prior_delivered;
    let rate = |us: u64| u128::from(delivered) * 8_000_000 / u128::from(us.max(1));
    let time = |span: Option<Span>| saturate_to_i64(span.unwrap_or_default().0);
    abi::Delivery {
        now: saturate_to_i64(sample.now.0),
        acked: saturate_to_i64(sample.newly_delivered),
        lost: saturate_to_i64(sample.newly_lost),
        in_flight: saturate_to_i64(sample.in_flight),
        prior_in_flight: saturate_to_i64(sample.prior_in_flight),
        delivered: saturate_to_i64(sample.delivered),
        prior_delivered: saturate_to_i64(sample.prior_delivered),
        interval: saturate_to_i64(sample.interval.map_or(0, |us| us * Span::from_us(1).0)),
        rate: sample.interval.map_or(0, |us| i64::try_from(rate(us)).unwrap_or(i64::MAX)),
        app_limited: i64::from(sample.is_app_limited),
        rtt: time(sample.rtt),
        min_rtt: saturate_to_i64(min_rtt.0),
        srtt: time(sample.srtt),
        total_lost: saturate_to_i64(sample.lost),
        recovering: i64::from(sample.phase != RecoveryPhase::Open),
    }
}

impl CongestionAlgorithm for Plugin {
    fn on_ack(&mut self, window: &mut CongestionWindow, ack: &AckSample) {
        if let Some(on_ack) = self.functions().on_ack {
            self.call_with_ack(PluginFunction::OnAck, on_ack, window, ack);
        }
    }

    fn on_ack_without_progress(&mut self, window: &mut CongestionWindow, ack: &AckSample) {
        self.on_ack(window, ack);
    }

    fn increase_window(&mut self, window: &mut CongestionWindow, ack: &AckSample) {
        if let Some(increase) = self.functions().increase {
            self.call_with_ack(PluginFunction::Increase, increase, window, ack);
        }
    }

    fn on_congestion(&mut self, window: &CongestionWindow, cause: CongestionCause) -> u64 {
        let Some(reduced) = self.functions().reduced else { return window.cwnd };
        let cause: c_int = match cause {
            CongestionCause::Ecn => 0,
            CongestionCause::Loss => 1,
        };
        // SAFETY: as in `call_with_ack`.
        self.window_after(PluginFunction::Reduced, window, |state, raw| unsafe { reduced(state, raw, cause) })
    }

    fn on_loss_in_cwr(&mut self, window: &CongestionWindow) -> u64 {
        let Some(loss_after_ecn) = self.functions().loss_after_ecn else { return window.ssthresh };
        // SAFETY: as in `call_with_ack`.
        self.window_after(PluginFunction::LossAfterEcn, window, |state, raw| unsafe {
            loss_after_ecn(state, raw)
        })
    }

    fn discard_credit(&mut self) {
        self.notify(PluginFunction::ForgetEarned, self.functions().forget_earned);
    }

    fn on_timeout(&mut self) {
        self.notify(PluginFunction::OnTimeout, self.functions().on_timeout);
    }

    fn on_idle_restart(&mut self, idle: Span) {
        let Some(on_restart) = self.functions().on_restart else { return };
        // SAFETY: as in `call_with_ack`.
        self.instance
            .notify(PluginFunction::OnRestart, |state| unsafe { on_restart(state, saturate_to_i64(idle.0)) });
    }

    fn timeouts_before_probing(&self) -> u32 {
        let Some(probe_after) = self.functions().probe_after else { return u32::MAX };
        // SAFETY: as in `call_with_ack`.
        let count = self.instance.ask(PluginFunction::ProbeAfter, |state| unsafe { probe_after(state) });
        if count < 1 {
            let message = format!("returned {}; it must be from 1 on", show_value(count));
            self.instance.fail(PluginFunction::ProbeAfter, &message);
        }
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn dctcp_alpha(&self) -> Option<f64> {
        let alpha = self.functions().alpha?;
        // SAFETY: as in `call_with_ack`.
        let value = self.instance.ask(PluginFunction::Alpha, |state| unsafe { alpha(state) });
        if !value.is_finite() {
            let message = format!("returned {value}; it must be a finite number");
            self.instance.fail(PluginFunction::Alpha, &message);
        }
        Some(value)
    }

    fn pacing_rate(&self) -> Option<u64> {
        (self.pacing_rate > 0).then_some(self.pacing_rate)
    }

    fn owns_window(&self) -> bool {
        self.functions().on_delivery.is_some()
    }

    fn on_established(&mut self, _window: &CongestionWindow, sample: &DeliverySample, _random: u64) {
        self.min_rtt = sample.rtt.unwrap_or_default();
    }

    fn on_delivery(&mut self, window: &mut CongestionWindow, sample: &DeliverySample) -> bool {
        let Some(on_delivery) = self.functions().on_delivery else { return false };
        if let Some(rtt) = sample.rtt {
            self.min_rtt = if self.min_rtt == Span::ZERO { rtt } else { self.min_rtt.min(rtt) };
        }
        let (mut raw, delivery) = (self.raw_window(window), raw_delivery(sample, self.min_rtt));
        // SAFETY: as in `call_with_ack`.
        self.instance.notify(PluginFunction::OnDelivery, |state| unsafe {
            on_delivery(state, &raw mut raw, &raw const delivery)
        });
        self.apply(PluginFunction::OnDelivery, window, &raw, sample.now);
        false
    }

    fn deadline(&self) -> Time {
        self.timer
    }

    fn on_timer(&mut self, window: &mut CongestionWindow, now: Time) {
        self.timer = Time::MAX;
        let Some(on_timer) = self.functions().on_timer else { return };
        let mut raw = self.raw_window(window);
        // SAFETY: as in `call_with_ack`.
        self.instance.notify(PluginFunction::OnTimer, |state| unsafe {
            on_timer(state, &raw mut raw, saturate_to_i64(now.0))
        });
        self.apply(PluginFunction::OnTimer, window, &raw, now);
    }
}

#[cfg(test)]
#[path = "plugin_tests.rs"]
mod tests;
