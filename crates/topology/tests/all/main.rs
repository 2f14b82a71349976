//! Tests of the public interface: one file per subject, one binary.
#![expect(clippy::unwrap_used, reason = "a test that cannot unwrap has failed")]

mod common;
mod families;
mod generators;
mod homes;
mod interchange;
mod strangers;
