//! What pauses must do: act at the computed picosecond, last exactly as long as wanted, keep what comes after XOFF
//! within the headroom (and need all of it in the worst case), spread to the hosts, and lose nothing.

use crate::common::*;
use pauseframe_engine::random_stream;
use pauseframe_fabric::{
    CapturedFrame, CapturedFrameContent, DropReason, FlowSpec, FlowStatus, LinkHeadroom, Network,
    PfcSettings, Settings, TransportSettings,
};
use pauseframe_topology::generate::{line, star};
use pauseframe_topology::{Channel, Topology};
use pauseframe_transport::{DelayedAckConfig, TcpConfig};
use pauseframe_units::{BitRate, Bytes, PortId, Span, Time};
use std::sync::Arc;

const US: u64 = 1_000_000;
/// A full tagged frame (1522 + 20 bytes) and a pause frame (64 + 20) at 10 Gb/s.
const FULL: u64 = 1_233_600;
const PAUSE: u64 = 67_200;

/// A connection that sends at line rate and is not answered in the time that these tests look at.
fn silent() -> TcpConfig {
    TcpConfig { delayed_ack: DelayedAckConfig { segments: 1 << 20, timeout: Span::from_secs(1) }, ..config() }
}

/// `q` sends to `a` at line rate, so that the switch's port to `a` is never idle, and `a` to `r`, whose link is so
/// slow that its first frame outlasts the test. What fills the switch comes from `a`.
fn blocked_receiver(data: Channel, back: Channel) -> Topology {
    use pauseframe_topology::NodeKind::{Host, Switch};
    let mut topology = Topology::new();
    let [q, a, r] = ["q", "a", "r"].map(|name| topology.add_node(name, Host, None));
    let switch = topology.add_node("s", Switch, None);
    topology.add_link(q, switch, back);
    topology.add_asymmetric_link(a, switch, [data, back]);
    topology.add_link(r, switch, Channel { rate: BitRate(1_000_000), delay: Span::ZERO });
    topology
}

fn both_flows(topology: &Topology, start: Time) -> [FlowSpec; 2] {
    let mut flows = [flow(topology, "a", "r", 400 * MSS), flow(topology, "q", "a", 400 * MSS)];
    flows[1].start = start;
    flows
}

/// XOFF at `frames` full frames, room for all the headroom.
fn blocked_settings(frames: u64, pfc: PfcSettings) -> Settings {
    Settings {
        pfc: Some(PfcSettings { xoff: Some(Bytes(frames * TAGGED)), ..pfc }),
        ..lossless(silent(), 1 << 20)
    }
}

fn captured(network: &mut Network, port: PortId) -> Vec<CapturedFrame> {
    network.take_captured_frames().into_iter().filter(|frame| frame.port == port).collect()
}

fn pauses_of(frames: &[CapturedFrame]) -> Vec<(Time, u16)> {
    let pause = |frame: &CapturedFrame| match frame.content {
        CapturedFrameContent::Pause { quanta, priority } => {
            assert_eq!(priority.code_point(), LOSSLESS);
            Some((frame.time, quanta))
        }
        _ => None,
    };
    frames.iter().filter_map(pause).collect()
}

