//! The quantities of the simulation: integer time, sizes, rates, and typed ids.
//!
//! Time is integer picoseconds (a byte at 100 Gb/s is 80 ps; `u64` holds 213 days). "KB" is 1000 bytes,
//! "KiB" 1024. Text forms ("10 Gbps", "1.5 us", "96 KB") always carry a unit; see [`parse`].

mod id;
pub mod parse;
mod quantity;

pub use id::{Id, IndexVec, LinkId, NodeId, PortId};
pub use parse::ParseError;
pub use quantity::{BitRate, Bytes, LineRate, Priority, Span, Time};
