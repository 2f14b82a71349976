//! Training steps and NCCL's collectives in the packet network: closed forms, and SimAI's published tables.

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};
use pauseframe_scenario::resolve::{Input, Resolved, resolve};
use pauseframe_scenario::{RunCallbackDecision, RunOptions, RunResults, run};
use std::fs;
use std::path::{Path, PathBuf};

/// GPUs on one switch with servers of eight; SimAI's links within a server are two of 25 ns.
fn servers(hosts: u32, rate: &str, workload: &str) -> String {
    format!(
        r#"
name = "test"
clocks = "ideal"
[topology]
kind = "star"
hosts = {hosts}
link = {{ rate = "400 Gbps", delay = "500 ns" }}
scale_up = {{ gpus_per_server = 8, rate = "{rate}", latency = "50 ns" }}
{ROCE}
[[workload]]
{workload}
"#
    )
}

const ROCE: &str = r#"
[host]
mtu = "9000 B"
tx_jitter = "0 s"
[switch]
latency = "0 s"
buffer = "64 MB"
[transport]
preset = "roce_dcqcn"
"#;

fn resolved(text: &str, folder: &Path) -> Resolved {
    let input = Input { text, file_name: "test.toml", base_dir: folder, overrides: &[], seed: None };
    resolve(&input).unwrap_or_else(|error| panic!("{error}"))
}

fn results(text: &str, folder: &Path) -> RunResults {
    run(&resolved(text, folder), RunOptions::default(), |_| RunCallbackDecision::Continue).unwrap()
}

fn here(text: &str) -> RunResults {
    results(text, Path::new("."))
}

fn floats(table: &RecordBatch, column: &str) -> Vec<Option<f64>> {
    table.column_by_name(column).unwrap().as_primitive::<Float64Type>().iter().collect()
}

fn sum(table: &RecordBatch, column: &str) -> u64 {
    table.column_by_name(column).unwrap().as_primitive::<UInt64Type>().iter().flatten().sum()
}

/// A folder with a workload file.
fn folder(name: &str, text: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("w.txt"), text).unwrap();
    folder
}

const GIB_PER_GB: f64 = 1e9 / (1u64 << 30) as f64;

#[test]
fn a_ring_within_a_server_takes_the_closed_form_and_no_port() {
    // Two layers of a forward all-reduce each, as SimAI's example has them.
    let layer = |bytes: u32| format!("embedding_layer -1 556000 ALLREDUCE {bytes} 1 NONE 0 1 NONE 0 1");
    let header = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 ep: 1 pp: 1 ga: 1 all_gpus: 8";
    let text = format!("{header}\n2\n{}\n{}\n", layer(16 << 20), layer(64 << 20));
    let folder = folder("micro", &text);
    let workload = "kind = \"training\"\nfile = \"w.txt\"\nas_simai = true";
    let results = results(&servers(8, "2880 Gbps", workload), &folder);
    // Flow = vector / 8; 14 steps. The backward passes compute 2 ns a layer.
    let step = |bytes: f64| 14.0 * (bytes / 8.0 * 8.0 / 2.88e6 + 0.05);
    let ends = floats(&results.collectives, "end_us");
    let first = 556.0 + step(f64::from(16 << 20));
    let second = first + 556.0 + step(f64::from(64 << 20));
    for (end, expected) in ends.iter().zip([first, second]) {
        assert!((end.unwrap() - expected).abs() < 1e-3, "{ends:?} {expected}");
    }
    let time = floats(&results.jobs, "time_us")[0].unwrap();
    assert!((time - second - 0.004).abs() < 1e-3, "{time}");
    assert_eq!(floats(&results.jobs, "iteration_us"), [Some(time)]);
    // Each GPU sends 14 steps of both vectors / 8.
    assert_eq!(sum(&results.flows.batch(), "size_bytes"), 8 * 14 * ((16 << 20) + (64 << 20)) / 8);
    assert_eq!(results.summary.packet_hops, 0);
    let exposed = floats(&results.jobs, "exposed_tp_us")[0].unwrap();
    assert!((exposed + 1112.004 - time).abs() < 1e-3, "{exposed}");
    assert_eq!(floats(&results.jobs, "bubble_us"), [Some(0.0)]);
}

#[test]
fn nvlink_rings_have_the_bandwidths_of_the_simai_tutorial() {
    // 32 H800, TP 8, ring: GiB/s at 1440 Gb/s and a send latency of 2 us.
    let published = [(16, 141.84), (32, 153.72), (64, 160.57), (128, 163.93), (256, 165.69), (512, 166.68)];
    for (mib, expected) in published {
        let workload = format!(
            "kind = \"application\"\npattern = \"all_reduce\"\nranks = 8\nsize = \"{mib} MiB\"\n\
             collectives = {{ library = \"nccl\", slice = \"step\", message_cost = \"2 us\" }}"
        );
        let results = here(&servers(8, "1440 Gbps", &workload));
        let busbw = floats(&results.collectives, "busbw_gb_per_s")[0].unwrap() * GIB_PER_GB;
        assert!((busbw / expected - 1.0).abs() < 0.01, "{mib} MiB: {busbw} {expected}");
    }
}

