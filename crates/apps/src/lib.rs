//! Parallel applications: MPI and collective traces, replayed message by message.
//!
//! A reader or a generator makes an [`Application`]: what each rank computes, sends, receives and waits for. A
//! [`Replay`] runs it on a network of its owner: an ideal one ([`ideal::run`]) or the packet simulator. This crate
//! knows no packets, and the network knows no MPI.

mod algorithm;
mod application;
mod check;
mod critical_path;
pub mod generate;
pub mod ideal;
mod job;
mod placement;
mod rank;
pub mod read;
mod replay;

pub use algorithm::{Algorithm, Choices, Kind, Part, Round, round};
pub use application::{Application, Call, Communicator, Dependences, Op, Program, Slot};
pub use check::check;
pub use critical_path::{CriticalPath, PathError, critical_path};
pub use job::{Job, Transfer};
pub use placement::{Placement, Rooms};
pub use rank::{Activity, Message, Ongoing, Stretch, Totals};
pub use replay::{Fault, Options, Outbox, RankReport, Replay, Timer};
