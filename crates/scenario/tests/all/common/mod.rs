//! Functions that several test files use.

use pauseframe_scenario::{Input, Resolved, RunCallbackDecision, RunOptions, RunResults, resolve, run};
use std::path::Path;

/// Resolves a text with overrides; returns errors as the program prints them.
pub(crate) fn read(text: &str, overrides: &[(&str, &str)]) -> Result<Resolved, String> {
    let overrides: Vec<_> = overrides.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let input =
        Input { text, file_name: "t.toml", base_dir: Path::new("."), overrides: &overrides, seed: None };
    resolve(&input).map_err(|error| error.to_string())
}

/// Runs a text with overrides, after its resolved form has resolved to the same scenario.
pub(crate) fn go(text: &str, overrides: &[(&str, &str)]) -> RunResults {
    let resolved = read(text, overrides).unwrap();
    assert_eq!(read(&resolved.to_toml(), &[]).unwrap().scenario, resolved.scenario);
    run(&resolved, RunOptions::default(), |_| RunCallbackDecision::Continue).unwrap()
}
