//! A switch: find the way, take the packet into the buffer or drop it, mark it, queue it.

use crate::network::{DropReason, Network};
use crate::packet::{Kind, Packet};
use crate::settings::Marker;
use pauseframe_engine::{EventQueue, Rng};
use pauseframe_transport::Ecn;
use pauseframe_units::{NodeId, PortId, Time};

/// A switch's own state; its queues are its ports'.
#[derive(Debug)]
pub(crate) struct Switch {
    pub(crate) node: NodeId,
    /// Bytes of the shared pool in use.
    pub(crate) pool_used: u64,
    /// Size of the shared pool: the buffer less headroom and reserved bytes.
    pub(crate) pool_size: u64,
    /// Chooses next hops of sprayed packets.
    pub(crate) spray: Rng,
}

impl Network {
    /// A packet has come into a switch by `ingress` (named by the port that sent it).
    #[inline(always)]
    pub(crate) fn forward(
        &mut self,
        switch: u32,
        ingress: PortId,
        index: u32,
        now: Time,
        queue: &mut EventQueue,
    ) {
        let packet = &mut self.packets[index];
        let (size, mut class) = (u32::from(packet.size), packet.class);
        let egress = if self.hot.look_up {
            let (egress, sent_in) = self.look_up(switch, index);
            class = sent_in;
            egress
        } else {
            let egress = self.paths.port(packet.route, packet.hop);
            packet.hop += 1;
            egress
        };
        let lane = ((egress.0 << self.class_bits) | u32::from(class)) as usize;
        if self.ports[egress].is_idle(now) && !self.hot.queued {
            self.lanes[lane].count_sent(size);
            self.put_on_wire(egress, index, now, queue);
            return;
        }
        if self.hot.can_refuse
            && let Some(reason) = self.refusal(egress, class)
        {
            self.count_loss(egress, class, reason);
            let packet = self.packets[index];
            self.give_up(&packet, now);
            self.packets.remove(index);
            return;
        }
        self.packets[index].ingress = ingress;
        let backlog = self.lanes[lane].backlog;
        let over = backlog > self.hot.mark_above;
        if over && self.drops_not_ect(index) {
            self.drop_packet(index, egress, DropReason::NotEct, now);
            return;
        }
        // A lossy class with a fixed limit is the one case that needs no account but the backlog.
        if self.hot.shared || self.is_lossless(class) {
            if let Err(reason) = self.admit(switch, index, egress, now, queue) {
                self.drop_packet(index, egress, reason, now);
                return;
            }
        } else if backlog + size > self.hot.lossy_limit {
            self.drop_packet(index, egress, DropReason::BufferFull, now);
            return;
        }
        if over {
            self.mark(index, lane);
        }
        if self.hot.qcn {
            self.on_congestion_point(egress, index, now, queue);
        }
        self.enqueue(egress, index, now, queue);
    }

    /// The next hop of a packet that does not know its path, and the class in which it goes there.
    #[inline(never)]
    fn look_up(&mut self, switch: u32, index: u32) -> (PortId, u8) {
        if self.vlans.is_some() {
            return self.forward_in_vlan(switch, index);
        }
        let Packet { route, class, .. } = self.packets[index];
        (self.spray_to(switch, NodeId(route)), class)
    }

    /// The next hop of a sprayed packet: any of the shortest, uniformly at random.
    fn spray_to(&mut self, switch: u32, to: NodeId) -> PortId {
        let switch = &mut self.switches[switch as usize];
        let among = self.routes.ports(switch.node, to);
        match among {
            [only] => *only,
            _ => among[switch.spray.below(among.len() as u64) as usize],
        }
    }

    /// Whether a packet that meets a queue over its threshold is dropped because it can not be marked, as a RED queue
    /// does with what is not ECT (judd §7.1, Fig. 12). Lossless packets are kept.
    fn drops_not_ect(&self, index: u32) -> bool {
        let packet = &self.packets[index];
        let drops = matches!(self.settings.marker, Marker::Step { drop_not_ect: true, .. });
        drops && packet.ecn == Ecn::NotEct && !self.is_lossless(packet.class)
    }

    /// Marks a packet if it is ECN-capable.
    fn mark(&mut self, index: u32, lane: usize) {
        let packet = &mut self.packets[index];
        if matches!(packet.ecn, Ecn::Ect0 | Ecn::Ect1) {
            packet.ecn = Ecn::Ce;
            self.counters[lane].ecn_marks += 1;
        }
    }

    /// Step marking where the packet leaves the queue; what is not ECT goes on, it has had its wait.
    pub(crate) fn mark_at_dequeue(&mut self, index: u32, port: PortId, class: u8, backlog: u32) {
        if let Marker::Step { k, .. } = self.settings.marker
            && u64::from(backlog) > k.0
        {
            let lane = self.lane_index(port, class);
            self.mark(index, lane);
        }
    }

    /// A packet ends here; the reason is counted at the egress that it was bound for.
    #[cold]
    pub(crate) fn drop_packet(&mut self, index: u32, egress: PortId, reason: DropReason, now: Time) {
        let packet = self.packets[index];
        let lane = self.lane_index(egress, packet.class);
        self.counters[lane].drops[reason as usize] += 1;
        if reason == DropReason::HeadroomExceeded {
            self.check_headroom_drop(&packet, now);
        }
        self.give_up(&packet, now);
        self.packets.remove(index);
    }

    /// A packet will not arrive: what depends on it learns of it. Segments are missed by their connections alone.
    pub(crate) fn give_up(&mut self, packet: &Packet, now: Time) {
        match packet.kind {
            Kind::Cnm => self.free_path_of_cnm(packet),
            Kind::Datagram => self.lose_datagram(packet, now),
            Kind::Data | Kind::Pause | Kind::Corrupted | Kind::Lost => {}
        }
    }
}
