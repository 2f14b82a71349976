//! Settings on the hot path, precomputed as flags and thresholds, so a disabled feature costs one bit test.

use crate::class::ClassPolicy;
use crate::ids::SlotId;
use crate::marker::InspectedPackets;
use crate::plan::NetworkPlan;
use crate::settings::{BufferPolicy, HopChoice, PortChoice};
use pauseframe_units::{PortId, Priority, Span};

/// Cache lines of state from which short prefetching pays off, and ports from which long prefetching does (docs/performance.md). A port has four
/// lines (itself, its queue, its ingress account, its counters), a packet has one.
const SHORT_PREFETCH_MIN_LINES: usize = 27_000;
const LINES_PER_PORT: usize = 4;
const LONG_PREFETCH_MIN_PORTS: usize = 25_000;

/// How far a partition prefetches ahead: larger networks miss more distant caches.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum PrefetchDistance {
    /// No prefetching: the state fits the cache.
    None,
    /// A few events ahead, for medium-sized networks.
    Short,
    /// Many events ahead, for large networks.
    Long,
}

impl PrefetchDistance {
    /// The distance for a network with these ports where so many packets have been on their way at once.
    pub(crate) fn choose(ports: usize, packets: usize) -> PrefetchDistance {
        if ports >= LONG_PREFETCH_MIN_PORTS {
            PrefetchDistance::Long
        } else if LINES_PER_PORT * ports + packets >= SHORT_PREFETCH_MIN_LINES {
            PrefetchDistance::Short
        } else {
            PrefetchDistance::None
        }
    }
}

/// Settings that every hop reads, kept beside the arenas.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent settings")]
pub(crate) struct HotPathSettings {
    /// A port has `1 << class_bits` slots.
    pub(crate) class_bits: u32,
    /// Mask of the class bits of a slot.
    class_mask: u32,
    /// Lossless classes, a bit each.
    pub(crate) lossless: u8,
    /// Lossy traffic has a separate pool in shared buffers.
    separate_pools: bool,
    /// Prefetch mode of the partition; it only rises.
    pub(crate) prefetch: PrefetchDistance,
    /// Preamble and gap, bytes.
    pub(crate) gap: u32,
    /// Forwarding latency of switches; `pipelined` if there is any.
    pub(crate) switch_latency: Span,
    pub(crate) pipelined: bool,
    /// By class: up to this backlog a packet needs no marking, drop check or account besides the backlog.
    pub(crate) unchecked_below: [u64; Priority::COUNT],
    /// By class: [`ClassPolicy::marking_threshold`].
    pub(crate) mark_above: [u64; Priority::COUNT],
    /// Lossless classes with fixed thresholds whose marker need not inspect every arrival.
    pub(crate) fixed_lossless: u8,
    /// Classes (a bit each) that an idle port transmits directly.
    pub(crate) direct: u8,
    /// Classes whose departures have no side effects.
    pub(crate) plain_departure: u8,
    /// Classes whose buffer accounting needs more than the egress backlog.
    pub(crate) accounted: u8,
    /// Classes whose marker inspects every arrival.
    pub(crate) watched_arrivals: u8,
    /// Classes whose departures the discipline or the marker inspects.
    pub(crate) watched_departures: u8,
    /// Classes served by packet rank.
    pub(crate) ranked: u8,
    /// Classes whose discipline has a state for each queue.
    pub(crate) timed: u8,
    pub(crate) shared: bool,
    pub(crate) ets: bool,
    /// Switches look up next hops, because packets are sprayed or have VLANs. Otherwise packets carry their path.
    pub(crate) look_up: bool,
    /// The same, or packets pass a pipeline or tunnels, or what goes where is recorded.
    pub(crate) slow_next_hop: bool,
    /// Paths may lead through tunnels between ToRs of mux cables.
    pub(crate) tunnels: bool,
    /// Switches are Linux machines: frames wait in receive rings before they are forwarded.
    pub(crate) linux_switch: bool,
    /// Leaves measure their paths and restore the order of packets.
    pub(crate) conweave: bool,
    /// Each packet picks its VLAN.
    pub(crate) vlan_per_packet: bool,
    /// Segments go from sockets to the NIC without delay.
    pub(crate) stackless: bool,
    /// Switches have congestion points, NICs have reaction points.
    pub(crate) qcn: bool,
    /// Some hosts drain slowly.
    pub(crate) slow_receivers: bool,
    /// Some card answers the load of its input with CNPs.
    pub(crate) meters_inputs: bool,
    /// Some hosts have several ports.
    pub(crate) several_ports: bool,
    /// Each packet of a host with several ports takes the next one.
    pub(crate) port_per_packet: bool,
    /// Mask applied to a class for ingress accounts: 0 with link pause, which has one account per link.
    pub(crate) account_mask: u8,
    /// Frames on some link are captured or damaged.
    pub(crate) slow_paths: bool,
    /// Links can be down, or queues in a storm, so ports can refuse packets.
    pub(crate) can_refuse: bool,
}

