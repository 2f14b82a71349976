//! Forms of values in a document, for the reference and for external checkers.

use pauseframe_units::parse::Units;

/// The form of a value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Shape {
    /// Any text.
    Text,
    /// The value true or false.
    Truth,
    /// An integer of at least 0.
    Whole {
        /// The maximum of its type.
        max: u64,
    },
    /// Any number.
    Number,
    /// A text that consists of a number and one of these units.
    Quantity {
        /// The name of the quantity, such as "time".
        name: &'static str,
        /// The units of the quantity.
        units: Units,
    },
    /// A value from a list of names.
    OneOf(Vec<&'static str>),
    /// A text that matches this regular expression (ECMA 262).
    Pattern(&'static str),
    /// Any of several forms, and their common name.
    Any(&'static str, Vec<Shape>),
    /// A list.
    List(Box<Shape>),
    /// A table with free keys and values of one form.
    Map(Box<Shape>),
    /// A list of two values.
    Pair(Box<Shape>),
    /// false, or a table with its own keys.
    Switchable,
    /// A table whose keys are documented elsewhere.
    Table,
    /// A list of tables.
    Rows,
    /// Tables by free names.
    Named {
        /// The path of the table with the same keys, or "" if they are documented separately.
        like: &'static str,
    },
}

impl Shape {
    /// Name of the type in the reference.
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
            Shape::Table => "table".to_owned(),
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
