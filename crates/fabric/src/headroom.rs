//! Headroom: the bytes that can still arrive after an ingress account has exceeded XOFF, term by term.
//!
//! It follows IEEE 802.1Qbb Annex O. The terms in order: a full frame in service on the reverse link; one pause frame of each other lossless class
//! and the pause frame itself; its propagation; the reaction time; a full frame that started just before the pause took effect; its propagation; and
//! the jitter of both directions; and the forwarding pipeline, after which packets count (`SONiC`'s tables: `pipeline_latency`). Finally the frame that exceeded XOFF, all but one byte of which is in the headroom. Left out: the allowances of
//! Annex O for cables and PHYs beyond the link's delay.

use crate::ids::SlotId;
use crate::plan::{MIN_DATAGRAM_BYTES, NetworkPlan};
use crate::settings::{
    BufferPolicy, DualTorSettings, FrameOverhead, HeadroomPoolSettings, PfcSettings, SwitchOverride,
};
use pauseframe_topology::{Channel, NodeKind};
use pauseframe_units::{BitRate, Bytes, IndexVec, NodeId, PortId, Priority, Span, counted};

/// The terms of the headroom of one link for one class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkHeadroom {
    /// Transmission time of a full frame in service on the reverse link.
    pub frame_ahead: Span,
    /// Transmission time of this pause frame and of one of each other lossless class ahead of it.
    pub pause_frames: Span,
    /// Propagation of the pause frame.
    pub delay_back: Span,
    /// Reaction time from its last bit to its effect.
    pub reaction: Span,
    /// Time in the forwarding pipeline of the switch, before a packet counts.
    pub pipeline: Span,
    /// Transmission time of a full frame that started just before the effect.
    pub last_frame: Span,
    /// Propagation of the data.
    pub delay: Span,
    /// Maximum jitter of the pause frame.
    pub jitter_back: Span,
    /// Maximum jitter of the data.
    pub jitter: Span,
    /// Bytes that the link carries in the sum of these times, without preambles and gaps.
    pub arriving: Bytes,
    /// Bytes of the frame that crosses XOFF beyond XOFF: all but one.
    pub crossing: Bytes,
}

impl LinkHeadroom {
    /// For a link without jitter. Data arrive by `data`, pause frames leave by `back`. `max_frame`: largest frame without preamble and gap, bytes;
    /// `lossless`: number of lossless classes.
    pub fn new(
        data: Channel,
        back: Channel,
        max_frame: u32,
        overhead: FrameOverhead,
        reaction: Span,
        lossless: u32,
    ) -> LinkHeadroom {
        let in_flight_frames = |frame: u32| Bytes(u64::from(frame + overhead.gap));
        let mut terms = LinkHeadroom {
            frame_ahead: back.rate.serialise(in_flight_frames(max_frame)),
            pause_frames: back.rate.serialise(in_flight_frames(FrameOverhead::PAUSE_FRAME))
                * u64::from(lossless),
            delay_back: back.delay,
            reaction,
            pipeline: Span::ZERO,
            last_frame: data.rate.serialise(in_flight_frames(max_frame)),
            delay: data.delay,
            jitter_back: Span::ZERO,
            jitter: Span::ZERO,
            arriving: Bytes::ZERO,
            crossing: Bytes(u64::from(max_frame) - 1),
        };
        terms.compute_bytes_after_xoff(data.rate, overhead);
        terms
    }

    /// Adds jitter: up to `jitter` for the data, sent at `rate`, and up to `jitter_back` for pause frames.
    #[must_use]
    pub fn with_jitter(
        mut self,
        jitter: Span,
        jitter_back: Span,
        rate: BitRate,
        overhead: FrameOverhead,
    ) -> LinkHeadroom {
        (self.jitter, self.jitter_back) = (jitter, jitter_back);
        self.compute_bytes_after_xoff(rate, overhead);
        self
    }

    /// Adds the time that packets spend in the pipeline of the switch before they count.
    #[must_use]
    pub fn with_pipeline(mut self, pipeline: Span, rate: BitRate, overhead: FrameOverhead) -> LinkHeadroom {
        self.pipeline = pipeline;
        self.compute_bytes_after_xoff(rate, overhead);
        self
    }

