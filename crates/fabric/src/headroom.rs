//! Headroom: the bytes that can still arrive after a frame has pushed an ingress account over XOFF, term by term.
//!
//! The arithmetic of IEEE 802.1Qbb Annex O. In order: a full frame in service on the way back; a pause frame of each
//! of the other lossless classes and the pause frame itself; its propagation; the reaction time; a full frame that
//! started just before the pause took effect; the propagation of all that; and the jitter of both directions, by which a pause frame
//! can be late, and data that are in flight as the pause takes effect. Then the frame that crossed XOFF itself,
//! which is in the headroom but for one byte. Left out: what Annex O grants cables and PHYs beyond the link's delay.

use crate::ids::SlotId;
use crate::plan::Plan;
use crate::settings::{BufferPolicy, HeadroomPool, Overhead};
use pauseframe_topology::Channel;
use pauseframe_units::{BitRate, Bytes, IndexVec, NodeId, PortId, Priority, Span};

/// The terms of the headroom of one link for one class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Headroom {
    /// A full frame in service on the way back.
    pub frame_ahead: Span,
    /// The pause frames: this one, and one of each other lossless class ahead of it.
    pub pause_frames: Span,
    /// Propagation of the pause frame.
    pub delay_back: Span,
    /// From its last bit to its effect.
    pub reaction: Span,
    /// A full frame that started just before that.
    pub last_frame: Span,
    /// Propagation of the data.
    pub delay: Span,
    /// The most by which jitter makes the pause frame late.
    pub jitter_back: Span,
    /// The same of the data.
    pub jitter: Span,
    /// What the link carries in the sum of these times, without preambles and gaps.
    pub arriving: Bytes,
    /// What the frame that crosses XOFF has beyond it: all but a byte.
    pub crossing: Bytes,
}

impl Headroom {
    /// For a link without jitter whose frames come by `data` and whose pause frames go by `back`. `max_frame`: largest frame without
    /// preamble and gap, bytes; `lossless`: number of lossless classes.
    pub fn of(
        data: Channel,
        back: Channel,
        max_frame: u32,
        overhead: Overhead,
        reaction: Span,
        lossless: u32,
    ) -> Headroom {
        let in_flight_frames = |frame: u32| Bytes(u64::from(frame + overhead.gap));
        let mut terms = Headroom {
            frame_ahead: back.rate.serialise(in_flight_frames(max_frame)),
            pause_frames: back.rate.serialise(in_flight_frames(Overhead::PAUSE_FRAME)) * u64::from(lossless),
            delay_back: back.delay,
            reaction,
            last_frame: data.rate.serialise(in_flight_frames(max_frame)),
            delay: data.delay,
            jitter_back: Span::ZERO,
            jitter: Span::ZERO,
            arriving: Bytes::ZERO,
            crossing: Bytes(u64::from(max_frame) - 1),
        };
        terms.count_arriving(data.rate, overhead);
        terms
    }

    /// The same where frames are late by up to `jitter` on the way of the data, which have `rate`, and by `jitter_back` on the way back.
    #[must_use]
    pub fn with_jitter(
        mut self,
        jitter: Span,
        jitter_back: Span,
        rate: BitRate,
        overhead: Overhead,
    ) -> Headroom {
        (self.jitter, self.jitter_back) = (jitter, jitter_back);
        self.count_arriving(rate, overhead);
        self
    }

    fn count_arriving(&mut self, rate: BitRate, overhead: Overhead) {
        // Preambles and gaps do not reach the buffer; full frames waste the least on them.
        let (wire, frame) = (rate.bytes_in(self.time()).0 + 1, self.crossing.0 + 1);
        self.arriving = Bytes((wire * frame).div_ceil(frame + u64::from(overhead.gap)));
    }

    /// From the crossing of XOFF to the arrival of the last bit that was sent in spite of it.
    pub fn time(&self) -> Span {
        let way_back = self.frame_ahead + self.pause_frames + self.delay_back + self.jitter_back;
        way_back + self.reaction + self.last_frame + self.delay + self.jitter
    }

    /// The most by which the pause frame that renews a pause can come later than the one that began it did: it waits
    /// for a frame in service and for other pause frames, which that one did not, and may be late by jitter.
    pub fn renewal(&self) -> Span {
        self.frame_ahead + self.pause_frames + self.jitter_back
    }

    /// All of it.
    pub fn total(&self) -> Bytes {
        Bytes(self.arriving.0 + self.crossing.0)
    }
}

