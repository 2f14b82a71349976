//! Queue pairs are opened.

use super::{QueuePairEnd, WindowObserver};
use crate::context::Context;
use crate::endpoint::node::{BorrowedHost, EndpointToken};
use crate::endpoint::state::{Protocol, Reliable, plugin_seed};
use crate::frame::TelemetryId;
use crate::ids::NicQueueId;
use crate::order::EndpointOpeningParameters;
use crate::settings::RdmaSettings;
use pauseframe_engine::mix_bits;
use pauseframe_rdma::cc::ControlParameters;
use pauseframe_rdma::cc::hpcc::Quantum;
use pauseframe_rdma::{QueuePair, QueuePairSettings, Stats};
use std::sync::Arc;

impl<'n> BorrowedHost<'n> {
    /// Opens this end of a queue pair.
    pub(in crate::endpoint) fn open_queue_pair(
        &mut self,
        endpoint_key: u32,
        rdma: &RdmaSettings,
        opening: EndpointOpeningParameters,
        ctx: &mut Context,
    ) {
        let (spec, exchange, now) = (opening.spec, opening.exchange, ctx.now());
        let mut pair = QueuePair::new(self.queue_pair_settings(rdma, &opening, ctx));
        pair.set_entropy_seed(mix_bits(ctx.settings.seed ^ mix_bits(u64::from(endpoint_key))));
        pair.connect(spec.start.max(now));
        pair.start_plugin(endpoint_key / 2, plugin_seed(ctx.settings.seed, endpoint_key), now);
        let control_class = ctx.plan.class_index(rdma.cnp_priority);
        let state = QueuePairEnd {
            pair,
            telemetry: TelemetryId::NONE,
            control_queue: NicQueueId(0),
            control_class,
            told: Stats::default(),
            window: WindowObserver::default(),
        };
        let mut end = self.new_endpoint(Protocol::Rdma(state), endpoint_key, opening);
        end.begin_exchange::<QueuePairEnd>(&exchange, spec.start, now);
        let end = self.add_endpoint(end);
        self.join_control_queue(end, endpoint_key);
        self.update_endpoint::<QueuePairEnd>(end, ctx);
    }

    /// The NIC queue of what a queue pair sends in the class of notifications.
    pub(in crate::endpoint) fn join_control_queue(&mut self, end: EndpointToken<'n>, endpoint_key: u32) {
        let state = self.endpoint_mut(end);
        let (to, class) = (state.nodes[1], QueuePairEnd::of(&state.protocol).control_class);
        let queue = self.host_mut().nic_queue_for(endpoint_key, to, class);
        QueuePairEnd::of_mut(&mut self.endpoint_mut(end).protocol).control_queue = queue;
    }

    /// The settings that queue pairs of a transport share at hosts of one line rate.
    fn queue_pair_settings(
        &mut self,
        rdma: &RdmaSettings,
        opening: &EndpointOpeningParameters,
        ctx: &Context,
    ) -> Arc<QueuePairSettings> {
        let (transport, links) = (opening.spec.transport, opening.links);
        let line = self.ports.port_state(self.port).rate.rate().0;
        let settings = self.rdma_cards_mut().settings.entry((transport, line, links));
        let settings = settings.or_insert_with(|| {
            let overhead = ctx.settings.overhead;
            let priority = ctx.settings.transports[usize::from(transport)].priority;
            let frame = overhead.frame_size(rdma.pair.mtu, priority);
            let links = if links > 0 { links } else { rdma.pair.parameters.links };
            let quantum = ctx.plan.telemetry.map_or(Quantum::for_line(line), |telemetry| telemetry.quantum);
            Arc::new(QueuePairSettings {
                line,
                link_overhead: frame - rdma.pair.mtu + overhead.gap,
                parameters: ControlParameters { quantum, links, ..rdma.pair.parameters },
                ..rdma.pair
            })
        });
        Arc::clone(settings)
    }
}
