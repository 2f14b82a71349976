//! Resolves a scenario file, runs the scenario, and writes the results.

mod build;
pub mod flow_level;
mod headroom;
mod jobs;
#[cfg(test)]
mod late_tests;
pub mod packetdrill;
pub mod plugin;
pub mod presets;
mod report;
pub mod resolve;
mod run;
pub mod spec;
pub mod stacks;
pub mod switch_models;
mod volume;

pub use flow_level::{FlowOptions, FlowResults, run_flow_level};
pub use headroom::{HeadroomRow, headroom};
pub use pauseframe_engine::RunCallbackDecision;
pub use pauseframe_results as results;
pub use pauseframe_schema::error::{self, Problem, ScenarioError};
pub use pauseframe_schema::panics;
pub use pauseframe_schema::printable::printable;
pub use pauseframe_schema::terms::hint as term_hint;
/// The registry of congestion controls, and the contract that every congestion control must keep.
pub mod congestion_control {
    pub use pauseframe_rdma::cc::RdmaControl;
    pub use pauseframe_rdma::cc::contract::CONTRACT_RULES as RATE_CONTRACT_RULES;
    pub use pauseframe_transport::CongestionControlConfig;
    pub use pauseframe_transport::contract::CONTRACT_RULES;
}
pub use pauseframe_units::Time;
pub use pauseframe_workload as workload;
pub use resolve::{Input, Resolved, resolve};
pub use run::{RunOptions, RunProgress, RunResults, run};
