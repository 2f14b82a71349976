//! Systems without POSIX signals: a trap ends the process as the system does it.

use std::io::{Write, stderr};

/// Does nothing.
pub fn install_trap_handler() {}

/// Does nothing.
pub(in super::super) fn prepare_signal_stack() {}

/// Writes a line to stderr and ends the process with exit code 1.
pub(super) fn write_and_exit(line: &[u8]) -> ! {
    let _ = stderr().write_all(line);
    std::process::exit(1)
}
