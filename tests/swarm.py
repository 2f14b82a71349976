"""Runs random scenarios and reports every rule that a run violates: `python tests/swarm.py --count 200 --seed 7`.

A second run of each scenario ends all faults early and must finish all work. A scenario that violates a rule is written
to a file, with the command that reproduces the violation. With `--equal 1,2,3,4,8`, the script instead runs each
scenario on these numbers of threads, and compares the fingerprint and every table.
"""

import argparse
import os
import random
import secrets
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl
import tomli_w
from pauseframe import _core
from swarm_check import LONG_S, Tables, fewer_than_packets, flow_level, mean_backlogs, misrouted, unfinished, violations
from swarm_draw import Table, draw
from swarm_kinds import ALL, kinds_of

THREADS = (1, 2, 3, 4, 8)
EVENTS_MAX = 2_000_000
"""A run with more events than this limit is not repeated on several threads."""
ATTEMPTS = 12
"""Maximum number of draws for one seed if `resolve` refuses the scenarios."""
OPEN_ENDED = {"incast", "background", "scatter_gather", "hotspot", "udp"}


class Broken(NamedTuple):
    """A violated rule, and the run that violates it."""

    what: str
    scenario: str
    threads: int


class Drawn(NamedTuple):
    """The first runnable scenario of a seed."""

    table: Table
    text: str
    resolved: Table


def scenario_of(seed: int) -> Drawn | None:
    """Draws a runnable scenario; None if no draw can run."""
    for attempt in range(ATTEMPTS):
        table = draw(seed, attempt)
        text = tomli_w.dumps(table)
        try:
            return Drawn(table, text, tomllib.loads(_core.resolve(text).toml))
        except _core.ScenarioError:
            continue
    return None


def run(text: str, threads: int, folder: Path | None = None) -> Tables:
    """Runs a scenario; the exception for a failed internal assertion includes the scenario."""
    out = str(folder) if folder else None
    return Tables.of(_core.run(_core.resolve(text), out=out, force=True, threads=threads))


def _stop_us(table: Table) -> int:
    return int(table["stop"]["time"].split()[0])


def recorded(table: Table) -> str:
    """The same scenario with all recordings on."""
    # No round number: queues that a clock of 10 us serves (RNR timers, the CPU of a Linux switch) would always be
    # sampled at one phase.
    every = f"{max(1, _stop_us(table) * 487 // 1000)} ns"
    record: Table = {"series": {"every": every}, "pause_tree": True}
    # Captures do not show the outer headers of tunnels, so they are refused with mux cables.
    transports = [table["transport"], *table.get("transports", {}).values()]
    is_hidden = table["host"].get("port_choice") == "mux" or any("subflows" in each for each in transports)
    record |= {} if is_hidden else {"packets": {"limit": 200_000}}
    record |= {"states": {"every": f"{_stop_us(table)} ns"}} | table.get("record", {})
    return tomli_w.dumps(table | {"record": record})


def calmed(table: Table, seed: int) -> str:
    """The same scenario with all faults ended at one drawn time, and then time for all work to finish."""
    calm = random.Random(f"{seed}/calm").randrange(1200, 2500)
    failures = [failure | {"up": f"{min(calm, _up_us(failure))} us"} for failure in table.get("failure", [])]
    wires = [wire | {"stop": f"{calm} us"} for wire in table.get("corruption", [])]
    slow = [receiver | {"stop": f"{calm} us"} for receiver in table["host"].get("slow_receivers", [])]
    until = f"{_stop_us(table)} us"
    work = [one | {"stop": one.get("stop", until)} if one["kind"] in OPEN_ENDED else one for one in table["workload"]]
    host = table["host"] | {"slow_receivers": slow}
    ended = {"stop": {"time": f"{LONG_S} s"}, "workload": work, "host": host}
    return tomli_w.dumps(table | ended | {"failure": failures, "corruption": wires})


def _up_us(failure: Table) -> int:
    value, unit = failure["up"].split()
    return int(value) * {"us": 1, "h": 3_600_000_000}[unit]


def check(seed: int) -> Iterator[Broken]:
    """All violations of the scenario of a seed."""
    drawn = scenario_of(seed)
    if drawn is None:
        return
    rng = random.Random(f"{seed}/threads")
    one, other, third = rng.choices(THREADS, k=3)
    plain = yield from _checked(drawn.text, drawn, 1)
    again = yield from _checked(drawn.text, drawn, one)
    if plain is None or again is None:
        return
    if differences := plain.differences(again):
        yield Broken(f"differs from a run on one thread in {differences}", drawn.text, one)
    yield from _calm(calmed(drawn.table, seed), drawn, other)
    yield from (Broken(what, drawn.text, 1) for what in _flow_level(drawn, plain))
    yield from _recorded(drawn, plain, third)


