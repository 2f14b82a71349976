//! The network: arenas of nodes, ports, packets and connections, and the one match that dispatches events.

use crate::buffer::Account;
use crate::class::ClassPolicy;
use crate::connection::End;
use crate::deadlock::Detector;
use crate::event::{Event, OBSERVATION};
use crate::failures::{Failures, LossReason};
use crate::flow::{FlowRecord, FlowSpec, FlowStatus, QueryRecord, Workload};
use crate::host::{Host, Unsteady};
use crate::hot::Hot;
use crate::ideal::IdealTime;
use crate::marker::{RedQueue, red_queues};
use crate::observe::{Capture, Sampler};
use crate::packet::{Fifo, NIL, PacketPool};
use crate::paths::Paths;
use crate::pause_tree::PauseLog;
use crate::pfc::{PauseState, PendingPause};
use crate::port::{Lane, Port};
use crate::qcn::Qcn;
use crate::receiver::Receiver;
use crate::scheduler::{Ets, Turns};
use crate::settings::Settings;
use crate::states::StateLog;
use crate::switch::Switch;
use crate::throughput::Throughput;
use crate::udp::Stream;
use crate::vlan::VlanState;
use crate::watchdog::Watchdogs;
use pauseframe_engine::{EventQueue, Model, Rng, stream};
use pauseframe_topology::routing::NextHops;
use pauseframe_topology::{NodeKind, Topology};
use pauseframe_transport::Metrics;
use pauseframe_units::{Bytes, IndexVec, LineRate, NodeId, PortId, Priority, Span, Time};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Why a packet was dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DropReason {
    /// The egress queue (or the shared pool) had no room for a lossy packet.
    BufferFull,
    /// A lossless packet came after XOFF and the headroom was used up.
    HeadroomExceeded,
    /// A packet that is not ECN-capable met a queue above its marking threshold.
    NotEct,
}

impl DropReason {
    /// All reasons, in the order of their numbers.
    pub const ALL: [DropReason; 3] =
        [DropReason::BufferFull, DropReason::HeadroomExceeded, DropReason::NotEct];
}

/// What is counted at a port and class beyond its [`Lane`], on events that are rare.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counters {
    pub(crate) drops: [u64; DropReason::ALL.len()],
    /// Lost with a link, on a bad wire or to a watchdog.
    pub(crate) lost: [u64; LossReason::ALL.len()],
    pub(crate) ecn_marks: u64,
    /// What failures have cut off frames in service.
    pub(crate) cut_off: Span,
    /// Pause frames sent to this port by the other end.
    pub(crate) pauses_sent: u64,
    /// CNMs that the congestion point here has sent, and those that came to the NIC here.
    pub(crate) cnms_sent: u64,
    pub(crate) cnms_received: u64,
}

/// Bytes that wait in all queues of a switch, whatever their class.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    pub(crate) bytes: u64,
    pub(crate) most: u64,
}

/// What a port did for one priority: the raw row of the `ports` table.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PortReport {
    /// The port.
    pub port: PortId,
    /// The priority.
    pub priority: Priority,
    /// Packets sent, pause frames not included.
    pub tx_packets: u64,
    /// Their bytes, without preamble and gap.
    pub tx_bytes: u64,
    /// Time in which the port was sending them, preamble and gap included; of the frame in service what has passed.
    pub busy: Span,
    /// Dropped packets that were to leave here, by [`DropReason`].
    pub drops: [u64; DropReason::ALL.len()],
    /// Frames that were lost here or on the wire from here, by [`LossReason`].
    pub lost: [u64; LossReason::ALL.len()],
    /// Packets marked here.
    pub ecn_marks: u64,
    /// Largest backlog, bytes.
    pub backlog_max: u64,
    /// Time-weighted mean backlog, bytes.
    pub backlog_mean: f64,
    /// Largest ingress account at the other end, bytes.
    pub ingress_max: u64,
    /// Pause frames that the other end sent to stop this port.
    pub pauses_sent: u64,
    /// Pause frames that took effect here.
    pub pauses_received: u64,
    /// Frames with quanta 0 that took effect here.
    pub resumes_received: u64,
    /// Time in which the priority might not send.
    pub paused: Span,
    /// The longest pause.
    pub paused_longest: Span,
    /// CNMs that the congestion point of this queue has sent (QCN).
    pub cnms_sent: u64,
    /// CNMs about this priority that came to the host which this port belongs to.
    pub cnms_received: u64,
    /// How often the watchdog took the queue out of flow control.
    pub watchdog_storms: u64,
}

