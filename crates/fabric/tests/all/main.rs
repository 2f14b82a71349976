//! The proof of the fabric, one file a story: what can be worked out by hand, what pauses must do, what the papers
//! found, what holds for any network, and that the same run gives the same result.

#![expect(clippy::unwrap_used, reason = "what helpers of tests unwrap is what the test asserts")]

mod buffers;
mod closed_forms;
mod common;
mod determinism;
mod fairness;
mod life;
mod nic;
mod pfc;
mod properties;
