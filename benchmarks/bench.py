"""Speed and memory of the simulator on the scenarios in this folder.

`make bench` runs every scenario several times, in alternation. The machines are noisy, so compare medians of one call,
never numbers of two calls. `make bench` then counts instructions per packet hop with callgrind, as the difference
between two run lengths, which cancels start-up. Large fabrics also run on several threads, in the same rounds.
`--against DIR` alternates with another built checkout (`make build`) and prints ratios.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
COMMAND = ("-m", "pauseframe")


def run(python: Path, scenario: Path, *arguments: str) -> dict[str, Any]:
    """Runs a scenario in a separate process and returns its summary."""
    with tempfile.TemporaryDirectory() as out:
        command = [python, *COMMAND, "run", scenario, "--json", "--quiet", "--out", f"{out}/results", *arguments]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def instructions(python: Path, scenario: Path, *arguments: str) -> tuple[int, int]:
    """Counts the instructions of a whole run under callgrind; returns them with the number of packet hops."""
    with tempfile.TemporaryDirectory() as out:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}/callgrind", python, *COMMAND]
        command += ["run", scenario, "--json", "--quiet", "--out", f"{out}/results", *arguments]
        # Python's hash seed changes the number of dictionary probes, by 13 instructions per hop from run to run.
        environment = os.environ | {"PYTHONHASHSEED": "0"}
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        counts = Path(out, "callgrind").read_text().rsplit("totals:", 1)[1].split()[0]
    return int(counts), json.loads(done.stdout)["packet_hops"]


def instructions_per_hop(python: Path, scenario: Path) -> float:
    """Instructions per packet hop, from the difference between two run lengths."""
    short, long = (instructions(python, scenario, "--set", f"workload.size={size}") for size in ("500 KB", "1 MB"))
    return (long[0] - short[0]) / (long[1] - short[1])


Results = dict[tuple[str, int, int], list[dict[str, Any]]]
"""Summaries by scenario, checkout (0 is this one) and number of threads."""

THREADED = ("fat-tree-k16", "fat-tree-k32")
"""Scenarios that also run on several threads."""


def thread_counts(name: str) -> list[int]:
    """Numbers of threads for a scenario: 1, 2, 4, ... up to the number of cores."""
    cores = os.cpu_count() or 1
    return [1, *(count for count in (2, 4, 8, 16) if count <= cores and name in THREADED)]


def rate(summaries: list[dict[str, Any]]) -> float:
    """Median of the packet hops per second."""
    return statistics.median(float(summary["packet_hops_per_s"]) for summary in summaries)


def speeds(results: Results, names: list[str], checkouts: int) -> None:
    """Prints the speed of each scenario on one thread."""
    print(f"{'scenario':24} {'hops/s median':>14} {'best':>8} {'events/hop':>11} {'RSS MB':>7} {'ratio':>6}")
    for name in names:
        own = results[name, 0, 1]
        ratio = f"{rate(own) / rate(results[name, 1, 1]):6.2f}" if checkouts > 1 else ""
        best = max(summary["packet_hops_per_s"] for summary in own)
        print(
            f"{name:24} {rate(own) / 1e6:12.2f} M {best / 1e6:6.2f} M "
            f"{own[0]['events'] / own[0]['packet_hops']:11.2f} {own[0]['peak_rss_bytes'] / 1e6:7.0f} {ratio}"
        )


def sizes(results: Results) -> None:
    """Prints the speed of each fabric relative to the fabric of half its size."""
    for small, large in (("fat-tree-k6", "fat-tree-k16"), ("fat-tree-k16", "fat-tree-k32")):
        if (small, 0, 1) in results and (large, 0, 1) in results:
            ratio = rate(results[large, 0, 1]) / rate(results[small, 0, 1])
            print(f"{large} has {ratio:.2f} of the hops/s of {small}")


def threaded(results: Results) -> None:
    """Prints the speed-up by several threads, and checks that the results are equal."""
    for (name, which, threads), summaries in results.items():
        if which == 0 and threads > 1:
            alone = results[name, 0, 1]
            same = {summary["fingerprint"] for summary in [*alone, *summaries]}
            verdict = "same fingerprint" if len(same) == 1 else "ANOTHER FINGERPRINT"
            print(f"{name:24} on {threads} threads: {rate(summaries) / rate(alone):.2f} x one thread, {verdict}")


def main() -> None:
    """Runs the scenarios and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenarios", nargs="*", help="names of scenarios; all by default")
    parser.add_argument("--rounds", type=int, default=5, help="runs of each scenario, in turn")
    parser.add_argument("--against", type=Path, help="another checkout, built, to compare with in the same rounds")
    parser.add_argument("--no-callgrind", action="store_true", help="do not count instructions")
    arguments = parser.parse_args()
    names = arguments.scenarios or sorted(path.stem for path in HERE.glob("*.toml"))
    pythons = [Path(sys.executable)]
    if arguments.against:
        pythons.append(arguments.against / ".venv/bin/python")
    results: Results = {}
    for _ in range(arguments.rounds):
        for name in names:
            for which, python in enumerate(pythons):
                for threads in thread_counts(name) if which == 0 else (1,):
                    summary = run(python, HERE / f"{name}.toml", "--threads", str(threads))
                    results.setdefault((name, which, threads), []).append(summary)
    speeds(results, names, len(pythons))
    sizes(results)
    threaded(results)
    if arguments.no_callgrind:
        return
    if not shutil.which("valgrind"):
        print("instructions per packet hop: not counted, valgrind is not installed")
        return
    for name in ("fat-tree-k6", "fat-tree-k6-lossless"):
        counts = [instructions_per_hop(python, HERE / f"{name}.toml") for python in pythons]
        print(f"{name:24} {' against '.join(f'{count:.0f}' for count in counts)} instructions per packet hop")


if __name__ == "__main__":
    main()
