"""Compares completion times of drawn scenarios with those of Linux kernels as hosts, and prints a Markdown table.

A scenario is some transfers over one switch, one after another, all at once or at random times, or (`--family
exchanges`) requests to some servers over one or two switches, lossy or lossless, perhaps beside a transfer: rates,
delays, buffers, MTUs, congestion controls, offload and mechanisms of TCP are drawn. Hosts are namespaces of one kernel,
or simulated; the fabric is the same. Where neither side loses anything, times are compared flow by flow: the kernel's
lies at most so far beyond the range of pauseframe's seeds, after 2 us that its programs take to read. Where something
is lost, which flows lose is chance, so only sums are compared.

    python validation/linux/drawn.py [--family F] [--kernel DIR] [--seeds 3] [--first 1] [--count 100] [--verbose]
"""

from __future__ import annotations

import argparse
import random
import sys
import warnings
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pauseframe as pf
import pauseframe.kernel
import polars as pl
import tomli_w

READS_LATER_US = 2.0
SHARES = (0.01, 0.05)
LARGEST_MSS = 1460
"""Of batches of so many segments; larger frames fill 64 KB with fewer, here as in the kernel."""
TIMEOUT_US = 190_000
"""A flow that takes longer has waited for a timeout, unless `rto_min` was lowered."""
OPTIONS: list[tuple[float, str, list[Any]]] = [
    (0.3, "delayed_ack_segments", [1]),
    (0.2, "sack", [False]),
    (0.2, "initial_window", ["2 segments", "4 segments", "20 segments"]),
    (0.2, "timestamps", [False]),
    (0.15, "tlp", [False]),
    (0.15, "rack", [False]),
    (0.2, "frto", [False]),
]
"""Keys of `[transport]`, each with the probability that it is set and its values."""


@dataclass
class Sums:
    """What is compared in a group of scenarios: numbers of flows or rounds, and sums of both sides."""

    scenarios: int = 0
    rounds: int = 0
    within: list[int] = field(default_factory=lambda: [0] * len(SHARES))
    retransmits: list[float] = field(default_factory=lambda: [0.0, 0.0])
    timeouts: list[float] = field(default_factory=lambda: [0.0, 0.0])


Groups = dict[tuple[bool, bool, bool], Sums]
"""By whether hosts send batches, something is lost, and several hosts send."""


def transfers(draw: random.Random) -> dict[str, Any]:
    """Transfers over one switch."""
    rate, delay = draw.choice([0.1, 1, 10]), draw.choice([1, 10, 50, 250])
    transport = drawn_transport(draw)
    kind = draw.choice(["in turn", "at once", "at random"])
    hosts = 2 if kind == "in turn" else 1 + draw.choice([2, 4, 8])
    product = rate * 1e9 / 8 * (4 * delay + 20) * 1e-6
    buffer = max(20_000, int(product * draw.choice([0.3, 1, 3]))) if draw.random() < 0.7 else 4_000_000
    # At most what the link carries in 50 ms.
    sizes = [min(10 ** draw.uniform(3, 7), rate * 1e9 / 8 * 0.05) / (hosts - 1) + 500 for _ in range(8)]
    starts = {
        "in turn": [20_000 + 100_000 * n for n in range(6)],
        "at once": [20_000] * (hosts - 1),
        "at random": [20_000 + draw.randrange(20_000) for _ in range(hosts - 1)],
    }[kind]
    flows = [
        {
            "src": f"host{1 if kind == 'in turn' else n + 1}",
            "dst": "host0",
            "size": f"{sizes[0 if kind == 'at once' else n]:.0f} B",
            "start": f"{start} us",
        }
        for n, start in enumerate(starts)
    ]
    return {
        "stop": {"time": "3 s", "when_finished": True},
        "topology": {"kind": "star", "hosts": hosts, "link": {"rate": f"{rate} Gbps", "delay": f"{delay} us"}},
        "switch": {"buffer": f"{buffer} B"},
        "host": {"mtu": "9000 B"} if draw.random() < 0.3 else {},
        "transport": transport,
        "workload": [{"kind": "flows", "name": "w", "flows": flows}],
    }


