"""`pauseframe busbw`: the table of nccl-tests for a fabric, and its difference to a measured one."""

import json
import re
from pathlib import Path

import polars as pl
import pytest
from pauseframe._core import InputError
from pauseframe.busbw import COLLECTIVES, bench, measure, read_measured, sizes_between
from pauseframe.busbw.text import number
from test_fabrics import cli

ROOT = Path(__file__).parent.parent
MEASURED = """# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 4 minBytes 1048576 maxBytes 4194304 step: 2(factor) warmup iters: 1 iters: 20 agg iters: 1
#
# Using devices
#  Rank  0 Group  0 Pid   8123 on   host1 device  0 [0000:19:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   8123 on   host1 device  1 [0000:3b:00] NVIDIA H100 80GB HBM3
#  Rank  2 Group  0 Pid   8124 on   host2 device  0 [0000:19:00] NVIDIA H100 80GB HBM3
#  Rank  3 Group  0 Pid   8124 on   host2 device  1 [0000:3b:00] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
     1048576        262144     float     sum      -1    50.00   20.97   31.46       0    51.12   20.51   30.77       0
     4194304       1048576     float     sum      -1   150.00   27.96   41.94       0   149.90   27.98   41.97       0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 36.5
"""
OLD = """#
#                                                       out-of-place                       in-place
#       size         count      type   redop     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                       (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
[1,0]<stdout>: 1048576        262144     float     sum    50.00   20.97   31.46      0    51.12   20.51   30.77      0
"""


@pytest.mark.parametrize("name", COLLECTIVES)
def test_large_sizes_reach_the_rate_of_the_nic(name):
    rows = list(measure(bench(None, gpus=4, rate="400 Gbps"), name, [1 << 24], library="mpi"))
    # 4,096 of 4,182 bytes of a packet and its gap are payload (RoCEv2 over Ethernet).
    assert 0.92 * 50 * 4096 / 4182 < rows[0].busbw < 50 * 4096 / 4182
    factor = (2 if name == "all_reduce" else 1) * 3 / 4
    assert rows[0].busbw == pytest.approx(rows[0].algbw * factor)
    assert rows[0].algbw == pytest.approx(rows[0].size / rows[0].time_us / 1e3)


def test_adaptive_routing_lifts_an_all_reduce_where_hashes_collide(tmp_path):
    """By the order of 70 % with split messages. Eight queue pairs then give 4 % more (docs/models/routing.md)."""
    page = (ROOT / "docs" / "models" / "routing.md").read_text()
    (tmp_path / "rings.toml").write_text(re.findall(r"```toml\n(# rings.toml\n.*?)```", page, re.DOTALL)[0])

    def busbw(kind: str, queue_pairs: int) -> float:
        keys = [f"routing.kind={kind}", "transport.rdma_split_data_on_qps=true"]
        keys += [f"transport.rdma_qps_per_connection={queue_pairs}"]
        keys += ["transport.rdma_selective_repeat=true"] if kind == "adaptive" else []
        sets = [word for key in keys for word in ("--set", key)]
        done = cli("busbw", str(tmp_path / "rings.toml"), "-b", "256M", "-e", "256M", "--json", *sets)
        return float(json.loads(done.stdout)["rows"][0]["busbw_gb_per_s"])

    hashed, adaptive, more = busbw("ecmp", 4), busbw("adaptive", 4), busbw("adaptive", 8)
    assert 1.5 < adaptive / hashed < 1.9
    assert 1.02 < more / adaptive < 1.06


def test_counts_are_those_of_nccl_tests():
    warnings: list[str] = []
    fabric = bench(None, gpus=3, rate=None)
    rows = list(measure(fabric, "all_gather", [32, 1000], library="mpi", warn=warnings.append))
    # A block is a multiple of 16 bytes: 3 blocks of 320 bytes.
    assert [(row.size, row.count, row.redop) for row in rows] == [(960, 80, "none")]
    assert warnings[0] == "32 B left out: a block of 3 GPUs would have less than 16 bytes"
    assert sizes_between(1024, 5000, 2) == [1024, 2048, 4096]


