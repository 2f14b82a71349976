//! Tests of the results folder: which files stay, which are removed, and what a failed write leaves.

use super::*;
use crate::{RunFacts, read_table};
use arrow_array::types::Int32Type;
use arrow_array::{DictionaryArray, Float64Array};
use pauseframe_units::Time;
use std::sync::Arc;

fn table(rows: usize) -> RecordBatch {
    let names: DictionaryArray<Int32Type> = (0..rows).map(|row| ["a", "b", "c"][row % 3]).collect();
    let values = Float64Array::from_iter_values((0..rows).map(|row| row as f64));
    RecordBatch::try_from_iter([("name", Arc::new(names) as _), ("value", Arc::new(values) as _)]).unwrap()
}

fn ended(status: RunStatus) -> Manifest {
    let facts = RunFacts {
        name: "test".into(),
        seed: 5,
        fingerprint: 0xff,
        sim_time: Time::ZERO,
        wall_s: 1.0,
        threads: 1,
        threads_reason: String::new(),
        events: 0,
        packet_hops: 0,
        syn_drops_not_ect: 0,
        fullest_switch: None,
        nic_queue: "fifo",
        series_full: None,
        memory: None,
        deadlocks: 0,
        status,
        warnings: Vec::new(),
        out: None,
    };
    Manifest::ended(&Summary::new(facts, &pauseframe_fabric::FlowRecords::default(), &[], &[]))
}

fn manifest(path: &Path) -> serde_json::Value {
    serde_json::from_str(&fs::read_to_string(path.join(MANIFEST)).unwrap()).unwrap()
}

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name != lock::NAME);
    names.sort();
    names
}

fn create(path: &Path, force: bool) -> Result<ResultsFolder, RunError> {
    ResultsFolder::create(path, force, &Manifest::running("test", 5))
}

#[test]
fn results_are_marked_from_the_start_and_complete_at_the_end() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("deep/out");
    let mut folder = create(&path, false).unwrap();
    assert_eq!(manifest(&path)["status"], "running");
    assert!(manifest(&path)["summary"].is_null());
    folder.write_table("flows.parquet", &table(10_000), &mut || true).unwrap();
    folder.write_text("scenario.resolved.toml", "name = \"test\"\n").unwrap();
    let mut packets = folder.begin("packets.pcapng").unwrap();
    packets.write_all(b"frames").unwrap();
    assert!(!path.join("packets.pcapng").exists());
    folder.commit(packets).unwrap();
    folder.finish(&ended(RunStatus::Complete)).unwrap();

    let manifest = manifest(&path);
    for (key, value) in [("program", "pauseframe"), ("name", "test"), ("status", "complete")] {
        assert_eq!(manifest[key], value);
    }
    assert_eq!((&manifest["seed"], &manifest["version"]), (&5.into(), &VERSION.into()));
    assert_eq!(
        (&manifest["fingerprint"], &manifest["summary"]["seed"]),
        (&"00000000000000ff".into(), &5.into())
    );
    let found = names(&path);
    assert_eq!(found, ["flows.parquet", MANIFEST, "packets.pcapng", "scenario.resolved.toml"]);
    assert_eq!(read_table(&path.join("flows.parquet")).unwrap(), table(10_000));
}

#[test]
fn tables_read_back_as_they_were_whatever_their_length() {
    let home = tempfile::tempdir().unwrap();
    let mut folder = create(home.path(), false).unwrap();
    // A row group holds 1,048,576 rows, so the table of 1.2 million rows has two row groups.
    for rows in [0, 1, 1_200_000] {
        folder.write_table("series.parquet", &table(rows), &mut || true).unwrap();
        let back = read_table(&home.path().join("series.parquet")).unwrap();
        assert_eq!((back.num_rows(), back.schema()), (rows, table(rows).schema()));
        assert_eq!(back.column(1), table(rows).column(1));
    }
    let error = read_table(&home.path().join("flows.parquet")).unwrap_err().to_string();
    assert!(error.contains("cannot read") && error.contains("flows.parquet"), "{error}");
}

#[test]
fn a_folder_with_something_in_it_is_not_taken() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path();
    create(path, false).unwrap().finish(&ended(RunStatus::Interrupted)).unwrap();
    let before = fs::read(path.join(MANIFEST)).unwrap();
    assert!(matches!(create(path, false), Err(RunError::OutputExists { .. })));
    assert_eq!(fs::read(path.join(MANIFEST)).unwrap(), before);
}

#[test]
fn force_replaces_our_files_and_no_others() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path();
    let mut folder = create(path, false).unwrap();
    folder.write_table("flows.parquet", &table(3), &mut || true).unwrap();
    folder.finish(&ended(RunStatus::Complete)).unwrap();
    fs::write(path.join("notes.txt"), "mine").unwrap();
    fs::write(path.join(".ports.parquet.partial"), "left by a killed process").unwrap();

    create(path, true).unwrap();
    assert_eq!(manifest(path)["status"], "running");
    assert_eq!(names(path), [MANIFEST, "notes.txt"]);
}

