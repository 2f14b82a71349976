//! `[routing]`: shortest paths (ecmp, spray), or forwarding tables from an engine or a file.

use super::engines::{ENGINES, Engine};
use super::planned::{Fabric, known_host};
use pauseframe_fabric::hash_index::{HashIndex, HashIndexSettings, HopWeights};
use pauseframe_fabric::path_hash::{HashFields, HashFunction, HashSeeds, PathHashSettings};
use pauseframe_fabric::{ArsMode, ArsSettings, ConWeaveSettings, HopChoice};
use pauseframe_routing::verify::Tables;
use pauseframe_schema::document::{Item, Value};
use pauseframe_schema::ledger::Origin;
use pauseframe_schema::reader::Table;
use pauseframe_schema::{choices, table};
use pauseframe_units::{BitRate, Priority, Span};
use std::sync::Arc;

/// `[routing]`.
#[derive(Clone, PartialEq, Debug)]
pub struct RoutingSpec {
    /// Shortest paths, or VLANs with forwarding tables.
    pub kind: RoutingKind,
    /// Time from a failure or repair to new shortest paths; tables of VLANs do not change.
    pub convergence: Span,
    /// How switches choose among equal next hops.
    pub hash: PathHashSettings,
    /// Links between switches that share hosts are peer links of MLAG.
    pub mlag: bool,
    /// Priorities that outer headers have in the tunnels between ToRs.
    pub tunnel_remap: Vec<TunnelClass>,
    /// Settings of the kinds with forwarding tables; `None` for the others.
    pub vlans: Option<VlanRoutingSpec>,
}

/// The way to find the next hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RoutingKind {
    /// One of the shortest paths by a hash of the flow, salted per switch.
    Ecmp,
    /// A next hop on a shortest path for every packet or flowlet, chosen by each switch.
    Hops(HopChoice),
    /// The row for the packet's VLAN in forwarding tables.
    Vlans,
}

/// Forwarding tables, and how hosts choose among their VLANs.
#[derive(Clone, PartialEq, Debug)]
pub struct VlanRoutingSpec {
    /// How hosts choose among the VLANs.
    pub use_of: UseOfTables,
    /// The tables.
    pub tables: PlannedTables,
}

/// The tables of a scenario.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PlannedTables(pub Arc<Tables>);