/// A running network.
#[derive(Debug)]
pub struct Network {
    pub(crate) topology: Arc<Topology>,
    pub(crate) routes: Arc<NextHops>,
    pub(crate) vlans: Option<Box<VlanState>>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) hot: Hot,
    ideal: IdealTime,
    pub(crate) packets: PacketPool,
    pub(crate) ports: IndexVec<PortId, Port>,
    pub(crate) lanes: Vec<Lane>,
    /// By lane.
    pub(crate) accounts: Vec<Account>,
    /// By class.
    pub(crate) policies: [ClassPolicy; Priority::COUNT],
    /// By lane, where a class has RED; else empty.
    pub(crate) red: Vec<RedQueue>,
    pub(crate) ets: Option<Ets>,
    /// By port, with ETS; else empty.
    pub(crate) turns: Vec<Turns>,
    pub(crate) counters: Vec<Counters>,
    pub(crate) pauses: Vec<PauseState>,
    pub(crate) pending_pauses: IndexVec<PortId, VecDeque<PendingPause>>,
    pub(crate) hosts: Vec<Host>,
    /// By host, if any drains slowly; else empty.
    pub(crate) receivers: Vec<Option<Box<Receiver>>>,
    pub(crate) switches: Vec<Switch>,
    pub(crate) qcn: Option<Box<Qcn>>,
    pub(crate) streams: Vec<Stream>,
    pub(crate) free_streams: Vec<u32>,
    /// By node: its number among the hosts or among the switches.
    number: IndexVec<NodeId, u32>,
    pub(crate) paths: Paths,
    pub(crate) path_scratch: Vec<PortId>,
    /// The priorities in use, ascending; a class is an index into them.
    pub(crate) priorities: Vec<Priority>,
    pub(crate) class_of_transport: Vec<u8>,
    /// A port has `1 << class_bits` lanes.
    pub(crate) class_bits: u32,
    /// Lossless classes, a bit each.
    pub(crate) lossless: u8,
    /// Whether every headroom covers its link: then a drop there is our bug.
    pub(crate) headroom_covers: bool,
    pub(crate) warnings: Vec<String>,
    /// A switch whose headroom and reserved bytes leave nothing of its shared buffer, and these bytes.
    pub(crate) overcommitted: Option<(NodeId, Bytes)>,
    pub(crate) ends: Vec<Option<End>>,
    pub(crate) free_ends: Vec<u32>,
    /// By flow: the slots of its two ends, NIL when it is over.
    pub(crate) slots: Vec<[u32; 2]>,
    pub(crate) records: Vec<FlowRecord>,
    /// Connections that wait for their next flow: workload and number, to the flow that opened them.
    pub(crate) kept: BTreeMap<(u16, u32), u32>,
    /// The connection cache: source, destination, transport.
    pub(crate) metrics: BTreeMap<(NodeId, NodeId, u16), Metrics>,
    pub(crate) workloads: Vec<Box<dyn Workload>>,
    pub(crate) workload_at: Vec<Option<Time>>,
    pub(crate) active_flows: u64,
    pub(crate) finished_flows: u64,
    pub(crate) packet_hops: u64,
    stop_when_finished: bool,
    finished: bool,
    pub(crate) throughput: Throughput,
    /// By switch: what waits in it.
    pub(crate) held: Vec<Held>,
    /// SYNs among the packets that were dropped for [`DropReason::NotEct`].
    pub(crate) syn_drops_not_ect: u64,
    pub(crate) sampler: Sampler,
    pub(crate) capture: Capture,
    pub(crate) pause_log: PauseLog,
    pub(crate) state_log: StateLog,
    pub(crate) detector: Detector,
    pub(crate) watchdogs: Watchdogs,
    pub(crate) failures: Failures,
}

