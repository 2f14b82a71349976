//! A cell: some nodes of the network with everything that they touch, and the one match that dispatches their events.
//!
//! What a node's handler touches is in its own cell: its ports, switch and host, and the frames on their way to it. Frames for a node
//! of another cell leave by the border (`border.rs`), what hosts learn goes to the traffic as a report, and what they are to do comes
//! as an order (`order.rs`). Arenas have the numbers of the whole network; a cell touches those of its nodes alone.

use crate::border::Border;
use crate::buffer::{Account, Pool};
use crate::capture::Capture;
use crate::class::ClassPolicy;
use crate::connection::End;
use crate::counters::{Counters, Held};
use crate::event::Event;
use crate::failures::Errors;
use crate::foresight::FORESIGHT;
use crate::host::{Host, Unsteady};
use crate::hot::Hot;
use crate::marker::Memory;
use crate::marking::memories;
use crate::notes::Notes;
use crate::order::{Half, News, Order, Report};
use crate::packet::{Fifo, NIL, PacketPool};
use crate::paths::Paths;
use crate::pfc::{Asker, PauseState, PendingPause};
use crate::plan::Plan;
use crate::port::{Lane, Port};
use crate::qcn::Qcn;
use crate::receiver::Receiver;
use crate::scheduler::{Ets, Turns};
use crate::settings::Settings;
use crate::switch::Switch;
use crate::throughput::Throughput;
use crate::udp::{Sink, Stream};
use crate::vlan::VlanState;
use crate::watchdog::Watchdogs;
use pauseframe_engine::{EventQueue, Model, stream};
use pauseframe_topology::routing::NextHops;
use pauseframe_transport::Metrics;
use pauseframe_units::{IndexVec, LineRate, NodeId, PortId, Priority, Span, Time};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Some nodes of a network, and what is theirs.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) plan: Arc<Plan>,
    /// Those of the moment: failures change them.
    pub(crate) routes: Arc<NextHops>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) hot: Hot,
    pub(crate) packets: PacketPool,
    pub(crate) ports: IndexVec<PortId, Port>,
    pub(crate) lanes: Vec<Lane>,
    /// By lane, at its other end: what came by it, and what its sender was asked.
    pub(crate) accounts: Vec<Account>,
    pub(crate) askers: Vec<Asker>,
    /// By lane: what it was asked.
    pub(crate) pauses: Vec<PauseState>,
    pub(crate) pending_pauses: IndexVec<PortId, VecDeque<PendingPause>>,
    pub(crate) counters: Vec<Counters>,
    /// By class.
    pub(crate) policies: [ClassPolicy; Priority::COUNT],
    /// By lane, where a marker is asked about packets; else empty.
    pub(crate) memories: Vec<Memory>,
    pub(crate) ets: Option<Ets>,
    /// By port, with ETS; else empty.
    pub(crate) turns: Vec<Turns>,
    pub(crate) hosts: Vec<Host>,
    /// By host, if any drains slowly; else empty.
    pub(crate) receivers: Vec<Option<Box<Receiver>>>,
    pub(crate) switches: Vec<Switch>,
    pub(crate) qcn: Option<Box<Qcn>>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) free_streams: Vec<u32>,
    pub(crate) sinks: Vec<Sink>,
    pub(crate) free_sinks: Vec<u32>,
    pub(crate) vlans: Option<Box<VlanState>>,
    pub(crate) paths: Paths,
    /// The priorities in use, ascending; a class is an index into them.
    pub(crate) priorities: Vec<Priority>,
    /// A port has `1 << class_bits` lanes.
    pub(crate) class_bits: u32,
    /// Lossless classes, a bit each.
    pub(crate) lossless: u8,
    /// A lossless drop is our bug.
    pub(crate) covers: bool,
    pub(crate) ends: Vec<Option<End>>,
    pub(crate) free_ends: Vec<u32>,
    /// By flow: the places of those of its two ends that are here, else NIL.
    pub(crate) slots: Vec<[u32; 2]>,
    /// The connection cache: source, destination, transport.
    pub(crate) metrics: BTreeMap<(NodeId, NodeId, u16), Metrics>,
    /// What the hosts are to do, by time and address.
    pub(crate) orders: BTreeMap<(Time, u32), Vec<Order>>,
    /// What they have to tell, in the order of time.
    pub(crate) reports: Vec<Report>,
    pub(crate) packet_hops: u64,
    pub(crate) throughput: Throughput,
    /// By switch: what waits in it.
    pub(crate) held: Vec<Held>,
    /// SYNs among the packets that were dropped for [`DropReason::NotEct`].
    pub(crate) syn_drops_not_ect: u64,
    pub(crate) capture: Capture,
    pub(crate) notes: Notes,
    pub(crate) watchdogs: Watchdogs,
    pub(crate) errors: Errors,
    pub(crate) border: Border,
    /// The window ends here: a report ends it one reaction time later.
    pub(crate) end: Time,
    reaction: Span,
    /// So large that it looks ahead.
    is_large: bool,
}

