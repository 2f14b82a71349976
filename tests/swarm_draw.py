"""Draws whole scenarios from a seed: every mechanism can meet every other."""

import random
from typing import Any

import tomli_w
from pauseframe import _core

Table = dict[str, Any]


def draw(seed: int, attempt: int = 0) -> Table:
    """A scenario as a TOML table. The same seed and attempt give the same scenario."""
    rng = random.Random(f"{seed}/{attempt}")
    topology = _topology(rng)
    mechanisms = {name for name in MECHANISMS if rng.random() < MECHANISMS[name]}
    scenario: Table = {
        "name": f"swarm-{seed}",
        "seed": rng.randrange(1 << 32),
        "stop": {"time": f"{rng.choice([200, 1000, 5000, 40000])} us"},
        "topology": topology,
        "transport": _transport(rng),
        "switch": _switch(rng, mechanisms),
        "host": _host(rng),
        "workload": [_workload(rng, topology) for _ in range(rng.choice([1, 1, 2, 3]))],
    }
    routing = _routing(rng)
    if routing:
        scenario["routing"] = routing
    if "qcn" in mechanisms:
        scenario["qcn"] = {"preset": rng.choice(["standard", "qcn20", "qcn66"])}
    if "udp" in mechanisms:
        scenario["workload"].append(_udp(rng))
    if "failure" in mechanisms:
        scenario["failure"] = [_failure(rng, topology)]
    if "corruption" in mechanisms:
        scenario["corruption"] = [{"ports": ["*"], "fer": rng.choice([0.001, 0.02])}]
    if "slow_receiver" in mechanisms:
        rate = f"{rng.choice([100, 1000])} Mbps"
        slow = {"host": rng.choice(_nodes(topology, "host")), "rate": rate, "buffer": "64 KB"}
        scenario["host"]["slow_receivers"] = [slow]
    return scenario


MECHANISMS = {
    "qcn": 0.12,
    "udp": 0.25,
    "failure": 0.2,
    "corruption": 0.12,
    "slow_receiver": 0.12,
    "ets": 0.1,
    "watchdog": 0.1,
    "whole_link": 0.1,
}


def _topology(rng: random.Random) -> Table:
    link = {"rate": f"{rng.choice([1, 10, 10, 25, 100])} Gbps", "delay": f"{rng.choice([0, 100, 1000, 5000])} ns"}
    fabric = {"rate": f"{rng.choice([1, 10, 40])} Gbps", "delay": f"{rng.choice([0, 500, 2000])} ns"}
    families: list[Table] = [
        {"kind": "star", "hosts": rng.randint(2, 9)},
        {"kind": "dumbbell", "left": rng.randint(1, 4), "right": rng.randint(1, 4)},
        {"kind": "line", "switches": rng.randint(2, 4), "hosts_per_switch": rng.randint(1, 3)},
        {
            "kind": "leaf_spine",
            "leaves": rng.randint(2, 4),
            "spines": rng.randint(1, 3),
            "hosts_per_leaf": rng.randint(1, 4),
        },
        {"kind": "fat_tree", "k": 4},
        {"kind": "xgft", "m": [rng.randint(2, 4), 2], "w": [1, rng.randint(1, 2)]},
        {"kind": "ring", "switches": rng.randint(3, 6), "hosts_per_switch": rng.randint(1, 2)},
        {
            "kind": "jellyfish",
            "switches": rng.choice([6, 8, 10]),
            "network_ports": 3,
            "hosts_per_switch": rng.randint(1, 2),
            "seed": rng.randrange(100),
        },
    ]
    topology = rng.choice(families)
    topology["link"] = link
    if topology["kind"] != "star" and rng.random() < 0.5:
        topology["fabric_link"] = fabric
    return topology


def _nodes(topology: Table, kind: str) -> list[str]:
    """The names of the hosts or of the switches."""
    text = tomli_w.dumps({"topology": topology, "workload": {"kind": "permutation", "size": "1 KB"}})
    nodes = _core.Topology.of_scenario(_core.resolve(text)).nodes()
    return [name for name, what, _ in nodes if what == kind]


def _transport(rng: random.Random) -> Table:
    presets = ["newreno", "dctcp", "dctcp_plus", "tcp_bolt", "tcp_dcb", "cubic", "vegas", "pfabric", "linux"]
    transport: Table = {"preset": rng.choice(presets)}
    if transport["preset"] == "linux":
        transport = {"preset": rng.choice(["newreno", "cubic", "dctcp"]), "stack": "linux"}
    if rng.random() < 0.3:
        transport["lossless"] = rng.random() < 0.7
    if rng.random() < 0.35:
        transport |= {"rto_min": f"{rng.choice([10, 200, 2000])} us", "rto_granularity": "1 us"}
        transport["rto_initial"] = f"{rng.choice([20, 500, 5000])} us"
    if rng.random() < 0.2:
        transport["initial_window"] = rng.choice(["1 segments", "bdp", "300 KB"])
    return transport