/// [`Headroom::total`] of [`Headroom::of`].
pub fn headroom(
    data: Channel,
    back: Channel,
    max_frame: u32,
    overhead: Overhead,
    reaction: Span,
    lossless: u32,
) -> Bytes {
    Headroom::of(data, back, max_frame, overhead, reaction, lossless).total()
}

/// What a switch keeps for what arrives by `port` at `priority`, and what that link needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeadroomReport {
    /// The port that sends.
    pub port: PortId,
    /// A lossless priority.
    pub priority: Priority,
    /// What the link needs.
    pub needed: Headroom,
    /// XOFF, XON and the headroom that the switch gives.
    pub limits: Thresholds,
}

/// The headroom that the (port, priority) of a switch share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PooledHeadroom {
    /// The switch.
    pub switch: NodeId,
    /// Bytes of the pool.
    pub size: u64,
    /// What all headrooms are together.
    pub needed: u64,
    /// How many (port, priority) share it.
    pub groups: usize,
    /// How many of them it suffices for at once, whichever they are.
    pub suffices_for: usize,
}

/// What switches keep free, worked out from the plan alone.
#[derive(Debug, Default)]
pub(crate) struct Margins {
    /// By slot: the thresholds of what comes by it.
    pub(crate) limits: IndexVec<SlotId, Thresholds>,
    /// By switch and pool: bytes to share.
    pub(crate) pools: Vec<[u64; 2]>,
    /// By switch: bytes of the headroom that all share; `u64::MAX` where each (port, class) has its own.
    pub(crate) headroom_pools: Vec<u64>,
    /// The same with what the accounts need together, and how many they are.
    pub(crate) pooled: Vec<PooledHeadroom>,
    /// Whether every headroom covers its link: then a drop there is our bug.
    pub(crate) covers: bool,
    warnings: Vec<String>,
    /// A switch whose headroom and reserved bytes leave nothing of its shared buffer, and these bytes.
    overcommitted: Option<(NodeId, Bytes)>,
}

impl Margins {
    /// XOFF, XON and headroom of every lossless ingress, and what the shared pools have left. Warns where they cannot keep
    /// what they are for.
    pub(crate) fn of(plan: &Plan) -> Margins {
        let limited =
            plan.lossless != 0 || matches!(plan.settings.buffer, BufferPolicy::IdealOutputQueued(_));
        let mut margins = Margins {
            limits: IndexVec::filled(Thresholds::default(), if limited { plan.slots() } else { 0 }),
            pools: vec![[0; 2]; plan.switches.len()],
            headroom_pools: vec![u64::MAX; plan.switches.len()],
            covers: true,
            ..Margins::default()
        };
        let (mut short, mut late) = (Vec::new(), Vec::new());
        let mut taken = vec![[0u64; 2]; plan.switches.len()];
        let shared = plan.headroom_pool();
        let mut headrooms: Vec<Vec<u64>> = vec![Vec::new(); plan.switches.len()];
        for port in plan.ports().filter(|port| plan.has_ingress_account(*port)) {
            let switch = plan.switch(plan.topology.peer(port)).map(|switch| switch.0 as usize);
            for class in 0..plan.priorities.len() as u8 {
                let (slot, pool) = (plan.slot(port, class), plan.pool_of(class));
                let mut take = |bytes: u64| switch.map(|switch| taken[switch][pool] += bytes);
                take(plan.policies[usize::from(class)].reserved);
                // A whole link has one account, that of class 0.
                if plan.is_lossless(class) && class & plan.account_mask == class {
                    let (limits, needed) = plan.thresholds_of(port, class);
                    if limits.headroom < needed.total().0 {
                        short.push((port, limits.headroom, needed.total()));
                    }
                    if plan.lasts(port) / 2 < needed.renewal() {
                        late.push((port, needed.renewal()));
                    }
                    match (shared, switch) {
                        (Some(_), Some(switch)) => headrooms[switch].push(limits.headroom),
                        _ => drop(take(limits.headroom)),
                    }
                    margins.limits[slot] = limits;
                } else if let (BufferPolicy::IdealOutputQueued(size), Some(_)) =
                    (plan.settings.buffer, switch)
                {
                    margins.limits[slot] = Thresholds::of_lossy(size);
                }
            }
        }
        if let Some(pool) = shared {
            margins.pool_headroom(plan, pool, headrooms, &mut taken);
        }
        if let BufferPolicy::Shared { size, .. } = plan.settings.buffer {
            margins.share(plan, size, &taken);
        }
        margins.warn_of_short_headroom(plan, &short);
        margins.warn_of_late_renewal(plan, &late);
        margins
    }