def exchanges(draw: random.Random) -> dict[str, Any]:
    """Requests to servers, which may share their link with a transfer."""
    rate, delay = draw.choice([0.1, 1, 10]), draw.choice([1, 10, 50, 250])
    transport = drawn_transport(draw)
    if draw.random() < 0.25:
        transport["lossless"] = True
    servers = [f"host{n}" for n in range(1, 1 + draw.choice([1, 1, 2, 4, 8]))]
    hosts = ["host0", *servers, "other"]
    link = {"rate": f"{rate} Gbps", "delay": f"{delay} us"}
    if draw.random() < 0.5:
        topology: dict[str, Any] = {"kind": "custom", "hosts": hosts, "switches": ["s"], "link": link}
        topology["links"] = [[host, "s"] for host in hosts]
    else:
        topology = {"kind": "custom", "hosts": hosts, "switches": ["s", "t"], "link": link}
        topology["links"] = [["host0", "s"], *([host, "t"] for host in hosts[1:])]
        topology["links"].append({"ends": ["s", "t"], "rate": f"{rate * draw.choice([0.5, 1, 4])} Gbps"})
    product = rate * 1e9 / 8 * (8 * delay + 20) * 1e-6
    buffer = max(50_000, int(product * draw.choice([0.5, 2]))) if draw.random() < 0.5 else 4_000_000
    most = rate * 1e9 / 8 * 0.03 / len(servers)
    requests = {
        "kind": "requests",
        "name": "w",
        "client": "host0",
        "servers": servers,
        "request": f"{10 ** draw.uniform(2, 4.5):.0f} B",
        "response": f"{500 + min(10 ** draw.uniform(2.5, 6), most):.0f} B",
        "count": 6,
        "persistent": draw.random() < 0.7,
        "pause": draw.choice(["0 s", "0 s", "1 ms", "30 ms", "250 ms"]),
        "reply_delay": draw.choice(["0 s", "0 s", "100 us", "10 ms", "60 ms"]),
        "start": "20 ms",
    }
    workload = [requests]
    if draw.random() < 0.3:
        size = f"{min(10 ** draw.uniform(5, 7), rate * 1e9 / 8 * 0.1):.0f} B"
        flow = {"src": "other", "dst": "host0", "size": size, "start": f"{20_000 + draw.randrange(2_000)} us"}
        workload.append({"kind": "flows", "name": "bulk", "flows": [flow]})
    return {
        "stop": {"time": "5 s", "when_finished": True},
        "topology": topology,
        "switch": {"buffer": f"{buffer} B"},
        "host": {"mtu": "9000 B"} if draw.random() < 0.3 else {},
        "transport": transport,
        "workload": workload,
    }


def drawn_transport(draw: random.Random) -> dict[str, Any]:
    """A congestion control and mechanisms."""
    control = draw.choice(["cubic", "cubic", "newreno", "dctcp", "vegas", "bbr"])
    transport: dict[str, Any] = {"stack": "linux", "preset": control, "cache": "none"}
    transport |= {key: draw.choice(values) for chance, key, values in OPTIONS if draw.random() < chance}
    if control != "dctcp" and draw.random() < 0.2:
        transport["ecn"] = "classic"
    return transport


FAMILIES = {"transfers": transfers, "exchanges": exchanges}


def drawn(family: str, seed: int) -> tuple[dict[str, Any], int]:
    """A scenario, and the segments of a batch."""
    draw = random.Random(seed)
    scenario = {"name": f"drawn-{seed}", **FAMILIES[family](draw)}
    return scenario, draw.choice([1, 44])


def names_of_hosts(scenario: dict[str, Any]) -> list[str]:
    """All hosts."""
    hosts = scenario["topology"]["hosts"]
    return hosts if isinstance(hosts, list) else [f"host{n}" for n in range(hosts)]


def kernel_flows(scenario: dict[str, Any], batch: int, kernel: Path) -> pl.DataFrame:
    """The flows of hosts with a kernel, each of whose frames interrupts."""
    queue = "fq nopacing quantum 1514 initial_quantum 1514 flow_limit 10000 limit 100000"
    changes = {"host.stack": "kernel", "host.interrupt_delay": "0 s", "host.qdisc": queue}
    programs = [(host, f"ip link set dev eth0 gso_max_segs {batch}") for host in names_of_hosts(scenario)]
    text = tomli_w.dumps(scenario)
    return pl.DataFrame(pf.run(text, set=changes, kernel=kernel, programs=programs, progress=False).flows)


