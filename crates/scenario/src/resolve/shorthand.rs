//! Short forms of the file, written out before anything is read, so that each table has one form.
//!
//! `stop = "50 ms"`, `buffer = "225 KB"`, `marker = "none"`, `scheduler = "strict"`, `pfc = true`, `qcn = "qcn66"`, one
//! workload without the array,
//! `links = [["A", "S1"]]`, `sizes = "web_search"`. `false` (for "off") stays.

use super::document::{Item, Value};
use pauseframe_units::Bytes;

/// Writes out all short forms; what is written out already stays as it is.
pub(crate) fn expand(root: &mut Item) {
    as_key(root.get_mut("stop"), "time");
    if let Some(switch) = root.get_mut("switch") {
        as_key(switch.get_mut("buffer"), "size");
        as_key(switch.get_mut("marker"), "kind");
        true_as_table(switch.get_mut("pfc"));
        true_as_table(switch.get_mut("pfc").and_then(|pfc| pfc.get_mut("watchdog")));
        as_key(switch.get_mut("scheduler"), "kind");
        if let Some(Item { value: Value::Table(classes), .. }) = switch.get_mut("classes") {
            for (_, class) in classes {
                as_key(class.get_mut("marker"), "kind");
            }
        }
    }
    true_as_table(root.get_mut("qcn"));
    if let Some(qcn) = root.get_mut("qcn")
        && matches!(qcn.value, Value::Text(_))
    {
        wrap(qcn, "preset");
    }
    if let Some(record) = root.get_mut("record") {
        true_as_table(record.get_mut("series"));
        true_as_table(record.get_mut("packets"));
        true_as_table(record.get_mut("pause_tree"));
        true_as_table(record.get_mut("states"));
    }
    if let Some(Item { value: Value::Array(links), .. }) =
        root.get_mut("topology").and_then(|t| t.get_mut("links"))
    {
        links
            .iter_mut()
            .filter(|link| matches!(link.value, Value::Array(_)))
            .for_each(|link| wrap(link, "ends"));
    }
    if let Some(workload) = root.get_mut("workload") {
        expand_workload(workload);
    }
}

fn expand_workload(workload: &mut Item) {
    if matches!(workload.value, Value::Table(_)) {
        let only = workload.clone();
        workload.value = Value::Array(vec![only]);
    }
    let Value::Array(workloads) = &mut workload.value else { return };
    for workload in workloads {
        expand_sizes(workload.get_mut("sizes"));
        expand_sizes(workload.get_mut("burst").and_then(|burst| burst.get_mut("sizes")));
    }
}

fn expand_sizes(sizes: Option<&mut Item>) {
    if let Some(sizes) = sizes {
        let Value::Text(text) = &sizes.value else { return };
        let (kind, key) = if text.parse::<Bytes>().is_ok() { ("fixed", "size") } else { ("cdf", "source") };
        let place = sizes.place;
        wrap(sizes, key);
        sizes.insert("kind", Item { value: Value::Text(kind.to_owned()), place });
    }
}

/// A scalar becomes a table in which it is the value of `key`.
fn as_key(item: Option<&mut Item>, key: &str) {
    if let Some(item) = item
        && !matches!(item.value, Value::Table(_))
    {
        wrap(item, key);
    }
}

fn true_as_table(item: Option<&mut Item>) {
    if let Some(item) = item
        && item.value == Value::Bool(true)
    {
        item.value = Value::Table(Vec::new());
    }
}

fn wrap(item: &mut Item, key: &str) {
    let inner = item.clone();
    item.value = Value::Table(vec![(key.to_owned(), inner)]);
}