    fn compute_bytes_after_xoff(&mut self, rate: BitRate, overhead: FrameOverhead) {
        // Preambles and gaps do not reach the buffer; full frames have the smallest share of them.
        let (wire, frame) = (rate.bytes_in(self.headroom_time()).0 + 1, self.crossing.0 + 1);
        self.arriving = Bytes((wire * frame).div_ceil(frame + u64::from(overhead.gap)));
    }

    /// Makes room for outer headers: a switch accounts a packet with the header of the tunnel that it sends it into.
    fn add_outer_headers(&mut self, rate: BitRate, overhead: FrameOverhead) {
        let wire = rate.bytes_in(self.headroom_time()).0 + 1;
        let smallest = u64::from(overhead.frame_size(MIN_DATAGRAM_BYTES, Priority::default()));
        let accounted = smallest + u64::from(DualTorSettings::HEADER_BYTES);
        self.arriving = Bytes((wire * accounted).div_ceil(smallest + u64::from(overhead.gap)));
    }

    /// Time from the crossing of XOFF to the arrival of the last bit sent before the pause took effect.
    pub fn headroom_time(&self) -> Span {
        let way_back = self.frame_ahead + self.pause_frames + self.delay_back + self.jitter_back;
        way_back + self.reaction + self.last_frame + self.delay + self.jitter + self.pipeline
    }

    /// Maximum additional delay of a renewing pause frame relative to the first one: a frame in service, other pause frames and jitter.
    pub fn max_renewal_delay(&self) -> Span {
        self.frame_ahead + self.pause_frames + self.jitter_back
    }

    /// Total headroom in bytes.
    pub fn headroom_bytes(&self) -> Bytes {
        Bytes(self.arriving.0 + self.crossing.0)
    }
}

/// Thresholds of a switch for an ingress link and priority, and the headroom that the link needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadroomReport {
    /// The port that sends.
    pub port: PortId,
    /// A lossless priority.
    pub priority: Priority,
    /// What the link needs.
    pub needed: LinkHeadroom,
    /// XOFF, XON and the headroom that the switch gives.
    pub limits: PauseThresholds,
}

/// Headroom pool that the (port, priority) pairs of a switch share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SwitchHeadroomPool {
    /// The switch.
    pub switch: NodeId,
    /// Size of the pool in bytes.
    pub size: u64,
    /// Sum of all headrooms.
    pub needed: u64,
    /// Number of (port, priority) pairs that share it.
    pub groups: usize,
    /// Number of pairs that it covers at once in the worst case.
    pub suffices_for: usize,
}

/// Thresholds and buffer reservations of all nodes, computed from the plan.
#[derive(Debug, Default)]
pub(crate) struct BufferReservations {
    /// Ingress thresholds by slot.
    pub(crate) limits: IndexVec<SlotId, PauseThresholds>,
    /// Size of the shared pools by switch.
    pub(crate) pools: Vec<[u64; 2]>,
    /// Size of the headroom pool by switch; `u64::MAX` if each (port, class) has its own headroom.
    pub(crate) headroom_pools: Vec<u64>,
    /// Headroom pools with the sum and number of the headrooms they serve.
    pub(crate) pooled: Vec<SwitchHeadroomPool>,
    /// Whether every headroom covers its link, so that a lossless drop is a simulator bug.
    pub(crate) covers: bool,
    warnings: Vec<String>,
    /// A switch whose headroom and reserved bytes leave no shared buffer, and their sum.
    overcommitted: Option<(NodeId, Bytes)>,
}

