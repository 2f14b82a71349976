//! Tests that check capture files with tshark, where it is installed.

use super::*;
use pauseframe_topology::{Channel, NodeKind};
use pauseframe_transport::{EcnCodepoint, SackBlocks, SynOptions, Timestamps};
use pauseframe_units::{BitRate, Span};
use std::process::Command;

fn topology() -> Topology {
    let channel = Channel { rate: BitRate::gbps(10), delay: Span::from_us(1) };
    let mut topology = Topology::new();
    let [a, b] = ["a", "b"].map(|name| topology.add_node(name, NodeKind::Host, None));
    let s = topology.add_node("s", NodeKind::Switch, None);
    topology.add_link(a, s, channel);
    topology.add_link(b, s, channel);
    topology
}

const AGREED: Agreement = Agreement { timestamps: true, window_scale: 7, dscp: 10, cnp_dscp: 48 };
/// The port of host a towards the switch, and the port of the switch towards host a.
const UP: PortId = PortId(0);
const DOWN: PortId = PortId(1);

fn segment_frame(ns: u64, forward: bool, priority: u8, ecn: EcnCodepoint, segment: Segment) -> CapturedFrame {
    let (source, destination) = if forward { (NodeId(0), NodeId(1)) } else { (NodeId(1), NodeId(0)) };
    let priority = Priority::new(priority).unwrap();
    let headers = CapturedFlowHeaders { source, destination, flow: 3, forward, priority, vlan: None, ecn };
    CapturedFrame {
        time: Time::ZERO + Span::from_ns(ns),
        port: if forward { UP } else { DOWN },
        content: CapturedFrameContent::Segment(headers, segment),
    }
}

fn pause(ns: u64, priority: u8, quanta: u16) -> CapturedFrame {
    let priority = Priority::new(priority).unwrap();
    CapturedFrame {
        time: Time::ZERO + Span::from_ns(ns),
        port: DOWN,
        content: CapturedFrameContent::Pause { priority, quanta },
    }
}

/// A connection from its SYN to a SACK and the FIN, with pause frames in between.
fn conversation() -> Vec<CapturedFrame> {
    let syn = SynOptions { mss: 1448, sack: true, timestamps: true, window_scale: 7 };
    let plain = Segment { window: 1 << 20, flags: TcpFlags::ACK, seq: 101, ack: 501, ..Segment::default() };
    let sack = SackBlocks { count: 3, blocks: [(8000, 9448), (5000, 6448), (2000, 3448), (0, 0)] };
    let open = Segment { options: TcpOptions::Syn(syn), seq: 100, ack: 0, ..plain };
    let syn_flags = TcpFlags::SYN.with(TcpFlags::ECE).with(TcpFlags::CWR);
    let accept_flags = TcpFlags::SYN.with(TcpFlags::ACK).with(TcpFlags::ECE);
    let back = Segment { seq: 501, ack: 1549, ..plain };
    vec![
        segment_frame(100, true, 0, EcnCodepoint::NotEct, Segment { flags: syn_flags, ..open }),
        segment_frame(
            200,
            false,
            0,
            EcnCodepoint::NotEct,
            Segment { flags: accept_flags, seq: 500, ack: 101, ..open },
        ),
        segment_frame(300, true, 3, EcnCodepoint::NotEct, plain),
        segment_frame(400, true, 3, EcnCodepoint::Ect0, Segment { len: 1448, ..plain }),
        pause(1_234_567_891, 3, 65_535),
        segment_frame(
            2_000_000_500,
            false,
            3,
            EcnCodepoint::Ce,
            Segment { flags: TcpFlags::ACK.with(TcpFlags::ECE), ..back },
        ),
        segment_frame(
            2_000_000_600,
            false,
            3,
            EcnCodepoint::Ect1,
            Segment {
                options: TcpOptions::Sack(sack),
                stamps: Timestamps { value: 2000, echo: 1999 },
                ..back
            },
        ),
        pause(2_000_000_700, 3, 0),
        pause(2_000_000_800, 0, 7),
        segment_frame(
            2_000_000_900,
            true,
            7,
            EcnCodepoint::Ect0,
            Segment {
                seq: 1549,
                len: 9,
                flags: TcpFlags::ACK.with(TcpFlags::FIN).with(TcpFlags::CWR),
                ..plain
            },
        ),
    ]
}

