//! Recordings have size limits, and the errors name these limits.

use super::{packets, read};
use pauseframe_scenario::results::RunError;
use pauseframe_scenario::{RunCallbackDecision, RunOptions, run};

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
    // 10^8 samples of eight ports with two metrics each.
    assert!(problem.message.contains("1600 million rows, 38.4 GB"), "{}", problem.message);
    assert!(
        problem.hint.contains("--force-large") && problem.hint.contains("force_large=True"),
        "{}",
        problem.hint
    );
    let error = run(&resolved, RunOptions::default(), |_| RunCallbackDecision::Continue).unwrap_err();
    assert!(matches!(error, RunError::TooLarge(_)), "{error}");
    // A user can override the limit; in this run the flows end long before the stop time.
    let options = RunOptions { force_large: true, ..RunOptions::default() };
    let results = run(&resolved, options, |_| RunCallbackDecision::Continue).unwrap();
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
    // The series has 400 samples of eight ports with four metrics: backlog, throughput, paused share and
    // ingress account.
    let rows = packets(&text.replace("10 KB", "100 MB")).series.num_rows();
    assert_eq!(rows, 400 * 8 * 4);
}

/// The estimate counts the drawn flows of an open loop, not one flow for each host.
#[test]
fn the_estimate_counts_the_flows_of_an_open_loop() {
    let scenario = |every: &str| {
        format!(
            "stop = {{ time = \"20 ms\", when_finished = false }}\ntopology = {{ kind = \"star\", hosts = 12 }}\n\
             transport = {{ preset = \"dctcp\" }}\n[[workload]]\nkind = \"background\"\n\
             sizes = {{ kind = \"fixed\", size = \"10 KB\" }}\narrivals = {{ kind = \"load\", load = 0.2 }}\nstop = \"18 ms\"\n\
             [record.series]\nevery = \"{every}\"\nports = []\nflows = [\"*\"]\n"
        )
    };
    let problem = read(&scenario("1 ns")).large.unwrap();
    let number = |before: &str, after: &str| -> f64 {
        let (_, rest) = problem.message.split_once(before).unwrap();
        rest.split_once(after).unwrap().0.trim().parse().unwrap()
    };
    let (flows, rows) = (number("about ", " flows"), number("open, are ", " million"));
    let recorded = packets(&scenario("1 us"));
    let found = recorded.flows.num_rows() as f64;
    assert!((flows / found - 1.0).abs() < 0.1, "{flows} against {found}: {}", problem.message);
    let found = recorded.series.num_rows() as f64 * 1000.0 / 1e6;
    assert!((0.5..2.0).contains(&(rows / found)), "{rows} against {found}: {}", problem.message);
}

#[test]
fn packets_without_bounds_are_refused() {
    let large = |stop, record: &str| read(&text(stop, record)).large.map(|problem| problem.path);
    let packets = "[record.packets]\nlimit = 4000000000\n";
    assert_eq!(large("100 s", packets).as_deref(), Some("record.packets.limit"));
    // The links cannot carry that many packets.
    assert_eq!(large("10 ms", packets), None);
    assert_eq!(large("100 s", "[record.packets]\n"), None);
}
