//! Hosts that are namespaces of a Linux kernel. Skipped where none is built: `pauseframe kernel build`, or its folder in
//! PAUSEFRAME_KERNEL.

mod common;

use common::read;
use pauseframe_scenario::{Control, RunOptions, RunResults, run};
use std::path::{Path, PathBuf};

/// The folder of a kernel, if there is one.
fn kernel() -> Option<PathBuf> {
    let named = std::env::var_os("PAUSEFRAME_KERNEL").map(PathBuf::from);
    let base = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let base = base.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")))?;
    let folders = std::fs::read_dir(base.join("pauseframe/kernel")).into_iter().flatten().flatten();
    let built = folders.map(|entry| entry.path()).filter(|path| path.join("agent").is_file()).min();
    let found = named.or(built);
    if found.is_none() {
        println!("skipped: no kernel is built (pauseframe kernel build)");
    }
    found
}

fn run_with(kernel: &Path, text: &str, out: Option<&Path>) -> RunResults {
    let options = RunOptions { kernel: Some(kernel), out, ..RunOptions::default() };
    run(&read(text, &[]).unwrap(), options, |_| Control::Continue).unwrap_or_else(|error| panic!("{error}"))
}

const TWO_TO_ONE: &str = r#"
name = "kernel-two-to-one"
stop = { time = "100 ms", when_finished = true }
workload = [{ kind = "n_to_1", senders = 2, size = "1 MB" }]
topology = { kind = "star", hosts = 3, link = { rate = "10 Gbps", delay = "1 us" } }
host = { stack = "kernel" }
record = { packets = true }
"#;

#[test]
fn flows_of_a_kernel_finish() {
    let Some(kernel) = kernel() else { return };
    let results = run_with(&kernel, TWO_TO_ONE, None);
    println!("{:?}", results.flows);
    println!("{:?}", results.summary);
    assert_eq!((results.summary.flows_total, results.summary.flows_finished), (2, 2));
}
