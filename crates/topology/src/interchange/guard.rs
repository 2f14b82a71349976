//! What files of strangers may not do: be endless, nest without end, or name things so that they mislead a terminal
//! or a path.

use super::{Flaw, InterchangeError};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The most bytes of a file: a topology of a million links needs a tenth of that.
pub const FILE_BYTES_MAX: u64 = 1 << 30;

/// How deep elements may lie in each other. Labs nest five deep, GraphML of yEd a dozen.
pub(crate) const DEPTH_MAX: usize = 100;

/// The most characters of a name: file names and interface names end at 255.
const NAME_MAX: usize = 255;

/// The text of a regular file of at most [`FILE_BYTES_MAX`] bytes.
///
/// # Errors
/// If there is no such file, it is something else (a folder, a device, a pipe), too large, or not UTF-8.
pub fn read_text(path: &Path) -> Result<String, InterchangeError> {
    read(path).map_err(|flaw| flaw.in_file(&path.display().to_string()))
}

fn read(path: &Path) -> Result<String, Flaw> {
    let flaw = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Flaw::of_file("there is no such file"),
        _ => Flaw::of_file(error.to_string()),
    };
    let about = std::fs::metadata(path).map_err(flaw)?;
    if !about.is_file() {
        return Err(Flaw::of_file("this is not a regular file: name a file on disk"));
    }
    let too_large = || Flaw::of_file(format!("the file has more than {} MiB", FILE_BYTES_MAX >> 20));
    if about.len() > FILE_BYTES_MAX {
        return Err(too_large());
    }
    let mut text = String::new();
    // What the file system says may not be so (under /proc everything has zero bytes).
    let read = File::open(path).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    if read.map_err(flaw)? as u64 > FILE_BYTES_MAX { Err(too_large()) } else { Ok(text) }
}

/// A message if `name` may not be the name of a node or a port: names are printed on terminals, written into other
/// formats and become parts of paths.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let hidden = |c: char| {
        // Besides control characters those that reorder or hide text (Unicode TR 36, section 2.5).
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    if name.chars().any(hidden) {
        return Err(format!("the name {} has a control or invisible character: take it out", shown(name)));
    }
    if name.split(['/', '\\']).any(|part| part == "..") || name == "." {
        return Err(format!("the name {} would be a path to another folder: rename it", shown(name)));
    }
    if name.chars().count() > NAME_MAX {
        return Err(format!("the name {} has more than {NAME_MAX} characters: shorten it", shown(name)));
    }
    Ok(())
}

/// A name for a message: everything unusual escaped, not endless.
fn shown(name: &str) -> String {
    let start: String = name.chars().take(40).collect();
    let more = if start.len() < name.len() { "..." } else { "" };
    format!("\"{}{more}\"", start.escape_default())
}
