//! What ends a process whose plug-in traps (a division by zero, a wild pointer) or does not return: one line on stderr
//! that names plug-in, function and flow, and exit code 1. Nothing else could be trusted any more. Systems without
//! POSIX signals report a trap themselves, without these names.

#[cfg_attr(unix, path = "guard/signals.rs")]
#[cfg_attr(not(unix), path = "guard/no_signals.rs")]
mod signals;

use crate::call::{PluginCall, all_calls};
pub use signals::install_trap_handler;
pub(crate) use signals::prepare_signal_stack;
use signals::write_and_exit;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A call that takes longer than this does not return.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Between two looks of the watchdog.
const WATCHDOG_INTERVAL: Duration = Duration::from_millis(100);

/// A line in a buffer of fixed size: a signal handler may not allocate.
struct FixedSizeTextBuffer {
    bytes: [u8; 512],
    len: usize,
}

impl Write for FixedSizeTextBuffer {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let room = &mut self.bytes[self.len..];
        let count = text.len().min(room.len());
        room[..count].copy_from_slice(&text.as_bytes()[..count]);
        self.len += count;
        Ok(())
    }
}

fn end_process(call: PluginCall, what: &str) -> ! {
    let mut line = FixedSizeTextBuffer { bytes: [0; 512], len: 0 };
    let _ = write!(line, "pauseframe: congestion control {:?} ({})", call.code.name, call.code.source.file);
    if call.flow != u32::MAX {
        let _ = write!(line, ", flow {}", call.flow);
    }
    let _ = writeln!(line, ": its function {} ended the program by {what}", call.function);
    write_and_exit(&line.bytes[..line.len])
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
        let thread = thread.spawn(move || watch_calls(&stopped))?;
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

fn watch_calls(stopped: &AtomicBool) {
    let mut seen: Vec<(usize, u64, Instant)> = Vec::new();
    while !stopped.load(Ordering::Relaxed) {
        std::thread::park_timeout(WATCHDOG_INTERVAL);
        let calls = all_calls();
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
