//! State of a Linux machine that switches, and its polls (`linux.rs`).

use crate::context::Context;
use crate::event::Event;
use crate::frame::{FrameContent, PacketFifo, PacketId};
use crate::ids::SlotId;
use crate::settings::LinuxSwitchSettings;
use pauseframe_transport::{ForwardedFrame, ForwardingGro};
use pauseframe_units::PortId;
use std::collections::{BTreeMap, VecDeque};

/// Frames of one poll (`NAPI_POLL_WEIGHT`).
const BUDGET: u32 = 64;

/// State of a Linux machine that switches.
#[derive(Debug)]
pub(crate) struct LinuxSwitchState {
    pub(super) settings: LinuxSwitchSettings,
    /// By the port that received the frames.
    pub(super) rings: BTreeMap<PortId, ReceiveRing>,
    /// Ports whose poll is due, in turn (`softnet_data.poll_list`).
    pub(super) poll_list: VecDeque<PortId>,
    pub(super) poll: Option<Poll>,
    /// Super-packets of the current poll; the CPU works on the first.
    pub(super) forwarding: VecDeque<SuperPacket>,
    pub(super) queued: BTreeMap<SlotId, VecDeque<QueuedSuperPacket>>,
}

/// The receive ring of a port.
#[derive(Debug)]
pub(super) struct ReceiveRing {
    pub(super) frames: PacketFifo,
    pub(super) count: u32,
    /// An interrupt is pending, or a poll is due or under way: interrupts are off until it ends.
    pub(super) is_scheduled: bool,
}

/// The poll of a port.
#[derive(Clone, Copy, Debug)]
pub(super) struct Poll {
    port: PortId,
    has_used_budget: bool,
}

/// Frames that the stack handles as one packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct SuperPacket {
    pub(super) ingress: PortId,
    pub(super) frames: PacketFifo,
}

/// What is left of a super-packet in an egress queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedSuperPacket {
    pub(super) frames: u32,
    pub(super) bytes: u64,
    /// Its first frame has left: for the qdisc all of it has.
    pub(super) is_dequeued: bool,
}

/// A super-packet that GRO holds for more frames of its connection.
struct HeldByGro {
    endpoint_key: u32,
    gro: ForwardingGro,
    packet: SuperPacket,
}

impl Default for ReceiveRing {
    fn default() -> ReceiveRing {
        ReceiveRing { frames: PacketFifo::EMPTY, count: 0, is_scheduled: false }
    }
}

impl LinuxSwitchState {
    pub(super) fn new(settings: LinuxSwitchSettings) -> LinuxSwitchState {
        LinuxSwitchState {
            settings,
            rings: BTreeMap::new(),
            poll_list: VecDeque::new(),
            poll: None,
            forwarding: VecDeque::new(),
            queued: BTreeMap::new(),
        }
    }

    /// Frames that have arrived and are in no egress queue yet, with the ports by which they came.
    pub(crate) fn unforwarded_fifos(&self) -> impl Iterator<Item = (PortId, PacketFifo)> {
        let rings = self.rings.iter().map(|(port, ring)| (*port, ring.frames));
        rings.chain(self.forwarding.iter().map(|packet| (packet.ingress, packet.frames)))
    }

    /// Frames in the receive ring of each port, as counted.
    pub(crate) fn ring_counts(&self) -> impl Iterator<Item = (PortId, u32, PacketFifo)> {
        self.rings.iter().map(|(port, ring)| (*port, ring.count, ring.frames))
    }

    /// Super-packets that wait in an egress queue, and the frames and bytes of all there.
    pub(crate) fn recount_queue(&self, slot: SlotId) -> (u64, u64, u64) {
        let queued = self.queued.get(&slot).into_iter().flatten();
        queued.fold((0, 0, 0), |(waiting, frames, bytes), packet| {
            (
                waiting + u64::from(!packet.is_dequeued),
                frames + u64::from(packet.frames),
                bytes + packet.bytes,
            )
        })
    }

