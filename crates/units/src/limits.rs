//! Limits of what a reader takes from a file, so that no input exhausts the memory. The environment variable
//! [`VARIABLE`] raises them, and with it the option `--limit` of the command.

use std::str::FromStr;

/// The variable that changes limits: `bytes=4000000000,rows=20000000`.
pub const VARIABLE: &str = "PAUSEFRAME_LIMITS";

/// What is limited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// Bytes of a file, decompressed.
    Bytes,
    /// Rows of a list of flows, sizes or hosts.
    Rows,
    /// Steps of all ranks of an application, with their requests and the members of their communicators.
    Steps,
    /// Bytes of a table of results in memory.
    Table,
}

impl Limit {
    /// All limits.
    pub const ALL: [Limit; 4] = [Limit::Bytes, Limit::Rows, Limit::Steps, Limit::Table];

    /// The name in [`VARIABLE`].
    pub fn name(self) -> &'static str {
        match self {
            Limit::Bytes => "bytes",
            Limit::Rows => "rows",
            Limit::Steps => "steps",
            Limit::Table => "table",
        }
    }

    /// The limit without [`VARIABLE`]. Each one keeps a reader below 4 GB of memory: a row takes up to 230 bytes
    /// and a step 150; a topology of a million links has 50 MB and takes 26 times its size.
    pub fn default_value(self) -> u64 {
        match self {
            Limit::Bytes => 1 << 30,
            Limit::Rows => 5_000_000,
            Limit::Steps => 10_000_000,
            Limit::Table => 4 << 30,
        }
    }

    /// The limit in force.
    ///
    /// # Errors
    /// If [`VARIABLE`] is not a list of limits.
    pub fn value(self) -> Result<u64, String> {
        match std::env::var(VARIABLE) {
            Ok(text) => self.value_in(&text),
            Err(_) => Ok(self.default_value()),
        }
    }

    fn value_in(self, text: &str) -> Result<u64, String> {
        let mut value = self.default_value();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, number) = part.split_once('=').unwrap_or((part, ""));
            let limit = Limit::ALL.into_iter().find(|limit| limit.name() == name.trim());
            let (Some(limit), Ok(number)) = (limit, u64::from_str(number.trim())) else {
                let names = Limit::ALL.map(Limit::name).join(", ");
                return Err(format!(
                    "the limit {part:?} is not NAME=NUMBER, as in rows=20000000; the names are {names}"
                ));
            };
            if limit == self {
                value = number;
            }
        }
        Ok(value)
    }

    /// Refuses more than the limit; `found` has the unit `unit`, as in "3 flows".
    ///
    /// # Errors
    /// A message with the estimate, the limit and the option that raises it.
    pub fn check(self, found: u64, unit: &str) -> Result<(), String> {
        self.check_share(found, 1, unit)
    }

    /// The same for an input that takes `share` times the memory of others, and so may have a share of the limit.
    ///
    /// # Errors
    /// As [`Limit::check`].
    pub fn check_share(self, found: u64, share: u64, unit: &str) -> Result<(), String> {
        let limit = self.value()? / share;
        if found <= limit {
            return Ok(());
        }
        let (name, needed) = (self.name(), found.saturating_mul(share));
        Err(format!(
            "{found} {unit} are more than the limit of {limit}: pauseframe --limit {name}={needed} raises it"
        ))
    }

    /// The message for an input that was left unread beyond the limit.
    ///
    /// # Errors
    /// If [`VARIABLE`] is not a list of limits.
    pub fn exceeded(self, unit: &str) -> Result<String, String> {
        let (limit, name) = (self.value()?, self.name());
        Ok(format!("more than the limit of {limit} {unit}: pauseframe --limit {name}=NUMBER raises it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_changes_the_limits_that_it_names() {
        let text = "rows=7, bytes = 9";
        assert_eq!(Limit::Rows.value_in(text), Ok(7));
        assert_eq!(Limit::Bytes.value_in(text), Ok(9));
        assert_eq!(Limit::Steps.value_in(text), Ok(Limit::Steps.default_value()));
        for wrong in ["rows", "rows=", "rows=-1", "rows=1e6", "lines=3", "rows=3,x"] {
            assert!(Limit::Rows.value_in(wrong).unwrap_err().contains("names are bytes"), "{wrong}");
        }
    }

    #[test]
    fn a_refusal_names_estimate_limit_and_option() {
        assert_eq!(Limit::Rows.check(5_000_000, "flows"), Ok(()));
        let message = Limit::Rows.check(5_000_001, "flows").unwrap_err();
        let message_of_share = Limit::Rows.check_share(1_250_001, 4, "flows").unwrap_err();
        assert!(message_of_share.ends_with("limit of 1250000: pauseframe --limit rows=5000004 raises it"));
        assert_eq!(
            message,
            "5000001 flows are more than the limit of 5000000: pauseframe --limit rows=5000001 raises it"
        );
    }
}
