//! What every hop asks of the settings, worked out once: one flag or threshold a question, so that what is off costs a
//! test of a bit.

use crate::class::ClassPolicy;
use crate::ids::SlotId;
use crate::marker::Asked;
use crate::plan::Plan;
use crate::settings::BufferPolicy;
use crate::settings::Scheduler;
use pauseframe_units::{PortId, Priority, Span};

/// Ports from which on each pays (docs/performance.md). A 16-ary fat tree has 6,144, a 24-ary one 20,736, a 28-ary one 32,928.
const SHORT_FROM_PORTS: usize = 5_000;
const LONG_FROM_PORTS: usize = 25_000;

/// How far a partition looks ahead: the larger its network, the farther off is what it touches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PrefetchMode {
    /// Not at all: everything is near.
    None,
    /// A few events: what is touched is not near, but not far either.
    Short,
    /// Many events.
    Long,
}

impl PrefetchMode {
    /// In a network of so many ports.
    pub(crate) fn of(ports: usize) -> PrefetchMode {
        match ports {
            ..SHORT_FROM_PORTS => PrefetchMode::None,
            SHORT_FROM_PORTS..LONG_FROM_PORTS => PrefetchMode::Short,
            LONG_FROM_PORTS.. => PrefetchMode::Long,
        }
    }
}

/// Settings that every hop reads, kept beside the arenas.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent settings")]
pub(crate) struct Hot {
    /// A port has `1 << class_bits` slots.
    pub(crate) class_bits: u32,
    /// The bits of a slot that are its class.
    class_mask: u32,
    /// Lossless classes, a bit each.
    pub(crate) lossless: u8,
    /// Lossy traffic has a pool of its own in shared buffers.
    separate_pools: bool,
    /// How far partitions look ahead.
    pub(crate) prefetch: PrefetchMode,
    /// Preamble and gap, bytes.
    pub(crate) gap: u32,
    /// Forwarding latency of switches; `pipelined` if there is any.
    pub(crate) switch_latency: Span,
    pub(crate) pipelined: bool,
    /// By class: up to this backlog a packet is neither marked nor dropped, and is in no account but the backlog.
    pub(crate) unchecked_below: [u64; Priority::COUNT],
    /// By class: [`ClassPolicy::mark_above`].
    pub(crate) mark_above: [u64; Priority::COUNT],
    /// Lossless classes with fixed thresholds whose marker need not see every packet come.
    pub(crate) fixed_lossless: u8,
    /// Classes (a bit each) that an idle port sends at once.
    pub(crate) direct: u8,
    /// Classes of which a packet leaves without anything else to be done, or looked at.
    pub(crate) plain_departure: u8,
    /// Classes that the buffer accounts by more than the egress backlog.
    pub(crate) accounted: u8,
    /// Classes whose marker sees every packet come, and those of which something looks at what leaves.
    pub(crate) watched_arrivals: u8,
    pub(crate) watched_departures: u8,
    /// Classes that are served by the rank of their packets.
    pub(crate) ranked: u8,
    pub(crate) shared: bool,
    pub(crate) ets: bool,
    /// The class to serve is not always the highest that may send.
    pub(crate) runs_scheduler: bool,
    /// Switches look up the next hop: packets are sprayed or have VLANs. Otherwise they know their path.
    pub(crate) look_up: bool,
    /// Each packet picks its VLAN.
    pub(crate) vlan_per_packet: bool,
    /// Segments leave their sockets for the NIC at once.
    pub(crate) stackless: bool,
    /// Switches have congestion points, NICs have reaction points.
    pub(crate) qcn: bool,
    /// Some hosts drain slowly.
    pub(crate) slow_receivers: bool,
    /// What is left of a class in ingress accounts: nothing where the whole link has one.
    pub(crate) account_mask: u8,
    /// Frames on some wire are captured or damaged.
    pub(crate) slow_paths: bool,
    /// Links can be down, or queues in a storm.
    pub(crate) can_refuse: bool,
}

