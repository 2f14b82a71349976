//! Declarations of keys. One declaration has the name, type and unit, default, range and meaning of a key; the Rust
//! value, the reader with its messages, the reference and the JSON Schema follow from it.
//!
//! [`table!`] declares a table, [`choices!`] a type with a few names, [`kinds!`] tables selected by a key. Checks
//! across keys are ordinary code beside the declarations.

pub mod bounds;
pub mod docs;
pub mod document;
pub mod error;
mod foreign;
pub mod json;
pub mod language;
pub mod ledger;
pub mod nested;
mod options;
pub mod panics;
pub mod printable;
pub mod reader;
pub mod row;
pub mod shape;
pub mod short;
pub mod table;
pub mod terms;
pub mod text;
pub mod value;
