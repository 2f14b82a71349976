//! Recount of one partition: finds all packets and compares them with queues, accounts and pools.

use crate::endpoint::Endpoint;
use crate::frame::{Packet, PacketFifo, PacketId};
use crate::ids::{HostId, SlotId, SwitchId};
use crate::observers::view::ObserverView;
use crate::partition::Partition;
use crate::settings::BufferPolicy;
use pauseframe_units::{IndexVec, PortId};
use std::collections::BTreeMap;

/// A recount of a partition, packet by packet.
pub(super) struct PartitionRecount<'a> {
    view: ObserverView<'a>,
    number: u16,
    partition: &'a Partition,
    /// By pool index: the packet was found, or the index is free.
    seen: Vec<bool>,
    /// By slot: expected bytes of its account.
    accounts: IndexVec<SlotId, u64>,
}

impl<'a> PartitionRecount<'a> {
    /// An empty recount of the partition with this number.
    pub(super) fn new(view: ObserverView<'a>, number: u16, partition: &'a Partition) -> PartitionRecount<'a> {
        PartitionRecount {
            view,
            number,
            partition,
            seen: partition.ctx.packets.free_flags(),
            accounts: IndexVec::filled(0, view.plan.slot_count()),
        }
    }

    /// # Panics
    /// If a counter of the partition is wrong.
    pub(super) fn check_counters(mut self) {
        for port in self.view.plan.all_ports() {
            let topology = &self.view.plan.topology;
            let sends = self.view.partition_of[topology.owner(port)] == self.number;
            if sends || self.view.partition_of[topology.peer(port)] == self.number {
                self.visit_fifo(self.partition.ports.ports[port].in_flight, port, "a wire", |_| {});
            }
            if sends {
                self.check_port_backlogs(port);
            }
        }
        for host in self.partition.endpoints.hosts.ids() {
            self.check_host_buffers(host);
        }
        for switch in self.partition.switching.switches.ids() {
            self.visit_held(switch);
            self.visit_pipeline(switch);
            self.visit_unforwarded(switch);
            self.check_switch_buffer(switch);
        }
        self.check_ingress_accounts();
        self.check_endpoints();
        let lost = self.seen.iter().filter(|seen| !**seen).count();
        assert!(lost == 0, "{lost} packets are in no queue, on no wire and in no stack");
    }

    /// Visits the packets of a FIFO and checks that each is in no other.
    fn visit_fifo(
        &mut self,
        chain: PacketFifo,
        port: PortId,
        whose: &str,
        mut each: impl FnMut(&Packet),
    ) -> (u64, u64) {
        let (mut count, mut bytes, mut last) = (0, 0, PacketId::NONE);
        for index in chain.iter(&self.partition.ctx.packets) {
            let twice = std::mem::replace(&mut self.seen[index.0 as usize], true);
            assert!(!twice, "a packet in {whose} at {} is in two places", self.port_name(port));
            let packet = &self.partition.ctx.packets[index];
            count += 1;
            bytes += u64::from(packet.size);
            last = index;
            each(packet);
        }
        assert!(
            chain.tail().is_none_or(|tail| tail == last),
            "{whose} at {} ends elsewhere",
            self.port_name(port)
        );
        (count, bytes)
    }

    /// Checks the backlogs of a port, and that a port with frames to send has a transmission scheduled.
    fn check_port_backlogs(&mut self, port: PortId) {
        let (partition, state) = (self.partition, &self.partition.ports.ports[port]);
        let pauses = partition.ports.waiting_pauses.get(port).copied().unwrap_or(PacketFifo::EMPTY);
        let (pauses, _) = self.visit_fifo(pauses, port, "the pause frames", |_| {});
        self.assert_recount(
            "the bit of pause frames",
            port,
            u64::from(state.pauses_wait),
            u64::from(pauses > 0),
        );
        let at_switch = state.from.is_switch();
        for class in 0..self.view.plan.priorities.len() as u8 {
            let slot = &partition.ports.slots[partition.ctx.hot.slot(port, class)];
            let mut owed = Vec::new();
            let (mut count, mut bytes) = (0, 0);
            let of_flows = partition.switching.timed_fifos(partition.ctx.hot.slot(port, class));
            for fifo in std::iter::once(slot.queue).chain(of_flows) {
                let (packets, their_bytes) = self.visit_fifo(fifo, port, "a queue", |packet| {
                    owed.extend(at_switch.then(|| ingress_account_of(partition, packet)).flatten());
                });
                (count, bytes) = (count + packets, bytes + their_bytes);
            }
            self.add_to_accounts(owed);
            let ready = state.ready & 1 << class != 0;
            self.assert_recount("the ready bit", port, u64::from(ready), u64::from(count > 0));
            if at_switch {
                self.assert_recount("the backlog", port, slot.backlog, bytes);
            }
            let number = state.from.as_switch().map(|switch| &partition.switching.switches[switch]);
            if let Some(linux) = number.and_then(|switch| switch.linux.as_ref()) {
                let (waiting, frames, of_frames) = linux.recount_queue(partition.ctx.hot.slot(port, class));
                let counted = u64::from(slot.waiting);
                self.assert_recount("the packet count", port, counted, waiting);
                self.assert_recount("the frames of super-packets", port, frames, count);
                self.assert_recount("the bytes of super-packets", port, of_frames, bytes);
            } else if at_switch && partition.ctx.hot.watched_arrivals & 1 << class != 0 {
                self.assert_recount("the packet count", port, u64::from(slot.waiting), count);
            }
        }
        assert!(
            !state.has_eligible_frames() || state.tx_pending,
            "{} has something to send and will not send it",
            self.port_name(port)
        );
    }

    /// Checks the send side of a host, and the buffer of a slow receiver.
    fn check_host_buffers(&mut self, number: HostId) {
        let (partition, host) = (self.partition, &self.partition.endpoints.hosts[number]);
        if self.view.partition_of[self.view.plan.hosts[number.0 as usize]] != self.number {
            return;
        }
        let (port, classes) = (host.port, self.view.plan.priorities.len() as u8);
        self.visit_fifo(host.receiving, port, "the stack", |_| {});
        let (_, mut held) = self.visit_fifo(host.sending, port, "the stack", |_| {});
        for queue in partition.endpoints.limiters.iter().flat_map(|limiters| limiters.fifos(number)) {
            held += self.visit_fifo(queue, port, "a rate limiter", |_| {}).1;
        }
        let by_flow = host.flow_queue_bytes();
        let mut waiting = [0; 8];
        for queue in host.nic_fifos() {
            self.visit_fifo(queue, port, "the NIC", |packet| {
                waiting[usize::from(packet.class)] += u64::from(packet.size);
            });
        }
        for class in 0..classes {
            let slot = &partition.ports.slots[partition.ctx.hot.slot(port, class)];
            let first = slot
                .queue
                .iter(&partition.ctx.packets)
                .map(|index| u64::from(partition.ctx.packets[index].size));
            let bytes = first.sum::<u64>() + waiting[usize::from(class)];
            self.assert_recount("the backlog", port, slot.backlog, bytes);
            // With a queue for each flow, nobody holds what is in the ring.
            held += if by_flow.is_some() { waiting[usize::from(class)] } else { bytes };
        }
        self.assert_recount("the NIC", port, host.held, held);
        self.assert_recount("NIC queues", port, by_flow.unwrap_or(held), held);
        let Some(Some(receiver)) = partition.endpoints.receivers.get(number) else { return };
        let (mut lossy, mut owed) = (0, Vec::new());
        self.visit_fifo(receiver.waiting, port, "the receive buffer", |packet| {
            if partition.ctx.hot.is_lossless(packet.class) {
                let class = packet.class & partition.ctx.hot.account_mask;
                owed.push((partition.ctx.hot.slot(packet.ingress, class), u64::from(packet.size)));
            } else {
                lossy += u64::from(packet.size);
            }
        });
        self.add_to_accounts(owed);
        self.assert_recount("the receive buffer", port, receiver.lossy, lossy);
    }

    fn add_to_accounts(&mut self, owed: Vec<(SlotId, u64)>) {
        for (account, size) in owed {
            self.accounts[account] += size;
        }
    }

    /// Visits the packets in the forwarding pipeline of a switch.
    fn visit_pipeline(&mut self, number: SwitchId) {
        for (port, fifo) in &self.partition.switching.switches[number].pipeline {
            self.visit_fifo(*fifo, *port, "the forwarding pipeline", |_| {});
        }
    }

    /// Visits the packets of a Linux machine that are in no egress queue yet.
    fn visit_unforwarded(&mut self, number: SwitchId) {
        let partition = self.partition;
        let Some(linux) = &partition.switching.switches[number].linux else { return };
        for (port, counted, fifo) in linux.ring_counts() {
            let count = fifo.iter(&partition.ctx.packets).count() as u64;
            self.assert_recount("the receive ring", port, u64::from(counted), count);
        }
        for (port, fifo) in linux.unforwarded_fifos() {
            self.visit_fifo(fifo, port, "a receive ring or poll", |_| {});
        }
    }

    /// Visits the packets that a leaf holds for earlier ones.
    fn visit_held(&mut self, number: SwitchId) {
        let partition = self.partition;
        let Some(state) = &partition.switching.switches[number].conweave else { return };
        let (mut held, mut lossy, mut owed) = (0, BTreeMap::<SlotId, u64>::new(), Vec::new());
        for (port, fifo) in state.held_fifos() {
            held += self
                .visit_fifo(fifo, port, "packets held", |packet| {
                    if let Some(account) = ingress_account_of(partition, packet) {
                        owed.push(account);
                    } else {
                        let slot = partition.ctx.hot.slot(port, packet.class);
                        *lossy.entry(slot).or_default() += u64::from(packet.size);
                    }
                })
                .1;
        }
        self.add_to_accounts(owed);
        for (port, until, timer) in state.holds_and_timers() {
            assert!(
                timer.is_some_and(|timer| timer <= until),
                "the timer of packets held for {} is at {timer:?}, and they go on at {until} at the latest",
                self.view.plan.topology.nodes()[self.view.plan.topology.peer(port)].name
            );
        }
        for (slot, bytes) in state.held_lossy_bytes() {
            let port = partition.ctx.hot.port_and_class(slot).0;
            let found = lossy.get(&slot).copied().unwrap_or_default();
            self.assert_recount("the held bytes", port, bytes, found);
        }
        let node = &self.view.plan.topology.nodes()[partition.switching.switches[number].node];
        assert!(
            state.held_bytes() == held,
            "{} counts {} held bytes of {held}",
            node.name,
            state.held_bytes()
        );
    }

    /// Checks the total backlog of a switch and its pools.
    fn check_switch_buffer(&self, number: SwitchId) {
        let (partition, switch) = (self.partition, &self.partition.switching.switches[number]);
        if self.view.partition_of[switch.node] != self.number {
            return;
        }
        let node = &self.view.plan.topology.nodes()[switch.node];
        let (mut held, mut pools, mut headroom) = (0, [0; 2], 0);
        for (egress, class) in node
            .ports
            .iter()
            .flat_map(|port| (0..self.view.plan.priorities.len() as u8).map(move |c| (*port, c)))
        {
            let backlog = partition.ports.slots[partition.ctx.hot.slot(egress, class)].backlog;
            let account = &self
                .view
                .peer_ingress_account(egress.reverse(), partition.ctx.hot.slot(egress.reverse(), class));
            let shared = if partition.ctx.hot.is_lossless(class) {
                account.bytes - account.in_headroom
            } else {
                backlog
            };
            held += backlog;
            headroom += account.in_headroom;
            pools[partition.ctx.hot.pool_index(class)] +=
                shared.saturating_sub(partition.switching.policies[usize::from(class)].reserved);
        }
        if let Some(state) = &switch.conweave {
            held += state.held_bytes();
            for (slot, bytes) in state.held_lossy_bytes() {
                let class = partition.ctx.hot.port_and_class(slot).1;
                pools[partition.ctx.hot.pool_index(class)] += bytes;
            }
        }
        let counted = partition.ports.by_switch[number].bytes;
        assert!(counted == held, "{} counts {counted} bytes in all its queues, which hold {held}", node.name);
        if partition.ctx.hot.shared {
            assert!(
                switch.headroom.used == headroom,
                "{} counts {} bytes of headroom, and its accounts have {headroom} of it",
                node.name,
                switch.headroom.used
            );
            for (pool, found) in switch.pools.iter().zip(pools) {
                let used = pool.used;
                assert!(
                    used == found,
                    "a pool of {} counts {used} bytes, and its queues have {found} of it",
                    node.name
                );
            }
        }
    }

    /// Checks connections and queue pairs: each against itself, and what is acknowledged against what the other end has, if that is in this partition.
    fn check_endpoints(&self) {
        let endpoints = &self.partition.endpoints;
        for end in endpoints.open_endpoints() {
            if let Some(why) = end.contradiction() {
                panic!(
                    "flow {}, at {}: {why}",
                    end.key() / 2,
                    self.port_name(endpoints.hosts[end.host].port)
                );
            }
            let peer =
                endpoints.find_open_endpoint(end.key() ^ 1).and_then(Endpoint::acknowledged_and_received);
            if let (Some([acknowledged, _]), Some([_, received])) = (end.acknowledged_and_received(), peer) {
                let flow = end.key() / 2;
                assert!(
                    acknowledged <= received,
                    "flow {flow}: all up to {acknowledged} is acknowledged, and the other end has {received}"
                );
            }
        }
    }

    /// Checks the ingress accounts.
    fn check_ingress_accounts(&self) {
        for (slot, found) in self.accounts.iter_enumerated() {
            let port = self.partition.ctx.hot.port_and_class(slot).0;
            let here = self.view.partition_of[self.view.plan.topology.peer(port)] == self.number;
            if !here {
                continue;
            }
            let account = self.view.peer_ingress_account(port, slot);
            self.assert_recount("the ingress account", port.reverse(), account.bytes, *found);
            assert!(
                account.in_headroom <= account.bytes,
                "more than all is headroom at {}",
                self.port_name(port.reverse())
            );
        }
    }

    fn assert_recount(&self, what: &str, port: PortId, counted: u64, found: u64) {
        assert!(counted == found, "{what} of {} counts {counted} and holds {found}", self.port_name(port));
    }

    fn port_name(&self, port: PortId) -> String {
        self.view.plan.topology.port_name(port)
    }
}

/// The ingress account of a packet queued in a switch, and its bytes.
fn ingress_account_of(partition: &Partition, packet: &Packet) -> Option<(SlotId, u64)> {
    let class = packet.class & partition.ctx.hot.account_mask;
    let by_ingress = matches!(partition.ctx.settings.buffer, BufferPolicy::IdealOutputQueued(_))
        || partition.ctx.hot.is_lossless(class);
    // A CNM of this switch has no ingress port.
    let counts = by_ingress && packet.ingress != PortId::NONE;
    let slot =
        || partition.ctx.hot.slot(packet.ingress, packet.ingress_class & partition.ctx.hot.account_mask);
    counts.then(|| (slot(), u64::from(packet.size)))
}