/// Writes `frames` to a capture file; with `whole`, frames keep their payload instead of being cut after the
/// headers.
pub(crate) fn written(frames: &[CapturedFrame], whole: bool) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packets.pcapng");
    let (topology, file) = (topology(), std::fs::File::create(&path).unwrap());
    let mut writer = PacketWriter::new(file, &topology, &[UP, DOWN]).unwrap();
    for frame in frames {
        if let CapturedFrameContent::Segment(headers, segment) = &frame.content
            && whole
        {
            let (mut bytes, length) = segment_headers(headers, segment, AGREED);
            bytes.resize(length, 0);
            writer.append(frame.port, frame.time, &bytes, length).unwrap();
        } else {
            writer.write(frame, |flow| if flow == 3 { AGREED } else { Agreement::default() }).unwrap();
        }
    }
    (folder, path)
}

/// Asks tshark for `fields` of the frames that match `filter`: one line for each frame, fields separated by
/// commas. `None` without tshark.
pub(crate) fn tshark(path: &std::path::Path, filter: &str, fields: &[&str]) -> Option<Vec<String>> {
    let mut command = Command::new("tshark");
    command.arg("-r").arg(path).args(["-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"]);
    command.args([
        "-o",
        "tcp.relative_sequence_numbers:FALSE",
        "-Y",
        filter,
        "-T",
        "fields",
        "-E",
        "separator=;",
    ]);
    for field in fields {
        command.args(["-e", field]);
    }
    let Ok(output) = command.output() else {
        eprintln!("SKIPPED: tshark is not installed, so nobody has judged {}", path.display());
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap().lines().map(str::to_string).collect())
}

#[test]
fn every_packet_carries_the_dscp_of_its_transport() {
    let mut seen = 0;
    for frame in conversation() {
        let CapturedFrameContent::Segment(headers, segment) = frame.content else { continue };
        let (bytes, _) = segment_headers(&headers, &segment, AGREED);
        let ip = if bytes[12..14] == [0x81, 0x00] { 18 } else { 14 };
        assert_eq!((bytes[ip], bytes[ip + 1] >> 2), (0x45, 10));
        seen += 1;
    }
    assert!(seen >= 7);
}

#[test]
fn tshark_finds_nothing_malformed() {
    for whole in [false, true] {
        let (_folder, path) = written(&conversation(), whole);
        // Severity 0x00800000 of tshark means "error".
        let filter = "_ws.malformed || _ws.unreassembled || _ws.expert.severity >= 0x00800000";
        let Some(bad) = tshark(&path, filter, &["frame.number", "_ws.expert.message"]) else { return };
        assert_eq!(bad, [""; 0]);
        let all = tshark(&path, "frame", &["frame.number"]).unwrap();
        assert_eq!(all.len(), conversation().len());

        // Checks that the filter detects a fault: only the first 60 bytes of a SYN of 74 bytes.
        let (topology, file) = (topology(), std::fs::File::create(&path).unwrap());
        let mut writer = PacketWriter::new(file, &topology, &[UP]).unwrap();
        let syn = &conversation()[0];
        let CapturedFrameContent::Segment(headers, segment) = &syn.content else {
            unreachable!("it begins with a SYN")
        };
        let (bytes, _) = segment_headers(headers, segment, AGREED);
        writer.append(UP, syn.time, &bytes[..60], 60).unwrap();
        assert_eq!(tshark(&path, filter, &["frame.number"]).unwrap(), ["1"]);
    }
}

#[test]
fn tshark_finds_the_checksums_right() {
    let (_folder, path) = written(&conversation(), true);
    let Some(status) = tshark(&path, "tcp", &["ip.checksum.status", "tcp.checksum.status"]) else { return };
    // Checksum status 1 of tshark means "good".
    assert_eq!(status, vec!["1;1"; 7]);
    let (_folder, path) = written(&conversation(), false);
    assert_eq!(tshark(&path, "ip.checksum.status == 1", &["frame.number"]).unwrap().len(), 7);
}

