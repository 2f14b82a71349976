//! Runs every script below `scripts/`, a folder per mechanism; `common/script.rs` says how to write one.

use crate::common::script;
use pauseframe_transport::Mechanism;
use std::path::{Path, PathBuf};

fn scripts() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut found = Vec::new();
    for folder in std::fs::read_dir(root).expect("the folder of scripts") {
        for file in
            std::fs::read_dir(folder.expect("a readable folder").path()).expect("a folder per mechanism")
        {
            found.push(file.expect("a readable file").path());
        }
    }
    found.retain(|path| path.extension().is_some_and(|extension| extension == "pkt"));
    found.sort();
    found
}

#[test]
fn every_script_holds() {
    let scripts = scripts();
    assert!(scripts.len() >= 40, "only {} scripts found", scripts.len());
    let failures: Vec<String> = scripts
        .iter()
        .filter_map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            script::run(&text).err().map(|error| format!("{}: {error}", path.display()))
        })
        .collect();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

/// A script that names a mechanism fails where that is off, so it is about it; and each mechanism has one.
#[test]
fn scripts_fail_without_their_mechanism() {
    let mut covered = Vec::new();
    for path in scripts() {
        let text = std::fs::read_to_string(&path).unwrap();
        for name in script::mechanisms(&text) {
            let (_, mechanism) = *Mechanism::NAMES.iter().find(|(known, _)| *known == name).unwrap();
            let run = script::run_without(&text, Some(mechanism));
            assert!(run.is_err(), "{} holds without {name} too", path.display());
            covered.push(mechanism);
        }
    }
    for (name, mechanism) in Mechanism::NAMES {
        assert!(covered.contains(mechanism), "no script is about {name}");
    }
}

/// A script that is wrong fails, and says where and why.
#[test]
fn a_wrong_expectation_fails_with_its_line() {
    let start = "set iw 2\nopen\n0 send 3000\n0 > . 1:1001(1000) ack 1\n";
    for (rest, error) in [
        (
            "0 > . 1001:2001(1000) ack 2\n",
            "line 5: expected ACK 1001:2001(1000) ack 2, but ACK 1001:2001(1000) ack 1",
        ),
        ("0 > P. 1001:2001(1000) ack 1\n", "line 5: expected PSH|ACK"),
        ("0 > . 1001:2001(1000) ack 1 ect0\n", "line 5: expected ACK 1001:2001(1000) ack 1 Ect0"),
        ("# too late\n\n1us > . 1001:2001(1000) ack 1\n", "line 7: unexpected at"),
        ("0 < . 1:1(0) ack 1001\n1us assert cwnd == 1\n", "line 5: unexpected at"),
        (
            "0 > . 1001:2001(1000) ack 1\n0 > P. 2001:3001(1000) ack 1\n",
            "line 6: expected PSH|ACK 2001:3001(1000) ack 1, but nothing was sent",
        ),
        ("0 > . 1001:2001(1000) ack 1\n0 assert cwnd == 3*mss\n", "line 6: cwnd is 2000, not 3000"),
        ("0 > . 1001:2001(1000) ack 1\n0 assert established == false\n", "line 6: established is"),
        ("", "line 4 (end): unexpected at"),
        ("0 > . 1001:2001(999) ack 1\n", "line 5: the range"),
        ("0 jump\n", "line 5: cannot read"),
        ("0 > . 1001:2001(1000) ack 1\n0 assert window == 3\n", "line 6: cannot assert"),
    ] {
        let found = script::run(&format!("{start}{rest}")).unwrap_err();
        assert!(found.starts_with(error), "{rest:?} gave {found:?}, not {error:?}");
    }
    assert_eq!(script::run("set mtu 9\n").unwrap_err(), "line 1: no setting \"mtu\"");
}