impl BufferReservations {
    /// Computes XOFF, XON and headroom of every lossless ingress and the size of shared pools. Warns if they cannot prevent losses.
    pub(crate) fn from_plan(plan: &NetworkPlan) -> BufferReservations {
        let limited =
            plan.lossless != 0 || matches!(plan.settings.buffer, BufferPolicy::IdealOutputQueued(_));
        let mut reservations = BufferReservations {
            limits: IndexVec::filled(PauseThresholds::default(), if limited { plan.slot_count() } else { 0 }),
            pools: vec![[0; 2]; plan.switches.len()],
            headroom_pools: vec![u64::MAX; plan.switches.len()],
            covers: !plan.tunnels_lose_lossless(),
            ..BufferReservations::default()
        };
        let (mut short, mut late) = (Vec::new(), Vec::new());
        let mut taken = vec![[0u64; 2]; plan.switches.len()];
        let shared = plan.headroom_pool_settings();
        let mut headrooms: Vec<Vec<u64>> = vec![Vec::new(); plan.switches.len()];
        for port in plan.all_ports().filter(|port| plan.has_ingress_account(*port)) {
            let switch = plan.switch_id(plan.topology.peer(port)).map(|switch| switch.0 as usize);
            for class in 0..plan.priorities.len() as u8 {
                let (slot, pool) = (plan.slot(port, class), plan.pool_index(class));
                let mut take = |bytes: u64| switch.map(|switch| taken[switch][pool] += bytes);
                take(plan.policies[usize::from(class)].reserved);
                // With link pause a link has one account, that of class 0.
                if plan.is_lossless(class) && class & plan.account_mask == class {
                    let (limits, needed) = plan.thresholds_and_headroom(port, class);
                    if limits.headroom < needed.headroom_bytes().0 {
                        short.push((port, limits.headroom, needed.headroom_bytes()));
                    }
                    if plan.pause_duration(port) / 2 < needed.max_renewal_delay() {
                        late.push((port, needed.max_renewal_delay()));
                    }
                    match (shared, switch) {
                        (Some(_), Some(switch)) => headrooms[switch].push(limits.headroom),
                        _ => drop(take(limits.headroom)),
                    }
                    reservations.limits[slot] = limits;
                } else if let (BufferPolicy::IdealOutputQueued(buffer), Some(_)) =
                    (plan.settings.buffer, switch)
                {
                    reservations.limits[slot] = PauseThresholds::for_lossy_ingress(buffer.size);
                }
            }
        }
        if let Some(pool) = shared {
            reservations.add_headroom_pools(plan, pool, headrooms, &mut taken);
        }
        if let BufferPolicy::Shared(_) = plan.settings.buffer {
            reservations.compute_shared_pools(plan, &taken);
        }
        reservations.warn_short_headroom(plan, &short);
        reservations.warn_late_renewal(plan, &late);
        reservations
    }

    /// Adds a headroom pool per switch for these headrooms.
    fn add_headroom_pools(
        &mut self,
        plan: &NetworkPlan,
        pool: HeadroomPoolSettings,
        headrooms: Vec<Vec<u64>>,
        taken: &mut [[u64; 2]],
    ) {
        for (switch, mut needs) in headrooms.into_iter().enumerate().filter(|(_, needs)| !needs.is_empty()) {
            needs.sort_unstable_by(|a, b| b.cmp(a));
            let needed: u64 = needs.iter().sum();
            let by_ratio = || (needed as f64 / pool.over_subscription).ceil() as u64;
            let name = &plan.topology.nodes()[plan.switches[switch]].name;
            let own = SwitchOverride::last(&plan.settings.switch_overrides, name, |row| row.headroom_pool);
            let size = own.or(pool.size).map_or_else(by_ratio, |size| size.0);
            // Counted from the largest headroom on, so the number holds for any combination.
            let mut left = size;
            let fit = needs.iter().take_while(|need| {
                let fits = **need <= left;
                left = left.saturating_sub(**need);
                fits
            });
            let suffices_for = fit.count();
            self.headroom_pools[switch] = size;
            taken[switch][0] += size;
            self.pooled.push(SwitchHeadroomPool {
                switch: plan.switches[switch],
                size,
                needed,
                groups: needs.len(),
                suffices_for,
            });
        }
        self.warn_short_pool(plan);
    }

    fn warn_short_pool(&mut self, plan: &NetworkPlan) {
        let short: Vec<&SwitchHeadroomPool> =
            self.pooled.iter().filter(|pool| pool.size < pool.needed).collect();
        let Some(worst) = short.iter().min_by_key(|pool| (pool.suffices_for, pool.switch)) else { return };
        let SwitchHeadroomPool { switch, size, needed, groups, suffices_for } = **worst;
        self.warnings.push(format!(
            "switch.pfc.headroom_pool: {} shares {} among {groups} (port, priority) that need {} ({:.3} times as much): it \
             suffices for {suffices_for} at once, and what comes beyond is dropped ({} like this)",
            plan.topology.nodes()[switch].name,
            Bytes(size),
            Bytes(needed),
            needed as f64 / size.max(1) as f64,
            counted(short.len(), "switch")
        ));
    }