impl Network {
    /// Builds an idle network. Its first events are put into `queue` by [`Network::start`].
    ///
    /// # Panics
    /// If a host of `topology` has not exactly one link, or a flow names a transport that `settings` has not.
    pub fn new(
        topology: Arc<Topology>,
        routes: Arc<NextHops>,
        settings: Arc<Settings>,
        workloads: Vec<Box<dyn Workload>>,
        stop_when_finished: bool,
    ) -> Network {
        let priorities = priorities_in_use(&settings);
        let class = |priority: Priority| priorities.partition_point(|p| *p < priority) as u8;
        let is_lossless = |p: &Priority| {
            settings.pfc.as_ref().is_some_and(|pfc| pfc.whole_link || pfc.priorities.contains(p))
        };
        let lossless = priorities.iter().filter(|p| is_lossless(p)).fold(0, |set, p| set | 1 << class(*p));
        let class_bits = priorities.len().next_power_of_two().trailing_zeros();
        let lanes = topology.port_count() << class_bits;
        let policies = std::array::from_fn(|class| {
            ClassPolicy::new(&settings, priorities.get(class).copied().unwrap_or_default())
        });
        let (hosts, switches, number) = nodes(&topology, &settings);
        let (workload_count, switch_count) = (workloads.len(), switches.len());
        let stride = if settings.vlans.is_some() { 0 } else { longest_path(&topology, &routes) };
        let vlans = settings.vlans.as_ref();
        assert!(vlans.is_none() || settings.overhead.tag == 0, "frames in VLANs have a tag in any case");
        let vlans = vlans.map(|vlans| Box::new(VlanState::new(vlans, &topology, settings.seed, class)));
        let qcn = settings.qcn.clone();
        let qcn = qcn.map(|qcn| Box::new(Qcn::new(qcn, &priorities, lanes, settings.seed)));
        let mut network = Network {
            hot: Hot::new(&settings, &policies, lossless),
            ideal: IdealTime::new(Arc::clone(&topology), Arc::clone(&routes), Arc::clone(&settings)),
            packets: PacketPool::new(),
            ports: ports(&topology, &number),
            lanes: idle_lanes(&topology, &number, class_bits),
            accounts: vec![Account::default(); lanes],
            red: red_queues(settings.seed, &policies, &priorities, topology.port_count(), class_bits),
            policies,
            ets: Ets::of(&settings, &priorities),
            turns: Turns::of(&settings, topology.port_count()),
            counters: vec![Counters::default(); lanes],
            pauses: vec![PauseState::default(); lanes],
            pending_pauses: topology.links().ids().flat_map(|_| [VecDeque::new(), VecDeque::new()]).collect(),
            receivers: Receiver::of_hosts(&settings, &number, hosts.len()),
            hosts,
            switches,
            qcn,
            streams: Vec::new(),
            free_streams: Vec::new(),
            number,
            paths: Paths::new(stride),
            path_scratch: Vec::new(),
            class_of_transport: settings.transports.iter().map(|t| class(t.priority)).collect(),
            priorities,
            class_bits,
            lossless,
            headroom_covers: true,
            warnings: Vec::new(),
            overcommitted: None,
            ends: Vec::new(),
            free_ends: Vec::new(),
            slots: Vec::new(),
            records: Vec::new(),
            kept: BTreeMap::new(),
            metrics: BTreeMap::new(),
            workload_at: vec![None; workloads.len()],
            workloads,
            active_flows: 0,
            finished_flows: 0,
            packet_hops: 0,
            stop_when_finished,
            finished: false,
            throughput: Throughput::new(workload_count),
            held: vec![Held::default(); switch_count],
            syn_drops_not_ect: 0,
            sampler: Sampler::default(),
            capture: Capture::default(),
            pause_log: PauseLog::default(),
            state_log: StateLog::default(),
            detector: Detector::default(),
            watchdogs: Watchdogs::default(),
            failures: Failures::default(),
            topology,
            routes,
            vlans,
            settings,
        };
        network.set_thresholds();
        network
    }