def our_flows(scenario: dict[str, Any], batch: int, seed: int) -> pl.DataFrame:
    """The flows of simulated hosts."""
    changes: dict[str, Any] = {"host.tso": batch > 1, "seed": seed}
    if batch > 1:
        changes["host.tso_size"] = f"{batch * LARGEST_MSS} B"
    return pl.DataFrame(pf.run(tomli_w.dumps(scenario), set=changes, progress=False).flows)


def rounds(flows: pl.DataFrame) -> pl.DataFrame:
    """One row for each flow, or for all requests of a round: who is first depends on the order of their connections.

    So it does for flows that are alike, which are sorted.
    """
    of = pl.coalesce(pl.col("query").cast(pl.Int64), -1 - pl.col("flow").cast(pl.Int64))
    failed = pl.col("fct_us").null_count() > 0
    alike = flows.sort("start_us", "size_bytes", "fct_us", maintain_order=True)
    return alike.group_by(of.alias("round"), maintain_order=True).agg(
        pl.when(failed).then(None).otherwise(pl.col("fct_us").max()).alias("fct_us"),
        pl.col("src").first(),
        pl.col("retransmits").sum(),
    )


def beyond(kernel: float | None, ours: list[float | None]) -> float:
    """By which share the kernel's time lies beyond the range of ours and what reading takes; below it: negative."""
    times = [time for time in ours if time is not None]
    if kernel is None or len(times) < len(ours):
        return float("inf")
    if kernel < min(times):
        return kernel / min(times) - 1
    return max(0.0, (kernel - READS_LATER_US) / max(times) - 1)


def compare(family: str, seed: int, seeds: int, kernel: Path, groups: Groups, *, verbose: bool) -> None:
    """Adds a scenario to its group."""
    scenario, batch = drawn(family, seed)
    theirs = rounds(kernel_flows(scenario, batch, kernel))
    ours = [rounds(our_flows(scenario, batch, number)) for number in range(1, seeds + 1)]
    retransmits = [int(theirs["retransmits"].sum()), sum(int(flows["retransmits"].sum()) for flows in ours) / seeds]
    group = groups[batch > 1, retransmits != [0, 0], theirs["src"].n_unique() > 1]
    group.scenarios += 1
    group.rounds += theirs.height
    times = [theirs["fct_us"], *(flows["fct_us"] for flows in ours)]
    differences = [beyond(row[0], list(row[1:])) for row in zip(*times, strict=True)]
    for place, share in enumerate(SHARES):
        group.within[place] += sum(abs(difference) <= share for difference in differences)
    slow = [int((column.fill_null(TIMEOUT_US) >= TIMEOUT_US).sum()) for column in times]
    for place, value in enumerate((slow[0], sum(slow[1:]) / seeds)):
        group.timeouts[place] += value
        group.retransmits[place] += retransmits[place]
    worst = max(differences, key=abs)
    if verbose and abs(worst) > SHARES[-1] and retransmits == [0, 0]:
        print(f"{seed}: {worst:+.1%} {batch} {scenario['transport']} {scenario['topology']['link']}", file=sys.stderr)


def main() -> None:
    """Compares the scenarios and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", choices=list(FAMILIES), default="transfers")
    parser.add_argument("--kernel", type=Path, help="folder of `pauseframe kernel build`")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=1, help="seed of the first scenario")
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--verbose", action="store_true", help="name scenarios without losses that differ")
    options = parser.parse_args()
    kernel = options.kernel or pauseframe.kernel.find()
    groups: Groups = defaultdict(Sums)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(options.first, options.first + options.count):
            compare(options.family, seed, options.seeds, kernel, groups, verbose=options.verbose)
    columns = ["batches", "losses", "hosts that send", "scenarios", "flows or rounds", "within 1 %", "within 5 %"]
    print(f"| {' | '.join(columns)} | retransmissions | flows of 190 ms and more |")
    print("|---|---|---|--:|--:|--:|--:|--:|--:|")
    for (batches, losses, several), sums in sorted(groups.items()):
        within = ["–"] * len(SHARES) if losses else [str(number) for number in sums.within]
        pairs = [f"{theirs:.0f}, {ours:.0f}" for theirs, ours in (sums.retransmits, sums.timeouts)]
        kinds = ["yes" if batches else "no", "yes" if losses else "no", "several" if several else "one"]
        print(f"| {' | '.join([*kinds, str(sums.scenarios), str(sums.rounds), *within, *pairs])} |")


if __name__ == "__main__":
    main()
