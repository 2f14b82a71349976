//! The receiving half of `[transport]`: when ACKs go out and what the window follows from.

use super::reader::Table;
use super::transport::TIME_MAX;
use crate::spec::{DelayedAckFormName, ReceiveBufferName};
use pauseframe_units::{BitRate, Bytes, Span};

/// Just below the largest that a shift of 14 can announce (RFC 7323 §2.3).
const WINDOW_MAX: Bytes = Bytes(1_000_000_000);

/// What was read.
pub(super) struct Receive {
    pub(super) delayed_ack_segments: u32,
    pub(super) delayed_ack_timeout: Span,
    pub(super) delayed_ack_form: DelayedAckFormName,
    pub(super) quick_acks: u32,
    pub(super) sack_compression: bool,
    pub(super) window: Bytes,
    pub(super) buffer: ReceiveBufferName,
    pub(super) buffer_initial: Bytes,
    pub(super) buffer_max: Bytes,
    pub(super) buffer_step: Bytes,
    pub(super) reassembly_limit: u32,
    pub(super) dsack: bool,
    pub(super) read_rate: Option<BitRate>,
}

impl Receive {
    pub(super) fn read(t: &mut Table) -> Receive {
        let doc = "Constant time-out (fixed), or adaptive from delayed_ack_timeout on, with quick ACKs and ACKs of \
                   pushed data (linux)";
        let form = t.or("delayed_ack_form", DelayedAckFormName::Fixed, doc);
        let doc =
            "ACKs sent at once at the start and after a pause, in the linux form (TCP_MAX_QUICKACKS: 16)";
        let quick_acks = t.or_in("quick_acks", 16, 0..=1_000_000, doc);
        let doc = "Hold back SACKs beyond the third for a gap up to 5 % of the RTT, in the linux form";
        let sack_compression = t.or("sack_compression", true, doc);
        // RFC 9293 §3.8.6.3: at least every second full segment. Linux: at the latest after 40 ms (HZ/25).
        let doc = "ACK at the latest after so many full segments";
        let delayed_ack_segments = t.or_in("delayed_ack_segments", 2, 1..=1000, doc);
        let range = Span::ZERO..=TIME_MAX;
        let delayed_ack_timeout =
            t.or_in("delayed_ack_timeout", Span::from_ms(40), range, "... or after this time");
        let (window, buffer, [buffer_initial, buffer_max, buffer_step]) = Receive::read_buffer(t);
        let doc = "Full segments that may wait above a gap, 0 for no limit (cee Table I: 200)";
        let reassembly_limit = t.or_in("reassembly_limit", 0, 0..=1_000_000, doc);
        let dsack = t.or("dsack", false, "Report data that came twice (RFC 2883); needs sack");
        let read_rate = t.optional("read_rate", "none: at once", "Rate at which the application reads");
        let positive = read_rate.is_none_or(|rate: BitRate| rate.0 >= 1000);
        t.check(positive, "read_rate", || "is below 1 kbps".to_owned(), "leave it out to read at once");
        Receive {
            delayed_ack_segments,
            delayed_ack_timeout,
            delayed_ack_form: form,
            quick_acks,
            sack_compression,
            window,
            buffer,
            buffer_initial,
            buffer_max,
            buffer_step,
            reassembly_limit,
            dsack,
            read_rate,
        }
    }

    /// Window, rule, and the sizes of a buffer that grows: first, largest, step.
    fn read_buffer(t: &mut Table) -> (Bytes, ReceiveBufferName, [Bytes; 3]) {
        let sizes = Bytes(1460)..=WINDOW_MAX;
        // Above the BDP of 100 Gb/s times bolt's 240 us, 3 MB, so that it limits nothing unasked.
        let doc = "Receive window where it is fixed";
        let window = t.or_in("receive_window", Bytes::kb(4000), sizes.clone(), doc);
        let doc = "The window: receive_window (fixed), half of a buffer that follows what is read (linux), or a \
                   buffer that grows in steps (freebsd, needs timestamps)";
        let rule = t.or("receive_buffer", ReceiveBufferName::Fixed, doc);
        let doc = "First buffer of linux (tcp_rmem[1]) and freebsd (recvspace)";
        let initial = t.or_in("receive_buffer_initial", Bytes(131_072), sizes.clone(), doc);
        let doc = "Largest buffer of linux (tcp_rmem[2]; the first size for no autotuning) and freebsd (recvbuf_max)";
        let max = t.or_in("receive_buffer_max", Bytes(6_291_456), sizes.clone(), doc);
        let message = || format!("{max} is below receive_buffer_initial ({initial})");
        t.check(rule == ReceiveBufferName::Fixed || max >= initial, "receive_buffer_max", message, "");
        let doc = "Step of freebsd (recvbuf_inc)";
        let step = t.or_in("receive_buffer_step", Bytes(16_384), sizes, doc);
        (window, rule, [initial, max, step])
    }
}
