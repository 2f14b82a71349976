//! A process that is killed while it writes results leaves only complete tables, and a manifest that marks
//! the run as incomplete.

use arrow_array::{Float64Array, RecordBatch};
use pauseframe_scenario::results::{Manifest, ResultsFolder, RunFacts, RunStatus, Summary, read_table};
use pauseframe_units::Time;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const FOLDER: &str = "PAUSEFRAME_KILLED_RUN_FOLDER";
const TABLES: [&str; 4] = ["flows.parquet", "queries.parquet", "ports.parquet", "series.parquet"];
const ROWS: usize = 30_000;

/// Writes the same results again and again until the process is killed.
fn write_for_ever(path: &Path) -> ! {
    // The values do not compress, so the process spends most of its time writing.
    let values = (0..ROWS as u64).map(|row| f64::from_bits(row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 2));
    let column = Arc::new(Float64Array::from_iter_values(values));
    let table = RecordBatch::try_from_iter([("value", column as _)]).unwrap();
    let facts = RunFacts {
        name: "killed".into(),
        seed: 1,
        fingerprint: 1,
        sim_time: Time::ZERO,
        wall_s: 0.0,
        threads: 1,
        threads_reason: String::new(),
        events: 0,
        packet_hops: 0,
        memory: None,
        deadlocks: 0,
        syn_drops_not_ect: 0,
        fullest_switch: None,
        nic_queue: "fifo",
        series_full: None,
        status: RunStatus::Complete,
        warnings: Vec::new(),
        out: None,
    };
    let summary = Summary::new(facts, &pauseframe_fabric::FlowRecords::default(), &[], &[]);
    loop {
        let mut folder = ResultsFolder::create(path, true, &Manifest::running("killed", 1)).unwrap();
        for name in TABLES {
            folder.write_table(name, &table, &mut || true).unwrap();
        }
        folder.finish(&Manifest::ended(&summary)).unwrap();
    }
}

/// The status in the folder's manifest, after a check that every table in the folder is complete.
fn status(path: &Path) -> Option<String> {
    let mut tables = 0;
    for name in TABLES.iter().filter(|name| path.join(name).exists()) {
        assert_eq!(read_table(&path.join(name)).unwrap().num_rows(), ROWS);
        tables += 1;
    }
    let Ok(manifest) = std::fs::read_to_string(path.join("manifest.json")) else {
        assert_eq!(tables, 0, "tables without a mark");
        return None;
    };
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let status = manifest["status"].as_str().unwrap().to_string();
    assert!(tables == TABLES.len() || status == "running", "{tables} tables, {status}");
    Some(status)
}

#[test]
fn a_killed_process_leaves_results_that_are_whole_or_marked() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        write_for_ever(Path::new(&folder));
    }
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("out");
    let mut seen = Vec::new();
    for kill in 0..12 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("a_killed_process_leaves_results_that_are_whole_or_marked")
            .env(FOLDER, &path)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // The times of the kills share no factor with the period of the writer.
        std::thread::sleep(Duration::from_millis(60 + 37 * kill));
        child.kill().unwrap();
        child.wait().unwrap();
        seen.push(status(&path));
    }
    assert!(seen.contains(&Some("running".into())), "never caught in the act: {seen:?}");
}