    /// Computes the shared pools after subtracting headroom and reserved bytes (`taken`, by switch and pool).
    fn compute_shared_pools(&mut self, plan: &NetworkPlan, taken: &[[u64; 2]]) {
        let lossy = plan.settings.buffer.lossy_pool_size().unwrap_or(Bytes::ZERO).0;
        for ((node, pools), taken) in plan.switches.iter().zip(&mut self.pools).zip(taken) {
            let size = plan.buffer_size(*node).0;
            let sizes = [size.saturating_sub(lossy), lossy.min(size)];
            for ((pool, size), taken) in pools.iter_mut().zip(sizes).zip(taken) {
                *pool = size.saturating_sub(*taken);
                if *pool == 0 && *taken > 0 {
                    self.overcommitted.get_or_insert((*node, Bytes(*taken)));
                    let name = &plan.topology.nodes()[*node].name;
                    self.warnings.push(format!(
                        "{name}: headroom and reserved bytes take {} of a buffer of {}: nothing is left to share",
                        Bytes(*taken),
                        Bytes(size)
                    ));
                }
            }
        }
    }

    fn warn_short_headroom(&mut self, plan: &NetworkPlan, short: &[(PortId, u64, Bytes)]) {
        let Some((port, headroom, needed)) = short.first() else { return };
        self.covers = false;
        self.warnings.push(format!(
            "switch.pfc: the headroom for {} is {}, its link needs {needed} ({} like this): lossless packets can \
             be dropped",
            // The headroom is in the switch at the other end, where operators look for it.
            plan.topology.port_name(port.reverse()),
            Bytes(*headroom),
            counted(short.len(), "port")
        ));
    }

    fn warn_late_renewal(&mut self, plan: &NetworkPlan, late: &[(PortId, Span)]) {
        let Some((port, renewal)) = late.first() else { return };
        self.covers = false;
        self.warnings.push(format!(
            "switch.pfc.quanta: a pause of {} lasts {} and is renewed at half of that, but the frame that renews it can \
             come {renewal} late, behind others on the way back ({} like this): the pause can run out and lossless \
             packets can be dropped; ask for more quanta",
            plan.topology.port_name(*port),
            plan.pause_duration(*port),
            counted(late.len(), "port")
        ));
    }
}

impl NetworkPlan {
    /// Warnings to read before trusting a run.
    pub fn warnings(&self) -> &[String] {
        &self.reservations.warnings
    }

    /// A switch whose headroom and reserved bytes leave no shared buffer, and their sum.
    pub fn overcommitted_switch(&self) -> Option<(NodeId, Bytes)> {
        self.reservations.overcommitted
    }

    /// Headroom pools by switch; empty if each (port, priority) has its own headroom.
    pub fn headroom_pools(&self) -> &[SwitchHeadroomPool] {
        &self.reservations.pooled
    }

    /// The configured headroom pool, if buffers are shared.
    fn headroom_pool_settings(&self) -> Option<HeadroomPoolSettings> {
        let is_shared = matches!(self.settings.buffer, BufferPolicy::Shared(_));
        self.settings.pfc.as_ref().and_then(|pfc| pfc.headroom_pool).filter(|_| is_shared)
    }

    /// Needed and configured headroom of every lossless ingress of switches.
    pub fn headroom_reports(&self) -> Vec<HeadroomReport> {
        let to_switches = self.all_ports().filter(|port| self.switch_id(self.topology.peer(*port)).is_some());
        let all =
            to_switches.flat_map(|port| (0..self.priorities.len() as u8).map(move |class| (port, class)));
        all.filter(|(_, class)| self.is_lossless(*class))
            .map(|(port, class)| {
                let (limits, needed) = self.thresholds_and_headroom(port, class);
                HeadroomReport { port, priority: self.priorities[usize::from(class)], needed, limits }
            })
            .collect()
    }

    /// How long a pause of the link from `port` lasts unless renewed.
    fn pause_duration(&self, port: PortId) -> Span {
        let quanta = self.settings.pfc.as_ref().map_or(0, |pfc| pfc.quanta);
        quanta_duration(self.topology.channel(port).rate, quanta)
    }

