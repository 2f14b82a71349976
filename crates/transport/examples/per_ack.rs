//! Instructions per ACK of a congestion control: `valgrind --tool=callgrind target/release/examples/per_ack cubic 200000`.
//! Two runs of different length give the cost of an ACK without the start; `linux` as third argument switches the
//! refinements of recovery, the send buffer and small queues on.

use pauseframe_transport::{
    CongestionControlConfig, Connection, DelayedAckConfig, EcnCodepoint, EcnMode, RecoveryConfig, RtoConfig,
    RtoForm, Segment, SendBuffer, TcpConfig, TcpFlags,
};
use pauseframe_units::{Span, Time};
use std::sync::Arc;

fn config(name: &str, recovery: RecoveryConfig) -> TcpConfig {
    let (_, congestion_control) =
        CongestionControlConfig::NAMES.iter().find(|cc| cc.0 == name).expect("a congestion control");
    TcpConfig {
        congestion_control: *congestion_control,
        mss: 1448,
        initial_window: 14_480,
        ecn: EcnMode::Classic,
        sack: true,
        timestamps: true,
        limited_transmit: true,
        recovery,
        rto: RtoConfig {
            min: Span::from_ms(200),
            max: Span::from_secs(120),
            granularity: Span::from_ms(1),
            form: RtoForm::Linux,
            ..TcpConfig::PLAIN.rto
        },
        delayed_ack: DelayedAckConfig { segments: 2, timeout: Span::from_ms(40) },
        receive_window: 1 << 30,
        send_buffer: if recovery == RecoveryConfig::LINUX {
            SendBuffer::Linux
        } else {
            SendBuffer::Unlimited
        },
        small_queues: recovery != RecoveryConfig::PLAIN,
        ..TcpConfig::PLAIN
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let name = args.next().expect("the name of a congestion control");
    let acks: u64 = args.next().and_then(|text| text.parse().ok()).expect("how many ACKs");
    let linux = args.next().as_deref() == Some("linux");
    let recovery = if linux { RecoveryConfig::LINUX } else { RecoveryConfig::PLAIN };
    let mut sender = Connection::open(Arc::new(config(&name, recovery)), 0, 0, Time::ZERO);
    sender.set_frame_time(Span::from_ns(120));
    sender.write(u64::MAX / 2, Time::ZERO);
    let mut sent = std::collections::VecDeque::new();
    let mut now = Time::ZERO;
    for i in 1..=acks {
        while let Some((segment, _)) = sender.poll_transmit(now) {
            sent.push_back((now, segment.seq.wrapping_add(segment.len)));
        }
        let Some((at, end)) = sent.pop_front() else { break };
        // A packet each 1.2 us, 100 us away.
        now = (now + Span::from_us(1)).max(at + Span::from_us(100));
        // One cut in two thousand ACKs keeps the window moving.
        let flags = if i % 2000 == 0 { TcpFlags::ACK.with(TcpFlags::ECE) } else { TcpFlags::ACK };
        let segment = Segment { ack: end, window: 1 << 30, flags, ..Segment::default() };
        sender.on_segment(&segment, EcnCodepoint::NotEct, now);
    }
    println!("{name}: cwnd {} after {} bytes", sender.cwnd(), sender.acked_bytes());
}
