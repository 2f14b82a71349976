//! Random networks and random peers: whatever is dropped, doubled, reordered or marked, every byte arrives once and nothing
//! stalls; whatever a peer sends, nothing panics.

use crate::common::{Fate, MSS, Wire, config};
use pauseframe_transport::*;
use pauseframe_units::{BitRate, Span, Time};
use proptest::prelude::*;
use std::sync::Arc;

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        20 => Just(Fate::Deliver),
        3 => Just(Fate::Drop),
        3 => Just(Fate::Mark),
        2 => (1u64..400).prop_map(|us| Fate::Late(Span::from_us(us))),
        1 => (0u64..400).prop_map(|us| Fate::Twice(Span::from_us(us))),
        1 => Just(Fate::Closed),
        1 => Just(Fate::WildAck),
    ]
}

/// Everything that the receiving half and the end of a connection can do beyond the plain: half of them plain.
fn any_receiver() -> impl Strategy<Value = TcpConfig> {
    let buffer = prop_oneof![
        3 => Just((ReceiveBuffer::Fixed, 0, 0)),
        2 => (10u32..18, 0u32..6).prop_map(|(initial, doublings)| (ReceiveBuffer::Linux, initial, doublings)),
        2 => (9u32..17, 0u32..4).prop_map(|(initial, doublings)| (ReceiveBuffer::Freebsd, initial, doublings)),
    ];
    let form = prop_oneof![
        2 => Just((DelayedAckForm::Fixed, 0, false)),
        3 => (0u32..17, any::<bool>())
            .prop_map(|(quick_acks, compress)| (DelayedAckForm::Linux, quick_acks, compress)),
    ];
    let cache = prop::sample::select(vec![
        CachePolicy::None,
        CachePolicy::Linux,
        CachePolicy::LinuxSsthresh,
        CachePolicy::Freebsd,
        CachePolicy::Cee,
    ]);
    let limit = prop_oneof![2 => Just(0u32), 1 => 1u32..20];
    let writing = (
        prop_oneof![
            1 => Just((SendBuffer::Unlimited, 0, 0)),
            1 => (12u32..18, 0u32..6).prop_map(|(initial, doublings)| (SendBuffer::Linux, initial, doublings)),
        ],
        prop::sample::select(vec![SmallSegments::AtOnce, SmallSegments::Nagle, SmallSegments::Cork]),
        prop_oneof![1 => Just(0u32), 1 => 100u32..65_536],
        prop_oneof![2 => Just(0u64), 1 => 1u64..100],
        any::<bool>(),
    );
    // Down to a segment in 8 ms, far below what the sender could do.
    let rate = prop_oneof![3 => Just(0u64), 1 => 1_000_000u64..1_000_000_000];
    (buffer, form, cache, limit, rate, any::<[bool; 2]>(), writing).prop_map(
        |(buffer, form, cache, limit, rate, [dsack, fin], writing)| TcpConfig {
            send_buffer: writing.0.0,
            send_buffer_initial: 1 << writing.0.1,
            send_buffer_max: 1 << (writing.0.1 + writing.0.2),
            small_segments: writing.1,
            offload: OffloadConfig { tso: writing.2, gro: Span::from_us(writing.3) },
            small_queues: writing.4,
            receive_buffer: buffer.0,
            receive_buffer_initial: 1 << buffer.1,
            receive_buffer_max: 1 << (buffer.1 + buffer.2),
            receive_buffer_step: 4096,
            delayed_ack_form: form.0,
            quick_acks: form.1,
            sack_compression: form.2,
            cache,
            reassembly_limit: limit,
            read_rate: (rate > 0).then_some(BitRate(rate)),
            dsack,
            fin,
            ..config()
        },
    )
}

fn any_config() -> impl Strategy<Value = TcpConfig> {
    let switches = prop::array::uniform7(any::<bool>());
    (any_plain_config(switches), any_recovery())
        .prop_map(|(config, recovery)| TcpConfig { recovery, ..config })
}