/// The whole worst case at once, all of it at the same picosecond: a frame has just begun on the way back, the
/// account was at XOFF exactly, and a frame begins at the instant the pause takes effect. Every byte that
/// `headroom` computes is then used, and one byte less loses a packet.
#[test]
fn the_headroom_is_tight_to_the_byte() {
    let channel = link(10, Span::from_us(1));
    let topology = blocked_receiver(channel, channel);
    // Until a's port has stopped: a frame, the pause, a microsecond, 400 ns; a microsecond more is on the link:
    // 3 frames exactly, and one that began in time.
    let reaction = Span::from_ns(400);
    let settings =
        |headroom| blocked_settings(5, PfcSettings { reaction: Some(reaction), headroom, ..pfc() });
    let needed = LinkHeadroom::new(channel, channel, TAGGED as u32, settings(None).overhead, reaction, 1)
        .headroom_bytes();
    assert_eq!(needed, Bytes(5 * TAGGED), "four frames after the one that crosses XOFF");

    let until = Time(100 * US);
    let flows = both_flows(&topology, Time::ZERO);
    let a = port(&topology, "a", "s");
    let (network, ending) = run_until(&topology, &settings(None), &flows, until);
    assert!(network.warnings().is_empty(), "{:?}", network.warnings());
    assert_eq!(drops(&network, &ending), [0; 6]);
    assert_eq!(report(&network, &ending, a).ingress_max, 5 * TAGGED + needed.0);

    // Too small a headroom is the user's choice: a warning and a count, not an assertion.
    let (network, ending) = run_until(&topology, &settings(Some(Bytes(needed.0 - 1))), &flows, until);
    assert!(
        network.warnings().iter().any(|w| w.contains("is 7.609 KB, its link needs 7.61 KB")),
        "{:?}",
        network.warnings()
    );
    let lost = drops(&network, &ending);
    assert_eq!(lost[DropReason::HeadroomExceeded as usize], 1);
    assert_eq!(lost.iter().sum::<u64>(), 1);
}

/// Any rates, delays, reaction times and alignments: never more than `headroom`; where a frame begins on the way back
/// at the instant at which XOFF is crossed, all of it but less than a frame.
#[test]
fn what_comes_after_xoff_stays_within_the_headroom_and_comes_close() {
    let mut rng = random_stream(5, "headroom", 0);
    let rates = [1, 10, 25, 40, 100];
    for case in 0..60 {
        let mut channel = || Channel {
            rate: BitRate::gbps(rates[rng.uniform_below(5) as usize]),
            delay: Span(rng.uniform_below(3 * US)),
        };
        let (data, back) = (channel(), channel());
        let reaction = Span(rng.uniform_below(2) * rng.uniform_below(2 * US));
        let settings = blocked_settings(5, PfcSettings { reaction: Some(reaction), ..pfc() });
        let needed =
            LinkHeadroom::new(data, back, TAGGED as u32, settings.overhead, reaction, 1).headroom_bytes().0;
        let topology = blocked_receiver(data, back);
        let full = |channel: Channel| 1542 * 8000 / (channel.rate.0 / 1_000_000_000);
        // The seventh frame from a crosses XOFF; frames on the way back follow each other from q's first.
        let crossing = 7 * full(data) + data.delay.0;
        let begins = |k: u64| (k + 1) * full(back) + back.delay.0;
        let k = (0..10_000).find(|k| begins(*k) >= crossing).unwrap();
        let aligned = begins(k) - crossing;
        let used = |start: u64| {
            let mut flows = [flow(&topology, "q", "a", 400 * MSS), flow(&topology, "a", "r", 400 * MSS)];
            flows[1].start = Time(start);
            let (network, ending) = run_until(
                &topology,
                &settings,
                &flows,
                Time(start + 60 * US + 8 * full(data) + 2 * full(back)),
            );
            assert_eq!(drops(&network, &ending), [0; 6]);
            report(&network, &ending, port(&topology, "a", "s")).ingress_max - 5 * TAGGED
        };
        let most = used(aligned);
        assert!(most + TAGGED > needed, "case {case}: {most} of {needed}, {data:?} {back:?} {reaction:?}");
        for _ in 0..4 {
            let some = used(aligned + rng.uniform_below(full(back)));
            assert!(
                some <= needed && some + TAGGED + 2 * full(back) * data.rate.0 / 8_000_000_000_000 > needed
            );
        }
    }
}

