//! Writes captured frames as real packets into a pcapng file, which Wireshark and similar programs read:
//! Ethernet, IEEE 802.1Q tag on priorities above 0 and in VLANs, IPv4, TCP with its options, UDP, PFC frames
//! (IEEE 802.1Qbb), PAUSE (IEEE 802.3 Annex 31B) and CNMs (IEEE 802.1Qau). Each port is one capture
//! interface.
//!
//! Frames are captured at their transmitter, cut after the headers (the payload is all zeros; the file keeps
//! its length) and without their FCS; times are nanoseconds since the start of the run. The last three bytes
//! of a node's MAC address (02:00:00:...) and of its IPv4 address (10...) are the node number; a name
//! resolution block names the hosts. The simulator has no TTL changes and no IP identification (RFC 6864
//! allows 0 with DF), so the file has none. The timestamps option counts milliseconds of simulated time, and
//! echoes are exact.

use crate::roce;
use etherparse::{
    EtherType, Ethernet2Header, IpDscp, IpEcn, IpNumber, Ipv4Header, SingleVlanHeader, TcpHeader,
    TcpOptionElement, UdpHeader, VlanId, VlanPcp,
};
use pauseframe_fabric::host_ports::bond::{ipv4, mac, tcp_ports};
use pauseframe_fabric::{CapturedFlowHeaders, CapturedFrame, CapturedFrameContent};
use pauseframe_topology::Topology;
use pauseframe_transport::{EcnCodepoint, ReceiveBuffer, Segment, TcpConfig, TcpFlags, TcpOptions};
use pauseframe_units::{NodeId, PortId, Priority, Time};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::blocks::name_resolution::{Ipv4Record, NameResolutionBlock, Record};
use pcap_file::pcapng::blocks::section_header::{SectionHeaderBlock, SectionHeaderOption};
use pcap_file::{DataLink, Endianness, PcapError};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

/// Smallest Ethernet frame without its FCS, bytes.
const MIN_FRAME: usize = 60;
/// Snap length, the largest length of a captured frame in bytes: far above every MTU.
const SNAP_LENGTH: u32 = 65_535;
const NANOSECONDS: u8 = 9;
/// `epb_flags`: outbound, because each frame is captured at the port that sends it.
const OUTBOUND: u32 = 0b10;
/// IEEE 802.1Qbb: destination address, `EtherType` and opcode of a PFC frame.
const PFC_DESTINATION: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x01];
const MAC_CONTROL: EtherType = EtherType(0x8808);
const PFC_OPCODE: u16 = 0x0101;
/// IEEE 802.3 Annex 31B: opcode of PAUSE, for the whole link.
const PAUSE_OPCODE: u16 = 0x0001;
/// IEEE 802.1Q clause 33.4: `EtherType` of a CNM PDU. (0x22E9 is the `EtherType` of the CN-TAG, which is not
/// simulated.)
const CNM: EtherType = EtherType(0x22e7);
/// A payload of zeros for checksums.
static PAYLOAD: [u8; SNAP_LENGTH as usize] = [0; SNAP_LENGTH as usize];

/// Parameters that the two ends of a connection negotiated and that affect packet headers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Agreement {
    /// Every segment carries the timestamps option.
    pub timestamps: bool,
    /// Window scale: the window field is in units of 2^`window_scale` bytes (RFC 7323 §2.3), except on a SYN.
    pub window_scale: u8,
    /// Differentiated services code point of every packet (RFC 2474).
    pub dscp: u8,
    /// Differentiated services code point of congestion notification packets.
    pub cnp_dscp: u8,
}

impl Agreement {
    /// The parameters that connections negotiate with the settings `config`.
    pub fn of(config: &TcpConfig, dscp: u8) -> Agreement {
        // RFC 7323 §2.3: the smallest shift with which the window fits in 16 bits, at most 14.
        let largest = match config.receive_buffer {
            ReceiveBuffer::Fixed => config.receive_window,
            ReceiveBuffer::Linux | ReceiveBuffer::Freebsd => config.receive_buffer_max,
        };
        let needed = 32 - (largest >> 16).leading_zeros();
        Agreement { timestamps: config.timestamps, window_scale: needed.min(14) as u8, dscp, cnp_dscp: 0 }
    }
}

/// Writes a pcapng file.
pub struct PacketWriter<'a, W: Write> {
    out: PcapNgWriter<W>,
    topology: &'a Topology,
    interfaces: BTreeMap<PortId, u32>,
}

