//! Files that become part of a scenario: relative to it, identified by their digest, and contained in the resolved
//! scenario, which can then run elsewhere (a sweep sends it to other machines).

use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;
use pauseframe_schema::value::Setting;
use sha2::{Digest, Sha256};
use std::path::Path;

/// Larger texts stay in their files: a scenario may have 16 MiB.
const EMBEDDED_MAX: usize = 8 << 20;

/// A file that was read.
pub(crate) struct Source {
    /// Name of the file in messages.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) digest: String,
}

/// Reads the file at `path`, or uses `text`. `load` reads a path, which may be a folder.
pub(crate) fn source(
    t: &mut Table,
    base_dir: &Path,
    what: &str,
    load: impl Fn(&Path) -> Result<String, String>,
) -> Option<Source> {
    let path: Option<String> =
        t.optional("path", "none: see text", &format!("{what}, relative to the scenario"));
    let given = t.source::<String>("text", "that of the file", "Text of the file, instead of reading it");
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

/// The digest of the text, which must equal that of the file's key, if given.
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
