//! Parallel applications: MPI and collective traces, replayed message by message.
//!
//! A reader or a generator makes an [`Application`]: the computations, sends, receives and waits of each
//! rank. A [`Replay`] carries out these steps on a network that its owner provides: an ideal network
//! ([`ideal::run`]) or the packet simulator. This crate knows no packets, and the network knows no MPI.

mod algorithm;
mod application;
mod calls;
mod check;
mod critical_path;
pub mod generate;
pub mod ideal;
mod job;
mod nccl;
mod pace;
mod placement;
mod rank;
pub mod read;
mod replay;
pub mod training;

pub use algorithm::{Algorithm, Choices, Kind, Part, Round, round};
pub use application::{Application, Call, Communicator, Dependences, Op, Program, Slot};
pub use calls::{Algorithm as CallAlgorithm, CallRecord, OperationId};
pub use check::{around, check, circle};
pub use critical_path::{CriticalPath, PathError, critical_path};
pub use job::{Job, Transfer};
pub use nccl::{Nccl, Pattern as NcclPattern, Sending, has as is_of_nccl};
pub use pace::{OperationClock, OperationPace};
pub use placement::{Placement, Rooms};
pub use rank::{Activity, Message, Ongoing, Stretch, Totals};
pub use replay::{Fault, Options, Outbox, RankReport, Replay, Timer};