impl<'a, W: Write> PacketWriter<'a, W> {
    /// Begins a file with one capture interface for each of `ports`.
    ///
    /// # Errors
    /// The error of `out`.
    pub fn new(out: W, topology: &'a Topology, ports: &[PortId]) -> io::Result<PacketWriter<'a, W>> {
        let program = Cow::Owned(format!("pauseframe {}", super::VERSION));
        let section = SectionHeaderBlock {
            endianness: Endianness::Little,
            options: vec![SectionHeaderOption::UserApplication(program)],
            ..SectionHeaderBlock::default()
        };
        let mut out = PcapNgWriter::with_section_header(out, section).map_err(io_error)?;
        let mut interfaces = BTreeMap::new();
        for port in ports {
            let peer = &topology.nodes()[topology.peer(*port)].name;
            let interface = InterfaceDescriptionBlock {
                linktype: DataLink::ETHERNET,
                snaplen: SNAP_LENGTH,
                options: vec![
                    InterfaceDescriptionOption::IfName(topology.port_name(*port).into()),
                    InterfaceDescriptionOption::IfDescription(format!("towards {peer}").into()),
                    InterfaceDescriptionOption::IfSpeed(topology.channel(*port).rate.0),
                    InterfaceDescriptionOption::IfTsResol(NANOSECONDS),
                    InterfaceDescriptionOption::IfFcsLen(0),
                ],
            };
            out.write_pcapng_block(interface).map_err(io_error)?;
            interfaces.insert(*port, interfaces.len() as u32);
        }
        out.write_pcapng_block(host_names(topology)).map_err(io_error)?;
        Ok(PacketWriter { out, topology, interfaces })
    }

    /// Appends a frame; the caller passes frames in the order of their times. `agreement` returns the
    /// negotiated parameters of a segment's flow.
    ///
    /// # Errors
    /// The error of the output.
    ///
    /// # Panics
    /// If the file has no interface for the frame's port.
    pub fn write(
        &mut self,
        frame: &CapturedFrame,
        agreement: impl FnOnce(u32) -> Agreement,
    ) -> io::Result<()> {
        let (bytes, length) = match &frame.content {
            CapturedFrameContent::Pause { priority, quanta } => {
                whole(pause_frame(self.topology.owner(frame.port), *priority, *quanta))
            }
            CapturedFrameContent::LinkPause { quanta } => {
                whole(mac_control_frame(self.topology.owner(frame.port), PAUSE_OPCODE, [*quanta]))
            }
            CapturedFrameContent::Cnm { .. } => whole(cnm_frame(&frame.content, self.topology)),
            CapturedFrameContent::Datagram(headers, len) => datagram_headers(headers, *len),
            CapturedFrameContent::Rdma { headers, packet, telemetry } => {
                let is_cnp = packet.opcode == pauseframe_rdma::Opcode::Cnp;
                let Agreement { dscp, cnp_dscp, .. } = agreement(headers.flow);
                whole(roce::frame(headers, packet, *telemetry, if is_cnp { cnp_dscp } else { dscp }))
            }
            CapturedFrameContent::Bytes { bytes, priority } => whole(tagged(bytes, *priority)),
            CapturedFrameContent::Segment(headers, segment) => {
                segment_headers(headers, segment, agreement(headers.flow))
            }
        };
        self.append(frame.port, frame.time, &bytes, length)
    }

    /// Finishes the file and returns the output.
    pub fn into_inner(self) -> W {
        self.out.into_inner()
    }

    fn append(&mut self, port: PortId, time: Time, bytes: &[u8], length: usize) -> io::Result<()> {
        let packet = EnhancedPacketBlock {
            interface_id: self.interfaces[&port],
            timestamp: Duration::from_nanos(time.0 / 1000),
            original_len: length as u32,
            data: Cow::Borrowed(bytes),
            options: vec![EnhancedPacketOption::Flags(OUTBOUND)],
        };
        self.out.write_pcapng_block(packet).map(|_| ()).map_err(io_error)
    }
}

/// A block with the names and addresses of the hosts, so that Wireshark needs no resolver.
fn host_names(topology: &Topology) -> NameResolutionBlock<'_> {
    let record = |host: NodeId| {
        let names = vec![Cow::Borrowed(topology.nodes()[host].name.as_str())];
        Record::Ipv4(Ipv4Record { ip_addr: Cow::Owned(ipv4(host).to_vec()), names })
    };
    NameResolutionBlock { records: topology.hosts().map(record).collect(), options: Vec::new() }
}

/// A frame that is not cut, and its length.
fn whole(bytes: Vec<u8>) -> (Vec<u8>, usize) {
    let length = bytes.len();
    (bytes, length)
}

