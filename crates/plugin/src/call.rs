//! The call of a plug-in that a thread is in, for the message that names the plug-in that trapped or does not return.

use super::code::LoadedPlugin;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A function of the interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
#[expect(missing_docs, reason = "the header documents every function")]
pub enum PluginFunction {
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
    OnDelivery,
    OnStart,
    OnCnp,
    OnLoss,
    OnTimer,
    OnSent,
}

/// Their names in the order of [`PluginFunction`].
const NAMES: [&str; 16] = [
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
    "on_delivery",
    "on_start",
    "on_cnp",
    "on_loss",
    "on_timer",
    "on_sent",
];

impl PluginFunction {
    /// Its name in the header.
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }
}

/// What a thread is calling.
#[derive(Debug)]
pub(crate) struct PluginCallOfThread {
    /// Null between two calls.
    code: AtomicPtr<LoadedPlugin>,
    function: AtomicU32,
    flow: AtomicU32,
    /// Calls so far: the same number twice is the same call.
    calls: AtomicU64,
}

/// A call under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PluginCall {
    pub(crate) code: &'static LoadedPlugin,
    pub(crate) function: &'static str,
    pub(crate) flow: u32,
    pub(crate) number: u64,
}

static THREAD_CALL_SLOTS: Mutex<Vec<&'static PluginCallOfThread>> = Mutex::new(Vec::new());

thread_local! {
    static SLOT: &'static PluginCallOfThread = register_thread();
}

/// A thread that ends leaves its slot behind: a few bytes a thread, and only of threads that ran a plug-in.
fn register_thread() -> &'static PluginCallOfThread {
    let slot: &'static PluginCallOfThread = Box::leak(Box::new(PluginCallOfThread {
        code: AtomicPtr::new(null_mut()),
        function: AtomicU32::new(0),
        flow: AtomicU32::new(0),
        calls: AtomicU64::new(0),
    }));
    THREAD_CALL_SLOTS.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
    slot
}

/// Calls `work` and marks this thread as inside the plug-in meanwhile.
#[inline]
pub(crate) fn call_plugin<T>(
    code: &'static LoadedPlugin,
    function: PluginFunction,
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

impl PluginCallOfThread {
    fn current_call(&self) -> Option<PluginCall> {
        let code = self.code.load(Ordering::Acquire);
        #[expect(unsafe_code, reason = "codes are leaked, so the pointer is null or valid for ever")]
        // SAFETY: see above.
        let code = unsafe { code.as_ref() }?;
        let function =
            NAMES.get(self.function.load(Ordering::Relaxed) as usize).copied().unwrap_or("a function");
        let (flow, number) = (self.flow.load(Ordering::Relaxed), self.calls.load(Ordering::Relaxed));
        Some(PluginCall { code, function, flow, number })
    }
}

/// The call that this thread is in. Safe in a signal handler, once the thread has called a plug-in.
#[cfg(unix)]
pub(crate) fn current_call() -> Option<PluginCall> {
    SLOT.try_with(|slot| slot.current_call()).ok().flatten()
}

/// The calls that all threads are in, with the thread's number.
pub(crate) fn all_calls() -> Vec<(usize, PluginCall)> {
    let slots = THREAD_CALL_SLOTS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    slots.iter().enumerate().filter_map(|(index, slot)| Some((index, slot.current_call()?))).collect()
}
