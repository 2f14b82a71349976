//! Keys that only one kind of transport has. They stand in the transport's table, or in a table of their kind inside of it, which acts for that
//! kind alone: `[transport.tcp]`, `[transport.rdma]`, `[transport.udp]`.

use super::SCENARIO;
use crate::presets::PRESETS;
use crate::spec::transport::{kind_of, kind_of_table};
use crate::spec::{TransportKindName, TransportSpec};
use pauseframe_schema::document::{self, Item, Place};
use pauseframe_schema::ledger::Ledger;
use pauseframe_schema::reader::Table;
use pauseframe_schema::row::Row;
use pauseframe_schema::value::{Choice, did_you_mean};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Keys of TCP and of queue pairs that do the same.
const SAME: [(&str, &str); 7] = [
    ("delayed_ack_segments", "rdma_ack_every"),
    ("rto_min", "rdma_timeout"),
    ("rto_initial", "rdma_timeout"),
    ("rto_max", "rdma_timeout"),
    ("retries", "rdma_retry_count"),
    ("handshake", "rdma_connect_time"),
    ("sack", "rdma_selective_repeat"),
];

/// Moves the keys in tables of the chosen kinds up into the tables of their transports. Returns the paths of keys that stand in both.
pub(super) fn take_keys_of_kinds(root: &mut Item) -> Vec<String> {
    let mut twice = Vec::new();
    if let Some(table) = root.get_mut("transport") {
        take(table, "transport", &mut twice);
    }
    if let Some(Item { value: document::Value::Table(named), .. }) = root.get_mut("transports") {
        for (name, table) in named {
            take(table, &format!("transports.{name}"), &mut twice);
        }
    }
    twice
}

fn take(table: &mut Item, path: &str, twice: &mut Vec<String>) {
    let kind = kind_of_table(table).name();
    let document::Value::Table(pairs) = &mut table.value else { return };
    let Some(at) =
        pairs.iter().position(|(key, item)| key == kind && matches!(item.value, document::Value::Table(_)))
    else {
        return;
    };
    let document::Value::Table(of_kind) = pairs.remove(at).1.value else { return };
    for (key, item) in of_kind {
        match pairs.iter().find(|(known, _)| *known == key) {
            None => pairs.push((key, item)),
            // `--set transport.rto_min=...` changes what the file has in the table of its kind.
            Some((_, Item { place: Place::Set, .. })) => {}
            Some(_) => twice.push(format!("{path}.{key}")),
        }
    }
}

/// Reports keys that stand in the table of their kind too.
pub(super) fn refuse_keys_written_twice(ledger: &mut Ledger, twice: Vec<String>) {
    for path in twice {
        let (table, kind) = path.rsplit_once('.').unwrap_or(("transport", ""));
        let message = format!("stands in the table of its kind inside of [{table}] too");
        let hint = format!("leave one of the two {kind} out");
        ledger.problem(&path, message, hint);
    }
}

/// Reports keys of `[transport]` that another kind has.
pub(super) fn refuse_keys_of_other_kinds(t: &mut Table, spec: &TransportSpec) {
    if t.is_documenting() {
        return;
    }
    for (key, item) in t.unknown_keys() {
        let Some(kind) = kind_with(key) else {
            if spec.kind != TransportKindName::Rdma && key.starts_with("rdma_") {
                refuse_unknown_key_of_queue_pairs(t, spec, (key, item));
            }
            continue;
        };
        let message = format!(
            "is a key of kind {:?}; preset {:?} is of kind {:?}",
            kind,
            spec.preset,
            spec.kind.name()
        );
        let instead = match (key, same(key, spec.kind)) {
            ("congestion_control", _) => {
                "use rdma_control, or choose a preset of TCP, such as \"dctcp\"".to_owned()
            }
            ("rdma_control", _) => {
                format!("choose a preset of RDMA, such as {:?}, or use congestion_control", preset_with(item))
            }
            (_, Some(same)) => format!("use {same}"),
            (_, None) => "leave it out".to_owned(),
        };
        let path = t.at(key);
        let hint = format!("{instead}, or write it into [{}.{kind}], which acts for that kind alone", t.path);
        t.ledger.problem_with(item, &path, message, hint);
        t.excuse(key);
    }
}

