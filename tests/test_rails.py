"""Rails: GPU r of each server at the switch of rail r, as fabrics for training are built."""

from __future__ import annotations

from typing import Any

import pauseframe as pf
import polars as pl
import pytest

STEP = """
stop = { when_finished = true }
transport = { preset = "roce_dcqcn" }

[topology]
kind = "leaf_spine"
leaves = 8
spines = 2
hosts_per_leaf = 2
link = { rate = "400 Gbps", delay = "500 ns" }
scale_up = { gpus_per_server = 4, gpu = "H100", rails = true }

[[workload]]
name = "train"
kind = "training"
tp = 4
ep = 2
layers = 1
hidden = 512
sequence = 512
experts = 2
forward = "10 us"
"""


def by_spines(run: pf.Run) -> int:
    ports = run.ports.to_polars().filter(pl.col("port").cast(pl.Utf8).str.starts_with("spine"))
    return int(ports["tx_packets"].sum())


def test_an_exchange_between_the_servers_of_a_segment_stays_at_its_rails() -> None:
    # Four servers: two in each segment of four rails. A group of experts has the two servers of a segment.
    rails = pf.run(STEP, progress=False)
    racks = pf.run(STEP, set={"topology.scale_up.rails": False}, progress=False)
    exchanges = rails.collectives.to_polars().filter(pl.col("kind") == "alltoall")
    assert exchanges.height > 0
    # Gradients cross the spines in both, exchanges only without rails.
    assert 0 < by_spines(rails) < by_spines(racks)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"topology.leaves": 6}, "topology.scale_up.gpus_per_server = 4: 4 is not possible: with rails, as many"),
        ({"topology.ports_per_host": 2}, "topology.scale_up.rails = true: true, but ports_per_host links each host"),
    ],
)
def test_what_has_no_rails_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(pf.ScenarioError) as error:
        pf.run(STEP, set=changes, progress=False)
    assert message in str(error.value)


def test_planes_give_each_rail_a_switch_in_each() -> None:
    ports = pf.run(STEP, set={"topology.planes": 2}, progress=False).ports.to_polars()
    used = ports.filter(pl.col("tx_packets") > 0)["port"].cast(pl.Utf8).str.extract(r"^leaf\d-p(\d)")
    assert set(used.drop_nulls()) == {"0", "1"}
