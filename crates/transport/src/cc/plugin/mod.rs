//! A congestion control that is loaded when the program runs, by the C interface of `pauseframe_cc.h`.
//!
//! The connection owns the plug-in's state, a block of fixed size, so it can be copied. Whatever a plug-in returns is
//! checked here: a value that makes no sense ends the run ([`plugin_failure_from_panic_message`]).

#![expect(unsafe_code, reason = "calls through a C interface")]

mod abi;
mod call;
mod code;
mod guard;

pub use code::{LoadedPlugin, PluginSource, loaded_plugins, register_plugin};
pub use guard::{PluginWatchdog, install_trap_handler};

use super::parameter::CongestionControlConstantValue;
use super::{AckSample, CongestionAlgorithm, CongestionCause, CongestionWindow};
use abi::{PluginAbiAck, PluginAbiWindow};
use call::{PluginFunction, call_plugin_function};
use code::{MAX_CONSTANTS, constant_value_to_raw};
use pauseframe_units::Span;
use std::ffi::{c_int, c_void};

/// Largest window that a plug-in may set: 2^40 bytes.
pub const MAX_PLUGIN_WINDOW: u64 = 1 << 40;
/// Largest pacing rate that a plug-in may set: 10^15 bit/s.
pub const MAX_PLUGIN_PACING_RATE: u64 = 1_000_000_000_000_000;

/// A plug-in with the values of its constants.
#[derive(Clone, Copy, Debug)]
pub struct PluginConfig {
    code: &'static LoadedPlugin,
    values: [CongestionControlConstantValue; MAX_CONSTANTS],
}

impl PartialEq for PluginConfig {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.code, other.code) && self.values == other.values
    }
}

impl PluginConfig {
    /// With every constant at its default.
    pub fn new(code: &'static LoadedPlugin) -> PluginConfig {
        let mut values = [CongestionControlConstantValue::Flag(false); MAX_CONSTANTS];
        for (value, parameter) in values.iter_mut().zip(code.parameters) {
            *value = parameter.default;
        }
        PluginConfig { code, values }
    }

    /// Which plug-in.
    pub fn loaded_plugin_of_config(&self) -> &'static LoadedPlugin {
        self.code
    }

    pub(super) fn get_constant(&self, index: usize) -> Option<CongestionControlConstantValue> {
        self.values.get(..self.code.parameters.len())?.get(index).copied()
    }

    pub(super) fn set_constant(&mut self, index: usize, value: CongestionControlConstantValue) -> bool {
        let Some(parameter) = self.code.parameters.get(index) else { return false };
        if std::mem::discriminant(&parameter.default) != std::mem::discriminant(&value) {
            return false;
        }
        self.values[index] = value;
        true
    }
}

/// What ends the message of a plug-in's failure, which travels as a panic to where the run knows time and seed.
const FAILURE_TERMINATOR: char = '\0';

/// What a plug-in did wrong, if that is what a panic said.
pub fn plugin_failure_from_panic_message(panic: &str) -> Option<&str> {
    panic.split_once(FAILURE_TERMINATOR).map(|(message, _)| message)
}

/// The plug-in of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Plugin {
    code: &'static LoadedPlugin,
    state: Box<[u64]>,
    /// Bit/s; 0: the plug-in sets none.
    pacing_rate: u64,
    /// The flow that opened the connection, for messages.
    flow: u32,
    /// Less than a segment is a failure ([`super::contract`]); else it counts as a segment.
    strict: bool,
}

impl Plugin {
    pub(crate) fn new(config: &PluginConfig) -> Plugin {
        guard::prepare_signal_stack();
        let code = config.code;
        let mut plugin =
            Plugin { code, state: vec![0; code.words].into(), pacing_rate: 0, flow: u32::MAX, strict: false };
        let constants = config.values.map(constant_value_to_raw);
        if let Some(init) = code.functions.init {
            let state = plugin.plugin_state_pointer();
            // SAFETY: `register_plugin` was promised functions that keep to the interface.
            let went_well = call_plugin_function(code, PluginFunction::Init, u32::MAX, || unsafe {
                init(state, constants.as_ptr())
            });
            plugin.check_return_code(PluginFunction::Init, went_well);
        }
        plugin
    }

    pub(super) fn enable_strict_checks(&mut self) {
        self.strict = true;
    }

    pub(crate) fn set_flow_number_for_plugin_messages(&mut self, flow: u32) {
        self.flow = flow;
    }