/// Every switch of recovery by itself, and plain and Linux more often than chance would give them.
fn any_recovery() -> impl Strategy<Value = RecoveryConfig> {
    let switches = prop::array::uniform10(any::<bool>());
    let any =
        (switches, 0u8..3, 0u64..200, 50u32..400, 1u32..5).prop_map(|(on, idle, slack, percent, burst)| {
            let [
                rack,
                tlp,
                count_packets,
                prr,
                undo,
                frto,
                delivered,
                pacing,
                ecn_hides_loss,
                window_validation,
            ] = on;
            RecoveryConfig {
                rack,
                tlp,
                timer_slack: Span::from_us(slack),
                count_packets,
                prr,
                undo,
                frto,
                ecn_hides_loss,
                window_validation,
                rto_growth: if delivered { RtoGrowth::Delivered } else { RtoGrowth::Segment },
                idle_restart: [IdleRestart::Off, IdleRestart::Rfc5681, IdleRestart::Linux][usize::from(idle)],
                pacing: PacingConfig {
                    on: pacing,
                    slow_start_percent: 2 * percent,
                    avoidance_percent: percent,
                    burst,
                },
            }
        });
    prop_oneof![1 => Just(RecoveryConfig::PLAIN), 1 => Just(RecoveryConfig::LINUX), 4 => any]
}

fn any_plain_config(switches: impl Strategy<Value = [bool; 7]>) -> impl Strategy<Value = TcpConfig> {
    (
        switches,
        0usize..CongestionControlConfig::NAMES.len(),
        0u8..3,
        1u64..20,
        1u32..5,
        0u8..3,
        1u32..4,
        9u32..25,
        any_receiver(),
    )
        .prop_map(|(on, cc, ecn, window, ack_every, form, floor, window_bits, receiver)| {
            let [sack, timestamps, fast_retransmit, limited_transmit, handshake, ect_on_control, ticks] = on;
            let mut congestion_control = CongestionControlConfig::NAMES[cc].1;
            if let CongestionControlConfig::Dctcp(constants) = &mut congestion_control {
                constants.floor_segments = floor;
            }
            TcpConfig {
                congestion_control,
                initial_window: window * MSS,
                ecn: [EcnMode::Off, EcnMode::Classic, EcnMode::Dctcp][usize::from(ecn)],
                ect_on_syn: ect_on_control,
                ect_on_ack: ect_on_control,
                sack,
                timestamps,
                fast_retransmit,
                limited_transmit,
                handshake,
                rto: RtoConfig {
                    initial: Span::from_ms(10),
                    min: Span::from_us(300),
                    max: Span::from_ms(100),
                    granularity: if ticks { Span::from_us(100) } else { Span::ZERO },
                    phase: Span::ZERO,
                    form: [RtoForm::Rfc, RtoForm::Linux, RtoForm::Freebsd][usize::from(form)],
                    slop: Span::from_us(200),
                    wheel: ticks,
                },
                delayed_ack: DelayedAckConfig { segments: ack_every, timeout: Span::from_us(500) },
                receive_window: 1 << window_bits,
                // The network heals after 3000 segments.
                syn_retries: 4000,
                retries: 4000,
                ..receiver
            }
        })
}

