//! The C interface of plug-ins, as `pauseframe_cc.h` declares it. Both change together, and so does [`ABI`].

use std::ffi::{c_char, c_int, c_void};

/// Version of the interface.
pub(super) const ABI: u32 = 1;

/// `pauseframe_value`: eight bytes that hold a number (`f64`), or a count, a flag or a time in picoseconds (`i64`).
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) union RawValue {
    pub(super) number: f64,
    pub(super) integer: i64,
}

/// `pauseframe_parameter`: a constant that scenarios can set.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct PluginAbiParameter {
    pub(super) key: *const c_char,
    pub(super) doc: *const c_char,
    pub(super) kind: i32,
    pub(super) has_range: i32,
    pub(super) default: RawValue,
    pub(super) low: RawValue,
    pub(super) high: RawValue,
}

/// `pauseframe_window`: bytes, and bits per second.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(C)]
pub(super) struct PluginAbiWindow {
    pub(super) cwnd: i64,
    pub(super) ssthresh: i64,
    pub(super) pacing_rate: i64,
    pub(super) mss: i64,
}

/// `pauseframe_ack`: bytes and picoseconds.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct PluginAbiAck {
    pub(super) acked: i64,
    pub(super) ece: i64,
    pub(super) snd_una: i64,
    pub(super) snd_nxt: i64,
    pub(super) now: i64,
    pub(super) rtt: i64,
    pub(super) srtt: i64,
    pub(super) open: i64,
}

pub(super) type Init = unsafe extern "C" fn(*mut c_void, *const RawValue) -> c_int;
pub(super) type OnAck = unsafe extern "C" fn(*mut c_void, *mut PluginAbiWindow, *const PluginAbiAck) -> c_int;
pub(super) type Reduced = unsafe extern "C" fn(*mut c_void, *const PluginAbiWindow, c_int) -> i64;
pub(super) type LossAfterEcn = unsafe extern "C" fn(*mut c_void, *const PluginAbiWindow) -> i64;
pub(super) type Notice = unsafe extern "C" fn(*mut c_void) -> c_int;
pub(super) type OnRestart = unsafe extern "C" fn(*mut c_void, i64) -> c_int;
pub(super) type Count = unsafe extern "C" fn(*const c_void) -> i64;
pub(super) type Observe = unsafe extern "C" fn(*const c_void) -> f64;

/// `pauseframe_cc`: one algorithm. Later versions of the interface may only append fields.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct PluginAbiAlgorithm {
    pub(super) abi: u32,
    pub(super) flags: u32,
    pub(super) name: *const c_char,
    pub(super) doc: *const c_char,
    pub(super) parameters: *const PluginAbiParameter,
    pub(super) parameter_count: u64,
    pub(super) state_size: u64,
    pub(super) init: Option<Init>,
    pub(super) on_ack: Option<OnAck>,
    pub(super) increase: Option<OnAck>,
    pub(super) reduced: Option<Reduced>,
    pub(super) loss_after_ecn: Option<LossAfterEcn>,
    pub(super) forget_earned: Option<Notice>,
    pub(super) on_timeout: Option<Notice>,
    pub(super) on_restart: Option<OnRestart>,
    pub(super) probe_after: Option<Count>,
    pub(super) alpha: Option<Observe>,
}

/// `PAUSEFRAME_CC_NEEDS_EXACT_ECN`: the algorithm needs each mark echoed (`ecn = "dctcp"`).
pub(super) const NEEDS_EXACT_ECN: u32 = 1;
/// `PAUSEFRAME_CC_PACES`: the algorithm sets a pacing rate, so connections are paced unless the scenario forbids it.
pub(super) const PACES: u32 = 2;
/// Every flag of this version.
pub(super) const FLAGS: u32 = NEEDS_EXACT_ECN | PACES;

/// Kinds of constants, in the order of `PAUSEFRAME_NUMBER` to `PAUSEFRAME_TIME`.
pub(super) const NUMBER: i32 = 0;
pub(super) const COUNT: i32 = 1;
pub(super) const FLAG: i32 = 2;
pub(super) const TIME: i32 = 3;
