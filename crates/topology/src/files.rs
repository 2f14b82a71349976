//! Opens files that a user names: regular ones up to a limit, so that a device or a pipe neither fills the memory nor
//! blocks.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Maximum file size: 1 GiB. A topology of a million links needs a tenth of that, tables of 2,000 switches a seventh.
pub const FILE_MAX: u64 = 1 << 30;

/// Opens a regular file of at most [`FILE_MAX`] bytes.
///
/// # Errors
/// The system's error; for a folder, a device, a pipe or a larger file, also the remedy.
pub fn open(path: &Path) -> io::Result<File> {
    // Checked before opening, because opening a pipe would wait for its other end.
    check(&std::fs::metadata(path)?)?;
    let file = File::open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// The text of such a file.
///
/// # Errors
/// As [`open`], and for bytes that are not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    // Files of /proc report an empty size, and a file may grow while it is read.
    open(path)?.take(FILE_MAX + 1).read_to_end(&mut bytes)?;
    check_size(bytes.len() as u64)?;
    String::from_utf8(bytes).map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "this is not UTF-8 text"))
}

fn check(found: &std::fs::Metadata) -> io::Result<()> {
    if !found.is_file() {
        let what = if found.is_dir() { "a folder" } else { "a device, a pipe or a socket" };
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("this is {what}: name a regular file"),
        ));
    }
    check_size(found.len())
}

fn check_size(bytes: u64) -> io::Result<()> {
    if bytes <= FILE_MAX {
        return Ok(());
    }
    let message =
        format!("{} MB and more; files of up to {} MiB are read", bytes / 1_000_000, FILE_MAX >> 20);
    Err(io::Error::new(io::ErrorKind::FileTooLarge, message))
}
