//! Quantized congestion notification, IEEE 802.1Qau (IEEE 802.1Q clauses 30 to 33): congestion points at the egress
//! queues of switches, CNMs on the wire, reaction points in the NICs (docs/models/qcn.md).
//!
//! A CNM is a 64-byte frame of the highest priority that the switch sends to the source of the sampled frame. There it
//! acts on the flow queue (destination, class) of the NIC, never on TCP: everything in that queue is limited, SYNs and
//! ACKs too. A queue without a limit is as if there were no QCN. Left out: CN-TAGs (a NIC knows its queues by the
//! encapsulated destination), defence against priorities without QCN, limits on the rate of CNMs.

mod congestion_point;
mod reaction_point;

use crate::cell::Cell;
use crate::counters::DropReason;
use crate::event::{Event, LimiterId};
use crate::packet::{Fifo, Kind, NIL, Packet};
use congestion_point::{CongestionPoint, Feedback};
use pauseframe_engine::{EventQueue, Rng, mix, stream};
use pauseframe_topology::routing::ecmp_index;
use pauseframe_transport::{Ecn, Flags, Stamps};
use pauseframe_units::{BitRate, Bytes, NodeId, PortId, Priority, Span, Time};
use reaction_point::ReactionPoint;

/// The parameters of QCN.
#[derive(Clone, PartialEq, Debug)]
pub struct QcnSettings {
    /// Priorities whose queues are watched; `None`: all but that of the CNMs.
    pub priorities: Option<Vec<Priority>>,
    /// Priority of the CNMs.
    pub cnm_priority: Priority,
    /// The queue that a congestion point aims at.
    pub q_eq: Bytes,
    /// Weight of the queue's growth.
    pub w: f64,
    /// Bytes between two samples of a queue without congestion.
    pub sample: Bytes,
    /// Intervals and cycles are uniform within this share of their mean, either way.
    pub jitter: f64,
    /// Share of its rate that a limiter gives up for each step of feedback.
    pub g_d: f64,
    /// Least factor of a cut.
    pub min_decrease: f64,
    /// Cycles of fast recovery.
    pub fast_recovery: u32,
    /// Growth of the target a cycle after that.
    pub active_increase: BitRate,
    /// The same when byte counter and timer are both beyond fast recovery, for each cycle beyond.
    pub hyper_active_increase: BitRate,
    /// Bytes of a cycle.
    pub byte_counter: Bytes,
    /// Time of a cycle.
    pub timer: Span,
    /// A target beyond ten times the rate falls to an eighth after the first cycle.
    pub extra_fast_recovery: bool,
    /// Least rate of a limiter.
    pub min_rate: BitRate,
}

impl QcnSettings {
    /// The defaults of IEEE 802.1Q (`Q_eq` 26 KB; minimum rate 5 Mb/s), CNMs at priority 7.
    pub fn standard() -> QcnSettings {
        QcnSettings {
            priorities: None,
            cnm_priority: Priority::new(7).unwrap_or_default(),
            q_eq: Bytes(26_000),
            w: 2.0,
            sample: Bytes(150_000),
            jitter: 0.15,
            g_d: 1.0 / 128.0,
            min_decrease: 0.5,
            fast_recovery: 5,
            active_increase: BitRate(5_000_000),
            hyper_active_increase: BitRate(50_000_000),
            byte_counter: Bytes(150_000),
            timer: Span::from_ms(15),
            extra_fast_recovery: true,
            min_rate: BitRate(5_000_000),
        }
    }

    /// `mean`, spread by `jitter`.
    fn spread(&self, mean: f64, rng: &mut Rng) -> f64 {
        if self.jitter == 0.0 { mean } else { mean * (1.0 + self.jitter * (2.0 * rng.unit() - 1.0)) }
    }
}

/// A flow queue of a NIC that has been limited.
#[derive(Debug)]
struct Limiter {
    id: LimiterId,
    point: ReactionPoint,
    /// Packets that wait for their turn at the current rate.
    waiting: Fifo,
    /// The last packet left then, and its bytes on the wire.
    last: (Time, u32),
    /// Valid times of the two events; `Time::MAX` for none.
    release_at: Time,
    timer_at: Time,
    rng: Rng,
}

