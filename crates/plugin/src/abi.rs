//! The C interface of plug-ins, as `pauseframe_cc.h` declares it. Both change together, and so does [`ABI`].

#![expect(missing_docs, reason = "the header documents every field")]

use std::ffi::{c_char, c_int, c_void};

/// Version of the interface.
pub const ABI: u32 = 3;

/// `pauseframe_value`: eight bytes that hold a number (`f64`), or a count, a flag or a time in picoseconds (`i64`).
#[derive(Clone, Copy)]
#[repr(C)]
pub union RawValue {
    pub number: f64,
    pub integer: i64,
}

/// `pauseframe_parameter`: a constant that scenarios can set.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Parameter {
    pub key: *const c_char,
    pub doc: *const c_char,
    pub kind: i32,
    pub has_range: i32,
    pub default: RawValue,
    pub low: RawValue,
    pub high: RawValue,
}

/// `pauseframe_window`: bytes, bits per second and picoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(C)]
pub struct Window {
    pub cwnd: i64,
    pub ssthresh: i64,
    pub pacing_rate: i64,
    pub mss: i64,
    pub random: i64,
    pub timer: i64,
}

/// `pauseframe_ack`: bytes and picoseconds.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Ack {
    pub acked: i64,
    pub ece: i64,
    pub snd_una: i64,
    pub snd_nxt: i64,
    pub now: i64,
    pub rtt: i64,
    pub srtt: i64,
    pub open: i64,
}

/// `pauseframe_delivery`: bytes, bits per second and picoseconds.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Delivery {
    pub now: i64,
    pub acked: i64,
    pub lost: i64,
    pub in_flight: i64,
    pub prior_in_flight: i64,
    pub delivered: i64,
    pub prior_delivered: i64,
    pub interval: i64,
    pub rate: i64,
    pub app_limited: i64,
    pub rtt: i64,
    pub min_rtt: i64,
    pub srtt: i64,
    pub total_lost: i64,
    pub recovering: i64,
}

/// `pauseframe_pair`: a queue pair. Bits per second, bytes and picoseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(C)]
pub struct Pair {
    pub rate: i64,
    pub window: i64,
    pub timer: i64,
    pub now: i64,
    pub line_rate: i64,
    pub mtu: i64,
    pub base_rtt: i64,
    pub links: i64,
    pub random: i64,
}

/// Hops whose telemetry a plug-in sees.
pub const MAX_HOPS: usize = 8;

/// `pauseframe_pair_ack`: bytes and picoseconds; the arrays are by hop, from the sender on.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct PairAck {
    pub acked: i64,
    pub packets: i64,
    pub una: i64,
    pub nxt: i64,
    pub rtt: i64,
    pub hops: i64,
    pub hop_rate: [i64; MAX_HOPS],
    pub hop_queue: [i64; MAX_HOPS],
    pub hop_bytes: [i64; MAX_HOPS],
    pub hop_time: [i64; MAX_HOPS],
}

pub type Init = unsafe extern "C" fn(*mut c_void, *const RawValue) -> c_int;
pub type OnAck = unsafe extern "C" fn(*mut c_void, *mut Window, *const Ack) -> c_int;
pub type OnDelivery = unsafe extern "C" fn(*mut c_void, *mut Window, *const Delivery) -> c_int;
pub type Reduced = unsafe extern "C" fn(*mut c_void, *const Window, c_int) -> i64;
pub type LossAfterEcn = unsafe extern "C" fn(*mut c_void, *const Window) -> i64;
pub type Notice = unsafe extern "C" fn(*mut c_void) -> c_int;
pub type OnRestart = unsafe extern "C" fn(*mut c_void, i64) -> c_int;
pub type Count = unsafe extern "C" fn(*const c_void) -> i64;
pub type Observe = unsafe extern "C" fn(*const c_void) -> f64;
pub type OnWindowTimer = unsafe extern "C" fn(*mut c_void, *mut Window, i64) -> c_int;
pub type OnPair = unsafe extern "C" fn(*mut c_void, *mut Pair) -> c_int;
pub type OnPairAck = unsafe extern "C" fn(*mut c_void, *mut Pair, *const PairAck) -> c_int;
pub type OnPairSent = unsafe extern "C" fn(*mut c_void, *mut Pair, i64) -> c_int;

/// What all algorithms begin with.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Head {
    pub abi: u32,
    pub flags: u32,
    pub name: *const c_char,
    pub doc: *const c_char,
    pub parameters: *const Parameter,
    pub parameter_count: u64,
    pub state_size: u64,
    pub init: Option<Init>,
}

/// `pauseframe_cc`: an algorithm of TCP. Later versions of the interface may only append fields.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct WindowAlgorithm {
    pub head: Head,
    pub on_ack: Option<OnAck>,
    pub increase: Option<OnAck>,
    pub reduced: Option<Reduced>,
    pub loss_after_ecn: Option<LossAfterEcn>,
    pub forget_earned: Option<Notice>,
    pub on_timeout: Option<Notice>,
    pub on_restart: Option<OnRestart>,
    pub probe_after: Option<Count>,
    pub alpha: Option<Observe>,
    pub on_delivery: Option<OnDelivery>,
    pub on_timer: Option<OnWindowTimer>,
}

/// `pauseframe_rate_control`: an algorithm of queue pairs. Later versions of the interface may only append fields.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct RateAlgorithm {
    pub head: Head,
    pub on_start: Option<OnPair>,
    pub on_ack: Option<OnPairAck>,
    pub on_cnp: Option<OnPair>,
    pub on_loss: Option<OnPair>,
    pub on_timer: Option<OnPair>,
    pub on_sent: Option<OnPairSent>,
}

/// `PAUSEFRAME_CC_NEEDS_EXACT_ECN`: the algorithm needs each mark echoed (`ecn = "dctcp"`).
pub const NEEDS_EXACT_ECN: u32 = 1;
/// `PAUSEFRAME_CC_PACES`: the algorithm sets a pacing rate, so connections are paced unless the scenario forbids it.
pub const PACES: u32 = 2;
/// `PAUSEFRAME_RATE_CONTROL`: the description is a `pauseframe_rate_control`.
pub const RATE_CONTROL: u32 = 4;
/// `PAUSEFRAME_READS_TELEMETRY`: data packets carry telemetry of switches.
pub const READS_TELEMETRY: u32 = 8;
/// `PAUSEFRAME_SETS_WINDOW`: the rate control sets a window.
pub const SETS_WINDOW: u32 = 16;
/// Flags of algorithms of TCP.
pub const WINDOW_FLAGS: u32 = NEEDS_EXACT_ECN | PACES;
/// Flags of rate controls.
pub const RATE_FLAGS: u32 = RATE_CONTROL | READS_TELEMETRY | SETS_WINDOW;

/// Kinds of constants, in the order of `PAUSEFRAME_NUMBER` to `PAUSEFRAME_TIME`.
pub const NUMBER: i32 = 0;
pub const COUNT: i32 = 1;
pub const FLAG: i32 = 2;
pub const TIME: i32 = 3;
