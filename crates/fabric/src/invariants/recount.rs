//! The books of one partition: where its packets are, and what its queues, accounts and pools say of them.

use crate::frame::{Fifo, Packet, PacketId};
use crate::ids::{HostId, SlotId, SwitchId};
use crate::observers::view::View;
use crate::partition::Partition;
use crate::settings::BufferPolicy;
use pauseframe_units::{IndexVec, PortId};

/// What is found in a partition by looking at each packet.
pub(super) struct Recount<'a> {
    view: View<'a>,
    number: u16,
    partition: &'a Partition,
    /// By place in the pool: somebody has the packet there, or the place is free.
    seen: Vec<bool>,
    /// By slot: bytes that its account should say.
    accounts: IndexVec<SlotId, u64>,
}

impl<'a> Recount<'a> {
    /// Of the partition with this number; nothing has been looked at.
    pub(super) fn new(view: View<'a>, number: u16, partition: &'a Partition) -> Recount<'a> {
        Recount {
            view,
            number,
            partition,
            seen: partition.ctx.packets.free_places(),
            accounts: IndexVec::filled(0, view.plan.slots()),
        }
    }

    /// # Panics
    /// If something is not as the partition has counted it.
    pub(super) fn check(mut self) {
        for port in self.view.plan.ports() {
            let topology = &self.view.plan.topology;
            let sends = self.view.partition_of[topology.owner(port)] == self.number;
            if sends || self.view.partition_of[topology.peer(port)] == self.number {
                self.follow(self.partition.ports.ports[port].in_flight, port, "a wire", |_| {});
            }
            if sends {
                self.check_port(port);
            }
        }
        for host in self.partition.endpoints.hosts.ids() {
            self.check_host(host);
        }
        for switch in self.partition.switching.switches.ids() {
            self.check_switch(switch);
        }
        self.check_accounts();
        let lost = self.seen.iter().filter(|seen| !**seen).count();
        assert!(lost == 0, "{lost} packets are in no queue, on no wire and in no stack");
    }

    /// Goes along a chain of packets, each of which is in no other.
    fn follow(
        &mut self,
        chain: Fifo,
        port: PortId,
        whose: &str,
        mut each: impl FnMut(&Packet),
    ) -> (u64, u64) {
        let (mut count, mut bytes, mut last) = (0, 0, PacketId::NONE);
        for index in chain.iter(&self.partition.ctx.packets) {
            let twice = std::mem::replace(&mut self.seen[index.0 as usize], true);
            assert!(!twice, "a packet in {whose} at {} is in two places", self.name(port));
            let packet = &self.partition.ctx.packets[index];
            count += 1;
            bytes += u64::from(packet.size);
            last = index;
            each(packet);
        }
        assert!(
            chain.tail().is_none_or(|tail| tail == last),
            "{whose} at {} ends elsewhere",
            self.name(port)
        );
        (count, bytes)
    }

    /// Queues are as long as they say, and a port with something to send is bound to send it.
    fn check_port(&mut self, port: PortId) {
        let (partition, state) = (self.partition, &self.partition.ports.ports[port]);
        let pauses = partition.ports.waiting_pauses.get(port).copied().unwrap_or(Fifo::EMPTY);
        let (pauses, _) = self.follow(pauses, port, "the pause frames", |_| {});
        self.assert_equal(
            "the bit of pause frames",
            port,
            u64::from(state.pauses_wait),
            u64::from(pauses > 0),
        );
        let at_switch = state.from.is_switch();
        for class in 0..self.view.plan.priorities.len() as u8 {
            let slot = &partition.ports.slots[partition.ctx.hot.slot(port, class)];
            let mut owed = Vec::new();
            let (count, bytes) = self.follow(slot.queue, port, "a queue", |packet| {
                owed.extend(at_switch.then(|| account_of(partition, packet)).flatten());
            });
            self.charge(owed);
            let ready = state.ready & 1 << class != 0;
            self.assert_equal("the ready bit", port, u64::from(ready), u64::from(count > 0));
            if at_switch {
                self.assert_equal("the backlog", port, slot.backlog, bytes);
            }
            if at_switch && partition.ctx.hot.watched_arrivals & 1 << class != 0 {
                self.assert_equal("the packet count", port, u64::from(slot.waiting), count);
            }
        }
        let bound = state.tx_pending || state.in_pipeline;
        assert!(!state.has_work() || bound, "{} has something to send and will not send it", self.name(port));
    }

    /// What a host holds on its way out, and what a slow receiver has not taken yet.
    fn check_host(&mut self, number: HostId) {
        let (partition, host) = (self.partition, &self.partition.endpoints.hosts[number]);
        if self.view.partition_of[self.view.plan.hosts[number.0 as usize]] != self.number {
            return;
        }
        let (port, classes) = (host.port, self.view.plan.priorities.len() as u8);
        self.follow(host.receiving, port, "the stack", |_| {});
        let (_, mut held) = self.follow(host.sending, port, "the stack", |_| {});
        for queue in partition.endpoints.limiters.iter().flat_map(|limiters| limiters.held_back(number)) {
            held += self.follow(queue, port, "a rate limiter", |_| {}).1;
        }
        let mut waiting = [0; 8];
        for queue in host.destination_queues() {
            self.follow(queue, port, "the NIC", |packet| {
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
            self.assert_equal("the backlog", port, slot.backlog, bytes);
            held += bytes;
        }
        self.assert_equal("the NIC", port, host.held, held);
        let Some(Some(receiver)) = partition.endpoints.receivers.get(number) else { return };
        let (mut lossy, mut owed) = (0, Vec::new());
        self.follow(receiver.waiting, port, "the receive buffer", |packet| {
            if partition.ctx.hot.is_lossless(packet.class) {
                let class = packet.class & partition.ctx.hot.account_mask;
                owed.push((partition.ctx.hot.slot(packet.ingress, class), u64::from(packet.size)));
            } else {
                lossy += u64::from(packet.size);
            }
        });
        self.charge(owed);
        self.assert_equal("the receive buffer", port, receiver.lossy, lossy);
    }

    fn charge(&mut self, owed: Vec<(SlotId, u64)>) {
        for (account, size) in owed {
            self.accounts[account] += size;
        }
    }

    /// All that waits in a switch, and what its pools say of it.
    fn check_switch(&self, number: SwitchId) {
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
            let account =
                &self.view.account(egress.reverse(), partition.ctx.hot.slot(egress.reverse(), class));
            let shared = if partition.ctx.hot.is_lossless(class) {
                account.bytes - account.in_headroom
            } else {
                backlog
            };
            held += backlog;
            headroom += account.in_headroom;
            pools[partition.ctx.hot.pool_of(class)] +=
                shared.saturating_sub(partition.switching.policies[usize::from(class)].reserved);
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

    /// What is held of what came by each slot.
    fn check_accounts(&self) {
        for (slot, found) in self.accounts.iter_enumerated() {
            let port = self.partition.ctx.hot.port_and_class(slot).0;
            let here = self.view.partition_of[self.view.plan.topology.peer(port)] == self.number;
            if !here {
                continue;
            }
            let account = self.view.account(port, slot);
            self.assert_equal("the ingress account", port.reverse(), account.bytes, *found);
            assert!(
                account.in_headroom <= account.bytes,
                "more than all is headroom at {}",
                self.name(port.reverse())
            );
        }
    }

    fn assert_equal(&self, what: &str, port: PortId, counted: u64, found: u64) {
        assert!(counted == found, "{what} of {} counts {counted} and holds {found}", self.name(port));
    }

    fn name(&self, port: PortId) -> String {
        self.view.plan.topology.port_name(port)
    }
}

/// The ingress account that a packet in a queue of a switch is in, and its bytes there.
fn account_of(partition: &Partition, packet: &Packet) -> Option<(SlotId, u64)> {
    let class = packet.class & partition.ctx.hot.account_mask;
    let by_ingress = matches!(partition.ctx.settings.buffer, BufferPolicy::IdealOutputQueued(_))
        || partition.ctx.hot.is_lossless(class);
    // A CNM of this switch came by no port.
    let counts = by_ingress && packet.ingress != PortId::NONE;
    let slot =
        || partition.ctx.hot.slot(packet.ingress, packet.ingress_class & partition.ctx.hot.account_mask);
    counts.then(|| (slot(), u64::from(packet.size)))
}
