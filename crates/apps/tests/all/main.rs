//! Tests of the public interface: one file per subject, one binary.

mod collectives;
mod common;
mod damaged;
mod readers;
