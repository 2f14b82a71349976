//! FQ-CoDel (RFC 8290) as Linux has it (`net/sched/sch_fq_codel.c`): flows are hashed to queues, which take turns by deficit round robin, each with CoDel.
//!
//! A flow that had nothing to send for a round is new and goes before the others, once. A full queue drops half of the bytes of its longest flow,
//! from the head. Left out: filters that classify packets, `ce_threshold_selector`. The hash is that of the flow's end, not of addresses.

use super::codel::{ControlLaw, Judged};
use super::{Departure, Discipline, TimedDiscipline, TimedPacket};
use crate::frame::{Packet, PacketFifo, PacketId, PacketPool};
use crate::settings::CodelSettings;
use pauseframe_engine::mix_bits;
use std::collections::VecDeque;

pub(super) struct FqCodel;

impl Discipline for FqCodel {
    const RANKED: bool = true;
    const TIMED: bool = true;

    fn choose_next(_queue: &mut PacketFifo, _packets: &mut PacketPool) {}

    fn evict_for(_queue: &mut PacketFifo, _packets: &mut PacketPool, _newcomer: PacketId) -> Option<PacketId> {
        None
    }
}

/// The packets of the flows that a hash value has (`struct fq_codel_flow`).
#[derive(Clone, Debug)]
struct FlowQueue {
    packets: PacketFifo,
    bytes: u64,
    deficit: i64,
    /// It is in a list of turns.
    in_line: bool,
    law: ControlLaw,
}

impl FlowQueue {
    fn pop(&mut self, packets: &PacketPool) -> Option<PacketId> {
        let index = self.packets.pop_front(packets)?;
        self.bytes -= u64::from(packets[index].size);
        Some(index)
    }
}

/// A queue with FQ-CoDel. Packets come by the queue of the port, from which it sorts them before each choice.
#[derive(Debug)]
pub(crate) struct FqCodelQueue {
    settings: CodelSettings,
    mtu: u32,
    seed: u64,
    /// By hash; empty until a packet has waited.
    flows: Vec<FlowQueue>,
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    /// Bytes of all flows.
    bytes: u64,
    chosen: Option<PacketId>,
}

impl FqCodelQueue {
    pub(super) fn new(settings: CodelSettings, mtu: u32, seed: u64) -> FqCodelQueue {
        let (new, old) = (VecDeque::new(), VecDeque::new());
        FqCodelQueue { settings, mtu, seed, flows: Vec::new(), new, old, bytes: 0, chosen: None }
    }

    fn quantum(&self) -> i64 {
        self.settings.quantum.map_or(i64::from(self.mtu), |quantum| quantum.0 as i64)
    }

    /// Sorts packets into the queues of their flows (`fq_codel_enqueue`).
    fn sort_arrivals(&mut self, leaving: &mut Departure) {
        if self.flows.is_empty() {
            let (packets, law) = (PacketFifo::EMPTY, ControlLaw::default());
            let idle = FlowQueue { packets, bytes: 0, deficit: 0, in_line: false, law };
            self.flows = vec![idle; self.settings.flows as usize];
        }
        let quantum = self.quantum();
        let chosen = self.chosen.and_then(|_| leaving.queue.pop_front(leaving.packets));
        while let Some(index) = leaving.queue.pop_front(leaving.packets) {
            let packet = leaving.packets[index];
            let number = self.flow_of(&packet);
            let flow = &mut self.flows[number as usize];
            flow.packets.push_back(leaving.packets, index);
            flow.bytes += u64::from(packet.size);
            self.bytes += u64::from(packet.size);
            if !std::mem::replace(&mut flow.in_line, true) {
                flow.deficit = quantum;
                self.new.push_back(number);
                leaving.decision.new_flows += 1;
            }
        }
        if let Some(index) = chosen {
            leaving.queue.push_front(leaving.packets, index);
        }
    }

    /// The flow queue of a packet: `reciprocal_scale` of a hash.
    fn flow_of(&self, packet: &Packet) -> u32 {
        let key = u64::from(packet.destination_endpoint_key().unwrap_or(u32::MAX));
        (((mix_bits(key ^ self.seed) >> 32) * u64::from(self.settings.flows)) >> 32) as u32
    }

