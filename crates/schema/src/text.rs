//! A resolved scenario as TOML: every key, grouped by table, in the order of the reference.

use crate::ledger::{Entry, last_segment};
use std::collections::BTreeMap;

/// The parent of a path: "switch.pfc" for "switch.pfc.xoff".
pub fn parent(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(parent, _)| parent)
}

/// Writes `entries`, which are sorted. Automatic values become comments.
pub fn to_toml(entries: &[Entry]) -> String {
    let mut positions: BTreeMap<&str, usize> = BTreeMap::new();
    let mut groups: Vec<(&str, String)> = Vec::new();
    for Entry { path, value, automatic, .. } in entries {
        let table = parent(path);
        let position = *positions.entry(table).or_insert(groups.len());
        if position == groups.len() {
            groups.push((table, String::new()));
        }
        let key = last_segment(path);
        let line = if *automatic { format!("# {key}: {value}\n") } else { format!("{key} = {value}\n") };
        groups[position].1.push_str(&line);
    }
    let texts: Vec<String> =
        groups.iter().map(|(table, lines)| format!("{}{lines}", header(table))).collect();
    texts.join("\n")
}

/// The header of a table: "[switch.pfc]", "[[workload]]" for "workload.0", "[workload.sizes]" for
/// "workload.0.sizes".
fn header(table: &str) -> String {
    let is_number = |segment: &&str| segment.parse::<usize>().is_ok();
    let names: Vec<&str> =
        table.split('.').enumerate().filter(|(i, s)| *i != 1 || !is_number(s)).map(|(_, s)| s).collect();
    let name = names.join(".");
    match table.split('.').collect::<Vec<_>>()[..] {
        [""] => String::new(),
        ["workload", _] => format!("[[{name}]]\n"),
        _ => format!("[{name}]\n"),
    }
}