table! {
    /// How packets find their way
    pub struct OnTheSpot as "Routing" {
        /// Time from a failure or repair until all switches have new routes
        convergence: Span = or_in(Span::from_ms(10), Span::ZERO..=Span::from_secs(3600));
        /// How switches choose a next hop for each packet
        spray: Spray = by(spray);
        /// The function by which switches choose among equal next hops (docs/models/routing.md)
        #[source = "SAI: SAI_HASH_ALGORITHM; Broadcom RTAG7; Linux: net/ipv4/route.c, fib_multipath_hash"]
        hash: HashFunction = or(HashFunction::Ideal);
        /// The fields that enter the hash
        #[source = "Linux: fib_multipath_hash_policy 1, 0 and 2; SAI: SAI_NATIVE_HASH_FIELD_IPV6_FLOW_LABEL, _RDMA_BTH_DEST_QP"]
        hash_fields: HashFields = or(HashFields::FiveTuple) => {
            acts_with_hash(t, "hash_fields", hash, hash_fields != HashFields::FiveTuple);
            let able = hash != HashFunction::Siphash || hash_fields != HashFields::FiveTupleAndPair;
            t.check(able, "hash_fields", || "Linux's routers read no queue pair".to_owned(), "use \"5-tuple\", or a hash of switches such as \"crc32\"");
        };
        /// Seeds of the hash: each switch its own (its number), or one for each tier (0, 10, 25, 40, 50), or 0 for all; with siphash, drawn for each switch or for all
        #[source = "SONiC: switch.json.j2, ecmp_hash_seed by role; Linux: fib_multipath_hash_seed"]
        hash_seeds: HashSeeds = or(HashSeeds::Switch) => {
            acts_with_hash(t, "hash_seeds", hash, hash_seeds != HashSeeds::Switch);
            let able = hash != HashFunction::Siphash || hash_seeds != HashSeeds::Tier;
            t.check(able, "hash_seeds", || "Linux's routers have no seeds by tier".to_owned(), "use \"switch\" or \"same\"");
        };
        /// Bits by which the hash is rotated, by tier, from that of the hosts' switches on; a missing one is 0
        #[source = "SONiC: ecmp_hash_offset 10 on LeafRouter"]
        hash_offsets: Vec<u32> = or(Vec::new()) => {
            let fits = hash_offsets.iter().all(|offset| *offset < 32);
            t.check(fits, "hash_offsets", || "an offset is not below 32".to_owned(), "");
            acts_with_hash(t, "hash_offsets", hash, !hash_offsets.is_empty());
            let able = hash != HashFunction::Siphash || hash_offsets.is_empty();
            t.check(able, "hash_offsets", || "Linux's routers do not rotate their hash".to_owned(), "remove it");
        };
        /// How the hash becomes the number of a next hop (docs/models/routing.md)
        #[source = "Linux: net/ipv4/fib_semantics.c, net/ipv4/nexthop.c; SONiC: FG_NHG"]
        index: HashIndex = or(HashIndex::Modulo);
        /// Weights of next hops on shortest paths: equal, or what the links behind each can carry (WCMP)
        #[source = "Zhou et al., EuroSys 2014; Linux: fib_rebalance"]
        weights: HopWeights = or(HopWeights::Equal) => {
            let able = weights == HopWeights::Equal || index != HashIndex::Modulo;
            let message = || "a remainder gives each next hop the same share".to_owned();
            t.check(able, "weights", message, "set routing.index = \"threshold\" or \"resilient\"");
        };
        /// Buckets of a switch for each group of next hops, with index = "resilient"; a multiple of all numbers of next hops divides evenly
        #[source = "Linux: nexthop group, buckets; SONiC: FG_NHG bucket_size"]
        buckets: u32 = or_in(128, 1..=65_535) => {
            let message = || "index is not \"resilient\"".to_owned();
            let able = index == HashIndex::Resilient || buckets == 128;
            t.check(able, "buckets", message, "set routing.index = \"resilient\", or remove it");
        };
        /// Whether links between two switches that share hosts are peer links (MLAG): packets cross them only where no other way is left
        #[source = "SONiC: MCLAG_DOMAIN, peer_link"]
        mlag: bool = by(mlag);
        /// With host.port_choice = "mux": priorities of the outer header, by that of the packet, in the tunnel to the active ToR; others stay as they are
        #[source = "SONiC: TUNNEL, encap_tc_to_queue_map and encap_tc_to_dscp_map"]
        tunnel_remap: Vec<TunnelClass> = by(tunnel_remap);
    }
    pub fn read(t);
}

/// Whether flows have a path, which packets that are sprayed have not.
fn has_paths(t: &Table) -> bool {
    t.chosen() == "ecmp"
}

/// Lets a key of flows with paths pass where its value asks for nothing; false.
fn excuse(t: &mut Table, key: &'static str, asks_nothing: impl Fn(&Item) -> bool) -> bool {
    if t.item.and_then(|item| item.get(key)).is_some_and(asks_nothing) {
        t.excuse(key);
    }
    false
}

fn spray(t: &mut Table, key: &'static str, doc: &str) -> Spray {
    if t.chosen() == "spray" { t.or(key, Spray::Random, doc) } else { Spray::Random }
}

fn mlag(t: &mut Table, key: &'static str, doc: &str) -> bool {
    let is_off = |item: &Item| item.value == Value::Bool(false);
    if has_paths(t) { t.or(key, false, doc) } else { excuse(t, key, is_off) }
}

fn tunnel_remap(t: &mut Table, key: &'static str, doc: &str) -> Vec<TunnelClass> {
    if has_paths(t) {
        return t.rows_or_empty(key, doc, TunnelClass::read);
    }
    excuse(t, key, |item| item.value == Value::Array(Vec::new()));
    Vec::new()
}

table! {
    /// The priority of packets in a tunnel
    #[derive(Copy)]
    pub struct TunnelClass {
        /// Priority of the packet
        priority: Priority = required_in(Priority::ALL);
        /// Priority of its outer header
        outer: Priority = required_in(Priority::ALL);
    }
    pub fn try_read(t);
}

/// The ideal hash has nothing to choose.
fn acts_with_hash(t: &mut Table, key: &str, hash: HashFunction, is_changed: bool) {
    let message = || "the ideal hash has no fields, seeds and offsets to choose".to_owned();
    let hint = "set routing.hash to a function of switches, such as \"crc32\"";
    t.check(!is_changed || hash != HashFunction::Ideal, key, message, hint);
}

