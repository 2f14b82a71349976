//! Shared state for event handlers: clock, pending events, packet pool, outgoing reports, observer notes and the read-only plan.

use crate::contention::Contention;
use crate::event::Event;
use crate::frame::{Content, Packet, PacketId, PacketPool};
use crate::hot::Hot;
use crate::observers::notes::Notes;
use crate::order::{EndpointEvent, Report};
use crate::plan::Plan;
use crate::settings::Settings;
use crate::ties::Ties;
use pauseframe_engine::EventQueue;
use pauseframe_units::{NodeId, PortId, Span, Time};
use std::sync::Arc;

/// Shared state that an event handler may use.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) queue: EventQueue,
    pub(crate) packets: PacketPool,
    pub(crate) hot: Hot,
    pub(crate) ties: Ties,
    pub(crate) contention: Contention,
    pub(crate) plan: Arc<Plan>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) outgoing: Outgoing,
    pub(crate) notes: Notes,
    pub(crate) packet_hops: u64,
    /// By flow, with QCN: its hosts, source first.
    pub(crate) hosts_of_flow: Vec<[NodeId; 2]>,
    /// True while a drop in a lossless class can only be a simulator bug.
    covers: bool,
}

/// What leaves a partition for the traffic, in the order of time.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) reports: Vec<Report>,
    /// The window ends here. A report ends it where the traffic acts on that, after all other events of the same time.
    pub(crate) end: Time,
    /// From a completion to what its application does in answer; at least a picosecond.
    reaction: Span,
}

impl Context {
    pub(crate) fn new(plan: &Arc<Plan>, reaction: Span) -> Context {
        let settings = &plan.settings;
        Context {
            queue: EventQueue::new(),
            packets: PacketPool::new(),
            hot: Hot::new(plan),
            ties: Ties::new(settings.seed, settings.random_ties),
            contention: Contention::default(),
            outgoing: Outgoing { reports: Vec::new(), end: Time::ZERO, reaction: reaction.max(Span(1)) },
            notes: Notes::default(),
            packet_hops: 0,
            hosts_of_flow: Vec::new(),
            covers: plan.margins.covers && !plan.breaks_flow_control(),
            settings: Arc::clone(settings),
            plan: Arc::clone(plan),
        }
    }

    /// The time of the current event.
    #[inline(always)]
    pub(crate) fn now(&self) -> Time {
        self.queue.now()
    }

    /// Schedules `event` at `at`.
    #[inline(always)]
    pub(crate) fn schedule(&mut self, at: Time, event: Event) {
        self.queue.push(at, event.code());
    }

    /// Lets the first frame on the wire from `port` arrive at `at`, among others of that instant in the order of [`Ties`].
    #[inline(always)]
    pub(crate) fn schedule_arrival(&mut self, at: Time, port: PortId) {
        self.queue.push(at, Event::arrival_code(port, self.ties.of(at, port)));
    }

    /// Something has happened at an end: the window ends where the traffic acts on it.
    pub(crate) fn report(&mut self, address: u32, event: EndpointEvent) {
        let (at, window) = (self.now(), self.plan.window);
        let Outgoing { reports, end, reaction } = &mut self.outgoing;
        reports.push(Report { at, address, event });
        let delay = match event {
            EndpointEvent::Counted(_) => return,
            EndpointEvent::Complete
            | EndpointEvent::Failed(_)
            | EndpointEvent::Delivered(_)
            | EndpointEvent::Sent(_) => *reaction,
            EndpointEvent::Drained
            | EndpointEvent::Lost(_)
            | EndpointEvent::DatagramsOver(_)
            | EndpointEvent::DatagramsReceived(_) => window,
        };
        *end = (*end).min(at + delay);
    }

    /// A packet will not arrive: a flow of datagrams learns of it. Segments are missed by their connections alone.
    pub(crate) fn report_lost(&mut self, index: PacketId) {
        if let Content::Datagram { to, len, .. } = self.packets[index].content {
            self.report(to, EndpointEvent::Lost(u32::from(len)));
        }
    }

    /// The host at an address (flow * 2 + side), where QCN has to know.
    pub(crate) fn host_at(&self, address: u32) -> NodeId {
        self.hosts_of_flow[(address / 2) as usize][(address & 1) as usize]
    }

    /// Frames can be lost now for other reasons than a headroom: then a lossless drop is no bug of ours.
    pub(crate) fn expect_losses(&mut self) {
        self.covers = false;
    }

    /// A lossless packet found no headroom. Where the headroom covers the link this cannot happen.
    pub(crate) fn check_headroom_drop(&self, packet: &Packet) {
        assert!(
            !self.covers,
            "a lossless packet was dropped although the headroom covers its link: at {}, port {}, class {}",
            self.now(),
            self.plan.topology.port_name(packet.ingress),
            packet.ingress_class
        );
    }
}
