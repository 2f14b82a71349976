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
    assert!(both.contains(&"workload.0.file: ./absent.txt: there is no such file".to_owned()));
    assert!(both.contains(&"workload.0.hidden: describes a model, but a file has the layers".to_owned()));
    assert_eq!(both.len(), 5, "{both:?}");
    let mpi = "kind = \"application\"\npattern = \"all_reduce\"\nranks = 8\nsize = \"1 KB\"\ncollectives = { slice = \"1 KB\" }";
    assert_eq!(refused(8, mpi), ["workload.0.collectives.slice: is a key of NCCL's collectives"]);
}

/// A model of one layer whose core attention is half of its work, on four GPUs that share 1024 tokens.
fn shared_sequences(more: &str) -> String {
    format!(
        "kind = \"training\"\ngpus = 4\ncp = 4\nlayers = 1\nhidden = 1024\nkv_hidden = 256\nsequence = 1024\nparameters = 0\n\
         attention_share = 0.5\n{more}"
    )
}

#[test]
fn ring_attention_within_a_server_takes_the_closed_form() {
    // K and V of 256 tokens, 262144 B, at 2.88 Tb/s and 50 ns.
    let transfer = |blocks: f64| blocks * 262_144.0 * 8.0 / 2.88e6 + 0.05;
    for forward in [160.0, 16.0_f64] {
        let workload = shared_sequences(&format!("forward = \"{forward} us\""));
        let results = here(&servers(8, "2880 Gbps", &workload));
        // A quarter of the tokens; half of that in four steps; twice as long backward.
        let (ahead, back) = (forward / 32.0, forward / 16.0);
        let ring = 3.0 * ahead.max(transfer(1.0)) + ahead;
        let ring_back = 2.0 * back.max(transfer(1.0)) + 2.0 * back.max(transfer(2.0));
        let time = floats(&results.jobs, "time_us")[0].unwrap();
        let expected = 3.0 * forward / 8.0 + ring + ring_back;
        assert!((time - expected).abs() < 1e-4, "{time} {expected}");
        let exposed = floats(&results.jobs, "exposed_cp_us")[0].unwrap();
        assert!((exposed - (time - 3.0 * forward / 4.0)).abs() < 1e-6, "{exposed}");
        assert_eq!(sum(&results.jobs, "message_bytes"), 4 * (3 + 6) * 262_144);
    }
}

#[test]
fn attention_hides_a_ring_over_the_network() {
    let run = |more: &str| {
        let text = servers(4, "2880 Gbps", &shared_sequences(more));
        here(
            &text
                .replace("scale_up = { gpus_per_server = 8, rate = \"2880 Gbps\", latency = \"50 ns\" }", ""),
        )
    };
    let results = run("forward = \"1600 us\"");
    assert_eq!(floats(&results.jobs, "time_us"), [Some(1200.0)]);
    assert_eq!(floats(&results.jobs, "exposed_cp_us"), [Some(0.0)]);
    // A block takes at least 5.2 us, so that compute of 0.5 and 1 us a step hides little.
    let short = run("forward = \"16 us\"");
    let exposed = floats(&short.jobs, "exposed_cp_us")[0].unwrap();
    assert!(exposed > 3.0 * (5.2 - 0.5) + 2.0 * (5.2 - 1.0) + 2.0 * (10.4 - 1.0), "{exposed}");
    // The other ways have collectives of the groups, all exposed.
    for (comm, calls) in [("all_gather", 6), ("a2a", 8)] {
        let results = run(&format!("forward = \"1600 us\"\ncp_comm = \"{comm}\""));
        assert_eq!(results.collectives.num_rows(), calls);
        assert_eq!(arrow_cast_to_text(&results.collectives, "group"), vec!["CP"; calls]);
        let exposed = floats(&results.jobs, "exposed_cp_us")[0].unwrap();
        let rest = exposed + floats(&results.jobs, "bubble_us")[0].unwrap();
        let time = floats(&results.jobs, "time_us")[0].unwrap();
        assert!((time - 1200.0 - rest).abs() < 1e-6, "{comm} {time} {rest}");
    }
}

/// One GPU, and storage on the other host of a switch.
fn one_gpu(more: &str) -> String {
    let workload = format!(
        "kind = \"training\"\nlayers = 1\nhidden = 1024\nsequence = 64\nforward = \"100 us\"\niterations = 2\n{more}"
    );
    servers(2, "", &workload)
        .replace("scale_up = { gpus_per_server = 8, rate = \"\", latency = \"50 ns\" }", "")
}

/// Nanoseconds of a byte at 400 Gb/s.
const BYTE_NS: f64 = 0.02;