#[test]
fn tshark_reads_the_pause_frames() {
    let (_folder, path) = written(&conversation(), false);
    let classes: Vec<String> = (0..8).map(|class| format!("macc.cbfc.pause_time.c{class}")).collect();
    let mut fields = vec!["frame.len", "eth.dst", "macc.opcode", "macc.cbfc.enbv"];
    fields.extend(classes.iter().map(String::as_str));
    let Some(frames) = tshark(&path, "macc", &fields) else { return };
    let head = "60;01:80:c2:00:00:01;0x0101";
    assert_eq!(
        frames,
        [
            format!("{head};0x0008;0;0;0;65535;0;0;0;0"),
            format!("{head};0x0008;0;0;0;0;0;0;0;0"),
            format!("{head};0x0001;7;0;0;0;0;0;0;0"),
        ]
    );
}

#[test]
fn tshark_reads_the_headers() {
    let (_folder, path) = written(&conversation(), false);
    let fields = ["frame.time_epoch", "frame.interface_name", "frame.len", "frame.cap_len", "vlan.priority"];
    let Some(frames) = tshark(&path, "tcp", &fields) else { return };
    assert_eq!(
        frames,
        [
            // Length of the SYN frame: 14 + 20 + 40 bytes.
            "0.000000100;a:0;74;74;",
            "0.000000200;s:0;74;74;",
            "0.000000300;a:0;70;70;3",
            "0.000000400;a:0;1518;70;3",
            "2.000000500;s:0;70;70;3",
            "2.000000600;s:0;98;98;3",
            "2.000000900;a:0;79;70;7",
        ]
    );
    let fields = ["tcp.srcport", "tcp.dstport", "tcp.window_size", "tcp.len", "ip.dsfield.ecn", "tcp.flags"];
    assert_eq!(
        tshark(&path, "tcp", &fields).unwrap(),
        [
            "49155;20000;65535;0;0;0x00c2",
            "20000;49155;65535;0;0;0x0052",
            "49155;20000;1048576;0;0;0x0010",
            "49155;20000;1048576;1448;2;0x0010",
            "20000;49155;1048576;0;3;0x0050",
            "20000;49155;1048576;0;1;0x0010",
            "49155;20000;1048576;9;2;0x0091",
        ]
    );
    let fields = [
        "tcp.options.sack_le",
        "tcp.options.sack_re",
        "tcp.options.timestamp.tsval",
        "tcp.options.timestamp.tsecr",
    ];
    let sack = tshark(&path, "tcp.options.sack", &fields).unwrap();
    assert_eq!(sack, ["8000,5000,2000;9448,6448,3448;2000;1999"]);
    let fields = ["tcp.options.mss_val", "tcp.options.wscale.shift", "tcp.options.sack_perm"];
    assert_eq!(tshark(&path, "tcp.flags.syn == 1", &fields).unwrap().len(), 2);
    assert!(tshark(&path, "tcp.flags.syn == 1", &fields).unwrap()[0].starts_with("1448;7;"));
}

#[test]
fn headers_are_as_long_as_the_simulator_counts_them() {
    let syn = |sack, timestamps| TcpOptions::Syn(SynOptions { mss: 1460, sack, timestamps, window_scale: 3 });
    let sack = |count| TcpOptions::Sack(SackBlocks { count, blocks: [(1, 2); 4] });
    let all = [
        (TcpOptions::None, TcpFlags::ACK),
        (syn(true, true), TcpFlags::SYN),
        (syn(true, false), TcpFlags::SYN),
        (syn(false, true), TcpFlags::SYN),
        (syn(false, false), TcpFlags::SYN),
        (sack(1), TcpFlags::ACK),
        (sack(3), TcpFlags::ACK),
    ];
    for timestamps in [false, true] {
        for (options, flags) in all {
            let segment = Segment { options, flags, ..Segment::default() };
            let agreement = Agreement { timestamps, window_scale: 0, dscp: 0, cnp_dscp: 0 };
            let header = tcp_header(0, true, &segment, agreement);
            assert_eq!(
                header.header_len() as u32,
                segment.header_len(timestamps),
                "{segment:?} {timestamps}"
            );
        }
    }
}

