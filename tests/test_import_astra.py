"""Files of ASTRA-sim become a folder with a scenario: each key is used, mapped, without effect, or refused by name."""

import json
import tomllib
from pathlib import Path

import pauseframe as pf
import pytest
from pauseframe.imports.astra import import_astra
from pauseframe.imports.fates import ImportedFolder
from test_fabrics import cli

SYSTEM = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 4,
    "all-reduce-implementation": ["ring"],
    "all-gather-implementation": ["halvingDoubling"],
    "reduce-scatter-implementation": ["oneRing"],
    "all-to-all-implementation": ["direct4"],
    "collective-optimization": "localBWAware",
    "local-mem-bw": 1600,
    "boost-mode": 0,
    "roofline-enabled": 0,
    "peak-perf": 900,
}
STAR = "topology: [ Switch ]\nnpus_count: [ 4 ]\nbandwidth: [ 50.0 ] # GB/s\nlatency: [ 500.0 ]\n"
SERVERS = "topology: [ Switch, Ring ]\nnpus_count: [ 2, 2 ]\nbandwidth: [ 400, 50 ]\nlatency: [ 900, 1000 ]\n"
NS3 = """TOPOLOGY_FILE wiring.txt
FLOW_FILE flows.txt
PACKET_PAYLOAD_SIZE 1000
CC_MODE 12
KMAX_MAP 1 100000000000 1600
KMIN_MAP 1 100000000000 400
PMAX_MAP 1 100000000000 0.2
"""


def _varint(number: int) -> bytes:
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + _varint(rest) if rest else bytes([low])


def _field(number: int, value: int | bytes) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _message(content: bytes) -> bytes:
    return _varint(len(content)) + content


def trace(size: int) -> bytes:
    """A Chakra trace of one all-reduce (mlcommons/chakra, et_def.proto): attributes in field 10, int64_val is 9."""
    attributes = [_field(1, name) + _field(9, value) for name, value in ((b"comm_type", 0), (b"comm_size", size))]
    node = _field(1, 1) + _field(2, b"sum") + _field(3, 7) + b"".join(_field(10, one) for one in attributes)
    return _message(_field(1, b"0.0.4")) + _message(node)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "traces").mkdir()
    for rank in range(4):
        (tmp_path / "traces" / f"sum.{rank}.et").write_bytes(trace(1 << 20))
    (tmp_path / "system.json").write_text(json.dumps(SYSTEM))
    (tmp_path / "star.yml").write_text(STAR)
    (tmp_path / "servers.yml").write_text(SERVERS)
    (tmp_path / "1d.json").write_text('{"logical-dims": ["4"]}')
    return tmp_path


def whole(folder: Path, network: str = "star.yml", **options: object) -> ImportedFolder:
    return import_astra(folder / "traces" / "sum", folder / network, folder / "system.json", **options)  # type: ignore[arg-type]


def refused(folder: Path, file: str, text: str, network: str = "star.yml", **options: object) -> str:
    (folder / file).write_text(text)
    with pytest.raises(pf.InputError) as error:
        whole(folder, network, **options)
    return str(error.value)


def fates(imported: ImportedFolder) -> dict[str, str]:
    return {one.key: f"{one.state}: {one.how}" for one in imported.fates}


