//! What is watched: samples of queues and flows, and captured packets. Nothing in the network reads them back, and no
//! run is longer because of them: samples end with the last event of the network.

use crate::event::Event;
use crate::flow::FlowStatus;
use crate::network::Network;
use crate::packet::{Kind, NIL, Packet};
use pauseframe_engine::EventQueue;
use pauseframe_transport::{Ecn, Segment};
use pauseframe_units::{NodeId, PortId, Priority, Span, Time};

/// What a sample tells.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Metric {
    /// Egress backlog, bytes.
    Backlog,
    /// Sent over the last interval, Gb/s on the wire without preamble and gap.
    Throughput,
    /// Share of the last interval in which the class was paused.
    PausedFraction,
    /// Ingress account at the other end, bytes.
    Ingress,
    /// In-order bytes delivered over the last interval, Gb/s.
    Goodput,
    /// Congestion window of the sender, bytes.
    Cwnd,
    /// Slow-start threshold, bytes; no sample while infinite.
    Ssthresh,
    /// Smoothed round-trip time, microseconds.
    Srtt,
    /// DCTCP's estimate.
    Alpha,
    /// Rate that QCN allows the flow queue of the sender, Gb/s: that of the link where it is not limited.
    QcnRate,
}

/// Whom a sample tells about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Entity {
    /// A port and a priority.
    PortPriority(PortId, Priority),
    /// A flow, by number.
    Flow(u32),
}

/// One sample.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sample {
    /// When it was taken.
    pub time: Time,
    /// What it tells.
    pub metric: Metric,
    /// About whom.
    pub entity: Entity,
    /// In the metric's unit.
    pub value: f64,
}

/// What is sampled, and how often.
#[derive(Clone, Debug, Default)]
pub struct SamplePlan {
    /// Interval; zero: no samples.
    pub every: Span,
    /// Ports.
    pub ports: Vec<PortId>,
    /// By workload: whether its flows are sampled.
    pub workloads: Vec<bool>,
}

/// The sampler's memory of the last interval.
#[derive(Debug, Default)]
pub(crate) struct Sampler {
    plan: SamplePlan,
    samples: Vec<Sample>,
    /// By port of the plan and class: bytes sent, time paused.
    last_port: Vec<(f64, Span)>,
    /// Flows that are or were lately open: number, bytes delivered.
    watched: Vec<(u32, u64)>,
    next_flow: u32,
    /// A `Sample` is pending.
    is_pending: bool,
}

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

/// Frames on chosen ports, up to a limit.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    /// By port; empty when nothing is captured.
    wanted: Vec<bool>,
    left: u64,
    once: bool,
    /// By place in the pool: the packet there is in the file.
    written: Vec<bool>,
    frames: Vec<CapturedFrame>,
}

impl Capture {
    fn is_on(&self) -> bool {
        !self.wanted.is_empty()
    }
}

impl Network {
    /// Takes samples as `plan` says, from the first event on.
    pub fn sample(&mut self, plan: SamplePlan, queue: &mut EventQueue) {
        if plan.every == Span::ZERO {
            return;
        }
        let lanes = plan.ports.len() << self.class_bits;
        self.sampler = Sampler {
            plan,
            last_port: vec![(0.0, Span::ZERO); lanes],
            is_pending: true,
            ..Sampler::default()
        };
        queue.push(Time::ZERO + self.sampler.plan.every, Event::Sample.code());
    }

    /// Captures up to `limit` frames that these ports send.
    pub fn capture(&mut self, ports: &[PortId], limit: u64) {
        let mut wanted = vec![false; self.ports.len()];
        for port in ports {
            wanted[port.0 as usize] = true;
        }
        self.capture = Capture { wanted, left: limit, ..Capture::default() };
        self.hot.tapped = true;
    }

    /// A packet is captured at the first of the ports that it crosses, not at every one: a reader takes what it sees
    /// twice for a retransmission.
    pub fn capture_once(&mut self) {
        self.capture.once = true;
    }

    /// Hands over the samples taken since the last call.
    pub fn take_samples(&mut self) -> Vec<Sample> {
        std::mem::take(&mut self.sampler.samples)
    }

    /// Hands over the frames captured since the last call.
    pub fn take_frames(&mut self) -> Vec<CapturedFrame> {
        std::mem::take(&mut self.capture.frames)
    }

    pub(crate) fn on_sample(&mut self, now: Time, queue: &mut EventQueue) {
        let mut sampler = std::mem::take(&mut self.sampler);
        self.sample_ports(&mut sampler, now);
        self.sample_flows(&mut sampler, now);
        let next = now + sampler.plan.every;
        sampler.is_pending = false;
        self.sampler = sampler;
        if self.has_more(queue) {
            self.sampler.is_pending = true;
            queue.push(next, Event::Sample.code());
        }
    }

    /// Whether anything but observation is pending: observers alone keep no run alive.
    pub(crate) fn has_more(&self, queue: &EventQueue) -> bool {
        let pending = [self.sampler.is_pending, self.detector.is_pending, self.state_log.is_pending];
        queue.holds_more_than(pending.into_iter().map(usize::from).sum())
    }