impl HotPathSettings {
    /// The slot of `class` at `port`.
    #[inline(always)]
    pub(crate) fn slot(&self, port: PortId, class: u8) -> SlotId {
        SlotId((port.0 << self.class_bits) | u32::from(class))
    }

    /// The slot of a class that may be out of range: the class is masked, so the slot belongs to `port`.
    #[inline(always)]
    pub(crate) fn masked_slot(&self, port: PortId, class: u8) -> SlotId {
        debug_assert!(u32::from(class) <= self.class_mask, "class {class} is not in use");
        SlotId((port.0 << self.class_bits) | (u32::from(class) & self.class_mask))
    }

    /// Number of slots per port, including unused ones.
    pub(crate) fn slots_per_port(&self) -> u8 {
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

    /// Index of the switch pool of a class; with two pools lossy classes use the second.
    #[inline]
    pub(crate) fn pool_index(&self, class: u8) -> usize {
        usize::from(self.separate_pools && !self.is_lossless(class))
    }

    pub(crate) fn new(plan: &NetworkPlan) -> HotPathSettings {
        let NetworkPlan { settings, policies, lossless, .. } = plan;
        let lossless = *lossless;
        let set = |of: &dyn Fn(&ClassPolicy) -> bool| {
            policies.iter().enumerate().fold(0, |set, (class, policy)| set | u8::from(of(policy)) << class)
        };
        let pipelined = settings.switch_latency > Span::ZERO;
        let watched_arrivals = set(&ClassPolicy::needs_every_arrival);
        let watched_departures = set(&ClassPolicy::needs_departure_work);
        let ets = !settings.scheduler.groups_in_use(&plan.priorities).is_empty();
        let accounted = match settings.buffer {
            BufferPolicy::PerPort(_) => lossless,
            BufferPolicy::Shared(_) | BufferPolicy::IdealOutputQueued(_) => u8::MAX,
        };
        let mark_above = policies.each_ref().map(ClassPolicy::marking_threshold);
        let shared = matches!(settings.buffer, BufferPolicy::Shared(_));
        let unchecked_below = std::array::from_fn(|class| {
            let plain_departure = (accounted | watched_arrivals) & 1 << class == 0;
            if plain_departure { mark_above[class].min(policies[class].limit) } else { 0 }
        });
        HotPathSettings {
            class_bits: plan.class_bits,
            class_mask: (1 << plan.class_bits) - 1,
            lossless,
            separate_pools: settings.buffer.lossy_pool_size().is_some(),
            prefetch: PrefetchDistance::None,
            gap: settings.overhead.gap,
            switch_latency: settings.switch_latency,
            pipelined,
            unchecked_below,
            mark_above,
            fixed_lossless: if shared { 0 } else { lossless & !watched_arrivals },
            direct: if settings.qcn.is_some() {
                0
            } else {
                !set(&|policy| {
                    matches!(
                        policy.marker.inspected_packets(),
                        InspectedPackets::All | InspectedPackets::AllDepartures
                    )
                })
            },
            accounted,
            watched_arrivals,
            watched_departures,
            plain_departure: !(accounted | watched_departures),
            ranked: set(&|policy| policy.queue.reorders_packets()),
            timed: set(&|policy| policy.codel.is_some()),
            shared,
            ets,
            look_up: settings.hop_choice.is_some() || settings.vlans.is_some(),
            slow_next_hop: pipelined
                || settings.hop_choice.is_some()
                || settings.vlans.is_some()
                || settings.dual_tor.is_some()
                || settings.linux_switch.is_some(),
            linux_switch: settings.linux_switch.is_some(),
            tunnels: settings.dual_tor.is_some(),
            conweave: matches!(settings.hop_choice, Some(HopChoice::ConWeave(_))),
            vlan_per_packet: settings.vlans.as_ref().is_some_and(|vlans| vlans.per_packet),
            stackless: settings.tx_delay == Span::ZERO && settings.tx_jitter == Span::ZERO,
            qcn: settings.qcn.is_some(),
            slow_receivers: !settings.receivers.is_empty(),
            meters_inputs: settings
                .transports
                .iter()
                .any(|transport| transport.rdma().is_some_and(|rdma| rdma.pair.cnp_on_ingress.is_some())),
            several_ports: plan.has_several_ports(),
            port_per_packet: plan.has_several_ports()
                && plan.settings.host_ports.choice == PortChoice::RoundRobin,
            account_mask: if settings.pfc.as_ref().is_some_and(|pfc| pfc.whole_link) { 0 } else { u8::MAX },
            slow_paths: false,
            can_refuse: false,
        }
    }
}