    /// One pool a switch for these headrooms of its accounts.
    fn pool_headroom(
        &mut self,
        plan: &Plan,
        pool: HeadroomPool,
        headrooms: Vec<Vec<u64>>,
        taken: &mut [[u64; 2]],
    ) {
        for (switch, mut needs) in headrooms.into_iter().enumerate().filter(|(_, needs)| !needs.is_empty()) {
            needs.sort_unstable_by(|a, b| b.cmp(a));
            let needed: u64 = needs.iter().sum();
            let size = match pool {
                HeadroomPool::Bytes(size) => size.0,
                HeadroomPool::OverSubscription(ratio) => (needed as f64 / ratio).ceil() as u64,
            };
            // Those that need most come first: it suffices for so many, whichever they are.
            let mut left = size;
            let fit = needs.iter().take_while(|need| {
                let fits = **need <= left;
                left = left.saturating_sub(**need);
                fits
            });
            let suffices_for = fit.count();
            self.headroom_pools[switch] = size;
            taken[switch][0] += size;
            self.pooled.push(PooledHeadroom {
                switch: plan.switches[switch],
                size,
                needed,
                groups: needs.len(),
                suffices_for,
            });
        }
        self.warn_of_short_pool(plan);
    }

    fn warn_of_short_pool(&mut self, plan: &Plan) {
        let short: Vec<&PooledHeadroom> = self.pooled.iter().filter(|pool| pool.size < pool.needed).collect();
        let Some(worst) = short.iter().min_by_key(|pool| (pool.suffices_for, pool.switch)) else { return };
        let PooledHeadroom { switch, size, needed, groups, suffices_for } = **worst;
        self.warnings.push(format!(
            "switch.pfc.headroom_pool: {} shares {} among {groups} (port, priority) that need {} ({:.3} times as much): it \
             suffices for {suffices_for} at once, and what comes beyond is dropped ({} switches like this)",
            plan.topology.nodes()[switch].name,
            Bytes(size),
            Bytes(needed),
            needed as f64 / size.max(1) as f64,
            short.len()
        ));
    }

