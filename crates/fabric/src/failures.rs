//! Links and switches that fail and come back, and frames that are damaged on the wire.
//!
//! When a link goes down, both directions at once, what is on the wire is lost, and so is what a switch has queued for
//! it (a switch empties the queues of a port that loses its link) or gets for it later. A host keeps what its NIC has
//! queued: its sockets wait. The PFC state of the link starts anew: pauses received are over, pause frames that waited
//! are gone; when the link is back, a switch whose ingress account still asks for a pause sends one at once.
//! Routing learns of each change after the convergence time and then recomputes all shortest paths; a packet under way
//! keeps its path. Hosts that no path is left to are sent to by the old one, up to the failure.
//! A damaged frame takes its time on the wire and is discarded at the other end (IEEE 802.3 §3.2.9, the FCS); every
//! error is found. Left out: errors in bursts, forward error correction, replay at the link.

use crate::event::Event;
use crate::network::Network;
use crate::packet::{Kind, NIL};
use pauseframe_engine::{EventQueue, Rng, stream};
use pauseframe_topology::NodeKind;
use pauseframe_topology::routing::NextHops;
use pauseframe_units::{LinkId, NodeId, PortId, Span, Time};
use std::sync::Arc;

/// Why a frame was lost although no buffer was full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LossReason {
    /// Its link was or went down.
    LinkDown,
    /// It arrived damaged.
    Corrupted,
    /// The PFC watchdog emptied its queue.
    Watchdog,
}

impl LossReason {
    /// All reasons, in the order of their numbers.
    pub const ALL: [LossReason; 3] = [LossReason::LinkDown, LossReason::Corrupted, LossReason::Watchdog];
}

/// What fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failed {
    /// Both directions of a link.
    Link(LinkId),
    /// All links of a node, with what it has queued.
    Node(NodeId),
}

/// One failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// What fails.
    pub what: Failed,
    /// When it goes down.
    pub down: Time,
    /// When it is back, after `down`; `None`: never.
    pub up: Option<Time>,
}

/// How often frames are damaged.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ErrorModel {
    /// Each bit of a frame with this probability, independently.
    BitErrors(f64),
    /// Each frame with this probability.
    FrameErrors(f64),
}

impl ErrorModel {
    /// The probability that a frame of `bytes` is damaged.
    fn of_frame(self, bytes: u32) -> f64 {
        match self {
            // 1 - (1 - p)^bits, exact for the smallest p.
            ErrorModel::BitErrors(p) => -libm::expm1(f64::from(bytes) * 8.0 * libm::log1p(-p)),
            ErrorModel::FrameErrors(p) => p,
        }
    }
}

/// What the network knows of its failures.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    plan: Vec<Failure>,
    convergence: Span,
    /// By link: how many failures hold it down; empty without a plan.
    down: Vec<u32>,
    /// By port: when the frame that was cut off would have been over.
    cut: Vec<Time>,
    /// The routes of the network as it was built.
    intact: Option<Arc<NextHops>>,
    /// By port: how often its frames are damaged, and the draws; empty without any.
    errors: Vec<Option<(ErrorModel, Rng)>>,
}

impl Network {
    /// Lets links and nodes fail as planned; routes follow each change after `convergence`.
    pub fn fail(&mut self, plan: Vec<Failure>, convergence: Span, queue: &mut EventQueue) {
        if plan.is_empty() {
            return;
        }
        for (index, failure) in plan.iter().enumerate() {
            queue.push(failure.down, Event::Failure(index as u32 * 2).code());
            if let Some(up) = failure.up {
                queue.push(up, Event::Failure(index as u32 * 2 + 1).code());
            }
        }
        self.failures.down = vec![0; self.topology.links().len()];
        self.failures.cut = vec![Time::ZERO; self.ports.len()];
        self.failures.intact = Some(Arc::clone(&self.routes));
        (self.failures.plan, self.failures.convergence) = (plan, convergence);
        self.hot.can_refuse = true;
        self.expect_losses();
    }

