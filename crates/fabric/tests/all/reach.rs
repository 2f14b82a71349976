//! What a node reaches, by types: each marked line of `trespass/` is refused by the compiler, where handlers of switches and of hosts
//! stand, for the reason that the mark says, and no other line is.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

const FILES: [&str; 2] = ["switching.rs", "endpoint.rs"];

/// A line of a file, and the code or the first word of the message about it.
type Refused = BTreeSet<(String, usize, String)>;

/// The lines that are marked in the modules for `group`.
fn expected(group: &str) -> Refused {
    let mut marked = Refused::new();
    for file in FILES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trespass").join(file);
        let text = std::fs::read_to_string(path).unwrap();
        let mut current = "";
        for (number, line) in (1..).zip(text.lines()) {
            current = line
                .strip_prefix("#[cfg(trespass = \"")
                .map_or(current, |name| name.trim_end_matches("\")]"));
            if let Some((_, mark)) = line.split_once("//~ ").filter(|_| current == group) {
                marked.insert((file.to_owned(), number, mark.to_owned()));
            }
        }
    }
    marked
}

/// What the compiler says of the crate with these modules in it: `path/file.rs:12:5: error[E0308]: ...`, a line each.
fn refused(group: &str) -> Refused {
    // The folder of this build, so that `cargo clippy` finds the dependencies checked.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let output = Command::new(env!("CARGO"))
        .args([
            "rustc",
            "--offline",
            "--lib",
            "--profile",
            "check",
            "--message-format",
            "short",
            "--manifest-path",
        ])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target)
        .args(["--", "--cfg", &format!("trespass=\"{group}\"")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let error = |line: &str| {
        let (place, what) =
            line.split_once(": error").map(|(place, what)| (place, what.trim_start_matches([':', ' '])))?;
        let mut place = place.rsplitn(3, ':');
        let (_, number, path) = (place.next()?, place.next()?.parse().ok()?, place.next()?);
        let code = what
            .strip_prefix('[')
            .map_or(what.split(' ').next()?, |coded| coded.split(']').next().unwrap_or(""));
        Some((Path::new(path).file_name()?.to_string_lossy().into_owned(), number, code.to_owned()))
    };
    let errors: Refused = said.lines().filter_map(error).collect();
    assert!(!errors.is_empty(), "the compiler said: {said}");
    errors
}

#[test]
fn no_handler_names_what_is_another_s() {
    assert_eq!(refused("types"), expected("types"));
}

#[test]
fn nothing_of_a_node_is_kept_until_the_next() {
    assert_eq!(refused("borrows"), expected("borrows"));
}
