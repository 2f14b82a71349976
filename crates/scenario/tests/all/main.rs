//! Tests of the public interface: one file or folder per subject, one binary.
#![expect(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod applications;
mod clocks;
mod common;
mod faults;
mod flow_level;
mod killed_run;
mod link_layer_repros;
mod outside;
mod resolve;
mod training;
