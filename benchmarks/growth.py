"""Growth of the cost: CPU time and peak memory against flows, hosts, links and simulated time, over four decades each.

`make bench-growth` runs every point in a separate process on one thread, and writes a table (`growth.md`) and a figure
(`growth.svg`) into the folder `--out`. A line of slope 1 in the figure is linear growth. Every point includes the
start-up of the program, because a user waits for it too.

    python benchmarks/growth.py --out docs/pictures --decades 2 --only flows
"""

import argparse
import json
import math
import os
import platform
import resource
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

LINK = '{ rate = "10 Gbps", delay = "1 us" }'
TRANSPORT = '[transport]\npreset = "dctcp"\n'


def flows(count: int) -> str:
    """A scenario of about `count` flows of 1 KB between 16 hosts, on average one per microsecond."""
    return (
        f'stop = {{ time = "{2 * count + 10_000} us", when_finished = true }}\n{TRANSPORT}'
        f'[topology]\nkind = "fat_tree"\nk = 4\nlink = {LINK}\n'
        '[[workload]]\nkind = "background"\nsizes = { kind = "fixed", size = "1 KB" }\n'
        f'arrivals = {{ kind = "load", load = 0.05 }}\nstop = "{count} us"\n'
    )


def hosts(count: int) -> str:
    """A leaf-spine fabric of `count` hosts, 50 at each leaf; ten of the hosts send 1 MB to one host."""
    leaves = max(count // 50, 1)
    return (
        f'{TRANSPORT}[topology]\nkind = "leaf_spine"\nleaves = {leaves}\nspines = 2\n'
        f"hosts_per_leaf = {max(count // leaves, 1)}\nlink = {LINK}\n"
        '[[workload]]\nkind = "n_to_1"\nsenders = 9\nreceiver = "host0"\nsize = "1 MB"\n'
    )


def links(count: int) -> str:
    """A leaf-spine fabric of 100 hosts with `count` links between its switches."""
    leaves = 10
    return (
        f'{TRANSPORT}[topology]\nkind = "leaf_spine"\nleaves = {leaves}\nspines = {max(count // leaves, 1)}\n'
        f"hosts_per_leaf = 10\nlink = {LINK}\n"
        '[[workload]]\nkind = "n_to_1"\nsenders = 9\nreceiver = "host0"\nsize = "1 MB"\n'
    )


def simulated_time(microseconds: int) -> str:
    """A scenario of the given length, in which 16 hosts send at half the rate of their links."""
    return (
        f'stop = "{microseconds} us"\n{TRANSPORT}[topology]\nkind = "fat_tree"\nk = 4\nlink = {LINK}\n'
        '[[workload]]\nkind = "background"\nsizes = { kind = "fixed", size = "100 KB" }\n'
        f'arrivals = {{ kind = "load", load = 0.5 }}\nstop = "{microseconds} us"\n'
    )


AXES = {
    "flows": (flows, 100, "flows of 1 KB, 16 hosts"),
    "hosts": (hosts, 10, "hosts of a leaf-spine fabric, 9 flows of 1 MB"),
    "links": (links, 10, "links between the switches of a leaf-spine fabric, 9 flows of 1 MB"),
    "time": (simulated_time, 100, "µs of simulated time, 16 hosts at half load"),
}
"""The axes: a function from a number to a scenario, the smallest number, and the name of the counted quantity."""


@dataclass(frozen=True)
class Point:
    """Cost of one run."""

    axis: str
    number: int
    cpu_s: float
    peak_bytes: int
    packet_hops: int


def measure(axis: str, number: int) -> Point:
    """Measures a point in a separate process."""
    command = [sys.executable, __file__, "--point", axis, str(number)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Point(**json.loads(done.stdout))


def point(axis: str, number: int) -> Point:
    """Runs a point in this process alone."""
    import pauseframe as pf

    run = pf.run(AXES[axis][0](number), threads=1, progress=False)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return Point(axis, number, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, run.summary["packet_hops"])


def slope(points: list[Point]) -> float:
    """Exponent with which the CPU time grows over the last decade."""
    (first, last) = points[-3 if len(points) > 2 else 0], points[-1]
    return math.log(last.cpu_s / first.cpu_s) / math.log(last.number / first.number)


def table(points: list[Point]) -> str:
    """The Markdown table of all points."""
    lines = [f"One thread, {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}.", ""]
    lines += ["| what | number | CPU s | peak MB | packet hops |", "|---|--:|--:|--:|--:|"]
    for one in points:
        what = AXES[one.axis][2]
        lines.append(
            f"| {what} | {one.number:,} | {one.cpu_s:.2f} | {one.peak_bytes / 1e6:,.0f} | {one.packet_hops:,} |"
        )
    lines.append("")
    for axis in dict.fromkeys(one.axis for one in points):
        own = [one for one in points if one.axis == axis]
        if len(own) > 1:
            lines.append(f"- {axis}: CPU time grows as the number to the power {slope(own):.2f} at the upper end.")
    return "\n".join(lines) + "\n"


def draw(points: list[Point], path: Path) -> None:
    """The figure of all points, with one panel for CPU time and one for memory."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    plt.rcParams["svg.hashsalt"] = "pauseframe"
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for axis, (_, _, what) in AXES.items():
        own = [one for one in points if one.axis == axis]
        if own:
            numbers = [one.number for one in own]
            left.loglog(numbers, [one.cpu_s for one in own], marker="o", label=what)
            right.loglog(numbers, [one.peak_bytes / 1e6 for one in own], marker="o", label=what)
    left.set(xlabel="number", ylabel="CPU time, s")
    right.set(xlabel="number", ylabel="peak memory, MB")
    figure.legend(handles=left.get_lines(), loc="outside lower center", ncols=2, fontsize="small")
    for panel in (left, right):
        panel.grid(alpha=0.3)
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    """Measures all points, writes the table and the figure, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("results/growth"), help="folder of growth.md and growth.svg")
    parser.add_argument("--decades", type=float, default=4.0, help="how far the largest number is from the smallest")
    parser.add_argument("--only", choices=AXES, action="append", help="one of the axes; repeatable")
    parser.add_argument("--point", nargs=2, metavar=("AXIS", "NUMBER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.point:
        axis, number = arguments.point
        print(json.dumps(asdict(point(axis, int(number)))))
        return
    points = []
    for axis in arguments.only or AXES:
        first = AXES[axis][1]
        for half in range(round(2 * arguments.decades) + 1):
            points.append(measure(axis, round(first * 10 ** (half / 2))))
            print(points[-1], file=sys.stderr, flush=True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (arguments.out / "growth.md").write_text(table(points), encoding="utf-8")
    draw(points, arguments.out / "growth.svg")
    print(table(points))


if __name__ == "__main__":
    main()
