//! Errors of a run that are not mistakes in its scenario.

use std::io;
use std::path::{Path, PathBuf};

/// The run failed, or its results could not be stored.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The results folder is not empty, and replacing was not requested.
    #[error("the results folder {} is not empty: name another one, or replace its results with --force", .path.display())]
    OutputExists {
        /// The folder.
        path: PathBuf,
    },
    /// Replacing was requested, but the folder is not a results folder.
    #[error(
        "the folder {} holds files but no manifest of pauseframe: it is left as it is, name another one",
        .path.display()
    )]
    ForeignFolder {
        /// The folder.
        path: PathBuf,
    },
    /// Another process is writing to the folder.
    #[error("{holder} is writing results to the folder {}: wait for its end, or name another folder", .path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
        /// The writing process, if known.
        holder: String,
    },
    /// The amount to record is excessive.
    #[error("{0}")]
    TooLarge(Box<pauseframe_schema::error::Problem>),
    /// An application cannot run.
    #[error("{0}")]
    Refused(Box<pauseframe_schema::error::Problem>),
    /// The caller stopped the writing of results.
    #[error("interrupted while the results were written. {left}")]
    Interrupted {
        /// The files that have been written before; they stay.
        left: String,
    },
    /// A file or folder could not be written.
    #[error("cannot write {}: {cause}. {left}", .path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// The system's message.
        #[source]
        cause: io::Error,
        /// The files that have been written before; they stay.
        left: String,
    },
    /// An internal assertion failed: the results would be wrong.
    #[error(
        "internal error in scenario {scenario:?}, seed {seed}, at simulated time {time}: {message}. This is a bug of \
         pauseframe; reproduce it with: pauseframe run scenario.resolved.toml --seed {seed}"
    )]
    Internal {
        /// Name of the scenario.
        scenario: String,
        /// Its seed.
        seed: u64,
        /// Time of the violation.
        time: pauseframe_units::Time,
        /// What was violated, and where.
        message: String,
    },
    /// A plug-in returned an invalid value.
    #[error("{message}. The run of scenario {scenario:?} with seed {seed} ended at simulated time {time}")]
    Plugin {
        /// Name of the scenario.
        scenario: String,
        /// Its seed.
        seed: u64,
        /// Time of the violation.
        time: pauseframe_units::Time,
        /// The plug-in, the flow, and the value.
        message: String,
    },
    /// The network could not be built.
    #[error("cannot build the network: {0}")]
    Build(String),
    /// A table of a sweep could not be packed or unpacked.
    #[error("a table of a sweep cannot be read or written: {cause}")]
    Packed {
        /// The problem.
        cause: String,
    },
    /// A file could not be read.
    #[error("cannot read {}: {cause}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The problem.
        cause: String,
    },
}

impl RunError {
    /// A failure to read `path`.
    pub(super) fn read(path: &Path, cause: &dyn std::fmt::Display) -> RunError {
        RunError::Read { path: path.to_path_buf(), cause: cause.to_string() }
    }
}
