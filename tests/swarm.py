"""Runs drawn scenarios and reports every rule that one of them breaks: `python tests/swarm.py --count 200 --seed 7`."""

import argparse
import os
import secrets
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import tomli_w
from pauseframe import _core
from swarm_check import LONG_S, Tables, flow_level, mean_backlogs, misrouted, violations
from swarm_draw import Table, draw

THREADS = 4
"""Second runs and recorded ones have up to so many."""
ATTEMPTS = 12
"""How often a scenario that `resolve` refuses is drawn again."""


def scenario_of(seed: int) -> tuple[Table, str] | None:
    """The first scenario of a seed that can be run, and its text; None if none of the draws can."""
    for attempt in range(ATTEMPTS):
        table = draw(seed, attempt)
        text = tomli_w.dumps(table)
        try:
            _core.resolve(text)
        except _core.ScenarioError:
            continue
        return table, text
    return None


def run(text: str, folder: Path | None = None, threads: int = 1) -> Tables:
    out = str(folder) if folder else None
    return Tables.of(_core.run(_core.resolve(text), out=out, force=True, threads=threads))


def _watched(table: Table) -> str:
    """The same scenario with everything recorded."""
    every = f"{max(1, _stop_ns(table) // 2000)} ns"
    record = {"series": {"every": every}, "pause_tree": True, "packets": {"limit": 1_000_000}}
    return tomli_w.dumps(table | {"record": record})


def _for_ever(table: Table) -> str:
    """The same scenario with time for everything to finish: what the workloads start is bounded by their own stop."""
    until = f"{_stop_ns(table)} ns"
    workloads = [w | {"stop": w.get("stop", until)} if w["kind"] in OPEN_ENDED else w for w in table["workload"]]
    return tomli_w.dumps(table | {"stop": {"time": f"{LONG_S} s"}, "workload": workloads})


OPEN_ENDED = {"incast", "background", "scatter_gather", "hotspot", "udp"}


def _flow_level(table: Table, plain: Tables) -> Iterator[str]:
    try:
        flows = _core.run_flows(_core.resolve(tomli_w.dumps(table))).flows
    except (_core.ScenarioError, _core.RunError, _core.FabricError):
        return  # What the flow level cannot do it refuses.
    yield from flow_level(plain, pl.DataFrame(flows).to_dicts())


def _stop_ns(table: Table) -> int:
    return int(table["stop"]["time"].split()[0]) * 1000


def check(seed: int) -> Iterator[str]:
    """Everything that is wrong with the scenario of a seed."""
    drawn = scenario_of(seed)
    if drawn is None:
        return
    table, text = drawn
    plain = run(text)
    resolved = tomllib.loads(_core.resolve(text).toml)
    yield from violations(plain, table, resolved)
    threads = 1 + seed % THREADS
    if run(text, threads=threads).without_clock() != plain.without_clock():
        yield f"a second run differs, on {threads} threads"
    yield from violations(run(_for_ever(table)), table, resolved)
    yield from _flow_level(table, plain)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        watched = run(_watched(table), out, threads=1 + (seed + 1) % THREADS)
        if watched.without_clock() != plain.without_clock():
            yield f"recording changes the run: {_differences(plain, watched)}"
        yield from mean_backlogs(watched)
        nodes = _core.Topology.of_scenario(_core.resolve(text)).nodes()
        peers = {str(port["port"]): str(port["peer"]) for port in watched.ports}
        yield from misrouted(out / "packets.pcapng", nodes, peers)


def _differences(a: Tables, b: Tables) -> str:
    keys = [key for key in a.summary if a.without_clock()[0].get(key) != b.without_clock()[0].get(key)]
    tables = [name for name in ("flows", "queries", "ports") if getattr(a, name) != getattr(b, name)]
    return f"summary {keys}, tables {tables}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100)
    given = os.environ.get("PAUSEFRAME_SWARM_SEED")
    parser.add_argument(
        "--seed",
        type=int,
        default=int(given) if given else secrets.randbelow(1 << 40),
        help="the first seed; by default PAUSEFRAME_SWARM_SEED, or drawn, and printed",
    )
    arguments = parser.parse_args()
    first = arguments.seed
    print(f"seeds {first} to {first + arguments.count - 1}", flush=True)
    failed = 0
    for seed in range(first, first + arguments.count):
        try:
            wrong = list(check(seed))
        except _core.RunError as error:
            wrong = [f"internal error: {error}"]
        if wrong:
            failed += 1
            print(
                f"python tests/swarm.py --count 1 --seed {seed}",
                *(f"    {what}" for what in wrong),
                sep="\n",
                flush=True,
            )
    print(f"{arguments.count - failed} passed, {failed} failed")
    return min(failed, 1)


if __name__ == "__main__":
    pl.Config.set_tbl_rows(20)
    sys.exit(main())
