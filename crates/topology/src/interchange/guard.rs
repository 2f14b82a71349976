//! Limits on files from untrusted sources: their size, their nesting depth, and names that would mislead a
//! terminal or a path.

use super::{Flaw, InterchangeError};
use pauseframe_units::files;
use std::path::Path;

/// Maximum nesting depth of elements. Labs nest five deep, GraphML files of yEd about twelve.
pub(crate) const DEPTH_MAX: usize = 100;

/// Maximum number of characters of a name: file names and interface names have at most 255.
const NAME_MAX: usize = 255;

/// Reads the text of a regular file of limited size.
///
/// # Errors
/// If the file does not exist, is not a regular file (a folder, a device, a pipe), is too large, or is not
/// UTF-8.
pub fn read_text(path: &Path) -> Result<String, InterchangeError> {
    let flaw = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Flaw::of_file("there is no such file"),
        _ => Flaw::of_file(error.to_string()),
    };
    files::read_text(path).map_err(|error| flaw(error).in_file(&path.display().to_string()))
}

/// Returns a message if `name` is not allowed for a node or a port: names are printed on terminals, written
/// into other formats and become parts of paths.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let hidden = |c: char| {
        // Besides control characters, names must not contain characters that reorder or hide text (Unicode TR
        // 36, section 2.5).
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

/// Formats a name for a message: escapes unusual characters and limits the length.
pub(super) fn shown(name: &str) -> String {
    let start: String = name.chars().take(40).collect();
    let more = if start.len() < name.len() { "..." } else { "" };
    format!("\"{}{more}\"", start.escape_default())
}
