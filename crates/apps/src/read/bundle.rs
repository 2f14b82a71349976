//! The files of a trace, also as one text, so that a scenario for another machine can contain its traces.
//!
//! The text is the base64 encoding of the zstd-compressed concatenation of the files, each after its name and
//! its length.

use super::text::{ReadError, at_file};
use super::{Format, ReadOptions, Source, files, open, parse, recognise, short, unpack_zstd};
use crate::application::Application;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pauseframe_units::limits::Limit;
use std::io::ErrorKind;
use std::path::Path;

/// The files of a trace, decompressed.
#[derive(Debug)]
pub struct Bundle {
    name: String,
    sources: Vec<Source>,
}

impl Bundle {
    /// Reads a file, or all files of a folder.
    ///
    /// # Errors
    /// The name of the file that cannot be read or decompressed.
    pub fn open(path: &Path) -> Result<Bundle, ReadError> {
        let (mut sources, mut bytes) = (Vec::new(), 0);
        for file in files(path)? {
            let source = open(&file)?;
            bytes += source.bytes.len() as u64;
            Limit::Bytes
                .check(bytes, "bytes of this folder's files")
                .map_err(|reason| at_file(&source.name, reason))?;
            sources.push(source);
        }
        let name = path.file_name().map_or_else(String::new, |name| {
            let name = name.to_string_lossy();
            let parts: Vec<&str> = name.split('.').collect();
            let kept = parts.iter().take_while(|part| !matches!(**part, "zst" | "gz" | "txt"));
            kept.copied().collect::<Vec<_>>().join(".")
        });
        Ok(Bundle { name, sources })
    }

    /// Makes a bundle of one file from a text.
    pub fn of_text(name: &str, text: &str) -> Bundle {
        let source = Source { name: name.to_owned(), bytes: text.as_bytes().to_vec() };
        Bundle { name: name.to_owned(), sources: vec![source] }
    }

    /// The format in which the files are read: `given`, or what their contents show.
    pub fn format(&self, given: Option<Format>) -> Option<Format> {
        given.or_else(|| self.sources.first().and_then(recognise))
    }

    /// Reads the application from the files.
    ///
    /// # Errors
    /// The file, line and reason of the mistake.
    pub fn read(&self, format: Option<Format>, options: ReadOptions) -> Result<Application, ReadError> {
        parse(&self.name, &self.sources, format, options)
    }

    /// Name and text of the file, if the bundle has one file.
    ///
    /// # Errors
    /// If it has several, or is not text.
    pub fn single(&self) -> Result<(&str, &str), ReadError> {
        let source = super::one(&self.sources)?;
        Ok((short(&source.name), super::text::text(source)?))
    }

    /// Calls `take` with names and contents of all files, piece by piece, to compute a digest.
    pub fn digest(&self, mut take: impl FnMut(&[u8])) {
        for source in &self.sources {
            take(&(source.bytes.len() as u64).to_le_bytes());
            take(&source.bytes);
        }
    }

    /// Encodes the files as one text.
    ///
    /// # Errors
    /// If compression fails.
    pub fn to_text(&self) -> Result<String, ReadError> {
        let mut all = Vec::new();
        for text in std::iter::once(&self.name).chain(self.sources.iter().map(|source| &source.name)) {
            // Store file names without folders, because the folders belong to another machine.
            let name = short(text);
            all.extend((name.len() as u64).to_le_bytes());
            all.extend(name.as_bytes());
        }
        let mut head = (self.sources.len() as u64).to_le_bytes().to_vec();
        head.append(&mut all);
        for source in &self.sources {
            head.extend((source.bytes.len() as u64).to_le_bytes());
            head.extend(&source.bytes);
        }
        let packed = zstd::encode_all(head.as_slice(), 6)
            .map_err(|error| at_file(&self.name, format!("cannot be packed: {error}")))?;
        Ok(STANDARD.encode(packed))
    }

    /// Decodes the files from a text of [`Bundle::to_text`].
    ///
    /// # Errors
    /// If the text does not come from [`Bundle::to_text`].
    pub fn from_text(text: &str) -> Result<Bundle, ReadError> {
        let wrong = || at_file("trace", "is not a packed trace, or cut short".to_owned());
        let packed = STANDARD.decode(text.trim()).map_err(|_| wrong())?;
        let all = unpack_zstd(&packed).map_err(|error| match error.kind() {
            ErrorKind::FileTooLarge => at_file("trace", error.to_string()),
            _ => wrong(),
        })?;
        let mut rest = all.as_slice();
        let count = take_length(&mut rest).ok_or_else(wrong)?;
        let mut names = Vec::new();
        for _ in 0..=count {
            let name = take_bytes(&mut rest).ok_or_else(wrong)?;
            names.push(String::from_utf8(name.to_vec()).map_err(|_| wrong())?);
        }
        let mut names = names.into_iter();
        let name = names.next().ok_or_else(wrong)?;
        let mut sources = Vec::new();
        for name in names {
            sources.push(Source { name, bytes: take_bytes(&mut rest).ok_or_else(wrong)?.to_vec() });
        }
        if sources.is_empty() || !rest.is_empty() { Err(wrong()) } else { Ok(Bundle { name, sources }) }
    }
}

fn take_length(rest: &mut &[u8]) -> Option<usize> {
    let (length, after) = rest.split_first_chunk()?;
    *rest = after;
    usize::try_from(u64::from_le_bytes(*length)).ok()
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = take_length(rest)?;
    let (bytes, after) = rest.split_at_checked(length)?;
    *rest = after;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_survives_as_text() {
        let text = "rank 0 of 1\n5 send 0 8 1\n0 recv 0 8 1\nend 0\n";
        let bundle = Bundle::of_text("self", text);
        let packed = bundle.to_text().unwrap();
        let again = Bundle::from_text(&packed).unwrap();
        let read = |bundle: &Bundle| bundle.read(None, ReadOptions::default()).unwrap();
        assert_eq!(read(&again), read(&bundle));
        for wrong in [&packed[..packed.len() - 8], "", "hello", "AAAA"] {
            assert!(Bundle::from_text(wrong).is_err(), "{wrong}");
        }
    }
}