def _switch(rng: random.Random, mechanisms: set[str]) -> Table:
    switch: Table = {}
    policy = rng.choice(["per_port", "per_port", "shared", "shared", "ideal_output_queued"])
    size = f"{rng.choice([30, 100, 225, 1000])} KB"
    switch["buffer"] = {"policy": policy, "size": size}
    if policy == "shared":
        switch["buffer"]["alpha"] = rng.choice([0.125, 1.0, 8.0])
    if rng.random() < 0.2:
        switch["marker"] = {"kind": "red", "min": "10 KB", "max": "30 KB"}
    if rng.random() < 0.15:
        switch["latency"] = f"{rng.choice([100, 800])} ns"
    pfc: Table = {}
    if "watchdog" in mechanisms:
        pfc["watchdog"] = {"detection": "300 us", "restoration": "300 us", "action": rng.choice(["drop", "forward"])}
    if "whole_link" in mechanisms:
        pfc["whole_link"] = True
    if pfc:
        switch["pfc"] = pfc
    if "ets" in mechanisms:
        switch["scheduler"] = {
            "kind": "ets",
            "groups": [{"priorities": [0], "share": 40}, {"priorities": [3], "share": 60}],
        }
    return switch


def _host(rng: random.Random) -> Table:
    host: Table = {}
    if rng.random() < 0.2:
        host |= {"tx_delay": "2 us", "rx_delay": "3 us"}
    if rng.random() < 0.2:
        host["tx_jitter"] = "1 us"
    if rng.random() < 0.2:
        host["mtu"] = rng.choice(["576 B", "9000 B"])
    if rng.random() < 0.3:
        host["nic_queue"] = "fifo"
    if rng.random() < 0.2:
        host["nic_buffer"] = rng.choice(["3 KB", "64 KB"])
    return host


def _workload(rng: random.Random, topology: Table) -> Table:
    hosts = _nodes(topology, "host")
    rng.shuffle(hosts)
    size = f"{rng.choice([1, 900, 1460, 20000, 200000])} B"
    kinds: list[Table] = [
        {"kind": "permutation", "size": size},
        {"kind": "n_to_1", "size": size},
        {"kind": "incast", "fan_in": 1, "rate": rng.choice([500.0, 20000.0]), "stop": "2 ms"},
        {"kind": "incast", "fan_in": 1, "rate": 3000.0, "request": "200 B", "stop": "2 ms"},
        {
            "kind": "background",
            "sizes": {"kind": "log_uniform", "min": "500 B", "max": "100 KB"},
            "arrivals": {"kind": "load", "load": rng.choice([0.1, 0.6, 0.95])},
            "stop": "3 ms",
        },
        {
            "kind": "background",
            "sizes": {"kind": "cdf", "points": [[1391, 0.5], [49930, 1.0]]},
            "arrivals": {"kind": "concurrency", "per_host": 2},
            "stop": "2 ms",
        },
        {"kind": "requests", "client": hosts[0], "servers": hosts[1:4], "count": 5, "response": size},
        {"kind": "requests", "client": hosts[0], "servers": hosts[1:3], "count": 4, "persistent": False},
        {"kind": "scatter_gather", "aggregators": hosts[:1], "gaps": {"mean": "300 us"}, "stop": "2 ms"},
        {"kind": "hotspot", "burst_start": "200 us", "burst": "100 us", "stop": "600 us"},
        {"kind": "long_flows", "flows": [{"src": hosts[0], "dst": hosts[1], "start": "30 us", "stop": "900 us"}]},
        {
            "kind": "flows",
            "flows": [
                {"src": rng.choice(hosts[1:]), "dst": hosts[0], "size": size, "start": f"{rng.randrange(400)} us"}
                for _ in range(rng.randint(1, 12))
            ],
        },
    ]
    return rng.choice(kinds)


def _udp(rng: random.Random) -> Table:
    workload: Table = {"kind": "udp", "rate": f"{rng.choice([10, 400, 3000])} Mbps", "stop": "3 ms"}
    if rng.random() < 0.5:
        workload["size"] = "60 KB"
    return workload


def _failure(rng: random.Random, topology: Table) -> Table:
    down = rng.choice([0, 20, 300, 1500])
    failure: Table = {"node": rng.choice(_nodes(topology, "switch")), "down": f"{down} us"}
    if rng.random() < 0.75:
        failure["up"] = f"{down + rng.choice([1, 100, 800])} us"
    return failure


def _routing(rng: random.Random) -> Table:
    if rng.random() < 0.4:
        return {}
    kinds = ["ecmp", "spray", "up_down", "order_pair", "edst", "shortest_path", "dfsssp", "lash"]
    routing: Table = {"kind": rng.choice(kinds)}
    planned = routing["kind"] not in {"ecmp", "spray"}
    if planned and rng.random() < 0.3:
        routing["choice"] = rng.choice(["best_of_two", "least_loaded"])
    if planned and rng.random() < 0.2:
        routing["per"] = "packet"
    return routing
