//! A plug-in in Rust: which of the values that it sets count.

#![expect(unsafe_code, reason = "implements a C interface")]

use super::*;
use pauseframe_plugin::abi::{Ack, Delivery, Head, RawValue, Window};
use pauseframe_plugin::{PluginSource, failure_from_panic, register_plugin};
use std::cell::Cell;
use std::ptr::null;

type Action = fn(&mut Window);

thread_local! {
    /// What the plug-in does at its next call, what it returns, what it saw of a delivery, and how often it was told to
    /// forget and of a timeout.
    static ACTION: Cell<Action> = const { Cell::new(|_| ()) };
    static ANSWER: Cell<i64> = const { Cell::new(5000) };
    static SEEN: Cell<Option<Delivery>> = const { Cell::new(None) };
    static NOTICES: Cell<[u32; 2]> = const { Cell::new([0; 2]) };
}

unsafe extern "C" fn init(_: *mut c_void, _: *const RawValue) -> c_int {
    1
}

unsafe extern "C" fn on_ack(_: *mut c_void, window: *mut Window, _: *const Ack) -> c_int {
    // SAFETY: the window belongs to the caller.
    ACTION.get()(unsafe { &mut *window });
    1
}

unsafe extern "C" fn on_delivery(_: *mut c_void, window: *mut Window, delivery: *const Delivery) -> c_int {
    // SAFETY: both belong to the caller.
    SEEN.set(Some(unsafe { *delivery }));
    // SAFETY: as above.
    ACTION.get()(unsafe { &mut *window });
    1
}

unsafe extern "C" fn reduced(_: *mut c_void, _: *const Window, cause: c_int) -> i64 {
    ANSWER.get() + i64::from(cause)
}

unsafe extern "C" fn loss_after_ecn(_: *mut c_void, _: *const Window) -> i64 {
    ANSWER.get()
}

unsafe extern "C" fn forget_earned(_: *mut c_void) -> c_int {
    let [forgotten, timeouts] = NOTICES.get();
    NOTICES.set([forgotten + 1, timeouts]);
    1
}

unsafe extern "C" fn on_timeout(_: *mut c_void) -> c_int {
    let [forgotten, timeouts] = NOTICES.get();
    NOTICES.set([forgotten, timeouts + 1]);
    1
}

unsafe extern "C" fn on_timer(_: *mut c_void, window: *mut Window, _: i64) -> c_int {
    // SAFETY: as in `on_ack`.
    ACTION.get()(unsafe { &mut *window });
    1
}

unsafe extern "C" fn probe_after(_: *const c_void) -> i64 {
    ANSWER.get()
}

unsafe extern "C" fn alpha(_: *const c_void) -> f64 {
    0.25
}

/// A plug-in that paces, with a timer and without; or one that sets the window by delivery samples.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Plain,
    Full,
    Delivery,
}

fn load(module: &str, kind: Kind) -> Plugin {
    let head = Head {
        abi: abi::ABI,
        flags: if kind == Kind::Plain { 0 } else { abi::PACES },
        name: c"test".as_ptr(),
        doc: c"A test".as_ptr(),
        parameters: null(),
        parameter_count: 0,
        state_size: 0,
        init: Some(init),
    };
    let grows = kind != Kind::Delivery;
    let code = Box::leak(Box::new(WindowAlgorithm {
        head,
        on_ack: grows.then_some(on_ack as abi::OnAck),
        increase: grows.then_some(on_ack as abi::OnAck),
        reduced: grows.then_some(reduced as abi::Reduced),
        loss_after_ecn: (kind == Kind::Full).then_some(loss_after_ecn as abi::LossAfterEcn),
        forget_earned: (kind == Kind::Full).then_some(forget_earned as abi::Notice),
        on_timeout: (kind == Kind::Full).then_some(on_timeout as abi::Notice),
        on_restart: None,
        probe_after: (kind == Kind::Full).then_some(probe_after as abi::Count),
        alpha: (kind == Kind::Full).then_some(alpha as abi::Observe),
        on_delivery: (!grows).then_some(on_delivery as abi::OnDelivery),
        on_timer: (kind == Kind::Full).then_some(on_timer as abi::OnWindowTimer),
    }));
    let source = PluginSource { file: "t".into(), sha256: "0".into(), text: None, interpreted: false };
    // SAFETY: the description lives for ever, and its functions keep to the interface.
    let loaded = unsafe { register_plugin(module, std::ptr::from_ref(code) as usize, source, &[]) };
    Plugin::new(&PluginConfig::new(loaded.expect("it keeps to the interface")))
}