/// What a network with QCN has beyond one without.
#[derive(Debug)]
pub(crate) struct Qcn {
    settings: QcnSettings,
    /// By lane.
    points: Vec<CongestionPoint>,
    /// Classes that are watched, a bit each, and the class of the CNMs.
    classes: u8,
    cnm_class: u8,
    limiters: Vec<Limiter>,
    seed: u64,
    /// By flow: its hosts, source first.
    pub(crate) hosts_of_flow: Vec<[NodeId; 2]>,
}

impl Qcn {
    /// `priorities` are those in use, the CNMs' among them.
    pub(crate) fn new(settings: QcnSettings, priorities: &[Priority], lanes: usize, seed: u64) -> Qcn {
        let class = |priority: Priority| priorities.iter().position(|p| *p == priority);
        let cnm_class = class(settings.cnm_priority).expect("the priority of CNMs is in use") as u8;
        let watched = |priority: &Priority| match &settings.priorities {
            Some(list) => list.contains(priority),
            None => *priority != settings.cnm_priority,
        };
        let classes =
            priorities.iter().enumerate().filter(|(_, p)| watched(p)).fold(0, |set, (c, _)| set | 1 << c);
        let points =
            (0..lanes as u64).map(|lane| CongestionPoint::new(&settings, stream(seed, "qcn/sample", lane)));
        Qcn {
            points: points.collect(),
            classes,
            cnm_class,
            limiters: Vec::new(),
            seed,
            hosts_of_flow: Vec::new(),
            settings,
        }
    }

    /// What the limiters of a host keep back.
    pub(crate) fn held_back(&self, host: u32) -> impl Iterator<Item = Fifo> {
        self.limiters.iter().filter(move |limiter| limiter.id.host == host).map(|limiter| limiter.waiting)
    }
}

impl Cell {
    /// A frame has joined an egress queue of a switch: its congestion point may answer the source.
    #[cold]
    pub(crate) fn on_congestion_point(
        &mut self,
        port: PortId,
        index: u32,
        now: Time,
        queue: &mut EventQueue,
    ) {
        let packet = self.packets[index];
        let lane = self.lane_index(port, packet.class);
        let backlog = self.lanes[lane].backlog + u64::from(packet.size);
        let Some(qcn) = self.qcn.as_deref_mut() else { return };
        if packet.kind == Kind::Cnm || qcn.classes & 1 << packet.class == 0 {
            return;
        }
        let feedback = qcn.points[lane].on_frame(u32::from(packet.size), backlog, &qcn.settings);
        if let Some(feedback) = feedback {
            self.counters[lane].cnms_sent += 1;
            self.send_cnm(port, &packet, feedback, now, queue);
        }
    }

    /// A CNM sets out from the switch of `port` to the source of `sampled`.
    fn send_cnm(
        &mut self,
        port: PortId,
        sampled: &Packet,
        feedback: Feedback,
        now: Time,
        queue: &mut EventQueue,
    ) {
        let Some(qcn) = self.qcn.as_ref() else { return };
        let class = qcn.cnm_class;
        // What goes to side 1 came from the source.
        let from = qcn.hosts_of_flow[(sampled.to / 2) as usize][(sampled.to & 1 ^ 1) as usize];
        let here = self.plan.topology.owner(port);
        let egress = self.way_of_cnm(here, here, from, sampled.to / 2);
        let cnm = Packet {
            at: now,
            next: NIL,
            ingress: PortId::NONE,
            route: from.0,
            // The end that the frame came from.
            to: sampled.to ^ 1,
            seq: u32::from(feedback.fb) | u32::from(sampled.class) << 8,
            ack: feedback.q_off.cast_unsigned(),
            len: 0,
            window: feedback.q_delta.cast_unsigned(),
            remaining: port.0,
            options: NIL,
            stamps: Stamps::default(),
            size: CNM_FRAME,
            hop: 1,
            class,
            ingress_class: class,
            vlan: 0,
            ecn: Ecn::NotEct,
            flags: Flags::default(),
            kind: Kind::Cnm,
        };
        let index = self.packets.add(cnm);
        // It has no ingress: as lossless packet it is in no account here ([`Network::release`]).
        if !self.is_lossless(class) && !self.has_lossy_room(index, egress, now, queue) {
            self.drop_packet(index, egress, DropReason::BufferFull, now);
            return;
        }
        if self.hot.watched_arrivals & 1 << class != 0 {
            let lane = self.lane_index(egress, class);
            self.lanes[lane].waiting += 1;
        }
        self.enqueue(egress, index, now, queue);
    }