    fn plugin_state_pointer(&mut self) -> *mut c_void {
        self.state.as_mut_ptr().cast()
    }

    fn convert_window_for_plugin(&self, window: &CongestionWindow) -> PluginAbiWindow {
        PluginAbiWindow {
            cwnd: saturate_to_i64(window.cwnd),
            ssthresh: saturate_to_i64(window.ssthresh),
            pacing_rate: saturate_to_i64(self.pacing_rate),
            mss: i64::from(window.mss),
        }
    }

    fn check_return_code(&self, function: PluginFunction, went_well: c_int) {
        if went_well != 1 {
            self.fail_run_by_plugin(function, "reported an error");
        }
    }

    /// A window in bytes that a plug-in has set, raised to one segment.
    #[inline]
    fn check_window_set_by_plugin(&self, function: PluginFunction, what: &str, window: i64, mss: u32) -> u64 {
        if window < 1 || window > MAX_PLUGIN_WINDOW as i64 {
            self.fail_run_by_plugin(
                function,
                &format!("set {what} to {}; it must be from 1 to 2^40 bytes", describe_plugin_value(window)),
            );
        }
        if self.strict && window < i64::from(mss) {
            self.fail_run_by_plugin(
                function,
                &format!("set {what} to {window} bytes, less than one segment of {mss} bytes"),
            );
        }
        (window as u64).max(u64::from(mss))
    }

    /// Takes over what a plug-in did to `raw`.
    #[inline]
    fn apply_raw_window_from_plugin(
        &mut self,
        function: PluginFunction,
        window: &mut CongestionWindow,
        raw: &PluginAbiWindow,
    ) {
        let before = saturate_to_i64(window.cwnd);
        if raw.cwnd != before {
            if function == PluginFunction::OnAck {
                let message =
                    "changed cwnd, which only increase may; on_ack may set ssthresh and pacing_rate";
                self.fail_run_by_plugin(function, message);
            }
            window.cwnd = self.check_window_set_by_plugin(function, "cwnd", raw.cwnd, window.mss);
        }
        if raw.ssthresh != saturate_to_i64(window.ssthresh) {
            window.ssthresh = if raw.ssthresh == i64::MAX {
                u64::MAX
            } else {
                self.check_window_set_by_plugin(function, "ssthresh", raw.ssthresh, window.mss)
            };
        }
        if raw.pacing_rate != saturate_to_i64(self.pacing_rate) {
            if raw.pacing_rate < 0 || raw.pacing_rate > MAX_PLUGIN_PACING_RATE as i64 {
                let rate = describe_plugin_value(raw.pacing_rate);
                self.fail_run_by_plugin(
                    function,
                    &format!("set pacing_rate to {rate}; it must be from 0 (none) to 10^15 bit/s"),
                );
            }
            self.pacing_rate = raw.pacing_rate as u64;
        }
    }

    #[inline]
    fn call_plugin_with_ack(
        &mut self,
        function: PluginFunction,
        call: abi::OnAck,
        window: &mut CongestionWindow,
        ack: &AckSample,
    ) {
        let (mut raw, raw_ack) = (self.convert_window_for_plugin(window), convert_ack_for_plugin(ack));
        let (code, flow, state) = (self.code, self.flow, self.plugin_state_pointer());
        // SAFETY: as in `new`.
        let went_well = call_plugin_function(code, function, flow, || unsafe {
            call(state, &raw mut raw, &raw const raw_ack)
        });
        self.check_return_code(function, went_well);
        self.apply_raw_window_from_plugin(function, window, &raw);
    }

    /// Ends the run: `guarded` of the scenario crate makes an error of it.
    #[cold]
    fn fail_run_by_plugin(&self, function: PluginFunction, message: &str) -> ! {
        let of_flow = if self.flow == u32::MAX { String::new() } else { format!(" (flow {})", self.flow) };
        panic!(
            "congestion control {:?}{of_flow}: its function {} {message}{FAILURE_TERMINATOR}",
            self.code.name,
            function.name()
        );
    }
}

