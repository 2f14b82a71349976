//! Hosts that belong to a stack outside of the simulator (`external.rs`).
//!
//! The stack is one for all its hosts, with one event for all that it does. Its sockets stand in the line for room in their NIC as one
//! socket each, so the NIC takes a frame from a transmit ring whenever none waits for the port: a paused port leaves all others in the ring.

use crate::context::Context;
use crate::event::Event;
use crate::external::{
    ExternalStack, ExternalStackExchange, ExternalStackFailure, ExternalStackFrame,
    ExternalStackOpeningParameters, ExternalStackOrder, ExternalStackReport, ExternalStackSamples,
};
use crate::ids::HostId;
use crate::order::{EndpointCounters, EndpointEvent, EndpointExchange, EndpointOrder};
use crate::records::NO_FLOW;
use pauseframe_engine::mix_bits;
use pauseframe_units::{NodeId, Time};
use std::collections::BTreeMap;
use std::sync::Mutex;

const NANOSECOND: u64 = 1_000;

/// The first time from `time` on that is a multiple of a nanosecond.
pub(super) fn ceil_to_nanosecond(time: Time) -> Time {
    Time(time.0.next_multiple_of(NANOSECOND))
}

/// Paths from each host to each other one, for frames that belong to no flow: some for each pair, of which the ports of a
/// frame choose one.
#[derive(Debug)]
pub(crate) struct HostPairPaths {
    /// In the order of their numbers.
    hosts: Vec<NodeId>,
    rows: Vec<u32>,
}

impl HostPairPaths {
    const CHOICES: usize = 8;

    /// Asks for the row from a host to another one, by the number of the choice.
    pub(crate) fn between_hosts(
        mut hosts: Vec<NodeId>,
        mut row: impl FnMut([NodeId; 2], u32) -> u32,
    ) -> HostPairPaths {
        hosts.sort_unstable();
        let mut of_pair =
            |[from, to]: [NodeId; 2], choice| if from == to { u32::MAX } else { row([from, to], choice) };
        let pairs = hosts.iter().flat_map(|from| hosts.iter().map(move |to| [*from, *to]));
        let rows =
            pairs.flat_map(|pair| (0..HostPairPaths::CHOICES as u32).map(move |choice| (pair, choice)));
        let rows = rows.map(|(pair, choice)| of_pair(pair, choice)).collect();
        HostPairPaths { hosts, rows }
    }

    /// All rows that it has.
    pub(crate) fn rows(&self) -> impl Iterator<Item = u32> {
        self.rows.iter().copied().filter(|row| *row != u32::MAX)
    }

    fn choose_row(&self, from: NodeId, to: NodeId, ports: u32) -> Option<u32> {
        let place = |host: NodeId| self.hosts.binary_search(&host).ok();
        let pair = place(from)? * self.hosts.len() + place(to)?;
        let choice = mix_bits(u64::from(ports)) as usize % HostPairPaths::CHOICES;
        Some(self.rows[pair * HostPairPaths::CHOICES + choice]).filter(|row| *row != u32::MAX)
    }
}

/// The stack, and what the network keeps for it.
#[derive(Debug)]
pub(crate) struct ExternalStackState {
    /// Behind a lock that is never taken: observers on other threads may hold the network, but not use its stack.
    stack: Mutex<Box<dyn ExternalStack>>,
    /// By host: it belongs to the stack.
    owned: Vec<bool>,
    /// When the pending event fires; `Time::MAX` if none is pending.
    armed: Time,
    /// Open ends by endpoint key: how their packets go.
    pub(super) ends: BTreeMap<u32, ExternalStackEndpoint>,
    /// How frames of programs go, which belong to no flow.
    paths: Option<HostPairPaths>,
    /// Frames that belong to no open flow and to no program; they go nowhere.
    pub(super) discarded: u64,
    failure: Option<ExternalStackFailure>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ExternalStackEndpoint {
    route: u32,
    class: u8,
    flow: u32,
    connected: Option<Time>,
    /// Packets with CE that were not reported.
    pub(super) ce_packets: u64,
}

impl ExternalStackState {
    /// `owned`: by host, whether it belongs to the stack.
    pub(crate) fn new(stack: Box<dyn ExternalStack>, owned: Vec<bool>) -> ExternalStackState {
        ExternalStackState {
            stack: Mutex::new(stack),
            owned,
            armed: Time::MAX,
            ends: BTreeMap::new(),
            paths: None,
            discarded: 0,
            failure: None,
        }
    }