const NOW: Time = Time(5_000_000);

fn window() -> CongestionWindow {
    CongestionWindow { cwnd: 10_000, ssthresh: u64::MAX, mss: 1000 }
}

fn ack() -> AckSample {
    AckSample {
        acked: 1000,
        ece: false,
        snd_una: 1000,
        snd_nxt: 5000,
        now: NOW,
        rtt: Span::ZERO,
        srtt: Span::ZERO,
        open: true,
    }
}

/// What an action at an increase leaves: the window and the threshold, the pacing rate, and the timer.
fn after(plugin: &mut Plugin, action: Action) -> (u64, u64, Option<u64>, Time) {
    let mut window = window();
    ACTION.set(action);
    plugin.increase_window(&mut window, &ack());
    ACTION.set(|_| ());
    (window.cwnd, window.ssthresh, plugin.pacing_rate(), plugin.deadline())
}

#[test]
fn less_than_a_segment_counts_as_a_segment() {
    let mut plugin = load("small", Kind::Full);
    let (none, never) = (None, Time::MAX);
    assert_eq!(after(&mut plugin, |_| ()), (10_000, u64::MAX, none, never));
    assert_eq!(after(&mut plugin, |window| window.cwnd = 1), (1000, u64::MAX, none, never));
    assert_eq!(after(&mut plugin, |window| window.cwnd = 1 << 40), (1 << 40, u64::MAX, none, never));
    assert_eq!(after(&mut plugin, |window| window.ssthresh = 999), (10_000, 1000, none, never));
    assert_eq!(after(&mut plugin, |window| window.ssthresh = 7777), (10_000, 7777, none, never));
    for (cause, answer) in [(CongestionCause::Ecn, 5000), (CongestionCause::Loss, 5001)] {
        assert_eq!(plugin.on_congestion(&window(), cause), answer);
    }
    ANSWER.set(1);
    assert_eq!(plugin.on_congestion(&window(), CongestionCause::Ecn), 1000);
    // The contract is strict: a segment is allowed, less is not.
    plugin.enable_strict_checks();
    assert_eq!(after(&mut plugin, |window| window.cwnd = 1000), (1000, u64::MAX, none, never));
}

/// Linux calls `in_ack_event` for every ACK, so `on_ack` sees also those that acknowledge nothing new.
#[test]
fn a_plugin_sees_acks_without_progress() {
    let mut plugin = load("unmoved", Kind::Plain);
    let mut window = window();
    ACTION.set(|window| window.ssthresh = 7777);
    plugin.on_ack_without_progress(&mut window, &AckSample { acked: 0, ..ack() });
    assert_eq!((window.cwnd, window.ssthresh), (10_000, 7777));
}

/// Without a function for it the window stays at the threshold.
#[test]
fn a_plugin_sets_the_window_after_a_loss_that_follows_ecn() {
    let reduced = CongestionWindow { ssthresh: 7000, ..window() };
    let mut plugin = load("cuts", Kind::Full);
    for (answer, cwnd) in [(5000, 5000), (1, 1000)] {
        ANSWER.set(answer);
        assert_eq!(plugin.on_loss_in_cwr(&reduced), cwnd);
    }
    assert_eq!(load("stays", Kind::Plain).on_loss_in_cwr(&reduced), 7000);
}

#[test]
fn a_plugin_is_told_of_timeouts_and_to_forget_what_it_earned() {
    for (kind, told) in [(Kind::Full, [2, 1]), (Kind::Plain, [0, 0])] {
        NOTICES.set([0; 2]);
        let mut plugin = load("told", kind);
        plugin.on_timeout();
        plugin.discard_credit();
        plugin.discard_credit();
        assert_eq!(NOTICES.get(), told);
    }
}