/// The pause frame waits for the frame in service, takes the link's time and the reaction time; the port then
/// finishes its frame and is silent.
#[test]
fn a_pause_acts_at_the_computed_picosecond() {
    let channel = link(10, Span::from_us(1));
    let topology = blocked_receiver(channel, channel);
    for (reaction, offset) in [(0, 0), (400_000, 0), (400_000, 300_000), (1_234_567, 1_000_000)] {
        let settings = blocked_settings(5, PfcSettings { reaction: Some(Span(reaction)), ..pfc() });
        let flows = both_flows(&topology, Time(offset));
        let mut network = build(&topology, &settings, &flows);
        let (a, to_a) = (port(&topology, "a", "s"), port(&topology, "s", "a"));
        network.enable_frame_capture(&[a, to_a], 1 << 20);
        let ending = proceed(&mut network, Time(100 * US));
        let frames = network.take_captured_frames();
        let of = |port| frames.iter().filter(|frame| frame.port == port).cloned().collect::<Vec<_>>();

        // The first frame is on r's link, five fill up to XOFF, the seventh crosses it.
        let crossed = 7 * FULL + US;
        // On the way back frames begin at offset + k FULL + 1 us; the one in service then is waited for.
        let sent = if offset == 0 { crossed + FULL } else { crossed + offset };
        assert_eq!(pauses_of(&of(to_a)), [(Time(sent), u16::MAX)]);
        let effect = sent + PAUSE + US + reaction;
        // a's frames begin every FULL; the last at or before the effect.
        let begun = of(a).iter().map(|frame| frame.time.0).collect::<Vec<_>>();
        let expected = (0..=effect / FULL).map(|k| k * FULL).collect::<Vec<_>>();
        assert_eq!(begun, expected, "reaction {reaction}, offset {offset}");
        assert_eq!(report(&network, &ending, a).paused, Span(ending.now.0 - effect));
    }
}

/// The account falls to XON when a transmission starts; the resume frame leaves at that picosecond, and the port that
/// was paused begins a frame when it has come.
#[test]
fn a_resume_is_sent_at_xon_and_acts_at_the_computed_picosecond() {
    let topology = star_of(&[("a", link(10, Span::from_us(1))), ("r", link(1, Span::from_us(1)))]);
    let settings = blocked_settings(5, PfcSettings { xon: Some(Bytes(3 * TAGGED)), ..pfc() });
    let mut network = build(&topology, &settings, &[flow(&topology, "a", "r", 400 * MSS)]);
    let (a, to_a) = (port(&topology, "a", "s"), port(&topology, "s", "a"));
    network.enable_frame_capture(&[a, to_a], 1 << 20);
    proceed(&mut network, Time(120 * US));
    let frames = network.take_captured_frames();
    let of = |port| frames.iter().filter(|frame| frame.port == port).cloned().collect::<Vec<_>>();
    let paused = 7 * FULL + US + PAUSE + US;
    // All frames that began until then but the first, which went straight to r's link, are stored.
    let stored = paused / FULL;
    // One leaves every ten FULL; the last of all but three:
    let resume = FULL + US + (stored - 3) * 10 * FULL;
    assert_eq!(pauses_of(&of(to_a))[1], (Time(resume), 0));
    let next = of(a).iter().map(|frame| frame.time.0).find(|time| *time > paused);
    assert_eq!(next, Some(resume + PAUSE + US));
}

/// Pauses of at most 3.36 ms, renewed at half of that, hold a port for as long as the account stays above XON.
#[test]
fn a_pause_that_is_still_wanted_is_renewed_without_a_gap() {
    let channel = link(10, Span::from_us(1));
    let topology = blocked_receiver(channel, channel);
    for quanta in [65535, 5000, 100] {
        let settings = blocked_settings(5, PfcSettings { quanta, ..pfc() });
        let mut network = build(&topology, &settings, &both_flows(&topology, Time::ZERO)[..1]);
        let (a, to_a) = (port(&topology, "a", "s"), port(&topology, "s", "a"));
        network.enable_frame_capture(&[to_a], 1 << 20);
        let ending = proceed(&mut network, Time(11_000 * US));
        let report = report(&network, &ending, a);
        let effect = 7 * FULL + US + PAUSE + US;
        assert_eq!(report.paused, Span(ending.now.0 - effect), "{quanta} quanta");
        assert_eq!(report.paused_longest, report.paused);
        // 512 bit times of 100 ps a quantum; nothing else is on the way back.
        let half = u64::from(quanta) * 51_200 / 2;
        let first = 7 * FULL + US;
        let sent: Vec<_> =
            (0..=(ending.now.0 - first) / half).map(|k| (Time(first + k * half), quanta)).collect();
        assert_eq!(pauses_of(&captured(&mut network, to_a)), sent);
    }
}

