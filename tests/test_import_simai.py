"""Files of SimAI become a folder with a scenario: each key is used, mapped, without effect, or refused by name."""

import json
import tomllib
from pathlib import Path

import pauseframe as pf
import pytest
from pauseframe.imports.fates import ImportedFolder
from pauseframe.imports.simai import import_simai
from pauseframe.run import resolve
from test_fabrics import cli

POLICY = "HYBRID_TRANSFORMER_FWD_IN_BCKWD"
HEADER = f"{POLICY} model_parallel_NPU_group: 4 ep: 1 pp: 1 vpp: 8 ga: 2 all_gpus: 8 checkpoints: 0 pp_comm: 0"
LINE = "layer -1 1000 ALLREDUCE 1048576 1 NONE 0 1 ALLGATHER 8192 100"
CONF = """ENABLE_QCN 1
PACKET_PAYLOAD_SIZE 9000
FLOW_FILE /etc/flow1.txt
SIMULATOR_STOP_TIME 40000000000000.00
CC_MODE 1
RP_TIMER 900
GLOBAL_T 0
HAS_WIN 1
VAR_WIN 1
L2_ACK_INTERVAL 1
LINK_DOWN 0 0 0
KMAX_MAP 2 400000000000 3200 800000000000 3200
KMIN_MAP 2 400000000000 800 800000000000 800
PMAX_MAP 2 400000000000 0.2 800000000000 0.2
BUFFER_SIZE 32
BW_MON_FILE out.txt
"""


def rails(*, planes: int = 1, switches: int = 1, rate: str = "2880Gbps") -> str:
    """Two servers of four GPUs: GPU r of each at the rail switches r of all planes, joined by one switch above."""
    nvswitches, access = 2 * switches, 4 * planes
    ids = [8 + number for number in range(nvswitches + access + 1)]
    top = ids[-1]
    links = [f"{gpu} {8 + gpu // 4 * switches + n} {rate} 0.000025ms 0" for gpu in range(8) for n in range(switches)]
    first = 8 + nvswitches
    links += [f"{gpu} {first + plane * 4 + gpu % 4} 400Gbps 0.0005ms 0" for gpu in range(8) for plane in range(planes)]
    links += [f"{first + number} {top} 800Gbps 0.0005ms 0.001" for number in range(access)]
    head = f"{top + 1} 4 {nvswitches} {access + 1} {len(links)} H100\n{' '.join(map(str, ids))} \n"
    return head + "\n".join(links) + "\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rails.txt").write_text(rails())
    (tmp_path / "step.txt").write_text(f"{HEADER}\n1\n{LINE}\n")
    (tmp_path / "SimAI.conf").write_text(CONF)
    return tmp_path


def whole(folder: Path, **options: object) -> ImportedFolder:
    files = folder / "rails.txt", folder / "step.txt", folder / "SimAI.conf"
    return import_simai(*files, **options)  # type: ignore[arg-type]


def refused(folder: Path, file: str, text: str, **options: object) -> str:
    (folder / file).write_text(text)
    with pytest.raises(pf.InputError) as error:
        whole(folder, **options)
    return str(error.value)


def fate(imported: ImportedFolder, key: str) -> str:
    return next(f"{one.state}: {one.how}" for one in imported.fates if one.key == key)


def test_costs_of_messages_have_no_exponent(folder: Path) -> None:
    imported = whole(folder, environment=["AS_SEND_LAT=0.00001"])
    scenario = tomllib.loads(imported.files["scenario.toml"])
    assert scenario["workload"][0]["collectives"]["message_cost"] == "0.00001 us"


def test_nvswitches_become_the_scale_up_network(folder: Path) -> None:
    imported = whole(folder, environment=["AS_SEND_LAT=2", "AS_PXN_ENABLE=1"])
    scenario = tomllib.loads(imported.files["scenario.toml"])
    assert scenario["topology"]["scale_up"] == {"gpus_per_server": 4, "rate": "2880 Gbps", "latency": "50 ns"}
    assert scenario["workload"][0] == {
        "kind": "training",
        "hosts_file": "gpus.txt",
        "file": "step.txt",
        "timeline": True,
        "collectives": {"library": "nccl", "message_cost": "2 us", "pxn": True},
    }
    assert imported.files["step.txt"] == (folder / "step.txt").read_text()
    graph = pf.Topology.parse(imported.files["fabric.json"], "node-link")
    assert [name for name, _, _ in graph.nodes()] == [f"gpu{n}" for n in range(8)] + [
        *(f"asw{n}" for n in range(10, 14)),
        "psw14",
    ]
    assert graph.links()[0] == ("gpu0", "asw10", 400_000_000_000, 0.5)
    assert [edge.get("frame_error") for edge in json.loads(imported.files["fabric.json"])["edges"]][-1] == "0.001"


