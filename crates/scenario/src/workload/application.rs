//! A parallel application: ranks on hosts, each pair that talks on a connection of its own.

use super::Maker;
use crate::spec::{ApplicationSpec, PlacementName, WorkloadKind};
use pauseframe_apps::{Job, Options, Placement, Rooms};
use pauseframe_fabric::{FlowSpec, Message, Workload};
use pauseframe_topology::Topology;
use pauseframe_units::{NodeId, Time};
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A job in the network.
#[derive(Debug)]
pub(crate) struct ApplicationWorkload {
    pub(crate) job: Job,
    transport: u16,
}

impl ApplicationWorkload {
    pub(super) fn new(spec: &ApplicationSpec, hosts: Vec<NodeId>, maker: &Maker) -> ApplicationWorkload {
        let options = options(spec);
        let hosts = hosts.into_iter().map(|host| host.0).collect();
        let start = Time::ZERO + spec.start;
        let job = Job::new(Arc::clone(&spec.application.0), options, hosts, start);
        ApplicationWorkload { job, transport: maker.transport }
    }
}

/// How the application of `spec` is replayed.
pub(crate) fn options(spec: &ApplicationSpec) -> Options {
    Options {
        compute_scale: spec.compute_scale,
        eager_limit: spec.eager_limit.0,
        envelope: spec.envelope.0,
        algorithms: spec.choices.clone(),
        timeline: spec.timeline,
    }
}

impl Workload for ApplicationWorkload {
    fn next_start(&self) -> Option<Time> {
        self.job.next_time()
    }

    fn next_flow(&mut self) -> FlowSpec {
        unreachable!("an application sends messages; after `wake` its next start is later")
    }

    fn wake(&mut self, now: Time) {
        self.job.on_time(now);
    }

    fn next_message(&mut self) -> Option<Message> {
        let transfer = self.job.next_transfer()?;
        Some(Message {
            connection: transfer.connection,
            from: NodeId(transfer.from),
            to: NodeId(transfer.to),
            bytes: transfer.bytes,
            token: transfer.token,
            notify: transfer.notify,
            transport: self.transport,
        })
    }

    fn on_delivered(&mut self, token: u32, now: Time) {
        self.job.on_delivered(token, now);
    }

    fn on_sent(&mut self, token: u32, now: Time) {
        self.job.on_sent(token, now);
    }

    fn is_over(&self) -> bool {
        self.job.is_over()
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

/// The hosts of the ranks of all applications of a scenario, by position of the workload. Jobs are placed in their order and
/// share no place.
///
/// # Errors
/// Position of the workload, and why its ranks have no place.
pub(crate) fn place<'a>(
    workloads: impl Iterator<Item = Option<&'a WorkloadKind>>,
    topology: &Topology,
    seed: u64,
) -> Result<BTreeMap<usize, Vec<NodeId>>, (usize, String)> {
    let mut placed = BTreeMap::new();
    let mut rooms = rooms(topology);
    for (index, kind) in workloads.enumerate() {
        let Some(WorkloadKind::Application(spec)) = kind else { continue };
        let rule = match spec.placement {
            PlacementName::Packed => Placement::Packed,
            PlacementName::RoundRobin => Placement::RoundRobin,
            PlacementName::Random => Placement::Random,
            PlacementName::Hosts => {
                let find = |name: &String| topology.find(name).map_or(0, |node| node.0);
                Placement::Hosts(spec.hosts.iter().flatten().map(find).collect())
            }
        };
        let mut lots = pauseframe_engine::stream(seed, "application/placement", index as u64);
        let ranks = spec.application.0.ranks();
        let hosts = rooms.place(&rule, ranks, spec.ranks_per_host, |below| lots.below(below));
        let hosts = hosts.map_err(|reason| (index, reason))?;
        placed.insert(index, hosts.into_iter().map(NodeId).collect());
    }
    Ok(placed)
}

/// The hosts of a topology, rack by rack.
fn rooms(topology: &Topology) -> Rooms {
    let mut racks: Vec<(NodeId, Vec<u32>)> = Vec::new();
    for host in topology.hosts() {
        let leaf = topology.peer(topology.nodes()[host].ports[0]);
        match racks.iter_mut().find(|(known, _)| *known == leaf) {
            Some((_, hosts)) => hosts.push(host.0),
            None => racks.push((leaf, vec![host.0])),
        }
    }
    let racks = racks.into_iter().map(|(_, hosts)| hosts).collect();
    Rooms::new(racks, topology.nodes().len() as u32)
}
