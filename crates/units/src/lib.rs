//! The quantities of the simulation: integer time, sizes, rates, and typed ids.
//!
//! Time is an integer number of picoseconds (a byte at 100 Gb/s takes 80 ps; a `u64` can represent 213 days).
//! "KB" is 1000 bytes, "KiB" 1024. Texts ("10 Gbps", "1.5 us", "96 KB") always contain a unit; see [`parse`].
//! [`files`] and [`limits`] bound what readers take from files.

mod counted;
pub mod files;
mod id;
mod invariants;
pub mod limits;
pub mod parse;
mod quantity;

pub use counted::counted;
pub use id::{Id, IndexVec, LinkId, NodeId, PortId};
pub use invariants::first_broken;
pub use parse::ParseError;
pub use quantity::{BitRate, Bytes, LineRate, Priority, Span, Time};