def test_several_planes_and_several_nvswitches(folder: Path) -> None:
    (folder / "rails.txt").write_text(rails(planes=2, switches=2, rate="900Gbps"))
    imported = whole(folder)
    scenario = tomllib.loads(imported.files["scenario.toml"])
    assert scenario["topology"]["scale_up"]["rate"] == "1800 Gbps"
    assert scenario["host"]["port_choice"] == "xor"
    graph = pf.Topology.parse(imported.files["fabric.json"], "node-link")
    assert graph.statistics()["hosts"] == 8
    assert len(graph.links()) == 16 + 8


def test_the_ethernet_runs(folder: Path) -> None:
    (folder / "rails.txt").write_text(rails(planes=2))
    (folder / "fabric.json").write_text(whole(folder).files["fabric.json"])
    text = whole(folder).files["scenario.toml"]
    start, middle, end = text.index("[topology.scale_up]"), text.index("[host]"), text.index("[[workload]]")
    load = '[[workload]]\nkind = "permutation"\nsize = "100 KB"\n'
    (folder / "ethernet.toml").write_text(text[:start] + text[middle:end] + load)
    assert pf.run(folder / "ethernet.toml").summary["flows_finished"] == 8


def test_each_key_has_a_fate(folder: Path) -> None:
    imported = whole(folder)
    keys = {one.key for one in imported.fates}
    assert {line.split()[0] for line in CONF.splitlines()} <= keys
    assert {word.rstrip(":") for word in HEADER.split() if word.endswith(":")} <= keys
    assert all(f"#   {one}" in imported.files["scenario.toml"].splitlines() for one in imported.fates)
    assert fate(imported, "PACKET_PAYLOAD_SIZE").startswith("mapped: 4,096 B")
    assert fate(imported, "GLOBAL_T").startswith("mapped: windows follow from the longest path")
    assert fate(imported, "BW_MON_FILE") == "no effect: the simulator's own output"
    assert fate(imported, "vpp").startswith("no effect: AICB writes the number of layers")
    assert "GiB/s" in fate(imported, "GB/s")


def test_older_files_and_traps_are_noted(folder: Path) -> None:
    (folder / "step.txt").write_text(
        f"{POLICY} model_parallel_NPU_group: 4 expert_parallel_npu_group: 2 checkpoints: 2 0 1\n2\n"
        "norm -1 0 BROADCAST 16384 1 NONE 0 1 NONE 0 100\n"
        "head -1 0 ALLREDUCE 4 1 ALLREDUCE_EP 8 1 NONE 0 100 test\n"
    )
    imported = whole(folder)
    for name, text in imported.files.items():
        (folder / name).write_text(text)
    resolve(folder / "scenario.toml")
    assert fate(imported, "all_gpus") == "assumed: all 8 GPUs of the topology"
    assert fate(imported, "checkpoints") == "mapped: all 2 layers; SimAI reads the first one 2 times"
    assert fate(imported, "BROADCAST").startswith("no effect: SimAI makes it NONE")
    assert fate(imported, "expert_parallel_npu_group").startswith("no effect: SimAI does not read this key")
    assert fate(imported, "forward collectives below 4,096 B").startswith("mapped: they keep their size")
    assert fate(whole(folder, as_simai=True), "forward collectives below 4,096 B").startswith("used: raised")
    assert fate(imported, "text after the last field") == "no effect: SimAI ignores it"
    assert tomllib.loads(imported.files["scenario.toml"])["workload"][0]["gpus"] == 8


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("rails.txt", "3 1 2\n2\n", "a topology of the HPCC simulator"),
        ("rails.txt", "gpus and switches\n", "begins with six words: nodes gpus_per_server"),
        ("rails.txt", rails().replace("15 4 ", "15 3 ", 1), "no whole number of servers of 3"),
        ("rails.txt", rails().replace("3 8 2880", "3 9 2880"), "GPUs 0 to 3 are one server by line 1, but"),
        ("rails.txt", rails().replace("3 8 2880", "3 8 1440"), "NVLinks have several rates"),
        ("step.txt", "HYBRID_DLRM x\n0\n", "policy HYBRID_DLRM is not simulated"),
        ("step.txt", f"{HEADER}\n1\n{LINE.replace('GATHER', 'REDUCEALLTOALL')}\n", "ALLTOALL is no collective"),
        ("step.txt", HEADER.replace("vpp:", "vppp:") + "\n0\n", "did you mean vpp:"),
        ("step.txt", "TP:\n", "a workload of SimAI begins with a policy"),
        ("step.txt", HEADER.replace("all_gpus: 8", "all_gpus: 64") + "\n0\n", "has 8 GPUs: name a topology of 64 GPUs"),
        ("step.txt", f"{HEADER}\n2\n{LINE}\n", "line 2: it says 2 layer lines, and the file has 1"),
        ("step.txt", f"{HEADER}\n2\n{LINE} test\n{LINE}\n", "line 3: 13 fields, where a layer has 12"),
        ("SimAI.conf", CONF.replace("CC_MODE 1", "CC_MODE 10"), "line 5: CC_MODE 10 (HPCC-PINT) is not simulated"),
        ("SimAI.conf", CONF + "NEW_KEY 1\n", "line 17: NEW_KEY 1: this key is not known"),
        ("SimAI.conf", "SEED 1\n", "is no ns-3 config of SimAI or ASTRA-sim"),
    ],
)  # fmt: skip
def test_what_cannot_be_followed_is_refused_by_name(folder: Path, file: str, text: str, message: str) -> None:
    assert message in refused(folder, file, text)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("AS_NVLS_ENABLE=1", "NVLS (reduction in the NVSwitch) is not simulated"),
        ("AS_SEND_LATENCY=1", "did you mean AS_SEND_LAT?"),
        ("AS_SEND_LAT=fast", "give a number from 0 on"),
        ("AS_SEND_LAT", "give NAME=VALUE"),
    ],
)
def test_variables_are_refused_by_name(folder: Path, setting: str, message: str) -> None:
    assert message in refused(folder, "SimAI.conf", CONF, environment=[setting])


