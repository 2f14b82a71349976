//! Measures plans of twenty graphs of 10 to 2,000 switches, with `--effort fast` and the defaults. Prints a
//! line for each plan: wall-clock seconds for the plan and its proof, steps, and over all pairs of switches
//! the number of pairs without a route and the mean detour. Arguments: parts of the names of the graphs; `-v`
//! for the time of each stage.

use pauseframe_routing::verify::{Options, Tables, verify_watched};
use pauseframe_routing::watch::{Stopped, Unwatched, Watch};
use pauseframe_routing::{EngineSettings, ForwardingTables, STEPS_A_SECOND, engine};
use pauseframe_topology::{SwitchGraph, generate};
use std::error::Error;
use std::time::Instant;

const GRAPHS: [&str; 20] = [
    "ring:switches=10,hosts_per_switch=2",
    "jellyfish:switches=20,network_ports=6,hosts_per_switch=4",
    "dragonfly:p=2,a=4,h=2,g=9",
    "torus:lengths=6x6,hosts_per_switch=2",
    "fat_tree:k=8",
    "jellyfish:switches=50,network_ports=4,hosts_per_switch=4",
    "jellyfish:switches=100,network_ports=8,hosts_per_switch=8",
    "ring:switches=100,hosts_per_switch=2",
    "leaf_spine:leaves=100,spines=16,hosts_per_leaf=8",
    "dragonfly:p=4,a=8,h=4,g=20",
    "torus:lengths=14x14,hosts_per_switch=2",
    "jellyfish:switches=225,ports=64,hosts_per_switch=32",
    "fat_tree:k=16",
    "jellyfish:switches=500,network_ports=4,hosts_per_switch=4",
    "jellyfish:switches=500,network_ports=16,hosts_per_switch=16",
    "torus:lengths=10x10x10,hosts_per_switch=1",
    "jellyfish:switches=1000,network_ports=4,hosts_per_switch=4",
    "jellyfish:switches=1000,network_ports=32,hosts_per_switch=32",
    "ring:switches=2000,hosts_per_switch=1",
    "jellyfish:switches=2000,network_ports=8,hosts_per_switch=8",
];

/// Sums the processor time of each stage.
#[derive(Default)]
struct Stages {
    seconds: Vec<(&'static str, f64)>,
    last: Option<(&'static str, f64)>,
    calls: u32,
}

impl Watch for Stages {
    fn step(&mut self, stage: &'static str, _: u64, _: u64) -> Result<(), Stopped> {
        self.calls += 1;
        if self.last.is_some_and(|(last, _)| last == stage) && !self.calls.is_multiple_of(256) {
            return Ok(());
        }
        let now = processor_seconds();
        if let Some((last, since)) = self.last {
            match self.seconds.iter_mut().find(|(name, _)| *name == last) {
                Some((_, sum)) => *sum += now - since,
                None => self.seconds.push((last, now - since)),
            }
        }
        self.last = Some((stage, now));
        Ok(())
    }
}

/// Processor seconds of this process (proc(5)), or wall-clock seconds if there is no such file.
fn processor_seconds() -> f64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let clock = START.get_or_init(Instant::now).elapsed().as_secs_f64();
    let text = std::fs::read_to_string("/proc/self/schedstat").ok();
    let nanoseconds = text.and_then(|text| text.split(' ').next()?.parse::<f64>().ok());
    nanoseconds.map_or(clock, |nanoseconds| nanoseconds / 1e9)
}

/// Number of pairs of switches without a route, and the mean detour of the other pairs.
fn detours(plan: &ForwardingTables) -> (u64, f64) {
    let graph = plan.graph();
    let (lengths, rows) = (plan.lengths(), graph.attachments().len());
    let (mut distance, mut queue) = (vec![0; graph.len()], Vec::new());
    let (mut unserved, mut links, mut shortest) = (0, 0_u64, 0_u64);
    for (to, target) in graph.attachments().iter().enumerate() {
        graph.distances(*target, &mut distance, &mut queue);
        for (from, source) in graph.attachments().iter().enumerate() {
            let of = |vlan: usize| lengths[vlan * rows * rows + to * rows + from];
            match (0..plan.vlans()).map(of).min().unwrap_or(u16::MAX) {
                u16::MAX => unserved += 1,
                length => {
                    links += u64::from(length);
                    shortest += u64::from(distance[*source as usize]);
                }
            }
        }
    }
    (unserved, links as f64 / shortest as f64 - 1.0)
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (options, names): (Vec<&String>, Vec<&String>) =
        arguments.iter().partition(|one| one.starts_with('-'));
    println!("graph,effort,plan s,with proof s,steps 1e9,lanes,clean,unserved,detour");
    for name in GRAPHS {
        if !names.is_empty() && !names.iter().any(|part| name.contains(part.as_str())) {
            continue;
        }
        let topology = generate::named(name)?;
        let graph = SwitchGraph::new(&topology)?;
        for effort in ["fast", "normal"] {
            let settings =
                EngineSettings { effort: Some(effort.parse()?), seed: 1, ..EngineSettings::default() };
            let (mut stages, start) = (Stages::default(), processor_seconds());
            let plan = engine("auto", &settings)?.plan_watched(&topology, &graph, &mut stages)?;
            stages.step("end", 0, 0)?;
            let planned = processor_seconds() - start;
            let tables = Tables::of_plan(&plan, 1);
            let report = verify_watched(&topology, &tables, &Options::default(), &mut Unwatched)?;
            let proven = processor_seconds() - start;
            let (unserved, detour) = detours(&plan);
            println!(
                "{name},{effort},{planned:.2},{proven:.2},{:.2},{},{},{unserved},{detour:.5}",
                plan.steps().unwrap_or(0) as f64 / STEPS_A_SECOND,
                plan.lanes(),
                report.is_clean()
            );
            if options.iter().any(|option| *option == "-v") {
                for (stage, seconds) in stages.seconds {
                    println!("    {stage}: {seconds:.2} s");
                }
                for note in plan.notes() {
                    println!("    {note}");
                }
            }
        }
    }
    Ok(())
}
