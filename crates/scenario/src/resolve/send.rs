//! What `[transport]` says of the application's data: where they wait, and whether a small rest goes out.

use super::reader::Table;
use super::value::Choice;
use crate::spec::{SendBufferName, SmallSegmentsName};
use pauseframe_units::Bytes;

impl Choice for SendBufferName {
    const NAMES: &'static [(&'static str, Self)] = &[("unlimited", Self::Unlimited), ("linux", Self::Linux)];
}
impl Choice for SmallSegmentsName {
    const NAMES: &'static [(&'static str, Self)] =
        &[("at_once", Self::AtOnce), ("nagle", Self::Nagle), ("cork", Self::Cork)];
}

/// What was read.
pub(super) struct Send {
    pub(super) buffer: SendBufferName,
    pub(super) initial: Bytes,
    pub(super) max: Bytes,
    pub(super) small_segments: SmallSegmentsName,
    pub(super) small_queues: bool,
}

impl Send {
    pub(super) fn read(t: &mut Table) -> Send {
        let sizes = Bytes(4096)..=Bytes(1_000_000_000);
        let doc = "Where data wait until they are acknowledged: without limit, or in a buffer that grows with the window (linux); \
                   what fills it is pushed";
        let buffer = t.or("send_buffer", SendBufferName::Unlimited, doc);
        let doc = "First send buffer of linux (tcp_wmem[1])";
        let initial = t.or_in("send_buffer_initial", Bytes(16_384), sizes.clone(), doc);
        let doc = "Largest send buffer of linux (tcp_wmem[2])";
        let max = t.or_in("send_buffer_max", Bytes(4_194_304), sizes, doc);
        let message = || format!("{max} is below send_buffer_initial ({initial})");
        let able = buffer == SendBufferName::Unlimited || max >= initial;
        t.check(able, "send_buffer_max", message, "raise it, or lower send_buffer_initial");
        let doc = "A last segment that is not full: sent (at_once, TCP_NODELAY), held while another small one is not acknowledged \
                   (nagle), or until more comes or the probe timer expires (cork, TCP_CORK)";
        let small_segments = t.or("small_segments", SmallSegmentsName::AtOnce, doc);
        let doc = "A socket keeps no more in the queues of its host than it sends in about a millisecond (TCP small queues)";
        let small_queues = t.or("small_queues", false, doc);
        Send { buffer, initial, max, small_segments, small_queues }
    }
}