table! {
    /// How packets find their way: a random next hop for each flowlet
    pub struct LetFlow as "Routing" {
        /// Time from a failure or repair until all switches have new routes
        convergence: Span = or_in(Span::from_ms(10), Span::ZERO..=Span::from_secs(3600));
        /// A longer gap between two packets of a flow begins a flowlet, which may take another port
        #[source = "ConWeave's simulator: 100 us; the paper of LetFlow (NSDI 2017): 500 us"]
        flowlet_gap: Span = or_in(Span::from_us(100), Span(1)..=Span::from_secs(1));
    }
    pub fn read(t);
}

table! {
    /// How packets find their way: the shortest queue of a few random next hops
    pub struct Drill as "Routing" {
        /// Time from a failure or repair until all switches have new routes
        convergence: Span = or_in(Span::from_ms(10), Span::ZERO..=Span::from_secs(3600));
        /// Random next hops whose queues are compared, besides the last choice for the destination
        #[source = "DRILL (SIGCOMM 2017): d = 2, m = 1"]
        samples: u32 = or_in(2, 1..=64);
    }
    pub fn read(t);
}

table! {
    /// How packets find their way: the shortest queue of all next hops
    pub struct Adaptive as "Routing" {
        /// Time from a failure or repair until all switches have new routes
        convergence: Span = or_in(Span::from_ms(10), Span::ZERO..=Span::from_secs(3600));
    }
    pub fn read(t);
}

/// Why keys of flowlets are idle.
const EACH_PACKET: &str = "mode chooses for each packet";

table! {
    /// How packets find their way: by the quality of ports, for each flowlet or packet
    pub struct Ars as "Routing" {
        /// Time from a failure or repair until all switches have new routes
        convergence: Span = or_in(Span::from_ms(10), Span::ZERO..=Span::from_secs(3600));
        /// What is moved, and how: flowlets or packets, to the best quality or at random
        #[source = "SAI: saiars.h, SAI_ARS_MODE; default per flowlet by quality"]
        mode: ArsMode = or(ArsMode::FlowletQuality);
        /// A longer gap between two packets of a flow begins a flowlet
        #[source = "SAI: SAI_ARS_ATTR_IDLE_TIME 256 us; Junos: 16 us"]
        idle_time: Span = or_in(Span::from_us(256), Span(1)..=Span::from_secs(1)) => {
            let able = mode != ArsMode::Fixed || idle_time == Span::from_us(256);
            t.check(able, "idle_time", || "with mode = \"fixed\" a gap moves no flow".to_owned(), "remove it");
            let by_packet = !mode.keeps_flowlets();
            t.warn_if_idle("idle_time", by_packet && idle_time != Span::from_us(256), EACH_PACKET);
        };
        /// Flowlets that a switch remembers for each group of next hops; flows with the same hash share one
        #[source = "SAI: SAI_ARS_ATTR_MAX_FLOWS 512"]
        flow_states: u32 = or_in(512, 1..=1 << 20) => {
            t.warn_if_idle("flow_states", !mode.keeps_flowlets() && flow_states != 512, EACH_PACKET);
        };
        /// Age from which on the load and the queue of a port are looked at again
        #[source = "SAI: SAI_ARS_PROFILE_ATTR_SAMPLING_INTERVAL 16 us"]
        sampling_interval: Span = or_in(Span::from_us(16), Span(1)..=Span::from_secs(1));
        /// Load in per cent below which a port is in the best of eight bands
        #[source = "Junos: example of dynamic load balancing"]
        low_load: u32 = or_in(20, 0..=99);
        /// Load in per cent from which on a port is in the worst band
        #[source = "Junos: example of dynamic load balancing"]
        high_load: u32 = or_in(80, 1..=100) => {
            t.check(low_load < high_load, "high_load", || "is not above low_load".to_owned(), "");
            let changed = [
                ("sampling_interval", sampling_interval != Span::from_us(16)),
                ("low_load", low_load != 20),
                ("high_load", high_load != 80),
            ];
            for (key, is_changed) in changed {
                t.warn_if_idle(key, is_changed && !mode.takes_best(), "mode takes ports at random");
            }
        };
    }
    pub fn read(t);
}

