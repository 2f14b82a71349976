"""Minimises a scenario that violates a rule: `python tests/swarm_shrink.py swarm-7-0.toml --threads 2`.

The script removes one part after the other, as long as the run still violates the same rule on `--threads` threads or
differs from the run on one thread.
"""

import argparse
import copy
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tomli_w
from pauseframe import _core
from swarm import run
from swarm_check import LONG_S, unfinished, violations
from swarm_draw import Table


def wrong(text: str, threads: int) -> set[str]:
    """The rules that a scenario violates, without the numbers in their messages."""
    try:
        resolved = tomllib.loads(_core.resolve(text).toml)
        alone, found = run(text, 1), run(text, threads)
    except _core.ScenarioError:
        return set()
    except _core.RunError as error:
        return {re.sub(r"[\d.]+", "N", str(error).split("at simulated time")[-1])}
    broken = list(violations(found, resolved))
    if found.summary["sim_time_s"] >= LONG_S:
        broken += unfinished(found, resolved)
    broken += ["differs"] if alone.differences(found) else []
    return {re.sub(r"[\d.]+", "N", what) for what in broken}


def smaller(table: Table) -> Iterator[Table]:
    """The scenarios that lack one part of the given scenario, with the largest parts removed first."""
    for path in sorted(_paths(table), key=len):
        less = copy.deepcopy(table)
        inside: Any = less
        for step in path[:-1]:
            inside = inside[step]
        del inside[path[-1]]
        yield less


def _paths(table: Table) -> Iterator[tuple[str | int, ...]]:
    parts = table.items() if isinstance(table, dict) else enumerate(table) if isinstance(table, list) else ()
    for key, value in parts:
        yield (key,)
        yield from ((key, *rest) for rest in _paths(value))


def shrunk(table: Table, holds: Callable[[Table], bool]) -> Table:
    """Removes every part of the table whose removal keeps `holds` true."""
    while less := next((less for less in smaller(table) if holds(less)), None):
        table = less
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    text = arguments.scenario.read_text()
    rules = wrong(text, arguments.threads)
    if not rules:
        print("it breaks no rule", file=sys.stderr)
        return 1
    small = shrunk(tomllib.loads(text), lambda table: bool(rules & wrong(tomli_w.dumps(table), arguments.threads)))
    print(*(f"# {rule}" for rule in sorted(rules & wrong(tomli_w.dumps(small), arguments.threads))), sep="\n")
    print(tomli_w.dumps(small), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
