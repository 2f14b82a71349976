//! Ensures that only one process writes to a results folder.
//!
//! The lock is the operating system's (`flock`, `LockFileEx`) on a file in the folder; it ends with the process, so a
//! killed run blocks no other. Only the holder removes the file; a process that has locked a removed file starts again.
//! File systems without locks are not protected.

use super::RunError;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// The lock file, which exists during writing.
pub(super) const NAME: &str = ".lock";
/// Maximum number of times that another process may remove the file between opening and locking it.
const TRIES: u32 = 100;

/// Held during writing.
#[derive(Debug)]
pub(super) struct FolderLock {
    path: PathBuf,
    /// Holds the lock until the file is closed.
    file: File,
}

impl FolderLock {
    /// Locks `folder`.
    ///
    /// # Errors
    /// [`RunError::InUse`] with the holder; [`RunError::Write`] if the system refuses.
    pub(super) fn take(folder: &Path) -> Result<FolderLock, RunError> {
        let path = folder.join(NAME);
        let refused = |cause| {
            let left = "Nothing has been written.".to_owned();
            RunError::Write { path: path.clone(), cause, left }
        };
        for _ in 0..TRIES {
            let mut file = match open(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                other => other.map_err(refused)?,
            };
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => {
                    let holder = holder(file).unwrap_or_else(|| "another process".to_owned());
                    return Err(RunError::InUse { path: folder.to_path_buf(), holder });
                }
                Err(TryLockError::Error(error)) if error.kind() != ErrorKind::Unsupported => {
                    return Err(refused(error));
                }
                Ok(()) | Err(TryLockError::Error(_)) => {}
            }
            if is_in_place(&file, &path).map_err(refused)? {
                sign(&mut file).map_err(refused)?;
                return Ok(FolderLock { path, file });
            }
        }
        Err(refused(io::Error::new(ErrorKind::ResourceBusy, "other processes come and go here")))
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // On other systems the file stays: without file numbers a removed file could not be recognised.
        if cfg!(unix) {
            // A remaining lock file looks like one of a killed run.
            let _ = fs::remove_file(&self.path);
        }
        let _ = self.file.unlock();
    }
}

/// Opens the file, new or existing, but never the target of a link.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    match options.clone().create_new(true).open(path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        other => return other,
    }
    if !fs::symlink_metadata(path)?.is_file() {
        return Err(io::Error::new(
            ErrorKind::AlreadyExists,
            "something is in the way that is no regular file",
        ));
    }
    options.open(path)
}

/// Whether `file` is the one at `path`: neither removed nor reached by a link.
#[cfg(unix)]
fn is_in_place(file: &File, path: &Path) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let there = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        other => other?,
    };
    let here = file.metadata()?;
    Ok((here.dev(), here.ino()) == (there.dev(), there.ino()))
}

#[cfg(not(unix))]
fn is_in_place(_: &File, _: &Path) -> io::Result<bool> {
    Ok(true)
}

fn sign(file: &mut File) -> io::Result<()> {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let on = if host.trim().is_empty() { String::new() } else { format!(" on {}", host.trim()) };
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(format!("process {}{on}", std::process::id()).as_bytes())
}

/// The holder of the lock, from the file's content.
fn holder(file: File) -> Option<String> {
    let mut text = String::new();
    file.take(300).read_to_string(&mut text).ok()?;
    let plain: String = text.chars().filter(|c| !c.is_control()).collect();
    (!plain.is_empty()).then_some(plain)
}
