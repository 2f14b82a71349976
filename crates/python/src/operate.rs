//! Functions that the linter calls in the core: the headroom of one link, and whether shortest paths can
//! deadlock. Documented in `_core.pyi`.

use crate::fabrics::{Topology, wrong};
use pauseframe_fabric::{FrameOverhead, LinkHeadroom};
use pauseframe_routing::{Dependency, DependencyGraph, NextHops, RoutingError};
use pauseframe_topology::Channel;
use pauseframe_units::{BitRate, Span};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The headroom of one lossless class of one link by IEEE 802.1Qbb Annex O, term by term.
#[pyfunction]
#[pyo3(signature = (rate_bps, delay_ps, max_frame, *, reaction_ps, lossless=1))]
fn link_headroom(
    py: Python<'_>,
    rate_bps: u64,
    delay_ps: u64,
    max_frame: u32,
    reaction_ps: u64,
    lossless: u32,
) -> PyResult<Bound<'_, PyDict>> {
    if rate_bps == 0 || max_frame == 0 {
        return Err(wrong("a link has a rate and frames have a size: both above 0"));
    }
    let link = Channel { rate: BitRate(rate_bps), delay: Span(delay_ps) };
    let terms =
        LinkHeadroom::new(link, link, max_frame, FrameOverhead::ETHERNET, Span(reaction_ps), lossless);
    let result = PyDict::new(py);
    let times = [
        ("frame_ahead_ps", terms.frame_ahead),
        ("pause_frames_ps", terms.pause_frames),
        ("delay_back_ps", terms.delay_back),
        ("reaction_ps", terms.reaction),
        ("last_frame_ps", terms.last_frame),
        ("delay_ps", terms.delay),
    ];
    for (name, span) in times {
        result.set_item(name, span.0)?;
    }
    result.set_item("arriving_bytes", terms.arriving.0)?;
    result.set_item("crossing_bytes", terms.crossing.0)?;
    result.set_item("total_bytes", terms.headroom_bytes().0)?;
    Ok(result)
}

/// The shortest cyclic buffer dependency if every packet may take every shortest path (ECMP).
#[pyfunction]
fn shortest_path_cycle(
    py: Python<'_>,
    topology: &Topology,
) -> PyResult<Vec<(String, String, String, String)>> {
    let graph = &topology.graph;
    let cycle = py.detach(|| {
        let hops = NextHops::shortest(graph)?;
        Ok(DependencyGraph::of_next_hops(&hops)?.shortest_cycle().unwrap_or_default())
    });
    let cycle = cycle.map_err(|error: RoutingError| wrong(error))?;
    let name = |node| graph.nodes()[node].name.clone();
    let row = |arc: &Dependency| {
        let [held, wanted] = [arc.from, arc.to].map(|channel| graph.port_name(channel.port));
        (held, wanted, name(arc.witness.from), name(arc.witness.to))
    };
    Ok(cycle.iter().map(row).collect())
}

pub(crate) fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(link_headroom, module)?)?;
    module.add_function(wrap_pyfunction!(shortest_path_cycle, module)?)
}
