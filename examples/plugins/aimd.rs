//! AIMD(a, b) (Yang and Lam, "General AIMD Congestion Control", ICNP 2000) as a plug-in in Rust.
//!
//!     rustc -O --edition 2024 --crate-type cdylib aimd.rs -o libaimd_rust.so
//!     pauseframe run incast.toml --plugin ./libaimd_rust.so --set transport.congestion_control=aimd_rust:aimd_rust
//!
//! The structures are those of pauseframe_cc.h. Without the standard library (`#![no_std]`, `core::ffi`, a panic handler) add
//! `-C panic=abort -C lto=fat`.

use std::ffi::{c_char, c_int, c_void};

#[repr(C)]
#[derive(Clone, Copy)]
pub union Value {
    number: f64,
    integer: i64,
}

#[repr(C)]
pub struct Parameter {
    key: *const c_char,
    doc: *const c_char,
    kind: i32,
    has_range: i32,
    value: Value,
    low: Value,
    high: Value,
}

#[repr(C)]
pub struct Window {
    cwnd: i64,
    ssthresh: i64,
    pacing_rate: i64,
    mss: i64,
    random: i64,
    timer: i64,
}

#[repr(C)]
pub struct Ack {
    acked: i64,
    ece: i64,
    snd_una: i64,
    snd_nxt: i64,
    now: i64,
    rtt: i64,
    srtt: i64,
    open: i64,
}

type OnAck = unsafe extern "C" fn(*mut c_void, *mut Window, *const Ack) -> c_int;

#[repr(C)]
pub struct Algorithm {
    abi: u32,
    flags: u32,
    name: *const c_char,
    doc: *const c_char,
    parameters: *const Parameter,
    parameter_count: u64,
    state_size: u64,
    init: Option<unsafe extern "C" fn(*mut c_void, *const Value) -> c_int>,
    on_ack: Option<OnAck>,
    increase: Option<OnAck>,
    reduced: Option<unsafe extern "C" fn(*mut c_void, *const Window, c_int) -> i64>,
    loss_after_ecn: Option<unsafe extern "C" fn(*mut c_void, *const Window) -> i64>,
    forget_earned: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    on_timeout: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    on_restart: Option<unsafe extern "C" fn(*mut c_void, i64) -> c_int>,
    probe_after: Option<unsafe extern "C" fn(*const c_void) -> i64>,
    alpha: Option<unsafe extern "C" fn(*const c_void) -> f64>,
    on_delivery: Option<unsafe extern "C" fn(*mut c_void, *mut Window, *const c_void) -> c_int>,
    on_timer: Option<unsafe extern "C" fn(*mut c_void, *mut Window, i64) -> c_int>,
}

struct Shared<T>(T);
unsafe impl<T> Sync for Shared<T> {}

const OK: c_int = 1;

struct State {
    a: f64,
    b: f64,
    /// Segments earned and not added yet.
    credit: f64,
}

unsafe extern "C" fn init(state: *mut c_void, constants: *const Value) -> c_int {
    let state = unsafe { &mut *state.cast::<State>() };
    let (a, b) = unsafe { ((*constants).number, (*constants.add(1)).number) };
    *state = State { a, b, credit: 0.0 };
    OK
}

unsafe extern "C" fn increase(state: *mut c_void, window: *mut Window, ack: *const Ack) -> c_int {
    let (state, window, ack) = unsafe { (&mut *state.cast::<State>(), &mut *window, &*ack) };
    let step = ack.acked.min((window.ssthresh - window.cwnd).max(0)); // slow start
    window.cwnd += step;
    let rest = ack.acked - step;
    state.credit += state.a * rest as f64 / window.cwnd as f64;
    if state.credit >= 1.0 && rest == ack.acked {
        window.cwnd += (state.credit as i64).min((rest / window.mss).max(1)) * window.mss;
        state.credit -= (state.credit as i64) as f64;
    }
    OK
}

unsafe extern "C" fn reduced(state: *mut c_void, window: *const Window, _cause: c_int) -> i64 {
    let (state, window) = unsafe { (&mut *state.cast::<State>(), &*window) };
    state.credit = 0.0;
    ((window.cwnd as f64 * (1.0 - state.b)) as i64).max(2 * window.mss)
}

static PARAMETERS: Shared<[Parameter; 2]> = Shared([
    Parameter {
        key: c"a".as_ptr(),
        doc: c"Segments added a round trip".as_ptr(),
        kind: 0,
        has_range: 1,
        value: Value { number: 1.0 },
        low: Value { number: 0.0 },
        high: Value { number: 100.0 },
    },
    Parameter {
        key: c"b".as_ptr(),
        doc: c"Share of the window given up at congestion".as_ptr(),
        kind: 0,
        has_range: 1,
        value: Value { number: 0.5 },
        low: Value { number: 0.0 },
        high: Value { number: 1.0 },
    },
]);

static AIMD: Shared<Algorithm> = Shared(Algorithm {
    abi: 3,
    flags: 0,
    name: c"aimd_rust".as_ptr(),
    doc: c"AIMD(a, b) (Yang and Lam 2000) in Rust".as_ptr(),
    parameters: PARAMETERS.0.as_ptr(),
    parameter_count: 2,
    state_size: size_of::<State>() as u64,
    init: Some(init),
    on_ack: None,
    increase: Some(increase),
    reduced: Some(reduced),
    loss_after_ecn: None,
    forget_earned: None,
    on_timeout: None,
    on_restart: None,
    probe_after: None,
    alpha: None,
    on_delivery: None,
    on_timer: None,
});

/// The algorithm of that number, from 0 on.
#[unsafe(no_mangle)]
pub extern "C" fn pauseframe_congestion_control(index: u32) -> *const Algorithm {
    if index == 0 { &AIMD.0 } else { std::ptr::null() }
}
