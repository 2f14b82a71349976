//! Computes max-min fair rates by plain water-filling, as a measure of the quality of routes.

use pauseframe_topology::Topology;
use pauseframe_units::{NodeId, PortId};

/// Mean rate of flows if every link has capacity 1; each flow uses a path of egress ports.
pub(crate) fn mean_rate(topology: &Topology, paths: &[Vec<PortId>]) -> f64 {
    let mut flows_at: Vec<Vec<usize>> = vec![Vec::new(); topology.port_count()];
    for (flow, path) in paths.iter().enumerate() {
        for port in path {
            flows_at[port.0 as usize].push(flow);
        }
    }
    let mut left: Vec<f64> = vec![1.0; topology.port_count()];
    let mut active: Vec<usize> = flows_at.iter().map(Vec::len).collect();
    let mut rate = vec![f64::NAN; paths.len()];
    let share = |port: usize, left: &[f64], active: &[usize]| left[port] / active[port] as f64;
    while let Some(tightest) = (0..left.len())
        .filter(|port| active[*port] > 0)
        .min_by(|a, b| share(*a, &left, &active).total_cmp(&share(*b, &left, &active)))
    {
        let fair = share(tightest, &left, &active);
        for flow in flows_at[tightest].clone() {
            if rate[flow].is_nan() {
                rate[flow] = fair;
                for port in &paths[flow] {
                    left[port.0 as usize] = (left[port.0 as usize] - fair).max(0.0);
                    active[port.0 as usize] -= 1;
                }
            }
        }
    }
    rate.iter().sum::<f64>() / rate.len() as f64
}

/// A random cyclic permutation of all hosts: each host sends to the next host.
pub(crate) fn permutation(hosts: &[NodeId], seed: u64) -> Vec<(NodeId, NodeId)> {
    use rand::SeedableRng;
    use rand::seq::SliceRandom;
    let mut circle = hosts.to_vec();
    circle.shuffle(&mut rand_pcg::Pcg64::seed_from_u64(seed));
    (0..circle.len()).map(|i| (circle[i], circle[(i + 1) % circle.len()])).collect()
}

#[test]
fn water_filling_meets_its_closed_form() {
    use crate::common::LINK;
    // Two flows share a link; one of them also shares another link with two further flows.
    let topology = pauseframe_topology::generate::star(8, LINK).unwrap();
    let port = |node: u32| topology.nodes()[NodeId(node)].ports[0];
    let paths = [vec![port(0)], vec![port(0), port(1)], vec![port(1)], vec![port(1)]];
    let expected = (2.0 / 3.0 + 1.0 / 3.0 * 3.0) / 4.0;
    assert!((mean_rate(&topology, &paths) - expected).abs() < 1e-12);
}
