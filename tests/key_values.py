"""The keys of the schema, from their declarations, and values that tests give them."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from pauseframe import _core

if TYPE_CHECKING:
    from collections.abc import Iterator

Tables = dict[str, Any]
Row = dict[str, str]
VALUES: dict[str, list[Any]] = {
    "host.wire_jitters": [[{"host": "*", "to_switch": "3 us"}]],
    "host.slow_receivers": [[{"host": "host0", "rate": "1 Gbps", "buffer": "20 KB"}]],
    "host.refusing": [["host0"]],
    "host.silent": [["host0"]],
    "host.kernel_hosts": [["host0"]],
    "host.mux_active": [["host0:1"]],
    "host.sysctl": [["net.ipv4.tcp_sack = 0"]],
    "host.qdisc": ["fq"],
    "host.route": ["initcwnd 20"],
    "switch.priority_of_dscp": [[[0, 3]], [[0, 5]]],
    "switch.pfc.priorities": [[4], [0]],
    "switch.pfc.ports": [[{"ports": ["*:*"], "sends": False}]],
    "switch.scheduler.groups": [[{"priorities": [0], "share": 90}, {"priorities": [3], "share": 10}]],
    "qcn.priorities": [[1]],
    "topology.m": [[3, 2]],
    "topology.w": [[1, 1]],
    "topology.p": [[1, 2], 2],
    "topology.lengths": [[3, 2]],
    "routing.root": ["leaf1"],
    "routing.hash_offsets": [[3]],
    "routing.flow_states": [1],
    "routing.hold_queues": [0],
    "routing.low_load": [79],
    "topology.links.ports": [["e0", "e1"]],
    "routing.demand": [[{"src": "host1", "dst": "host0", "rate": "1 Gbps"}]],
    "workload.servers": [["host3"]],
    "workload.targets": [["host1"]],
    "workload.initiators": [["host3"]],
    "workload.checkpoint": [{"targets": ["host3"]}],
    "workload.checkpoint.targets": [["host3"]],
    "workload.aggregators": [["host2"]],
    "workload.hosts": [["host0", "host1"], ["host3", "host2", "host1", "host0"]],
    "workload.sources": [["host2"]],
    "workload.destinations": [["host1"]],
    "workload.response": [["9 KB"], "9 KB"],
    "workload.receiver": ["host2"],
    "workload.client": ["host3"],
    "workload.server": ["host3"],
    "workload.transport": ["other"],
    "workload.collectives.slice": ["step", "3 KB"],
    "workload.algorithm": ["ring", "rabenseifner"],
    "workload.algorithms": [["all_reduce:ring"], ["all_reduce=ring"]],
    "workload.grid": [[2, 2]],
    # A mean of a microsecond gives thousands of queries, which take seconds.
    "workload.gaps.mean": ["200 us"],
    "workload.flows": [[{"src": "host2", "dst": "host0", "size": "10 KB"}], [{"src": "host3", "dst": "host0"}]],
    "workload.burst": [{"sizes": {"kind": "fixed", "size": "10 KB"}, "idle": "30 us"}],
    "workload.prefill": [["host3"]],
    "workload.decode": [["host1"]],
    "workload.requests.entries": [[{"tokens": 30}]],
    "workload.requests.sizes.points": [[[5000, 1.0]]],
    "workload.requests.sizes.sizes": [["5 KB"]],
    "workload.sizes.points": [[[5000, 1.0]]],
    "workload.burst.sizes.points": [[[5000, 1.0]]],
    "workload.sizes.sizes": [["5 KB"]],
    "workload.burst.sizes.sizes": [["5 KB"]],
    "failure.link": [["leaf1", "spine1"]],
    "failure.port": ["leaf1:0"],
    "failure.node": ["spine1"],
    "host.slow_receivers.host": ["host0"],
    "host.wire_jitters.host": ["host1"],
    "pause_storm.frames_per_second": [300.0, 1e6],
    "switch.pfc.ports.ports": [["host1:*"], ["switch:*"]],
    "switch.override.switches": [["spine*"], ["*"]],
    "switch.scheduler.groups.priorities": [[1]],
    "switch.classes.NAME.priorities": [[0], [4]],
    "workload.flows.src": ["host3"],
    "workload.flows.dst": ["host3"],
    "workload.flows.after": [["b"]],
    "workload.flows.id": ["z"],
    "workload.name": ["other"],
    "topology.links.ends": [["host0", "leaf1"]],
    "topology.switches": [["leaf1", "leaf0"], 4],
    "record.series.ports": [["leaf0:*"]],
    "record.series.flows": [[]],
    "record.packets.ports": [["leaf0:*"]],
    # Looking for deadlocks every nanosecond takes seconds.
    "record.deadlock_after": ["30 us", "0 s"],
    "corruption.ports": [["spine*:*"]],
    "pause_storm.senders": [["host3"]],
    "pause_storm.priorities": [[0], [3, 4]],
    "topology.hosts": [3, ["host0", "host1"]],
    "transport.initial_window": ["2 segments", "bdp"],
    "transport.rdma_mtu": ["256 B"],
    "transport.rdma_ooo_window": [8],
    "transport.congestion_control": ["newreno", "vegas"],
    "name": ["other"],
}

LISTS = {
    "host.slow_receivers",
    "host.wire_jitters",
    "failure",
    "corruption",
    "pause_storm",
    "workload",
    "workload.flows",
    "workload.requests.entries",
    "switch.pfc.ports",
    "switch.scheduler.groups",
    "topology.links",
}

SKIPPED_TYPES = {"tables by name", "list of tables", "table"}

BY_TYPE: dict[str, tuple[Any, ...]] = {
    "true or false": (True, False),
    "whole number": (1, 3, 0, 2, 5, 7, 12, 40),
    "number": (0.5, 0.1, 0.9, 2.0, 0.01, 8.0, 20.0, 1000.0),
    "time": ("1 us", "30 us", "200 us", "2 ms", "1 ns", "0 s", "50 ms"),
    "size": ("3 KB", "20 KB", "64 B", "100 KB", "1 MB", "1 KB", "9000 B"),
    "rate": ("1 Gbps", "4 Gbps", "100 Mbps", "100 Gbps"),
    "false or a table": (True, False, {}),
}


def spread(tables: Tables, path: str, value: Any) -> None:
    """Sets a key by its path in the reference; lists of tables get it in their first row."""
    at: Any = tables
    *above, last = path.replace("[]", "").split(".")
    so_far: list[str] = []
    for name in above:
        so_far.append(name)
        at = at.setdefault(name, [{}] if ".".join(so_far) in LISTS else {})
        at = at[0] if isinstance(at, list) else at
    at[last] = value


def numbers(doc: str) -> list[float]:
    """Numbers inside of the range that a description ends with."""
    found = re.search(r"\(([\d.]+) to ([\d.]+)\)$", doc)
    if not found:
        return []
    low, high = float(found[1]), float(found[2])
    return [high, low, (low + high) / 2]


def candidates(row: dict[str, str]) -> Iterator[Any]:
    """Other values of a key."""
    path, kind = row["path"].replace("[]", ""), row["type"]
    if path in VALUES:
        yield from VALUES[path]
    elif kind.startswith("one of "):
        yield from (name.strip() for name in kind.removeprefix("one of ").split(","))
    elif kind == "whole number" and path.startswith(("topology.", "routing.")):
        yield from (1, 2, 3, 4, 5, 6, 8)
    elif kind.startswith("a value, or"):
        yield from (*BY_TYPE["size"], 0.9)
    else:
        yield from BY_TYPE.get(kind, ())
        inside = numbers(row["doc"]) if "number" in kind else []
        yield from (int(one) for one in inside) if kind == "whole number" else inside


@cache
def rows_of_schema() -> tuple[Row, ...]:
    """The keys, without tables that other keys fill, texts that name files, and parameters of plug-ins.

    Those are named MODULE:NAME; other tests may have loaded some.
    """
    files = {"path", "text", "digest", "format", "file", "trace", "packed", "program", "hosts_file", "source", "flops"}
    return tuple(
        row
        for row in _core.options()
        if row["path"].split(".")[-1] not in files
        and not row["path"].startswith("plugins.")
        and (row["type"] not in SKIPPED_TYPES or row["path"] in VALUES)
        and "kind = file" not in row["when"]
        and "kind = plan" not in row["when"]
        and not re.search(r"= \w+:\w", row["when"])
    )
