//! Problems of a scenario: all mistakes, not only the first.

use std::fmt;

/// An invalid scenario with all its mistakes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ScenarioError {
    /// The mistakes in the order of the file, then the mistakes in `--set`. Never empty.
    pub problems: Vec<Problem>,
}

/// One mistake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// The key ("switch.pfc.xon"), or "" for the text as a whole.
    pub path: String,
    /// Place of the mistake: "incast.toml:12", "--set", "--seed", or only the file's name for a missing key.
    pub place: String,
    /// The line in the file, counted from 1.
    pub line: Option<u32>,
    /// The value as written in the file, or "".
    pub value: String,
    /// The problem and the valid values.
    pub message: String,
    /// The remedy, or "".
    pub hint: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.place)?;
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        if !self.hint.is_empty() {
            write!(f, "; {}", self.hint)?;
        }
        Ok(())
    }
}

impl fmt::Display for ScenarioError {
    /// One line per problem.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, problem) in self.problems.iter().enumerate() {
            if number > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ScenarioError {}
