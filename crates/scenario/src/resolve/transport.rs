//! `[transport]` and `[transports.NAME]`: a stack's row, a preset's row above it, and what the file changes in them.

use super::congestion_control::congestion_control;
use super::ledger::{Entry, Ledger, Origin};
use super::reader::Table;
use super::receive::Receive;
use super::send::Send;
use super::value::{Setting, did_you_mean};
use crate::presets::{self, PRESETS, Preset};
use crate::recovery::RecoverySpec;
use crate::spec::{CacheName, EcnName, InitialWindow, RtoFormName, TransportSpec};
use crate::stacks::{self, STACKS};
use pauseframe_transport::CongestionControlConfig;
use pauseframe_units::Span;

/// Timers are shorter than this: an hour.
pub(super) const TIME_MAX: Span = Span::from_secs(3600);

/// Reads one transport. Its priority follows from the switches and is settled later ([`settle_priority`]).
pub(crate) fn transport(t: &mut Table, reorders: Option<&str>) -> (TransportSpec, Option<u8>) {
    let stack = stack(t);
    let name = preset(t);
    let congestion_control = congestion_control(t);
    let initial_window = t.or(
        "initial_window",
        InitialWindow::Segments(10), // RFC 6928
        "\"10 segments\", \"bdp\" (host link rate times the base RTT of the longest path) or a size",
    );
    let (ecn, ect_on_syn, ect_on_ack) = ecn(t, &congestion_control, &stack);
    let lossless = t.or("lossless", false, "Send in a lossless priority, the first of switch.pfc.priorities");
    let rule = "what switch.priority_of_dscp says, else the first of switch.pfc.priorities if lossless, else the lowest that \
         is not one of them";
    let priority = t.optional_in("priority", 0..=7, rule, "802.1p priority of all packets of this transport");
    let doc =
        "Differentiated services code point of its packets; switch.priority_of_dscp can give it a priority";
    let dscp = t.or_in("dscp", 0, 0..=63, doc);
    let recovery = Recovery::read(t, reorders);
    let rto = Rto::read(t);
    let receive = Receive::read(t);
    let send = Send::read(t);
    let spec = TransportSpec {
        preset: name,
        stack,
        congestion_control,
        initial_window,
        ecn,
        ect_on_syn,
        ect_on_ack,
        lossless,
        priority: priority.unwrap_or(0),
        dscp,
        sack: recovery.sack,
        timestamps: t.or("timestamps", false, "Timestamps option: 12 bytes on every segment (RFC 7323)"),
        fast_retransmit: recovery.fast_retransmit,
        dup_thresh: recovery.dup_thresh,
        limited_transmit: recovery.limited_transmit,
        recovery: recovery.beyond,
        handshake: t.or("handshake", true, "Three-way handshake for every flow"),
        rto_initial: rto.initial,
        rto_min: rto.min,
        rto_max: rto.max,
        rto_granularity: rto.granularity,
        rto_form: rto.form,
        rto_slop: rto.slop,
        timer_wheel: rto.wheel,
        delayed_ack_segments: receive.delayed_ack_segments,
        delayed_ack_timeout: receive.delayed_ack_timeout,
        delayed_ack_form: receive.delayed_ack_form,
        quick_acks: receive.quick_acks,
        sack_compression: receive.sack_compression,
        receive_window: receive.window,
        receive_buffer: receive.buffer,
        receive_buffer_initial: receive.buffer_initial,
        receive_buffer_max: receive.buffer_max,
        receive_buffer_step: receive.buffer_step,
        send_buffer: send.buffer,
        send_buffer_initial: send.initial,
        send_buffer_max: send.max,
        small_segments: send.small_segments,
        small_queues: send.small_queues,
        reassembly_limit: receive.reassembly_limit,
        dsack: receive.dsack,
        read_rate: receive.read_rate,
        fin: t.or("fin", false, "End connections with FIN and its ACK (RFC 9293 §3.6); else they vanish"),
        cache: t.or(
            "cache",
            CacheName::None,
            "What the next connection to the same peer inherits: RTT (linux), also ssthresh (linux_ssthresh, \
             freebsd), also the congestion window (cee)",
        ),
        syn_retries: t.or_in("syn_retries", 6, 0..=255, "SYN retransmissions before giving up (Linux: 6)"),
        retries: t.or_in("retries", 15, 0..=255, "Consecutive time-outs before giving up (Linux: 15)"),
    };
    (spec, priority)
}