def _calm(text: str, drawn: Drawn, threads: int) -> Iterator[Broken]:
    """Checks that all work finishes, and that a run that is not too long has the same result on other threads."""
    finished = yield from _checked(text, drawn, 1)
    if finished is None:
        return
    yield from (Broken(what, text, 1) for what in unfinished(finished, drawn.resolved))
    # Threads synchronise at least once per frame time, so minutes of simulated timeouts would take hours.
    if finished.summary["events"] > EVENTS_MAX:
        return
    again = yield from _checked(text, drawn, threads)
    if again is not None and (differences := finished.differences(again)):
        yield Broken(f"differs from a run on one thread in {differences}", text, threads)


def _checked(text: str, drawn: Drawn, threads: int) -> Generator[Broken, None, Tables | None]:
    """Yields the violations of a run, and returns its tables; returns None if the run failed."""
    try:
        tables = run(text, threads)
    except _core.RunError as error:
        yield Broken(str(error), text, threads)
        return None
    yield from (Broken(what, text, threads) for what in violations(tables, drawn.resolved))
    return tables


def _flow_level(drawn: Drawn, plain: Tables) -> Iterator[str]:
    def flows_of(text: str) -> list[Table]:
        return pl.DataFrame(_core.run_flows(_core.resolve(text)).flows).to_dicts()

    # Fair shares finish later than packets in the order of their flows, and ECMP may take another path.
    later = drawn.table | {"stop": {"time": f"{10 * _stop_us(drawn.table)} us"}}
    try:
        yield from flow_level(flows := flows_of(drawn.text))
        if list(fewer_than_packets(plain, flows)):
            yield from fewer_than_packets(plain, flows_of(tomli_w.dumps(later)))
    except (_core.ScenarioError, _core.RunError, _core.FabricError):
        return  # The flow level refuses scenarios that it cannot simulate.


def _recorded(drawn: Drawn, plain: Tables, threads: int) -> Iterator[Broken]:
    text = recorded(drawn.table)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        watched = run(text, threads, out)
        said = {"series", "pause_tree", "states", "summary.warnings", "deadlocks"}
        if differences := plain.differences(watched, said):
            yield Broken(f"recording changes {differences}", text, threads)
        yield from (Broken(what, text, threads) for what in mean_backlogs(watched))
        nodes = _core.Topology.of_scenario(_core.resolve(text)).nodes()
        peers = {str(port["port"]): str(port["peer"]) for port in watched.ports}
        capture = out / "packets.pcapng"
        wrong = misrouted(capture, nodes, peers) if capture.exists() else ()
        yield from (Broken(what, text, threads) for what in wrong)


def equal(seed: int, threads: list[int]) -> Iterator[Broken]:
    """Compares the results on several numbers of threads; half of the scenarios also record everything."""
    drawn = scenario_of(seed)
    if drawn is None:
        return
    text = recorded(drawn.table) if seed % 2 else drawn.text
    first, *others = threads
    expected = yield from _checked(text, drawn, first)
    for count in others:
        found = yield from _checked(text, drawn, count)
        if expected and found and (differences := expected.differences(found)):
            yield Broken(f"differs from a run on {first} threads in {differences}", text, count)


def reported(seed: int, broken: list[Broken], folder: Path) -> None:
    """Writes each scenario that violates a rule, with the command that reproduces the violation."""
    folder.mkdir(parents=True, exist_ok=True)
    master = next(drawn.table["seed"] for drawn in [scenario_of(seed)] if drawn)
    files: dict[str, Path] = {}
    for what, text, threads in broken:
        path = files.setdefault(text, folder / f"swarm-{seed}-{len(files)}.toml")
        path.write_text(text)
        print(f"seed {seed}: {what}\n    pauseframe run {path} --seed {master} --threads {threads}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100)
    given = os.environ.get("PAUSEFRAME_SWARM_SEED")
    seed = int(given) if given else secrets.randbelow(1 << 40)
    parser.add_argument("--seed", type=int, default=seed, help="the first; by default PAUSEFRAME_SWARM_SEED, or drawn")
    parser.add_argument("--equal", default="", metavar="N,N", help="numbers of threads whose results must be the same")
    parser.add_argument("--out", type=Path, default=Path("results/swarm"), help="where scenarios that break a rule go")
    arguments = parser.parse_args()
    first, threads = arguments.seed, [int(count) for count in arguments.equal.split(",") if count]
    print(f"seeds {first} to {first + arguments.count - 1}", flush=True)
    failed, drawn = 0, Counter[str]()
    for number in range(first, first + arguments.count):
        broken = list(equal(number, threads) if threads else check(number))
        failed += bool(broken)
        reported(number, broken, arguments.out)
        drawn.update(kinds_of(one.resolved) if (one := scenario_of(number)) else ["none that can be run"])
    print(*(f"{drawn[kind]:5} {kind}" for kind in [*ALL, "none that can be run"]), sep="\n")
    print(f"{arguments.count - failed} passed, {failed} failed")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
