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

use crate::cell::Cell;
use crate::counters::Gone;
use crate::packet::{Kind, NIL, Packet};
use pauseframe_engine::{EventQueue, Rng, stream};
use pauseframe_topology::routing::NextHops;
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_units::{LinkId, NodeId, PortId, Span, Time};
use std::collections::BTreeSet;
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

/// What fails when, and what has.
#[derive(Debug)]
pub(crate) struct Failures {
    plan: Vec<Failure>,
    convergence: Span,
    /// What is due: a failure begins (number * 2) or ends (+ 1), or routing learns of that.
    due: BTreeSet<(Time, Due)>,
    /// By link: how many failures hold it down.
    down: Vec<u32>,
    /// The routes of the network as it was built.
    intact: Arc<NextHops>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Due {
    Failure(u32),
    Reroute(u32),
}

impl Failures {
    pub(crate) fn new(
        plan: Vec<Failure>,
        convergence: Span,
        links: usize,
        intact: Arc<NextHops>,
    ) -> Failures {
        let mut due = BTreeSet::new();
        for (number, failure) in (0..).zip(&plan) {
            due.insert((failure.down, Due::Failure(number * 2)));
            due.extend(failure.up.map(|up| (up, Due::Failure(number * 2 + 1))));
        }
        Failures { plan, convergence, due, down: vec![0; links], intact }
    }

    /// When something is due next.
    pub(crate) fn next_time(&self) -> Option<Time> {
        self.due.first().map(|(time, _)| *time)
    }

    /// What happens at `now`, the next of it.
    pub(crate) fn next(&mut self, topology: &Topology, now: Time) -> Option<Change> {
        self.next_time().filter(|time| *time <= now)?;
        let (_, due) = self.due.pop_first()?;
        let Due::Failure(number) = due else { return Some(Change::Reroute(self.routes(topology))) };
        self.due.insert((now + self.convergence, Due::Reroute(number)));
        let links: Vec<LinkId> = match self.plan[(number / 2) as usize].what {
            Failed::Link(link) => vec![link],
            Failed::Node(node) => topology.nodes()[node].ports.iter().map(|port| port.link()).collect(),
        };
        let mut changed = Vec::new();
        for link in links {
            let down = &mut self.down[link.0 as usize];
            if number.is_multiple_of(2) {
                *down += 1;
                changed.extend((*down == 1).then_some((link, true)));
            } else {
                *down = down.checked_sub(1).expect("a failure ended twice");
                changed.extend((*down == 0).then_some((link, false)));
            }
        }
        Some(Change::Links(changed))
    }

    /// The links that are down now.
    pub(crate) fn links_down(&self) -> Vec<LinkId> {
        let all = self.down.iter().enumerate();
        all.filter(|(_, failures)| **failures > 0).map(|(link, _)| LinkId(link as u32)).collect()
    }

    /// Shortest paths without the links that are down.
    fn routes(&self, topology: &Topology) -> Arc<NextHops> {
        let between_switches = |link: &LinkId| {
            let ends = topology.links()[*link].ends;
            ends.iter().all(|end| topology.nodes()[*end].kind == NodeKind::Switch)
        };
        let failed: Vec<LinkId> = self.links_down().into_iter().filter(between_switches).collect();
        Arc::new(NextHops::shortest_despite(topology, &failed, &self.intact))
    }
}

/// What the network must do.
#[derive(Debug)]
pub(crate) enum Change {
    /// These links go down (true) or come back.
    Links(Vec<(LinkId, bool)>),
    /// New routes.
    Reroute(Arc<NextHops>),
}

/// What cells know of bad wires, and of those that are down.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    /// By port: when the frame that was cut off would have been over; empty without failures.
    pub(crate) cut: Vec<Time>,
    /// By port; empty if no wire is bad.
    of_port: Vec<Option<BadWire>>,
    /// By port, pause frames not counted; empty without failures or bad wires.
    lost_on_wire: Vec<Gone>,
}

/// How often the frames on a wire are damaged, up to when, and the draws.
#[derive(Clone, Debug)]
struct BadWire {
    model: ErrorModel,
    stop: Time,
    rng: Rng,
}

impl Errors {
    /// What this port has sent that was lost before it came to a node of this cell.
    pub(crate) fn lost_on_wire(&self, port: PortId) -> Gone {
        self.lost_on_wire.get(port.0 as usize).copied().unwrap_or_default()
    }

    /// Whether the wire from this port is a bad one.
    pub(crate) fn can_damage(&self, port: PortId) -> bool {
        self.of_port.get(port.0 as usize).is_some_and(Option::is_some)
    }
}

impl Cell {
    /// Links can go down.
    pub(crate) fn expect_failures(&mut self) {
        self.errors.cut = vec![Time::ZERO; self.ports.len()];
        self.errors.lost_on_wire.resize(self.ports.len(), Gone::default());
        self.hot.can_refuse = true;
        self.expect_losses();
    }

