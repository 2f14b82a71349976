//! Damaged, endless and foreign files cause an error, but never a panic and never an endless loop.

use super::read_in;
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use pauseframe_engine::{Rng, random_stream};
use pauseframe_scenario::panics::caught;
use pauseframe_scenario::results::read_table;
use pauseframe_topology::generate;
use pauseframe_topology::interchange::{Format, write};
use std::path::Path;
use std::sync::Arc;

const SEED: u64 = 4711;

fn flow_table() -> RecordBatch {
    let rows = 200;
    let names = |offset: usize| {
        StringArray::from_iter_values((0..rows).map(|row| format!("host{}", (row + offset) % 3)))
    };
    let columns: [(&str, ArrayRef); 4] = [
        ("src", Arc::new(names(0))),
        ("dst", Arc::new(names(1))),
        ("size_bytes", Arc::new(Int64Array::from_iter_values((0..rows as i64).map(|row| row * row + 1)))),
        ("start_us", Arc::new(Float64Array::from_iter_values((0..rows).map(|row| row as f64 * 0.5)))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn parquet(compression: Compression) -> Vec<u8> {
    let (table, mut bytes) = (flow_table(), Vec::new());
    let properties = WriterProperties::builder()
        .set_compression(compression)
        .set_max_row_group_row_count(Some(70))
        .build();
    let mut writer = ArrowWriter::try_new(&mut bytes, table.schema(), Some(properties)).unwrap();
    writer.write(&table).unwrap();
    writer.close().unwrap();
    bytes
}

fn csv() -> Vec<u8> {
    let mut text = "src,dst,size_bytes,start_us\n".to_owned();
    for row in 0..30 {
        let [from, to, size] = [row % 3, (row + 1) % 3, row * 100 + 1];
        text = format!("{text}host{from},host{to},{size},{row}.5\n");
    }
    text.into_bytes()
}

/// Changes bytes at random: flips, removes or doubles some, or sets them to extreme values of lengths and
/// signs.
fn mutated(bytes: &[u8], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=rng.uniform_below(4) {
        let at = rng.uniform_below(bytes.len().max(1) as u64) as usize;
        let end = (at + 1 + rng.uniform_below(8) as usize).min(bytes.len());
        match rng.uniform_below(6) {
            0 => bytes.truncate(at),
            1 => drop(bytes.drain(at..end)),
            2 => {
                let part = bytes[at..end].to_vec();
                bytes.splice(at..at, part);
            }
            3 => bytes[at..end].fill(0xff),
            4 => bytes[at..end].fill(0),
            _ => bytes[at..end].iter_mut().for_each(|byte| *byte ^= 1 << rng.uniform_below(8)),
        }
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}

/// Reads `count` damaged copies of `good`, stored under the name `name`, with `read`.
fn batter(good: &[u8], name: &str, count: u64, read: impl Fn(&Path)) {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join(name);
    for number in 0..count {
        let mut rng = random_stream(SEED, name, number);
        std::fs::write(&path, mutated(good, &mut rng)).unwrap();
        if let Err(panic) = caught(|| read(&path)) {
            panic!("{name}, number {number} of seed {SEED}: {panic}");
        }
    }
}

fn with_workload(path: &Path, workload: &str) {
    let text =
        format!("stop = \"1 ms\"\ntopology = {{ kind = \"star\", hosts = 3 }}\n[[workload]]\n{workload}\n");
    // Some damage is harmless; an error always names a reason.
    if let Err(error) = read_in(path.parent().unwrap(), &text) {
        assert!(!error.problems.is_empty());
    }
}

#[test]
fn damaged_flow_lists_are_errors() {
    let zstd = Compression::ZSTD(ZstdLevel::try_new(3).unwrap());
    for (name, compression) in
        [("a.parquet", Compression::UNCOMPRESSED), ("b.parquet", Compression::SNAPPY), ("c.parquet", zstd)]
    {
        let good = parquet(compression);
        batter(&good, name, 300, |path| {
            with_workload(path, &format!("kind = \"flows\"\nfile = \"{name}\""));
            let _ = read_table(path);
        });
    }
    batter(&csv(), "flows.csv", 300, |path| with_workload(path, "kind = \"flows\"\nfile = \"flows.csv\""));
}

#[test]
fn damaged_distributions_are_errors() {
    let good = b"# bytes cdf\n0 0\n1000 0.5\n20000 0.9\n300000 1\n";
    let background = "kind = \"background\"\nsizes = { kind = \"cdf\", source = \"sizes.cdf\" }\n\
                      arrivals = { kind = \"rate\", per_host = 100.0 }";
    batter(good, "sizes.cdf", 300, |path| with_workload(path, background));
}

#[test]
fn damaged_fabrics_and_plans_are_errors() {
    let graph = generate::named("leaf_spine:leaves=2,spines=2,hosts_per_leaf=2").unwrap();
    let tail = "stop = \"1 ms\"\n[[workload]]\nkind = \"permutation\"\nsize = \"1 KB\"\n";
    for (name, format) in [
        ("f.graphml", Format::GraphMl),
        ("f.json", Format::NodeLink),
        ("f.hpcc", Format::Hpcc),
        ("f.htsim", Format::Htsim),
        ("f.clab.yml", Format::Containerlab),
    ] {
        let text = format!("{tail}[topology]\nkind = \"file\"\npath = \"{name}\"\nformat = \"{format}\"\n");
        batter(write(&graph, format).unwrap().as_bytes(), name, 100, |path| {
            let _ = read_in(path.parent().unwrap(), &text);
        });
    }
    let plan = "vlan,lane,switch,destination,next\n1,0,a,b,c\n";
    let text = format!(
        "{tail}[topology]\nkind = \"ring\"\nswitches = 4\nhosts_per_switch = 1\n[routing]\nkind = \"plan\"\npath = \"plan.csv\"\n"
    );
    batter(plan.as_bytes(), "plan.csv", 100, |path| {
        let _ = read_in(path.parent().unwrap(), &text);
    });
}

/// Tests every key that names a file.
#[test]
#[cfg(unix)]
fn devices_and_pipes_are_refused() {
    let home = tempfile::tempdir().unwrap();
    for name in ["zero.csv", "zero.parquet", "zero.cdf", "zero.graphml", "zero.toml"] {
        std::os::unix::fs::symlink("/dev/zero", home.path().join(name)).unwrap();
    }
    let star = "topology = { kind = \"star\", hosts = 3 }\n";
    let plain = "[[workload]]\nkind = \"permutation\"\nsize = \"1 KB\"\n";
    for (key, text) in [
        ("workload.0.file", format!("{star}[[workload]]\nkind = \"flows\"\nfile = \"zero.csv\"\n")),
        ("workload.0.file", format!("{star}[[workload]]\nkind = \"flows\"\nfile = \"zero.parquet\"\n")),
        (
            "workload.0.sizes.source",
            format!(
                "stop = \"1 ms\"\n{star}[[workload]]\nkind = \"background\"\nsizes = \"zero.cdf\"\n\
                 arrivals = {{ kind = \"rate\", per_host = 9.0 }}\n"
            ),
        ),
        ("topology.path", format!("topology = {{ kind = \"file\", path = \"zero.graphml\" }}\n{plain}")),
        ("routing.path", format!("{star}routing = {{ kind = \"plan\", path = \"zero.csv\" }}\n{plain}")),
    ] {
        let error = read_in(home.path(), &text).unwrap_err();
        let at = error.problems.iter().find(|problem| problem.path == key);
        let message = &at.unwrap_or_else(|| panic!("{key}: {error}")).message;
        assert!(message.contains("a device, a pipe or a socket"), "{message}");
    }
    let table = home.path().join("zero.parquet");
    assert!(read_table(&table).unwrap_err().to_string().contains("not a regular file"));
}

#[test]
#[cfg(unix)]
fn files_have_a_largest_size() {
    use pauseframe_units::files::read_text;
    use pauseframe_units::limits::Limit;
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("text");
    std::fs::write(&path, "links").unwrap();
    assert_eq!(read_text(&path).unwrap(), "links");
    std::fs::write(&path, [0xff, 0xfe]).unwrap();
    assert!(read_text(&path).unwrap_err().to_string().contains("UTF-8"));
    assert!(read_text(home.path()).unwrap_err().to_string().contains("a folder"));
    // The file is sparse, so it needs no disk space.
    std::fs::File::create(&path).unwrap().set_len(Limit::Bytes.default_value() + 1).unwrap();
    assert!(read_text(&path).unwrap_err().to_string().contains("--limit bytes=1073741825"));
}

/// A flow list reports all its mistakes at once, each with the line of the file.
#[test]
fn every_bad_line_of_a_flow_list_is_named() {
    let home = tempfile::tempdir().unwrap();
    let rows = "src,dst,size_bytes,start_us\nhost0,host1,1,0\n# comment\nhost0,host9,1,0\nhost1,host1,1,0\nhost0,host1,x,0\n";
    std::fs::write(home.path().join("flows.csv"), rows).unwrap();
    let text =
        "topology = { kind = \"star\", hosts = 3 }\n[[workload]]\nkind = \"flows\"\nfile = \"flows.csv\"\n";
    let error = read_in(home.path(), text).unwrap_err();
    let messages: Vec<&str> = error.problems.iter().map(|problem| problem.message.as_str()).collect();
    assert_eq!(messages.len(), 3, "{messages:?}");
    for (message, start) in
        messages.iter().zip(["flows.csv, line 4: ", "flows.csv, line 5: ", "flows.csv, line 6: "])
    {
        assert!(message.starts_with(start), "{message}");
    }
    assert!(error.problems.iter().all(|problem| problem.path == "workload.0.file"));
}
