//! Errors of a run that the scenario did not cause.

use std::io;
use std::path::{Path, PathBuf};

/// The run failed, or its results could not be saved.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The output folder is not empty, and the caller did not allow overwriting.
    #[error("the results folder {} is not empty: name another one, or replace its results with --force (in Python: force=True)", .path.display())]
    OutputExists {
        /// Path of the output folder.
        path: PathBuf,
    },
    /// Overwriting is allowed, but the folder holds files of another program.
    #[error(
        "the folder {} holds files but no manifest of pauseframe: it is left as it is, name another one",
        .path.display()
    )]
    ForeignFolder {
        /// Path of the output folder.
        path: PathBuf,
    },
    /// Another process is writing to the output folder.
    #[error("{holder} is writing results to the folder {}: wait for its end, or name another folder", .path.display())]
    InUse {
        /// Path of the output folder.
        path: PathBuf,
        /// The process that holds the lock on the folder, as far as that process is known.
        holder: String,
    },
    /// The scenario would record more data than the limit allows.
    #[error("{0}")]
    TooLarge(Box<pauseframe_schema::error::Problem>),
    /// An application of the scenario cannot run.
    #[error("{0}")]
    Refused(Box<pauseframe_schema::error::Problem>),
    /// The user interrupted the writing of the results.
    #[error("interrupted while the results were written. {left}")]
    Interrupted {
        /// The files that are complete and stay in the folder.
        left: String,
    },
    /// The system could not write a file or folder.
    #[error("cannot write {}: {cause}. {left}", .path.display())]
    Write {
        /// Path of the file or folder.
        path: PathBuf,
        /// The system's error.
        #[source]
        cause: io::Error,
        /// The files that are complete and stay in the folder.
        left: String,
    },
    /// The Linux kernel of the hosts failed.
    #[error("the kernel of scenario {scenario:?}, seed {seed}, failed at simulated time {time}: {message}")]
    Kernel {
        /// Name of the scenario.
        scenario: String,
        /// Master seed of the run.
        seed: u64,
        /// Simulated time of the failure.
        time: pauseframe_units::Time,
        /// The last lines of the kernel.
        message: String,
    },
    /// An internal assertion failed, so the results would be wrong.
    #[error(
        "internal error in scenario {scenario:?}, seed {seed}, at simulated time {time}: {message}. This is a bug of \
         pauseframe; reproduce it with: pauseframe run scenario.resolved.toml --seed {seed}"
    )]
    Internal {
        /// Name of the scenario.
        scenario: String,
        /// Master seed of the run.
        seed: u64,
        /// Simulated time of the failed assertion.
        time: pauseframe_units::Time,
        /// The violated invariant, and its place in the network.
        message: String,
    },
    /// A plug-in returned an invalid value.
    #[error("{message}. The run of scenario {scenario:?} with seed {seed} ended at simulated time {time}")]
    Plugin {
        /// Name of the scenario.
        scenario: String,
        /// Master seed of the run.
        seed: u64,
        /// Simulated time of the invalid value.
        time: pauseframe_units::Time,
        /// The plug-in, the flow, and the invalid value.
        message: String,
    },
    /// What the caller asks for does not fit the scenario, or this level of simulation.
    #[error("{0}")]
    Input(String),
    /// The network could not be built.
    #[error("cannot build the network: {0}")]
    Build(String),
    /// A table of a sweep could not be compressed or decompressed.
    #[error("a table of a sweep cannot be read or written: {cause}")]
    Packed {
        /// The error message of the decoder.
        cause: String,
    },
    /// A results file could not be read.
    #[error("cannot read {}: {cause}", .path.display())]
    Read {
        /// Path of the file that could not be read.
        path: PathBuf,
        /// The error of the decoder or of the system.
        cause: String,
    },
}

impl RunError {
    /// The error for a failure to read `path`.
    pub(super) fn read(path: &Path, cause: &dyn std::fmt::Display) -> RunError {
        RunError::Read { path: path.to_path_buf(), cause: cause.to_string() }
    }
}