    /// Damages what these ports send.
    ///
    /// # Panics
    /// If a probability is outside 0 to 1.
    pub fn corrupt(&mut self, ports: &[(PortId, ErrorModel)]) {
        for (port, model) in ports {
            let (ErrorModel::BitErrors(p) | ErrorModel::FrameErrors(p)) = *model;
            assert!((0.0..=1.0).contains(&p), "{p} is no probability");
            self.failures.errors.resize(self.ports.len(), None);
            let rng = stream(self.settings.seed, "corruption", u64::from(port.0));
            self.failures.errors[port.0 as usize] = Some((*model, rng));
            self.hot.tapped = true;
            self.expect_losses();
        }
    }

    /// A frame goes on the wire of `port`: whether it arrives whole is drawn here.
    pub(crate) fn damage(&mut self, port: PortId, index: u32, now: Time) {
        let packet = self.packets[index];
        let Some(Some((model, rng))) = self.failures.errors.get_mut(port.0 as usize) else { return };
        if rng.unit() >= model.of_frame(u32::from(packet.size)) {
            return;
        }
        self.give_up(&packet, now);
        let damaged = &mut self.packets[index];
        if packet.kind == Kind::Pause {
            damaged.class = packet.seq.trailing_zeros() as u8;
        }
        damaged.kind = Kind::Corrupted;
    }

    /// A frame that was lost on the wire would have arrived now.
    #[cold]
    pub(crate) fn on_lost_frame(&mut self, port: PortId, index: u32) {
        let packet = self.packets[index];
        if packet.kind == Kind::Corrupted {
            self.count_loss(port, packet.class, LossReason::Corrupted);
        }
        self.packets.remove(index);
    }

    pub(crate) fn count_loss(&mut self, port: PortId, class: u8, reason: LossReason) {
        let lane = self.lane_index(port, class);
        self.counters[lane].lost[reason as usize] += 1;
    }

    /// Whether `port` has no link now.
    #[inline]
    pub(crate) fn is_down(&self, port: PortId) -> bool {
        self.ports[port].busy_until == Time::MAX
    }

    /// The links that are down now.
    pub fn links_down(&self) -> Vec<LinkId> {
        let all = self.failures.down.iter().enumerate();
        all.filter(|(_, failures)| **failures > 0).map(|(link, _)| LinkId(link as u32)).collect()
    }

    /// Loses a packet that can not even be queued at `egress`; false if it can.
    #[cold]
    #[inline(never)]
    pub(crate) fn refuses(&mut self, index: u32, egress: PortId, now: Time) -> bool {
        let packet = self.packets[index];
        let reason = if self.is_down(egress) {
            LossReason::LinkDown
        } else if self.watchdog_drops(egress, packet.class) {
            LossReason::Watchdog
        } else {
            return false;
        };
        self.count_loss(egress, packet.class, reason);
        self.give_up(&packet, now);
        self.packets.remove(index);
        true
    }

    /// A failure begins (even numbers) or ends (odd ones).
    #[cold]
    pub(crate) fn on_failure(&mut self, number: u32, now: Time, queue: &mut EventQueue) {
        let failure = self.failures.plan[(number / 2) as usize];
        let links: Vec<LinkId> = match failure.what {
            Failed::Link(link) => vec![link],
            Failed::Node(node) => self.topology.nodes()[node].ports.iter().map(|port| port.link()).collect(),
        };
        for link in links {
            let down = &mut self.failures.down[link.0 as usize];
            if number.is_multiple_of(2) {
                *down += 1;
                if *down == 1 {
                    self.take_down(link, now, queue);
                }
            } else {
                *down = down.checked_sub(1).expect("a failure ended twice");
                if *down == 0 {
                    self.bring_up(link, now, queue);
                }
            }
        }
        queue.push(now + self.failures.convergence, Event::Reroute(number).code());
    }

