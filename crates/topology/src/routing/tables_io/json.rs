//! Tables as JSON: an object with the lists `rows`, `lanes`, `rewrites` and `senders`.

use super::builder::{Builder, Flat};
use crate::interchange::Flaw;

pub(super) fn read(text: &str, builder: &mut Builder<'_>) -> Result<(), Flaw> {
    let flat: Flat = serde_json::from_str(text)
        .map_err(|error| Flaw::of_file(format!("this is not a table in JSON: {error}")))?;
    let at = |list: &str, i: usize, added: Result<(), String>| {
        added.map_err(|message| Flaw::at(format!("{list}[{i}]"), message))
    };
    for (i, lane) in flat.lanes.iter().enumerate() {
        at("lanes", i, builder.lane(lane))?;
    }
    for (i, rewrite) in flat.rewrites.iter().enumerate() {
        at("rewrites", i, builder.rewrite(rewrite))?;
    }
    for (i, row) in flat.rows.iter().enumerate() {
        at(
            "rows",
            i,
            builder.named_row(("row", i as u32), [&row.switch, &row.destination, &row.port], row.vlan),
        )?;
    }
    for (i, sender) in flat.senders.iter().enumerate() {
        at("senders", i, builder.sender(sender))?;
    }
    Ok(())
}

pub(super) fn write(flat: &Flat) -> Result<String, Flaw> {
    let text = serde_json::to_string_pretty(flat).map_err(|error| Flaw::of_file(error.to_string()))?;
    Ok(text + "\n")
}
