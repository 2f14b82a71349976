//! Opens files that a user names: regular files up to a size limit, so that a device cannot fill the memory
//! and a pipe cannot block the program.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Largest file that the program reads: 1 GiB. A topology of a million links needs a tenth of this limit; the
/// forwarding tables of 2,000 switches need a seventh.
pub const FILE_MAX: u64 = 1 << 30;

/// Opens a regular file of at most [`FILE_MAX`] bytes.
///
/// # Errors
/// The error of the operating system; for a folder, a device, a pipe or a larger file, a message that says
/// which files are accepted.
pub fn open(path: &Path) -> io::Result<File> {
    // Check the file before opening it, because opening a pipe would wait for its other end.
    check(&std::fs::metadata(path)?)?;
    let file = File::open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// Reads the text of a regular file of at most [`FILE_MAX`] bytes.
///
/// # Errors
/// The errors of [`open`]; also if the bytes are not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    // Files of /proc report a size of zero, and a file may grow while it is read.
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
