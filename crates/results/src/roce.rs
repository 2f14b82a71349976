//! `RoCEv2` packets in a pcapng file (InfiniBand Architecture Specification, annex A17): BTH, RETH, AETH, CNP
//! and ICRC.
//!
//! Captured RoCE frames are not cut and have a payload of zeros, because the ICRC is at the end of the frame.

use super::pcapng::{ip_header, packet_headers};
use etherparse::{IpNumber, Ipv4Header, UdpHeader};
use flate2::Crc;
use pauseframe_fabric::CapturedFlowHeaders;
use pauseframe_fabric::host_ports::bond::{ROCE_PORT, queue_pair_numbers, roce_source_port};
use pauseframe_rdma::{Opcode, Packet};

const DEFAULT_PARTITION: u16 = 0xffff;
/// The BECN bit, which is set in a CNP.
const BECN: u8 = 0x40;
/// Size of the invariant CRC in bytes.
const ICRC: usize = 4;
/// Number of reserved bytes in a CNP.
const CNP_RESERVED: usize = 16;

/// A frame without its FCS; `dscp` is the code point of the packet.
pub(super) fn frame(headers: &CapturedFlowHeaders, packet: &Packet, telemetry: u16, dscp: u8) -> Vec<u8> {
    let transport = transport_headers(headers, packet, telemetry);
    let length = UdpHeader::LEN + transport.len() + ICRC;
    let ip = ip_header(headers, length, IpNumber::UDP, dscp);
    // A UDP checksum of 0 means none.
    // The entropy value takes the place of the lowest bits.
    let from = roce_source_port(queue_pair_numbers(headers.flow)) ^ u16::from(packet.entropy);
    let udp =
        UdpHeader { source_port: from, destination_port: ROCE_PORT, length: length as u16, checksum: 0 };
    let check = icrc(&ip, &udp, &transport);
    let mut frame = packet_headers(headers, &ip);
    frame.extend(udp.to_bytes());
    frame.extend(transport);
    frame.extend(check.to_le_bytes());
    frame
}

/// BTH, extension headers, payload and padding.
fn transport_headers(headers: &CapturedFlowHeaders, packet: &Packet, telemetry: u16) -> Vec<u8> {
    let Packet { opcode, psn, payload, ack_request, syndrome, .. } = *packet;
    let padding = usize::from(payload).next_multiple_of(4) - usize::from(payload);
    let is_cnp = opcode == Opcode::Cnp;
    // Each end of a flow has its own queue pair number.
    let destination = queue_pair_numbers(headers.flow)[usize::from(headers.forward)];
    let mut out = vec![opcode as u8, (padding as u8) << 4];
    out.extend(DEFAULT_PARTITION.to_be_bytes());
    out.extend((u32::from(if is_cnp { BECN } else { 0 }) << 24 | destination).to_be_bytes());
    out.extend((u32::from(ack_request) << 31 | psn).to_be_bytes());
    match opcode {
        Opcode::WriteFirst | Opcode::WriteOnly | Opcode::ReadRequest => {
            // Virtual address and key of the RETH are not simulated.
            out.extend([0; 12]);
            out.extend(packet.length().to_be_bytes());
        }
        Opcode::Acknowledge
        | Opcode::ReadResponseFirst
        | Opcode::ReadResponseLast
        | Opcode::ReadResponseOnly => out.extend((u32::from(syndrome as u8) << 24).to_be_bytes()),
        Opcode::Cnp => out.extend([0; CNP_RESERVED]),
        _ => {}
    }
    out.resize(out.len() + usize::from(telemetry) + usize::from(payload) + padding, 0);
    out
}