/// The IPv4 header of a packet with `length` bytes behind it.
pub(super) fn ip_header(
    headers: &CapturedFlowHeaders,
    length: usize,
    protocol: IpNumber,
    dscp: u8,
) -> Ipv4Header {
    let (source, destination) = (ipv4(headers.source), ipv4(headers.destination));
    let mut ip = Ipv4Header::new(length as u16, 64, protocol, source, destination)
        .expect("an IP packet is at most 9216 bytes long");
    ip.dscp = IpDscp::try_new(dscp).expect("a DSCP has six bits");
    ip.ecn = match headers.ecn {
        EcnCodepoint::NotEct => IpEcn::NotEct,
        EcnCodepoint::Ect1 => IpEcn::Ect1,
        EcnCodepoint::Ect0 => IpEcn::Ect0,
        EcnCodepoint::Ce => IpEcn::CongestionExperienced,
    };
    ip.header_checksum = ip.calc_header_checksum();
    ip
}

/// Ethernet header and IPv4 header of a packet.
pub(super) fn packet_headers(headers: &CapturedFlowHeaders, ip: &Ipv4Header) -> Vec<u8> {
    let CapturedFlowHeaders { source, destination, priority, vlan, .. } = *headers;
    let mut bytes = link_header(source, destination, priority, vlan, EtherType::IPV4);
    bytes.extend(ip.to_bytes());
    bytes
}

/// The headers of a segment's frame, and the length of the whole frame without FCS.
fn segment_headers(
    headers: &CapturedFlowHeaders,
    segment: &Segment,
    agreement: Agreement,
) -> (Vec<u8>, usize) {
    let mut tcp = tcp_header(headers.flow, headers.forward, segment, agreement);
    let payload = segment.len as usize;
    let ip = ip_header(headers, tcp.header_len() + payload, IpNumber::TCP, agreement.dscp);
    tcp.checksum =
        tcp.calc_checksum_ipv4(&ip, &PAYLOAD[..payload]).expect("an IP packet is at most 9216 bytes long");
    let mut bytes = packet_headers(headers, &ip);
    bytes.extend(tcp.to_bytes());
    let length = (bytes.len() + payload).max(MIN_FRAME);
    if payload == 0 {
        // A frame without payload is not cut: the file holds it with its padding.
        bytes.resize(length, 0);
    }
    (bytes, length)
}

/// Ethernet header, with an 802.1Q tag if the packet has a VLAN or a priority above 0 (a priority tag has
/// VLAN 0).
fn link_header(
    source: NodeId,
    destination: NodeId,
    priority: Priority,
    vlan: Option<u16>,
    ether_type: EtherType,
) -> Vec<u8> {
    let tagged = vlan.is_some() || priority.code_point() > 0;
    let ethernet = Ethernet2Header {
        source: mac(source),
        destination: mac(destination),
        ether_type: if tagged { EtherType::VLAN_TAGGED_FRAME } else { ether_type },
    };
    let mut bytes = ethernet.to_bytes().to_vec();
    if tagged {
        let tag = SingleVlanHeader {
            pcp: VlanPcp::try_new(priority.code_point()).expect("a priority has three bits"),
            drop_eligible_indicator: false,
            vlan_id: VlanId::try_new(vlan.unwrap_or(0)).expect("VLANs are numbered up to 4094"),
            ether_type,
        };
        bytes.extend(tag.to_bytes());
    }
    bytes
}

/// A frame of a kernel, with a priority tag where its priority is not 0 and it has no tag.
fn tagged(bytes: &[u8], priority: Priority) -> Vec<u8> {
    let (addresses, rest) = bytes.split_at(bytes.len().min(12));
    if priority.code_point() == 0 || rest.starts_with(&EtherType::VLAN_TAGGED_FRAME.0.to_be_bytes()) {
        return bytes.to_vec();
    }
    let [high, low] = EtherType::VLAN_TAGGED_FRAME.0.to_be_bytes();
    [addresses, &[high, low, priority.code_point() << 5, 0], rest].concat()
}

fn tcp_header(flow: u32, forward: bool, segment: &Segment, agreement: Agreement) -> TcpHeader {
    let (client, server) = tcp_ports(flow);
    let (from, to) = if forward { (client, server) } else { (server, client) };
    let has = |flag| segment.flags.contains(flag);
    // RFC 7323 §2.2: the window of a SYN is never scaled.
    let shift = if has(TcpFlags::SYN) { 0 } else { agreement.window_scale };
    let window = (segment.window >> shift).min(u32::from(u16::MAX)) as u16;
    let mut header = TcpHeader::new(from, to, segment.seq, window);
    header.acknowledgment_number = if has(TcpFlags::ACK) { segment.ack } else { 0 };
    header.fin = has(TcpFlags::FIN);
    header.syn = has(TcpFlags::SYN);
    header.rst = has(TcpFlags::RST);
    header.psh = has(TcpFlags::PSH);
    header.ack = has(TcpFlags::ACK);
    header.ece = has(TcpFlags::ECE);
    header.cwr = has(TcpFlags::CWR);
    header.set_options(&tcp_options(segment, agreement)).expect("TCP options are at most 40 bytes long");
    header
}