    /// The next packet of a flow, and whether it gets CE; drops those before it that are due.
    fn take_from(&mut self, number: u32, leaving: &mut Departure) -> Option<(Judged, bool)> {
        let Departure { packets, decision, .. } = leaving;
        let now = leaving.now;
        let (flow, all) = (&mut self.flows[number as usize], &mut self.bytes);
        let mut law = flow.law;
        let take = || {
            let index = flow.pop(packets)?;
            let TimedPacket { size, sojourn, is_ect } = TimedPacket::of(&packets[index], now);
            *all -= u64::from(size);
            Some(Judged { index, size, sojourn, is_ect, behind: *all })
        };
        let next = law.next_packet(&self.settings, (self.mtu, now), take, |index| decision.dropped.push(index));
        self.flows[number as usize].law = law;
        next
    }
}

impl TimedDiscipline for FqCodelQueue {
    fn choose_next(&mut self, leaving: &mut Departure) {
        self.sort_arrivals(leaving);
        if self.chosen.is_some() {
            return;
        }
        while let Some(&number) = self.new.front().or_else(|| self.old.front()) {
            let is_new = !self.new.is_empty();
            let quantum = self.quantum();
            let flow = &mut self.flows[number as usize];
            if flow.deficit <= 0 {
                flow.deficit += quantum;
                self.new.pop_front().or_else(|| self.old.pop_front());
                self.old.push_back(number);
                continue;
            }
            if let Some((packet, mark)) = self.take_from(number, leaving) {
                self.flows[number as usize].deficit -= i64::from(packet.size);
                leaving.choose(packet.index, packet.sojourn, mark);
                self.chosen = Some(packet.index);
                return;
            }
            self.new.pop_front().or_else(|| self.old.pop_front());
            // A new flow that is empty passes the old ones first, so that it cannot starve them (RFC 8290 §4.2).
            if is_new && !self.old.is_empty() {
                self.old.push_back(number);
            } else {
                self.flows[number as usize].in_line = false;
            }
        }
    }

    fn on_departure(&mut self) {
        self.chosen = None;
    }

    /// Drops half of the bytes of the longest flow, at most `drop_batch` packets (`fq_codel_drop`).
    fn evict(&mut self, leaving: &mut Departure) {
        self.sort_arrivals(leaving);
        // The first of equal ones.
        let Some(longest) = self.flows.iter_mut().rev().max_by_key(|flow| flow.bytes) else { return };
        let (half, before) = (longest.bytes / 2, leaving.decision.dropped.len());
        let mut freed = 0;
        while leaving.decision.dropped.len() - before < self.settings.drop_batch as usize
            && (freed < half || freed == 0)
            && let Some(index) = longest.pop(leaving.packets)
        {
            freed += u64::from(leaving.packets[index].size);
            leaving.decision.dropped.push(index);
        }
        longest.law.count_forced_drops((leaving.decision.dropped.len() - before) as u32);
        self.bytes -= freed;
    }

    fn fifos(&self) -> Vec<PacketFifo> {
        self.flows.iter().map(|flow| flow.packets).filter(|packets| !packets.is_empty()).collect()
    }

