//! A switch: find the way, take the packet into the buffer or drop it, mark it, queue it.

use crate::buffer::Pool;
use crate::cell::Cell;
use crate::counters::DropReason;
use crate::order::News;
use crate::packet::{Kind, Packet};
use pauseframe_engine::{EventQueue, Rng};
use pauseframe_transport::Flags;
use pauseframe_units::{NodeId, PortId, Time};

/// A switch's own state; its queues are its ports'.
#[derive(Debug)]
pub(crate) struct Switch {
    pub(crate) node: NodeId,
    /// The shared pool, of lossless traffic alone if there is a second one for lossy traffic.
    pub(crate) pools: [Pool; 2],
    /// Chooses next hops of sprayed packets.
    pub(crate) spray: Rng,
}

impl Cell {
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
        let mut class = packet.class;
        let egress = if self.hot.look_up {
            let (egress, sent_in) = self.look_up(switch, index);
            class = sent_in;
            egress
        } else {
            let egress = self.paths.port(packet.route, packet.hop);
            packet.hop += 1;
            egress
        };
        self.pass_on(switch, ingress, index, (egress, class), now, queue);
    }

    /// A packet goes on to `egress`, where it is sent in `class`: at once, or it waits, or it is dropped.
    #[inline(always)]
    pub(crate) fn pass_on(
        &mut self,
        switch: u32,
        ingress: PortId,
        index: u32,
        (egress, class): (PortId, u8),
        now: Time,
        queue: &mut EventQueue,
    ) {
        let size = self.packets[index].size;
        let lane = ((egress.0 << self.class_bits) | u32::from(class)) as usize;
        if self.ports[egress].is_idle(now) && self.hot.direct & 1 << class != 0 {
            self.lanes[lane].count_sent(u32::from(size));
            self.put_on_wire(egress, index, now, queue);
            return;
        }
        if self.hot.can_refuse && self.refuses(index, egress, now) {
            return;
        }
        self.packets[index].ingress = ingress;
        // The two common cases stay in line. A lossy class with a fixed limit needs no account but the backlog, and while
        // that is short nothing happens; a lossless one with fixed thresholds is neither dropped here nor displaced.
        let (backlog, number) = (self.lanes[lane].backlog, usize::from(class & 7));
        if backlog + u64::from(size) > self.hot.calm[number] {
            let taken_in = if self.hot.fixed_lossless & 1 << class != 0 {
                let over = backlog > self.hot.mark_above[number];
                let admitted = self.admit_to_ingress(index, now, queue);
                if over && admitted.is_ok() {
                    self.mark(index, lane);
                }
                admitted
            } else {
                self.take_in(switch, index, egress, now, queue)
            };
            if let Err(reason) = taken_in {
                self.drop_packet(index, egress, reason, now);
                return;
            }
        }
        if self.hot.qcn {
            self.on_congestion_point(egress, index, now, queue);
        }
        self.enqueue(egress, index, now, queue);
    }

    /// Marker, buffer and queue discipline have their say on a packet that is to wait.
    #[inline(never)]
    fn take_in(
        &mut self,
        switch: u32,
        index: u32,
        egress: PortId,
        now: Time,
        queue: &mut EventQueue,
    ) -> Result<(), DropReason> {
        let class = self.packets[index].class & 7;
        let lane = self.lane_index(egress, class);
        let watched = self.hot.watched_arrivals & 1 << class != 0;
        let over = if watched {
            self.marks_arrival(egress, class, now)
        } else {
            self.lanes[lane].backlog > self.hot.mark_above[usize::from(class)]
        };
        if over && self.drops_not_ect(index) {
            return Err(DropReason::NotEct);
        }
        while let Err(reason) = self.admit(switch, index, egress, now, queue) {
            if reason != DropReason::BufferFull || !self.displace(index, egress, now, queue) {
                return Err(reason);
            }
        }
        if over {
            self.mark(index, lane);
        }
        if watched {
            self.lanes[lane].waiting += 1;
        }
        Ok(())
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
    pub(crate) fn spray_to(&mut self, switch: u32, to: NodeId) -> PortId {
        let switch = &mut self.switches[switch as usize];
        let among = self.routes.ports(switch.node, to);
        match among {
            [only] => *only,
            _ => among[switch.spray.below(among.len() as u64) as usize],
        }
    }

    /// A packet ends here; the reason is counted at the egress that it was bound for.
    #[cold]
    pub(crate) fn drop_packet(&mut self, index: u32, egress: PortId, reason: DropReason, now: Time) {
        let packet = self.packets[index];
        let lane = self.lane_index(egress, packet.class);
        self.counters[lane].drops[reason as usize] += 1;
        self.count_gone(lane, &packet);
        if reason == DropReason::NotEct && packet.kind == Kind::Data && packet.flags.has(Flags::SYN) {
            self.syn_drops_not_ect += 1;
        }
        if reason == DropReason::HeadroomExceeded {
            self.check_headroom_drop(&packet, now);
        }
        self.give_up(&packet, now);
        self.packets.remove(index);
    }

    /// A packet will not arrive: its stream learns of it. Segments are missed by their connections alone.
    pub(crate) fn give_up(&mut self, packet: &Packet, now: Time) {
        if packet.kind == Kind::Datagram {
            self.report(packet.to, News::Lost(u32::from(packet.len)), now);
        }
    }
}