    /// Damages what this port sends before `stop`.
    ///
    /// # Panics
    /// If a probability is outside 0 to 1.
    pub(crate) fn corrupt(&mut self, port: PortId, model: ErrorModel, stop: Time) {
        let (ErrorModel::BitErrors(p) | ErrorModel::FrameErrors(p)) = model;
        assert!((0.0..=1.0).contains(&p), "{p} is no probability");
        self.errors.of_port.resize(self.ports.len(), None);
        self.errors.lost_on_wire.resize(self.ports.len(), Gone::default());
        let rng = stream(self.settings.seed, "corruption", u64::from(port.0));
        self.errors.of_port[port.0 as usize] = Some(BadWire { model, stop, rng });
        self.hot.tapped = true;
        self.expect_losses();
    }

    /// A frame goes on the wire of `port`: whether it arrives whole is drawn here.
    pub(crate) fn damage(&mut self, port: PortId, index: u32, now: Time) {
        let packet = self.packets[index];
        let Some(Some(BadWire { model, stop, rng })) = self.errors.of_port.get_mut(port.0 as usize) else {
            return;
        };
        if *stop <= now || rng.unit() >= model.of_frame(u32::from(packet.size)) {
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
            self.count_loss_on_wire(port, &packet, LossReason::Corrupted);
        }
        self.packets.remove(index);
    }

    fn count_loss_on_wire(&mut self, port: PortId, packet: &Packet, reason: LossReason) {
        self.count_loss(port, packet.class, reason);
        if packet.to != NIL {
            self.errors.lost_on_wire[port.0 as usize] += Gone::sum(std::iter::once(packet));
        }
    }

    /// A packet ends in the switch that has this lane.
    pub(crate) fn count_gone(&mut self, lane: usize, packet: &Packet) {
        if let Some(held) = self.held.get_mut(self.lanes[lane].switch as usize) {
            held.gone += Gone::sum(std::iter::once(packet));
        }
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

    /// Loses a packet that cannot even be queued at `egress`; false if it can.
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
        self.count_gone(self.lane_index(egress, packet.class), &packet);
        self.give_up(&packet, now);
        self.packets.remove(index);
        true
    }

    /// The link of `port` goes down: at the end that sends, which knows nothing of the other one.
    pub(crate) fn take_down(&mut self, port: PortId, now: Time) {
        self.cut_service(port, now);
        self.mark_last_frame_lost(port);
        self.reset_pauses(port, now);
        let state = &mut self.ports[port];
        self.errors.cut[port.0 as usize] = state.busy_until;
        // Busy for ever and bound to go on: nothing starts this port, and no hop pays for the question.
        state.busy_until = Time::MAX;
        state.tx_pending = true;
    }

    /// A switch empties the queues of a port that has lost its link.
    pub(crate) fn discard_queues(&mut self, port: PortId, now: Time, queue: &mut EventQueue) {
        if self.ports[port].from_host == NIL {
            for class in 0..self.priorities.len() as u8 {
                self.discard_queue(port, class, LossReason::LinkDown, now, queue);
            }
        }
    }

    /// The link of `port` is back, at the end that sends.
    pub(crate) fn bring_up(&mut self, port: PortId, now: Time) {
        let state = &mut self.ports[port];
        // Frames leave a link in order, lost ones too: the next waits until the one cut off would be over.
        state.busy_until = now.max(self.errors.cut[port.0 as usize]);
        state.tx_pending = false;
        state.in_pipeline = false;
    }

    /// The same at the end that receives: what it has asked for still holds.
    pub(crate) fn ask_again(&mut self, port: PortId, now: Time, queue: &mut EventQueue) {
        for class in 0..self.priorities.len() as u8 {
            if self.accounts[self.lane_index(port, class)].pause_sent {
                self.send_pause(port, class, now, queue);
            }
        }
    }

    /// All frames on the wire are lost; each keeps its place until it would have arrived.
    pub(crate) fn lose_in_flight(&mut self, port: PortId, now: Time) {
        let mut next = self.ports[port].in_flight.head();
        while let Some(index) = next {
            let packet = self.packets[index];
            self.give_up(&packet, now);
            self.packets[index].kind = Kind::Lost;
            next = self.packets.behind(index);
            match packet.kind {
                Kind::Data | Kind::Datagram | Kind::Cnm => {
                    self.count_loss_on_wire(port, &packet, LossReason::LinkDown);
                }
                Kind::Corrupted => self.count_loss_on_wire(port, &packet, LossReason::Corrupted),
                Kind::Pause | Kind::Lost => {}
            }
        }
    }

    /// Where the wire ends in another cell, the last frame that has left says what is in service: it is lost there.
    fn mark_last_frame_lost(&mut self, port: PortId) {
        if self.border.is_cut(port)
            && let Some(last) = self.ports[port].in_flight.head()
        {
            self.packets[last].kind = Kind::Lost;
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
            self.count_gone(lane, &packet);
        }
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
