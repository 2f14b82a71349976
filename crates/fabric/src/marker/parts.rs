//! Types of keys that several markers share.

use pauseframe_schema::choices;
use pauseframe_schema::document::{Item, Value};
use pauseframe_schema::shape::Shape;
use pauseframe_schema::value::{Mistake, Setting};
use pauseframe_units::Bytes;

/// The largest buffer: switches of today have hundreds of megabytes.
pub const BUFFER_MAX: Bytes = Bytes(4_000_000_000);

choices! {
    /// When a packet is judged: on arrival or on departure
    pub enum MarkAt {
        /// When the packet joins the queue
        Enqueue = "enqueue",
        /// When it leaves
        Dequeue = "dequeue",
    }
}

choices! {
    /// What happens above the marking threshold to packets that are not ECN-capable; lossless ones are always queued
    pub enum NotEctAction {
        /// Dropped, as a RED queue does (judd §7.1, Fig. 12)
        Drop = "drop",
        /// Queued like the others, up to the buffer
        Queue = "queue",
    }
}

/// A length of a queue: `"30 KB"` or `"20 packets"`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueLengthThreshold {
    /// Bytes of frames without preamble and gap.
    Bytes(Bytes),
    /// Packets, however long.
    Packets(u32),
}

impl QueueLengthThreshold {
    /// Whether a queue of `backlog` bytes and `waiting` packets exceeds the threshold.
    pub(super) fn is_exceeded(self, backlog: u64, waiting: u32) -> bool {
        match self {
            QueueLengthThreshold::Bytes(bytes) => backlog > bytes.0,
            QueueLengthThreshold::Packets(packets) => waiting > packets,
        }
    }
}

impl Setting for QueueLengthThreshold {
    fn shape() -> Shape {
        let packets = Shape::Pattern(r"^\s*[0-9]+\s*packets?\s*$");
        Shape::Any("a size or \"N packets\"", vec![Bytes::shape(), packets])
    }
    fn read(item: &Item) -> Result<QueueLengthThreshold, Mistake> {
        let count = match &item.value {
            Value::Text(text) => text.trim().strip_suffix("packets").or(text.trim().strip_suffix("packet")),
            _ => None,
        };
        let Some(count) = count else { return Bytes::read(item).map(QueueLengthThreshold::Bytes) };
        let mistake = |_| Mistake {
            message: format!("{} is not a number of packets", item.show()),
            hint: "write it as in \"20 packets\"".to_owned(),
        };
        count.trim().parse().map(QueueLengthThreshold::Packets).map_err(mistake)
    }
    fn toml(&self) -> String {
        match self {
            QueueLengthThreshold::Bytes(bytes) => bytes.toml(),
            QueueLengthThreshold::Packets(count) => format!("\"{count} packets\""),
        }
    }
}
