//! What switches know and count of tunnels between the ToRs of mux cables.

use crate::ids::SwitchId;
use crate::plan::NetworkPlan;
use pauseframe_units::{IndexVec, Priority};

/// Packets that a ToR has sent into tunnels and received from them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TunnelCounts {
    /// Packets sent to the active ToR.
    pub encapsulated: u64,
    /// Their bytes in buffers, with the outer header.
    pub encapsulated_bytes: u64,
    /// Packets received from the standby ToR.
    pub decapsulated: u64,
}

/// The tunnels of the switches of a partition.
#[derive(Debug)]
pub(crate) struct Tunnels {
    /// By class: that of the outer header.
    pub(super) outer: [u8; Priority::COUNT],
    pub(crate) counts: IndexVec<SwitchId, TunnelCounts>,
    /// Bytes by which packets have become longer at a switch, for the invariants.
    pub(crate) growth: IndexVec<SwitchId, i64>,
}

impl Tunnels {
    pub(super) fn from_plan(plan: &NetworkPlan) -> Option<Tunnels> {
        let dual_tor = plan.settings.dual_tor.as_ref()?;
        let outer = |class: usize| {
            let own = plan.priorities.get(class).copied().unwrap_or_default();
            plan.class_index(dual_tor.outer[usize::from(own.code_point())])
        };
        let counts = IndexVec::filled(TunnelCounts::default(), plan.switches.len());
        let growth = IndexVec::filled(0, plan.switches.len());
        Some(Tunnels { outer: std::array::from_fn(outer), counts, growth })
    }
}
