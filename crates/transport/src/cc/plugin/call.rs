//! The call of a plug-in that a thread is in, for whoever has to say which plug-in trapped or does not return.

use super::code::PluginCode;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A function of the interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub(super) enum Function {
    Init,
    OnAck,
    Increase,
    Reduced,
    LossAfterEcn,
    ForgetEarned,
    OnTimeout,
    OnRestart,
    ProbeAfter,
    Alpha,
}

/// Their names in the order of [`Function`].
const NAMES: [&str; 10] = [
    "init",
    "on_ack",
    "increase",
    "reduced",
    "loss_after_ecn",
    "forget_earned",
    "on_timeout",
    "on_restart",
    "probe_after",
    "alpha",
];

impl Function {
    pub(super) fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

/// What a thread is calling.
#[derive(Debug)]
pub(super) struct Slot {
    /// Null between two calls.
    code: AtomicPtr<PluginCode>,
    function: AtomicU32,
    flow: AtomicU32,
    /// Calls so far: the same number twice is the same call.
    calls: AtomicU64,
}

/// A call under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    pub(super) code: &'static PluginCode,
    pub(super) function: &'static str,
    pub(super) flow: u32,
    pub(super) number: u64,
}

static SLOTS: Mutex<Vec<&'static Slot>> = Mutex::new(Vec::new());

thread_local! {
    static SLOT: &'static Slot = new_slot();
}

/// A thread that ends leaves its slot behind: a few bytes a thread, and only of threads that ran a plug-in.
fn new_slot() -> &'static Slot {
    let slot: &'static Slot = Box::leak(Box::new(Slot {
        code: AtomicPtr::new(null_mut()),
        function: AtomicU32::new(0),
        flow: AtomicU32::new(0),
        calls: AtomicU64::new(0),
    }));
    SLOTS.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
    slot
}

/// Calls `work` and marks this thread as inside the plug-in meanwhile.
#[inline]
pub(super) fn inside<T>(
    code: &'static PluginCode,
    function: Function,
    flow: u32,
    work: impl FnOnce() -> T,
) -> T {
    SLOT.with(|slot| {
        slot.function.store(function as u32, Ordering::Relaxed);
        slot.flow.store(flow, Ordering::Relaxed);
        slot.calls.store(slot.calls.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        slot.code.store(std::ptr::from_ref(code).cast_mut(), Ordering::Release);
        let result = work();
        slot.code.store(null_mut(), Ordering::Release);
        result
    })
}

impl Slot {
    fn call(&self) -> Option<Call> {
        let code = self.code.load(Ordering::Acquire);
        #[expect(unsafe_code, reason = "codes are leaked, so the pointer is null or valid for ever")]
        // SAFETY: see above.
        let code = unsafe { code.as_ref() }?;
        let function =
            NAMES.get(self.function.load(Ordering::Relaxed) as usize).copied().unwrap_or("a function");
        let (flow, number) = (self.flow.load(Ordering::Relaxed), self.calls.load(Ordering::Relaxed));
        Some(Call { code, function, flow, number })
    }
}

/// The call that this thread is in. Safe in a signal handler, once the thread has called a plug-in.
#[cfg(unix)]
pub(super) fn current() -> Option<Call> {
    SLOT.try_with(|slot| slot.call()).ok().flatten()
}

/// The calls that all threads are in, with the thread's number.
pub(super) fn under_way() -> Vec<(usize, Call)> {
    let slots = SLOTS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    slots.iter().enumerate().filter_map(|(index, slot)| Some((index, slot.call()?))).collect()
}
