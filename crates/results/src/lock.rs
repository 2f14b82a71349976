//! A lock that lets only one process at a time write to a results folder.
//!
//! The lock is a lock of the operating system (`flock`, `LockFileEx`) on a file in the folder. The system
//! releases the lock when the process ends, even by a kill, so a killed run blocks nobody. Only the holder of
//! the lock removes the file; a process that has locked a file which was removed meanwhile tries again. On a
//! file system without file locks, the folder is not locked.

use super::RunError;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// Name of the lock file, which exists while results are being written.
pub(super) const NAME: &str = ".lock";
/// Number of attempts; another process may remove the file between the opening and the locking.
const TRIES: u32 = 100;

/// The lock on a results folder, held while results are being written.
#[derive(Debug)]
pub(super) struct FolderLock {
    path: PathBuf,
    /// The open lock file; closing it releases the lock.
    file: File,
}

impl FolderLock {
    /// Locks `folder`.
    ///
    /// # Errors
    /// [`RunError::InUse`] with the holder; [`RunError::Write`] if the system reports an error.
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
        // On other systems the file stays: without inode numbers, a process that waits for the lock could not
        // tell that the file was removed.
        if cfg!(unix) {
            // If the removal fails, the next run treats the file as the leftover of a killed run.
            let _ = fs::remove_file(&self.path);
        }
        let _ = self.file.unlock();
    }
}

/// Opens the lock file, or creates it; never follows a symbolic link.
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

/// True if `file` is still the file at `path`: not removed meanwhile, and not reached through a symbolic
/// link.
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

/// The holder of the lock, as the holder wrote it into the file.
fn holder(file: File) -> Option<String> {
    let mut text = String::new();
    file.take(300).read_to_string(&mut text).ok()?;
    let plain: String = text.chars().filter(|c| !c.is_control()).collect();
    (!plain.is_empty()).then_some(plain)
}
