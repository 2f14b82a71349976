//! From a scenario file to results on disk.

mod build;
mod run;
pub mod spec;
pub mod results;
pub mod workload;
pub mod error;
pub mod presets;
pub mod resolve;

pub use error::{Problem, ScenarioError};
pub use resolve::{Input, Resolved, resolve};
pub use pauseframe_engine::Control;
pub use run::{RunOptions, RunProgress, RunResults, run};
