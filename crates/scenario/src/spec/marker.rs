//! `[switch.marker]` and `[switch.classes.NAME.marker]`: the fabric defines the markers; this module chooses the
//! default.

use pauseframe_fabric::Marker;
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;

/// Reads a marker; `why` explains the default if the file has none.
pub(crate) fn marker(t: &mut Table, why: Option<&str>) -> Marker {
    const STEP_KEYS: [&str; 3] = ["k", "at", "not_ect"];
    let default = match why {
        Some(why) => ("step", Origin::Computed(format!("because {why}"))),
        // A step without its kind is still a step.
        None if STEP_KEYS.iter().any(|key| t.has(key)) => {
            ("step", Origin::Computed("because it has a threshold".to_owned()))
        }
        None => ("none", Origin::Computed("no transport in use has ECN".to_owned())),
    };
    let rule = "\"step\" if a transport in use has ECN, else \"none\"";
    let kind = Marker::read(t, "kind", Some((default.0, default.1, rule)), "How packets are marked CE");
    kind.unwrap_or(Marker::NONE)
}