#[test]
fn flows_have_ports_of_their_own() {
    let mut seen = std::collections::BTreeSet::new();
    assert!((0..100_000).step_by(7).all(|flow| seen.insert(tcp_ports(flow))));
    assert!(seen.iter().all(|(client, server)| *client >= 49_152 && (20_000..49_152).contains(server)));
}

/// IEEE 802.1Q: a packet in a VLAN always has a tag; a packet without a VLAN has one only above priority 0.
#[test]
fn frames_in_vlans_carry_their_number() {
    let header = |priority, vlan| {
        let priority = Priority::new(priority).unwrap();
        link_header(NodeId(1), NodeId(2), priority, vlan, EtherType::IPV4)[12..].to_vec()
    };
    assert_eq!(header(0, None), [0x08, 0x00]);
    assert_eq!(header(3, None), [0x81, 0x00, 0x60, 0x00, 0x08, 0x00]);
    assert_eq!(header(0, Some(7)), [0x81, 0x00, 0x00, 0x07, 0x08, 0x00]);
    assert_eq!(header(4, Some(4094)), [0x81, 0x00, 0x8f, 0xfe, 0x08, 0x00]);
}

/// A PAUSE of the whole link, a CNM with and one without a tag, and a datagram.
fn lossless_frames() -> Vec<CapturedFrame> {
    let cnm = |priority| CapturedFrameContent::Cnm {
        congestion_point: PortId(3),
        destination: NodeId(0),
        priority: Priority::new(priority).unwrap(),
        fb: 37,
        q_off: 20_000,
        q_delta: -640,
        sampled_priority: Priority::new(3).unwrap(),
        sampled_destination: NodeId(1),
    };
    let headers = CapturedFlowHeaders {
        source: NodeId(1),
        destination: NodeId(0),
        flow: 3,
        forward: true,
        priority: Priority::new(0).unwrap(),
        vlan: None,
        ecn: EcnCodepoint::Ce,
    };
    let datagram = CapturedFrameContent::Datagram(headers, 1472);
    let frames = [CapturedFrameContent::LinkPause { quanta: 515 }, cnm(7), cnm(0), datagram];
    let frame = |(ns, content)| CapturedFrame { time: Time::ZERO + Span::from_ns(ns), port: DOWN, content };
    (1..).zip(frames).map(frame).collect()
}

#[test]
fn tshark_reads_pauses_of_links_cnms_and_datagrams() {
    let (_folder, path) = written(&lossless_frames(), false);
    let fields = ["frame.len", "eth.dst", "macc.opcode", "macc.pause_time"];
    let Some(pauses) = tshark(&path, "macc", &fields) else { return };
    assert_eq!(pauses, ["60;01:80:c2:00:00:01;0x0001;515"]);
    // Wireshark has no dissector for CNMs, so the test compares EtherType and octets. 20,000 / 64 = 312 =
    // 0x138, -640 / 64 = -10.
    let fields = ["frame.len", "eth.src", "eth.dst", "data.data"];
    let octets = "0025020000000002000301 38fff6600002000000000100 00".replace(' ', "");
    let padding = |bytes: usize| "00".repeat(bytes);
    assert_eq!(
        tshark(&path, "eth.type == 0x22e7 || vlan.etype == 0x22e7", &fields).unwrap(),
        [
            format!("60;02:00:00:00:00:02;02:00:00:00:00:00;{octets}{}", padding(60 - 18 - 24)),
            format!("60;02:00:00:00:00:02;02:00:00:00:00:00;{octets}{}", padding(60 - 14 - 24)),
        ]
    );
    let fields = ["frame.len", "ip.src", "ip.dst", "udp.srcport", "udp.length"];
    assert_eq!(tshark(&path, "udp", &fields).unwrap(), ["1514;10.0.0.1;10.0.0.0;49155;1480"]);
    let bad = tshark(&path, "_ws.malformed || _ws.expert.severity >= 0x00800000", &["frame.number"]).unwrap();
    assert_eq!(bad, [""; 0]);
}
