//! Class selection at a port where it is not simply the highest eligible class.

use super::own::{BorrowedNodePorts, PortToken};
use super::scheduler::NextPacketOfClass;
use crate::context::Context;
use pauseframe_units::Priority;

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
}