    /// Ingress thresholds for the link from `port`, and the headroom that it needs.
    pub(crate) fn thresholds_and_headroom(&self, port: PortId, class: u8) -> (PauseThresholds, LinkHeadroom) {
        let pfc = self.settings.pfc.as_ref().expect("a lossless class has PFC settings");
        let overhead = self.settings.overhead;
        let largest = self.largest_ip_packet();
        let mut max_frame = overhead.frame_size(largest, self.priorities[usize::from(class)]);
        if pfc.whole_link {
            // The single account also holds tagged frames.
            max_frame = max_frame.max(overhead.frame_size(largest, *self.priorities.last().expect("in use")));
        }
        let (data, back) = (self.topology.channel(port), self.topology.channel(port.reverse()));
        let accounts = if pfc.whole_link { 1 } else { self.lossless.count_ones() };
        let reaction = PfcSettings::reaction_time(Some(pfc), data.rate);
        let mut needed = LinkHeadroom::new(data, back, max_frame, overhead, reaction, accounts).with_jitter(
            self.max_delay_variation(port),
            self.max_delay_variation(port.reverse()),
            data.rate,
            overhead,
        );
        let is_switch = self.topology.nodes()[self.topology.peer(port)].kind == NodeKind::Switch;
        if is_switch && self.settings.switch_latency > Span::ZERO {
            needed = needed.with_pipeline(self.settings.switch_latency, data.rate, overhead);
        }
        if self.settings.dual_tor.is_some() {
            needed.add_outer_headers(data.rate, overhead);
        }
        if let Some(receiver) = self.slow_receiver(port) {
            return (
                PauseThresholds::for_dedicated_buffer(
                    Bytes(receiver.buffer.0 / self.port_count(receiver.host)),
                    needed.headroom_bytes(),
                    max_frame,
                ),
                needed,
            );
        }
        let own = self.pfc_rule(port.reverse());
        let fixed_headroom = own.and_then(|own| own.headroom).or(pfc.headroom);
        let fixed_xoff = own.and_then(|own| own.xoff).or(pfc.xoff);
        let wanted = fixed_headroom.unwrap_or(needed.headroom_bytes()).0;
        let size = self.buffer_size(self.topology.peer(port)).0;
        let (xoff, headroom) = if matches!(self.settings.buffer, BufferPolicy::Shared(_)) {
            (fixed_xoff.map_or(size, |xoff| xoff.0), wanted)
        } else {
            let xoff = fixed_xoff.map_or(size.saturating_sub(wanted), |xoff| xoff.0);
            (xoff, wanted.min(size.saturating_sub(xoff)))
        };
        let fixed_xon = own.and_then(|own| own.xon).or(pfc.xon);
        let xon = fixed_xon.map_or(xoff.saturating_sub(2 * u64::from(max_frame)), |xon| xon.0);
        let limits = PauseThresholds { xoff, xon: xon.min(xoff), headroom };
        (limits, needed)
    }

    /// XOFF, XON and headroom of the ingress link from `port` at `priority`, if lossless.
    pub fn pause_thresholds(&self, port: PortId, priority: Priority) -> Option<PauseThresholds> {
        let class = self.priorities.iter().position(|p| *p == priority)? as u8;
        let known = self.is_lossless(class) && self.has_ingress_account(port);
        known.then(|| self.reservations.limits[self.slot(port, class & self.account_mask)])
    }
}

/// Bits in a quantum of pause time (IEEE 802.3 Annex 31B).
const PAUSE_QUANTUM_BITS: u64 = 512;

/// The thresholds of one ingress (port, class), in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PauseThresholds {
    /// Pause above.
    pub xoff: u64,
    /// Resume at or below.
    pub xon: u64,
    /// Bytes available above XOFF.
    pub headroom: u64,
}

impl PauseThresholds {
    /// Thresholds of a dedicated buffer: pause when no more than `headroom` is free, resume two full frames lower.
    pub(crate) fn for_dedicated_buffer(buffer: Bytes, headroom: Bytes, max_frame: u32) -> PauseThresholds {
        let xoff = buffer.0.saturating_sub(headroom.0);
        let xon = xoff.saturating_sub(2 * u64::from(max_frame));
        PauseThresholds { xoff, xon, headroom: buffer.0 - xoff }
    }

    /// Thresholds of a lossy ingress that owns `size` bytes: never paused.
    pub(crate) fn for_lossy_ingress(size: Bytes) -> PauseThresholds {
        PauseThresholds { xoff: size.0, xon: size.0, headroom: 0 }
    }
}

/// Duration of `quanta` on a link of `rate`.
pub(crate) fn quanta_duration(rate: BitRate, quanta: u16) -> Span {
    rate.serialise(Bytes(PAUSE_QUANTUM_BITS / 8 * u64::from(quanta)))
}
