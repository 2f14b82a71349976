//! Tests of the public interface: one file per subject, one binary.

mod closed_forms;
mod common;
mod conformance;
mod fuzz;
mod linux_receiver;