/// A resume ends the wait for the renewal: no pause frame follows another one before half of its time, however often pauses begin.
#[test]
fn a_new_pause_is_not_renewed_by_the_timer_of_an_old_one() {
    use pauseframe_topology::NodeKind::{Host, Switch};
    let mut topology = Topology::new();
    let [a, r] = ["a", "r"].map(|name| topology.add_node(name, Host, None));
    let switch = topology.add_node("s", Switch, None);
    topology.add_link(a, switch, link(40, Span::from_us(1)));
    topology.add_link(switch, r, link(10, Span::from_us(1)));
    let to_a = port(&topology, "s", "a");
    for quanta in [65535, 2000] {
        let limits = PfcSettings { quanta, xoff: Some(Bytes(100_000)), xon: Some(Bytes(60_000)), ..pfc() };
        let settings = Settings { pfc: Some(limits), ..lossless(silent(), 400_000) };
        let mut network = build(&topology, &settings, &[flow(&topology, "a", "r", 4_000_000)]);
        network.enable_frame_capture(&[to_a], 1 << 20);
        proceed(&mut network, Time(5_000 * US));
        let sent = pauses_of(&captured(&mut network, to_a));
        let half = u64::from(quanta) * 12_800 / 2;
        let renewals = sent.windows(2).filter(|pair| pair.iter().all(|(_, quanta)| *quanta > 0));
        let gaps: Vec<u64> = renewals.map(|pair| pair[1].0.0 - pair[0].0.0).collect();
        assert!(
            sent.len() > 50 && gaps.iter().all(|gap| *gap >= half),
            "{quanta}: {gaps:?} of {}",
            sent.len()
        );
        assert_eq!(gaps.is_empty(), quanta == 65535);
    }
}

/// The way back is so slow that the renewal is late: the pause runs out to the picosecond, frames go, and the next
/// pause frame stops them again.
#[test]
fn a_pause_that_is_not_renewed_in_time_runs_out() {
    let (data, back) =
        (link(10, Span::from_us(1)), Channel { rate: BitRate(100_000_000), delay: Span::from_us(1) });
    let topology = blocked_receiver(data, back);
    let settings = blocked_settings(5, PfcSettings { quanta: 100, ..pfc() });
    let mut network = build(&topology, &settings, &both_flows(&topology, Time::ZERO)[..1]);
    let a = port(&topology, "a", "s");
    network.enable_frame_capture(&[a], 1 << 20);
    // A pause frame takes 6.72 us and lasts for 5.12: the first acts at `first`, the second 6.72 us later.
    let first = 7 * FULL + US + 6_720_000 + US;
    let (resumed, again) = (first + 5_120_000, first + 6_720_000);
    let ending = proceed(&mut network, Time(again + US));
    let report = report(&network, &ending, a);
    assert_eq!(report.paused_longest, Span(5_120_000));
    assert_eq!(report.paused, Span(5_120_000 + ending.now.0 - again));
    let begun: Vec<_> = captured(&mut network, a).iter().map(|frame| frame.time.0).collect();
    let before = (0..=first / FULL).map(|k| k * FULL);
    let between = [resumed, resumed + FULL];
    assert_eq!(begun, before.chain(between).collect::<Vec<_>>());
}

