//! Linux kernels as hosts of a simulated network: their virtual time, their network devices, their processes.
//!
//! A host is a network namespace of a user-mode kernel, with a network card that is a device here. The kernel runs in the virtual time
//! that [`Machine`] grants, so a run is the same whatever the load of the computer.
#![cfg(target_os = "linux")]

pub mod control;
mod device;
mod machine;
mod memory;
mod process;
mod ring;
mod samples;
mod setup;
mod shared_time;
mod stack;

pub use machine::{Machine, MachineError};
pub use process::Process;
pub use setup::{HOSTS_MAX, Setup};
pub use stack::{CONTROL_MAC, KernelStack};