    /// The pools of a shared buffer of `size` bytes, of which headroom and reserved bytes have `taken` some, by switch
    /// and pool.
    fn share(&mut self, plan: &Plan, size: Bytes, taken: &[[u64; 2]]) {
        let egress = plan.settings.egress_pool.unwrap_or(Bytes::ZERO).0.min(size.0);
        let sizes = [size.0 - egress, egress];
        for ((node, pools), taken) in plan.switches.iter().zip(&mut self.pools).zip(taken) {
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

    fn warn_of_short_headroom(&mut self, plan: &Plan, short: &[(PortId, u64, Bytes)]) {
        let Some((port, headroom, needed)) = short.first() else { return };
        self.covers = false;
        self.warnings.push(format!(
            "switch.pfc: the headroom for {} is {}, its link needs {needed} ({} ports like this): lossless packets can \
             be dropped",
            plan.topology.port_name(*port),
            Bytes(*headroom),
            short.len()
        ));
    }

    fn warn_of_late_renewal(&mut self, plan: &Plan, late: &[(PortId, Span)]) {
        let Some((port, renewal)) = late.first() else { return };
        self.covers = false;
        self.warnings.push(format!(
            "switch.pfc.quanta: a pause of {} lasts {} and is renewed at half of that, but the frame that renews it can \
             come {renewal} late, behind others on the way back ({} ports like this): the pause can run out and lossless \
             packets can be dropped; ask for more quanta",
            plan.topology.port_name(*port),
            plan.lasts(*port),
            late.len()
        ));
    }
}

impl Plan {
    /// What a person should look at before trusting a run.
    pub fn warnings(&self) -> &[String] {
        &self.margins.warnings
    }

    /// A switch whose headroom and reserved bytes leave nothing to share, and how many bytes these are.
    pub fn overcommitted(&self) -> Option<(NodeId, Bytes)> {
        self.margins.overcommitted
    }

    /// The pools of shared headroom, a switch each; none where each (port, priority) has its own.
    pub fn pooled_headroom(&self) -> &[PooledHeadroom] {
        &self.margins.pooled
    }

    /// The pool of the settings, where buffers are shared.
    fn headroom_pool(&self) -> Option<HeadroomPool> {
        let is_shared = matches!(self.settings.buffer, BufferPolicy::Shared { .. });
        self.settings.pfc.as_ref().and_then(|pfc| pfc.headroom_pool).filter(|_| is_shared)
    }

    /// The headroom of every lossless ingress of a switch: what its link needs, and what it has.
    pub fn headrooms(&self) -> Vec<HeadroomReport> {
        let to_switches = self.ports().filter(|port| self.switch(self.topology.peer(*port)).is_some());
        let all =
            to_switches.flat_map(|port| (0..self.priorities.len() as u8).map(move |class| (port, class)));
        all.filter(|(_, class)| self.is_lossless(*class))
            .map(|(port, class)| {
                let (limits, needed) = self.thresholds_of(port, class);
                HeadroomReport { port, priority: self.priorities[usize::from(class)], needed, limits }
            })
            .collect()
    }

    /// How long a pause of what comes by `port` lasts unless renewed.
    fn lasts(&self, port: PortId) -> Span {
        let quanta = self.settings.pfc.as_ref().map_or(0, |pfc| pfc.quanta);
        pause_time(self.topology.channel(port).rate, quanta)
    }

    /// The thresholds of what comes by `port`, and the headroom that its link needs.
    pub(crate) fn thresholds_of(&self, port: PortId, class: u8) -> (Thresholds, Headroom) {
        let pfc = self.settings.pfc.as_ref().expect("a lossless class has PFC settings");
        let overhead = self.settings.overhead;
        let mut max_frame = overhead.frame_size(self.settings.mtu, self.priorities[usize::from(class)]);
        if pfc.whole_link {
            // The one account holds tagged frames too.
            max_frame = max_frame
                .max(overhead.frame_size(self.settings.mtu, *self.priorities.last().expect("in use")));
        }
        let (data, back) = (self.topology.channel(port), self.topology.channel(port.reverse()));
        let accounts = if pfc.whole_link { 1 } else { self.lossless.count_ones() };
        let needed = Headroom::of(data, back, max_frame, overhead, pfc.reaction, accounts).with_jitter(
            self.lateness(port),
            self.lateness(port.reverse()),
            data.rate,
            overhead,
        );
        if let Some(receiver) = self.slow_receiver(port) {
            return (Thresholds::of_buffer(receiver.buffer, needed.total(), max_frame), needed);
        }
        let wanted = pfc.headroom.unwrap_or(needed.total()).0;
        let (xoff, headroom) = match self.settings.buffer {
            BufferPolicy::PerPort(size) | BufferPolicy::IdealOutputQueued(size) => {
                let xoff = pfc.xoff.map_or(size.0.saturating_sub(wanted), |xoff| xoff.0);
                (xoff, wanted.min(size.0.saturating_sub(xoff)))
            }
            BufferPolicy::Shared { size, .. } => (pfc.xoff.map_or(size.0, |xoff| xoff.0), wanted),
        };
        let xon = pfc.xon.map_or(xoff.saturating_sub(2 * u64::from(max_frame)), |xon| xon.0);
        let limits = Thresholds { xoff, xon: xon.min(xoff), headroom };
        (limits, needed)
    }

    /// XOFF, XON and headroom for what arrives by `port` at `priority`, if that is lossless there.
    pub fn thresholds(&self, port: PortId, priority: Priority) -> Option<Thresholds> {
        let class = self.priorities.iter().position(|p| *p == priority)? as u8;
        let known = self.is_lossless(class) && self.has_ingress_account(port);
        known.then(|| self.margins.limits[self.slot(port, class & self.account_mask)])
    }
}

/// Bits in a quantum of pause time (IEEE 802.3 Annex 31B).
const QUANTUM_BITS: u64 = 512;

/// The thresholds of one ingress (port, class), in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Thresholds {
    /// Pause above.
    pub xoff: u64,
    /// Resume at or below.
    pub xon: u64,
    /// Hold at most this much above XOFF.
    pub headroom: u64,
}

impl Thresholds {
    /// Of a buffer of its own: pause when no more than `headroom` is free, resume two full frames lower.
    pub(crate) fn of_buffer(buffer: Bytes, headroom: Bytes, max_frame: u32) -> Thresholds {
        let xoff = buffer.0.saturating_sub(headroom.0);
        let xon = xoff.saturating_sub(2 * u64::from(max_frame));
        Thresholds { xoff, xon, headroom: buffer.0 - xoff }
    }

    /// A lossy ingress that owns `size`: never paused.
    pub(crate) fn of_lossy(size: Bytes) -> Thresholds {
        Thresholds { xoff: size.0, xon: size.0, headroom: 0 }
    }
}

/// How long `quanta` last on a link of `rate`.
pub(crate) fn pause_time(rate: BitRate, quanta: u16) -> Span {
    rate.serialise(Bytes(QUANTUM_BITS / 8 * u64::from(quanta)))
}