    fn take_down(&mut self, link: LinkId, now: Time, queue: &mut EventQueue) {
        let ends = [PortId::of_link(link, 0), PortId::of_link(link, 1)];
        for port in ends {
            self.cut_service(port, now);
            self.lose_in_flight(port, now);
            self.reset_pauses(port, now);
            let state = &mut self.ports[port];
            self.failures.cut[port.0 as usize] = state.busy_until;
            // Busy for ever and bound to go on: nothing starts this port, and no hop pays for the question.
            state.busy_until = Time::MAX;
            state.tx_pending = true;
        }
        for port in ends {
            if self.ports[port].from_host != NIL {
                continue;
            }
            for class in 0..self.priorities.len() as u8 {
                self.discard_queue(port, class, LossReason::LinkDown, now, queue);
            }
        }
    }

    fn bring_up(&mut self, link: LinkId, now: Time, queue: &mut EventQueue) {
        let ends = [PortId::of_link(link, 0), PortId::of_link(link, 1)];
        for port in ends {
            let state = &mut self.ports[port];
            // Frames leave a link in order, lost ones too: the next waits until the one cut off would be over.
            state.busy_until = now.max(self.failures.cut[port.0 as usize]);
            state.tx_pending = false;
            state.in_pipeline = false;
        }
        for port in ends {
            for class in 0..self.priorities.len() as u8 {
                if self.accounts[self.lane_index(port, class)].pause_sent {
                    self.send_pause(port, class, now, queue);
                }
            }
        }
        for port in ends {
            self.kick(port, now, queue);
        }
    }

    /// All frames on the wire are lost; each keeps its place until it would have arrived.
    fn lose_in_flight(&mut self, port: PortId, now: Time) {
        let mut next = self.ports[port].in_flight.head();
        while let Some(index) = next {
            let packet = self.packets[index];
            self.give_up(&packet, now);
            self.packets[index].kind = Kind::Lost;
            next = self.packets.behind(index);
            if matches!(packet.kind, Kind::Data | Kind::Datagram | Kind::Cnm) {
                self.count_loss(port, packet.class, LossReason::LinkDown);
            }
        }
    }

    /// Empties a queue of a switch; what was in it counts as lost, not as sent.
    pub(crate) fn discard_queue(
        &mut self,
        port: PortId,
        class: u8,
        reason: LossReason,
        now: Time,
        queue: &mut EventQueue,
    ) {
        let lane = self.lane_index(port, class);
        while self.ports[port].ready & 1 << class != 0 {
            let index = self.dequeue(port, class, now);
            let size = u64::from(self.packets[index].size);
            self.lanes[lane].tx_packets -= 1;
            self.lanes[lane].tx_bytes -= size;
            self.forget_waiting(port, class);
            if self.hot.accounted & 1 << class != 0 {
                self.release(index, port, now, queue);
            }
            let packet = self.packets[index];
            self.give_up(&packet, now);
            self.packets.remove(index);
            self.count_loss(port, class, reason);
        }
    }

    /// Routing has learnt of a change: new shortest paths, and the flows take them.
    #[cold]
    pub(crate) fn on_reroute(&mut self) {
        let Some(intact) = &self.failures.intact else { return };
        let between_switches = |link: &LinkId| {
            let ends = self.topology.links()[*link].ends;
            ends.iter().all(|end| self.topology.nodes()[*end].kind == NodeKind::Switch)
        };
        let failed: Vec<LinkId> = self.links_down().into_iter().filter(between_switches).collect();
        let routes = NextHops::shortest_despite(&self.topology, &failed, intact);
        self.routes = Arc::new(routes);
        self.reroute_flows();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_errors_add_up_to_frame_errors() {
        // 1 - (1 - 1e-3)^8 to 13 digits, and a ratio far below the resolution of 1 - p.
        assert!((ErrorModel::BitErrors(1e-3).of_frame(1) - 0.007_972_055_930_056).abs() < 1e-15);
        let small = ErrorModel::BitErrors(1e-18).of_frame(1500);
        assert!((small / 1.2e-14 - 1.0).abs() < 1e-9, "{small}");
        assert!((ErrorModel::BitErrors(1.0).of_frame(64) - 1.0).abs() < f64::EPSILON);
        assert!((ErrorModel::FrameErrors(0.25).of_frame(9000) - 0.25).abs() < f64::EPSILON);
    }
}