/// What a port did is what the pause frames that were sent to it say, worked out again from a capture.
#[test]
fn the_time_paused_is_that_of_the_pause_frames() {
    let topology = star(9, link(10, Span::from_us(2))).unwrap();
    let reaction = Span::from_ns(700);
    let quanta = 1000;
    let settings = Settings {
        pfc: Some(PfcSettings {
            reaction: Some(reaction),
            quanta,
            xoff: Some(Bytes(20_000)),
            xon: Some(Bytes(12_000)),
            ..pfc()
        }),
        ..lossless(config(), 100_000)
    };
    let flows: Vec<_> = (1..9).map(|i| flow(&topology, &format!("host{i}"), "host0", 300_000)).collect();
    let mut network = build(&topology, &settings, &flows);
    let back: Vec<_> = (1..9).map(|i| port(&topology, "switch", &format!("host{i}"))).collect();
    network.enable_frame_capture(&back, u64::MAX);
    let ending = proceed(&mut network, Time::MAX);
    let frames = network.take_captured_frames();
    for port in back {
        let frames: Vec<_> = frames.iter().filter(|frame| frame.port == port).cloned().collect();
        let (mut total, mut since, mut until) = (0, None::<u64>, 0);
        let (mut pauses, mut resumes) = (0, 0);
        for (time, asked) in pauses_of(&frames) {
            let effect = time.0 + PAUSE + 2 * US + reaction.0;
            if let Some(begin) = since
                && effect >= until
            {
                total += until - begin;
                since = None;
            }
            if asked > 0 {
                pauses += 1;
                since = since.or(Some(effect));
                until = effect + u64::from(quanta) * 51_200;
            } else {
                resumes += 1;
                total += since.take().map_or(0, |begin| effect - begin);
            }
        }
        assert_eq!(since, None, "the last pause ended with a resume");
        let report = report(&network, &ending, port.reverse());
        assert_eq!(
            (report.pauses_sent, report.pauses_received, report.resumes_received),
            (pauses, pauses, resumes)
        );
        assert_eq!(report.paused, Span(total));
        assert!(pauses > 3 && resumes > 3 && resumes <= pauses, "{pauses} pauses, {resumes} resumes");
    }
}

/// A long incast through too small a buffer: nothing is lost, nothing is sent twice, the last link never idles.
#[test]
fn a_lossless_incast_loses_nothing_and_keeps_the_last_link_busy() {
    const SENDERS: u64 = 16;
    const SIZE: u64 = 500 * MSS;
    let topology = star(SENDERS as u32 + 1, link(10, Span::from_us(1))).unwrap();
    let flows: Vec<_> = (1..=SENDERS).map(|i| flow(&topology, &format!("host{i}"), "host0", SIZE)).collect();
    for reaction in [0, 500] {
        let pfc = PfcSettings { reaction: Some(Span::from_ns(reaction)), ..pfc() };
        let settings = Settings { pfc: Some(pfc), ..lossless(config(), 40_000) };
        let (mut network, ending) = run(&topology, &settings, &flows);
        assert_eq!(drops(&network, &ending), [0; 6]);
        let records = network.flow_records(ending.now);
        assert!(records.iter().all(|r| r.status == FlowStatus::Finished && r.retransmits + r.timeouts == 0));
        let last = records.iter().map(|record| record.end.0).max().unwrap();
        assert_eq!(last, (SENDERS * 500 + 1) * FULL + 2 * US);
        assert!(report(&network, &ending, port(&topology, "host1", "switch")).pauses_received > 0);
    }
}

/// A blocked receiver stops its switch, that one the switch before, and so on to the sending host, in this order.
#[test]
fn a_pause_spreads_upstream_to_the_host() {
    let wire = link(10, Span::from_us(1));
    let mut topology = line(4, 1, wire, wire).unwrap();
    let last = topology.find("s3").unwrap();
    let sink = topology.add_node("sink", pauseframe_topology::NodeKind::Host, None);
    topology.add_link(sink, last, Channel { rate: BitRate(1_000_000), delay: Span::ZERO });
    let settings = lossless(silent(), 60_000);
    let flows = [flow(&topology, "host0", "sink", 1000 * MSS)];
    let mut network = build(&topology, &settings, &flows);
    let upstream = [("s3", "s2"), ("s2", "s1"), ("s1", "s0"), ("s0", "host0")];
    let ports = upstream.map(|(from, to)| port(&topology, from, to));
    network.enable_frame_capture(&ports, 1 << 20);
    let ending = proceed(&mut network, Time(2000 * US));
    let frames = network.take_captured_frames();
    let first = |port: &PortId| {
        let frames: Vec<_> = frames.iter().filter(|frame| frame.port == *port).cloned().collect();
        pauses_of(&frames)[0].0
    };
    assert!(ports.iter().map(first).is_sorted());
    for port in ports {
        let held = report(&network, &ending, port.reverse());
        assert!(held.paused > Span::ZERO && held.pauses_received == held.pauses_sent);
    }
    assert_eq!(drops(&network, &ending), [0; 6]);
    // What is not in the switches, each with at most its buffer, has not left the host.
    let left = report(&network, &ending, port(&topology, "host0", "s0")).tx_bytes;
    assert!((4 * 30_000..=4 * 60_000 + 5 * TAGGED).contains(&left), "{left}");
}

