"""Figures in the text of how-tos are those of the runs that the page shows.

Numbers in blocks of output are compared by tests/test_docs_commands.py. Others have an entry in `FIGURES`: the sentence
with a gap for each number, and what computes the numbers. A page that rounds differently fails like an old one.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pauseframe as pf
import polars as pl
import pytest
from test_docs_commands import scenarios
from test_fabrics import cli

if TYPE_CHECKING:
    from collections.abc import Callable

DOCS = Path(__file__).parent.parent / "docs"
MIIMON = {"host.miimon": "1 ms"}
PLANES = {"topology.ports_per_host": 1, "topology.planes": 2}
MUX = {"host.port_choice": "mux", "host.link_prober_interval": "1 ms"}
MLAG = {"topology.peer_links": 1, "routing.mlag": True}


def run_of(page: str, name: str, changes: dict[str, Any] | None = None) -> pf.Run:
    """The run of a scenario of a page, with the changes of a command of the page."""
    return _run(scenarios(DOCS / page)[name], tuple((changes or {}).items()))


@cache
def _run(text: str, changes: tuple[tuple[str, Any], ...]) -> pf.Run:
    return pf.run(text, set=dict(changes), progress=False)


def rows(table: Any) -> pl.DataFrame:
    frame = pl.DataFrame(table)
    return frame.with_columns(
        pl.col(name).cast(pl.String) for name, kind in frame.schema.items() if kind == pl.Categorical
    )


def slowest_ms(changes: dict[str, Any] | None = None) -> str:
    flows = rows(run_of("how-to/ports-of-hosts.md", "ports.toml", changes).flows)
    return f"{flows.sort('fct_us')['fct_us'][-1] / 1000:.1f}"


def times_of_the_bond() -> list[str]:
    flows = rows(run_of("how-to/ports-of-hosts.md", "ports.toml").flows)
    return [slowest_ms(MIIMON), slowest_ms(), f"{flows.sort('fct_us')['ideal_fct_us'][-1] / 1000:.1f}"]


def over_the_peer_link() -> list[str]:
    ports = rows(run_of("how-to/ports-of-hosts.md", "ports.toml", MLAG).ports)
    (peer,) = [
        row
        for row in ports.to_dicts()
        if row["port"].startswith("leaf0:") and row["peer"] == "leaf1" and row["tx_packets"]
    ]
    return [f"{peer['tx_packets']:,}", f"`{peer['port']}`"]


def storm_of_the_watchdog() -> list[str]:
    ports = rows(run_of("how-to/test-a-watchdog.md", "watchdog.toml").ports)
    (row,) = ports.filter(pl.col("watchdog_storms") > 0).to_dicts()
    assert row["drops_watchdog"] > 0
    return [f"`{row['port']}`", str(row["priority"]), str(row["watchdog_storms"])]


def pauses_of_the_storm() -> list[str]:
    states = rows(run_of("how-to/watch-a-pause-storm.md", "storm.toml").states)

    def first(kind: str, port: str) -> float:
        return float(states.filter(pl.col("kind") == kind, pl.col("port").str.starts_with(port))["time_us"][0])

    return [f"{first(kind, 'edge0_0:0'):.1f}" for kind in ("asked", "paused")] + [f"{first('paused', 'host15'):.0f}"]


def iterations_of_the_backup(folder: Path) -> list[str]:
    runs = [pf.run(folder / "training" / f"{name}.toml", progress=False) for name in ("backup", "step")]
    return [f"{float(rows(run.jobs)['iteration_us'][0]) / 1000:.2f}" for run in runs]


def bus_bandwidths(folder: Path) -> list[str]:
    size = ("-b", "16M", "-e", "16M", "-f", "4")
    tables = [cli("busbw", "training/step.toml", *size, *times, cwd=folder).stdout for times in (("-n", "20"), ())]
    return [re.search(r"^\s*16777216 .* (\S+)\s*$", table, re.M)[1] for table in tables]  # type: ignore[index]


FIGURES: list[tuple[str, str, Callable[..., list[str]]]] = [
    ("how-to/ports-of-hosts.md", "takes {} ms instead of {}; alone it would take {}.", times_of_the_bond),
    ("how-to/ports-of-hosts.md", "the slowest flow takes {} ms here. With rails", lambda: [slowest_ms(PLANES)]),
    ("how-to/ports-of-hosts.md", "The slowest flow takes {} ms here; with SONiC's default", lambda: [slowest_ms(MUX)]),
    ("how-to/ports-of-hosts.md", "{} packets by port {} in the table `ports`", over_the_peer_link),
    ("how-to/test-a-watchdog.md", "the queue of {} for priority {} has `watchdog_storms` {}", storm_of_the_watchdog),
    (
        "how-to/watch-a-pause-storm.md",
        "At {} us host0 asks its switch to stop, which it does at {} us; at {} us host15 must stop",
        pauses_of_the_storm,
    ),
    ("training-step.md", "The iteration takes {} ms in place of {}.", iterations_of_the_backup),
    ("training-step.md", "then have a bus bandwidth of {} GB/s, one call {}.", bus_bandwidths),
]  # fmt: skip


@pytest.mark.parametrize(
    ("page", "sentence", "computed"), FIGURES, ids=[f"{Path(page).stem} {sentence}" for page, sentence, _ in FIGURES]
)
def test_figures_in_the_text(page, sentence, computed, tmp_path):
    text = " ".join((DOCS / page).read_text(encoding="utf-8").split())
    if page == "training-step.md":
        cli("example", "training", cwd=tmp_path)
        numbers = computed(tmp_path)
    else:
        numbers = computed()
    assert sentence.format(*numbers) in text