def test_a_scenario_gives_the_fabric(tmp_path):
    (tmp_path / "fabric.toml").write_text(
        'stop = "1 ms"\n[topology]\nkind = "star"\nhosts = 4\n[transports.fast]\npreset = "roce_dcqcn"\n'
        '[transport]\npreset = "dctcp"\n[[workload]]\nkind = "permutation"\nsize = "1 MB"\ntransport = "fast"\n'
    )
    fabric = bench(tmp_path / "fabric.toml", gpus=None, rate=None, overrides=[("topology.hosts", "6")])
    assert (fabric.gpus, fabric.kept) == (6, {"transport": "fast"})
    with pytest.raises(InputError, match="change them with --set"):
        bench(tmp_path / "fabric.toml", gpus=None, rate="1 Gbps")
    with pytest.raises(InputError, match="name a scenario, or give --gpus"):
        bench(None, gpus=None, rate=None)


@pytest.mark.parametrize("where", ["file", "--set"])
def test_settings_of_collectives_act(tmp_path, where):
    tree = 'collectives = { library = "nccl", algorithm = "tree" }\n' if where == "file" else ""
    (tmp_path / "fabric.toml").write_text(
        '[topology]\nkind = "star"\nhosts = 8\n[transport]\npreset = "roce_dcqcn"\n[[workload]]\n'
        f'kind = "application"\npattern = "all_reduce"\nranks = 8\nsize = "1 MB"\n{tree}'
    )
    key = "workload.0.collectives.algorithm"
    change = [(key, "tree")] if where == "--set" else []
    fabric = bench(tmp_path / "fabric.toml", gpus=None, rate=None, overrides=change)
    ring = bench(tmp_path / "fabric.toml", gpus=None, rate=None, overrides=[(key, "ring")])
    times = [next(measure(one, "all_reduce", [1 << 20])).time_us for one in (fabric, ring)]
    assert times[0] > 1.2 * times[1], "a tree takes longer than a ring here"


def test_measured_tables_are_read(tmp_path):
    (tmp_path / "new.txt").write_text(MEASURED)
    measured = read_measured(tmp_path / "new.txt")
    assert measured.rows == {1048576: (50.0, 31.46), 4194304: (150.0, 41.94)}
    assert (measured.gpus, measured.collective) == (4, "all_reduce")
    (tmp_path / "old.txt").write_text(OLD)
    assert read_measured(tmp_path / "old.txt").rows == {1048576: (50.0, 31.46)}
    (tmp_path / "none.txt").write_text("1 2 3\n")
    with pytest.raises(InputError, match="has no table of nccl-tests"):
        read_measured(tmp_path / "none.txt")
    (tmp_path / "cut.txt").write_text(MEASURED[: MEASURED.index("31.46")])
    with pytest.raises(InputError, match="line 14: no size, time and busbw"):
        read_measured(tmp_path / "cut.txt")


def test_the_table_of_the_collective_is_compared(tmp_path):
    gather = MEASURED.replace("all_reduce_perf", "all_gather_perf").replace("31.46", "15.73")
    both = tmp_path / "both.txt"
    both.write_text(MEASURED + gather)
    assert read_measured(both, "all_gather").rows[1048576] == (50.0, 15.73)
    assert read_measured(both, "all_reduce").rows[1048576] == (50.0, 31.46)
    for collective in (None, "alltoall"):
        with pytest.raises(InputError, match="choose one with --collective all_reduce or all_gather"):
            read_measured(both, collective)
    both.write_text(MEASURED.replace("all_reduce_perf", "broadcast_perf"))
    for collective in (None, "all_reduce"):
        with pytest.raises(InputError, match="has the table of broadcast_perf: give one of all_reduce_perf"):
            read_measured(both, collective)


def test_each_table_has_its_own_ranks_and_is_compared_alone(tmp_path):
    gather = MEASURED.replace("all_reduce_perf", "all_gather_perf")
    fewer = "".join(line for line in gather.splitlines(keepends=True) if not re.search(r"Rank +[23]", line))
    both = tmp_path / "both.txt"
    for text, gpus in ((MEASURED + fewer, (4, 2)), (fewer + MEASURED, (4, 2))):
        both.write_text(text)
        assert tuple(read_measured(both, name).gpus for name in ("all_reduce", "all_gather")) == gpus
    both.write_text(MEASURED + MEASURED)
    with pytest.raises(InputError, match="has 2 tables of all_reduce_perf"):
        read_measured(both)
    row = next(line for line in MEASURED.splitlines(keepends=True) if line.split()[0] == "1048576")
    both.write_text(MEASURED.replace(row, row + row))
    with pytest.raises(InputError, match="1048576 B are in the table already"):
        read_measured(both)


