//! `[switch.marker]` and `[switch.classes.NAME.marker]`.

use super::ledger::Origin;
use super::reader::Table;
use super::switch::BUFFER_MAX;
use crate::spec::{LengthSpec, MarkAt, MarkerSpec, NotEct};
use pauseframe_units::Bytes;

/// bolt §IV-A2: DCTCP's threshold.
const STEP_K: LengthSpec = LengthSpec::Bytes(Bytes(22_500));
/// cee Table I.
const RED_MIN: Bytes = Bytes(25_600);
const RED_MAX: Bytes = Bytes(76_800);
const RED_W_Q: f64 = 0.002;
const RED_P_MAX: f64 = 0.02;
const STEP_KEYS: [&str; 3] = ["k", "at", "not_ect"];
const NOT_ECT_DOC: &str = "What happens there to lossy packets that are not ECN-capable";

/// Reads a marker; `why` there is one where the file does not say.
pub(crate) fn marker(t: &mut Table, why: Option<&str>) -> MarkerSpec {
    type Reader = fn(&mut Table) -> MarkerSpec;
    const KINDS: &[(&str, Reader)] = &[("none", |_| MarkerSpec::None), ("step", step), ("red", red)];
    let default = match why {
        Some(why) => ("step", Origin::Computed(format!("because {why}"))),
        // A step that is written without its kind is still one.
        None if STEP_KEYS.iter().any(|key| t.has(key)) => {
            ("step", Origin::Computed("because it has a threshold".to_owned()))
        }
        None => ("none", Origin::Computed("no transport in use has ECN".to_owned())),
    };
    let rule = "\"step\" if a transport in use has ECN, else \"none\"";
    let doc = "How packets are marked CE";
    let kind = t.variant("kind", Some((default.0, default.1, rule)), KINDS, doc);
    kind.map_or(MarkerSpec::None, |read| read(t))
}

fn step(t: &mut Table) -> MarkerSpec {
    let doc = "Mark while the backlog of the queue exceeds this: a size, or \"20 packets\"";
    let k = t.or("k", STEP_K, doc);
    let fits = match k {
        LengthSpec::Bytes(bytes) => (Bytes(1)..=BUFFER_MAX).contains(&bytes),
        LengthSpec::Packets(count) => count >= 1,
    };
    t.check(fits, "k", || format!("it is outside 1 B to {BUFFER_MAX}, and 1 packet or more"), "");
    MarkerSpec::Step {
        k,
        at: t.or("at", MarkAt::Enqueue, "When the backlog is looked at"),
        not_ect: t.or("not_ect", NotEct::Drop, NOT_ECT_DOC),
    }
}

fn red(t: &mut Table) -> MarkerSpec {
    let sizes = Bytes(1)..=BUFFER_MAX;
    let doc = "Below this average backlog nothing is marked";
    let min = t.or_in("min", RED_MIN, Bytes::ZERO..=BUFFER_MAX, doc);
    let doc = "From this average backlog on everything is marked (gentle: from twice this on)";
    let max = t.or_in("max", RED_MAX, sizes.clone(), doc);
    t.check(min < max, "min", || format!("{min} is not below max ({max})"), "");
    let doc = "Weight of a new sample in the average, above 0 to 1 (Floyd and Jacobson 1993)";
    let w_q = t.or("w_q", RED_W_Q, doc);
    t.check(w_q > 0.0 && w_q <= 1.0, "w_q", || format!("{w_q} is not above 0 and at most 1"), "");
    let p_max = t.or_in("p_max", RED_P_MAX, 0.0..=1.0, "Probability of a mark as the average comes to max");
    let doc = "Above max the probability rises to 1 at twice max, instead of at once (Floyd 2000)";
    let gentle = t.or("gentle", false, doc);
    let doc = "An idle period lowers the average as if so many packets of this size had met an empty queue";
    let average_packet = t.or_in("average_packet", Bytes::kb(1), sizes, doc);
    let not_ect = t.or("not_ect", NotEct::Drop, NOT_ECT_DOC);
    MarkerSpec::Red { min, max, w_q, p_max, gentle, average_packet, not_ect }
}
