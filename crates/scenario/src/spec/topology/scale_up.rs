//! `[topology.scale_up]`: links between the GPUs of a server, beside the network.

use super::parts::DELAYS;
use pauseframe_fabric::ScaleUpSettings;
use pauseframe_schema::ledger::{Ledger, Origin};
use pauseframe_schema::reader::Table;
use pauseframe_schema::value::Choice;
use pauseframe_schema::{choices, table};
use pauseframe_topology::Topology;
use pauseframe_units::{BitRate, NodeId, Span};
use std::ops::RangeInclusive;

/// Rates of scale-up links; the fastest today is 14.4 Tb/s.
const RATES: RangeInclusive<BitRate> = BitRate(1_000_000)..=BitRate(100_000_000_000_000);

choices! {
    /// GPUs with scale-up links of known rates
    pub enum Gpu {
        /// 300 GB/s (12 links of NVLink 3)
        A100 = "A100",
        /// 200 GB/s (8 links of NVLink 4)
        H800 = "H800",
        /// 450 GB/s (18 links of NVLink 4)
        H100 = "H100",
        /// 450 GB/s (18 links of NVLink 4)
        H200 = "H200",
        /// 900 GB/s (18 links of NVLink 5)
        B200 = "B200",
    }
}

impl Gpu {
    /// The payload that a GPU sends and at the same time receives.
    fn rate(self) -> BitRate {
        BitRate::gbps(match self {
            Gpu::A100 => 2400,
            Gpu::H800 => 1600,
            Gpu::H100 | Gpu::H200 => 3600,
            Gpu::B200 => 7200,
        })
    }
}

table! {
    /// Servers of several hosts (GPUs), which reach each other over separate links instead of the network
    pub struct ScaleUpSpec {
        /// Number of hosts of a server: consecutive hosts in the order of the topology
        gpus_per_server: u32 = required_in(2..=4096);
        /// Link GPU r of each server to the switch of rail r: as many consecutive switches with hosts as a server has GPUs serve the same servers
        rails: bool = or(false);
        /// GPU whose rate the links have
        gpu: Option<Gpu> = optional("none: see rate");
        /// Rate at which a host sends and at the same time receives, without headers
        rate: BitRate = try_by(rate, gpu);
        /// From one host of a server to another
        latency: Span = or_in(Span::from_ns(25), DELAYS);
    }
    pub fn try_read(t);
}

fn rate(t: &mut Table, key: &'static str, doc: &str, gpu: Option<Gpu>) -> Option<BitRate> {
    match gpu {
        Some(gpu) => {
            let origin = Origin::Computed("that of gpu".to_owned());
            let rate = t.or_because_in(key, (gpu.rate(), origin), RATES, "that of gpu", doc);
            let message = || format!("{rate}, but an {} has {}", gpu.name(), gpu.rate());
            t.check(rate == gpu.rate(), key, message, "remove one of gpu and rate");
            Some(rate)
        }
        // The schema cannot say that gpu takes its place; an unknown gpu is reported at its own key.
        None if t.is_documenting() || t.has("gpu") => {
            t.optional_in(key, RATES, "that of gpu; required without gpu", doc)
        }
        None => t.required_in(key, RATES, doc),
    }
}

impl ScaleUpSpec {
    /// The links of a fabric.
    pub(crate) fn settings(&self, topology: &Topology) -> ScaleUpSettings {
        let hosts: Vec<NodeId> = topology.hosts().collect();
        let servers = hosts.chunks(self.gpus_per_server as usize).map(<[NodeId]>::to_vec).collect();
        ScaleUpSettings::new(servers, self.rate, self.latency)
    }

    /// Checks that all servers are full.
    pub(crate) fn check(&self, ledger: &mut Ledger, topology: &Topology) {
        let (hosts, size) = (topology.hosts().count(), self.gpus_per_server as usize);
        if !hosts.is_multiple_of(size) {
            let message =
                format!("{size} does not divide the {hosts} hosts: the last server has {}", hosts % size);
            let hint = "change it, or the number of hosts";
            ledger.problem("topology.scale_up.gpus_per_server", message, hint);
        }
    }
}
