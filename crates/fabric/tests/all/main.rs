//! The proof of the fabric, one file a story: what can be worked out by hand, what pauses must do, what the papers
//! found, what holds for any network, and that the same run gives the same result.

#![expect(clippy::unwrap_used, reason = "what helpers of tests unwrap is what the test asserts")]

mod arrows;
mod buffers;
mod classes;
mod clocks;
mod closed_forms;
mod codel;
mod common;
mod convergence;
mod conweave;
mod deadlock;
mod determinism;
mod differences;
mod dual_tor;
mod entropy;
mod failures;
mod fairness;
mod hop_choice;
mod host_ports;
mod late;
mod life;
mod link_pause;
mod memory;
mod messages;
mod multipath;
mod nic;
mod observation;
mod operations;
mod path_log;
mod pause_storm;
mod pause_tree;
mod pfc;
mod pipeline;
mod properties;
mod qcn;
mod queue_pairs;
mod rdma;
mod reach;
mod scale_up;
mod ticks;
mod vlans;
mod wire_jitter;
