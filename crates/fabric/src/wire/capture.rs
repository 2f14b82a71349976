//! Packet capture on links. Nothing in the simulation reads captures back.

use crate::context::Context;
use crate::external::mark_ce;
use crate::frame::{CompactTcpSegment, FrameBytes, FrameContent, Packet, PacketId, RdmaFrame};
use crate::plan::NetworkPlan;
use crate::records::FlowRecords;
use crate::settings::RdmaSettings;
use pauseframe_transport::{EcnCodepoint, Segment};
use pauseframe_units::{NodeId, PortId, Priority, Time};

/// A frame seen on the wire.
#[derive(Clone, PartialEq, Debug)]
pub struct CapturedFrame {
    /// When its first bit left.
    pub time: Time,
    /// The port that sent it.
    pub port: PortId,
    /// Kind and content of the frame.
    pub content: CapturedFrameContent,
}

/// The flow, addresses and marks of a captured packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CapturedFlowHeaders {
    /// Host that sent it.
    pub source: NodeId,
    /// Host that it goes to.
    pub destination: NodeId,
    /// The flow that it belongs to.
    pub flow: u32,
    /// Whether it goes from the flow's source to its destination.
    pub forward: bool,
    /// IEEE 802.1p priority.
    pub priority: Priority,
    /// The VLAN that its tag names, where it has one.
    pub vlan: Option<u16>,
    /// ECN field.
    pub ecn: EcnCodepoint,
}

/// Kind and content of a captured frame.
#[derive(Clone, PartialEq, Debug)]
pub enum CapturedFrameContent {
    /// A TCP segment in an IP packet.
    Segment(CapturedFlowHeaders, Segment),
    /// A PFC frame.
    Pause {
        /// The priority it is about.
        priority: Priority,
        /// Pause time; 0 resumes.
        quanta: u16,
    },
    /// A PAUSE frame for the whole link (IEEE 802.3 Annex 31B).
    LinkPause {
        /// Pause time; 0 resumes.
        quanta: u16,
    },
    /// A UDP datagram in an IP packet, with so many application bytes.
    Datagram(CapturedFlowHeaders, u32),
    /// A `RoCEv2` packet.
    Rdma {
        /// Flow, addresses and marks.
        headers: CapturedFlowHeaders,
        /// Its headers and the size of its payload.
        packet: pauseframe_rdma::Packet,
        /// Bytes of telemetry between its headers and the payload.
        telemetry: u16,
    },
    /// A frame of a stack outside of the simulator.
    Bytes {
        /// From its Ethernet header on, without FCS, as it is on this wire.
        bytes: Vec<u8>,
        /// IEEE 802.1p priority.
        priority: Priority,
    },
    /// A congestion notification message (IEEE 802.1Qau).
    Cnm {
        /// The port whose queue was sampled.
        congestion_point: PortId,
        /// The host that it goes to: the source of the sampled frame.
        destination: NodeId,
        /// Its own priority.
        priority: Priority,
        /// Quantised feedback, 1 to 63.
        fb: u8,
        /// Queue above the set point, bytes.
        q_off: i32,
        /// Growth of the queue since the last sample, bytes.
        q_delta: i32,
        /// Priority of the sampled frame.
        sampled_priority: Priority,
        /// Where the sampled frame was going to.
        sampled_destination: NodeId,
    },
}

/// A captured frame in the simulator's form.
#[derive(Clone, Debug)]
pub(crate) struct RawCapturedFrame {
    pub(crate) time: Time,
    pub(crate) port: PortId,
    packet: Packet,
    segment: Segment,
    /// Of a frame of a stack outside of the simulator.
    bytes: FrameBytes,
}

/// Captures frames on chosen ports, up to a limit.
#[derive(Debug, Default)]
pub(crate) struct FrameCapture {
    /// By port; empty when nothing is captured.
    wanted: Vec<bool>,
    left: u64,
    pub(crate) once: bool,
    /// By pool index: whether the packet was captured already.
    written: Vec<bool>,
    pub(crate) frames: Vec<RawCapturedFrame>,
}

impl FrameCapture {
    pub(crate) fn new(wanted: Vec<bool>, limit: u64) -> FrameCapture {
        FrameCapture { wanted, left: limit, ..FrameCapture::default() }
    }

    pub(super) fn is_enabled(&self) -> bool {
        !self.wanted.is_empty()
    }

    pub(crate) fn was_captured(&self, index: PacketId) -> bool {
        self.written.get(index.0 as usize) == Some(&true)
    }

    pub(crate) fn set_captured(&mut self, index: PacketId, written: bool) {
        if self.is_enabled() {
            let place = index.0 as usize;
            if place >= self.written.len() {
                self.written.resize(place + 1, false);
            }
            self.written[place] = written;
        }
    }