impl Cell {
    /// An idle cell; `stride`: the most links between two hosts, `workloads`: how many there are.
    pub(crate) fn new(
        plan: &Arc<Plan>,
        routes: &Arc<NextHops>,
        stride: usize,
        workloads: usize,
        reaction: Span,
    ) -> Cell {
        let settings = &plan.settings;
        let (lanes, ports) = (plan.lanes(), plan.topology.port_count());
        let vlans = settings.vlans.as_ref();
        assert!(vlans.is_none() || settings.overhead.tag == 0, "frames in VLANs have a tag in any case");
        let vlans = vlans.map(|vlans| Box::new(VlanState::new(vlans, plan, settings.seed)));
        let qcn = settings.qcn.clone();
        let qcn = qcn.map(|qcn| Box::new(Qcn::new(qcn, &plan.priorities, lanes, settings.seed)));
        let limits = plan.margins.limits.iter();
        Cell {
            hot: Hot::new(settings, &plan.policies, plan.lossless),
            packets: PacketPool::new(),
            ports: idle_ports(plan),
            lanes: idle_lanes(plan),
            accounts: limits.map(|limits| Account { limits: *limits, ..Account::default() }).collect(),
            askers: vec![Asker::default(); lanes],
            pauses: vec![PauseState::default(); lanes],
            pending_pauses: (0..ports).map(|_| VecDeque::new()).collect(),
            counters: vec![Counters::default(); lanes],
            policies: plan.policies,
            memories: memories(settings.seed, &plan.policies, &plan.priorities, ports, plan.class_bits),
            ets: Ets::of(settings, &plan.priorities),
            turns: Turns::of(settings, ports),
            hosts: idle_hosts(plan),
            receivers: Receiver::of_hosts(settings, &plan.number, plan.hosts.len()),
            switches: idle_switches(plan),
            qcn,
            streams: Vec::new(),
            free_streams: Vec::new(),
            sinks: Vec::new(),
            free_sinks: Vec::new(),
            vlans,
            paths: Paths::new(stride),
            priorities: plan.priorities.clone(),
            class_bits: plan.class_bits,
            lossless: plan.lossless,
            covers: plan.margins.covers,
            ends: Vec::new(),
            free_ends: Vec::new(),
            slots: Vec::new(),
            metrics: BTreeMap::new(),
            orders: BTreeMap::new(),
            reports: Vec::new(),
            packet_hops: 0,
            throughput: Throughput::new(workloads),
            held: vec![Held::default(); plan.switches.len()],
            syn_drops_not_ect: 0,
            capture: Capture::default(),
            notes: Notes::default(),
            watchdogs: Watchdogs::default(),
            errors: Errors::default(),
            border: Border::default(),
            end: Time::ZERO,
            reaction,
            is_large: plan.is_large(),
            plan: Arc::clone(plan),
            routes: Arc::clone(routes),
            settings: Arc::clone(settings),
        }
    }

    /// Something has happened at an end: the traffic reacts one reaction time later, and nothing here comes to be before.
    pub(crate) fn report(&mut self, address: u32, news: News, now: Time) {
        self.reports.push(Report { at: now, address, news });
        // Nobody reacts to counts.
        if !matches!(news, News::Counted(_)) {
            self.end = self.end.min(now + self.reaction);
        }
    }

    /// An end takes another path.
    pub(crate) fn take_path(&mut self, address: u32, row: u32) {
        let [end, stream] = self.route_of(address);
        end.into_iter().chain(stream).for_each(|route| *route = row);
    }

    /// What all ends have counted that they have not told.
    pub(crate) fn take_halves(&mut self, mut take: impl FnMut(Half)) {
        self.ends.iter_mut().flatten().filter_map(End::take_half).for_each(&mut take);
        self.streams.iter_mut().map(Stream::take_half).for_each(&mut take);
        self.sinks.iter_mut().map(Sink::take_half).for_each(&mut take);
    }

    pub(crate) fn host_of(&self, node: NodeId) -> u32 {
        self.plan.number[node]
    }

    /// The number of the switch that `port` sends from.
    pub(crate) fn switch_number(&self, port: PortId) -> u32 {
        self.plan.number[self.plan.topology.owner(port)]
    }