    fn sample_ports(&self, sampler: &mut Sampler, now: Time) {
        let interval = sampler.plan.every;
        for (number, &port) in sampler.plan.ports.iter().enumerate() {
            let in_service = self.left_in_service(port, now);
            for (class, &priority) in self.priorities.iter().enumerate() {
                let lane = &self.lanes[self.lane_index(port, class as u8)];
                let account = &self.accounts[self.lane_index(port, class as u8)];
                let unsent = in_service.as_ref().filter(|service| usize::from(service.class) == class);
                let sent = lane.tx_bytes as f64 - unsent.map_or(0.0, |service| service.bytes_left);
                let (paused, _) = self.paused_time(port, class as u8, now);
                let last = &mut sampler.last_port[(number << self.class_bits) + class];
                let bits = (sent - last.0) * 8.0;
                let paused_fraction = (paused - last.1).as_secs_f64() / interval.as_secs_f64();
                *last = (sent, paused);
                let entity = Entity::PortPriority(port, priority);
                let mut add =
                    |metric, value| sampler.samples.push(Sample { time: now, metric, entity, value });
                add(Metric::Backlog, lane.backlog as f64);
                add(Metric::Throughput, bits / interval.as_secs_f64() / 1e9);
                if self.is_lossless(class as u8) {
                    add(Metric::PausedFraction, paused_fraction);
                    add(Metric::Ingress, account.bytes as f64);
                }
            }
        }
    }

    fn sample_flows(&self, sampler: &mut Sampler, now: Time) {
        while (sampler.next_flow as usize) < self.records.len() {
            let workload = self.records[sampler.next_flow as usize].spec.workload;
            if sampler.plan.workloads.get(usize::from(workload)) == Some(&true) {
                sampler.watched.push((sampler.next_flow, 0));
            }
            sampler.next_flow += 1;
        }
        let interval = sampler.plan.every.as_secs_f64();
        let samples = &mut sampler.samples;
        sampler.watched.retain_mut(|(flow, last)| {
            let entity = Entity::Flow(*flow);
            let mut add = |metric, value| samples.push(Sample { time: now, metric, entity, value });
            let delivered = self.delivered(*flow);
            add(Metric::Goodput, (delivered - *last) as f64 * 8.0 / interval / 1e9);
            *last = delivered;
            if let Some(rate) = self.limited_rate(*flow) {
                add(Metric::QcnRate, rate.as_gbps_f64());
            }
            // A stream of datagrams has no sender to ask.
            let Some(sender) = self.sender(*flow) else {
                return self.records[*flow as usize].status == FlowStatus::Running;
            };
            add(Metric::Cwnd, sender.cwnd() as f64);
            if sender.ssthresh() != u64::MAX {
                add(Metric::Ssthresh, sender.ssthresh() as f64);
            }
            if let Some(srtt) = sender.srtt() {
                add(Metric::Srtt, srtt.as_us_f64());
            }
            if let Some(alpha) = sender.alpha() {
                add(Metric::Alpha, alpha);
            }
            true
        });
    }

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
        let content = self.content_of(&self.packets[index]);
        self.capture.frames.push(CapturedFrame { time: now, port, content });
    }

    /// Whether the packet has been on no captured wire yet, this one apart.
    fn is_first_capture(&mut self, port: PortId, index: u32) -> bool {
        let packet = &self.packets[index];
        // A packet begins at a NIC; a CNM at the switch that sends it, into which it came by no port.
        let begins = match packet.kind {
            Kind::Cnm => packet.ingress == PortId::NONE,
            _ => self.ports[port].from_host != NIL,
        };
        let Capture { written, wanted, .. } = &mut self.capture;
        let place = index as usize;
        if place >= written.len() {
            written.resize(place + 1, false);
        }
        let first = begins || packet.kind == Kind::Pause || !written[place];
        written[place] = wanted[port.0 as usize] || !first;
        first
    }

    fn content_of(&self, packet: &Packet) -> FrameContent {
        if packet.kind == Kind::Pause {
            let (class, quanta) = (packet.seq.trailing_zeros() as usize, packet.len);
            return if self.hot.account_mask == 0 {
                FrameContent::LinkPause { quanta }
            } else {
                FrameContent::Pause { priority: self.priorities[class], quanta }
            };
        }
        let (flow, forward) = (packet.to / 2, packet.to & 1 == 1);
        let spec = &self.records[flow as usize].spec;
        let (source, destination) =
            if forward { (spec.source, spec.destination) } else { (spec.destination, spec.source) };
        let priority = self.priorities[usize::from(packet.class)];
        let vlan = self.vlans.as_ref().map(|vlans| vlans.id(packet.vlan));
        match packet.kind {
            Kind::Cnm => FrameContent::Cnm {
                congestion_point: PortId(packet.remaining),
                destination,
                priority,
                fb: packet.seq as u8,
                q_off: packet.ack.cast_signed(),
                q_delta: packet.window.cast_signed(),
                sampled_priority: self.priorities[(packet.seq >> 8) as usize],
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
                segment: self.packets.segment(packet),
            },
        }
    }
}
