//! The operating system process of a user-mode kernel. It never outlives its parent.

use rustix::process::{
    Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, set_parent_process_death_signal,
};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Lines of the console that an error shows.
const LAST_LINES: usize = 20;
const CONSOLE: &str = "console.log";

/// A user-mode kernel that runs.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// Readable when the process has ended.
    exit: OwnedFd,
    console: PathBuf,
}

impl Process {
    /// Starts `kernel` in `folder`, with `environment` and an open file, which has the same number in the process.
    ///
    /// # Errors
    /// If the system refuses.
    #[expect(unsafe_code, reason = "pre_exec")]
    pub fn start(
        kernel: &Path,
        arguments: &[OsString],
        environment: &[(OsString, OsString)],
        folder: &Path,
        inherited: BorrowedFd<'_>,
    ) -> io::Result<Process> {
        let console = folder.join(CONSOLE);
        let log = File::create(&console)?;
        let mut command = Command::new(kernel);
        command
            .args(arguments)
            .env_clear()
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0);
        let inherited = inherited.as_raw_fd();
        // SAFETY: the closure makes three system calls, which is safe between fork and exec.
        unsafe {
            command.pre_exec(move || {
                // The kernel's memory begins behind its heap: where that is decides the sizes of its tables.
                if libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong) == -1 {
                    return Err(io::Error::last_os_error());
                }
                if libc::fcntl(inherited, libc::F_SETFD, 0) == -1 {
                    return Err(io::Error::last_os_error());
                }
                Ok(set_parent_process_death_signal(Some(Signal::KILL))?)
            });
        }
        let mut child = command.spawn()?;
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(exit) => Ok(Process { child, exit, console }),
            Err(error) => {
                child.kill()?;
                child.wait()?;
                Err(error.into())
            }
        }
    }

    /// A file that is readable when the process has ended.
    pub(crate) fn exit(&self) -> BorrowedFd<'_> {
        self.exit.as_fd()
    }

    /// The last lines of the console.
    pub fn last_lines(&self) -> String {
        let text = fs::read(&self.console).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The kernel runs each of its programs as a process of its group.
        if let Some(group) = Pid::from_raw(self.child.id().cast_signed()) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.child.wait();
    }
}
