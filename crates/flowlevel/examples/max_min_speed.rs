//! Measures the time to compute max-min rates: permutations over ECMP paths on Jellyfish of 7,200 and 32,000
//! hosts. The time includes the construction of the link-to-flow index; the best of five calls counts.

use pauseframe_flowlevel::{Flows, MaxMin, capacities, demand, routes};
use pauseframe_routing::NextHops;
use pauseframe_topology::Channel;
use pauseframe_topology::generate::{Jellyfish, jellyfish};
use pauseframe_units::{BitRate, NodeId, Span};
use std::error::Error;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn Error>> {
    println!("flows,links,sum_gbps,milliseconds");
    for (switches, flows) in [(225, 7_200), (1000, 64_000), (1000, 1_000_000)] {
        let size = Jellyfish { switches, network_ports: 32, hosts_per_switch: 32 };
        let channel = Channel { rate: BitRate::gbps(1), delay: Span::ZERO };
        let topology = jellyfish(size, 1, channel, channel)?;
        let hops = NextHops::shortest(&topology)?;
        let hosts: Vec<NodeId> = topology.hosts().collect();
        let mut pairs = Vec::new();
        for seed in 0.. {
            pairs.extend(demand::permutation(&hosts, seed)?);
            if pairs.len() >= flows {
                break;
            }
        }
        pairs.truncate(flows);
        let paths = routes::ecmp(&topology, &hops, &pairs, 1);
        let capacity = capacities(&topology);
        let mut solver = MaxMin::default();
        let (mut best, mut sum) = (Duration::MAX, 0.0);
        for _ in 0..5 {
            let start = Instant::now();
            let rates = solver.solve(&capacity, Flows::equal(&paths))?;
            best = best.min(start.elapsed());
            sum = rates.iter().sum::<f64>() / 1e9;
        }
        println!("{flows},{},{sum:.4},{:.2}", capacity.len(), best.as_secs_f64() * 1e3);
    }
    Ok(())
}
