"""Runs scenarios on several numbers of threads and compares the fingerprint and every table.

`python tests/swarm_equal.py 1,2 --paper judd` runs all experiments of a paper, reduced and with one seed. `python
tests/swarm_equal.py 1,2,4 benchmarks/*.toml --stop "200 us"` runs scenario files until the given time. A network of one
switch always runs on one thread; `--divided` skips such networks.
"""

import argparse
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

import tomli_w
from pauseframe import _core
from pauseframe.reproduce.run import plan
from pauseframe.reproduce.spec import find_experiments, select
from swarm import run


def of_paper(paper: str, seed: int) -> Iterator[tuple[str, str]]:
    """Name and text of each distinct run of a paper."""
    seen = set[str]()
    for experiment in select(find_experiments(), paper):
        for cell in [] if experiment.spec.function else plan(experiment, "quick", [seed]):
            if cell.run.key not in seen:
                seen.add(cell.run.key)
                yield f"{experiment.id} {cell.variant} {cell.run.path}", _with(cell.run.toml, seed=seed)


def of_files(files: list[Path]) -> Iterator[tuple[str, str]]:
    return ((path.name, path.read_text()) for path in files)


def _with(text: str, **keys: object) -> str:
    return tomli_w.dumps(tomllib.loads(text) | keys)


def is_one_switch(text: str) -> bool:
    nodes = _core.Topology.of_scenario(_core.resolve(text)).nodes()
    return sum(kind == "switch" for _, kind, _ in nodes) == 1


def differences(text: str, threads: list[int]) -> list[str]:
    """Differences from the run on the first number of threads, one line each."""
    first = run(text, threads[0])
    found = [(count, first.differences(run(text, count))) for count in threads[1:]]
    return [f"{count} threads: {differ}" for count, differ in found if differ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("threads", help="1,2,4")
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--paper")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stop", help="end all scenarios then")
    parser.add_argument("--divided", action="store_true", help="leave out networks of one switch")
    arguments = parser.parse_args()
    threads = [int(count) for count in arguments.threads.split(",")]
    scenarios = of_paper(arguments.paper, arguments.seed) if arguments.paper else of_files(arguments.files)
    count = failed = left_out = 0
    for name, given in scenarios:
        if arguments.divided and is_one_switch(given):
            left_out += 1
            continue
        text = _with(given, stop={"time": arguments.stop}) if arguments.stop else given
        begin = time.process_time()
        differ = differences(text, threads)
        count, failed = count + 1, failed + bool(differ)
        print(f"{name}: {differ or 'equal'} ({time.process_time() - begin:.1f} s of CPU)", flush=True)
    print(f"{left_out} scenarios of one switch were left out")
    print(f"{count - failed} of {count} scenarios are equal on {arguments.threads} threads")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