/// A size or rate as plug-ins see it; "unlimited" is the largest.
fn saturate_to_i64(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The conversion of NaN and of infinities to a whole number gives the smallest one.
fn describe_plugin_value(value: i64) -> String {
    if value == i64::MIN { "NaN or a number out of range".to_owned() } else { value.to_string() }
}

fn convert_ack_for_plugin(ack: &AckSample) -> PluginAbiAck {
    PluginAbiAck {
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

impl CongestionAlgorithm for Plugin {
    fn on_ack(&mut self, window: &mut CongestionWindow, ack: &AckSample) {
        if let Some(on_ack) = self.code.functions.on_ack {
            self.call_plugin_with_ack(PluginFunction::OnAck, on_ack, window, ack);
        }
    }

    fn on_ack_without_progress(&mut self, window: &mut CongestionWindow, ack: &AckSample) {
        self.on_ack(window, ack);
    }

    fn increase_window(&mut self, window: &mut CongestionWindow, ack: &AckSample) {
        if let Some(increase) = self.code.functions.increase {
            self.call_plugin_with_ack(PluginFunction::Increase, increase, window, ack);
        }
    }

    fn ssthresh_after_congestion(&mut self, window: &CongestionWindow, cause: CongestionCause) -> u64 {
        let Some(reduced) = self.code.functions.reduced else { return window.cwnd };
        let raw = self.convert_window_for_plugin(window);
        let cause = match cause {
            CongestionCause::Ecn => 0,
            CongestionCause::Loss => 1,
        };
        let (code, flow, state) = (self.code, self.flow, self.plugin_state_pointer());
        // SAFETY: as in `new`.
        let cwnd = call_plugin_function(code, PluginFunction::Reduced, flow, || unsafe {
            reduced(state, &raw const raw, cause)
        });
        self.check_window_set_by_plugin(PluginFunction::Reduced, "the window", cwnd, window.mss)
    }

    fn cwnd_on_loss_after_ecn(&mut self, window: &CongestionWindow) -> u64 {
        let Some(loss_after_ecn) = self.code.functions.loss_after_ecn else { return window.ssthresh };
        let raw = self.convert_window_for_plugin(window);
        let (code, flow, state) = (self.code, self.flow, self.plugin_state_pointer());
        // SAFETY: as in `new`.
        let cwnd = call_plugin_function(code, PluginFunction::LossAfterEcn, flow, || unsafe {
            loss_after_ecn(state, &raw const raw)
        });
        self.check_window_set_by_plugin(PluginFunction::LossAfterEcn, "the window", cwnd, window.mss)
    }

    fn discard_growth_credit(&mut self) {
        self.notify_plugin(PluginFunction::ForgetEarned, self.code.functions.forget_earned);
    }

    fn on_timeout(&mut self) {
        self.notify_plugin(PluginFunction::OnTimeout, self.code.functions.on_timeout);
    }

    fn on_restart_after_idle(&mut self, idle: Span) {
        let Some(on_restart) = self.code.functions.on_restart else { return };
        let (code, flow, state) = (self.code, self.flow, self.plugin_state_pointer());
        // SAFETY: as in `new`.
        let went_well = call_plugin_function(code, PluginFunction::OnRestart, flow, || unsafe {
            on_restart(state, saturate_to_i64(idle.0))
        });
        self.check_return_code(PluginFunction::OnRestart, went_well);
    }

    fn timeouts_before_probing(&self) -> u32 {
        let Some(probe_after) = self.code.functions.probe_after else { return u32::MAX };
        let state = self.state.as_ptr().cast();
        // SAFETY: as in `new`.
        let count = call_plugin_function(self.code, PluginFunction::ProbeAfter, self.flow, || unsafe {
            probe_after(state)
        });
        if count < 1 {
            self.fail_run_by_plugin(
                PluginFunction::ProbeAfter,
                &format!("returned {}; it must be from 1 on", describe_plugin_value(count)),
            );
        }
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    fn dctcp_alpha(&self) -> Option<f64> {
        let alpha = self.code.functions.alpha?;
        let state = self.state.as_ptr().cast();
        // SAFETY: as in `new`.
        let value =
            call_plugin_function(self.code, PluginFunction::Alpha, self.flow, || unsafe { alpha(state) });
        if !value.is_finite() {
            self.fail_run_by_plugin(
                PluginFunction::Alpha,
                &format!("returned {value}; it must be a finite number"),
            );
        }
        Some(value)
    }

    fn pacing_rate(&self) -> Option<u64> {
        (self.pacing_rate > 0).then_some(self.pacing_rate)
    }
}

impl Plugin {
    fn notify_plugin(&mut self, function: PluginFunction, notice: Option<abi::Notice>) {
        let Some(notice) = notice else { return };
        let (code, flow, state) = (self.code, self.flow, self.plugin_state_pointer());
        // SAFETY: as in `new`.
        let went_well = call_plugin_function(code, function, flow, || unsafe { notice(state) });
        self.check_return_code(function, went_well);
    }
}