/// TCP options in the order and with the padding of common stacks.
fn tcp_options(segment: &Segment, agreement: Agreement) -> Vec<TcpOptionElement> {
    use TcpOptionElement::{
        MaximumSegmentSize, Noop, SelectiveAcknowledgement, SelectiveAcknowledgementPermitted, Timestamp,
        WindowScale,
    };
    let stamp = Timestamp(segment.stamps.value, segment.stamps.echo);
    let mut options = Vec::new();
    if let TcpOptions::Syn(syn) = segment.options {
        options.push(MaximumSegmentSize(syn.mss));
        options.extend(syn.sack.then_some(SelectiveAcknowledgementPermitted));
        options.extend(syn.timestamps.then_some(stamp));
        options.extend([Noop, WindowScale(syn.window_scale)]);
        return options;
    }
    if agreement.timestamps {
        options.extend([Noop, Noop, stamp]);
    }
    if let TcpOptions::Sack(sack) = segment.options {
        let block = |i: usize| (i < usize::from(sack.count)).then(|| sack.blocks[i]);
        if let Some(first) = block(0) {
            options.extend([Noop, Noop, SelectiveAcknowledgement(first, [block(1), block(2), block(3)])]);
        }
    }
    options
}

/// A PFC frame without its FCS (IEEE 802.1Qbb; 64 bytes with FCS), with the pause time of one priority.
fn pause_frame(sender: NodeId, priority: Priority, quanta: u16) -> Vec<u8> {
    let time = |class| if class == priority.index() { quanta } else { 0 };
    let times = (0..Priority::COUNT).map(time);
    mac_control_frame(sender, PFC_OPCODE, std::iter::once(1 << priority.code_point()).chain(times))
}

/// A MAC control frame without its FCS; a PAUSE frame (IEEE 802.3 Annex 31B) has one parameter, its quanta.
fn mac_control_frame(sender: NodeId, opcode: u16, parameters: impl IntoIterator<Item = u16>) -> Vec<u8> {
    let ethernet =
        Ethernet2Header { source: mac(sender), destination: PFC_DESTINATION, ether_type: MAC_CONTROL };
    let mut bytes = ethernet.to_bytes().to_vec();
    bytes.extend(std::iter::once(opcode).chain(parameters).flat_map(u16::to_be_bytes));
    bytes.resize(MIN_FRAME, 0);
    bytes
}

/// A CNM without its FCS (IEEE 802.1Q clause 33.4): version, feedback (6 bits), CPID, `cnmQOffset` and
/// `cnmQDelta` in units of 64 octets, priority and destination of the sampled frame, but none of that frame's
/// octets.
fn cnm_frame(content: &CapturedFrameContent, topology: &Topology) -> Vec<u8> {
    let CapturedFrameContent::Cnm {
        congestion_point,
        destination,
        priority,
        fb,
        q_off,
        q_delta,
        sampled_priority,
        sampled_destination,
    } = *content
    else {
        unreachable!("called for CNMs only");
    };
    let switch = topology.owner(congestion_point);
    let units = |bytes: i32| (bytes / 64).clamp(i32::from(i16::MIN), i32::from(i16::MAX)) as i16;
    let mut bytes = link_header(switch, destination, priority, None, CNM);
    bytes.extend(u16::from(fb & 0x3f).to_be_bytes());
    bytes.extend(mac(switch));
    bytes.extend((congestion_point.0 as u16).to_be_bytes());
    bytes.extend(units(q_off).to_be_bytes());
    bytes.extend(units(q_delta).to_be_bytes());
    bytes.extend((u16::from(sampled_priority.code_point()) << 13).to_be_bytes());
    bytes.extend(mac(sampled_destination));
    bytes.extend(0u16.to_be_bytes());
    bytes.resize(MIN_FRAME, 0);
    bytes
}

/// The headers of a datagram's frame, and the length of the whole frame without FCS.
fn datagram_headers(headers: &CapturedFlowHeaders, len: u32) -> (Vec<u8>, usize) {
    let payload = &PAYLOAD[..len as usize];
    let ip = ip_header(headers, UdpHeader::LEN + payload.len(), IpNumber::UDP, 0);
    let (from, to) = tcp_ports(headers.flow);
    let udp = UdpHeader::with_ipv4_checksum(from, to, &ip, payload)
        .expect("an IP packet is at most 9216 bytes long");
    let mut bytes = packet_headers(headers, &ip);
    bytes.extend(udp.to_bytes());
    let length = (bytes.len() + payload.len()).max(MIN_FRAME);
    (bytes, length)
}

fn io_error(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}

#[cfg(test)]
#[path = "pcapng_tests.rs"]
pub(crate) mod test_support;
