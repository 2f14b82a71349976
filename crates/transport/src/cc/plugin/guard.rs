//! What ends a process whose plug-in traps (a division by zero, a wild pointer) or does not return: one line on stderr
//! that names plug-in, function and flow, and exit code 1. Nothing else could be trusted any more.

#![expect(unsafe_code, reason = "signal handlers")]

use super::call::{PluginCall, calls_under_way, current_call_of_thread};
use std::ffi::c_int;
use std::fmt::Write;
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

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
/// A call that takes longer than this does not return.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two looks of the watchdog.
const WATCHDOG_INTERVAL: Duration = Duration::from_millis(100);

/// The handlers that were there before, in the order of [`TRAP_SIGNALS`].
static PREVIOUS_HANDLERS: OnceLock<[libc::sigaction; TRAP_SIGNALS.len()]> = OnceLock::new();

/// Handles the signals of a trap. A signal outside of a plug-in goes to the handler that was there before.
pub fn install_trap_handler() {
    PREVIOUS_HANDLERS.get_or_init(|| TRAP_SIGNALS.map(|(signal, _)| install_handler(signal)));
    prepare_signal_stack();
}

fn install_handler(signal: c_int) -> libc::sigaction {
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
pub(super) fn prepare_signal_stack() {
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

/// A line in a buffer of fixed size: a signal handler may not allocate.
struct FixedSizeLine {
    bytes: [u8; 512],
    len: usize,
}

impl Write for FixedSizeLine {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = &mut self.bytes[self.len..];
        let count = text.len().min(room.len());
        room[..count].copy_from_slice(&text.as_bytes()[..count]);
        self.len += count;
        Ok(())
    }
}

extern "C" fn handle_trap(signal: c_int, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let index = TRAP_SIGNALS.iter().position(|(known, _)| *known == signal).unwrap_or(0);
    let Some(call) = current_call_of_thread() else {
        // Nothing of ours: the instruction runs again, and traps into the handler that was there before.
        if let Some(before) = PREVIOUS_HANDLERS.get() {
            // SAFETY: `before` is what the system gave.
            unsafe { libc::sigaction(signal, &raw const before[index], null_mut()) };
        }
        return;
    };
    end_process(call, TRAP_SIGNALS[index].1);
}

fn end_process(call: PluginCall, what: &str) -> ! {
    let mut line = FixedSizeLine { bytes: [0; 512], len: 0 };
    let _ = write!(line, "pauseframe: congestion control {:?} ({})", call.code.name, call.code.source.file);
    if call.flow != u32::MAX {
        let _ = write!(line, ", flow {}", call.flow);
    }
    let _ = writeln!(line, ": its function {} ended the program by {what}", call.function);
    // SAFETY: both calls are allowed in signal handlers, and the buffer is ours.
    unsafe {
        libc::write(libc::STDERR_FILENO, line.bytes.as_ptr().cast(), line.len);
        libc::_exit(1)
    }
}

/// Ends the process if a plug-in does not return from a call, for as long as it lives.
#[derive(Debug)]
pub struct PluginWatchdog {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl PluginWatchdog {
    /// Watches all plug-ins but those in the interpreter: a debugger may hold them, and Ctrl-C ends them.
    ///
    /// # Errors
    /// If the system starts no thread.
    pub fn start() -> std::io::Result<PluginWatchdog> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("plug-in watchdog".to_owned());
        let thread = thread.spawn(move || watch_plugin_calls(&stopped))?;
        Ok(PluginWatchdog { stop, thread: Some(thread) })
    }
}

impl Drop for PluginWatchdog {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

fn watch_plugin_calls(stopped: &AtomicBool) {
    let mut seen: Vec<(usize, u64, Instant)> = Vec::new();
    while !stopped.load(Ordering::Relaxed) {
        std::thread::park_timeout(WATCHDOG_INTERVAL);
        let calls = calls_under_way();
        seen.retain(|(slot, number, _)| {
            calls.iter().any(|(other, call)| (slot, number) == (other, &call.number))
        });
        for (slot, call) in calls.into_iter().filter(|(_, call)| !call.code.source.interpreted) {
            match seen.iter().find(|(other, number, _)| (*other, *number) == (slot, call.number)) {
                None => seen.push((slot, call.number, Instant::now())),
                Some((_, _, since)) if since.elapsed() > CALL_TIMEOUT => {
                    end_process(call, "not returning within 10 s");
                }
                Some(_) => {}
            }
        }
    }
}
