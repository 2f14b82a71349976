//! A congestion control of queue pairs that is loaded when the program runs (`pauseframe_rate_control` of `pauseframe_cc.h`).
//!
//! Whatever a plug-in sets is checked here: a value that makes no sense ends the run.

#![expect(unsafe_code, reason = "calls through a C interface")]

use super::hpcc::{MAX_HOPS, Quantum, Telemetry};
use super::{Acknowledgement, RateControl};
use crate::queue_pair::QueuePairSettings;
use pauseframe_plugin::abi::{self, RateAlgorithm};
use pauseframe_plugin::{
    Instance, PluginConfig, PluginFunction, PluginFunctions, saturate_to_i64, show_value,
};
use pauseframe_units::{Span, Time};

/// Largest window that a plug-in may set: 2^40 bytes.
const MAX_WINDOW: i64 = 1 << 40;

/// The plug-in of one queue pair.
#[derive(Clone, Debug)]
pub(crate) struct PluginControl {
    instance: Instance,
    /// Bits per second.
    rate: u64,
    /// Bytes in flight; `None`: it has no window.
    window: Option<u64>,
    timer: Time,
    line: u64,
    mtu: u32,
    base_rtt: Span,
    links: u32,
    /// Bytes acknowledged so far.
    acked: u64,
    hops: HopCounters,
}

/// The telemetry of ports on the path, whose fields wrap, as counters that do not.
#[derive(Clone, Debug)]
struct HopCounters {
    quantum: Quantum,
    last: Telemetry,
    bytes: [u64; MAX_HOPS],
    time: [Span; MAX_HOPS],
}

impl HopCounters {
    /// Adds what the ports have sent since the last telemetry; a path of another length starts from zero.
    fn add(&mut self, telemetry: &Telemetry) {
        let before = std::mem::replace(&mut self.last, *telemetry);
        if before.hops().len() != telemetry.hops().len() {
            (self.bytes, self.time) = ([0; MAX_HOPS], [Span::ZERO; MAX_HOPS]);
            return;
        }
        for (index, (hop, before)) in telemetry.hops().iter().zip(before.hops()).enumerate() {
            self.bytes[index] += hop.sent_since(*before) * self.quantum.sent_unit();
            self.time[index] += Span::from_ns(hop.time_since(*before));
        }
    }
}

impl PluginControl {
    pub(crate) fn new(config: &PluginConfig, settings: &QueuePairSettings) -> PluginControl {
        PluginControl {
            instance: Instance::new(config, 0),
            rate: settings.line,
            window: None,
            timer: Time::MAX,
            line: settings.line,
            mtu: settings.mtu,
            base_rtt: settings.parameters.base_rtt,
            links: settings.parameters.links,
            acked: 0,
            hops: HopCounters {
                quantum: settings.parameters.quantum,
                last: Telemetry::EMPTY,
                bytes: [0; MAX_HOPS],
                time: [Span::ZERO; MAX_HOPS],
            },
        }
    }

    /// Begins a queue pair of this flow; `seed` decides the random numbers of the plug-in.
    pub(crate) fn start(&mut self, flow: u32, seed: u64, now: Time) {
        self.instance.set_flow(flow);
        self.instance.set_seed(seed);
        self.call(PluginFunction::OnStart, self.functions().on_start, now);
    }

