//! Splits text into lines and words, and reports mistakes.

use super::Source;
use std::str::{FromStr, SplitAsciiWhitespace};
use thiserror::Error;

/// Reason why a trace cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{}: {reason}", place(file, *line))]
pub struct ReadError {
    /// Name of the file.
    pub file: String,
    /// The line, counted from 1; 0 if the mistake is not in a specific line.
    pub line: u32,
    /// The mistake and the allowed contents.
    pub reason: String,
}

fn place(file: &str, line: u32) -> String {
    if line > 0 { format!("{file}:{line}") } else { file.to_owned() }
}

pub(super) fn at_file(file: &str, reason: String) -> ReadError {
    ReadError { file: file.to_owned(), line: 0, reason }
}

/// Maximum number of ranks, so that a mistyped number cannot exhaust the memory.
pub(super) const RANKS_MAX: usize = 1 << 20;

/// Number of line breaks.
#[expect(clippy::naive_bytecount, reason = "a file is counted once; a crate for it would save a millisecond")]
pub(super) fn breaks(bytes: &[u8]) -> usize {
    bytes.iter().filter(|&&byte| byte == b'\n').count()
}

/// The text of a file.
pub(super) fn text(source: &Source) -> Result<&str, ReadError> {
    std::str::from_utf8(&source.bytes).map_err(|error| {
        let before = &source.bytes[..error.valid_up_to()];
        let line = breaks(before) as u32 + 1;
        ReadError { file: source.name.clone(), line, reason: "is not text".to_owned() }
    })
}

/// Adds a hint to a mistake in the last line of a file that does not end with a line break: the file may be
/// truncated.
pub(super) fn with_hint(source: &Source, mut error: ReadError) -> ReadError {
    if source.name == error.file && error.line as usize == breaks(&source.bytes) + 1 {
        error.reason += " (The file ends here: it may be cut short.)";
    }
    error
}

/// One line, which is read word by word.
pub(crate) struct Line<'a> {
    pub(crate) file: &'a str,
    pub(crate) number: u32,
    words: SplitAsciiWhitespace<'a>,
}

impl<'a> Line<'a> {
    pub(crate) fn new(file: &'a str, number: u32, text: &'a str) -> Line<'a> {
        Line { file, number, words: text.split_ascii_whitespace() }
    }

    pub(crate) fn error(&self, reason: impl Into<String>) -> ReadError {
        ReadError { file: self.file.to_owned(), line: self.number, reason: reason.into() }
    }

    /// The next word, if there is one.
    pub(crate) fn next(&mut self) -> Option<&'a str> {
        self.words.next()
    }

    /// The next word; `what` describes the expected word in the error message.
    pub(crate) fn word(&mut self, what: &str) -> Result<&'a str, ReadError> {
        self.words.next().ok_or_else(|| self.error(format!("ends before {what}")))
    }

    /// Reads a number.
    pub(crate) fn number<T: FromStr>(&mut self, what: &str) -> Result<T, ReadError> {
        let word = self.word(what)?;
        self.parse(word, what)
    }

    /// Reads a number, if the line has another word.
    pub(crate) fn optional<T: FromStr>(&mut self, what: &str) -> Result<Option<T>, ReadError> {
        self.words.next().map(|word| self.parse(word, what)).transpose()
    }

    /// Reads a number or `any`.
    pub(crate) fn number_or_any<T: FromStr>(&mut self, what: &str) -> Result<Option<T>, ReadError> {
        match self.word(what)? {
            "any" => Ok(None),
            word => self.parse(word, what).map(Some),
        }
    }

    /// Reads a tag; negative tags are invalid (MPI 4.0 §3.2.3).
    pub(crate) fn tag(&mut self) -> Result<i32, ReadError> {
        let word = self.word("a tag")?;
        self.parse_tag(word)
    }

    /// Reads a tag or `any`.
    pub(crate) fn tag_or_any(&mut self) -> Result<Option<i32>, ReadError> {
        match self.word("a tag")? {
            "any" => Ok(None),
            word => self.parse_tag(word).map(Some),
        }
    }

    fn parse_tag(&self, word: &str) -> Result<i32, ReadError> {
        let tag = word.parse().ok().filter(|&tag: &i32| tag >= 0);
        tag.ok_or_else(|| self.error(format!("a tag cannot be '{word}'")))
    }

    /// Reads the number of ranks of a trace.
    pub(crate) fn ranks(&mut self) -> Result<usize, ReadError> {
        let ranks = self.number("the number of ranks")?;
        if ranks > RANKS_MAX {
            return Err(self.error(format!("tells of {ranks} ranks; at most {RANKS_MAX}")));
        }
        Ok(ranks)
    }

    pub(crate) fn parse<T: FromStr>(&self, word: &str, what: &str) -> Result<T, ReadError> {
        word.parse().map_err(|_| self.error(format!("{what} cannot be '{word}'")))
    }

    /// Checks that the line has no further word.
    pub(crate) fn end(&mut self) -> Result<(), ReadError> {
        match self.words.next() {
            Some(word) => Err(self.error(format!("has '{word}' where it should end"))),
            None => Ok(()),
        }
    }

    /// The error for an unknown word.
    pub(crate) fn unknown(&self, what: &str, word: &str, known: &[&str]) -> ReadError {
        let nearest = known
            .iter()
            .max_by(|a, b| strsim::jaro_winkler(a, word).total_cmp(&strsim::jaro_winkler(b, word)));
        let hint = nearest.map_or(String::new(), |nearest| format!("; did you mean '{nearest}'?"));
        self.error(format!("knows no {what} '{word}'{hint}"))
    }
}