#[test]
fn a_plugin_sets_pacing_rate_and_timer() {
    let mut plugin = load("paces", Kind::Full);
    let mut of = |action| {
        let (_, _, rate, timer) = after(&mut plugin, action);
        (rate, timer)
    };
    assert_eq!(of(|window| window.pacing_rate = 1), (Some(1), Time::MAX));
    assert_eq!(
        of(|window| window.pacing_rate = 1_000_000_000_000_000),
        (Some(1_000_000_000_000_000), Time::MAX)
    );
    assert_eq!(of(|window| window.pacing_rate = 0), (None, Time::MAX));
    assert_eq!(of(|window| window.timer = 5_000_001), (None, Time(5_000_001)));
    assert_eq!(of(|_| ()), (None, Time(5_000_001)));
    assert_eq!(of(|window| window.timer = 0), (None, Time::MAX));
    assert_eq!(of(|window| window.timer = 6_000_000), (None, Time(6_000_000)));
    let mut window = window();
    ACTION.set(|window| window.cwnd = 3000);
    plugin.on_timer(&mut window, Time(6_000_000));
    assert_eq!((window.cwnd, plugin.deadline()), (3000, Time::MAX));
    ANSWER.set(1);
    assert_eq!(plugin.timeouts_before_probing(), 1);
    assert_eq!(load("plain", Kind::Plain).timeouts_before_probing(), u32::MAX);
    assert_eq!(plugin.dctcp_alpha(), Some(0.25));
    assert_eq!(load("unobserved", Kind::Plain).dctcp_alpha(), None);
}

#[test]
fn values_that_make_no_sense_end_the_run() {
    type Call = fn(&mut Plugin);
    let grow: Call = |plugin| plugin.increase_window(&mut window(), &ack());
    let cases: [(Kind, bool, Action, Call, &str); 10] = [
        (Kind::Full, false, |window| window.cwnd = 0, grow, "set cwnd to 0"),
        (Kind::Full, false, |window| window.cwnd = (1 << 40) + 1, grow, "set cwnd to 1099511627777"),
        (Kind::Full, true, |window| window.cwnd = 999, grow, "less than one segment of 1000 bytes"),
        (
            Kind::Full,
            false,
            |window| window.cwnd = 1,
            |plugin| plugin.on_ack(&mut window(), &ack()),
            "changed cwnd",
        ),
        (Kind::Full, false, |window| window.pacing_rate = -1, grow, "set pacing_rate to -1"),
        (
            Kind::Full,
            false,
            |window| window.pacing_rate = 1_000_000_000_000_001,
            grow,
            "set pacing_rate to 1000000000000001",
        ),
        (Kind::Plain, false, |window| window.pacing_rate = 5, grow, "not declared to pace"),
        (Kind::Plain, false, |window| window.timer = 9_000_000, grow, "has no function on_timer"),
        (Kind::Full, false, |window| window.timer = 5_000_000, grow, "which is not after now"),
        (
            Kind::Full,
            false,
            |_| ANSWER.set(0),
            |plugin| {
                plugin.increase_window(&mut window(), &ack());
                plugin.timeouts_before_probing();
            },
            "returned 0",
        ),
    ];
    for (kind, strict, action, call, reason) in cases {
        let mut plugin = load("wrong", kind);
        if strict {
            plugin.enable_strict_checks();
        }
        ACTION.set(action);
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| call(&mut plugin)));
        let panic = failed.expect_err(reason).downcast::<String>().expect("a text");
        let message = failure_from_panic(&panic).expect("a plug-in's failure");
        assert!(message.contains(reason), "{message}");
    }
}

/// 3000 bytes in 20 us are 1.2 Gb/s; the smallest round trip so far is kept.
#[test]
fn a_plugin_sees_rate_and_smallest_round_trip() {
    let mut plugin = load("delivery", Kind::Delivery);
    assert!(plugin.owns_window() && !load("other", Kind::Full).owns_window());
    let mut deliver = |rtt, interval, phase| {
        let sample = DeliverySample {
            now: NOW,
            delivered: 5000,
            lost: 70,
            prior_delivered: 2000,
            interval,
            newly_delivered: 1000,
            newly_lost: 7,
            prior_in_flight: 4000,
            in_flight: 3000,
            rtt,
            phase,
            ..DeliverySample::QUIET
        };
        ACTION.set(|window| window.cwnd = 4000);
        let mut window = window();
        assert!(!plugin.on_delivery(&mut window, &sample));
        assert_eq!(window.cwnd, 4000);
        SEEN.get().expect("it was called")
    };
    let first = deliver(Some(Span(90)), Some(20), RecoveryPhase::Open);
    assert_eq!((first.rate, first.interval, first.rtt, first.min_rtt), (1_200_000_000, 20_000_000, 90, 90));
    assert_eq!((first.lost, first.total_lost, first.recovering), (7, 70, 0));
    let second = deliver(Some(Span(80)), None, RecoveryPhase::Recovery);
    assert_eq!((second.rate, second.interval, second.min_rtt, second.recovering), (0, 0, 80, 1));
    assert_eq!(deliver(Some(Span(95)), None, RecoveryPhase::Open).min_rtt, 80);
    assert_eq!(deliver(None, None, RecoveryPhase::Open).rtt, 0);
}