const CONTROL_PRIORITY: Priority = Priority::new(7).expect("below 8");

table! {
    /// How packets find their way: leaf switches measure round trips, leave slow paths, and restore the order of packets
    pub struct ConWeave as "Routing" {
        /// Time from a failure or repair until all switches have new routes
        convergence: Span = or_in(Span::from_ms(10), Span::ZERO..=Span::from_secs(3600));
        /// Time after the unloaded round trip between the leaf switches at which a reply is late, so that the flow is rerouted
        #[source = "ConWeave's simulator: 4 us (50 KB at 100 Gb/s); ours: in proportion on slower links"]
        reply_slack: Span = or_in(Span::from_us(4), Span(1)..=Span::from_secs(1));
        /// Time for which no flow is rerouted to a path after a notice that a packet was marked on it
        #[source = "ConWeave's simulator: run.py 16 us, its code 8 us"]
        path_busy: Span = or_in(Span::from_us(16), Span::ZERO..=Span::from_secs(1));
        /// A longer gap between two packets of a flow begins an epoch, on any path
        #[source = "ConWeave's simulator: two tiers 300 us, three 1 ms"]
        epoch_idle: Span = or_in(Span::from_us(300), Span(1)..=Span::from_secs(1));
        /// Time that rerouted packets are held beyond the expected arrival of the last packet on the old path
        #[source = "ConWeave's simulator: 16 us, three tiers with PFC 64 us; ours: longer in proportion below 100 Gb/s"]
        tail_slack: Span = or_in(Span::from_us(16), Span::ZERO..=Span::from_secs(1));
        /// Time that rerouted packets are held if no packet of their epoch has come on the old path
        #[source = "ConWeave's simulator: two tiers 200 us, three 300 us, with PFC 600 us; ours: longer in proportion below 100 Gb/s"]
        blind_wait: Span = or_in(Span::from_us(200), Span::ZERO..=Span::from_secs(1));
        /// Flows whose packets a port can hold at once; packets of further flows are passed on out of order
        #[source = "ConWeave's simulator: no limit"]
        hold_queues: u32 = or_in(65_535, 0..=65_535);
        /// Priority of replies and notices between leaf switches
        #[source = "ConWeave's simulator: the highest, as of acknowledgements"]
        control_priority: Priority = or_in(CONTROL_PRIORITY, Priority::ALL);
    }
    pub fn read(t);
}

impl ConWeave {
    fn choice(&self) -> HopChoice {
        HopChoice::ConWeave(ConWeaveSettings {
            reply_slack: self.reply_slack,
            path_busy: self.path_busy,
            idle: self.epoch_idle,
            tail_slack: self.tail_slack,
            blind_wait: self.blind_wait,
            hold_queues: self.hold_queues,
            control_priority: self.control_priority,
        })
    }
}

impl Ars {
    fn choice(&self) -> HopChoice {
        let &Ars { mode, idle_time: idle, flow_states, sampling_interval: sampling, .. } = self;
        HopChoice::Ars(ArsSettings {
            mode,
            idle,
            flow_states,
            sampling,
            low: self.low_load,
            high: self.high_load,
        })
    }
}

impl OnTheSpot {
    fn path_hash(self) -> PathHashSettings {
        let index = HashIndexSettings { index: self.index, weights: self.weights, buckets: self.buckets };
        let OnTheSpot {
            hash: function, hash_fields: fields, hash_seeds: seeds, hash_offsets: offsets, ..
        } = self;
        PathHashSettings { function, fields, seeds, offsets, index }
    }
}

table! {
    /// How packets find their way
    pub struct UseOfTables as "Routing" {
        /// How a sender picks among the VLANs with the shortest routes: at random, the less loaded of two random ones,
        /// the least loaded (by open flows), or as planned for the demand
        choice: ChoiceName = or(ChoiceName::Random);
        /// Whether a sender picks a VLAN per flow or per packet
        per: Per = or(Per::Flow) => {
            let message = || "only a random choice can be made for every packet: load is counted in flows".to_owned();
            let able = per == Per::Flow || choice == ChoiceName::Random;
            t.check(able, "per", message, "set choice = \"random\"");
        };
        /// Maximum number of links by which a route may exceed the shortest; useful only if the choice depends on load
        slack: u16 = or_in(0, 0..=16);
        /// Expected traffic: src, dst, rate
        demand: Vec<DemandEntry> = rows("[]", |t| DemandEntry::read(t, fabric)) => {
            let used = choice == ChoiceName::Demand;
            let message = || "is required for choice = \"demand\"".to_owned();
            t.check(!used || !demand.is_empty(), "demand", message, "list rows such as { src, dst, rate }");
            let message = || "is not looked at: choice is not \"demand\"".to_owned();
            t.check(used || demand.is_empty(), "demand", message, "set choice = \"demand\", or remove it");
        };
    }
    pub fn read(t, fabric: &Fabric);
}