    /// Whether a lossy packet of the switch's own fits in its egress queue, taking the space.
    fn has_lossy_room(&mut self, index: u32, egress: PortId, now: Time, queue: &mut EventQueue) -> bool {
        let packet = &self.packets[index];
        let backlog = self.lanes[self.lane_index(egress, packet.class)].backlog;
        if self.hot.shared {
            let switch = self.switch_number(egress);
            self.admit(switch, index, egress, now, queue).is_ok()
        } else {
            // No limit where inputs own the buffer: it came by none.
            backlog + u64::from(packet.size) <= self.policies[usize::from(packet.class)].limit
        }
    }

    /// The way back from the switch `origin` as ECMP would choose it, hop by hop: the port that `here` takes. Where packets are
    /// sprayed it is the first.
    fn way_of_cnm(&self, here: NodeId, origin: NodeId, to: NodeId, flow: u32) -> PortId {
        let among = self.routes.ports(here, to);
        if self.settings.spray || among.len() == 1 {
            return among[0];
        }
        let tuple = mix(u64::from(origin.0) << 32 | u64::from(to.0)) ^ mix(u64::from(flow));
        let salt = mix(self.settings.seed ^ mix(u64::from(here.0)));
        among[ecmp_index(mix(tuple), salt, among.len())]
    }

    /// A CNM has come into a switch.
    #[inline(never)]
    pub(crate) fn forward_cnm(&mut self, port: PortId, index: u32, now: Time, queue: &mut EventQueue) {
        let switch = self.ports[port].to_switch;
        let Packet { remaining, route, to, class, .. } = self.packets[index];
        let origin = self.plan.topology.owner(PortId(remaining));
        let egress = if self.settings.spray {
            self.spray_to(switch, NodeId(route))
        } else {
            self.way_of_cnm(self.switches[switch as usize].node, origin, NodeId(route), to / 2)
        };
        self.pass_on(switch, port, index, (egress, class), now, queue);
    }

    /// A CNM has come to the NIC of the source, or ends on the way there.
    #[cold]
    pub(crate) fn on_cnm(&mut self, port: PortId, index: u32, now: Time, queue: &mut EventQueue) {
        let cnm = self.packets[index];
        self.packets.remove(index);
        let host = self.ports[port].to_host;
        let (fb, class) = (cnm.seq as u8, (cnm.seq >> 8) as u8);
        let lane = self.lane_index(port.reverse(), class);
        self.counters[lane].cnms_received += 1;
        let Some(qcn) = self.qcn.as_deref_mut() else { return };
        let destination = qcn.hosts_of_flow[(cnm.to / 2) as usize][(cnm.to & 1 ^ 1) as usize];
        let nic_queue = self.hosts[host as usize].queue_for(destination, class);
        let line = self.ports[port.reverse()].rate.rate();
        let limiter = self.hosts[host as usize].limiter(nic_queue).unwrap_or_else(|| {
            let number = qcn.limiters.len() as u32;
            let id = LimiterId { host, nic_queue };
            qcn.limiters.push(Limiter {
                id,
                point: ReactionPoint::new(line, &qcn.settings),
                waiting: Fifo::EMPTY,
                last: (now, 0),
                release_at: Time::MAX,
                timer_at: Time::MAX,
                rng: stream(qcn.seed, "qcn/recovery", id.index()),
            });
            self.hosts[host as usize].set_limiter(nic_queue, number);
            number
        });
        let Qcn { limiters, settings, .. } = qcn;
        let state = &mut limiters[limiter as usize];
        state.point.on_cnm(fb, settings);
        state.timer_at = now + state.point.timer_cycle(settings, &mut state.rng);
        queue.push(state.timer_at, Event::RateTimer(state.id).code());
        self.set_release(limiter, now, queue);
    }