/// The invariant CRC (Linux `rxe_icrc.c`), computed with ones in the fields that switches may change.
fn icrc(ip: &Ipv4Header, udp: &UdpHeader, transport: &[u8]) -> u32 {
    let mut headers = vec![0xff; 8];
    let start = headers.len();
    headers.extend(ip.to_bytes());
    // Offsets of type of service, time to live and header checksum.
    for place in [1, 8, 10, 11] {
        headers[start + place] = 0xff;
    }
    let start = headers.len();
    headers.extend(udp.to_bytes());
    for place in [6, 7] {
        headers[start + place] = 0xff;
    }
    let start = headers.len();
    headers.extend(transport);
    // FECN, BECN and reserved bits count as ones.
    headers[start + 4] = 0xff;
    let mut crc = Crc::new();
    crc.update(&headers);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pcapng::test_support::{tshark, written};
    use pauseframe_fabric::{CapturedFrame, CapturedFrameContent};
    use pauseframe_rdma::Syndrome;
    use pauseframe_transport::EcnCodepoint;
    use pauseframe_units::{NodeId, PortId, Priority, Time};

    /// Whether the source of operations sends it.
    fn is_forward(opcode: Opcode) -> bool {
        use Opcode::{ReadResponseFirst, ReadResponseLast, ReadResponseMiddle, ReadResponseOnly};
        let responds =
            matches!(opcode, ReadResponseFirst | ReadResponseMiddle | ReadResponseLast | ReadResponseOnly);
        !responds && (opcode.is_data() || opcode == Opcode::ReadRequest)
    }

    fn headers(opcode: Opcode, ecn: EcnCodepoint) -> CapturedFlowHeaders {
        headers_of(5, opcode, ecn)
    }

    fn headers_of(flow: u32, opcode: Opcode, ecn: EcnCodepoint) -> CapturedFlowHeaders {
        let (source, destination, forward) = (NodeId(1), NodeId(0), is_forward(opcode));
        let priority = Priority::new(3).expect("one of eight");
        CapturedFlowHeaders { source, destination, flow, forward, priority, vlan: None, ecn }
    }

    fn packet(opcode: Opcode, psn: u32, payload: u16, syndrome: Syndrome) -> Packet {
        Packet { payload, ack_request: true, syndrome, ..Packet::new(opcode, psn).with_length(3000) }
    }

    fn captured(opcode: Opcode, psn: u32, payload: u16, syndrome: Syndrome) -> CapturedFrame {
        let packet = packet(opcode, psn, payload, syndrome);
        let content =
            CapturedFrameContent::Rdma { headers: headers(opcode, EcnCodepoint::Ce), packet, telemetry: 0 };
        CapturedFrame { time: Time(u64::from(psn) * 1000), port: PortId(0), content }
    }

    #[test]
    fn frames_have_the_sizes_of_the_specification() {
        // The sizes include the tag of priority 3, but not the FCS.
        for (opcode, payload, size) in [
            (Opcode::WriteFirst, 1024, 1102),
            (Opcode::SendOnly, 5, 70),
            (Opcode::Acknowledge, 0, 66),
            (Opcode::Cnp, 0, 78),
            (Opcode::ReadRequest, 0, 78),
            (Opcode::ReadResponseFirst, 1024, 1090),
            (Opcode::ReadResponseMiddle, 1024, 1086),
            (Opcode::ReadResponseOnly, 5, 74),
        ] {
            let packet = packet(opcode, 0, payload, Syndrome::Ack);
            assert_eq!(frame(&headers(opcode, EcnCodepoint::Ce), &packet, 0, 26).len(), size, "{opcode:?}");
        }
    }

    #[test]
    fn the_invariant_crc_ignores_marks() {
        let packet = packet(Opcode::WriteOnly, 7, 100, Syndrome::Ack);
        let [marked, unmarked] = [EcnCodepoint::Ce, EcnCodepoint::Ect0]
            .map(|ecn| frame(&headers(Opcode::WriteOnly, ecn), &packet, 0, 26));
        assert_ne!(marked, unmarked);
        assert_eq!(marked[marked.len() - 4..], unmarked[unmarked.len() - 4..]);
    }

    /// tshark takes packets to the queue pairs 0 and 1 for management datagrams, which have 256 bytes.
    #[test]
    fn tshark_reads_the_first_flow() {
        let kinds = [Opcode::WriteOnly, Opcode::WriteLast, Opcode::ReadResponseOnly, Opcode::SendOnly];
        let frames = (1..).zip(kinds).map(|(psn, opcode)| {
            let packet = packet(opcode, psn, 256, Syndrome::Ack);
            let headers = headers_of(0, opcode, EcnCodepoint::Ect0);
            let content = CapturedFrameContent::Rdma { headers, packet, telemetry: 0 };
            CapturedFrame { time: Time(u64::from(psn) * 1000), port: PortId(0), content }
        });
        let (_folder, path) = written(&frames.collect::<Vec<_>>(), false);
        let Some(read) = tshark(&path, "infiniband.mad || _ws.malformed", &["frame.number"]) else { return };
        assert_eq!(read, [""; 0]);
        let pairs = tshark(&path, "infiniband", &["infiniband.bth.destqp"]).expect("it has run before");
        assert_eq!(pairs.len(), kinds.len());
    }

    #[test]
    fn tshark_reads_every_kind() {
        let frames = [
            captured(Opcode::WriteFirst, 1, 1024, Syndrome::Ack),
            captured(Opcode::WriteMiddle, 2, 1024, Syndrome::Ack),
            captured(Opcode::WriteLast, 3, 949, Syndrome::Ack),
            // For a SEND of 10 zero bytes, tshark guesses another payload protocol and reports it as
            // malformed.
            captured(Opcode::SendOnly, 4, 101, Syndrome::Ack),
            captured(Opcode::Acknowledge, 5, 0, Syndrome::Ack),
            captured(Opcode::Acknowledge, 6, 0, Syndrome::SequenceError),
            captured(Opcode::Cnp, 7, 0, Syndrome::Ack),
            captured(Opcode::ReadRequest, 8, 0, Syndrome::Ack),
            captured(Opcode::ReadResponseFirst, 8, 1024, Syndrome::Ack),
            captured(Opcode::ReadResponseMiddle, 9, 1024, Syndrome::Ack),
            captured(Opcode::ReadResponseLast, 10, 952, Syndrome::Ack),
            captured(Opcode::ReadResponseOnly, 11, 10, Syndrome::Ack),
        ];
        let (_folder, path) = written(&frames, false);
        let fields =
            ["infiniband.bth.opcode", "infiniband.bth.psn", "infiniband.bth.destqp", "ip.dsfield.ecn"];
        let Some(read) = tshark(&path, "infiniband", &fields) else { return };
        let expected = [
            "6;1;0x00000b;3",
            "7;2;0x00000b;3",
            "8;3;0x00000b;3",
            "4;4;0x00000b;3",
            "17;5;0x00000a;3",
            "17;6;0x00000a;3",
            "129;7;0x00000a;3",
            "12;8;0x00000b;3",
            "13;8;0x00000a;3",
            "14;9;0x00000a;3",
            "15;10;0x00000a;3",
            "16;11;0x00000a;3",
        ];
        assert_eq!(read, expected);
        let lengths = tshark(&path, "infiniband.reth", &["infiniband.reth.dmalen"]);
        assert_eq!(lengths.expect("it has run before"), ["3000", "3000"]);
        let answers = tshark(&path, "infiniband.aeth", &["infiniband.bth.opcode"]);
        assert_eq!(answers.expect("it has run before"), ["17", "17", "13", "15", "16"]);
        let bad = "_ws.malformed || _ws.expert.severity >= 0x00800000";
        assert_eq!(tshark(&path, bad, &["frame.number"]).expect("it has run before"), [""; 0]);
    }
}