#[test]
fn force_does_not_touch_a_foreign_folder() {
    let home = tempfile::tempdir().unwrap();
    for foreign in ["flows.parquet", MANIFEST] {
        let path = home.path().join(foreign);
        fs::create_dir(&path).unwrap();
        fs::write(path.join(foreign), r#"{"program": "another"}"#).unwrap();
        let error = create(&path, true).unwrap_err();
        assert!(matches!(error, RunError::ForeignFolder { .. }), "{error}");
        assert_eq!(names(&path), [foreign]);
    }
}

#[test]
fn what_a_killed_process_left_before_its_first_file_is_no_obstacle() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join(".manifest.json.partial"), "{").unwrap();
    create(home.path(), false).unwrap();
    assert_eq!(names(home.path()), [MANIFEST]);
}

#[test]
fn a_file_in_the_way_is_named() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("out");
    fs::write(&path, "").unwrap();
    let error = create(&path, true).unwrap_err().to_string();
    assert!(error.contains("cannot write") && error.ends_with("Nothing has been written."), "{error}");
}

#[test]
fn an_unfinished_file_leaves_nothing() {
    let home = tempfile::tempdir().unwrap();
    let folder = create(home.path(), false).unwrap();
    let mut packets = folder.begin("packets.pcapng").unwrap();
    packets.write_all(&vec![0; 1 << 20]).unwrap();
    drop(packets);
    assert_eq!(names(home.path()), [MANIFEST]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_told_with_what_is_left() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path();
    let mut folder = create(path, false).unwrap();
    folder.write_table("flows.parquet", &table(10), &mut || true).unwrap();
    let mut full = folder.begin("ports.parquet").unwrap();
    full.file = BufWriter::new(OpenOptions::new().write(true).open("/dev/full").unwrap());
    let full = TableWriter::new(full, table(0).schema()).unwrap();
    let rows = table(300_000);
    let part = |part: Range<usize>| rows.slice(part.start, part.len());
    let error = folder.fill(full, rows.num_rows(), &part, &mut || true).unwrap_err();
    let RunError::Write { path: at, cause, left } = &error else { panic!("{error}") };
    assert_eq!(
        (at.as_path(), cause.kind()),
        (path.join("ports.parquet").as_path(), io::ErrorKind::StorageFull)
    );
    assert_eq!(left, "The run has no results; of its tables the folder holds flows.parquet whole.");
    drop(folder);
    assert_eq!(names(path), ["flows.parquet", MANIFEST]);
    assert_eq!(manifest(path)["status"], "running");
}

#[test]
#[cfg(unix)]
fn nothing_is_written_through_a_link() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("out");
    let victim = home.path().join("victim");
    fs::write(&victim, "mine").unwrap();
    let plant = |name: &str| std::os::unix::fs::symlink(&victim, path.join(name)).unwrap();
    create(&path, false).unwrap().finish(&ended(RunStatus::Complete)).unwrap();
    for name in [".manifest.json.partial", ".flows.parquet.partial", "flows.parquet", "report.html"] {
        plant(name);
    }
    let mut folder = create(&path, true).unwrap();
    plant(".ports.parquet.partial");
    folder.write_table("flows.parquet", &table(3), &mut || true).unwrap();
    folder.write_table("ports.parquet", &table(3), &mut || true).unwrap();
    folder.finish(&ended(RunStatus::Complete)).unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
    assert_eq!(names(&path), ["flows.parquet", MANIFEST, "ports.parquet"]);
    plant(lock::NAME);
    let error = create(&path, true).unwrap_err().to_string();
    assert!(error.contains("no regular file"), "{error}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "mine");
}

/// The report in the folder describes the old run, so overwriting removes the report.
#[test]
fn force_leaves_nothing_of_the_old_run() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path();
    create(path, false).unwrap().finish(&ended(RunStatus::Complete)).unwrap();
    for name in FILES.into_iter().filter(|name| *name != MANIFEST) {
        fs::write(path.join(name), "old").unwrap();
    }
    create(path, true).unwrap().finish(&ended(RunStatus::Complete)).unwrap();
    assert_eq!(names(path), [MANIFEST]);
}

#[test]
fn one_writes_at_a_time() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path();
    let first = create(path, false).unwrap();
    let before = fs::read(path.join(MANIFEST)).unwrap();
    let error = create(path, true).unwrap_err();
    let RunError::InUse { holder, .. } = &error else { panic!("{error}") };
    assert!(holder.contains(&format!("process {}", std::process::id())), "{holder}");
    assert!(error.to_string().contains("is writing results"), "{error}");
    assert_eq!(fs::read(path.join(MANIFEST)).unwrap(), before);
    first.finish(&ended(RunStatus::Complete)).unwrap();
    create(path, true).unwrap();
}

/// After a kill the lock file is there, but no process holds the lock.
#[test]
fn a_lock_without_a_holder_is_in_nobodys_way() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join(lock::NAME), "process 1").unwrap();
    create(home.path(), false).unwrap().finish(&ended(RunStatus::Complete)).unwrap();
    assert_eq!(names(home.path()), [MANIFEST]);
}

#[test]
fn writing_can_be_stopped() {
    let home = tempfile::tempdir().unwrap();
    let mut folder = create(home.path(), false).unwrap();
    let mut looks = 0;
    let mut go_on = || {
        looks += 1;
        looks < 3
    };
    let error = folder.write_table("series.parquet", &table(10 * PART), &mut go_on).unwrap_err();
    assert!(matches!(error, RunError::Interrupted { .. }), "{error}");
    assert_eq!(looks, 3);
    drop(folder);
    assert_eq!(names(home.path()), [MANIFEST]);
}
