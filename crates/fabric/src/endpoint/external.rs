//! Hosts that belong to a stack outside of the simulator (`external.rs`).
//!
//! The stack is one for all its hosts, with one event for all that it does. Its sockets stand in the line for room in their NIC as one
//! socket each, so the NIC takes a frame from a transmit ring whenever none waits for the port: a paused port leaves all others in the ring.

use crate::context::Context;
use crate::event::Event;
use crate::external::{
    ExternalStack, StackExchange, StackFailure, StackFrame, StackOpening, StackOrder, StackReport,
    StackSamples,
};
use crate::ids::HostId;
use crate::order::{EndpointCounters, EndpointEvent, EndpointOrder, Exchange};
use pauseframe_engine::mix_bits;
use pauseframe_units::{NodeId, Time};
use std::collections::BTreeMap;
use std::sync::Mutex;

const NANOSECOND: u64 = 1_000;

/// The first time from `time` on that is a multiple of a nanosecond.
pub(super) fn round_up(time: Time) -> Time {
    Time(time.0.next_multiple_of(NANOSECOND))
}

/// The address of frames that belong to no flow.
const NO_FLOW: u32 = u32::MAX;

/// Paths from each host to each other one, for frames that belong to no flow: some for each pair, of which the ports of a
/// frame choose one.
#[derive(Debug)]
pub(crate) struct HostPaths {
    /// In the order of their numbers.
    hosts: Vec<NodeId>,
    rows: Vec<u32>,
}

impl HostPaths {
    const CHOICES: usize = 8;

    /// Asks for the row from a host to another one, by the number of the choice.
    pub(crate) fn find(mut hosts: Vec<NodeId>, mut row: impl FnMut([NodeId; 2], u32) -> u32) -> HostPaths {
        hosts.sort_unstable();
        let mut of_pair =
            |[from, to]: [NodeId; 2], choice| if from == to { u32::MAX } else { row([from, to], choice) };
        let pairs = hosts.iter().flat_map(|from| hosts.iter().map(move |to| [*from, *to]));
        let rows = pairs.flat_map(|pair| (0..HostPaths::CHOICES as u32).map(move |choice| (pair, choice)));
        let rows = rows.map(|(pair, choice)| of_pair(pair, choice)).collect();
        HostPaths { hosts, rows }
    }

    /// All rows that it has.
    pub(crate) fn rows(&self) -> impl Iterator<Item = u32> {
        self.rows.iter().copied().filter(|row| *row != u32::MAX)
    }

    fn row(&self, from: NodeId, to: NodeId, ports: u32) -> Option<u32> {
        let place = |host: NodeId| self.hosts.binary_search(&host).ok();
        let pair = place(from)? * self.hosts.len() + place(to)?;
        let choice = mix_bits(u64::from(ports)) as usize % HostPaths::CHOICES;
        Some(self.rows[pair * HostPaths::CHOICES + choice]).filter(|row| *row != u32::MAX)
    }
}

/// The stack, and what the network keeps for it.
#[derive(Debug)]
pub(crate) struct External {
    /// Behind a lock that is never taken: observers on other threads may hold the network, but not use its stack.
    stack: Mutex<Box<dyn ExternalStack>>,
    /// By host: it belongs to the stack.
    owned: Vec<bool>,
    /// When the pending event fires; `Time::MAX` if none is pending.
    armed: Time,
    /// Open ends by address: how their packets go.
    pub(super) ends: BTreeMap<u32, End>,
    /// How frames of programs go, which belong to no flow.
    paths: Option<HostPaths>,
    /// Frames that belong to no open flow and to no program; they go nowhere.
    pub(super) discarded: u64,
    failure: Option<StackFailure>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    route: u32,
    class: u8,
    flow: u32,
    connected: Option<Time>,
    /// Packets with CE that were not reported.
    pub(super) ce_packets: u64,
}

impl External {
    /// `owned`: by host, whether it belongs to the stack.
    pub(crate) fn new(stack: Box<dyn ExternalStack>, owned: Vec<bool>) -> External {
        External {
            stack: Mutex::new(stack),
            owned,
            armed: Time::MAX,
            ends: BTreeMap::new(),
            paths: None,
            discarded: 0,
            failure: None,
        }
    }

    pub(crate) fn owns(&self, host: HostId) -> bool {
        self.owned[host.0 as usize]
    }

    pub(super) fn stack(&mut self) -> &mut dyn ExternalStack {
        self.stack.get_mut().expect("nobody takes the lock").as_mut()
    }

    pub(crate) fn has_programs(&mut self) -> bool {
        self.stack().has_programs()
    }

    /// The paths of programs from now on, and those before.
    pub(crate) fn replace_paths(&mut self, paths: HostPaths) -> Option<HostPaths> {
        self.paths.replace(paths)
    }

    /// Samples of sockets and counters since this was last read.
    pub(crate) fn take_samples(&mut self) -> StackSamples {
        self.stack().take_samples()
    }

    /// What a person should know after the run.
    pub(crate) fn notes(&mut self) -> Vec<String> {
        let mut notes = self.stack().notes();
        if let Some(StackFailure(message)) = &self.failure {
            notes.push(format!("counters of the kernel are missing: {message}"));
        }
        notes
    }

