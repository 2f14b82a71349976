//! A plug-in with its constants, and its state for one connection or queue pair.

#![expect(unsafe_code, reason = "calls through a C interface")]

use crate::FAILURE_TERMINATOR;
use crate::call::{PluginFunction, call_plugin};
use crate::code::{LoadedPlugin, MAX_CONSTANTS, to_raw};
use crate::constants::ConstantValue;
use crate::guard;
use std::ffi::{c_int, c_void};

/// A plug-in with the values of its constants.
#[derive(Clone, Copy, Debug)]
pub struct PluginConfig {
    code: &'static LoadedPlugin,
    values: [ConstantValue; MAX_CONSTANTS],
}

impl PartialEq for PluginConfig {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.code, other.code) && self.values == other.values
    }
}

impl PluginConfig {
    /// With every constant at its default.
    pub fn new(code: &'static LoadedPlugin) -> PluginConfig {
        let mut values = [ConstantValue::Flag(false); MAX_CONSTANTS];
        for (value, parameter) in values.iter_mut().zip(code.parameters) {
            *value = parameter.default;
        }
        PluginConfig { code, values }
    }

    /// Which plug-in.
    pub fn code(&self) -> &'static LoadedPlugin {
        self.code
    }

    /// The value of a constant.
    pub fn get_constant(&self, index: usize) -> Option<ConstantValue> {
        self.values.get(..self.code.parameters.len())?.get(index).copied()
    }

    /// Sets a constant; false if there is none, or its kind is another.
    pub fn set_constant(&mut self, index: usize, value: ConstantValue) -> bool {
        let Some(parameter) = self.code.parameters.get(index) else { return false };
        if std::mem::discriminant(&parameter.default) != std::mem::discriminant(&value) {
            return false;
        }
        self.values[index] = value;
        true
    }
}

/// The plug-in of one connection or queue pair, with its state block.
#[derive(Clone, Debug)]
pub struct Instance {
    code: &'static LoadedPlugin,
    state: Box<[u64]>,
    /// The flow that opened the connection, for messages.
    flow: u32,
    /// State of the random numbers that it gets, one for each call.
    random: u64,
}

impl Instance {
    /// With the state that `init` of the plug-in makes. `seed` decides its random numbers.
    pub fn new(config: &PluginConfig, seed: u64) -> Instance {
        guard::prepare_signal_stack();
        let code = config.code;
        let mut instance = Instance { code, state: vec![0; code.words].into(), flow: u32::MAX, random: seed };
        let constants = config.values.map(to_raw);
        if let Some(init) = code.head.init {
            // SAFETY: `register_plugin` was promised functions that keep to the interface.
            instance.notify(PluginFunction::Init, |state| unsafe { init(state, constants.as_ptr()) });
        }
        instance
    }

    /// Which plug-in.
    pub fn code(&self) -> &'static LoadedPlugin {
        self.code
    }

    /// Sets the flow of the connection, for messages.
    pub fn set_flow(&mut self, flow: u32) {
        self.flow = flow;
    }

    /// Sets what decides its random numbers.
    pub fn set_seed(&mut self, seed: u64) {
        self.random = seed;
    }

    /// The next random number: 63 bits of `SplitMix64` (Steele et al., OOPSLA 2014).
    pub fn draw_random(&mut self) -> i64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 1) as i64
    }

    /// Calls a function that changes the state.
    #[inline]
    pub fn call<T>(&mut self, function: PluginFunction, work: impl FnOnce(*mut c_void) -> T) -> T {
        let (code, flow, state) = (self.code, self.flow, self.state.as_mut_ptr().cast());
        call_plugin(code, function, flow, || work(state))
    }

    /// Calls a function that reads the state.
    pub fn ask<T>(&self, function: PluginFunction, work: impl FnOnce(*const c_void) -> T) -> T {
        call_plugin(self.code, function, self.flow, || work(self.state.as_ptr().cast()))
    }

    /// Calls a function that says whether it went well.
    #[inline]
    pub fn notify(&mut self, function: PluginFunction, work: impl FnOnce(*mut c_void) -> c_int) {
        if self.call(function, work) != 1 {
            self.fail(function, "reported an error");
        }
    }

    /// Ends the run: `guarded` of the scenario crate makes an error of it.
    #[cold]
    pub fn fail(&self, function: PluginFunction, message: &str) -> ! {
        let of_flow = if self.flow == u32::MAX { String::new() } else { format!(" (flow {})", self.flow) };
        panic!(
            "congestion control {:?}{of_flow}: its function {} {message}{FAILURE_TERMINATOR}",
            self.code.name,
            function.name()
        );
    }
}

/// A size or rate as plug-ins see it; "unlimited" is the largest.
pub fn saturate_to_i64(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A value that a plug-in gave. The conversion of NaN and of infinities to a whole number gives the smallest one.
pub fn show_value(value: i64) -> String {
    if value == i64::MIN { "NaN or a number out of range".to_owned() } else { value.to_string() }
}
