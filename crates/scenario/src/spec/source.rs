//! Files that become part of a scenario: found beside it, told by their digest, and put into the resolved scenario whole,
//! so that it can be run where they are not (a sweep sends it to other machines).

use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;
use pauseframe_schema::value::Setting;
use sha2::{Digest, Sha256};
use std::path::Path;

/// Larger texts stay where they are: a scenario may have 16 MiB.
const EMBEDDED_MAX: usize = 8 << 20;

/// A file that was read.
pub(crate) struct Source {
    /// What messages call it.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) digest: String,
}

/// Reads the file that `path` names, or takes `text`. `load` reads a path, which may be a folder.
pub(crate) fn source(
    t: &mut Table,
    base_dir: &Path,
    what: &str,
    load: impl Fn(&Path) -> Result<String, String>,
) -> Option<Source> {
    let path: Option<String> =
        t.optional("path", "none: see text", &format!("{what}, relative to the scenario"));
    let given = t.source::<String>("text", "that of the file", "Its text, instead of reading the file");
    let (name, text, origin) = match (path, given) {
        (path, Some(text)) => (path.unwrap_or_else(|| t.at("text")), text, None),
        (Some(path), None) => {
            let found = base_dir.join(&path);
            match load(&found) {
                Ok(text) => {
                    let origin = Origin::Computed(format!("read from {path}"));
                    (path, text, Some(origin))
                }
                Err(message) => {
                    t.check(false, "path", || message, "name a file, relative to the scenario");
                    return None;
                }
            }
        }
        (None, None) => {
            t.check(t.is_documenting(), "path", || "is required: a file, or its text".to_owned(), "");
            digest(t, "");
            return None;
        }
    };
    let digest = digest(t, &text)?;
    let embedded = text.len() <= EMBEDDED_MAX;
    match origin {
        Some(origin) if embedded => t.ledger.entry(t.at("text"), text.toml(), origin),
        Some(_) => t.ledger.warn(format!("{}: too long to be kept in the resolved scenario", t.at("path"))),
        None => t.ledger.entry(t.at("text"), text.toml(), t.origin_of("text")),
    }
    Some(Source { name, text, digest })
}

/// The digest, which must be that of the text if the file gives one.
fn digest(t: &mut Table, text: &str) -> Option<String> {
    let mut found = "sha256:".to_owned();
    for byte in Sha256::digest(text.as_bytes()) {
        found.extend(
            [byte >> 4, byte & 15].map(|nibble| char::from(b"0123456789abcdef"[usize::from(nibble)])),
        );
    }
    let origin = Origin::Computed("of the text".to_owned());
    let doc = "SHA-256 of the text; other text is an error";
    let wanted = t.or_because("digest", found.clone(), origin, "computed", doc);
    let message = || format!("the text has the digest {found}: it is not the one that was meant");
    t.check(wanted == found || t.is_documenting(), "digest", message, "restore the file, or remove digest");
    (wanted == found).then_some(found)
}
