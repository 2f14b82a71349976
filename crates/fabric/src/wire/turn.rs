//! The class whose turn it is at a port, where that is not just the highest that may send.

use super::own::{NodePorts, OwnPort};
use super::scheduler::Candidate;
use crate::context::Context;
use crate::event::Event;
use pauseframe_units::{Priority, Time};

impl NodePorts<'_> {
    /// The class that `port` serves next, by ETS.
    #[inline(never)]
    pub(crate) fn class_in_turn(&mut self, port: OwnPort, startable: u8, ctx: &Context) -> u8 {
        let candidate = |class: u8| {
            let slot = self.slot(port.slot(class, &ctx.hot));
            let packet = &ctx.packets[slot.queue.head().expect("a startable class has a packet")];
            let (size, since) = (u32::from(packet.size), packet.at);
            Candidate { size: size + ctx.hot.gap, since, is_last: slot.backlog == u64::from(size) }
        };
        let candidates: [Option<Candidate>; Priority::COUNT] =
            std::array::from_fn(|class| (startable & 1 << class != 0).then(|| candidate(class as u8)));
        let Some((ets, turns)) = self.turns(port) else { return startable.ilog2() as u8 };
        ets.next(turns, startable, |class| candidates[usize::from(class)].expect("it may start"))
    }

    /// Of the classes that may send, those whose first packet is through the forwarding latency of its switch. If none is, the port
    /// starts when the first is out.
    pub(crate) fn through_pipeline(&mut self, port: OwnPort, ctx: &mut Context) -> u8 {
        let eligible = self.port(port).eligible();
        let (now, mut through, mut first) = (ctx.now(), 0, Time::MAX);
        for class in (0..8u8).filter(|class| eligible & 1 << class != 0) {
            let head = self.slot(port.slot(class, &ctx.hot)).queue.head();
            let out = head.map_or(now, |head| ctx.packets[head].at + ctx.hot.switch_latency);
            first = first.min(out);
            through |= u8::from(out <= now) << class;
        }
        if through == 0 && !std::mem::replace(&mut self.port_mut(port).in_pipeline, true) {
            ctx.schedule(first, Event::TxDone(port.id()));
        }
        through
    }
}
