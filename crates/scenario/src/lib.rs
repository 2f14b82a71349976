//! From a scenario file to results on disk.

mod build;
pub mod error;
pub mod flow_level;
pub mod presets;
pub mod resolve;
pub mod results;
mod run;
pub mod spec;
pub mod workload;

pub use error::{Problem, ScenarioError};
pub use flow_level::{FlowOptions, FlowResults, run_flow_level};
pub use pauseframe_engine::Control;
pub use pauseframe_units::Time;
pub use resolve::{Input, Resolved, resolve};
pub use run::{RunOptions, RunProgress, RunResults, run};
