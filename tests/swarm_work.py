"""Draws workloads of every kind."""

import random
from dataclasses import dataclass
from typing import Any

Table = dict[str, Any]


@dataclass
class Place:
    """The names of a topology's nodes, and the number of hosts that no application uses yet."""

    hosts: list[str]
    switches: list[str]
    free: int


def workload(rng: random.Random, place: Place) -> Table:
    """Draws a workload of any kind except `udp`."""
    hosts = rng.sample(place.hosts, len(place.hosts))
    size = f"{rng.choice([1, 900, 1460, 20000, 100000])} B"
    simple: list[Table] = [
        {"kind": "permutation", "size": size},
        {"kind": "n_to_1", "size": size, "spread": rng.choice(["0 s", "100 us"])},
        {"kind": "scatter_gather", "aggregators": hosts[:1], "gaps": {"mean": "300 us"}, "stop": "2 ms"},
        {"kind": "hotspot", "burst_start": "200 us", "burst": "100 us", "stop": "600 us"},
        {"kind": "long_flows", "flows": [{"src": hosts[0], "dst": hosts[1], "start": "30 us", "stop": "900 us"}]},
    ]
    kinds = [
        rng.choice(simple),
        rng.choice(simple),
        _incast(rng),
        _background(rng),
        _requests(rng, hosts, size),
        _storage(rng, hosts),
        _kv_transfer(rng, hosts, size),
        _flows(rng, hosts, size),
        _graph(rng, hosts),
    ]
    if place.free < 2 or rng.random() < 0.75:
        return rng.choice(kinds)
    ranks = rng.randint(2, place.free)
    place.free -= ranks
    return rng.choice([_pattern, _program])(rng, ranks)


def udp(rng: random.Random, mtu: str) -> Table:
    """Draws unresponsive datagram flows whose datagrams fit in a packet."""
    payload = 500 if mtu.startswith("576") else rng.choice([100, 1472])
    stream: Table = {"kind": "udp", "rate": f"{rng.choice([10, 400, 3000])} Mbps", "datagram": f"{payload} B"}
    stream |= {"stop": rng.choice(["500 us", "3 ms"]), "priority": rng.choice([0, 0, 0, 5])}
    stream |= {"ecn": True} if rng.random() < 0.3 else {}
    if rng.random() < 0.5:
        stream["size"] = "60 KB"
    if rng.random() < 0.3:
        stream["burst"] = {"idle": "50 us", "sizes": {"kind": "uniform", "min": "1 KB", "max": "20 KB"}}
        stream.pop("size", None)
    return stream


def _incast(rng: random.Random) -> Table:
    rate = rng.choice([500.0, 5000.0])
    jobs: Table = {"kind": "incast", "fan_in": 1, "rate": rate, "stop": "1500 us"}
    return jobs | ({"request": "200 B"} if rng.random() < 0.5 else {})


def _background(rng: random.Random) -> Table:
    sizes: Table = rng.choice(
        [
            {"kind": "log_uniform", "min": "500 B", "max": "100 KB"},
            {"kind": "cdf", "points": [[1391, 0.5], [49930, 1.0]]},
        ]
    )
    arrivals: Table = rng.choice(
        [
            {"kind": "rate", "per_host": rng.choice([500.0, 5000.0])},
            {"kind": "concurrency", "per_host": 2},
        ]
    )
    return {"kind": "background", "sizes": sizes, "arrivals": arrivals, "stop": rng.choice(["200 us", "1 ms"])}


def _requests(rng: random.Random, hosts: list[str], size: str) -> Table:
    asked: Table = {"kind": "requests", "client": hosts[0], "servers": hosts[1:4], "count": 5, "response": size}
    if rng.random() < 0.3:
        asked["persistent"] = False
    if rng.random() < 0.4:
        asked |= {"pause": "20 us", "reply_delay": "5 us"}
        asked["reply_law"] = rng.choice(["constant", "uniform", "exponential", "staggered"])
    return asked


def _storage(rng: random.Random, hosts: list[str]) -> Table:
    targets = hosts[-2:] if rng.random() < 0.3 and len(hosts) > 3 else hosts[:1]
    work: Table = {"kind": "storage", "targets": targets, "count": rng.choice([1, 6, 20])}
    if rng.random() < 0.5:
        work["initiators"] = hosts[1:3]
    work |= {"queue_depth": rng.choice([1, 2, 16]), "read_share": rng.choice([0.0, 0.5, 1.0])}
    work["sizes"] = rng.choice(["300 B", "4 KiB", {"kind": "list", "sizes": ["1 B", "4 KiB", "40 KB"]}])
    return work