    /// Puts the first events into `queue`.
    pub fn start(&mut self, queue: &mut EventQueue) {
        for workload in 0..self.workloads.len() as u32 {
            self.schedule_workload(workload, Time::ZERO, queue);
        }
        self.check_finished();
    }

    /// Ends the run after this event.
    pub(crate) fn stop(&mut self) {
        self.finished = true;
    }

    /// What a person should look at before trusting the run.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// A switch whose headroom and reserved bytes leave nothing to share, and how many bytes these are.
    pub fn overcommitted(&self) -> Option<(NodeId, Bytes)> {
        self.overcommitted
    }

    /// What hosts have received over time.
    pub fn throughput(&self) -> &Throughput {
        &self.throughput
    }

    /// The switch that held the most bytes at once, and how many; the first of equal ones, none without a switch.
    pub fn fullest_switch(&self) -> Option<(NodeId, u64)> {
        let all = self.switches.iter().zip(&self.held).map(|(switch, held)| (switch.node, held.most));
        all.reduce(|best, other| if other.1 > best.1 { other } else { best })
    }

    /// SYNs that a marker dropped because they are not ECN-capable.
    pub fn syn_drops_not_ect(&self) -> u64 {
        self.syn_drops_not_ect
    }

    pub(crate) fn host_of(&self, node: NodeId) -> u32 {
        self.number[node]
    }

    /// The number of the switch that `port` sends from.
    pub(crate) fn switch_number(&self, port: PortId) -> u32 {
        self.number[self.topology.owner(port)]
    }

    pub(crate) fn ideal_completion(&self, spec: &FlowSpec) -> Span {
        self.ideal.of_flow(spec)
    }

    /// An account would fall below zero: something was taken from it that was never put there.
    #[cold]
    #[inline(never)]
    pub(crate) fn overdrawn(&self, account: &str, port: PortId) -> ! {
        let owner = &self.topology.nodes()[self.topology.owner(port)];
        let peer = &self.topology.nodes()[self.topology.peer(port)];
        panic!("the {account} of {} at its port to {} fell below zero", owner.name, peer.name)
    }

    /// The run has nothing left to show: no open flow, and no workload that could start one.
    pub(crate) fn check_finished(&mut self) {
        self.finished = self.stop_when_finished
            && self.active_flows == 0
            && self.workloads.iter().all(|workload| workload.next_start().is_none());
    }

    /// Packets that crossed a link, ACKs included, pause frames not.
    pub fn packet_hops(&self) -> u64 {
        self.packet_hops
    }

    /// Flows started and flows finished so far.
    pub fn flow_counts(&self) -> (u64, u64) {
        (self.records.len() as u64, self.finished_flows)
    }

    /// A workload, for what it has to tell ([`Workload::as_any`]).
    pub fn workload(&self, index: usize) -> &dyn Workload {
        self.workloads[index].as_ref()
    }

    /// The transport of a flow, by index.
    pub fn transport_of(&self, flow: u32) -> usize {
        usize::from(self.records[flow as usize].spec.transport)
    }

    /// Packets that are in queues, on links or in stacks.
    pub fn packets_under_way(&self) -> usize {
        self.packets.under_way().count()
    }

    /// What came of each flow; those that still run are reported as they stand at `now`.
    pub fn flow_records(&mut self, now: Time) -> &[FlowRecord] {
        for flow in 0..self.records.len() as u32 {
            self.collect(flow);
            let record = &mut self.records[flow as usize];
            if record.status == FlowStatus::Running {
                record.end = now;
            }
        }
        &self.records
    }

