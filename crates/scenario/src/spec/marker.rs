//! `[switch.marker]` and `[switch.classes.NAME.marker]`.

use super::switch::BUFFER_MAX;
use pauseframe_schema::bounds::Above;
use pauseframe_schema::document::{Item, Value};
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;
use pauseframe_schema::shape::Shape;
use pauseframe_schema::value::{Mistake, Setting};
use pauseframe_schema::{choices, kinds, table};
use pauseframe_units::Bytes;

kinds! {
    /// How packets are marked
    #[derive(Copy)]
    pub enum MarkerSpec {
        "none" => None(NoMarker);
        "step" => Step(Step);
        "red" => Red(Red);
    }
    pub fn read(t);
}

table! {
    /// No ECN marking
    #[derive(Copy)]
    pub struct NoMarker {}
    pub fn read(t);
}

table! {
    /// CE when the backlog exceeds `k`
    #[derive(Copy)]
    pub struct Step {
        // bolt §IV-A2: DCTCP's threshold.
        /// Mark while the backlog of the queue exceeds this: a size, or "20 packets"
        k: LengthSpec = or(LengthSpec::Bytes(Bytes(22_500))) => {
            let fits = match k {
                LengthSpec::Bytes(bytes) => (Bytes(1)..=BUFFER_MAX).contains(&bytes),
                LengthSpec::Packets(count) => count >= 1,
            };
            t.check(fits, "k", || format!("it is outside 1 B to {BUFFER_MAX}, and 1 packet or more"), "");
        };
        /// When the backlog is looked at
        at: MarkAt = or(MarkAt::Enqueue);
        /// What happens there to lossy packets that are not ECN-capable
        not_ect: NotEct = or(NotEct::Drop);
    }
    pub fn read(t);
}

table! {
    /// Random Early Detection (Floyd and Jacobson 1993): CE with a probability that grows with the average backlog
    // The defaults are those of cee Table I.
    #[derive(Copy)]
    pub struct Red {
        /// Below this average backlog nothing is marked
        min: Bytes = or_in(Bytes(25_600), Bytes::ZERO..=BUFFER_MAX);
        /// From this average backlog on everything is marked (gentle: from twice this on)
        max: Bytes = or_in(Bytes(76_800), Bytes(1)..=BUFFER_MAX) => {
            t.check(min < max, "min", || format!("{min} is not below max ({max})"), "");
        };
        /// Weight of a new sample in the average (Floyd and Jacobson 1993)
        w_q: f64 = or_in(0.002, Above(0.0, 1.0, ""));
        /// Probability of a mark as the average comes to max
        p_max: f64 = or_in(0.02, 0.0..=1.0);
        /// Above max the probability rises to 1 at twice max, instead of at once (Floyd 2000)
        gentle: bool = or(false);
        /// An idle period lowers the average as if so many packets of this size had met an empty queue
        average_packet: Bytes = or_in(Bytes::kb(1), Bytes(1)..=BUFFER_MAX);
        /// What happens there to lossy packets that are not ECN-capable
        not_ect: NotEct = or(NotEct::Drop);
    }
    pub fn read(t);
}

choices! {
    /// What happens above the marking threshold to packets that are not ECN-capable; lossless ones are always queued
    pub enum NotEct {
        /// Dropped, as a RED queue does (judd §7.1, Fig. 12)
        Drop = "drop",
        /// Queued like the others, up to the buffer
        Queue = "queue",
    }
}

choices! {
    /// When the backlog is looked at
    pub enum MarkAt {
        /// When the packet joins the queue
        Enqueue = "enqueue",
        /// When it leaves
        Dequeue = "dequeue",
    }
}

/// Reads a marker; `why` there is one where the file does not say.
pub(crate) fn marker(t: &mut Table, why: Option<&str>) -> MarkerSpec {
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
    let kind = MarkerSpec::read(t, "kind", Some((default.0, default.1, rule)), "How packets are marked CE");
    kind.unwrap_or(MarkerSpec::None(NoMarker {}))
}

/// A length of a queue: `"30 KB"` or `"20 packets"`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LengthSpec {
    /// Bytes.
    Bytes(Bytes),
    /// Packets.
    Packets(u32),
}

impl Setting for LengthSpec {
    fn shape() -> Shape {
        let packets = Shape::Pattern(r"^\s*[0-9]+\s*packets?\s*$");
        Shape::Any("a size or \"N packets\"", vec![Bytes::shape(), packets])
    }
    fn read(item: &Item) -> Result<LengthSpec, Mistake> {
        let count = match &item.value {
            Value::Text(text) => text.trim().strip_suffix("packets").or(text.trim().strip_suffix("packet")),
            _ => None,
        };
        let Some(count) = count else { return Bytes::read(item).map(LengthSpec::Bytes) };
        let mistake = |_| Mistake {
            message: format!("{} is not a number of packets", item.show()),
            hint: "write it as in \"20 packets\"".to_owned(),
        };
        count.trim().parse().map(LengthSpec::Packets).map_err(mistake)
    }
    fn toml(&self) -> String {
        match self {
            LengthSpec::Bytes(bytes) => bytes.toml(),
            LengthSpec::Packets(count) => format!("\"{count} packets\""),
        }
    }
}
