//! The arrows of ARCHITECTURE.md inside this crate, read from its sources: who may name whom.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Beside the cells: they drive them or look at them, and nothing in a cell knows them.
const OUTSIDE: [&str; 14] = [
    "agreement",
    "audit",
    "crew",
    "deadlock",
    "network",
    "partition",
    "pause_tree",
    "recount",
    "room",
    "rows",
    "sampler",
    "states",
    "traffic",
    "view",
];
/// Who watches: they read cells and change nothing in them.
const WATCHERS: [&str; 7] = ["agreement", "audit", "deadlock", "pause_tree", "recount", "sampler", "states"];
/// All that the traffic knows.
const OF_TRAFFIC: [&str; 6] = ["flow", "ideal", "order", "plan", "rows", "vlan"];

/// Every module with its text, tests not included.
fn modules() -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() {
                folders.push(entry);
                continue;
            }
            if entry.ends_with("tests.rs") {
                continue;
            }
            let text = std::fs::read_to_string(&entry).unwrap();
            let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned();
            let mut name = entry.file_stem().unwrap().to_string_lossy().into_owned();
            if name == "mod" {
                name = entry.parent().unwrap().file_name().unwrap().to_string_lossy().into_owned();
            }
            found.insert(name, text);
        }
    }
    found
}

/// The modules of this crate that a text names, comments not counted.
fn named(text: &str) -> BTreeSet<&str> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let paths = lines.flat_map(|line| line.split("crate::").skip(1));
    paths.filter_map(|path| path.split(|c: char| !c.is_alphanumeric() && c != '_').next()).collect()
}

#[test]
fn nothing_in_a_cell_names_what_is_outside_of_it() {
    for (module, text) in
        modules().iter().filter(|(module, _)| !OUTSIDE.contains(&module.as_str()) && *module != "lib")
    {
        let outside: Vec<&str> = named(text).into_iter().filter(|name| OUTSIDE.contains(name)).collect();
        assert!(outside.is_empty(), "{module} names {outside:?}");
    }
}

#[test]
fn the_traffic_knows_no_cell() {
    let modules = modules();
    let known = named(&modules["traffic"]);
    assert!(known.iter().all(|name| OF_TRAFFIC.contains(name)), "{known:?}");
}

#[test]
fn who_watches_changes_nothing() {
    let modules = modules();
    for watcher in WATCHERS {
        let text = &modules[watcher];
        let changes = ["&mut Cell", "&mut Room", "&mut View", "impl Cell", "EventQueue"];
        let found: Vec<_> = changes.into_iter().filter(|change| text.contains(change)).collect();
        assert!(found.is_empty(), "{watcher} has {found:?}");
        assert!(!named(text).contains("network"), "{watcher} names the network");
    }
}

#[test]
fn the_network_is_in_one_file() {
    for (module, text) in modules() {
        assert!(module == "network" || !text.contains("impl Network"), "{module} is a part of the network");
    }
}
