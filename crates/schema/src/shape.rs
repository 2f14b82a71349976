//! Types of values by their form in a document, for the reference and for checkers that do not run our readers.

use pauseframe_units::parse::Units;

/// The form of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shape {
    /// Any text.
    Text,
    /// true or false.
    Truth,
    /// A whole number from 0 on.
    Whole {
        /// The largest of its type.
        max: u64,
    },
    /// A number.
    Number,
    /// A text of a number and one of these units.
    Quantity {
        /// "time".
        name: &'static str,
        /// The units.
        units: Units,
    },
    /// One of a few names.
    OneOf(Vec<&'static str>),
    /// A text of this form (a regular expression of ECMA 262).
    Pattern(&'static str),
    /// Any of several forms, and what they are together.
    Any(&'static str, Vec<Shape>),
    /// A list.
    List(Box<Shape>),
    /// A table whose keys the file chooses, with values of one form.
    Map(Box<Shape>),
    /// Two values in a list.
    Pair(Box<Shape>),
    /// false, or a table with keys of its own.
    Switchable,
    /// A list of tables.
    Rows,
    /// Tables by names that the file chooses.
    Named {
        /// The path of the table whose keys they have, or "" if they are documented themselves.
        like: &'static str,
    },
}

impl Shape {
    /// What the reference calls it.
    pub fn name(&self) -> String {
        match self {
            Shape::Text | Shape::Pattern(_) => "text".to_owned(),
            Shape::Truth => "true or false".to_owned(),
            Shape::Whole { .. } => "whole number".to_owned(),
            Shape::Number => "number".to_owned(),
            Shape::Quantity { name, .. } | Shape::Any(name, _) => (*name).to_owned(),
            Shape::OneOf(names) => format!("one of {}", names.join(", ")),
            Shape::List(of) => format!("list of {}", of.plural()),
            Shape::Map(of) => format!("table of {}", of.plural()),
            Shape::Pair(of) => format!("two {}", of.plural()),
            Shape::Switchable => "false or a table".to_owned(),
            Shape::Rows => "list of tables".to_owned(),
            Shape::Named { .. } => "tables by name".to_owned(),
        }
    }

    fn plural(&self) -> String {
        match self {
            Shape::Pair(of) => format!("pairs of {}", of.plural()),
            Shape::OneOf(_) => self.name(),
            _ => format!("{}s", self.name()),
        }
    }
}