#[test]
fn a_checkpoint_over_an_idle_switch_takes_the_closed_form() {
    // A frame of 4096 B has 86 B around it, and the first one of a message 16 B more (RETH).
    let frames = |messages: f64, of_message: f64| messages * (of_message * 4182.0 + 16.0);
    for (messages, of_message) in [(1.0, 1.0), (1.0, 100.0), (10.0, 1.0)] {
        let part = 4096.0 * of_message;
        let more = format!(
            "parameters = 1\ncheckpoint = {{ targets = [\"host1\"], bytes = \"{} B\", part = \"{part} B\" }}",
            part * messages
        );
        let results = here(&one_gpu(&more));
        // The first frame once more at the switch; back the answer of 24 B, behind an acknowledgement; four links.
        let wire = frames(messages, of_message) + frames(1.0, 1.0) + 90.0 + 2.0 * (24.0 + 86.0 + 16.0);
        let write = (wire * BYTE_NS + 4.0 * 500.0) / 1e3;
        let exposed = floats(&results.jobs, "exposed_checkpoint_us")[0].unwrap();
        assert!((exposed - 2.0 * write).abs() < 1e-6, "{exposed} {write}");
        let time = floats(&results.jobs, "time_us")[0].unwrap();
        assert!((time - 600.0 - exposed).abs() < 1e-6, "{time}");
        assert_eq!(floats(&results.ranks, "exposed_checkpoint_us"), [Some(exposed)]);
        let flows = results.flows.batch();
        assert_eq!(sum(&flows, "size_bytes"), (2.0 * part * messages) as u64);
        // While the next iteration computes, the write is hidden; the last one is not.
        let results = here(&one_gpu(&more.replace("checkpoint = {", "checkpoint = { mode = \"async\",")));
        let exposed = floats(&results.jobs, "exposed_checkpoint_us")[0].unwrap();
        assert!((exposed - write).abs() < 1e-6, "{exposed} {write}");
    }
}

/// Four GPUs write their shards to two hosts, which take no rank, wherever they are.
#[test]
fn storage_takes_the_shards_of_all_ranks_and_no_rank() {
    let model = "kind = \"training\"\nlayers = 2\nhidden = 64\nsequence = 64\ntp = 2\nforward = \"1 us\"\ntimeline = true\n";
    let workload = format!("{model}checkpoint = {{ targets = [\"host4\", \"host0\"], part = \"16 KiB\" }}");
    let text = servers(6, "", &workload);
    let results =
        here(&text.replace("scale_up = { gpus_per_server = 8, rate = \"\", latency = \"50 ns\" }", ""));
    assert_eq!(arrow_cast_to_text(&results.ranks, "host"), ["host1", "host2", "host3", "host5"]);
    let flows = results.flows.batch();
    let sizes: Vec<u64> =
        flows.column_by_name("size_bytes").unwrap().as_primitive::<UInt64Type>().values().to_vec();
    let [source, target] = ["src", "dst"].map(|column| arrow_cast_to_text(&flows, column));
    let is_storage = |name: &str| ["host0", "host4"].contains(&name);
    assert!(!source.iter().any(|name| is_storage(name)));
    let written: u64 =
        target.iter().zip(sizes).filter(|(name, _)| is_storage(name)).map(|(_, bytes)| bytes).sum();
    // Two layers of 12 hidden² parameters.
    assert_eq!(written, 14 * 2 * 12 * 64 * 64);
    assert_eq!(arrow_cast_to_text(&results.collectives, "group").last().unwrap(), "CHECKPOINT");
    assert_eq!(largest_rank(&results.timeline), Some(3));
    // GPUs of a server with storage take no rank: sixteen hosts, of which the first server has one.
    let workload = format!("{model}gpus = 8\ncheckpoint = {{ targets = [\"host3\"] }}");
    let results = here(&servers(16, "3600 Gbps", &workload));
    assert_eq!(arrow_cast_to_text(&results.ranks, "host")[0], "host8");
}

#[test]
fn a_resolved_scenario_with_checkpoints_is_the_same() {
    let model = "kind = \"training\"\nlayers = 2\nhidden = 64\nsequence = 64\ncp = 2\nforward = \"1 us\"\niterations = 2";
    for keys in
        ["", ", every = 2, bytes = \"1 MB\", mode = \"async\", part = \"5 KB\", parallel_weights = false"]
    {
        let workload =
            format!("{model}\ngpus = 8\ncheckpoint = {{ targets = [\"host8\", \"host9\"]{keys} }}");
        let first = resolved(&servers(16, "3600 Gbps", &workload), Path::new("."));
        let again = resolved(&first.to_toml(), Path::new("."));
        assert_eq!(first.scenario.workload, again.scenario.workload);
    }
}

