//! From a scenario file to results on disk.

mod build;
pub mod error;
pub mod presets;
pub mod resolve;
pub mod results;
mod run;
pub mod spec;
pub mod stacks;
pub mod workload;

pub use error::{Problem, ScenarioError};
pub use pauseframe_engine::Control;
pub use pauseframe_units::Time;
pub use resolve::{Input, Resolved, resolve};
pub use run::{RunOptions, RunProgress, RunResults, run};