table! {
    /// The mean rate between two hosts
    pub struct DemandEntry as "Demand" {
        /// Sending host
        src: String = try_by(known_host, fabric);
        /// Receiving host
        dst: String = try_by(known_host, fabric);
        /// Mean rate
        rate: BitRate = required_in(BitRate(1)..=BitRate(u64::MAX)) => {
            t.check(src.is_none() || src != dst, "dst", || "src and dst are the same host".to_owned(), "name another host");
        };
    }
    pub fn try_read(t, fabric: &Fabric);
}

choices! {
    /// How switches spray packets
    pub enum Spray {
        /// Each packet to a random next hop
        Random = "random",
        /// Packets to all next hops in turn, with a turn for each group of next hops
        RoundRobin = "round_robin",
    }
}

choices! {
    /// How a sender chooses its VLAN
    pub enum ChoiceName {
        /// Uniformly at random
        Random = "random",
        /// The less loaded of two random ones
        BestOfTwo = "best_of_two",
        /// The least loaded of all
        LeastLoaded = "least_loaded",
        /// Fixed for each pair by a planner that knows the demand
        Demand = "demand",
    }
}

choices! {
    /// How often a sender chooses its VLAN
    pub enum Per {
        /// Once
        Flow = "flow",
        /// For every packet
        Packet = "packet",
    }
}

impl RoutingSpec {
    fn of_hops(choice: HopChoice, convergence: Span) -> RoutingSpec {
        RoutingSpec {
            kind: RoutingKind::Hops(choice),
            convergence,
            hash: PathHashSettings::IDEAL,
            mlag: false,
            tunnel_remap: Vec::new(),
            vlans: None,
        }
    }

    /// The key that causes packets of a flow to overtake each other, if any.
    pub fn reorders(&self) -> Option<&'static str> {
        match self.kind {
            RoutingKind::Hops(HopChoice::Spray | HopChoice::RoundRobin) => Some("routing.kind = spray"),
            RoutingKind::Hops(HopChoice::Drill { .. }) => Some("routing.kind = drill"),
            RoutingKind::Hops(HopChoice::Adaptive) => Some("routing.kind = adaptive"),
            RoutingKind::Hops(HopChoice::Ars(ars)) if !ars.mode.keeps_flowlets() => {
                Some("routing.mode of packets")
            }
            _ => self.picks_a_vlan_per_packet().then_some("routing.per = packet"),
        }
    }

    /// Whether senders pick a VLAN for every packet.
    pub(crate) fn picks_a_vlan_per_packet(&self) -> bool {
        self.vlans.as_ref().is_some_and(|vlans| vlans.use_of.per == Per::Packet)
    }

    /// The priority of frames that switches send to each other.
    pub(crate) fn priority_between_switches(&self) -> Option<Priority> {
        if let RoutingKind::Hops(choice) = self.kind { choice.control_priority() } else { None }
    }

    /// The settings of `ConWeave`, if it chooses next hops.
    pub(crate) fn conweave(&self) -> Option<&ConWeaveSettings> {
        if let RoutingKind::Hops(HopChoice::ConWeave(settings)) = &self.kind { Some(settings) } else { None }
    }

    /// The same, to change what depends on the fabric.
    pub(crate) fn conweave_mut(&mut self) -> Option<&mut ConWeaveSettings> {
        if let RoutingKind::Hops(HopChoice::ConWeave(settings)) = &mut self.kind {
            Some(settings)
        } else {
            None
        }
    }

    /// Virtual lanes of the tables, each a lossless priority; 0 without tables.
    pub fn lanes(&self) -> usize {
        self.vlans.as_ref().map_or(0, |vlans| vlans.tables.0.lanes())
    }
}

