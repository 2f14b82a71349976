//! Opens files that a user names: regular files up to a size limit, so that a device cannot fill the memory
//! and a pipe cannot block the program.

use crate::limits::Limit;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Opens a regular file of at most [`Limit::Bytes`].
///
/// # Errors
/// The error of the operating system; for a folder, a device, a pipe or a larger file, a message that says
/// which files are accepted.
pub fn open(path: &Path) -> io::Result<File> {
    // Check the file before opening it, because opening a pipe would wait for its other end.
    check(&std::fs::metadata(path).map_err(|error| or_similar_name(path, error))?)?;
    let file = File::open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// Reads a regular file of at most [`Limit::Bytes`].
///
/// # Errors
/// The errors of [`open`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    // Files of /proc report a size of zero, and a file may grow while it is read.
    read_all(open(path)?)
}

/// Reads the text of a regular file of at most [`Limit::Bytes`].
///
/// # Errors
/// The errors of [`open`]; also if the bytes are not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "this is not UTF-8 text"))
}

/// Reads a text of at most [`Limit::Rows`] lines.
///
/// # Errors
/// The errors of [`read_text`]; also if there are more lines.
pub fn read_rows(path: &Path) -> io::Result<String> {
    let text = read_text(path)?;
    Limit::Rows
        .check(text.bytes().filter(|&byte| byte == b'\n').count() as u64, "lines")
        .map_err(too_large)?;
    Ok(text)
}

/// Reads to the end of `source`, such as a decompressor, at most [`Limit::Bytes`].
///
/// # Errors
/// The errors of `source`; also if it has more bytes.
pub fn read_all(source: impl Read) -> io::Result<Vec<u8>> {
    let limit = Limit::Bytes.value().map_err(too_large)?;
    let mut bytes = Vec::new();
    source.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(too_large(Limit::Bytes.exceeded("bytes").unwrap_or_else(|error| error)));
    }
    Ok(bytes)
}

/// Says that a file is missing, and which one beside it has a similar name.
fn or_similar_name(path: &Path, error: io::Error) -> io::Error {
    /// Files of a folder that are compared.
    const COMPARED_MAX: usize = 1000;
    if error.kind() != io::ErrorKind::NotFound {
        return error;
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(entries) = std::fs::read_dir(folder) else {
        return io::Error::new(error.kind(), format!("there is no folder {}", folder.display()));
    };
    let names = entries.take(COMPARED_MAX).filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let wanted = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let distance = |name: &String| strsim::damerau_levenshtein(wanted, name);
    let near =
        names.map(|name| (distance(&name), name)).min().filter(|(far, _)| *far <= 1 + wanted.len() / 4);
    let hint = near.map_or_else(String::new, |(_, name)| format!(" (did you mean {name}?)"));
    io::Error::new(error.kind(), format!("there is no such file{hint}"))
}

fn check(found: &std::fs::Metadata) -> io::Result<()> {
    if !found.is_file() {
        let what = if found.is_dir() { "a folder" } else { "a device, a pipe or a socket" };
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("this is {what}: name a regular file"),
        ));
    }
    Limit::Bytes.check(found.len(), "bytes").map_err(too_large)
}

fn too_large(message: String) -> io::Error {
    io::Error::new(io::ErrorKind::FileTooLarge, message)
}
