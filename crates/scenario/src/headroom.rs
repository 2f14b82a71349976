//! Computes the headroom of every link of a scenario, with the terms of the sum, before the run.

use crate::build;
use crate::resolve::Resolved;
use crate::spec::Scenario;
use pauseframe_fabric::{HeadroomReport, NetworkPlan, SwitchHeadroomPool};
use pauseframe_schema::error::Problem;
use pauseframe_topology::{Channel, Topology};
use pauseframe_units::Bytes;
use serde::Serialize;
use std::sync::Arc;

/// A group of links with equal rates and delays, hence equal headroom. Sizes are in bytes, times in
/// nanoseconds.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct HeadroomRow {
    /// Name of the group's first port, which sends to a switch.
    pub port: String,
    /// Number of ports in the group.
    pub ports: u64,
    /// The lossless priority.
    pub priority: u8,
    /// Rate in the direction of the data, in bits per second.
    pub rate_bps: u64,
    /// Rate in the direction of the pause frames, in bits per second.
    pub rate_back_bps: u64,
    /// Transmission time of a full frame that the pause frame waits for.
    pub frame_ahead_ns: f64,
    /// Transmission time of the pause frames, one for each lossless class.
    pub pause_frames_ns: f64,
    /// Propagation delay of the pause frame.
    pub delay_back_ns: f64,
    /// Response time of the paused port.
    pub reaction_ns: f64,
    /// Transmission time of a full frame that began just before the pause took effect.
    pub last_frame_ns: f64,
    /// Propagation delay of the data.
    pub delay_ns: f64,
    /// Time in the forwarding pipeline of the switch (`switch.latency`).
    pub pipeline_ns: f64,
    /// Largest delay that jitter adds to the pause frame.
    pub jitter_back_ns: f64,
    /// Largest delay that jitter adds to data.
    pub jitter_ns: f64,
    /// Bytes that arrive during the sum of the delays above.
    pub arriving_bytes: u64,
    /// Size of the frame that crosses XOFF, less one byte.
    pub crossing_bytes: u64,
    /// Arriving plus crossing bytes: the headroom that the link needs.
    pub needed_bytes: u64,
    /// Headroom that the switch reserves for the link.
    pub given_bytes: u64,
    /// Headroom pool of the first switch in the group; 0 if each (port, priority) has its own headroom.
    pub pool_bytes: u64,
    /// Number of (port, priority) of the switch that the pool can serve at once.
    pub pool_suffices_for: u64,
    /// Pause threshold (XOFF); with a shared buffer, the largest value that it can take.
    pub xoff_bytes: u64,
    /// Resume threshold (XON): the switch resumes traffic at or below this account.
    pub xon_bytes: u64,
}

/// Headroom of all links with lossless classes, one row for each group of equal links.
pub fn headroom(resolved: &Resolved) -> Vec<HeadroomRow> {
    let topology = resolved.topology();
    let Some(plan) = plan(&resolved.scenario, topology) else { return Vec::new() };
    let mut kinds: Vec<(HeadroomReport, [Channel; 2], u64)> = Vec::new();
    for report in plan.headroom_reports() {
        let channels = [topology.channel(report.port), topology.channel(report.port.reverse())];
        let alike = kinds.iter_mut().find(|(known, links, _)| {
            let same = HeadroomReport { port: report.port, ..*known };
            same == report && *links == channels
        });
        match alike {
            Some((_, _, count)) => *count += 1,
            None => kinds.push((report, channels, 1)),
        }
    }
    let pool = |report: &HeadroomReport| {
        let switch = topology.peer(report.port);
        plan.headroom_pools().iter().find(|pool| pool.switch == switch).copied()
    };
    kinds.iter().map(|(report, links, count)| row(topology, report, *links, (*count, pool(report)))).collect()
}

/// Warnings about the headroom; an error if the headroom leaves no bytes of a shared buffer to share.
pub(crate) fn warnings(
    scenario: &Scenario,
    topology: &Arc<Topology>,
    file_name: &str,
) -> Result<Vec<String>, Box<Problem>> {
    let Some(plan) = plan(scenario, topology) else { return Ok(Vec::new()) };
    let Some((switch, taken)) = plan.overcommitted_switch() else {
        return Ok(plan.warnings().to_vec());
    };
    let size = scenario.switch.buffer.buffer_size();
    let name = &topology.nodes()[switch].name;
    Err(Box::new(Problem {
        path: "switch.buffer.size".to_owned(),
        place: file_name.to_owned(),
        line: None,
        value: format!("\"{size}\""),
        message: format!(
            "{name}: headroom and reserved bytes alone take {taken}, so nothing is left to share"
        ),
        hint: format!("make it at least {}, so that as much again can be shared", Bytes(2 * taken.0)),
    }))
}

/// The fabric's plan of a scenario with PFC.
fn plan(scenario: &Scenario, topology: &Arc<Topology>) -> Option<NetworkPlan> {
    scenario.switch.pfc.as_ref()?;
    let settings = Arc::new(build::settings(scenario, topology, build::all_transports(scenario)));
    Some(NetworkPlan::new(Arc::clone(topology), settings))
}

fn row(
    topology: &Topology,
    report: &HeadroomReport,
    [data, back]: [Channel; 2],
    (ports, pool): (u64, Option<SwitchHeadroomPool>),
) -> HeadroomRow {
    let needed = report.needed;
    let ns = |span: pauseframe_units::Span| span.0 as f64 / 1e3;
    HeadroomRow {
        port: topology.port_name(report.port),
        ports,
        priority: report.priority.code_point(),
        rate_bps: data.rate.0,
        rate_back_bps: back.rate.0,
        frame_ahead_ns: ns(needed.frame_ahead),
        pause_frames_ns: ns(needed.pause_frames),
        delay_back_ns: ns(needed.delay_back),
        reaction_ns: ns(needed.reaction),
        last_frame_ns: ns(needed.last_frame),
        delay_ns: ns(needed.delay),
        pipeline_ns: ns(needed.pipeline),
        jitter_back_ns: ns(needed.jitter_back),
        jitter_ns: ns(needed.jitter),
        arriving_bytes: needed.arriving.0,
        crossing_bytes: needed.crossing.0,
        needed_bytes: needed.headroom_bytes().0,
        given_bytes: report.limits.headroom,
        pool_bytes: pool.map_or(0, |pool| pool.size),
        pool_suffices_for: pool.map_or(0, |pool| pool.suffices_for as u64),
        xoff_bytes: report.limits.xoff,
        xon_bytes: report.limits.xon,
    }
}
