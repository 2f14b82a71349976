//! What can go wrong with a run that its scenario is not to blame for.

use std::io;
use std::path::{Path, PathBuf};

/// The run could not be carried out, or its results not kept.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The folder for the results has something in it, and nobody asked to replace it.
    #[error("the results folder {} is not empty: name another one, or replace its results with --force", .path.display())]
    OutputExists {
        /// The folder.
        path: PathBuf,
    },
    /// Replacing was asked for, but what is there is not ours.
    #[error(
        "the folder {} holds files but no manifest of pauseframe: it is left as it is, name another one",
        .path.display()
    )]
    ForeignFolder {
        /// The folder.
        path: PathBuf,
    },
    /// Another process is writing there.
    #[error("{holder} is writing results to the folder {}: wait for its end, or name another folder", .path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
        /// Who is writing, as far as it is known.
        holder: String,
    },
    /// What is to be recorded is more than anybody is likely to want.
    #[error("{0}")]
    TooLarge(Box<pauseframe_schema::error::Problem>),
    /// An application cannot be carried out.
    #[error("{0}")]
    Refused(Box<pauseframe_schema::error::Problem>),
    /// Somebody did not want to wait until the results were written.
    #[error("interrupted while the results were written. {left}")]
    Interrupted {
        /// What has been written before and stays.
        left: String,
    },
    /// A file or folder could not be written.
    #[error("cannot write {}: {cause}. {left}", .path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
        /// What has been written before and stays.
        left: String,
    },
    /// The Linux kernel of the hosts failed.
    #[error("the kernel of scenario {scenario:?}, seed {seed}, failed at simulated time {time}: {message}")]
    Kernel {
        /// Name of the scenario.
        scenario: String,
        /// Its seed.
        seed: u64,
        /// When it happened.
        time: pauseframe_units::Time,
        /// What the kernel said.
        message: String,
    },
    /// An assertion of ours failed: the results would be wrong.
    #[error(
        "internal error in scenario {scenario:?}, seed {seed}, at simulated time {time}: {message}. This is a bug of \
         pauseframe; reproduce it with: pauseframe run scenario.resolved.toml --seed {seed}"
    )]
    Internal {
        /// Name of the scenario.
        scenario: String,
        /// Its seed.
        seed: u64,
        /// When it happened.
        time: pauseframe_units::Time,
        /// What was violated, and where.
        message: String,
    },
    /// A plug-in returned what makes no sense.
    #[error("{message}. The run of scenario {scenario:?} with seed {seed} ended at simulated time {time}")]
    Plugin {
        /// Name of the scenario.
        scenario: String,
        /// Its seed.
        seed: u64,
        /// When it happened.
        time: pauseframe_units::Time,
        /// Which plug-in, which flow, and what it did.
        message: String,
    },
    /// The network could not be built.
    #[error("cannot build the network: {0}")]
    Build(String),
    /// A table of a sweep could not be packed or unpacked.
    #[error("a table of a sweep cannot be read or written: {cause}")]
    Packed {
        /// What is wrong with it.
        cause: String,
    },
    /// A file could not be read.
    #[error("cannot read {}: {cause}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
}

impl RunError {
    /// A failure to read `path`.
    pub(super) fn read(path: &Path, cause: &dyn std::fmt::Display) -> RunError {
        RunError::Read { path: path.to_path_buf(), cause: cause.to_string() }
    }
}