/// Reports a key that begins as those of queue pairs do, in the table of another kind.
fn refuse_unknown_key_of_queue_pairs(t: &mut Table, spec: &TransportSpec, (key, item): (&str, &Item)) {
    let is_of_queue_pairs = |(key, kind): (&'static str, &str)| (kind == "rdma").then_some(key);
    let of_queue_pairs: Vec<&str> = kinds_of_keys().filter_map(is_of_queue_pairs).collect();
    let near = did_you_mean(key, of_queue_pairs.into_iter());
    let of_kind = format!(
        "such keys need a preset of RDMA; preset {:?} is of kind {:?}",
        spec.preset,
        spec.kind.name()
    );
    let hint = if near.is_empty() { of_kind } else { format!("{near} {of_kind}") };
    let path = t.at(key);
    t.ledger.problem_with(item, &path, "unknown key".to_owned(), hint);
    t.excuse(key);
}

/// The preset with the rate control that `item` names, if there is one.
fn preset_with(item: &Item) -> &'static str {
    let document::Value::Text(control) = &item.value else { return "roce_dcqcn" };
    let has_it = |row: &&Row| row.value("rdma_control") == Some(control);
    PRESETS.iter().find(has_it).map_or("roce_dcqcn", |row| row.name)
}

/// The kind of transports that has a key.
fn kind_with(key: &str) -> Option<&'static str> {
    kinds_of_keys().find(|(known, _)| *known == key).map(|(_, kind)| kind)
}

/// Keys of `[transport]` that kinds have, each with a kind.
fn kinds_of_keys() -> impl Iterator<Item = (&'static str, &'static str)> {
    SCENARIO.options().iter().filter_map(|option| {
        let kind = option.when.strip_prefix("transport.kind = ")?.split(" and ").next()?;
        Some((option.path.strip_prefix("transport.")?, kind))
    })
}

/// Adds to the JSON Schema of a transport that keys of one kind exist for that kind alone.
pub(super) fn restrict(table: &mut serde_json::Value) {
    let mut rules = Vec::new();
    for (kind, name) in TransportKindName::NAMES.iter().map(|(name, kind)| (kind, *name)) {
        let own: Vec<&str> = kinds_of_keys().filter(|(_, of)| *of == name).map(|(key, _)| key).collect();
        let foreign: BTreeSet<&str> =
            kinds_of_keys().map(|(key, _)| key).filter(|key| !own.contains(key)).collect();
        let presets: Vec<&str> =
            PRESETS.iter().map(|row| row.name).filter(|preset| kind_of(preset) == *kind).collect();
        let mut chosen = vec![
            json!({ "properties": { "kind": { "const": name } }, "required": ["kind"] }),
            json!({ "properties": { "preset": { "enum": presets } }, "required": ["preset"], "not": { "required": ["kind"] } }),
        ];
        if *kind == TransportKindName::Tcp {
            chosen
                .push(json!({ "not": { "anyOf": [{ "required": ["kind"] }, { "required": ["preset"] }] } }));
        }
        let only_own = json!({ "propertyNames": { "not": { "enum": foreign } } });
        rules.push(json!({ "if": { "anyOf": chosen }, "then": only_own }));
        let keys: Map<String, Value> =
            own.iter().map(|key| ((*key).to_owned(), table["properties"][*key].clone())).collect();
        table["properties"][name]["properties"] = Value::Object(keys);
        table["properties"][name]["additionalProperties"] = json!(false);
    }
    table["allOf"] = json!(rules);
}

/// The key of another kind that does the same.
fn same(key: &str, kind: TransportKindName) -> Option<&'static str> {
    match kind {
        TransportKindName::Rdma => SAME.iter().find(|(tcp, _)| *tcp == key).map(|(_, rdma)| *rdma),
        TransportKindName::Tcp => SAME.iter().find(|(_, rdma)| *rdma == key).map(|(tcp, _)| *tcp),
        TransportKindName::Udp => None,
    }
}
