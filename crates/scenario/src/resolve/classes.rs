//! `[switch.classes.NAME]`: queue, marker and share of the buffer for some priorities; and which priority a DSCP gets.

use super::marker::marker;
use super::reader::Table;
use super::switch::BUFFER_MAX;
use crate::spec::{ClassSpec, QueueName};
use pauseframe_units::Bytes;

pub(crate) const QUEUE_DOC: &str =
    "Order of service within a priority: fifo, or pfabric (least remaining bytes first, most dropped first)";
pub(crate) const ALPHA_DOC: &str =
    "A queue may hold alpha times what is free (Choudhury and Hahne 1998); above 0";
pub(crate) const RESERVED_DOC: &str = "Bytes that each (port, priority) owns beyond the pool";
const AS_ALL: &str = "as for all priorities";

pub(crate) fn class(t: &mut Table, name: &str) -> (String, ClassSpec) {
    let plain = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    let message = || format!("{name:?} is not a name for a class");
    t.check(plain, "", message, "use letters, digits, '_' and '-'");
    let priorities = priorities(t, "The priorities that it is about").unwrap_or_default();
    // Without a table of its own it is marked like the others.
    let marker = (t.has("marker") || t.is_documenting()).then(|| t.section("marker", |t| marker(t, None)));
    let queue = t.optional::<QueueName>("queue", AS_ALL, QUEUE_DOC);
    let alpha = t.optional("alpha", AS_ALL, ALPHA_DOC);
    check_alpha(t, alpha);
    let reserved = t.optional_in("reserved", Bytes::ZERO..=BUFFER_MAX, AS_ALL, RESERVED_DOC);
    (name.to_owned(), ClassSpec { priorities, marker, queue, alpha, reserved })
}

pub(crate) fn check_alpha(t: &mut Table, alpha: Option<f64>) {
    let fits = alpha.is_none_or(|alpha| alpha > 0.0 && alpha <= 1e6);
    let message = || format!("{} is not above 0 and at most 1e6", alpha.unwrap_or_default());
    t.check(fits, "alpha", message, "");
}

/// A list of priorities that must be there.
pub(crate) fn priorities(t: &mut Table, doc: &str) -> Option<Vec<u8>> {
    let priorities: Vec<u8> = t.required("priorities", &format!("{doc}, each 0 to 7"))?;
    let bad = priorities.iter().find(|priority| **priority > 7);
    t.check(bad.is_none(), "priorities", || format!("{} is outside 0 to 7", bad.unwrap_or(&0)), "");
    t.check(
        !priorities.is_empty(),
        "priorities",
        || "[] names no priority".to_owned(),
        "name one, as in [3]",
    );
    Some(priorities)
}

/// Pairs of DSCP and priority.
pub(crate) fn priority_of_dscp(t: &mut Table) -> Vec<[u8; 2]> {
    let doc = "The priority that hosts and switches give packets of a DSCP, as in [[10, 1], [46, 5]]";
    let pairs: Vec<[u8; 2]> = t.or("priority_of_dscp", Vec::new(), doc);
    let bad = pairs.iter().find(|[dscp, priority]| *dscp > 63 || *priority > 7);
    let message = || format!("{:?}: a DSCP is 0 to 63, a priority 0 to 7", bad.unwrap_or(&[0, 0]));
    t.check(bad.is_none(), "priority_of_dscp", message, "");
    let twice =
        pairs.iter().enumerate().find(|(i, [dscp, _])| pairs[..*i].iter().any(|pair| pair[0] == *dscp));
    let message = || format!("DSCP {} is named twice", twice.map_or(0, |(_, pair)| pair[0]));
    t.check(twice.is_none(), "priority_of_dscp", message, "name each DSCP once");
    pairs
}