def test_all_measured_sizes_are_compared(tmp_path):
    """Sizes that are no whole blocks of 16 bytes are simulated a little smaller."""
    odd = MEASURED.replace(" 1048576 ", " 1048578 ").replace(" 4194304 ", " 4194310 ")
    (tmp_path / "odd.txt").write_text(odd)
    for name in ("all_reduce", "all_gather", "reduce_scatter", "alltoall"):
        text = odd.replace("all_reduce_perf", f"{name}_perf")
        (tmp_path / f"{name}.txt").write_text(text)
        done = cli("busbw", "--compare", f"{name}.txt", "--library", "mpi", "--json", cwd=tmp_path)
        assert [row["size_bytes"] for row in json.loads(done.stdout)["rows"]] == [1048578, 4194310], done.stderr
    some = cli("busbw", "--compare", "odd.txt", "-b", "2M", "--json", cwd=tmp_path)
    assert [row["size_bytes"] for row in json.loads(some.stdout)["rows"]] == [4194310]
    for options, message in ((("-f", "4"), "has the sizes"), (("-b", "8M"), "none of the measured sizes")):
        done = cli("busbw", "--compare", "odd.txt", *options, cwd=tmp_path)
        assert (done.returncode, message in done.stderr) == (2, True), done.stderr


def test_bandwidths_without_a_ratio(tmp_path):
    (tmp_path / "zero.txt").write_text(MEASURED.replace("31.46", " 0.00"))
    done = cli("busbw", "--compare", "zero.txt", "--library", "mpi", "--json", cwd=tmp_path)
    assert [row["difference"] is None for row in json.loads(done.stdout)["rows"]] == [True, False]
    assert "n/a" in cli("busbw", "--compare", "zero.txt", "--library", "mpi", cwd=tmp_path).stdout
    for word in ("  nan", "  inf"):
        (tmp_path / "odd.txt").write_text(MEASURED.replace("31.46", word))
        with pytest.raises(InputError, match="no size, time and busbw"):
            read_measured(tmp_path / "odd.txt")


def test_numbers_have_the_width_of_nccl_tests():
    assert [number(value, 7) for value in (3.14159, 12345.678, 1234567.8)] == ["   3.14", "12345.7", "1234568"]


def test_the_command_prints_compares_and_writes(tmp_path):
    (tmp_path / "measured.txt").write_text(MEASURED)
    line = ("busbw", "--compare", "measured.txt", "--library", "mpi")
    done = cli(*line, "-o", "rows.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "all_reduce: 4 GPUs" in done.stdout
    rows = pl.read_csv(tmp_path / "rows.csv").to_dicts()
    assert [row["size_bytes"] for row in rows] == [1048576, 4194304]
    for row in rows:
        assert row["difference"] == pytest.approx(row["simulated_busbw_gb_per_s"] / row["measured_busbw_gb_per_s"] - 1)
    assert f"{rows[0]['difference']:+.1%}" in done.stdout
    # What the command prints is itself a table that it reads.
    printed = cli("busbw", "--gpus", "2", "-b", "64K", "-e", "128K", "--library", "mpi", cwd=tmp_path)
    (tmp_path / "own.txt").write_text(printed.stdout)
    assert list(read_measured(tmp_path / "own.txt").rows) == [65536, 131072]
    own = cli("busbw", "--gpus", "2", "--compare", "own.txt", "--library", "mpi", "--json", cwd=tmp_path)
    assert all(abs(row["difference"]) < 0.01 for row in json.loads(own.stdout)["rows"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--gpus", "4", "-b", "1Q"), "is not a size such as"),
        (("--gpus", "4", "-b", "1M", "-e", "1K"), "is below --minbytes"),
        (("--gpus", "4", "-o", "rows.txt"), "ends with .csv, .json or .parquet"),
        (("--gpus", "4", "--rate", "fast"), "fast"),
        ((), "name a scenario, or give --gpus N"),
        (("--collective", "all_gather", "--gpus", "4", "-b", "4", "-e", "8"), "all sizes were left out"),
        (("x.json",), "x.json: this is JSON, not TOML"),
        (("twice.toml",), "twice.toml:2: this is not TOML: duplicate key"),
    ],
)
def test_mistakes_are_named(tmp_path, options, message):
    (tmp_path / "x.json").write_text('{"a": 1}')
    (tmp_path / "twice.toml").write_text("seed = 1\nseed = 2\n")
    done = cli("busbw", *options, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
