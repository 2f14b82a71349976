"""Speed and memory of the simulator on the scenarios beside this file.

`make bench` runs every scenario several times in turn (the machines are noisy: medians of one run are compared, never
numbers of two), then counts instructions per packet hop with callgrind as the difference of two run lengths, which
cancels start-up. `--against DIR` alternates with another checkout that has been built (`make build`) and prints ratios.
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

HERE = Path(__file__).parent
COMMAND = ("-m", "pauseframe")


def run(python: Path, scenario: Path, *arguments: str) -> dict[str, object]:
    """Runs a scenario in a process of its own and returns its summary."""
    with tempfile.TemporaryDirectory() as out:
        command = [python, *COMMAND, "run", scenario, "--json", "--quiet", "--out", f"{out}/results", *arguments]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def instructions(python: Path, scenario: Path, *arguments: str) -> tuple[int, int]:
    """Instructions of a whole run under callgrind, and its packet hops."""
    with tempfile.TemporaryDirectory() as out:
        command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}/callgrind", python, *COMMAND]
        command += ["run", scenario, "--json", "--quiet", "--out", f"{out}/results", *arguments]
        # Python's hashes decide how often it looks twice into a dictionary: 13 instructions a hop from run to run.
        environment = os.environ | {"PYTHONHASHSEED": "0"}
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        counts = Path(out, "callgrind").read_text().rsplit("totals:", 1)[1].split()[0]
    return int(counts), json.loads(done.stdout)["packet_hops"]


def instructions_per_hop(python: Path, scenario: Path) -> float:
    """The difference of two run lengths."""
    short, long = (instructions(python, scenario, "--set", f"workload.size={size}") for size in ("500 KB", "1 MB"))
    return (long[0] - short[0]) / (long[1] - short[1])


def main() -> None:
    """Prints a table."""
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
    results: dict[tuple[str, int], list[dict[str, object]]] = {}
    for _ in range(arguments.rounds):
        for name in names:
            for which, python in enumerate(pythons):
                results.setdefault((name, which), []).append(run(python, HERE / f"{name}.toml"))
    print(f"{'scenario':24} {'hops/s median':>14} {'best':>8} {'events/hop':>11} {'RSS MB':>7} {'ratio':>6}")
    for name in names:
        rates = [[summary["packet_hops_per_s"] for summary in results[name, which]] for which in range(len(pythons))]
        first = results[name, 0][0]
        ratio = f"{statistics.median(rates[0]) / statistics.median(rates[1]):6.2f}" if len(rates) > 1 else ""
        print(
            f"{name:24} {statistics.median(rates[0]) / 1e6:12.2f} M {max(rates[0]) / 1e6:6.2f} M "
            f"{first['events'] / first['packet_hops']:11.2f} {first['peak_rss_bytes'] / 1e6:7.0f} {ratio}"
        )
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
