//! Frames that are captured on their wires. Nothing in the network reads them back.

use crate::cell::Cell;
use crate::flow::FlowRecord;
use crate::packet::{Kind, NIL, Packet};
use crate::plan::Plan;
use pauseframe_transport::{Ecn, Segment};
use pauseframe_units::{NodeId, PortId, Priority, Time};

/// A frame seen on the wire.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CapturedFrame {
    /// When its first bit left.
    pub time: Time,
    /// The port that sent it.
    pub port: PortId,
    /// What it is.
    pub content: FrameContent,
}

/// What a captured frame is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FrameContent {
    /// A TCP segment in an IP packet.
    Segment {
        /// Hosts.
        source: NodeId,
        /// Hosts.
        destination: NodeId,
        /// The flow that it belongs to.
        flow: u32,
        /// It goes from the flow's source to its destination.
        forward: bool,
        /// IEEE 802.1p priority.
        priority: Priority,
        /// The VLAN that its tag names, where it has one.
        vlan: Option<u16>,
        /// ECN field.
        ecn: Ecn,
        /// TCP header.
        segment: Segment,
    },
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
    /// A UDP datagram in an IP packet.
    Datagram {
        /// Hosts.
        source: NodeId,
        /// Hosts.
        destination: NodeId,
        /// The flow that it belongs to.
        flow: u32,
        /// IEEE 802.1p priority.
        priority: Priority,
        /// The number of its VLAN, where packets have one.
        vlan: Option<u16>,
        /// Application bytes.
        len: u32,
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

/// A frame that was captured, as it was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Captured {
    pub(crate) time: Time,
    pub(crate) port: PortId,
    packet: Packet,
    segment: Segment,
}

/// Frames on chosen ports, up to a limit.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    /// By port; empty when nothing is captured.
    wanted: Vec<bool>,
    left: u64,
    pub(crate) once: bool,
    /// By place in the pool: the packet there is in the file.
    written: Vec<bool>,
    pub(crate) frames: Vec<Captured>,
}

impl Capture {
    pub(crate) fn new(wanted: Vec<bool>, limit: u64) -> Capture {
        Capture { wanted, left: limit, ..Capture::default() }
    }

    fn is_on(&self) -> bool {
        !self.wanted.is_empty()
    }

    pub(crate) fn has_written(&self, index: u32) -> bool {
        self.written.get(index as usize) == Some(&true)
    }

    pub(crate) fn set_written(&mut self, index: u32, written: bool) {
        if self.is_on() {
            let place = index as usize;
            if place >= self.written.len() {
                self.written.resize(place + 1, false);
            }
            self.written[place] = written;
        }
    }
}

impl Cell {
    /// A frame is on a wire that may be captured or bad.
    pub(crate) fn tap(&mut self, port: PortId, index: u32, now: Time) {
        if self.capture.is_on() {
            self.capture_frame(port, index, now);
        }
        self.damage(port, index, now);
    }

    fn capture_frame(&mut self, port: PortId, index: u32, now: Time) {
        if self.capture.left == 0 {
            return;
        }
        let first = self.is_first_capture(port, index);
        if !self.capture.wanted[port.0 as usize] || (!first && self.capture.once) {
            return;
        }
        self.capture.left -= 1;
        let packet = self.packets[index];
        let segment = self.packets.segment(&packet);
        self.capture.frames.push(Captured { time: now, port, packet, segment });
    }

    /// Whether the packet has been on no captured wire yet, this one apart.
    fn is_first_capture(&mut self, port: PortId, index: u32) -> bool {
        let packet = &self.packets[index];
        // A packet begins at a NIC; a CNM at the switch that sends it, into which it came by no port.
        let begins = match packet.kind {
            Kind::Cnm => packet.ingress == PortId::NONE,
            _ => self.ports[port].from_host != NIL,
        };
        let first = begins || packet.kind == Kind::Pause || !self.capture.has_written(index);
        let written = self.capture.wanted[port.0 as usize] || !first;
        self.capture.set_written(index, written);
        first
    }
}

impl Captured {
    /// The frame in the words of those who read it.
    pub(crate) fn read(&self, plan: &Plan, records: &[FlowRecord]) -> CapturedFrame {
        CapturedFrame { time: self.time, port: self.port, content: self.content(plan, records) }
    }

    fn content(&self, plan: &Plan, records: &[FlowRecord]) -> FrameContent {
        let packet = &self.packet;
        if packet.kind == Kind::Pause {
            let (class, quanta) = (packet.seq.trailing_zeros() as usize, packet.len);
            return if plan.account_mask == 0 {
                FrameContent::LinkPause { quanta }
            } else {
                FrameContent::Pause { priority: plan.priorities[class], quanta }
            };
        }
        let (flow, forward) = (packet.to / 2, packet.to & 1 == 1);
        let spec = &records[flow as usize].spec;
        let (source, destination) =
            if forward { (spec.source, spec.destination) } else { (spec.destination, spec.source) };
        let priority = plan.priorities[usize::from(packet.class)];
        let vlans = plan.settings.vlans.as_ref();
        let vlan = vlans.map(|vlans| vlans.tables.vlans()[usize::from(packet.vlan)].id);
        match packet.kind {
            Kind::Cnm => FrameContent::Cnm {
                congestion_point: PortId(packet.remaining),
                destination,
                priority,
                fb: packet.seq as u8,
                q_off: packet.ack.cast_signed(),
                q_delta: packet.window.cast_signed(),
                sampled_priority: plan.priorities[(packet.seq >> 8) as usize],
                sampled_destination: source,
            },
            Kind::Datagram => FrameContent::Datagram {
                source,
                destination,
                flow,
                priority,
                vlan,
                len: u32::from(packet.len),
            },
            Kind::Data | Kind::Pause | Kind::Corrupted | Kind::Lost => FrameContent::Segment {
                source,
                destination,
                flow,
                forward,
                priority,
                vlan,
                ecn: packet.ecn,
                segment: self.segment,
            },
        }
    }
}