    /// Captures a frame that goes on the wire of `port`, if that port is captured.
    pub(super) fn capture_frame(&mut self, port: PortId, at_host: bool, index: PacketId, ctx: &Context) {
        let is_control = matches!(ctx.packets[index].content, FrameContent::PathControl(_));
        if !self.is_enabled() || self.left == 0 || is_control {
            return;
        }
        let first = self.record_first_hop(port, at_host, index, ctx);
        if !self.wanted[port.0 as usize] || (!first && self.once) {
            return;
        }
        self.left -= 1;
        let packet = ctx.packets[index];
        let segment = match &packet.content {
            FrameContent::Segment(carried) => ctx.packets.unpack_segment(carried),
            _ => Segment::default(),
        };
        let bytes = match packet.content {
            FrameContent::Foreign { bytes, ecn, .. } => {
                let mut bytes = ctx.packets.frame_bytes(bytes).clone();
                if ecn == EcnCodepoint::Ce {
                    mark_ce(&mut bytes);
                }
                bytes
            }
            _ => FrameBytes::new(),
        };
        self.frames.push(RawCapturedFrame { time: ctx.now(), port, packet, segment, bytes });
    }

    /// Whether this is the first captured port on the path of a packet.
    fn record_first_hop(&mut self, port: PortId, at_host: bool, index: PacketId, ctx: &Context) -> bool {
        let packet = &ctx.packets[index];
        // A packet starts at a NIC. A CNM starts at its switch and has no ingress port.
        let begins = match packet.content {
            FrameContent::Cnm(_) => packet.ingress == PortId::NONE,
            _ => at_host,
        };
        let is_pause = matches!(packet.content, FrameContent::Pause { .. });
        let first = begins || is_pause || !self.was_captured(index);
        let written = self.wanted[port.0 as usize] || !first;
        self.set_captured(index, written);
        first
    }
}

impl RawCapturedFrame {
    /// Decodes the frame for writers of captures.
    pub(crate) fn decode(&self, plan: &NetworkPlan, records: &FlowRecords) -> CapturedFrame {
        CapturedFrame { time: self.time, port: self.port, content: self.decode_content(plan, records) }
    }

    fn decode_content(&self, plan: &NetworkPlan, records: &FlowRecords) -> CapturedFrameContent {
        let packet = &self.packet;
        let priority = plan.priorities[usize::from(packet.class)];
        let vlans = plan.settings.vlans.as_ref();
        let vlan = vlans.map(|vlans| vlans.tables.vlans()[usize::from(packet.vlan)].id);
        let headers = |to: u32, ecn: EcnCodepoint| {
            let spec = records.flow_record(to / 2).spec;
            let forward = to & 1 == 1;
            let (source, destination) =
                if forward { (spec.source, spec.destination) } else { (spec.destination, spec.source) };
            CapturedFlowHeaders { source, destination, flow: to / 2, forward, priority, vlan, ecn }
        };
        match packet.content {
            FrameContent::Pause { quanta, .. } if plan.account_mask == 0 => {
                CapturedFrameContent::LinkPause { quanta }
            }
            FrameContent::Pause { classes, quanta } => CapturedFrameContent::Pause {
                priority: plan.priorities[classes.trailing_zeros() as usize],
                quanta,
            },
            FrameContent::Cnm(cnm) => {
                let CapturedFlowHeaders { source, destination, .. } = headers(cnm.to, EcnCodepoint::NotEct);
                CapturedFrameContent::Cnm {
                    congestion_point: cnm.point,
                    destination,
                    priority,
                    fb: cnm.fb,
                    q_off: cnm.q_off,
                    q_delta: cnm.q_delta,
                    sampled_priority: plan.priorities[usize::from(cnm.sampled_class)],
                    sampled_destination: source,
                }
            }
            FrameContent::Datagram { to, len, ecn } => {
                CapturedFrameContent::Datagram(headers(to, ecn), u32::from(len))
            }
            FrameContent::Rdma(RdmaFrame { to, packet, ecn, .. }) => {
                let size = |rdma: &RdmaSettings| rdma.pair.ip_size(&packet) - packet.ip_size();
                let transport = records.flow_record(to / 2).spec.transport;
                let rdma = &plan.settings.transports[usize::from(transport)].rdma();
                let telemetry = rdma.map_or(0, size) as u16;
                CapturedFrameContent::Rdma { headers: headers(to, ecn), packet, telemetry }
            }
            FrameContent::Foreign { .. } => {
                CapturedFrameContent::Bytes { bytes: self.bytes.clone(), priority }
            }
            FrameContent::Segment(CompactTcpSegment { to, ecn, .. }) => {
                CapturedFrameContent::Segment(headers(to, ecn), self.segment)
            }
            FrameContent::PathControl(_) | FrameContent::Damaged(_) | FrameContent::Lost => {
                unreachable!("a frame is captured as it goes on the wire, whole")
            }
        }
    }
}