impl Hot {
    /// The slot of `class` at `port`.
    #[inline(always)]
    pub(crate) fn slot(&self, port: PortId, class: u8) -> SlotId {
        SlotId((port.0 << self.class_bits) | u32::from(class))
    }

    /// The same for a class of any number: whatever it is, the slot is one of `port`.
    #[inline(always)]
    pub(crate) fn slot_within(&self, port: PortId, class: u8) -> SlotId {
        debug_assert!(u32::from(class) <= self.class_mask, "class {class} is not in use");
        SlotId((port.0 << self.class_bits) | (u32::from(class) & self.class_mask))
    }

    /// Slots of a port, those of no priority in use included.
    pub(crate) fn classes(&self) -> u8 {
        1 << self.class_bits
    }

    /// The port and class of a slot.
    pub(crate) fn port_and_class(&self, slot: SlotId) -> (PortId, u8) {
        (PortId(slot.0 >> self.class_bits), (slot.0 & ((1 << self.class_bits) - 1)) as u8)
    }

    /// Whether `class` is flow-controlled.
    #[inline]
    pub(crate) fn is_lossless(&self, class: u8) -> bool {
        self.lossless & 1 << class != 0
    }

    /// Which of a switch's pools a class shares in: lossy classes have one of their own if there are two.
    #[inline]
    pub(crate) fn pool_of(&self, class: u8) -> usize {
        usize::from(self.separate_pools && !self.is_lossless(class))
    }

    pub(crate) fn new(plan: &Plan) -> Hot {
        let Plan { settings, policies, lossless, .. } = plan;
        let lossless = *lossless;
        let set = |of: &dyn Fn(&ClassPolicy) -> bool| {
            policies.iter().enumerate().fold(0, |set, (class, policy)| set | u8::from(of(policy)) << class)
        };
        let pipelined = settings.switch_latency > Span::ZERO;
        let watched_arrivals = set(&ClassPolicy::watches_arrivals);
        let watched_departures = set(&ClassPolicy::watches_departures);
        let ets = matches!(settings.scheduler, Scheduler::Ets(_));
        let accounted = match settings.buffer {
            BufferPolicy::PerPort(_) => lossless,
            BufferPolicy::Shared { .. } | BufferPolicy::IdealOutputQueued(_) => u8::MAX,
        };
        let mark_above = policies.each_ref().map(ClassPolicy::mark_above);
        let shared = matches!(settings.buffer, BufferPolicy::Shared { .. });
        let unchecked_below = std::array::from_fn(|class| {
            let plain_departure = (accounted | watched_arrivals) & 1 << class == 0;
            if plain_departure { mark_above[class].min(policies[class].limit) } else { 0 }
        });
        Hot {
            class_bits: plan.class_bits,
            class_mask: (1 << plan.class_bits) - 1,
            lossless,
            separate_pools: settings.egress_pool.is_some(),
            prefetch: PrefetchMode::of(plan.topology.port_count()),
            gap: settings.overhead.gap,
            switch_latency: settings.switch_latency,
            pipelined,
            unchecked_below,
            mark_above,
            fixed_lossless: if shared { 0 } else { lossless & !watched_arrivals },
            direct: if pipelined || settings.qcn.is_some() {
                0
            } else {
                !set(&|policy| matches!(policy.marker.asked(), Asked::All | Asked::AllDepartures))
            },
            accounted,
            watched_arrivals,
            watched_departures,
            plain_departure: !(accounted | watched_departures),
            ranked: set(&|policy| policy.queue.is_ranked()),
            shared,
            ets,
            runs_scheduler: pipelined || ets,
            look_up: settings.spray || settings.vlans.is_some(),
            vlan_per_packet: settings.vlans.as_ref().is_some_and(|vlans| vlans.per_packet),
            stackless: settings.tx_delay == Span::ZERO && plan.tx_jitter == Span::ZERO,
            qcn: settings.qcn.is_some(),
            slow_receivers: !settings.receivers.is_empty(),
            account_mask: if settings.pfc.as_ref().is_some_and(|pfc| pfc.whole_link) { 0 } else { u8::MAX },
            slow_paths: false,
            can_refuse: false,
        }
    }
}