    pub(crate) fn owns_host(&self, host: HostId) -> bool {
        self.owned[host.0 as usize]
    }

    pub(super) fn stack_mut(&mut self) -> &mut dyn ExternalStack {
        self.stack.get_mut().expect("nobody takes the lock").as_mut()
    }

    pub(crate) fn has_running_programs(&mut self) -> bool {
        self.stack_mut().has_running_programs()
    }

    /// The paths of programs from now on, and those before.
    pub(crate) fn replace_paths(&mut self, paths: HostPairPaths) -> Option<HostPairPaths> {
        self.paths.replace(paths)
    }

    /// Samples of sockets and counters since this was last read.
    pub(crate) fn take_stack_samples(&mut self) -> ExternalStackSamples {
        self.stack_mut().take_stack_samples()
    }

    /// What a person should know after the run.
    pub(crate) fn stack_warnings(&mut self) -> Vec<String> {
        let mut notes = self.stack_mut().stack_warnings();
        if let Some(ExternalStackFailure(message)) = &self.failure {
            notes.push(format!("counters of the kernel are missing: {message}"));
        }
        notes
    }

    /// How a frame goes: the endpoint key that it goes to, its row and its class. `None` if it belongs to nothing that is open.
    pub(super) fn find_path(
        &self,
        from: NodeId,
        frame: &ExternalStackFrame,
        ctx: &Context,
    ) -> Option<(u32, u32, u8)> {
        if let Some((to, end)) = frame.to.and_then(|to| Some((to, self.ends.get(&(to ^ 1))?))) {
            return Some((to, end.route, end.class));
        }
        let row = self.paths.as_ref()?.choose_row(from, frame.destination?, frame.ports)?;
        // Programs send in the class of the first transport.
        Some((NO_FLOW, row, ctx.plan.class_of_transport[0]))
    }

    /// What the stack could not do, once.
    pub(crate) fn take_failure(&mut self) -> Option<ExternalStackFailure> {
        self.failure.take()
    }

    /// An end takes another path.
    pub(super) fn set_path(&mut self, endpoint_key: u32, row: u32) {
        if let Some(end) = self.ends.get_mut(&endpoint_key) {
            end.route = row;
        }
    }

    /// Keeps an event pending that is not later than what the stack does next.
    pub(crate) fn schedule_next_event(&mut self, ctx: &mut Context) {
        let Some(next) = self.stack_mut().next_event_time() else { return };
        let at = ceil_to_nanosecond(next.max(ctx.now()));
        if at < self.armed {
            self.armed = at;
            ctx.schedule_event(at, Event::External);
        }
    }

    /// Notes a failure: the window ends, and the run with it.
    pub(super) fn ok_or_end_window<T>(
        &mut self,
        outcome: Result<T, ExternalStackFailure>,
        ctx: &mut Context,
    ) -> Option<T> {
        match outcome {
            Ok(value) => Some(value),
            Err(failure) => {
                self.failure.get_or_insert(failure);
                ctx.outgoing.end = ctx.now();
                None
            }
        }
    }

    /// The stack acts, if the event is not an old one. The hosts that have something to send.
    pub(crate) fn run_if_due(&mut self, ctx: &mut Context) -> Vec<NodeId> {
        let now = ctx.now();
        if self.armed != now || self.failure.is_some() {
            return Vec::new();
        }
        self.armed = Time::MAX;
        let until = ctx.queue.next_event_time().map_or(ctx.outgoing.end, |next| next.min(ctx.outgoing.end));
        let ran = self.stack_mut().run_until(now, until);
        if self.ok_or_end_window(ran, ctx).is_none() {
            return Vec::new();
        }
        for (endpoint_key, report) in self.stack_mut().take_reports() {
            if let Some(event) = self.convert_report(endpoint_key, report, now) {
                ctx.report_event(endpoint_key, event);
            }
        }
        self.stack_mut().take_ready_hosts()
    }