    /// How a frame goes: the address that it goes to, its row and its class. `None` if it belongs to nothing that is open.
    pub(super) fn path_of(&self, from: NodeId, frame: &StackFrame, ctx: &Context) -> Option<(u32, u32, u8)> {
        if let Some((to, end)) = frame.to.and_then(|to| Some((to, self.ends.get(&(to ^ 1))?))) {
            return Some((to, end.route, end.class));
        }
        let row = self.paths.as_ref()?.row(from, frame.destination?, frame.ports)?;
        // Programs send in the class of the first transport.
        Some((NO_FLOW, row, ctx.plan.class_of_transport[0]))
    }

    /// What the stack could not do, once.
    pub(crate) fn take_failure(&mut self) -> Option<StackFailure> {
        self.failure.take()
    }

    /// An end takes another path.
    pub(super) fn take_path(&mut self, address: u32, row: u32) {
        if let Some(end) = self.ends.get_mut(&address) {
            end.route = row;
        }
    }

    /// Keeps an event pending that is not later than what the stack does next.
    pub(crate) fn arm(&mut self, ctx: &mut Context) {
        let Some(next) = self.stack().next_time() else { return };
        let at = round_up(next.max(ctx.now()));
        if at < self.armed {
            self.armed = at;
            ctx.schedule(at, Event::External);
        }
    }

    /// Notes a failure: the window ends, and the run with it.
    pub(super) fn check<T>(&mut self, outcome: Result<T, StackFailure>, ctx: &mut Context) -> Option<T> {
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
    pub(crate) fn act(&mut self, ctx: &mut Context) -> Vec<NodeId> {
        let now = ctx.now();
        if self.armed != now || self.failure.is_some() {
            return Vec::new();
        }
        self.armed = Time::MAX;
        let until = ctx.queue.next_time().map_or(ctx.outgoing.end, |next| next.min(ctx.outgoing.end));
        let ran = self.stack().run(now, until);
        if self.check(ran, ctx).is_none() {
            return Vec::new();
        }
        for (address, report) in self.stack().take_reports() {
            if let Some(event) = self.event(address, report, now) {
                ctx.send_report(address, event);
            }
        }
        self.stack().take_senders()
    }

    /// The event that the traffic receives for a report of the stack.
    fn event(&mut self, address: u32, report: StackReport, now: Time) -> Option<EndpointEvent> {
        match report {
            StackReport::Connected => {
                self.ends.get_mut(&address)?.connected = Some(now);
                None
            }
            StackReport::Complete => Some(EndpointEvent::Complete),
            StackReport::Failed(failure) => Some(EndpointEvent::Failed(failure)),
            StackReport::Drained => Some(EndpointEvent::Drained),
            StackReport::Counted { .. } => self.counters(address, report).map(EndpointEvent::Counted),
        }
    }

    fn counters(&mut self, address: u32, report: StackReport) -> Option<EndpointCounters> {
        let StackReport::Counted { flow, delivered, retransmits, timeouts } = report else { return None };
        let end = self.ends.get_mut(&address);
        let (connected, ce_packets) =
            end.map_or((None, 0), |end| (end.connected.take(), std::mem::take(&mut end.ce_packets)));
        Some(EndpointCounters {
            flow,
            replies: address & 1 == 1,
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
        if let Err(failure) = self.stack().finish(round_up(now)) {
            self.failure = Some(failure);
            return;
        }
        for (address, report) in self.stack().take_reports() {
            self.counters(address, report).into_iter().for_each(&mut take);
        }
    }

    /// An application does something.
    pub(crate) fn order(&mut self, host: NodeId, address: u32, order: &EndpointOrder, ctx: &mut Context) {
        let order = match order {
            EndpointOrder::Open(opening) => {
                let spec = &opening.spec;
                let has_stack = |node| self.owns(ctx.plan.host_id(node));
                if !(has_stack(spec.source) && has_stack(spec.destination)) {
                    let message = "a flow has a kernel at one end only: host.kernel_hosts needs both or none";
                    self.check(Err::<(), _>(StackFailure(message.to_owned())), ctx);
                    return;
                }
                let end = End {
                    route: opening.route,
                    class: opening.picked.class,
                    flow: opening.exchange.flow,
                    connected: None,
                    ce_packets: 0,
                };
                self.ends.insert(address, end);
                let side = (address & 1) as u8;
                StackOrder::Open(StackOpening {
                    side,
                    peer: if side == 0 { spec.destination } else { spec.source },
                    transport: spec.transport,
                    start: spec.start,
                    exchange: exchange(&opening.exchange),
                })
            }
            EndpointOrder::Continue(next) => {
                if let Some(end) = self.ends.get_mut(&address) {
                    end.flow = next.flow;
                }
                StackOrder::Continue(exchange(next))
            }
            EndpointOrder::EndExchange => StackOrder::EndExchange,
            EndpointOrder::Close => StackOrder::Close,
            EndpointOrder::Stop => StackOrder::Stop,
            EndpointOrder::Free => StackOrder::Free,
            EndpointOrder::Write { .. }
            | EndpointOrder::Await { .. }
            | EndpointOrder::OpenDatagrams(_)
            | EndpointOrder::AwaitDatagrams(_)
            | EndpointOrder::FreeDatagrams => unreachable!("scenarios with kernel hosts have TCP flows only"),
        };
        self.stack().order(host, address, &order, ctx.now());
        self.arm(ctx);
    }
}

fn exchange(exchange: &Exchange) -> StackExchange {
    StackExchange {
        flow: exchange.flow,
        writes: exchange.writes,
        expects: exchange.expects,
        reply: exchange.reply,
        reply_delay: exchange.reply_delay.0.div_ceil(NANOSECOND),
    }
}
