//! Tests of the public interface: one file per subject, one binary.
#![expect(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod common;
mod deadlock;
mod detours;
mod ecmp;
mod engines;
mod fabric_tools;
mod max_min;
mod planes;
mod strangers;
mod tables_io;
mod update;
mod verify;