def _kv_transfer(rng: random.Random, hosts: list[str], size: str) -> Table:
    """Draws prefill and decode instances of one or two GPUs, and requests at random times or listed ones."""
    tp = rng.choice([1, 2]) if len(hosts) >= 4 else 1
    half = len(hosts) // (2 * tp) * tp
    work: Table = {"kind": "kv_transfer", "tp": tp, "prefill": hosts[:half], "decode": hosts[half : 2 * half]}
    if rng.random() < 0.5:
        work["requests"] = {"kind": "poisson", "per_second": 6000, "sizes": size, "stop": "1 ms"}
    else:
        listed = [
            {"arrival": f"{rng.randrange(300)} us", "tokens": rng.randint(1, 60)} for _ in range(rng.randint(1, 8))
        ]
        work |= {"requests": {"kind": "trace", "entries": listed}, "bytes_per_token": "1 KB"}
    if rng.random() < 0.5:
        work |= {"prefill_rate": 100_000, "layers": rng.choice([1, 4])}
    return work


def _flows(rng: random.Random, hosts: list[str], size: str) -> Table:
    def one() -> Table:
        return {"src": rng.choice(hosts[1:]), "dst": hosts[0], "size": size, "start": f"{rng.randrange(400)} us"}

    return {"kind": "flows", "flows": [one() for _ in range(rng.randint(1, 12))]}


def _graph(rng: random.Random, hosts: list[str]) -> Table:
    """Draws a DAG of flows: each flow waits for others, and computes before it begins."""
    flows: list[Table] = []
    for number in range(rng.randint(3, 10)):
        src, dst = rng.sample(hosts, 2)
        flow: Table = {"src": src, "dst": dst, "size": f"{rng.choice([800, 30000])} B", "id": f"f{number}"}
        before = [other["id"] for other in flows]
        flow["after"] = rng.sample(before, min(len(before), rng.choice([0, 1, 1, 2])))
        if rng.random() < 0.5:
            flow["compute"] = f"{rng.randrange(1, 40)} us"
        flows.append(flow)
    return {"kind": "flows", "flows": flows}


def _pattern(rng: random.Random, ranks: int) -> Table:
    """Draws a collective operation, or an application of several ranks."""
    pattern = rng.choice(["all_reduce", "all_to_all", "pipeline", "k_means", "stencil"])
    job: Table = {"kind": "application", "pattern": pattern, "ranks": ranks}
    job |= {"size": rng.choice(["1 KB", "20 KB", "80 KB"]), "iterations": rng.choice([1, 3])}
    if rng.random() < 0.5:
        job["compute"] = f"{rng.randrange(1, 30)} us"
    if rng.random() < 0.3:
        job["eager_limit"] = "4 KB"
    job["placement"] = rng.choice(["packed", "round_robin", "random"])
    return job


def _program(rng: random.Random, ranks: int) -> Table:
    """Draws an MPI trace with matching ranks: rounds of collective operations and of messages around a ring."""
    lines: list[list[str]] = [[] for _ in range(ranks)]
    for number in range(rng.randint(1, 6)):
        size, root = rng.choice([8, 5000, 90000]), rng.randrange(ranks)
        operation = rng.choice(["barrier", "allreduce", "alltoall", "allgather", "bcast", "reduce", "ring"])
        for rank, program in enumerate(lines):
            busy = rng.randrange(20000)
            if operation == "ring":
                before, behind = (rank - 1) % ranks, (rank + 1) % ranks
                program.append(f"{busy} irecv 1 {before} {size} {number}")
                program.append(f"0 isend 2 {behind} {size} {number}")
                program.append(f"{rng.randrange(9000)} waitall 1 2")
            else:
                more = {"barrier": "", "bcast": f" {root} {size}", "reduce": f" {root} {size}"}
                program.append(f"{busy} {operation} 0{more.get(operation, f' {size}')}")
    text = ""
    for rank, program in enumerate(lines):
        text += "\n".join([f"rank {rank} of {ranks}", f"comm 0 {ranks} all", *program, "end 0\n"])
    return {"kind": "application", "program": text, "placement": "random"}