#[derive(Clone, Copy)]
enum Kind {
    OnTheSpot(RoutingKind),
    LetFlow,
    Drill,
    Adaptive,
    Ars,
    ConWeave,
    Tables(Engine),
}

/// The kinds: shortest paths, and engines, each with its keys.
fn kinds() -> Vec<(&'static str, Kind)> {
    let on_the_spot = [
        ("ecmp", Kind::OnTheSpot(RoutingKind::Ecmp)),
        ("spray", Kind::OnTheSpot(RoutingKind::Hops(HopChoice::Spray))),
        ("letflow", Kind::LetFlow),
        ("drill", Kind::Drill),
        ("adaptive", Kind::Adaptive),
        ("ars", Kind::Ars),
        ("conweave", Kind::ConWeave),
    ];
    on_the_spot
        .into_iter()
        .chain(ENGINES.iter().map(|&(name, engine)| (name, Kind::Tables(engine))))
        .collect()
}

pub(crate) fn routing(t: &mut Table, fabric: &Fabric) -> RoutingSpec {
    t.about("Routing", "How packets find their way");
    let doc = "Shortest paths, chosen by a hash of the flow (ecmp), at random or in turn for every packet (spray), at random for every flowlet (letflow), or for every \
               packet by the shortest queue of some (drill) or all next hops (adaptive), by port quality (ars), or by measured round trips without reordering (conweave); or VLANs with forwarding tables from an engine or a file (plan)";
    let default = Some(("ecmp", Origin::Default, "\"ecmp\""));
    match t.variant("kind", default, &kinds(), doc) {
        Some(Kind::OnTheSpot(kind)) => {
            let spec = OnTheSpot::read(t);
            let message = || "spray draws a port for each packet and hashes nothing".to_owned();
            let is_ecmp = kind == RoutingKind::Ecmp;
            t.check(
                is_ecmp || spec.hash == HashFunction::Ideal,
                "hash",
                message,
                "use kind = \"ecmp\", or remove it",
            );
            t.check(
                is_ecmp || spec.index == HashIndex::Modulo,
                "index",
                message,
                "use kind = \"ecmp\", or remove it",
            );
            let OnTheSpot { convergence, mlag, ref tunnel_remap, .. } = spec;
            let tunnel_remap = tunnel_remap.clone();
            let in_turn = spec.spray == Spray::RoundRobin;
            let kind = if in_turn { RoutingKind::Hops(HopChoice::RoundRobin) } else { kind };
            RoutingSpec { kind, convergence, mlag, tunnel_remap, hash: spec.path_hash(), vlans: None }
        }
        Some(Kind::LetFlow) => {
            let LetFlow { convergence, flowlet_gap: gap } = LetFlow::read(t);
            RoutingSpec::of_hops(HopChoice::LetFlow { gap }, convergence)
        }
        Some(Kind::Drill) => {
            let Drill { convergence, samples } = Drill::read(t);
            RoutingSpec::of_hops(HopChoice::Drill { samples }, convergence)
        }
        Some(Kind::Adaptive) => RoutingSpec::of_hops(HopChoice::Adaptive, Adaptive::read(t).convergence),
        Some(Kind::Ars) => {
            let ars = Ars::read(t);
            RoutingSpec::of_hops(ars.choice(), ars.convergence)
        }
        Some(Kind::ConWeave) => {
            let conweave = ConWeave::read(t);
            RoutingSpec::of_hops(conweave.choice(), conweave.convergence)
        }
        None => RoutingSpec {
            kind: RoutingKind::Ecmp,
            convergence: Span::ZERO,
            hash: PathHashSettings::IDEAL,
            mlag: false,
            tunnel_remap: Vec::new(),
            vlans: None,
        },
        Some(Kind::Tables(engine)) => {
            let tables = engine(t, fabric);
            let use_of = UseOfTables::read(t, fabric);
            let vlans =
                tables.map(|tables| VlanRoutingSpec { use_of, tables: PlannedTables(Arc::new(tables)) });
            let (kind, hash) = (RoutingKind::Vlans, PathHashSettings::IDEAL);
            let (convergence, mlag, tunnel_remap) = (Span::ZERO, false, Vec::new());
            RoutingSpec { kind, convergence, hash, mlag, tunnel_remap, vlans }
        }
    }
}