/// `sizes` go one way and the other in turn, the next when the last has arrived.
fn transfer(config: &TcpConfig, iss: [u32; 2], sizes: &[u64], fates: &[Fate]) -> Vec<(Time, u32, u32)> {
    let mut next = 0;
    let mut wire = Wire::with_iss(config.clone(), Span::from_us(50), iss[0], iss[1], |_| {
        // After 3000 segments the network heals, so that an end is certain.
        next += 1;
        if next < 3000 { fates[next % fates.len()] } else { Fate::Deliver }
    });
    let mut total = [0, 0];
    for (i, &size) in sizes.iter().enumerate() {
        let (from, to) = (i % 2, 1 - i % 2);
        total[from] += size;
        wire.send(from, size);
        let mut steps = 0;
        while wire.ends[to].delivered_bytes() < total[from] {
            assert!(wire.step(), "stall: {:?}", wire.ends);
            steps += 1;
            assert!(steps < 200_000, "no progress: {:?}", wire.ends);
            for end in &wire.ends {
                assert!(end.cwnd() >= MSS && end.ssthresh() >= MSS);
                assert!(end.flight_size() <= total[0].max(total[1]));
            }
        }
    }
    wire.run();
    let fin = config.fin;
    for end in 0..2 {
        wire.close(end);
    }
    wire.run();
    for (end, &total) in total.iter().enumerate() {
        assert_eq!(wire.ends[1 - end].delivered_bytes(), total, "delivered exactly once");
        assert_eq!(wire.ends[end].acked_bytes(), total);
        assert!(wire.ends[end].is_quiescent() && wire.ends[end].failure().is_none());
        assert_eq!(wire.ends[end].is_closed(), fin);
    }
    wire.log.iter().map(|sent| (sent.at, sent.segment.seq, sent.segment.ack)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_byte_arrives_once(
        config in any_config(),
        below_wrap in 0u32..100_000,
        peer_below_wrap in 0u32..100_000,
        sizes in prop::collection::vec(1u64..120_000, 1..5),
        fates in prop::collection::vec(fate(), 1..300),
    ) {
        // A pattern that drops everything never ends, and is no test.
        prop_assume!(fates.iter().filter(|fate| !matches!(fate, Fate::Drop | Fate::WildAck)).count() * 2 > fates.len());
        let iss = [u32::MAX - below_wrap, u32::MAX - peer_below_wrap];
        let first = transfer(&config, iss, &sizes, &fates);
        prop_assert_eq!(first, transfer(&config, iss, &sizes, &fates), "the same run twice");
    }

    #[test]
    fn no_peer_makes_it_panic(
        config in any_config(),
        passive: bool,
        script in prop::collection::vec(
            (any::<u8>(), -3_000i32..40_000, -3_000i32..40_000, 0u32..3_000, 0u32..4, any::<u64>(), 0u64..2_000),
            1..200,
        ),
    ) {
        let (iss, peer_iss) = (u32::MAX - 5_000, u32::MAX - 10_000);
        let config = Arc::new(config);
        let mut connection = if passive {
            Connection::accept(config, iss, peer_iss)
        } else {
            Connection::open(config, iss, peer_iss, Time::ZERO)
        };
        let mut now = Time::ZERO;
        connection.write(30_000, now);
        for (flags, seq, ack, len, window, wild, pause) in script {
            now += Span::from_us(pause);
            connection.on_timeout(now);
            let wire = |base: u32, offset: i32| base.wrapping_add(offset as u32);
            // One in eight has numbers from anywhere.
            let (seq, ack) = if wild % 8 == 0 {
                ((wild >> 32) as u32, (wild >> 8) as u32)
            } else {
                (wire(peer_iss, seq), wire(iss, ack))
            };
            let left = wire(ack, (wild >> 16) as i32 % 9_000);
            let blocks = [(left, left.wrapping_add(len)), (left, ack), (ack, left), (seq, wild as u32)];
            let options = match wild % 5 {
                0 => TcpOptions::Syn(SynOptions { mss: (wild >> 20) as u16, sack: true, timestamps: false, window_scale: 0 }),
                1 | 2 => TcpOptions::Sack(SackBlocks { count: (wild >> 9) as u8 % 5, blocks }),
                _ => TcpOptions::None,
            };
            // SYN in one of eight, ACK in most.
            let flags = if flags % 8 == 0 { flags } else { flags & !TcpFlags::SYN.0 | TcpFlags::ACK.0 };
            let stamps = Timestamps { value: wild as u32 % 5_000, echo: (wild >> 32) as u32 % 5_000 };
            let segment = Segment { seq, ack, len, window: [0, 1, 500, 60_000][window as usize], flags: TcpFlags(flags), options, stamps };
            if wild % 64 == 7 {
                connection.close(now);
            }
            let codepoint = [EcnCodepoint::NotEct, EcnCodepoint::Ect1, EcnCodepoint::Ect0, EcnCodepoint::Ce][(wild >> 40) as usize % 4];
            connection.on_segment(&segment, codepoint, now);
            let mut burst = 0;
            while connection.poll_transmit(now).is_some() {
                burst += 1;
                assert!(burst < 50_000, "poll_transmit does not come to an end");
            }
            assert!(connection.acked_bytes() <= 30_000);
            assert!(connection.cwnd() > 0 && connection.ssthresh() > 0);
        }
    }
}
