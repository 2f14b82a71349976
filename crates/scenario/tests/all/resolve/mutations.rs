//! No text makes the resolver panic: the tests cut, flip, rename and mix valid scenarios. A mutation that is
//! accepted survives the round trip through TOML.

use super::{EXAMPLES, resolve_as};
use proptest::prelude::*;

/// Values that are valid for some keys and invalid for others.
const VALUES: [&str; 24] = [
    "0",
    "-1",
    "1",
    "65536",
    "18446744073709551616",
    "0.5",
    "inf",
    "nan",
    "true",
    "false",
    "\"\"",
    "\"10 us\"",
    "\"0 B\"",
    "\"1 TB\"",
    "\"10 Gbps\"",
    "\"bdp\"",
    "\"spray\"",
    "\"shared\"",
    "[]",
    "[3]",
    "[[1, 2]]",
    "{}",
    "{ kind = \"step\" }",
    "1979-05-27",
];

/// All keys of the reference; tests set them at random.
fn paths() -> Vec<String> {
    let options = pauseframe_scenario::resolve::options();
    options.iter().map(|option| option.path.replace("[]", ".0")).collect()
}

fn survives(text: &str, overrides: &[(&str, &str)]) {
    let Ok(first) = resolve_as("m.toml", text, overrides, None) else { return };
    let written = first.to_toml();
    let second =
        resolve_as("m.toml", &written, &[], None).unwrap_or_else(|error| panic!("{error}\n{written}"));
    assert_eq!(second.scenario, first.scenario, "{written}");
}

/// True for a valid but slow case: the resolver plans routes, which takes long for 65,536 switches.
fn plans_for_long(example: usize, key: &str, value: &str) -> bool {
    let key = key.trim().trim_start_matches("topology.");
    EXAMPLES[example].0 == "jellyfish_plan.toml" && (key, value) == ("switches", "65536")
}

fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn truncated(example in 0..EXAMPLES.len(), at in 0usize..3000) {
        let text = EXAMPLES[example].1;
        survives(&text[..floor(text, at)], &[]);
    }

    #[test]
    fn with_bytes_changed(
        example in 0..EXAMPLES.len(),
        changes in prop::collection::vec((0usize..3000, any::<u8>()), 1..4),
    ) {
        let mut bytes = EXAMPLES[example].1.as_bytes().to_vec();
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        survives(&String::from_utf8_lossy(&bytes), &[]);
    }

    #[test]
    fn with_lines_moved_and_doubled(example in 0..EXAMPLES.len(), from in 0usize..60, to in 0usize..60, double: bool) {
        let mut lines: Vec<&str> = EXAMPLES[example].1.lines().collect();
        let (from, to) = (from % lines.len(), to % lines.len());
        let line = if double { lines[from] } else { lines.remove(from) };
        lines.insert(to.min(lines.len()), line);
        survives(&lines.join("\n"), &[]);
    }

    #[test]
    fn with_values_swapped(example in 0..EXAMPLES.len(), line in 0usize..60, value in prop::sample::select(&VALUES[..])) {
        let mut lines: Vec<String> = EXAMPLES[example].1.lines().map(str::to_owned).collect();
        let line = line % lines.len();
        if let Some((key, _)) = lines[line].clone().split_once('=') {
            prop_assume!(!plans_for_long(example, key, value));
            lines[line] = format!("{key}= {value}");
        }
        survives(&lines.join("\n"), &[]);
    }

    #[test]
    fn with_keys_set(
        example in 0..EXAMPLES.len(),
        path in prop::sample::select(paths()),
        value in prop::sample::select(&VALUES[..]),
    ) {
        prop_assume!(!plans_for_long(example, &path, value));
        survives(EXAMPLES[example].1, &[(&path, value)]);
    }

    #[test]
    fn with_keys_renamed(example in 0..EXAMPLES.len(), line in 0usize..60, key in "[a-z_.]{1,12}") {
        let mut lines: Vec<String> = EXAMPLES[example].1.lines().map(str::to_owned).collect();
        let line = line % lines.len();
        if let Some((_, value)) = lines[line].clone().split_once('=') {
            lines[line] = format!("{key} ={value}");
        }
        survives(&lines.join("\n"), &[]);
    }

    #[test]
    fn with_odd_overrides(path in ".{0,40}", deep in "([a-z0-9]{0,3}\\.){0,12}", value in ".{0,40}") {
        survives(EXAMPLES[0].1, &[(&path, &value)]);
        survives(EXAMPLES[0].1, &[(&deep, &value)]);
    }

    #[test]
    fn as_anything(text in ".{0,200}") {
        survives(&text, &[]);
    }
}

/// Sets every key to every value, in the example with the most tables.
#[test]
fn every_key_with_every_value() {
    let paths = paths();
    let try_every_second = |first: usize| {
        for path in paths.iter().skip(first).step_by(2) {
            for value in VALUES {
                survives(EXAMPLES[1].1, &[(path, value)]);
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| try_every_second(0));
        try_every_second(1);
    });
}