    /// The event that the traffic receives for a report of the stack.
    fn convert_report(
        &mut self,
        endpoint_key: u32,
        report: ExternalStackReport,
        now: Time,
    ) -> Option<EndpointEvent> {
        match report {
            ExternalStackReport::Connected => {
                self.ends.get_mut(&endpoint_key)?.connected = Some(now);
                None
            }
            ExternalStackReport::Complete => Some(EndpointEvent::Complete),
            ExternalStackReport::Failed(failure) => Some(EndpointEvent::Failed(failure)),
            ExternalStackReport::Drained => Some(EndpointEvent::Drained),
            ExternalStackReport::Counted { .. } => {
                self.convert_counters(endpoint_key, report).map(EndpointEvent::Counted)
            }
        }
    }

    fn convert_counters(
        &mut self,
        endpoint_key: u32,
        report: ExternalStackReport,
    ) -> Option<EndpointCounters> {
        let ExternalStackReport::Counted { flow, delivered, retransmits, timeouts } = report else {
            return None;
        };
        let end = self.ends.get_mut(&endpoint_key);
        let (connected, ce_packets) =
            end.map_or((None, 0), |end| (end.connected.take(), std::mem::take(&mut end.ce_packets)));
        Some(EndpointCounters {
            flow,
            replies: endpoint_key & 1 == 1,
            delivered,
            retransmits,
            timeouts,
            ce_packets,
            connected,
            ..EndpointCounters::default()
        })
    }

    /// The run is over: what all ends have counted that they have not reported.
    pub(super) fn drain_counters(&mut self, now: Time, mut take: impl FnMut(EndpointCounters)) {
        if self.failure.is_some() {
            return;
        }
        if let Err(failure) = self.stack_mut().report_final_counters(ceil_to_nanosecond(now)) {
            self.failure = Some(failure);
            return;
        }
        for (endpoint_key, report) in self.stack_mut().take_reports() {
            self.convert_counters(endpoint_key, report).into_iter().for_each(&mut take);
        }
    }

    /// An application does something.
    pub(crate) fn pass_order(
        &mut self,
        host: NodeId,
        endpoint_key: u32,
        order: &EndpointOrder,
        ctx: &mut Context,
    ) {
        let order = match order {
            EndpointOrder::Open(opening) => {
                let spec = &opening.spec;
                let has_stack = |node| self.owns_host(ctx.plan.host_id(node));
                if !(has_stack(spec.source) && has_stack(spec.destination)) {
                    let message = "a flow has a kernel at one end only: host.kernel_hosts needs both or none";
                    self.ok_or_end_window(Err::<(), _>(ExternalStackFailure(message.to_owned())), ctx);
                    return;
                }
                let end = ExternalStackEndpoint {
                    route: opening.route,
                    class: opening.picked.class,
                    flow: opening.exchange.flow,
                    connected: None,
                    ce_packets: 0,
                };
                self.ends.insert(endpoint_key, end);
                let side = (endpoint_key & 1) as u8;
                ExternalStackOrder::Open(ExternalStackOpeningParameters {
                    side,
                    peer: if side == 0 { spec.destination } else { spec.source },
                    transport: spec.transport,
                    start: spec.start,
                    exchange: convert_exchange(&opening.exchange),
                })
            }
            EndpointOrder::Continue(next) => {
                if let Some(end) = self.ends.get_mut(&endpoint_key) {
                    end.flow = next.flow;
                }
                ExternalStackOrder::Continue(convert_exchange(next))
            }
            EndpointOrder::EndExchange => ExternalStackOrder::EndExchange,
            EndpointOrder::Close => ExternalStackOrder::Close,
            EndpointOrder::Stop => ExternalStackOrder::Stop,
            EndpointOrder::Free => ExternalStackOrder::Free,
            EndpointOrder::Write { .. } | EndpointOrder::Await { .. } | EndpointOrder::AwaitDatagrams(_) => {
                unreachable!("scenarios with kernel hosts have TCP flows only")
            }
        };
        self.stack_mut().execute_order(host, endpoint_key, &order, ctx.now());
        self.schedule_next_event(ctx);
    }
}

fn convert_exchange(exchange: &EndpointExchange) -> ExternalStackExchange {
    ExternalStackExchange {
        flow: exchange.flow,
        writes: exchange.writes,
        expects: exchange.expects,
        reply: exchange.reply,
        reply_delay: exchange.reply_delay.0.div_ceil(NANOSECOND),
    }
}