    /// Bytes at the head of an egress queue that the qdisc has already handed to the network card.
    pub(super) fn dequeued_bytes(&self, slot: SlotId) -> u64 {
        let first = self.queued.get(&slot).and_then(VecDeque::front);
        first.filter(|packet| packet.is_dequeued).map_or(0, |packet| packet.bytes)
    }
}

impl LinuxSwitchState {
    /// Takes frames out of the ring of `port`, up to the budget, merges them and gives the CPU the super-packets.
    pub(super) fn begin_poll(&mut self, port: PortId, ctx: &mut Context) {
        let Some(ring) = self.rings.get_mut(&port) else { return };
        let taken = ring.count.min(BUDGET);
        ring.count -= taken;
        self.poll = Some(Poll { port, has_used_budget: taken == BUDGET });
        let mut held: Vec<HeldByGro> = Vec::new();
        for _ in 0..taken {
            let Some(index) = ring.frames.pop_front(&ctx.packets) else { break };
            merge_frame(&mut held, &mut self.forwarding, (port, index), self.settings.gro, ctx);
        }
        // Those held longest go first (`napi_gro_flush`).
        self.forwarding.extend(held.into_iter().map(|held| held.packet));
    }

    /// Ends a poll (`napi_complete_done`): after a full budget the port comes last in the list, otherwise its interrupts are on again.
    pub(super) fn finish_poll(&mut self, poll: Poll, ctx: &mut Context) {
        let Some(ring) = self.rings.get_mut(&poll.port) else { return };
        if poll.has_used_budget {
            self.poll_list.push_back(poll.port);
            return;
        }
        let Some(first) = ring.frames.head() else {
            ring.is_scheduled = false;
            return;
        };
        let due = ctx.packets[first].at + self.settings.interrupt_delay;
        if due > ctx.now() {
            ctx.schedule_event(due, Event::Interrupt(poll.port));
        } else {
            self.poll_list.push_back(poll.port);
        }
    }
}

/// Passes a frame of a poll to GRO. What is complete joins `ready`.
fn merge_frame(
    held: &mut Vec<HeldByGro>,
    ready: &mut VecDeque<SuperPacket>,
    (ingress, index): (PortId, PacketId),
    has_gro: bool,
    ctx: &mut Context,
) {
    let mut alone = SuperPacket { ingress, frames: PacketFifo::EMPTY };
    let FrameContent::Segment(carried) = ctx.packets[index].content else {
        // UDP, and so RoCE, is not merged.
        alone.frames.push_back(&mut ctx.packets, index);
        ready.push_back(alone);
        return;
    };
    if !has_gro {
        alone.frames.push_back(&mut ctx.packets, index);
        ready.push_back(alone);
        return;
    }
    let segment = ctx.packets.unpack_segment(&carried);
    let found = held.iter().position(|held| held.endpoint_key == carried.to);
    let mut flow = found.map_or_else(
        || HeldByGro { endpoint_key: carried.to, gro: ForwardingGro::new(), packet: alone },
        |place| held.remove(place),
    );
    match flow.gro.add_frame(&segment, carried.ecn) {
        ForwardedFrame::Joins => {
            flow.packet.frames.push_back(&mut ctx.packets, index);
            // A packet keeps its age while frames join it.
            held.insert(found.unwrap_or(held.len()), flow);
        }
        ForwardedFrame::Ends => {
            flow.packet.frames.push_back(&mut ctx.packets, index);
            ready.push_back(flow.packet);
        }
        ForwardedFrame::BeginsNext => {
            ready.push_back(flow.packet);
            flow.packet.frames = PacketFifo::EMPTY;
            flow.packet.frames.push_back(&mut ctx.packets, index);
            held.push(flow);
        }
        ForwardedFrame::Alone => {
            if found.is_some() {
                ready.push_back(flow.packet);
            }
            alone.frames.push_back(&mut ctx.packets, index);
            ready.push_back(alone);
        }
    }
}