    fn reset(&mut self, queue: &mut PacketFifo, packets: &mut PacketPool) {
        for flow in &mut self.flows {
            while let Some(index) = flow.packets.pop_front(packets) {
                queue.push_back(packets, index);
            }
        }
        (self.new, self.old, self.bytes, self.chosen) = (VecDeque::new(), VecDeque::new(), 0, None);
        self.flows.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::{Decision, QueueDiscipline};
    use crate::queue::contract::segment;
    use pauseframe_units::Time;

    const SIZE: u16 = 1000;

    struct Bench {
        packets: PacketPool,
        queue: PacketFifo,
        flows: FqCodelQueue,
    }

    impl Bench {
        fn new(changes: impl FnOnce(CodelSettings) -> CodelSettings) -> Bench {
            let settings = changes(CodelSettings::of(QueueDiscipline::FqCodel));
            let flows = FqCodelQueue::new(settings, u32::from(SIZE), 7);
            Bench { packets: PacketPool::new(), queue: PacketFifo::EMPTY, flows }
        }

        fn arrive(&mut self, flow: u32, count: usize, at: Time) {
            for _ in 0..count {
                let index = self.packets.insert(Packet { at, size: SIZE, ..segment(flow, 0) });
                self.queue.push_back(&mut self.packets, index);
            }
        }

        /// Asks the discipline at `now`; returns the flows of the dropped packets.
        fn ask(&mut self, now: Time, ask: impl FnOnce(&mut FqCodelQueue, &mut Departure)) -> Vec<u32> {
            let mut leaving = Departure {
                queue: &mut self.queue,
                packets: &mut self.packets,
                backlog: 0,
                now,
                decision: Decision::default(),
            };
            ask(&mut self.flows, &mut leaving);
            let dropped = leaving.decision.dropped;
            dropped.iter().map(|index| self.packets[*index].destination_endpoint_key().unwrap()).collect()
        }

        /// The flow of the next packet.
        fn send(&mut self, now: Time) -> u32 {
            assert_eq!(self.ask(now, FqCodelQueue::choose_next), [0_u32; 0]);
            // A second call gives the same answer.
            self.ask(now, FqCodelQueue::choose_next);
            let index = self.queue.pop_front(&self.packets).unwrap();
            self.flows.on_departure();
            self.packets[index].destination_endpoint_key().unwrap()
        }
    }

    /// A sparse flow goes before bulk flows as often as its packets come to an empty queue, and not twice in a round.
    #[test]
    fn a_sparse_flow_goes_next() {
        let mut bench = Bench::new(|settings| settings);
        let now = Time(1000);
        bench.arrive(1, 20, now);
        bench.arrive(2, 20, now);
        assert_eq!([(); 4].map(|()| bench.send(now)), [1, 2, 1, 2]);
        bench.arrive(3, 1, now);
        assert_eq!([(); 3].map(|()| bench.send(now)), [3, 1, 2]);
        // It has been in its place in the round meanwhile, and is empty there: it has left and is new again.
        assert_eq!([(); 2].map(|()| bench.send(now)), [1, 2]);
        bench.arrive(3, 2, now);
        // Its second packet waits behind flow 1 alone: flow 2 has used its turn up, and goes behind it for the next.
        assert_eq!([(); 5].map(|()| bench.send(now)), [3, 1, 3, 2, 1]);
    }

    /// Two packets fit a quantum of two, and a flow with a debt waits for its turn.
    #[test]
    fn turns_are_of_a_quantum() {
        let mut bench = Bench::new(|settings| CodelSettings { quantum: Some(pauseframe_units::Bytes(1500)), ..settings });
        let now = Time(1000);
        bench.arrive(1, 20, now);
        bench.arrive(2, 20, now);
        // Each turn adds 1500 B: two packets, then one, as the debt of 500 B is paid.
        assert_eq!([(); 12].map(|()| bench.send(now)), [1, 1, 2, 2, 1, 2, 1, 1, 2, 2, 1, 2]);
    }

    /// The longest flow loses half of its bytes, at most a batch.
    #[test]
    fn a_full_queue_drops_from_the_longest_flow() {
        let mut bench = Bench::new(|settings| CodelSettings { drop_batch: 8, ..settings });
        bench.arrive(1, 3, Time(0));
        bench.arrive(2, 10, Time(0));
        assert_eq!(bench.ask(Time(0), FqCodelQueue::evict), [2; 5]);
        bench.arrive(1, 30, Time(0));
        assert_eq!(bench.ask(Time(0), FqCodelQueue::evict), [1; 8]);
        let left: usize = bench.flows.fifos().iter().map(|fifo| fifo.iter(&bench.packets).count()).sum();
        assert_eq!((left, bench.flows.bytes), (30, 30 * u64::from(SIZE)));
        bench.flows.reset(&mut bench.queue, &mut bench.packets);
        assert_eq!((bench.queue.iter(&bench.packets).count(), bench.flows.fifos().len()), (30, 0));
    }

    #[test]
    fn flows_spread_over_all_queues() {
        let bench = Bench::new(|settings| CodelSettings { flows: 16, ..settings });
        let mut counts = [0; 16];
        (0..16_000).for_each(|flow| counts[bench.flows.flow_of(&segment(flow, 0)) as usize] += 1);
        assert!(counts.iter().all(|count| (850..1150).contains(count)), "{counts:?}");
    }
}
