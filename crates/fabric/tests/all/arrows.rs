//! The arrows of ARCHITECTURE.md inside this crate, read from its sources: who may name whom, and who has what in hand.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Beside the partitions: they drive them or look at them, and nothing in a partition knows them.
const OUTSIDE: [&str; 15] = [
    "invariants",
    "memory",
    "thread_pool",
    "network",
    "partitioning",
    "worker",
    "rows",
    "traffic",
    "observers",
    "observers/deadlock",
    "observers/pause_tree",
    "observers/ports",
    "observers/sampler",
    "observers/states",
    "observers/view",
];
/// Who watches: they read partitions and change nothing in them.
const OBSERVERS: [&str; 8] = [
    "invariants",
    "invariants/across_nodes",
    "invariants/recount",
    "observers/deadlock",
    "observers/pause_tree",
    "observers/ports",
    "observers/sampler",
    "observers/states",
];
/// All that the traffic knows.
const OF_TRAFFIC: [&str; 12] = [
    "flow",
    "host_ports",
    "ideal",
    "order",
    "path_hash",
    "plan",
    "records",
    "rounds",
    "rows",
    "settings",
    "throughput",
    "vlan",
];
/// Who may know whom on a packet's way: what a folder or file names of the others.
const WAY: [(&str, &[&str]); 5] = [
    ("frame", &[]),
    ("context", &["frame"]),
    ("wire", &["frame", "context"]),
    ("switching", &["frame", "context", "wire"]),
    ("endpoint", &["frame", "context", "wire"]),
];

/// Every module by its path, with its text, tests not included.
fn modules() -> BTreeMap<String, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeMap::new();
    let mut folders = vec![source.clone()];
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
            let path = entry.strip_prefix(&source).unwrap().with_extension("");
            let path = path.to_string_lossy().replace('\\', "/");
            found.insert(path.strip_suffix("/mod").unwrap_or(&path).to_owned(), text);
        }
    }
    found
}

/// The modules of this crate that a text names, comments not counted; a part of `watch` by its path.
fn named(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let paths = lines.flat_map(|line| line.split("crate::").skip(1));
    let name = |path: &str| {
        let mut parts = path.split(|c: char| !c.is_alphanumeric() && c != '_');
        match (parts.next()?, parts.nth(1)) {
            ("observers", Some(part)) if !part.is_empty() => Some(format!("observers/{part}")),
            (first, _) => Some(first.to_owned()),
        }
    };
    paths.filter_map(name).collect()
}

#[test]
fn partitions_name_nothing_outside_of_them() {
    let is_inside = |module: &&String| {
        let in_folder = ["invariants/", "memory/", "network/", "traffic/"]
            .iter()
            .any(|folder| module.starts_with(folder));
        let is_outside = OUTSIDE.contains(&module.as_str()) || in_folder;
        !is_outside && *module != "lib"
    };
    for (module, text) in modules().iter().filter(|(module, _)| is_inside(module)) {
        let outside: Vec<String> =
            named(text).into_iter().filter(|name| OUTSIDE.contains(&name.as_str())).collect();
        assert!(outside.is_empty(), "{module} names {outside:?}");
    }
}

#[test]
fn calls_follow_the_packet_s_path() {
    for (module, text) in modules() {
        let place = module.split('/').next().unwrap();
        let Some((_, knows)) = WAY.iter().find(|(name, _)| *name == place) else { continue };
        let on_the_way = |name: &String| name == "partition" || WAY.iter().any(|(other, _)| other == name);
        let wrong: Vec<String> = named(&text)
            .into_iter()
            .filter(|name| on_the_way(name) && name != place && !knows.contains(&name.as_str()))
            .collect();
        assert!(wrong.is_empty(), "{module} names {wrong:?}");
    }
}

#[test]
fn only_its_own_file_changes_a_partition() {
    for (module, text) in modules() {
        let own = text.split("impl Partition {").nth(1).unwrap_or_default();
        let own = own.split("\n}\n").next().unwrap_or_default();
        assert!(module == "partition" || !own.contains("&mut self"), "{module} changes partitions");
    }
}

/// Handlers have their node (`reach.rs`), so what all nodes of a partition have in common is borrowed where nodes are made, and changed as a
/// whole only between two windows: borders, orders, paths.
#[test]
fn no_handler_borrows_all_nodes() {
    let kernel = ["wire/own", "switching/node", "endpoint/node"];
    let between_windows = [
        "wire/crossing",
        "wire/failing",
        "wire/slow_path",
        "endpoint",
        "endpoint/orders",
        "endpoint/several_ports",
    ];
    let arenas = ["PartitionPorts", "PartitionSwitches", "PartitionHosts"];
    let on_the_way = |module: &&String| {
        ["wire", "switching", "endpoint"].iter().any(|place| module.split('/').next() == Some(*place))
    };
    for (module, text) in modules().iter().filter(|(module, _)| on_the_way(module)) {
        let borrows = arenas.iter().any(|arena| text.contains(&format!("mut {arena}")));
        assert!(!borrows || kernel.contains(&module.as_str()), "{module} borrows all nodes");
        let changes = arenas.iter().any(|arena| {
            let own = format!("\nimpl {arena} {{");
            let mut own = text.split(own.as_str()).skip(1).filter_map(|own| own.split("\n}\n").next());
            own.any(|own| own.contains("&mut self"))
        });
        assert!(!changes || between_windows.contains(&module.as_str()), "{module} changes all nodes");
    }
}

#[test]
fn the_traffic_knows_no_partition() {
    for (module, text) in modules().iter().filter(|(module, _)| module.starts_with("traffic")) {
        let known = named(text);
        assert!(known.iter().all(|name| OF_TRAFFIC.contains(&name.as_str())), "{module}: {known:?}");
    }
}

#[test]
fn observers_change_nothing() {
    let modules = modules();
    for watcher in OBSERVERS {
        let text = &modules[watcher];
        let changes = [
            "&mut Partition",
            "&mut PartitionWorker",
            "&mut View",
            "&mut Context",
            "impl Partition",
            "EventQueue",
        ];
        let found: Vec<_> = changes.into_iter().filter(|change| text.contains(change)).collect();
        assert!(found.is_empty(), "{watcher} has {found:?}");
        assert!(!named(text).contains("network"), "{watcher} names the network");
    }
}

#[test]
fn the_network_is_in_one_place() {
    for (module, text) in modules() {
        let place = module.split('/').next();
        assert!(
            place == Some("network") || !text.contains("impl Network {"),
            "{module} is a part of the network"
        );
    }
}
