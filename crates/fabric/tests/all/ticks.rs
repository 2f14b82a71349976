//! Whether the clocks of hosts tick together: when the second SYN of each leaves, towards a host that never answers.

use crate::common::{build, config, flow, link, port, proceed, settings};
use pauseframe_fabric::{CapturedFrameContent, Settings};
use pauseframe_topology::generate::star;
use pauseframe_transport::{RtoConfig, TcpConfig};
use pauseframe_units::{Span, Time};

const SENDERS: usize = 10;

/// When each host's second SYN leaves, by host.
fn second_syns(ticks_apart: bool) -> Vec<Time> {
    let topology = star(SENDERS as u32 + 1, link(10, Span::from_us(1))).unwrap();
    let rto = RtoConfig { initial: Span::from_us(9_500), granularity: Span::from_ms(1), ..config().rto };
    let base = settings(TcpConfig { handshake: true, rto, ..config() });
    let silent = vec![topology.find("host0").unwrap()];
    let settings = Settings { ticks_apart, silent, ..base };
    let names: Vec<_> = (1..=SENDERS).map(|host| format!("host{host}")).collect();
    let flows: Vec<_> = names.iter().map(|name| flow(&topology, name, "host0", 1000)).collect();
    let mut network = build(&topology, &settings, &flows);
    let uplinks: Vec<_> = names.iter().map(|name| port(&topology, name, "switch")).collect();
    network.enable_frame_capture(&uplinks, 1000);
    proceed(&mut network, Time::ZERO + Span::from_ms(15));
    let frames = network.take_captured_frames();
    let second = |uplink| {
        let mut mine = frames.iter().filter(|frame| frame.port == uplink);
        assert!(mine.clone().all(|frame| matches!(frame.content, CapturedFrameContent::Segment(..))));
        assert_eq!(mine.clone().count(), 2, "the SYN and its repetition");
        mine.nth(1).unwrap().time
    };
    uplinks.into_iter().map(second).collect()
}

/// 9.5 ms round up to the tick at 10 ms for all; to ticks between 9.5 and 10.5 ms, each its own, if they tick apart.
#[test]
fn timers_fall_on_the_ticks_of_their_host() {
    let together = second_syns(false);
    assert!(together.iter().all(|at| *at == Time::ZERO + Span::from_ms(10)), "{together:?}");
    let mut apart = second_syns(true);
    assert_eq!(apart, second_syns(true), "drawn from the seed");
    apart.sort_unstable();
    assert!(apart[0].0 >= 9_500_000_000 && apart[SENDERS - 1].0 < 10_500_000_000, "{apart:?}");
    assert!(apart.windows(2).all(|pair| pair[0] < pair[1]), "{apart:?}");
    // Uniform over 1 ms: all of ten within a half happens once in 93.
    assert!(apart[SENDERS - 1].0 - apart[0].0 > 500_000_000, "{apart:?}");
}