def test_the_command_writes_a_folder_and_shows_each_key(folder: Path) -> None:
    line = ("import", "simai", "-w", "step.txt", "-n", "rails.txt", "-c", "SimAI.conf", "--out", "new")
    done = cli(*line, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in (folder / "new").iterdir()) == [
        "fabric.json",
        "gpus.txt",
        "scenario.toml",
        "step.txt",
    ]
    assert "PACKET_PAYLOAD_SIZE" in done.stdout
    assert done.stdout.rstrip().endswith("new/scenario.toml; next: pauseframe run new/scenario.toml")
    again = cli(*line, "--json", cwd=folder)
    assert again.returncode == 2
    assert "exists" in again.stderr


def test_a_step_takes_the_time_of_simai(folder: Path) -> None:
    imported = whole(folder, environment=["AS_SEND_LAT=2"], as_simai=True)
    for name, text in imported.files.items():
        (folder / name).write_text(text)
    run = pf.run(folder / "scenario.toml")
    calls = run.collectives.to_polars()
    tensor = calls.filter(group="TP")
    # SimAI's ring in a server: a step is S / n at the rate of a GPU, the send latency, and two links of 25 ns.
    step = (1048576 / 4) / 360e3 + 2.0 + 0.05
    took = (tensor["end_us"] - tensor["ready_us"]).to_list()
    assert took == pytest.approx([6 * step] * 2, rel=1e-3)
    assert sorted(set(calls["group"].to_list())) == ["DP", "TP"]
    (job,) = list(run.jobs)
    parts = [job["compute_us"], job["bubble_us"], *(job[f"exposed_{group}_us"] for group in ("tp", "dp", "ep", "pp"))]
    assert sum(parts) == pytest.approx(job["time_us"])


@pytest.mark.parametrize(
    ("work", "said"),
    [
        (f"{HEADER}\n2\n{LINE}\n\n{LINE}\n", "step.txt:4: ends before the name of a layer"),
        (f"{HEADER}\n1\n{LINE}\n".replace("group: 4", "group: 3"), "3 does not divide 8 GPUs"),
        (f"{HEADER}\n1\n{LINE}\n".replace("ga: 2", "ga:"), "step.txt:1: ga: cannot be 'all_gpus:'"),
    ],
)
def test_what_run_would_refuse_is_not_written(folder, work, said):
    (folder / "step.txt").write_text(work)
    done = cli("import", "simai", "-n", "rails.txt", "-w", "step.txt", "--out", "made", cwd=folder)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (folder / "made").exists()
