//! Functions that several test files use.

use pauseframe_scenario::{Input, Resolved, resolve};
use std::path::Path;

/// Resolves a text with overrides; returns errors as the program prints them.
pub(crate) fn read(text: &str, overrides: &[(&str, &str)]) -> Result<Resolved, String> {
    let overrides: Vec<_> = overrides.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let input =
        Input { text, file_name: "t.toml", base_dir: Path::new("."), overrides: &overrides, seed: None };
    resolve(&input).map_err(|error| error.to_string())
}
