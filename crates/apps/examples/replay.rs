//! Replays a trace on an ideal network: `replay PATH [COMPUTE_SCALE]`. 10 Gb/s, 3 us.

use pauseframe_apps::ideal::{self, IdealNetwork, Sharing};
use pauseframe_apps::read::{ReadOptions, read};
use pauseframe_apps::{Options, critical_path};
use pauseframe_units::{BitRate, Span, Time};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let path = arguments.get(1).ok_or("give the path of a trace")?;
    let compute_scale = arguments.get(2).map_or(Ok(1.0), |scale| scale.parse())?;
    let application = Arc::new(read(Path::new(path), None, ReadOptions::default())?);
    println!("{}: {} ranks, {} steps", application.name, application.ranks(), application.steps());
    application.notes.iter().for_each(|note| println!("note: {note}"));
    let options = Options { compute_scale, ..Options::default() };
    for sharing in [Sharing::Nothing, Sharing::Nics] {
        let network = IdealNetwork { latency: Span::from_us(3), rate: BitRate::gbps(10), sharing };
        let replay = ideal::run(Arc::clone(&application), options.clone(), network)?;
        let end = replay.finish().ok_or("did not finish")? - Time::ZERO;
        println!("{sharing:?}: {end}");
        if sharing == Sharing::Nothing {
            match critical_path(&application, &options, network) {
                Ok(path) => println!("critical path: {} ({})", path.length, path.length == end),
                Err(error) => println!("critical path: {error}"),
            }
        }
    }
    Ok(())
}