fn stack(t: &mut Table) -> String {
    let known: Vec<&str> =
        std::iter::once(stacks::NONE).chain(STACKS.iter().map(|stack| stack.name)).collect();
    let doc = format!("Values of an operating system, below the preset's: {}", known.join(", "));
    let name: String = t.or("stack", stacks::NONE.to_owned(), &doc);
    if let Some(stack) = stacks::find(&name) {
        t.layer_below(stack);
    }
    let message = || format!("{name:?} is not one of {}", known.join(", "));
    t.check(known.contains(&name.as_str()), "stack", message, &did_you_mean(&name, known.iter().copied()));
    name
}

fn preset(t: &mut Table) -> String {
    let known = PRESETS.iter().map(|preset| preset.name).collect::<Vec<_>>();
    let doc = format!("Row of values below the file's own: {}", known.join(", "));
    let name: String = t.or("preset", presets::DEFAULT.name.to_owned(), &doc);
    if let Some(preset) = presets::find(&name) {
        t.layer(preset);
    }
    let message = || format!("{name:?} is not one of {}", known.join(", "));
    t.check(presets::find(&name).is_some(), "preset", message, &did_you_mean(&name, known.iter().copied()));
    name
}

fn ecn(t: &mut Table, control: &CongestionControlConfig, stack: &str) -> (EcnName, bool, bool) {
    let doc = "ECN: none, one halving a window (RFC 3168), or the exact echo of CE (RFC 8257)";
    let ecn = t.or("ecn", EcnName::Off, doc);
    // Linux 6.1: a DCTCP socket sends everything as ECT(0) (tcp_ca_needs_ecn).
    let is_dctcp = matches!(control, CongestionControlConfig::Dctcp(_));
    let all_ect = stack == "linux" && is_dctcp;
    let origin = || {
        if all_ect { Origin::Computed("DCTCP of the linux stack".to_owned()) } else { Origin::Default }
    };
    let rule = "false; true for DCTCP of stack = \"linux\"";
    let doc = "ECT on SYN and SYN-ACK too (judd §7.4: DCTCP+)";
    let ect_on_syn = t.or_because("ect_on_syn", all_ect, origin(), rule, doc);
    let doc = "ECT on pure ACKs and retransmissions too, as Linux does for DCTCP";
    let ect_on_ack = t.or_because("ect_on_ack", all_ect, origin(), rule, doc);
    if is_dctcp && ecn != EcnName::Dctcp {
        let path = t.at("ecn");
        t.ledger.warn(format!(
            "{path}: {} with congestion_control \"dctcp\", which needs the exact echo of CE (ecn = \"dctcp\")",
            ecn.plain()
        ));
    }
    (ecn, ect_on_syn, ect_on_ack)
}

struct Recovery {
    sack: bool,
    fast_retransmit: bool,
    dup_thresh: u32,
    limited_transmit: bool,
    beyond: RecoverySpec,
}

impl Recovery {
    fn read(t: &mut Table, reorders: Option<&str>) -> Recovery {
        let sack = t.or("sack", true, "Selective acknowledgements (RFC 2018, RFC 6675)");
        // bolt §IV-A2 turns it off where packets of a flow overtake each other.
        let (fast, origin) = match reorders {
            None => (true, Origin::Default),
            Some(why) => (false, Origin::Computed(format!("because {why}"))),
        };
        let doc = "Fast retransmit and fast recovery (RFC 5681 §3.2)";
        let rule = "true; false if routing.kind = \"spray\" or routing.per = \"packet\"";
        let fast_retransmit = t.or_because("fast_retransmit", fast, origin, rule, doc);
        let dup_thresh = t.or_in("dup_thresh", 3, 1..=1000, "Duplicate ACKs that trigger it (RFC 5681: 3)");
        let limited_transmit = t.or("limited_transmit", true, "Limited transmit (RFC 3042)");
        let beyond = super::recovery::recovery(t, sack, fast_retransmit);
        Recovery { sack, fast_retransmit, dup_thresh, limited_transmit, beyond }
    }
}

struct Rto {
    initial: Span,
    min: Span,
    max: Span,
    granularity: Span,
    form: RtoFormName,
    slop: Span,
    wheel: bool,
}