    fn functions(&self) -> &'static RateAlgorithm {
        match &self.instance.code().functions {
            PluginFunctions::Rate(functions) => functions,
            PluginFunctions::Window(_) => unreachable!("a congestion control of TCP is no rate control"),
        }
    }

    fn raw(&mut self, now: Time) -> abi::Pair {
        abi::Pair {
            rate: saturate_to_i64(self.rate),
            window: self.window.map_or(0, saturate_to_i64),
            timer: if self.timer == Time::MAX { 0 } else { saturate_to_i64(self.timer.0) },
            now: saturate_to_i64(now.0),
            line_rate: saturate_to_i64(self.line),
            mtu: i64::from(self.mtu),
            base_rtt: saturate_to_i64(self.base_rtt.0),
            links: i64::from(self.links),
            random: self.instance.draw_random(),
        }
    }

    /// Takes over what a plug-in did to `pair`. More than the line rate is the line rate, and less than a packet a packet.
    fn apply(&mut self, function: PluginFunction, before: &abi::Pair, pair: &abi::Pair) {
        let fail = |message: &str| self.instance.fail(function, message);
        if pair.rate != before.rate {
            if pair.rate < 1 {
                fail(&format!("set rate to {}; it must be from 1 bit/s on", show_value(pair.rate)));
            }
            self.rate = (pair.rate as u64).min(self.line);
        }
        if pair.window != before.window {
            if !self.instance.code().sets_window() {
                fail(
                    "set window, but the algorithm is not declared to have one: write window=True in @rate_control (in \
                     C: the flag PAUSEFRAME_SETS_WINDOW)",
                );
            }
            if !(0..=MAX_WINDOW).contains(&pair.window) {
                fail(&format!(
                    "set window to {}; it must be from 0 (none) to 2^40 bytes",
                    show_value(pair.window)
                ));
            }
            self.window = (pair.window > 0).then(|| (pair.window as u64).max(u64::from(self.mtu)));
        }
        if pair.timer != before.timer {
            if pair.timer != 0 && pair.timer <= pair.now.max(before.now) {
                fail(&format!(
                    "set timer to {} ps, which is not after pair.now ({} ps)",
                    show_value(pair.timer),
                    before.now
                ));
            }
            if self.functions().on_timer.is_none() {
                fail("set timer, but the algorithm has no function on_timer");
            }
            self.timer = if pair.timer == 0 { Time::MAX } else { Time(pair.timer as u64) };
        }
    }

    fn call(&mut self, function: PluginFunction, callee: Option<abi::OnPair>, now: Time) {
        let Some(callee) = callee else { return };
        let before = self.raw(now);
        let mut pair = before;
        // SAFETY: `register_plugin` was promised functions that keep to the interface.
        self.instance.notify(function, |state| unsafe { callee(state, &raw mut pair) });
        self.apply(function, &before, &pair);
    }

    fn raw_ack(&mut self, ack: &Acknowledgement) -> abi::PairAck {
        self.hops.add(ack.telemetry);
        let hops = ack.telemetry.hops();
        let mut raw = abi::PairAck {
            acked: saturate_to_i64(ack.acked_bytes - self.acked),
            packets: saturate_to_i64(ack.packets),
            una: saturate_to_i64(ack.acked_bytes),
            nxt: saturate_to_i64(ack.sent_bytes),
            rtt: ack.rtt.map_or(0, |rtt| saturate_to_i64(rtt.0)),
            hops: hops.len() as i64,
            hop_rate: [0; abi::MAX_HOPS],
            hop_queue: [0; abi::MAX_HOPS],
            hop_bytes: [0; abi::MAX_HOPS],
            hop_time: [0; abi::MAX_HOPS],
        };
        for (index, hop) in hops.iter().enumerate() {
            raw.hop_rate[index] = hop.line() as i64;
            raw.hop_queue[index] = saturate_to_i64(hop.queue() * self.hops.quantum.queue_unit());
            raw.hop_bytes[index] = saturate_to_i64(self.hops.bytes[index]);
            raw.hop_time[index] = saturate_to_i64(self.hops.time[index].0);
        }
        self.acked = ack.acked_bytes;
        raw
    }
}

impl RateControl for PluginControl {
    fn rate(&self) -> u64 {
        self.rate
    }

    fn own_window(&self) -> Option<u64> {
        self.window
    }

    fn on_sent(&mut self, bytes: u64, now: Time) {
        let Some(on_sent) = self.functions().on_sent else { return };
        let before = self.raw(now);
        let mut pair = before;
        // SAFETY: as in `call`.
        self.instance.notify(PluginFunction::OnSent, |state| unsafe {
            on_sent(state, &raw mut pair, saturate_to_i64(bytes))
        });
        self.apply(PluginFunction::OnSent, &before, &pair);
    }

    fn on_ack(&mut self, ack: &Acknowledgement) {
        let Some(on_ack) = self.functions().on_ack else { return };
        let (raw, before) = (self.raw_ack(ack), self.raw(ack.now));
        let mut pair = before;
        // SAFETY: as in `call`.
        self.instance
            .notify(PluginFunction::OnAck, |state| unsafe { on_ack(state, &raw mut pair, &raw const raw) });
        self.apply(PluginFunction::OnAck, &before, &pair);
    }

    fn on_cnp(&mut self, now: Time) {
        self.call(PluginFunction::OnCnp, self.functions().on_cnp, now);
    }

    fn on_loss(&mut self, now: Time) {
        self.call(PluginFunction::OnLoss, self.functions().on_loss, now);
    }

    fn deadline(&self) -> Time {
        self.timer
    }

    fn on_timeout(&mut self, now: Time) {
        if self.timer <= now {
            self.timer = Time::MAX;
            self.call(PluginFunction::OnTimer, self.functions().on_timer, now);
        }
    }
}

#[cfg(test)]
#[path = "plugin_tests.rs"]
mod tests;
