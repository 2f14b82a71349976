//! The signals of a trap: the handler that names the plug-in.

#![expect(unsafe_code, reason = "signal handlers")]

use super::end_process;
use crate::call::current_call;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::OnceLock;

/// What a plug-in can trap with.
const TRAP_SIGNALS: [(c_int, &str); 5] = [
    (libc::SIGSEGV, "SIGSEGV (an invalid address, or too deep a recursion)"),
    (libc::SIGBUS, "SIGBUS (an invalid address)"),
    (libc::SIGFPE, "SIGFPE (a division by zero, or of the smallest integer by -1)"),
    (libc::SIGILL, "SIGILL (an invalid instruction)"),
    (libc::SIGABRT, "SIGABRT (abort, or a failed assertion)"),
];
/// So that a stack that has overflown leaves room for the handler.
const SIGNAL_STACK_BYTES: usize = 64 << 10;

/// The handlers that were there before, in the order of [`TRAP_SIGNALS`].
static PREVIOUS_HANDLERS: OnceLock<[libc::sigaction; TRAP_SIGNALS.len()]> = OnceLock::new();

/// Handles the signals of a trap. A signal outside of a plug-in goes to the handler that was there before.
pub fn install_trap_handler() {
    PREVIOUS_HANDLERS.get_or_init(|| TRAP_SIGNALS.map(|(signal, _)| install_signal_handler(signal)));
    prepare_signal_stack();
}

fn install_signal_handler(signal: c_int) -> libc::sigaction {
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: `handle_trap` is a handler of three arguments, as SA_SIGINFO demands; all structures live as long as the calls.
    unsafe {
        let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
        action.sa_sigaction = handle_trap as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
        libc::sigemptyset(&raw mut action.sa_mask);
        libc::sigaction(signal, &raw const action, before.as_mut_ptr());
        before.assume_init()
    }
}

/// Gives this thread a stack for the handler, once.
pub(in super::super) fn prepare_signal_stack() {
    thread_local! {
        static PREPARED: () = allocate_signal_stack();
    }
    PREPARED.with(|()| ());
}

/// The stack stays until the process ends: a thread that has run a plug-in leaves 64 KiB behind.
fn allocate_signal_stack() {
    // SAFETY: the memory is leaked, so it is valid for as long as the thread may use it.
    unsafe {
        let mut present: libc::stack_t = MaybeUninit::zeroed().assume_init();
        if libc::sigaltstack(null_mut(), &raw mut present) == 0 && present.ss_flags & libc::SS_DISABLE == 0 {
            return;
        }
        let memory = Vec::leak(vec![0_u8; SIGNAL_STACK_BYTES]);
        let stack = libc::stack_t { ss_sp: memory.as_mut_ptr().cast(), ss_flags: 0, ss_size: memory.len() };
        libc::sigaltstack(&raw const stack, null_mut());
    }
}

extern "C" fn handle_trap(signal: c_int, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let index = TRAP_SIGNALS.iter().position(|(known, _)| *known == signal).unwrap_or(0);
    let Some(call) = current_call() else {
        // Nothing of ours: the instruction runs again, and traps into the handler that was there before.
        if let Some(before) = PREVIOUS_HANDLERS.get() {
            // SAFETY: `before` is what the system gave.
            unsafe { libc::sigaction(signal, &raw const before[index], null_mut()) };
        }
        return;
    };
    end_process(call, TRAP_SIGNALS[index].1);
}

/// Writes a line to stderr and ends the process with exit code 1, as a signal handler may.
pub(super) fn write_and_exit(line: &[u8]) -> ! {
    // SAFETY: both calls are allowed in signal handlers, and the buffer is ours.
    unsafe {
        libc::write(libc::STDERR_FILENO, line.as_ptr().cast(), line.len());
        libc::_exit(1)
    }
}
