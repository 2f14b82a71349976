//! What is to be recorded has bounds, and says them.

use crate::{packets, read};
use pauseframe_scenario::results::RunError;
use pauseframe_scenario::{Control, RunOptions, run};

fn text(stop: &str, record: &str) -> String {
    format!(
        "stop = \"{stop}\"\ntopology = {{ kind = \"star\", hosts = 4 }}\n\
         [[workload]]\nkind = \"permutation\"\nsize = \"10 KB\"\n{record}"
    )
}

#[test]
fn a_series_without_bounds_is_refused_with_its_size() {
    let resolved = read(&text("100 ms", "[record.series]\nevery = \"1 ns\"\n"));
    let problem = resolved.large.clone().unwrap();
    assert_eq!((problem.path.as_str(), problem.place.as_str()), ("record.series.every", "test.toml"));
    // 10^8 samples of eight ports, two metrics each.
    assert!(problem.message.contains("1600 million rows, 38.4 GB"), "{}", problem.message);
    assert!(
        problem.hint.contains("--force-large") && problem.hint.contains("force_large=True"),
        "{}",
        problem.hint
    );
    let error = run(&resolved, RunOptions::default(), |_| Control::Continue).unwrap_err();
    assert!(matches!(error, RunError::TooLarge(_)), "{error}");
    // Who allows it has it: here the flows end long before the time.
    let options = RunOptions { force_large: true, ..RunOptions::default() };
    let results = run(&resolved, options, |_| Control::Continue).unwrap();
    assert!(results.series.num_rows() > 100_000, "{}", results.series.num_rows());
    for fine in
        ["[record.series]\nevery = \"100 ns\"\n", "[record.series]\nevery = \"1 ns\"\nports = []\n", ""]
    {
        assert_eq!(read(&text("100 ms", fine)).large, None, "{fine}");
    }
}

#[test]
fn the_estimate_is_what_a_run_records() {
    let series = "[record.series]\nevery = \"50 us\"\n[transport]\npreset = \"tcp_bolt\"\n";
    let text = text("20 ms", series)
        .replace("stop = \"20 ms\"", "stop = { time = \"20 ms\", when_finished = false }");
    // Eight ports, 400 samples; backlog, throughput, share paused and ingress account.
    let rows = packets(&text.replace("10 KB", "100 MB")).series.num_rows();
    assert_eq!(rows, 400 * 8 * 4);
}

#[test]
fn packets_without_bounds_are_refused() {
    let large = |stop, record: &str| read(&text(stop, record)).large.map(|problem| problem.path);
    let packets = "[record.packets]\nlimit = 4000000000\n";
    assert_eq!(large("100 s", packets).as_deref(), Some("record.packets.limit"));
    // The links cannot carry as many.
    assert_eq!(large("10 ms", packets), None);
    assert_eq!(large("100 s", "[record.packets]\n"), None);
}
