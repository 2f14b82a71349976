//! Two hosts of one kernel, joined by an ideal link: one flow, its completion time and a hash of all frames.
use pauseframe_kernel::control::{self, Exchange, Open, Order, Report};
use pauseframe_kernel::{Machine, Process};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (kernel, folder, size) = (&arguments[1], Path::new(&arguments[2]), arguments[3].parse::<u64>().unwrap());
    let mut args: Vec<std::ffi::OsString> = ["mem=256M", "hostfs=.", "root=/dev/root", "rootfstype=hostfs", "rw", "init=/agent",
        "con=null", "con0=fd:0,fd:1", "uml_dir=./", "umid=kernel", "time-travel=ext:1:time"].iter().map(Into::into).collect();
    for _ in 0..3 { args.push("virtio_uml.device=net:1".into()); }
    let environment = [("LD_PRELOAD", arguments[4].as_str()), ("TMPDIR", "/dev/shm"), ("PAUSEFRAME_SEED", "1")].map(|(a, b)| (a.into(), b.into()));
    let macs = [[2, 255, 255, 0, 0, 0], [2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
    let mut machine = Machine::start(folder, |folder| Process::start(Path::new(kernel), &args, &environment, folder), &macs, 1500)
        .unwrap_or_else(|e| panic!("{e}"));
    machine.wait().unwrap_or_else(|e| panic!("{e}"));
    let mut hash = DefaultHasher::new();
    let mut arrivals: BTreeMap<(u64, usize, u64), Vec<u8>> = BTreeMap::new();
    let (mut number, mut frames, mut bytes, mut advances) = (0_u64, 0_u64, 0_u64, 0_u64);
    let mut begun = None;
    loop {
        // Frames that were sent.
        let now = machine.now();
        for device in 0..machine.devices() {
            while let Some(frame) = machine.take_frame(device).unwrap() {
                (now, device, &frame).hash(&mut hash);
                if device == 0 {
                    for report in control::reports(&frame).unwrap_or_default() {
                        println!("{:.3} us {report:?}", (now - begun.unwrap_or(now)) as f64 / 1e3);
                        match report {
                            Report::Ready => {
                                begun = Some(now);
                                let exchange = |writes, expects| Exchange { flow: 0, writes, expects, reply: 0, reply_delay: 0 };
                                let open = |host, side, exchange| Order::Open(Open { host, side, peer: [10, 0, 0, 2 - host as u8], transport: 0, delay: 0, exchange });
                                let orders = [(0, open(0, 0, exchange(size, u64::MAX))), (1, open(1, 1, exchange(0, size)))];
                                for frame in control::frames(&orders) { machine.put_frame(0, &frame).unwrap(); }
                            }
                            Report::Complete(_) => {
                                for frame in control::frames(&[(0, Order::Close), (1, Order::Close)]) { machine.put_frame(0, &frame).unwrap(); }
                            }
                            Report::Drained(0) => {
                                println!("{frames} frames, {bytes} bytes, {advances} grants, hash {:016x}", hash.finish());
                                return;
                            }
                            _ => {}
                        }
                    }
                } else {
                    frames += 1;
                    bytes += frame.len() as u64;
                    number += 1;
                    arrivals.insert((now + 10_000, 3 - device, number), frame);
                }
            }
        }
        machine.take_kicks();
        machine.call(now, 0..machine.devices()).unwrap_or_else(|e| panic!("{e}"));
        let arrival = arrivals.first_key_value().map(|((at, _, _), _)| *at);
        let next = machine.requested().into_iter().chain(arrival).min().expect("nothing happens any more");
        while let Some(entry) = arrivals.first_entry().filter(|entry| entry.key().0 <= next) {
            let device = entry.key().1;
            let frame = entry.remove();
            assert!(machine.put_frame(device, &frame).unwrap());
        }
        machine.call(next, 0..machine.devices()).unwrap_or_else(|e| panic!("{e}"));
        let free = arrivals.first_key_value().map_or(u64::MAX / 4, |((at, _, _), _)| *at);
        if machine.requested().is_some_and(|at| at <= next) {
            machine.advance(next, free).unwrap_or_else(|e| panic!("{e}"));
            advances += 1;
        }
    }
}
