//! Tests of the resolver: valid scenarios, generated scenarios, mistakes, and mutations.

mod congestion_controls;
mod errors;
mod examples;
mod generated;
mod link_layer;
mod links;
mod mutations;
mod routes;
mod stacks;
mod switches;
mod thresholds;

use pauseframe_scenario::{Input, Resolved, ScenarioError, resolve};
use std::path::{Path, PathBuf};

/// Name and text of each example scenario.
pub(crate) const EXAMPLES: [(&str, &str); 8] = [
    ("incast.toml", include_str!("../../scenarios/incast.toml")),
    ("coexistence.toml", include_str!("../../scenarios/coexistence.toml")),
    ("custom.toml", include_str!("../../scenarios/custom.toml")),
    ("spray.toml", include_str!("../../scenarios/spray.toml")),
    ("ring.toml", include_str!("../../scenarios/ring.toml")),
    ("jellyfish_plan.toml", include_str!("../../scenarios/jellyfish_plan.toml")),
    ("file_plan.toml", include_str!("../../scenarios/file_plan.toml")),
    ("classes.toml", include_str!("../../scenarios/classes.toml")),
];

/// A valid scenario that tests modify.
pub(crate) const GOOD: &str = r#"stop = "10 ms"

[topology]
kind = "star"
hosts = 4

[[workload]]
kind = "permutation"
size = "1 MB"
"#;

/// Folder of the example scenarios.
pub(crate) fn base_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios")
}

/// Resolves `text` as the file `file_name` with the given overrides.
pub(crate) fn resolve_as(
    file_name: &str,
    text: &str,
    overrides: &[(&str, &str)],
    seed: Option<u64>,
) -> Result<Resolved, ScenarioError> {
    let owned = |(path, value): &(&str, &str)| ((*path).to_owned(), (*value).to_owned());
    let overrides: Vec<(String, String)> = overrides.iter().map(owned).collect();
    resolve(&Input { text, file_name, base_dir: &base_dir(), overrides: &overrides, seed })
}