    /// The jobs of all workloads that have any: the complete ones, then those that still run.
    pub fn queries(&mut self) -> Vec<QueryRecord> {
        let running = self.records.iter().filter(|record| record.status == FlowStatus::Running);
        let running: Vec<FlowRecord> = running.copied().collect();
        let of = |workload: &mut Box<dyn Workload>| {
            let mut queries = workload.take_queries();
            queries.extend(workload.unfinished_queries(&running));
            queries
        };
        self.workloads.iter_mut().flat_map(of).collect()
    }

    /// What each port did for each priority that it had to do with, up to `now`.
    pub fn port_reports(&self, now: Time) -> Vec<PortReport> {
        let all = self
            .ports
            .ids()
            .flat_map(|port| (0..self.priorities.len() as u8).map(move |class| (port, class)));
        all.filter_map(|(port, class)| self.port_report(port, class, now)).collect()
    }

    fn port_report(&self, port: PortId, class: u8, now: Time) -> Option<PortReport> {
        let index = self.lane_index(port, class);
        let (lane, counters, pauses) = (&self.lanes[index], &self.counters[index], &self.pauses[index]);
        let lossless_so_far = counters.drops.iter().chain(&counters.lost).all(|count| *count == 0);
        let idle = lane.tx_packets == 0 && lossless_so_far && pauses.pauses_received == 0;
        let silent = counters.pauses_sent + counters.cnms_sent + counters.cnms_received == 0;
        if idle && lane.backlog == 0 && silent {
            return None;
        }
        let (paused, paused_longest) = self.paused_time(port, class, now);
        let backlog_time = lane.backlog_time(now) as f64;
        Some(PortReport {
            port,
            priority: self.priorities[usize::from(class)],
            tx_packets: lane.tx_packets,
            tx_bytes: lane.tx_bytes,
            busy: self.busy_time(port, class, now),
            drops: counters.drops,
            lost: counters.lost,
            ecn_marks: counters.ecn_marks,
            backlog_max: lane.backlog_max.max(self.state_log.backlog_max(index)),
            backlog_mean: if now == Time::ZERO { 0.0 } else { backlog_time / now.0 as f64 },
            ingress_max: self.accounts[index].most,
            pauses_sent: counters.pauses_sent,
            pauses_received: pauses.pauses_received,
            resumes_received: pauses.resumes_received,
            paused,
            paused_longest,
            cnms_sent: counters.cnms_sent,
            cnms_received: counters.cnms_received,
            watchdog_storms: self.storms(index),
        })
    }
}

impl Model for Network {
    const OBSERVATION: u64 = OBSERVATION;

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

    #[inline]
    fn is_finished(&self) -> bool {
        self.finished
    }
}

impl Network {
    /// What happens less than once a packet stays out of the run loop's way.
    #[inline(never)]
    fn handle_rare(&mut self, event: Event, now: Time, queue: &mut EventQueue) {
        match event {
            Event::FlowStart(workload) => self.on_flow_start(workload, now, queue),
            Event::FlowStop(flow) => self.on_flow_stop(flow, now, queue),
            Event::HostDrain(host) => self.on_host_drain(host, now, queue),
            Event::DatagramDue(stream) => self.on_datagram_due(stream, now, queue),
            Event::RateRelease(limiter) => self.on_rate_release(limiter, now, queue),
            Event::RateTimer(limiter) => self.on_rate_timer(limiter, now, queue),
            Event::Failure(number) => self.on_failure(number, now, queue),
            Event::Reroute(_) => self.on_reroute(),
            Event::Watchdog(lane) => self.on_watchdog(lane, now, queue),
            Event::Sample => self.on_sample(now, queue),
            Event::Detect => self.on_detect(now, queue),
            Event::States => self.on_states(now, queue),
            _ => unreachable!("the run loop handles it itself"),
        }
    }
}

