//! One process at a time writes to a results folder.
//!
//! The lock is the operating system's (`flock`, `LockFileEx`) on a file in the folder: it goes when the process does,
//! however that ends, so a killed run is in nobody's way. Only the holder removes the file, and who has locked a file
//! that is not in its place any more begins anew. Where a file system has no locks, there is none.

use super::RunError;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// The file, while results are being written.
pub(super) const NAME: &str = ".lock";
/// So often another process can have removed the file between opening and locking it.
const TRIES: u32 = 100;

/// Held while results are being written.
#[derive(Debug)]
pub(super) struct FolderLock {
    path: PathBuf,
    /// Holds the lock until it is closed.
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
        // Elsewhere it stays: without file numbers nobody could tell that it is not in its place any more.
        if cfg!(unix) {
            // A file that stays is taken for what a killed run has left.
            let _ = fs::remove_file(&self.path);
        }
        let _ = self.file.unlock();
    }
}

/// The file, new or as another process has left it; never what a link in its place leads to.
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

/// Whether `file` is what stands at `path`: not removed meanwhile, and not reached by a link.
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

/// Who holds the lock, as it has signed.
fn holder(file: File) -> Option<String> {
    let mut text = String::new();
    file.take(300).read_to_string(&mut text).ok()?;
    let plain: String = text.chars().filter(|c| !c.is_control()).collect();
    (!plain.is_empty()).then_some(plain)
}