impl Rto {
    /// RFC 6298 with the values of Linux: minimum 200 ms (HZ/5), maximum 120 s, ticks of 1 ms (HZ 1000).
    fn read(t: &mut Table) -> Rto {
        let some = Span(1)..=TIME_MAX;
        let doc = "RTO before the first sample (RFC 6298 §2.1)";
        let initial = t.or_in("rto_initial", Span::from_secs(1), some.clone(), doc);
        let min =
            t.or_in("rto_min", Span::from_ms(200), Span::ZERO..=TIME_MAX, "Lower bound of the RTO (Linux)");
        let max = t.or_in("rto_max", Span::from_secs(120), some.clone(), "Upper bound of the RTO (Linux)");
        for (key, value) in [("rto_min", min), ("rto_initial", initial)] {
            t.check(
                value <= max,
                key,
                || format!("{value} is above rto_max ({max})"),
                "raise rto_max or lower this",
            );
        }
        let doc = "Clock granularity: deadlines are rounded up to a multiple of it";
        let granularity = t.or_in("rto_granularity", Span::from_ms(1), some, doc);
        let doc = "How rto_min enters: rfc max(rto_min, srtt + 4 rttvar), linux srtt + max(rto_min, 4 rttvar), \
                   freebsd srtt + 4 rttvar + slop";
        let form = t.or("rto_form", RtoFormName::Linux, doc);
        let doc = "Constant added in the freebsd form (cee Table I: 20 ms)";
        let slop = t.or_in("rto_slop", Span::from_ms(20), Span::ZERO..=TIME_MAX, doc);
        let doc = "Timers expire as on Linux's timer wheel: one to two ticks late, of 63 ticks and more up to an eighth";
        let wheel = t.or("timer_wheel", false, doc);
        Rto { initial, min, max, granularity, form, slop, wheel }
    }
}

/// Chooses the priority of a transport that was read at `path`, now that the lossless priorities are known.
pub(crate) fn settle_priority(
    ledger: &mut Ledger,
    path: &str,
    spec: &mut TransportSpec,
    given: Option<u8>,
    (lossless, priority_of_dscp): (&[u8], &[[u8; 2]]),
    is_used: bool,
) {
    let path = format!("{path}.priority");
    let of_dscp = priority_of_dscp.iter().find(|[dscp, _]| *dscp == spec.dscp).map(|[_, priority]| *priority);
    let other = of_dscp.filter(|of_dscp| is_used && Some(*of_dscp) != given);
    if let (Some(given), Some(of_dscp)) = (given, other) {
        let message =
            format!("{given}, but switch.priority_of_dscp gives DSCP {} priority {of_dscp}", spec.dscp);
        ledger.problem(&path, message, "leave one of them out");
    }
    if let (None, Some(of_dscp)) = (given, of_dscp) {
        spec.priority = of_dscp;
        let origin = Origin::Computed(format!("switch.priority_of_dscp for DSCP {}", spec.dscp));
        ledger.settle(&path, of_dscp.toml(), origin);
    }
    let Some(given) = given.or(of_dscp) else {
        let (choice, why) = if spec.lossless {
            (lossless.first().copied(), "the first of switch.pfc.priorities")
        } else {
            ((0..8).find(|priority| !lossless.contains(priority)), "the lowest that is not lossless")
        };
        spec.priority = choice.unwrap_or(0);
        let origin = Origin::Computed(why.to_owned());
        ledger.settle(&path, spec.priority.toml(), origin);
        if choice.is_none() && !spec.lossless && is_used {
            let hint = "leave a priority out of switch.pfc.priorities, or set lossless = true";
            ledger.problem(&path, "all eight priorities are lossless, and this transport is not", hint);
        }
        return;
    };
    // What no workload uses may not fit.
    if is_used && spec.lossless != lossless.contains(&given) && !ledger.failed(&path) {
        let (is, hint) = if spec.lossless {
            (
                "is not one of switch.pfc.priorities, but the transport is lossless",
                "add it there, or leave priority out",
            )
        } else {
            (
                "is a lossless priority, but the transport is lossy",
                "set lossless = true, or leave priority out",
            )
        };
        ledger.problem(&path, format!("{given} {is}"), hint);
    }
}

/// Every key of `[transport]` with the value that `preset` above `stack` gives it.
pub(crate) fn row(preset: &'static Preset, stack: &'static str, reorders: Option<&str>) -> Vec<Entry> {
    let mut root = super::document::Item::table(super::document::Place::Nowhere);
    root.insert("stack", super::document::parse_word(stack, super::document::Place::Nowhere));
    root.insert("preset", super::document::parse_word(preset.name, super::document::Place::Nowhere));
    let mut ledger = Ledger::new(&root, "");
    transport(&mut Table::root(&mut ledger), reorders);
    ledger.close().map_or_else(|_| Vec::new(), |(entries, _)| entries)
}
