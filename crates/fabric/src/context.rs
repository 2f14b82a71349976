//! Shared state for event handlers: clock, pending events, packet pool, outgoing reports, observer notes and the read-only plan.

use crate::event::Event;
use crate::frame::{DamagedFrame, FrameContent, Packet, PacketId, PacketPool};
use crate::hot::HotPathSettings;
use crate::observers::notes::PauseChangeLog;
use crate::observers::paths::PathLog;
use crate::order::{EndpointEvent, EndpointReport};
use crate::plan::NetworkPlan;
use crate::records::FIRST_PART;
use crate::settings::Settings;
use crate::ties::ArrivalTieBreaker;
use pauseframe_engine::EventQueue;
use pauseframe_units::{NodeId, PortId, Span, Time};
use std::sync::Arc;

/// Shared state that an event handler may use.
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) queue: EventQueue,
    pub(crate) packets: PacketPool,
    pub(crate) hot: HotPathSettings,
    pub(crate) ties: ArrivalTieBreaker,
    pub(crate) plan: Arc<NetworkPlan>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) outgoing: EndpointReportOutbox,
    pub(crate) notes: PauseChangeLog,
    pub(crate) packet_hops: u64,
    /// What went through each port of switches, if it is recorded.
    pub(crate) paths: Option<Box<PathLog>>,
    /// By flow, if QCN is on: its two hosts, source first.
    pub(crate) hosts_of_flow: Vec<[NodeId; 2]>,
    /// The same by queue pair of flows with several.
    pub(crate) hosts_of_parts: Vec<[NodeId; 2]>,
    /// A packet that came by another port of its host than its endpoint sends by.
    pub(crate) handed_over: Option<PacketId>,
    /// True while a drop in a lossless class can only be a simulator bug.
    covers: bool,
}

/// Reports of a partition to the traffic, in the order of time.
#[derive(Debug)]
pub(crate) struct EndpointReportOutbox {
    pub(crate) reports: Vec<EndpointReport>,
    /// End of the window. A report shortens the window to the time at which the traffic acts on it, after all other events of that time.
    pub(crate) end: Time,
    /// Time from a completion to the application's answer; at least a picosecond.
    reaction: Span,
}

impl Context {
    pub(crate) fn new(plan: &Arc<NetworkPlan>, reaction: Span) -> Context {
        let settings = &plan.settings;
        Context {
            queue: EventQueue::new(),
            packets: PacketPool::new(),
            hot: HotPathSettings::new(plan),
            ties: ArrivalTieBreaker::new(settings.seed, settings.random_ties),
            outgoing: EndpointReportOutbox {
                reports: Vec::new(),
                end: Time::ZERO,
                reaction: reaction.max(Span(1)),
            },
            notes: PauseChangeLog::default(),
            packet_hops: 0,
            paths: None,
            hosts_of_flow: Vec::new(),
            hosts_of_parts: Vec::new(),
            handed_over: None,
            covers: plan.reservations.covers && !plan.has_one_way_pause(),
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
    pub(crate) fn schedule_event(&mut self, at: Time, event: Event) {
        self.queue.push(at, event.encode());
    }

    /// Schedules the arrival of the first frame on the wire from `port`. [`ArrivalTieBreaker`] orders simultaneous arrivals.
    #[inline(always)]
    pub(crate) fn schedule_arrival(&mut self, at: Time, port: PortId) {
        self.queue.push(at, Event::encode_arrival(port, self.ties.tie_bits(at, port)));
    }

    /// Reports an event of an endpoint to the traffic. The window ends when the traffic acts on it.
    pub(crate) fn report_event(&mut self, endpoint_key: u32, event: EndpointEvent) {
        let (at, window) = (self.now(), self.plan.window);
        let EndpointReportOutbox { reports, end, reaction } = &mut self.outgoing;
        reports.push(EndpointReport { at, endpoint_key, event });
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

    /// Reports a lost datagram to its flow. Lost segments are not reported, because TCP detects them.
    pub(crate) fn report_datagram_loss(&mut self, index: PacketId) {
        if let FrameContent::Datagram { to, len, .. }
        | FrameContent::Damaged(DamagedFrame::Datagram { to, len }) = self.packets[index].content
        {
            self.report_event(to, EndpointEvent::Lost(u32::from(len)));
        }
    }

    /// The host at an endpoint key (flow * 2 + side). Known only if QCN is on.
    pub(crate) fn endpoint_host(&self, endpoint_key: u32) -> NodeId {
        let (flow, side) = (endpoint_key / 2, (endpoint_key & 1) as usize);
        let hosts = match flow.checked_sub(FIRST_PART) {
            None => self.hosts_of_flow[flow as usize],
            Some(part) => self.hosts_of_parts[part as usize],
        };
        hosts[side]
    }

    /// Failures or storms can now drop lossless frames, so a lossless drop is no longer a simulator bug.
    pub(crate) fn allow_lossless_drops(&mut self) {
        self.covers = false;
    }

    /// A lossless packet exceeded the headroom. Panics if the headroom covers the link, because this is then a bug.
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
