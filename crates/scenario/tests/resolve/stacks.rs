//! Stacks: every row resolves, and the order is file, preset, stack, default.

use pauseframe_scenario::presets::PRESETS;
use pauseframe_scenario::resolve::explained;
use pauseframe_scenario::stacks::STACKS;
use pauseframe_scenario::{Input, resolve};
use std::path::Path;

fn origin(transport: &str, key: &str) -> (String, String) {
    let text = format!(
        "topology = {{ kind = \"star\", hosts = 2 }}\n[transport]\n{transport}\n\
         [[workload]]\nkind = \"permutation\"\nsize = \"1 MB\"\n"
    );
    let input =
        Input { text: &text, base_dir: Path::new("."), file_name: "a.toml", overrides: &[], seed: None };
    let resolved = resolve(&input).expect("a good scenario");
    let path = format!("transport.{key}");
    let entry = resolved.explain().iter().find(|entry| entry.path == path).expect("the key");
    (entry.value.clone(), entry.origin.to_string())
}

#[test]
fn file_above_preset_above_stack_above_default() {
    let plain = "preset = \"dctcp\"";
    assert_eq!(origin(plain, "timestamps"), ("false".into(), "default".into()));
    let stacked = "preset = \"dctcp\"\nstack = \"linux\"";
    assert_eq!(origin(stacked, "timestamps"), ("true".into(), "stack linux".into()));
    assert_eq!(origin(stacked, "ecn"), ("\"dctcp\"".into(), "preset dctcp".into()));
    let (window, from) = origin("preset = \"tcp_bolt\"\nstack = \"freebsd9\"\n", "initial_window");
    assert_eq!((window.as_str(), from.as_str()), ("\"bdp\"", "preset tcp_bolt"), "both rows have it");
    assert_eq!(
        origin(&format!("{stacked}\ntimestamps = false"), "timestamps"),
        ("false".into(), "file".into())
    );
}

/// What a stack or preset sets is what the key reads, and each value names its document.
#[test]
fn every_row_is_read_and_explained() {
    for preset in PRESETS {
        for stack in STACKS {
            let rows = explained(preset, stack.name).expect("a stack that there is");
            for value in stack.row {
                let row = rows.iter().find(|row| row.key == value.key);
                // A constant of a congestion control is a key where that is in use.
                if row.is_none() && value.key.starts_with("dctcp_") {
                    assert!(
                        rows.iter().all(|row| row.value != "\"dctcp\"" || row.key != "congestion_control")
                    );
                    continue;
                }
                let row = row.unwrap_or_else(|| panic!("{}: {} is no key", stack.name, value.key));
                let above = preset.row.iter().any(|above| above.key == value.key);
                let expected = if above { "preset " } else { "stack " };
                assert!(row.origin.starts_with(expected), "{}: {row:?}", stack.name);
                assert!(!row.source.is_empty(), "{row:?}");
            }
        }
    }
    assert!(explained(&PRESETS[0], "windows").is_none());
}