    /// Keeps a packet back if its flow queue is limited and its time has not come; else it goes on.
    #[cold]
    pub(crate) fn is_held(
        &mut self,
        host: u32,
        nic_queue: u32,
        index: u32,
        now: Time,
        queue: &mut EventQueue,
    ) -> bool {
        let Some(limiter) = self.hosts[host as usize].limiter(nic_queue) else { return false };
        let Some(qcn) = self.qcn.as_deref_mut() else { return false };
        let state = &mut qcn.limiters[limiter as usize];
        if !state.point.is_limiting() && state.waiting.is_empty() {
            return false;
        }
        state.waiting.push(&mut self.packets, index);
        self.set_release(limiter, now, queue);
        true
    }

    /// Keeps a `RateRelease` event pending for the first packet that waits.
    fn set_release(&mut self, limiter: u32, now: Time, queue: &mut EventQueue) {
        let Some(qcn) = self.qcn.as_deref_mut() else { return };
        let state = &mut qcn.limiters[limiter as usize];
        if state.waiting.is_empty() {
            return;
        }
        let (last, bytes) = state.last;
        let at = now.max(last + state.point.current_rate.serialise(Bytes(u64::from(bytes))));
        if at != state.release_at {
            state.release_at = at;
            queue.push(at, Event::RateRelease(state.id).code());
        }
    }

    /// The first packet of a limited flow queue may go on into the NIC.
    pub(crate) fn on_rate_release(&mut self, id: LimiterId, now: Time, queue: &mut EventQueue) {
        let LimiterId { host, nic_queue } = id;
        let Some(limiter) = self.hosts[host as usize].limiter(nic_queue) else { return };
        let gap = self.hot.gap;
        let Some(qcn) = self.qcn.as_deref_mut() else { return };
        let Qcn { limiters, settings, .. } = qcn;
        let state = &mut limiters[limiter as usize];
        if state.release_at != now {
            return;
        }
        state.release_at = Time::MAX;
        let index = state.waiting.pop(&self.packets).expect("a release has a packet");
        let size = u32::from(self.packets[index].size);
        state.last = (now, size + gap);
        if state.point.is_limiting() {
            state.point.on_sent(size, settings, &mut state.rng);
        }
        self.set_release(limiter, now, queue);
        self.pass_to_port(host, nic_queue, index, now, queue);
        self.unblock(host, now, queue);
    }

    /// A cycle of a limiter's timer is over.
    pub(crate) fn on_rate_timer(&mut self, id: LimiterId, now: Time, queue: &mut EventQueue) {
        let Some(limiter) = self.hosts[id.host as usize].limiter(id.nic_queue) else { return };
        let Some(qcn) = self.qcn.as_deref_mut() else { return };
        let Qcn { limiters, settings, .. } = qcn;
        let state = &mut limiters[limiter as usize];
        if state.timer_at != now {
            return;
        }
        state.timer_at = Time::MAX;
        if state.point.is_limiting() {
            state.point.on_timer(settings);
        }
        if state.point.is_limiting() {
            state.timer_at = now + state.point.timer_cycle(settings, &mut state.rng);
            queue.push(state.timer_at, Event::RateTimer(id).code());
        }
        self.set_release(limiter, now, queue);
    }

    /// The rate that QCN allows what a host of this cell sends to `destination` in a class; `None` without QCN.
    pub(crate) fn limited_rate(&self, source: NodeId, destination: NodeId, class: u8) -> Option<BitRate> {
        let qcn = self.qcn.as_ref()?;
        let host = &self.hosts[self.host_of(source) as usize];
        let limiter = host.known_queue(destination, class).and_then(|queue| host.limiter(queue));
        let line = self.ports[host.port].rate.rate();
        Some(limiter.map_or(line, |limiter| qcn.limiters[limiter as usize].point.current_rate))
    }
}

/// Bytes of a CNM in buffers, FCS included.
pub(crate) const CNM_FRAME: u16 = 64;
