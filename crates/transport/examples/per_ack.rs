//! A long transfer between two connections without a network, for counting instructions:
//! `valgrind --tool=callgrind target/release/examples/per_ack 200000 0 plain`. Arguments: segments, drop one data segment
//! in so many (0: none), `plain` or `linux`.

use pauseframe_transport::{
    Config, CongestionControlConfig, Connection, DctcpConfig, DelayedAckConfig, EcnMode, RecoveryConfig,
    RtoConfig, RtoForm,
};
use pauseframe_units::{Span, Time};
use std::collections::VecDeque;
use std::sync::Arc;

fn config(recovery: RecoveryConfig) -> Config {
    Config {
        congestion_control: CongestionControlConfig::Dctcp(DctcpConfig::DEFAULT),
        mss: 1460,
        initial_window: 14_600,
        ecn: EcnMode::Dctcp,
        ect_on_syn: false,
        ect_on_ack: true,
        sack: true,
        timestamps: false,
        fast_retransmit: true,
        dup_thresh: 3,
        limited_transmit: true,
        recovery,
        handshake: false,
        rto: RtoConfig {
            initial: Span::from_secs(1),
            min: Span::from_ms(10),
            max: Span::from_secs(60),
            granularity: Span::from_ms(1),
            form: RtoForm::Linux,
            slop: Span::ZERO,
        },
        delayed_ack: DelayedAckConfig { segments: 2, timeout: Span::from_ms(40) },
        receive_window: 200 * 1460,
        syn_retries: 6,
        retries: 15,
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number = |default: u64| arguments.next().and_then(|word| word.parse().ok()).unwrap_or(default);
    let (segments, drop_every) = (number(100_000), number(0));
    let recovery = if arguments.next().as_deref() == Some("linux") {
        RecoveryConfig::LINUX
    } else {
        RecoveryConfig::PLAIN
    };
    let config = Arc::new(config(recovery));
    let mut ends =
        [Connection::open(Arc::clone(&config), 1, 2, Time::ZERO), Connection::accept(config, 2, 1)];
    let delay = Span::from_us(10);
    let mut flying = VecDeque::new();
    let (mut now, mut sent) = (Time::ZERO, 0_u64);
    let total = segments * 1460;
    ends[0].send(total, now);
    while ends[0].acked() < total {
        for (from, end) in ends.iter_mut().enumerate() {
            while let Some((segment, codepoint)) = end.poll_transmit(now) {
                sent += u64::from(segment.len > 0);
                if segment.len == 0 || drop_every == 0 || !sent.is_multiple_of(drop_every) {
                    flying.push_back((now + delay, 1 - from, segment, codepoint));
                }
            }
        }
        let timer = ends.iter().filter_map(Connection::deadline).min().unwrap_or(Time::MAX);
        match flying.front() {
            Some(&(at, to, segment, codepoint)) if at <= timer => {
                flying.pop_front();
                now = at;
                ends[to].on_segment(&segment, codepoint, now);
            }
            _ => {
                now = timer;
                for end in &mut ends {
                    end.on_timeout(now);
                }
            }
        }
    }
    println!("{segments} segments, {sent} sent, {now:?}, {:?}", ends[0].stats());
}