fn largest_rank(table: &RecordBatch) -> Option<u32> {
    let ranks = table.column_by_name("rank").unwrap().as_primitive::<arrow_array::types::UInt32Type>();
    ranks.values().iter().copied().max()
}

#[test]
fn keys_of_context_parallelism_and_checkpoints_are_refused_at_their_place() {
    let header = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: 1 ga: 1 all_gpus: 4";
    let folder = folder("refused", &format!("{header}\n1\na -1 1 NONE 0 1 NONE 0 1 NONE 0 1\n"));
    let refused = |workload: &str| -> Vec<String> {
        let text = servers(16, "3600 Gbps", &format!("kind = \"training\"\n{workload}"));
        let input =
            Input { text: &text, file_name: "test.toml", base_dir: &folder, overrides: &[], seed: None };
        let problems = resolve(&input).unwrap_err().problems;
        problems.iter().map(|p| p.to_string().split_once(": ").unwrap().1.to_owned()).collect()
    };
    let model = "layers = 4\nhidden = 64\nsequence = 64\nforward = \"1 us\"\n";
    let saved = |keys: &str| format!("{model}gpus = 8\ncheckpoint = {{ targets = [\"host15\"]{keys} }}");
    let cases = [
        (
            format!("{model}cp = 3"),
            "workload.0.cp: 3 does not divide 16 GPUs / (tp · pp) = 16; choose a divisor, or set gpus to another number",
        ),
        (
            format!("{model}cp = 4\nsequence = 12").replace("sequence = 64\n", ""),
            "workload.0.sequence: 12 is not a multiple of 2 cp = 8; choose a multiple, or change what divides it",
        ),
        (
            format!("{model}kv_hidden = 65"),
            "workload.0.kv_hidden: 65 is more than hidden = 64; lower it, or raise hidden",
        ),
        (
            "file = \"w.txt\"\ncp = 2".to_owned(),
            "workload.0.cp: 2, but files of SimAI and AICB know no context parallelism; remove it, or describe the model by keys (layers, hidden ..)",
        ),
        (
            "file = \"w.txt\"\ncp_comm = \"a2a\"".to_owned(),
            "workload.0.cp_comm: describes a model, but a file has the layers; remove it, or file",
        ),
        (
            "file = \"w.txt\"\ncheckpoint = { targets = [\"host15\"] }".to_owned(),
            "workload.0.checkpoint.bytes: is required: a file has no number of parameters; give the bytes of a checkpoint of all GPUs",
        ),
        (saved(", every = 0"), "workload.0.checkpoint.every: 0 is outside 1 to 100000"),
        (saved(", part = \"0 B\""), "workload.0.checkpoint.part: 0 B is outside 4096 B to 1.073741824 GB"),
        (format!("{model}pp = 0"), "workload.0.pp: 0 is outside 1 to 1048576"),
        (format!("{model}cp = 0"), "workload.0.cp: 0 is outside 1 to 1048576"),
        (
            saved(", every = 2"),
            "workload.0.checkpoint.every: 2, but the job ends after 1 iteration: no checkpoint is written; lower it, or raise iterations",
        ),
        (
            format!("{}\nparameters = 0", saved("")),
            "workload.0.checkpoint.bytes: is required: the layers have no parameters; give the bytes of a checkpoint of all GPUs",
        ),
        (
            format!("{}\nhosts = [\"host15\", \"host0\"]", saved("").replace("gpus = 8", "gpus = 2")),
            "workload.0.checkpoint.targets.0: \"host15\" has a rank of this job (hosts), and checkpoints go to hosts without ranks; name another target, or give the rank another host",
        ),
        (
            saved("").replace("[\"host15\"]", "[\"host15\", \"host15\"]"),
            "workload.0.checkpoint.targets.1: names \"host15\" again; remove it",
        ),
        (
            saved("").replace("gpus = 8", "gpus = 9"),
            "workload.0: needs 9 places on hosts; 8 are free, since servers with a target of checkpoints have none; \
             set gpus to fewer, or give the fabric more hosts",
        ),
        (
            saved("").replace("[\"host15\"]", "[]"),
            "workload.0.checkpoint.targets: [] names no host; name one",
        ),
        (
            format!("{model}overlap_param_gather = true"),
            "workload.0.overlap_param_gather: parameters are gathered in the buckets of gradients; set overlap_grad_reduce = true too",
        ),
        (format!("{model}overlap_grad_reduce = true\ntp = 0"), "workload.0.tp: 0 is outside 1 to 1048576"),
        (
            "file = \"w.txt\"\noverlap_grad_reduce = true".to_owned(),
            "workload.0.overlap_grad_reduce: describes a model, but a file has the layers; remove it, or file",
        ),
    ];
    for (workload, expected) in cases {
        assert_eq!(refused(&workload), [expected], "{workload}");
    }
}
