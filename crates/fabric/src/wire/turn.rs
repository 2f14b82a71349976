//! Class selection at a port where it is not simply the highest eligible class.

use super::own::{BorrowedNodePorts, PortToken};
use super::scheduler::NextPacketOfClass;
use crate::context::Context;
use crate::event::Event;
use pauseframe_units::{Priority, Time};

impl BorrowedNodePorts<'_> {
    /// The class that ETS serves next at `port`.
    #[inline(never)]
    pub(crate) fn choose_ets_class(&mut self, port: PortToken, startable: u8, ctx: &Context) -> u8 {
        let candidate = |class: u8| {
            let slot = self.egress_queue(port.egress_token(class, &ctx.hot));
            let packet = &ctx.packets[slot.queue.head().expect("a startable class has a packet")];
            let (size, since) = (u32::from(packet.size), packet.at);
            NextPacketOfClass { size: size + ctx.hot.gap, since, is_last: slot.backlog == u64::from(size) }
        };
        let candidates: [Option<NextPacketOfClass>; Priority::COUNT] =
            std::array::from_fn(|class| (startable & 1 << class != 0).then(|| candidate(class as u8)));
        let Some((ets, turns)) = self.ets_and_drr(port) else { return startable.ilog2() as u8 };
        ets.choose_class(turns, startable, |class| candidates[usize::from(class)].expect("it may start"))
    }

    /// The eligible classes whose first packet has left the forwarding pipeline, and those of `sorted`. If there is none, schedules the port for the
    /// first one that leaves it.
    pub(crate) fn ready_classes_or_schedule(&mut self, port: PortToken, sorted: u8, ctx: &mut Context) -> u8 {
        let eligible = self.port_state(port).eligible_classes();
        let (now, mut through, mut first) = (ctx.now(), 0, Time::MAX);
        for class in (0..8u8).filter(|class| eligible & 1 << class != 0) {
            let head = self.egress_queue(port.egress_token(class, &ctx.hot)).queue.head();
            let head = head.filter(|_| sorted & 1 << class == 0);
            let out = head.map_or(now, |head| ctx.packets[head].at + ctx.hot.switch_latency);
            first = first.min(out);
            through |= u8::from(out <= now) << class;
        }
        if through == 0 && !std::mem::replace(&mut self.port_state_mut(port).in_pipeline, true) {
            ctx.schedule_event(first, Event::TxDone(port.port_id()));
        }
        through
    }
}
