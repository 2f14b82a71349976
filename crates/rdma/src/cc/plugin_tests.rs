//! A plug-in in Rust: what it sees, and which of its values count.

#![expect(unsafe_code, reason = "implements a C interface")]

use super::*;
use crate::cc::RdmaControl;
use pauseframe_plugin::abi::{Head, Pair, PairAck, RawValue};
use pauseframe_plugin::{PluginSource, failure_from_panic, register_plugin};
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::null;

type Action = fn(&mut Pair);

thread_local! {
    /// What the plug-in does at its next call, what it saw at the last one, and how many there were.
    static ACTION: Cell<Action> = const { Cell::new(|_| ()) };
    static SEEN: Cell<Option<(Pair, Option<PairAck>, i64)>> = const { Cell::new(None) };
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

fn act(pair: *mut Pair, ack: Option<&PairAck>, bytes: i64) -> c_int {
    // SAFETY: the pair belongs to the caller.
    let pair = unsafe { &mut *pair };
    SEEN.set(Some((*pair, ack.copied(), bytes)));
    CALLS.set(CALLS.get() + 1);
    ACTION.get()(pair);
    1
}

unsafe extern "C" fn init(_: *mut c_void, _: *const RawValue) -> c_int {
    1
}

unsafe extern "C" fn on_pair(_: *mut c_void, pair: *mut Pair) -> c_int {
    act(pair, None, 0)
}

unsafe extern "C" fn on_ack(_: *mut c_void, pair: *mut Pair, ack: *const PairAck) -> c_int {
    // SAFETY: the acknowledgement belongs to the caller.
    act(pair, Some(unsafe { &*ack }), 0)
}

unsafe extern "C" fn on_sent(_: *mut c_void, pair: *mut Pair, bytes: i64) -> c_int {
    act(pair, None, bytes)
}

/// A plug-in with these flags; `all`: with every function, else with those that it must have.
fn load(module: &str, flags: u32, all: bool) -> RdmaControl {
    let head = Head {
        abi: abi::ABI,
        flags: flags | abi::RATE_CONTROL,
        name: c"test".as_ptr(),
        doc: c"A test".as_ptr(),
        parameters: null(),
        parameter_count: 0,
        state_size: 0,
        init: Some(init),
    };
    let optional = all.then_some(on_pair as abi::OnPair);
    let code = Box::leak(Box::new(RateAlgorithm {
        head,
        on_start: optional,
        on_ack: Some(on_ack),
        on_cnp: optional,
        on_loss: optional,
        on_timer: optional,
        on_sent: all.then_some(on_sent as abi::OnPairSent),
    }));
    let source = PluginSource { file: "t".into(), sha256: "0".into(), text: None, interpreted: false };
    // SAFETY: the description lives for ever, and its functions keep to the interface.
    let loaded = unsafe { register_plugin(module, std::ptr::from_ref(code) as usize, source, &[]) };
    assert_eq!(loaded.map(|code| code.name), Ok(&*format!("{module}:test")));
    RdmaControl::find(&format!("{module}:test")).expect("it was loaded")
}

const LINE: u64 = 100_000_000_000;
const NOW: Time = Time(5_000_000);

fn start(control: RdmaControl) -> PluginControl {
    let RdmaControl::Plugin(config) = control else { unreachable!("it is a plug-in") };
    let mut settings = QueuePairSettings { mtu: 1000, line: LINE, ..QueuePairSettings::default() };
    settings.parameters.base_rtt = Span::from_us(8);
    settings.parameters.links = 3;
    PluginControl::new(config, &settings)
}

/// Lets the plug-in do something when a CNP comes.
fn at_cnp(plugin: &mut PluginControl, action: Action) {
    ACTION.set(action);
    plugin.on_cnp(NOW);
    ACTION.set(|_| ());
}

#[test]
fn a_plugin_has_the_properties_that_it_declares() {
    let of =
        |control: RdmaControl| [control.reads_telemetry(), control.reacts_to_cnps(), control.has_window()];
    assert_eq!(of(load("bare", 0, false)), [false; 3]);
    assert_eq!(of(load("hops", abi::READS_TELEMETRY, false)), [true, false, false]);
    assert_eq!(of(load("cnps", 0, true)), [false, true, false]);
    assert_eq!(of(load("window", abi::SETS_WINDOW, false)), [false, false, true]);
    let control = load("bare", 0, false);
    assert_eq!((control.is_dcqcn(), control.is_unordered(), control.follows_links()), (false, false, true));
    assert_eq!((control.built_in(), control.plugin().map(|code| code.name)), (None, Some("bare:test")));
}

#[test]
fn a_plugin_sees_the_queue_pair() {
    let mut plugin = start(load("sees", abi::SETS_WINDOW, true));
    let seen = || SEEN.get().expect("it was called");
    plugin.start(7, 11, NOW);
    let (first, _, _) = seen();
    let expected = Pair {
        rate: LINE as i64,
        window: 0,
        timer: 0,
        now: 5_000_000,
        line_rate: LINE as i64,
        mtu: 1000,
        base_rtt: 8_000_000,
        links: 3,
        random: first.random,
    };
    assert_eq!(first, expected);
    plugin.on_loss(NOW);
    assert_ne!(seen().0.random, first.random);
    plugin.on_sent(1082, NOW);
    assert_eq!(seen().2, 1082);
    assert_eq!(CALLS.get(), 3);
}

/// A port at 100 Gb/s counts bytes in units of 512, and the queue in units of 320.
#[test]
fn counters_of_ports_rise_from_one_acknowledgement_to_the_next() {
    let mut plugin = start(load("counters", abi::READS_TELEMETRY, true));
    plugin.hops.quantum = Quantum::for_line(LINE);
    let mut acknowledge = |acked_bytes, hops: &[(u64, u64)]| {
        let mut telemetry = Telemetry::EMPTY;
        for (queue, sent) in hops {
            telemetry.push(plugin.hops.quantum.stamp((LINE / 1000) as u32, *queue, *sent, 3 * sent));
        }
        let rtt = Some(Span::from_us(9));
        plugin.on_ack(&Acknowledgement {
            now: NOW,
            packets: 2,
            // Packets times the MTU, however short the packets are.
            acked: 2 * acked_bytes,
            next: 18_000,
            acked_bytes,
            sent_bytes: 9000,
            rtt,
            telemetry: &telemetry,
        });
        SEEN.get().and_then(|(_, ack, _)| ack).expect("it was called")
    };
    let first = acknowledge(2000, &[(640, 5120)]);
    assert_eq!((first.acked, first.packets, first.una, first.nxt), (2000, 2, 2000, 9000));
    assert_eq!((first.rtt, first.hops), (9_000_000, 1));
    assert_eq!((first.hop_rate[0], first.hop_queue[0]), (LINE as i64, 640));
    assert_eq!((first.hop_bytes[0], first.hop_time[0]), (0, 0));
    let second = acknowledge(3000, &[(0, 6144)]);
    assert_eq!((second.acked, second.una), (1000, 3000));
    assert_eq!((second.hop_bytes[0], second.hop_time[0]), (1024, 3 * 1024 * 1000));
    let third = acknowledge(3000, &[(0, 8192)]);
    assert_eq!((third.acked, third.hop_bytes[0], third.hop_time[0]), (0, 3072, 3 * 3072 * 1000));
    // Another path: its counters begin again.
    let other = acknowledge(4000, &[(0, 512), (0, 1024)]);
    assert_eq!((other.hops, other.hop_bytes, other.hop_time), (2, [0; 8], [0; 8]));
}

#[test]
fn a_plugin_sets_rate_window_and_timer() {
    let mut plugin = start(load("sets", abi::SETS_WINDOW, true));
    let mut after = |action| {
        at_cnp(&mut plugin, action);
        (plugin.rate(), plugin.own_window(), plugin.deadline())
    };
    assert_eq!(after(|_| ()), (LINE, None, Time::MAX));
    assert_eq!(after(|pair| pair.rate = 1), (1, None, Time::MAX));
    assert_eq!(after(|pair| pair.rate = i64::MAX), (LINE, None, Time::MAX));
    assert_eq!(after(|pair| pair.rate = 70), (70, None, Time::MAX));
    // Less than a packet is a packet, and 0 is no window.
    assert_eq!(after(|pair| pair.window = 1), (70, Some(1000), Time::MAX));
    assert_eq!(after(|pair| pair.window = 1 << 40), (70, Some(1 << 40), Time::MAX));
    assert_eq!(after(|pair| pair.window = 0), (70, None, Time::MAX));
    assert_eq!(after(|pair| pair.timer = 5_000_001), (70, None, Time(5_000_001)));
    assert_eq!(after(|_| ()), (70, None, Time(5_000_001)));
    assert_eq!(after(|pair| pair.timer = 0), (70, None, Time::MAX));
}

#[test]
fn the_timer_of_a_plugin_expires_once() {
    let mut plugin = start(load("timer", 0, true));
    at_cnp(&mut plugin, |pair| pair.timer = 6_000_000);
    let calls = CALLS.get();
    plugin.on_timeout(Time(5_999_999));
    assert_eq!((CALLS.get(), plugin.deadline()), (calls, Time(6_000_000)));
    plugin.on_timeout(Time(6_000_000));
    assert_eq!((CALLS.get(), plugin.deadline()), (calls + 1, Time::MAX));
    plugin.on_timeout(Time(7_000_000));
    assert_eq!(CALLS.get(), calls + 1);
}

#[test]
fn values_that_make_no_sense_end_the_run() {
    let cases: [(u32, Action, &str); 6] = [
        (0, |pair| pair.rate = 0, "set rate to 0"),
        (0, |pair| pair.window = 5000, "not declared to have one"),
        (abi::SETS_WINDOW, |pair| pair.window = -1, "set window to -1"),
        (abi::SETS_WINDOW, |pair| pair.window = (1 << 40) + 1, "set window to 1099511627777"),
        (0, |pair| pair.timer = 5_000_000, "which is not after pair.now"),
        // The plug-in may not turn the clock back to make a time of the past one of the future.
        (0, |pair| (pair.now, pair.timer) = (0, 4_000_000), "which is not after pair.now"),
    ];
    for (flags, action, reason) in cases {
        let mut plugin = start(load("wrong", flags, true));
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| at_cnp(&mut plugin, action)));
        let panic = failed.expect_err(reason).downcast::<String>().expect("a text");
        let message = failure_from_panic(&panic).expect("a plug-in's failure");
        assert!(message.contains("on_cnp") && message.contains(reason), "{message}");
    }
}
