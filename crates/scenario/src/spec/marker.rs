//! `[switch.marker]` and `[switch.classes.NAME.marker]`: the markers are the fabric's; which one where nothing says so is told here.

use pauseframe_fabric::Marker;
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;

/// Reads a marker; `why` there is one where the file does not say.
pub(crate) fn marker(t: &mut Table, why: Option<&str>) -> Marker {
    const STEP_KEYS: [&str; 3] = ["k", "at", "not_ect"];
    let default = match why {
        Some(why) => ("step", Origin::Computed(format!("because {why}"))),
        // A step that is written without its kind is still one.
        None if STEP_KEYS.iter().any(|key| t.has(key)) => {
            ("step", Origin::Computed("because it has a threshold".to_owned()))
        }
        None => ("none", Origin::Computed("no transport in use has ECN".to_owned())),
    };
    let rule = "\"step\" if a transport in use has ECN, else \"none\"";
    let kind = Marker::read(t, "kind", Some((default.0, default.1, rule)), "How packets are marked CE");
    kind.unwrap_or(Marker::NONE)
}