/// One class is paused, the other goes on: the point of PFC over PAUSE.
#[test]
fn a_pause_stops_its_own_priority_only() {
    let channel = link(10, Span::from_us(1));
    let topology = blocked_receiver(channel, channel);
    let mut settings = blocked_settings(5, pfc());
    settings.transports.push(TransportSettings::of_tcp(Arc::new(config()), priority(0)));
    let other = FlowSpec { transport: 1, ..flow(&topology, "a", "q", 1000 * MSS) };
    let (mut network, ending) =
        run_until(&topology, &settings, &[flow(&topology, "a", "r", 400 * MSS), other], Time(3000 * US));
    let record = network.flow_records(ending.now)[1];
    assert_eq!(record.status, FlowStatus::Finished);
    // It shares its NIC with no more than the frames that came before the pause.
    let reports = network.port_reports(ending.now);
    let a = port(&topology, "a", "s");
    let paused = reports.iter().find(|r| r.port == a && r.priority.code_point() == LOSSLESS).unwrap();
    assert_eq!(fct(&record).0, 1001 * (FULL - 3200) + 2 * US + paused.tx_packets * FULL);
}

/// The latency of the switch is that of packets that it forwards, not of the pause frames that it makes itself.
#[test]
fn a_pause_frame_does_not_wait_for_a_packet_in_the_pipeline() {
    let channel = link(10, Span::from_us(1));
    let topology = blocked_receiver(channel, channel);
    let settings = Settings { switch_latency: Span::from_us(20), ..blocked_settings(5, pfc()) };
    for offset in 0..10 {
        // One packet is on its way back, in the pipeline, when the account crosses XOFF.
        let mut back = flow(&topology, "q", "a", MSS);
        back.start = Time(offset * US);
        let flows = [flow(&topology, "a", "r", 400 * MSS), back];
        let (network, ending) = run_until(&topology, &settings, &flows, Time(100 * US));
        assert_eq!(drops(&network, &ending), [0; 6]);
    }
}

/// The pause frame of one class can find that of another ahead of it on the way back: here the renewal of a pause of
/// priority 4 comes ten picoseconds before the pause of priority 3, behind a frame that began ten before that.
#[test]
fn the_headroom_covers_a_pause_frame_of_another_class() {
    let channel = link(10, Span::from_us(1));
    let topology = blocked_receiver(channel, channel);
    let quanta = 10_000;
    let transport = |p| TransportSettings::of_tcp(Arc::new(silent()), priority(p));
    // 30 ns short of three whole frames, see `the_headroom_is_tight_to_the_byte`.
    let reaction = Span::from_ns(370);
    let pfc =
        PfcSettings { priorities: vec![priority(3), priority(4)], quanta, reaction: Some(reaction), ..pfc() };
    let settings = Settings { transports: vec![transport(3), transport(4)], ..blocked_settings(5, pfc) };
    let renewal = 7 * FULL + US + u64::from(quanta) * 25_600;
    let crossing = renewal + 10;
    let mut flows = [
        FlowSpec { transport: 1, ..flow(&topology, "a", "r", 7 * MSS) },
        flow(&topology, "q", "a", 400 * MSS),
        flow(&topology, "a", "r", 400 * MSS),
    ];
    flows[1].start = Time(renewal - 10 - US - 10 * FULL);
    flows[2].start = Time(crossing - US - 6 * FULL);
    let (network, ending) = run_until(&topology, &settings, &flows, Time(crossing + 30 * US));
    assert_eq!(drops(&network, &ending), [0; 6]);
}
