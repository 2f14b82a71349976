//! Declarations of keys. A declaration contains the name of a key, its type and unit, its default, its range
//! and its meaning. The Rust value, the reader with its messages, the reference and the JSON Schema all
//! follow from the declaration.
//!
//! [`table!`] declares a table, [`choices!`] a type with a few names, [`kinds!`] tables whose kind a key
//! selects. Checks that involve several keys are written by hand next to the declarations.

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