    /// An account would fall below zero: something was taken from it that was never put there.
    #[cold]
    #[inline(never)]
    pub(crate) fn overdrawn(&self, account: &str, port: PortId) -> ! {
        let topology = &self.plan.topology;
        let owner = &topology.nodes()[topology.owner(port)];
        let peer = &topology.nodes()[topology.peer(port)];
        panic!("the {account} of {} at its port to {} fell below zero", owner.name, peer.name)
    }

    /// Packets that are in queues, on links or in stacks here.
    pub(crate) fn packets_under_way(&self) -> usize {
        self.packets.under_way().count() - self.border.last_frames()
    }

    /// What happens less than once a packet stays out of the run loop's way.
    #[inline(never)]
    fn handle_rare(&mut self, event: Event, now: Time, queue: &mut EventQueue) {
        match event {
            Event::Order(address) => self.on_order(address, now, queue),
            Event::HostDrain(host) => self.on_host_drain(host, now, queue),
            Event::DatagramDue(flow) => self.on_datagram_due(flow, now, queue),
            Event::RateRelease(limiter) => self.on_rate_release(limiter, now, queue),
            Event::RateTimer(limiter) => self.on_rate_timer(limiter, now, queue),
            Event::Watchdog(lane) => self.on_watchdog(lane, now, queue),
            _ => unreachable!("the run loop handles it itself"),
        }
    }
}

impl Model for Cell {
    #[inline(always)]
    fn end(&self) -> Time {
        self.end
    }

    fn foresight(&self) -> usize {
        if self.is_large { FORESIGHT } else { 0 }
    }

    #[inline(always)]
    fn foresee(&self, queue: &EventQueue) {
        self.look_ahead(queue);
    }

    #[inline(always)]
    fn handle(&mut self, event: u64, now: Time, queue: &mut EventQueue) {
        match Event::from_code(event) {
            Event::TxDone(port) => self.on_tx_done(port, now, queue),
            Event::Arrive(port) => self.on_arrive(port, now, queue),
            Event::PauseEffect(port) => self.on_pause_effect(port, now, queue),
            Event::PauseExpiry(lane) => self.on_pause_expiry(lane, now, queue),
            Event::PauseRefresh(lane) => self.on_pause_refresh(lane, now, queue),
            Event::HostReceive(host) => self.on_host_receive(host, now, queue),
            Event::HostSend(host) => self.on_host_send(host, now, queue),
            Event::Timer(end) => self.on_timer(end, now, queue),
            rare => self.handle_rare(rare, now, queue),
        }
    }
}

fn idle_hosts(plan: &Plan) -> Vec<Host> {
    let (topology, settings) = (&plan.topology, &plan.settings);
    let host = |id: &NodeId| {
        let draws = |label| stream(settings.seed, label, u64::from(id.0));
        let own = settings.wire_jitters.iter().find(|own| own.host == *id);
        let [out, back] = own.map_or([settings.wire_jitter, Span::ZERO], |own| [own.to_switch, own.to_host]);
        let wire = [
            Unsteady { jitter: out, draws: draws("wire jitter") },
            Unsteady { jitter: back, draws: draws("wire jitter to host") },
        ];
        Host::new(topology.nodes()[*id].ports[0], draws("jitter"), wire)
    };
    plan.hosts.iter().map(host).collect()
}

fn idle_switches(plan: &Plan) -> Vec<Switch> {
    let switches = plan.switches.iter().zip(&plan.margins.pools);
    switches
        .map(|(id, pools)| Switch {
            node: *id,
            pools: pools.map(Pool::new),
            spray: stream(plan.settings.seed, "spray", u64::from(id.0)),
        })
        .collect()
}

fn idle_ports(plan: &Plan) -> IndexVec<PortId, Port> {
    let topology = &plan.topology;
    plan.ports()
        .map(|port| {
            let (channel, peer) = (topology.channel(port), topology.peer(port));
            Port {
                busy_until: Time::ZERO,
                delay: channel.delay,
                rate: LineRate::new(channel.rate),
                in_flight: Fifo::EMPTY,
                control: Fifo::EMPTY,
                to_switch: plan.switch(peer).unwrap_or(NIL),
                to_host: plan.host(peer).unwrap_or(NIL),
                from_host: plan.host(topology.owner(port)).unwrap_or(NIL),
                ready: 0,
                paused: 0,
                tx_pending: false,
                in_pipeline: false,
            }
        })
        .collect()
}

/// The lanes of all ports, each with the number of its switch.
fn idle_lanes(plan: &Plan) -> Vec<Lane> {
    let switch = |port: PortId| plan.switch(plan.topology.owner(port)).unwrap_or(NIL);
    plan.ports()
        .flat_map(|port| std::iter::repeat_n(Lane::idle(switch(port)), 1 << plan.class_bits))
        .collect()
}
