//! Readers of traces. Each reader makes an [`Application`], or reports file, line and reason.

mod bundle;
mod chakra;
mod goal;
mod goal_binary;
mod npb;
mod simgrid;
pub(crate) mod text;

pub use bundle::Bundle;
pub use text::ReadError;

use crate::application::Application;
use pauseframe_units::files;
use pauseframe_units::limits::Limit;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use text::{at_file, breaks, with_hint};

/// A trace format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// `npb-pmpi-trace`: one text file for all ranks.
    Pmpi,
    /// `SimGrid`'s time-independent traces: one text file, or one file per rank.
    SimGrid,
    /// GOAL (group operation assembly language) of `LogGOPSim` and ATLAHS, text or binary.
    Goal,
    /// Chakra execution traces: one protobuf file per rank.
    Chakra,
}

impl Format {
    /// All formats with their names in files.
    pub const ALL: [(Format, &'static str); 4] = [
        (Format::Pmpi, "pmpi"),
        (Format::SimGrid, "simgrid"),
        (Format::Goal, "goal"),
        (Format::Chakra, "chakra"),
    ];

    /// The format with this name.
    pub fn named(name: &str) -> Option<Format> {
        Self::ALL.into_iter().find(|&(_, known)| known == name).map(|(format, _)| format)
    }
}

/// Parameters that a trace does not contain.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ReadOptions {
    /// Floating-point operations per second of a rank, for traces that count such operations.
    pub flops: f64,
}

impl Default for ReadOptions {
    fn default() -> Self {
        ReadOptions { flops: 1e9 }
    }
}

/// One file, decompressed.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) bytes: Vec<u8>,
}

/// Reads a trace: a file, or a folder with a file for each rank. Files compressed with zstd or gzip are
/// decompressed; without `format`, the contents determine the format.
///
/// # Errors
/// The file, line and reason of the mistake.
pub fn read(path: &Path, format: Option<Format>, options: ReadOptions) -> Result<Application, ReadError> {
    Bundle::open(path)?.read(format, options)
}

/// Parses the application from the files of a trace.
fn parse(
    name: &str,
    sources: &[Source],
    format: Option<Format>,
    options: ReadOptions,
) -> Result<Application, ReadError> {
    let first = &sources[0];
    if let Some(empty) = sources.iter().find(|source| source.bytes.iter().all(u8::is_ascii_whitespace)) {
        return Err(at_file(&empty.name, "is empty".to_owned()));
    }
    let Some(format) = format.or_else(|| recognise(first)) else {
        let known: Vec<&str> = Format::ALL.iter().map(|&(_, name)| name).collect();
        let reason = format!("is none of these: {}; name its format with the key format", known.join(", "));
        return Err(at_file(&first.name, reason));
    };
    // A step has a line; nodes of a Chakra trace are counted as they are read.
    let lines = sources.iter().map(|source| breaks(&source.bytes) as u64).sum();
    if format != Format::Chakra {
        Limit::Steps.check(lines, "lines").map_err(|reason| at_file(&first.name, reason))?;
    }
    let read = match format {
        Format::Pmpi => npb::read(one(sources)?),
        Format::Goal if goal_binary::recognise(&first.bytes) => goal_binary::read(one(sources)?),
        Format::Goal => goal::read(one(sources)?),
        Format::SimGrid => simgrid::read(sources, options),
        Format::Chakra => chakra::read(sources),
    };
    let hint = |error| sources.iter().fold(error, |error, source| with_hint(source, error));
    let mut application = read.map_err(hint)?;
    name.clone_into(&mut application.name);
    application.files = sources.iter().map(|source| short(&source.name).to_owned()).collect();
    crate::check::check(&application).map_err(|fault| {
        let file = if sources.len() == 1 { &first.name } else { &sources[fault.rank as usize].name };
        // Nodes of a Chakra trace have no line numbers, so messages contain the node's index in the file.
        let node = format!("node {} of the file: ", fault.step + 1);
        let place = if format == Format::Chakra { node.as_str() } else { "" };
        let reason = format!("rank {}: {place}{}", fault.rank, fault.reason);
        ReadError { file: file.clone(), line: fault.line, reason }
    })?;
    Ok(application)
}

fn one(sources: &[Source]) -> Result<&Source, ReadError> {
    match sources {
        [source] => Ok(source),
        _ => {
            Err(at_file(&sources[0].name, "this format has all ranks in one file; name the file".to_owned()))
        }
    }
}

/// The files of a trace: in a folder, the files with a number before their extension, sorted by that number.
fn files(path: &Path) -> Result<Vec<PathBuf>, ReadError> {
    let name = path.display().to_string();
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).map_err(|error| at_file(&name, error.to_string()))?;
    let mut numbered = Vec::new();
    for entry in entries {
        let file = entry.map_err(|error| at_file(&name, error.to_string()))?.path();
        if let Some(number) = rank_in_name(&file.to_string_lossy()) {
            numbered.push((number, file));
        }
    }
    numbered.sort();
    for (expected, (number, file)) in (0..).zip(&numbered) {
        if *number != expected {
            let reason = format!("is for rank {number}, and there is no file for rank {expected} beside it");
            return Err(at_file(&file.display().to_string(), reason));
        }
    }
    if numbered.is_empty() {
        return Err(at_file(&name, "has no file with the number of a rank in its name".to_owned()));
    }
    Ok(numbered.into_iter().map(|(_, file)| file).collect())
}

/// A file's name without its folders.
fn short(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The last number in a file name, which is the rank if the file contains one rank.
fn rank_in_name(path: &str) -> Option<u32> {
    let name = short(path);
    let stem = name.trim_end_matches(".zst").trim_end_matches(".gz");
    let stem = stem.rsplit_once('.').map_or(stem, |(stem, _)| stem);
    let digits = stem.rsplit(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// Reads and decompresses a file.
fn open(path: &Path) -> Result<Source, ReadError> {
    let name = path.display().to_string();
    let packed = files::read(path).map_err(|error| at_file(&name, error.to_string()))?;
    let unpacked = match packed.as_slice() {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => unpack_zstd(&packed),
        [0x1f, 0x8b, ..] => files::read_all(flate2::read::MultiGzDecoder::new(packed.as_slice())),
        _ => Ok(packed),
    };
    let bytes = unpacked.map_err(|error| at_file(&name, format!("cannot be unpacked: {error}")))?;
    Ok(Source { name, bytes })
}

fn unpack_zstd(packed: &[u8]) -> io::Result<Vec<u8>> {
    files::read_all(zstd::Decoder::new(packed)?)
}

/// Recognises the format of a file by its first bytes.
fn recognise(source: &Source) -> Option<Format> {
    if goal_binary::recognise(&source.bytes) {
        return Some(Format::Goal);
    }
    if chakra::recognise(&source.bytes) {
        return Some(Format::Chakra);
    }
    let start = String::from_utf8_lossy(&source.bytes[..source.bytes.len().min(4096)]).into_owned();
    if start.starts_with("# npb-pmpi-trace") {
        return Some(Format::Pmpi);
    }
    start.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().take(3).collect();
        match words.as_slice() {
            ["num_ranks", ..] | ["rank", _, "{"] => Some(Format::Goal),
            ["rank", _, "of"] => Some(Format::Pmpi),
            [_, "init", ..] => Some(Format::SimGrid),
            _ => None,
        }
    })
}