def test_a_switch_becomes_a_star_and_runs(folder: Path) -> None:
    line = ("import", "astra", "-w", "traces/sum", "-n", "star.yml", "-s", "system.json", "--logical", "1d.json")
    done = cli(*line, "--without", "endpoint-delay", "-o", "new", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "GB/s are GiB/s (2^30 bytes) in ASTRA-sim" in done.stdout
    run = pf.run(folder / "new" / "scenario.toml")
    # The ring sends 2 (n - 1) blocks of S / n one after the other, at 50 GiB/s.
    (job,) = list(run.jobs)
    wire = 6 * (1 << 18) / (50 * 2**30) * 1e6
    assert wire + 6 * 1.0 < job["time_us"] < 1.15 * wire + 6 * 3.0


def test_two_dimensions_are_servers_and_rails(folder: Path) -> None:
    imported = whole(folder, "servers.yml")
    scenario = tomllib.loads(imported.files["scenario.toml"])
    assert scenario["topology"]["scale_up"] == {
        "gpus_per_server": 2,
        "rate": "3435.9738368 Gbps",
        "latency": "1800 ns",
    }
    collectives = {"library": "nccl", "algorithm": "ring", "message_cost": "10 ns"}
    assert scenario["workload"][0]["collectives"] == collectives
    graph = pf.Topology.parse(imported.files["fabric.json"], "node-link")
    ends = [("gpu0", "rail0"), ("gpu1", "rail1"), ("gpu2", "rail0"), ("gpu3", "rail1")]
    assert [(a, b) for a, b, _, _ in graph.links()] == [*ends, ("rail0", "core"), ("rail1", "core")]
    assert graph.links()[0][2:] == (429_496_729_600, 0.5)


def test_servers_have_the_collectives_of_nccl_without_a_system(folder: Path) -> None:
    imported = import_astra(folder / "traces" / "sum", folder / "servers.yml")
    assert tomllib.loads(imported.files["scenario.toml"])["workload"][0]["collectives"] == {"library": "nccl"}


def test_delays_have_no_exponent(folder: Path) -> None:
    system = json.loads((folder / "system.json").read_text())
    (folder / "system.json").write_text(json.dumps(system | {"endpoint-delay": 1_000_000}))
    imported = whole(folder, "servers.yml")
    collectives = tomllib.loads(imported.files["scenario.toml"])["workload"][0]["collectives"]
    assert collectives["message_cost"] == "1000000 ns"


def test_each_key_has_a_fate(folder: Path) -> None:
    found = fates(whole(folder, logical=folder / "1d.json"))
    assert SYSTEM.keys() <= found.keys()
    assert found["all-reduce-implementation"] == "used: ring"
    assert found["all-gather-implementation"] == "used: recursive_doubling"
    assert found["reduce-scatter-implementation"].startswith("mapped: pairwise")
    assert found["all-to-all-implementation"] == "used: direct"
    assert found["logical-dims"] == "used: one group of all ranks"
    assert found["endpoint-delay"] == "used: ns: collectives.message_cost"


def test_the_config_of_ns3(folder: Path) -> None:
    wiring = "5 1 4\n4\n" + "".join(f"{host} 4 100Gbps 0.001ms 0\n" for host in range(4))
    (folder / "wiring.txt").write_text(wiring)
    (folder / "config.txt").write_text(NS3)
    imported = whole(folder, "config.txt")
    scenario = tomllib.loads(imported.files["scenario.toml"])
    assert scenario["topology"] == {"kind": "file", "path": "topology.txt", "format": "hpcc"}
    assert scenario["transport"]["rdma_control"] == "none"
    assert imported.copies["topology.txt"].read_text() == wiring
    assert fates(imported)["FLOW_FILE"] == "no effect: the workload makes the flows"


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("star.yml", STAR.replace("Switch", "Ring"), "hosts on Ethernet do not: give [ Switch ]"),
        ("star.yml", STAR.replace("Switch", "Torus"), "topology Torus: give Ring, FullyConnected, Switch"),
        ("star.yml", STAR.replace("[ 4 ]", "[ 3 ]"), "it has 4 ranks, and"),
        ("star.yml", STAR.replace("50.0", "fast"), "bandwidth fast: give GB/s above 0"),
        ("star.yml", STAR + "dimensions: 1\n", "dimensions: this key is not known"),
        ("star.yml", STAR.replace("[ 500.0 ]", "[ 500.0, 1 ]"), "lists have an entry for each dimension"),
        ("star.yml", "topology: [\n", "is no YAML"),
        ("system.json", json.dumps(SYSTEM | {"roofline-enabled": 1}), "--without roofline-enabled"),
        ("system.json", json.dumps(SYSTEM | {"new": 1}), "new 1: this key is not known"),
        ("system.json", json.dumps(SYSTEM | {"all-reduce-implementation-custom": ["x"]}), "a custom collective is"),
        ("system.json", json.dumps(SYSTEM | {"all-reduce-implementation": ["fast"]}), "give a list of ring, direct"),
        ("system.json", "[1]", "should be an object"),
        ("system.json", "{}", "is no system of ASTRA-sim"),
        ("1d.json", '{"logical-dims": ["8", "2"]}', "logical-dims [8, 2] are 16 ranks, and the workload has 4"),
    ],
)
def test_what_cannot_be_followed_is_refused_by_name(folder: Path, file: str, text: str, message: str) -> None:
    assert message in refused(folder, file, text, logical=folder / "1d.json")


def test_groups_memory_and_missing_ranks(folder: Path) -> None:
    assert "group 1 must list different ranks" in refused(folder, "g.json", '{"1": [0, 9]}', groups=folder / "g.json")
    memory = '{"memory-type": "PER_NPU_MEMORY_EXPANSION"}'
    assert "memory nodes take their duration" in refused(folder, "m.json", memory, memory=folder / "m.json")
    (folder / "traces" / "sum.2.et").unlink()
    assert "the trace of rank 2 is missing" in refused(folder, "g.json", "{}")