#[test]
fn rings_over_ethernet_have_the_bandwidths_of_the_simai_tutorial() {
    // 256 GPUs on Spectrum-X, DP groups of 32, each with one GPU of a server, all on one switch of their rail.
    // SimAI tells the receiver of a message when its sender has the last acknowledgement: the send takes 2 us, the
    // way back over two links 1 us. Its frames have no preamble and gap.
    for (mib, expected) in [(16, 33.10), (32, 38.57)] {
        let text = format!(
            r#"
name = "test"
clocks = "ideal"
[topology]
kind = "star"
hosts = 32
link = {{ rate = "400 Gbps", delay = "500 ns" }}
{}
[[workload]]
kind = "application"
pattern = "all_reduce"
ranks = 32
size = "{mib} MiB"
collectives = {{ library = "nccl", slice = "step", message_cost = "3 us" }}
"#,
            ROCE.replace("[host]", "[host]\nwire_overhead = \"none\"")
        );
        let results = here(&text);
        let busbw = floats(&results.collectives, "busbw_gb_per_s")[0].unwrap() * GIB_PER_GB;
        assert!((busbw / expected - 1.0).abs() < 0.01, "{mib} MiB: {busbw} {expected}");
    }
}

#[test]
fn groups_of_a_step_use_the_links_that_they_share() {
    // TP within servers; DP between them, one GPU of each.
    let layers = [
        "grad_param_comm -1 1 NONE 0 1 NONE 0 1 REDUCESCATTER 1600000 100",
        "attention -1 1000 ALLGATHER 800000 1000 REDUCESCATTER 800000 1000 NONE 0 100",
    ];
    let header = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 ep: 1 pp: 1 ga: 1 all_gpus: 16";
    let folder = folder("groups", &format!("{header}\n2\n{}\n", layers.join("\n")));
    let results = results(&servers(16, "3600 Gbps", "kind = \"training\"\nfile = \"w.txt\""), &folder);
    let flows = results.flows.batch();
    let all: u64 = sum(&flows, "size_bytes") + sum(&flows, "reply_bytes");
    // Two TP groups, forward and backward: 7 steps of a ring of 8 ranks; eight DP groups: one step of a ring of two.
    let (within, between) = (2 * 2 * 7 * 800_000, 8 * 1_600_000);
    assert_eq!(all, within + between);
    assert_eq!(results.summary.flows_finished, u64::try_from(flows.num_rows()).unwrap());
    assert_eq!(results.collectives.num_rows(), 2 * 2 + 8);
    assert_eq!(sum(&results.jobs, "message_bytes"), all);
    // Data packets and ACKs cross two links each.
    let data = results.summary.packet_hops;
    assert!(data >= 2 * between / 9000 && data < 6 * between / 8000, "{data}");
}

#[test]
fn data_for_another_rail_leave_by_its_nic() {
    let run = |pxn: bool| {
        let workload = format!(
            "kind = \"application\"\npattern = \"all_to_all\"\nranks = 16\nsize = \"10 KB\"\n\
             collectives = {{ library = \"nccl\", pxn = {pxn} }}"
        );
        let results = here(&servers(16, "3600 Gbps", &workload));
        let flows = results.flows.batch();
        let between = |table: &RecordBatch| {
            let names = |column: &str| -> Vec<u32> {
                let column = arrow_cast_to_text(table, column);
                column.iter().map(|name| name.trim_start_matches("host").parse().unwrap()).collect()
            };
            let pairs = names("src").into_iter().zip(names("dst"));
            pairs.filter(|(a, b)| a / 8 != b / 8).map(|(a, b)| a % 8 == b % 8).collect::<Vec<bool>>()
        };
        between(&flows)
    };
    assert_eq!(run(true), [true; 8]);
    let plain = run(false);
    assert_eq!((plain.len(), plain.iter().filter(|same| **same).count()), (64, 8));
}

fn arrow_cast_to_text(table: &RecordBatch, column: &str) -> Vec<String> {
    let column = table.column_by_name(column).unwrap().as_dictionary::<arrow_array::types::Int32Type>();
    let values = column.values().as_string::<i32>();
    column.keys().iter().map(|key| values.value(key.unwrap() as usize).to_owned()).collect()
}

#[test]
fn keys_that_do_not_fit_are_refused_at_their_place() {
    let refused = |hosts: u32, workload: &str| -> Vec<String> {
        let text = servers(hosts, "3600 Gbps", workload);
        let input = Input {
            text: &text,
            file_name: "test.toml",
            base_dir: Path::new("."),
            overrides: &[],
            seed: None,
        };
        resolve(&input).unwrap_err().problems.iter().map(|p| format!("{}: {}", p.path, p.message)).collect()
    };
    let model = "kind = \"training\"\nlayers = 4\nhidden = 64\nsequence = 64\nforward = \"1 us\"\n";
    assert_eq!(
        refused(12, model),
        ["topology.scale_up.gpus_per_server: 8 does not divide the 12 hosts: the last server has 4"]
    );
    assert_eq!(refused(8, &format!("{model}tp = 3")), ["workload.0.tp: 3 does not divide 8 GPUs"]);
    assert_eq!(
        refused(8, &format!("{model}virtual_stages = 2")),
        ["workload.0.virtual_stages: 2, but the schedule is not interleaved"]
    );
    let both = refused(8, &format!("{model}file = \"absent.txt\"\ntp = 2"));
    assert!(
        both.contains(&"workload.0.file: ./absent.txt: No such file or directory (os error 2)".to_owned())
    );
    assert!(both.contains(&"workload.0.hidden: describes a model, but a file has the layers".to_owned()));
    assert_eq!(both.len(), 5, "{both:?}");
    let mpi = "kind = \"application\"\npattern = \"all_reduce\"\nranks = 8\nsize = \"1 KB\"\ncollectives = { slice = \"1 KB\" }";
    assert_eq!(refused(8, mpi), ["workload.0.collectives.slice: is a key of NCCL's collectives"]);
}
