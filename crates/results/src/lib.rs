//! The results of a run: names, tables, the summary, and the results folder (docs/reference/results.md).

pub mod collectives;
pub mod column;
pub mod conweave;
mod error;
mod flow_table;
mod folder;
pub mod jobs;
pub mod kernel;
mod lock;
pub mod lossless;
pub mod pack;
pub mod parquet_file;
pub mod paths;
pub mod pcapng;
mod read;
mod reference;
mod roce;
mod rows;
mod series;
pub mod states;
mod summary;
pub mod tables;
pub mod tunnels;

pub use error::RunError;
pub use flow_table::FlowTable;
pub use folder::{Manifest, PendingFile, PluginRecord, ResultsFolder, TableWriter};
pub use jobs::{JobResult, JobTimeline, RankResult};
pub use read::{check_table, read_table};
pub use reference::reference;
pub use rows::{DropsByReason, Names};
pub use series::Series;
pub use summary::percentile;
pub use summary::{
    CompletionTimes, RememberedSteps, RunFacts, RunStatus, Slowdowns, Summary, peak_rss_bytes,
};

/// The version of pauseframe that results record.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