/// The priorities of everything that a network can send, ascending: its classes.
fn priorities_in_use(settings: &Settings) -> Vec<Priority> {
    let mut priorities: Vec<Priority> = settings.transports.iter().map(|t| t.priority).collect();
    priorities.extend(settings.vlans.iter().flat_map(|vlans| &vlans.lanes));
    priorities.extend(settings.qcn.iter().map(|qcn| qcn.cnm_priority));
    priorities.sort_unstable();
    priorities.dedup();
    priorities
}

/// Hosts, switches, and each node's number among its kind.
fn nodes(topology: &Topology, settings: &Settings) -> (Vec<Host>, Vec<Switch>, IndexVec<NodeId, u32>) {
    let seed = settings.seed;
    let (mut hosts, mut switches, mut number) = (Vec::new(), Vec::new(), IndexVec::new());
    for (id, node) in topology.nodes().iter_enumerated() {
        match node.kind {
            NodeKind::Host => {
                assert!(node.ports.len() == 1, "host {} has {} links, not one", node.name, node.ports.len());
                number.push(hosts.len() as u32);
                let draws = |label| stream(seed, label, u64::from(id.0));
                let own = settings.wire_jitters.iter().find(|own| own.host == id);
                let jitters =
                    own.map_or([settings.wire_jitter, Span::ZERO], |own| [own.to_switch, own.to_host]);
                let [out, back] = jitters;
                let wire = [
                    Unsteady { jitter: out, draws: draws("wire jitter") },
                    Unsteady { jitter: back, draws: draws("wire jitter to host") },
                ];
                hosts.push(Host::new(node.ports[0], draws("jitter"), wire));
            }
            NodeKind::Switch => {
                number.push(switches.len() as u32);
                let spray: Rng = stream(seed, "spray", u64::from(id.0));
                switches.push(Switch { node: id, pools: Default::default(), spray });
            }
        }
    }
    (hosts, switches, number)
}

fn ports(topology: &Topology, number: &IndexVec<NodeId, u32>) -> IndexVec<PortId, Port> {
    let all = topology.links().ids().flat_map(|link| [PortId::of_link(link, 0), PortId::of_link(link, 1)]);
    let of_kind = |node: NodeId, kind: NodeKind| {
        if topology.nodes()[node].kind == kind { number[node] } else { NIL }
    };
    all.map(|port| {
        let channel = topology.channel(port);
        Port {
            busy_until: Time::ZERO,
            delay: channel.delay,
            rate: LineRate::new(channel.rate),
            in_flight: Fifo::EMPTY,
            control: Fifo::EMPTY,
            to_switch: of_kind(topology.peer(port), NodeKind::Switch),
            to_host: of_kind(topology.peer(port), NodeKind::Host),
            from_host: of_kind(topology.owner(port), NodeKind::Host),
            ready: 0,
            paused: 0,
            tx_pending: false,
            in_pipeline: false,
        }
    })
    .collect()
}

/// The lanes of all ports, each with the number of its switch.
fn idle_lanes(topology: &Topology, number: &IndexVec<NodeId, u32>, class_bits: u32) -> Vec<Lane> {
    let ports = topology.links().ids().flat_map(|link| [PortId::of_link(link, 0), PortId::of_link(link, 1)]);
    let switch = |port: PortId| {
        let owner = topology.owner(port);
        if topology.nodes()[owner].kind == NodeKind::Switch { number[owner] } else { NIL }
    };
    ports.flat_map(|port| std::iter::repeat_n(Lane::idle(switch(port)), 1 << class_bits)).collect()
}

/// The largest number of links between two hosts; all hosts at a switch are alike.
fn longest_path(topology: &Topology, routes: &NextHops) -> usize {
    let mut attached: Vec<(NodeId, NodeId)> =
        topology.hosts().map(|host| (topology.peer(topology.nodes()[host].ports[0]), host)).collect();
    attached.sort_unstable();
    attached.dedup_by_key(|(switch, _)| *switch);
    let pairs = attached.iter().flat_map(|(_, a)| attached.iter().map(move |(_, b)| (*a, *b)));
    pairs.map(|(a, b)| routes.distance(a, b)).max().unwrap_or(0).max(2) as usize
}
