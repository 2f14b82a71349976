"""Keys and files of applications: process groups, second choices, comments, and messages that name a way out."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pauseframe as pf
import pytest
from pauseframe.imports.astra import import_astra
from pauseframe.run import resolve as read
from test_import_astra import STAR as NETWORK
from test_import_astra import SYSTEM, trace
from test_import_astra import _field as field
from test_import_astra import _message as message

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pauseframe._core import Resolved

FABRIC = 'clocks = "ideal"\n[topology]\nkind = "star"\nhosts = HOSTS\n'
SERVER = f'{FABRIC}scale_up = {{ gpus_per_server = HOSTS, rate = "8 Gbps" }}\n[transport]\npreset = "roce_dcqcn"\n'


def resolve(text: str, folder: Path, hosts: int = 4) -> Resolved:
    path = folder / "a.toml"
    path.write_text('name = "a"\n' + text.replace("HOSTS", str(hosts)))
    return read(path)


def attribute(name: bytes, value: int | str | float | list[int]) -> bytes:
    """et_def.proto: float_val is 5, int64_val 9, string_val 29, bool_list 28."""
    if isinstance(value, float):
        return field(10, field(1, name) + bytes([5 << 3 | 5]) + struct.pack("<f", value))
    if isinstance(value, list):
        return field(10, field(1, name) + field(10, bytes(value)))
    return field(10, field(1, name) + (field(29, value.encode()) if isinstance(value, str) else field(9, value)))


def chakra(folder: Path, groups: Sequence[Any], size: float = 1 << 20, key: bytes = b"pg_name") -> str:
    """Traces of an all-reduce in the group of each rank."""
    (folder / "t").mkdir(exist_ok=True)
    for rank, group in enumerate(groups):
        node = field(1, 1) + field(2, b"sum") + field(3, 7)
        node += attribute(b"comm_type", 0) + attribute(b"comm_size", size) + attribute(key, group)
        (folder / "t" / f"t.{rank}.et").write_bytes(message(field(1, b"0.0.4")) + message(node))
    return f'{FABRIC}[[workload]]\nkind = "application"\ntrace = "t"\nalgorithms = ["allreduce = ring"]\n'


def finish(resolved: pf.Resolved) -> float:
    return float(pf.run(resolved, progress=False).jobs.to_polars()["time_us"][0])


@pytest.mark.parametrize("key", [b"pg_name", b"comm_group"])
def test_process_groups_may_be_numbers(tmp_path: Path, key: bytes) -> None:
    by_text = finish(resolve(chakra(tmp_path, ["0", "0", "1", "1"], key=key), tmp_path))
    by_number = finish(resolve(chakra(tmp_path, [0, 0, 1, 1], key=key), tmp_path))
    together = finish(resolve(chakra(tmp_path, [0, 0, 0, 0], key=key), tmp_path))
    assert by_number == by_text < together
    with pytest.raises(pf.ScenarioError, match=f"t.0.et: node 1 .sum.: {key.decode()} is no single number or text"):
        resolve(chakra(tmp_path, [[0, 1], 0, 1, 1], key=key), tmp_path)


def test_sizes_may_be_floating_point_numbers(tmp_path: Path) -> None:
    assert finish(resolve(chakra(tmp_path, [0] * 4, 4096.0), tmp_path)) == finish(
        resolve(chakra(tmp_path, [0] * 4, 4096), tmp_path)
    )
    with pytest.raises(pf.ScenarioError, match=r"comm_size is Float\(0.5\)"):
        resolve(chakra(tmp_path, [0] * 4, 0.5), tmp_path)


HEAD = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 1 ep: 1 pp: 2 vpp: 2 ga: 2 all_gpus: 4"
LAYER = "a -1 1000 ALLREDUCE 4000 2000 ALLREDUCE 8000 3000 REDUCESCATTER 16000 100"


def training(folder: Path, head: str, keys: str = "") -> Resolved:
    (folder / "w.txt").write_text(f"{head}\n1\n{LAYER}\n")
    return resolve(f'{SERVER}[[workload]]\nkind = "training"\nfile = "w.txt"\n{keys}', folder)


def test_compute_times_of_policy_micro_are_a_warning_with_its_line(tmp_path: Path) -> None:
    told = "w.txt:3: compute times are not spent: policy MICRO has nothing but collectives (1 in all)"
    found = training(tmp_path, "MICRO", "gpus = 4\ntp = 2\n").warnings
    assert any(told in text for text in found), found
    assert not any("compute times" in text for text in training(tmp_path, HEAD.replace("pp: 2", "pp: 1")).warnings)


def test_collectives_of_groups_of_one_are_a_warning_with_its_cure(tmp_path: Path) -> None:
    def told(head: str, layer: str, keys: str) -> list[str]:
        (tmp_path / "w.txt").write_text(f"{head}\n1\n{layer}\n")
        found = resolve(f'{SERVER}[[workload]]\nkind = "training"\nfile = "w.txt"\n{keys}', tmp_path).warnings
        return [text for text in found if "groups of one GPU, which send nothing" in text]

    old = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 all_gpus: 4"
    experts = "m -1 1000 ALLTOALL_EP 4000 2000 ALLTOALL_EP 8000 3000 NONE 0 100"
    (text,) = told(old, experts, "")
    assert "line 3: " in text
    assert text.endswith("give ep")
    assert not told(old, experts, "ep = 2\n")
    assert not told(old.replace("2", "1", 1), LAYER, "")
    assert [text[-7:] for text in told("MICRO", experts, "gpus = 4\ntp = 2\n")] == ["give ep"]
    (text,) = told("MICRO", LAYER, "gpus = 4\n")
    assert text.endswith("give tp, or the weight column")


def test_a_repeated_key_of_the_header_is_refused(tmp_path: Path) -> None:
    with pytest.raises(pf.ScenarioError, match=r"w.txt:1: has ep: twice"):
        training(tmp_path, f"{HEAD} ep: 2")


@pytest.mark.parametrize("schedule", ["", 'schedule = "as_simai"\n', 'schedule = "1f1b"\n'])
def test_errors_of_schedules_name_a_way_out_that_works(tmp_path: Path, schedule: str) -> None:
    with pytest.raises(pf.ScenarioError, match="1 line with their layers do not divide by micro_batches 2") as error:
        training(tmp_path, HEAD, schedule)
    assert "change micro_batches, or set as_simai = true" in str(error.value)
    assert "set schedule" not in str(error.value)
    training(tmp_path, HEAD, f"{schedule}micro_batches = 1\n")
    if "1f1b" not in schedule:
        training(tmp_path, HEAD, f"{schedule}as_simai = true\n")


MODEL = 'hidden = 1024\nsequence = 1024\nforward = "1 ms"\n'


def model(folder: Path, keys: str) -> Resolved:
    return resolve(f'{SERVER}[[workload]]\nkind = "training"\n{MODEL}{keys}', folder)


@pytest.mark.parametrize(("layers", "chunks"), [(4, 3), (6, 2)])
def test_chunks_of_a_model_have_whole_layers(tmp_path: Path, layers: int, chunks: int) -> None:
    keys = f'layers = {layers}\npp = 2\nmicro_batches = 2\nschedule = "interleaved"\nvirtual_stages = '
    with pytest.raises(
        pf.ScenarioError, match=f"{layers} layers do not divide into {chunks} chunks on each of 2 stages"
    ):
        model(tmp_path, f"{keys}{chunks}\n")
    model(tmp_path, f"{keys}{layers // 2}\n")


def test_a_count_that_is_out_of_range_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(pf.ScenarioError) as error:
        model(tmp_path, "layers = 4\nmicro_batches = 0\n")
    assert "divide" not in str(error.value)


PATTERN = f'{FABRIC}[[workload]]\nkind = "application"\npattern = "all_reduce"\nranks = 4\nsize = "10 KB"\n'


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ('algorithm = "binomial"\nalgorithms = ["allreduce = ring"]\n', "algorithms names one for allreduce too"),
        ('algorithms = ["allreduce = ring", "allreduce = binomial"]\n', "names two for allreduce"),
        ("flops = 1e9\n", "is a key of traces, and pattern takes the place of one"),
        ('format = "goal"\n', "is a key of traces, and pattern takes the place of one"),
    ],
)
def test_two_choices_are_refused(tmp_path: Path, keys: str, told: str) -> None:
    with pytest.raises(pf.ScenarioError, match=told) as error:
        resolve(PATTERN + keys, tmp_path)
    assert "it goes with kind" not in str(error.value)
    resolve(f'{PATTERN}algorithm = "binomial"\nalgorithms = ["bcast = binomial"]\n', tmp_path)


def test_a_library_that_no_rank_calls_is_a_warning(tmp_path: Path) -> None:
    library = 'collectives = { library = "nccl" }\n'
    assert resolve(PATTERN + library, tmp_path).warnings == []
    found = resolve(PATTERN.replace("all_reduce", "pipeline") + library, tmp_path).warnings
    assert any("collectives.library" in text and "no operation of NCCL" in text for text in found), found


PMPI = "rank 0 of 2 # first\n0 send 1 100 0 # hi\n # indented\nend 0\nrank 1 of 2\n0 recv 0 100 0\nend 0 #\n"


def test_comments_follow_the_words_of_a_line(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(PMPI)
    text = f'{FABRIC}[[workload]]\nkind = "application"\ntrace = "t.txt"\n'
    resolve(text, tmp_path)
    with pytest.raises(pf.ScenarioError, match='there is no format "goall"; there are'):
        resolve(f'{text}format = "goall"\n', tmp_path)
    with pytest.raises(pf.ScenarioError, match="is a key of patterns, and the trace has the steps"):
        resolve(f"{text}iterations = 2\n", tmp_path)


def test_mistakes_of_a_hosts_file_have_its_name_and_line(tmp_path: Path) -> None:
    (tmp_path / "h.txt").write_text("host3\nhost9\nhost1\n")
    with pytest.raises(pf.ScenarioError, match=r"h.txt, line 2: .*host9"):
        resolve(f'{PATTERN.replace("ranks = 4", "ranks = 3")}hosts_file = "h.txt"\n', tmp_path)
    (tmp_path / "h.txt").write_text("host3\nhost1\n")
    with pytest.raises(pf.ScenarioError, match=r"h.txt.: names 2 hosts for 4 ranks"):
        resolve(f'{PATTERN}hosts_file = "h.txt"\n', tmp_path)


RACKS = """
stop = "1 ms"
topology = { kind = "leaf_spine", leaves = 3, spines = 1, hosts_per_leaf = 2 }
[[workload]]
kind = "background"
sizes = "1 KB"
arrivals = { kind = "rate", per_host = 5000 }
"""
ONE_RACK = RACKS.replace('kind = "leaf_spine", leaves = 3, spines = 1, hosts_per_leaf = 2', 'kind = "star", hosts = 4')


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{ONE_RACK}intra_rack = 0.0\n", "all hosts are in one rack, so all flows stay in it"),
        (f"{ONE_RACK}intra_rack = 1.0\n", ""),
        (f"{RACKS}intra_rack = 0.5\n", ""),
        (f'{RACKS}intra_rack = 0.5\nhosts = ["host0", "host1", "host4"]\n', "1 host is alone in a rack"),
        (f'{RACKS}intra_rack = 0.5\nhosts = ["host0", "host2", "host4"]\n', "3 hosts are alone in a rack"),
        (f'{RACKS}intra_rack = 0.0\nhosts = ["host0", "host2", "host4"]\n', ""),
    ],
)
def test_a_share_that_the_racks_do_not_allow_is_a_warning(tmp_path: Path, text: str, told: str) -> None:
    found = [text for text in resolve(text, tmp_path).warnings if "intra_rack" in text]
    assert len(found) == bool(told)
    assert not told or found[0].startswith(f"workload.0.intra_rack: {told}")


def test_a_host_of_storage_is_named_once(tmp_path: Path) -> None:
    text = f'{FABRIC}[[workload]]\nkind = "storage"\nsizes = "1 KB"\ncount = 1\ntargets = ["host0", "host0"]\n'
    with pytest.raises(pf.ScenarioError, match=r"targets.1 = .host0.: names .host0. again"):
        resolve(text, tmp_path)
    text = text.replace('"host0", "host0"', '"host0"')
    with pytest.raises(pf.ScenarioError, match=r"initiators.1 = .host1.: names .host1. again"):
        resolve(f'{text}initiators = ["host1", "host1"]\n', tmp_path)


def test_astra_files_with_a_repeated_key_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    for rank in range(4):
        (tmp_path / "t" / f"sum.{rank}.et").write_bytes(trace(1 << 20))
    (tmp_path / "n.yml").write_text(f"{NETWORK}latency: [ 9.0 ]\n")
    with pytest.raises(pf.InputError, match="latency is there twice"):
        import_astra(tmp_path / "t", tmp_path / "n.yml")
    (tmp_path / "n.yml").write_text(NETWORK)
    (tmp_path / "s.json").write_text(f'{{"boost-mode": 0, "boost-mode": 1, "peak-perf": {SYSTEM["peak-perf"]}}}')
    with pytest.raises(pf.InputError, match="boost-mode is there twice"):
        import_astra(tmp_path / "t", tmp_path / "n.yml", tmp_path / "s.json")
