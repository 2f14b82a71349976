"""Every key of the schema, changed: it changes a result, or somebody says that it does not.

The keys come from the declarations, so a new key is covered on the day it is declared. Each is changed in the
scenarios below (SCENARIOS), for each kind of transport, in packets and at flow level, until one shows a difference: in
the fingerprint, the summary or a table, or in a warning or an error that names the key.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from key_values import Row, Tables, candidates, rows_of_schema, spread
from pauseframe import _core

FABRIC = {
    "kind": "leaf_spine",
    "leaves": 2,
    "spines": 2,
    "hosts_per_leaf": 2,
    "link": {"rate": "10 Gbps", "delay": "1 us"},
}
STAR = {"kind": "star", "hosts": 4, "link": {"rate": "10 Gbps", "delay": "1 us"}}
LOSSY = {"preset": "dctcp"}
LOSSLESS = {"preset": "tcp_bolt"}
UDP = {"kind": "udp", "rate": "9 Gbps", "destinations": ["host0"], "stop": "500 us"}
INCAST = {"kind": "n_to_1", "size": "200 KB"}

SCENARIOS: dict[str, Tables] = {
    "recorded": {
        "stop": {"time": "200 us"},
        "topology": FABRIC,
        "switch": {"buffer": {"size": "40 KB"}},
        "record": {
            "series": {"every": "20 us", "flows": ["*"]},
            "packets": {"limit": 2000},
            "pause_tree": {"limit": 1000},
            "states": {"every": "20 us"},
        },
        "transport": LOSSLESS,
        "workload": [
            INCAST,
            {"kind": "requests", "client": "host1", "server": "host2", "count": 10, "response": "8 KB"},
        ],
    },
    "incast": {
        "topology": STAR,
        "switch": {"buffer": {"size": "40 KB"}, "marker": {"kind": "step", "k": "20 KB"}},
        "transport": LOSSY,
        "workload": [INCAST],
    },
    "lossless": {
        "stop": {"time": "3 ms"},
        "topology": STAR,
        "switch": {
            "buffer": {"size": "60 KB"},
            "pfc": {
                "watchdog": {"detection": "300 us", "restoration": "300 us"},
                "ports": [{"ports": ["switch:*"], "sends": True}],
            },
        },
        "host": {"slow_receivers": [{"host": "host1", "rate": "1 Gbps", "buffer": "30 KB"}]},
        "pause_storm": [{"senders": ["host2"], "start": "100 us", "stop": "1500 us", "frames_per_second": 20000.0}],
        "transport": LOSSLESS,
        "workload": [INCAST, {"kind": "permutation", "size": "300 KB"}],
    },
    "shared": {
        "topology": FABRIC,
        "switch": {
            "buffer": {"policy": "shared", "size": "150 KB", "alpha": 0.5},
            "marker": {"kind": "red", "min": "5 KB", "max": "30 KB", "p_max": 0.5},
            "pfc": {"headroom_pool": {"over_subscription": 2.0}, "ports": [{"ports": ["leaf0:*"], "sends": True}]},
            "override": [{"switches": ["leaf*"], "buffer": "90 KB"}],
            "classes": {
                "NAME": {"priorities": [1, 3], "marker": {"kind": "red", "min": "3 KB", "max": "20 KB", "p_max": 0.5}}
            },
        },
        "transport": LOSSY,
        "transports": {"other": LOSSLESS},
        "workload": [
            INCAST,
            {"name": "two", "transport": "other", "kind": "n_to_1", "size": "300 KB"},
            {
                "kind": "udp",
                "rate": "4 Gbps",
                "sources": ["host1"],
                "destinations": ["host0"],
                "priority": 1,
                "stop": "300 us",
            },
        ],
    },
    "planned": {
        "stop": {"time": "3 ms"},
        "topology": FABRIC,
        "routing": {"kind": "order_pair", "vlans": 4},
        "transport": LOSSLESS,
        "workload": [INCAST, {"kind": "permutation", "size": "100 KB"}],
    },
    "failing": {
        "stop": {"time": "5 ms"},
        "topology": FABRIC,
        "routing": {"kind": "ecmp", "convergence": "300 us"},
        "failure": [{"link": ["leaf0", "spine0"], "down": "50 us", "up": "1 ms"}],
        "corruption": [{"ports": ["leaf*:*"], "ber": 1e-6}],
        "transport": LOSSY,
        "workload": [INCAST, {"kind": "permutation", "size": "300 KB"}],
    },
    "servers": {
        "stop": {"time": "20 ms"},
        "topology": FABRIC | {"scale_up": {"gpus_per_server": 2, "rate": "1 Gbps"}},
        "transport": LOSSLESS,
        "workload": [INCAST],
    },
    "trained": {
        "stop": {"time": "20 ms"},
        "topology": FABRIC | {"scale_up": {"gpus_per_server": 2, "gpu": "A100"}},
        "transport": LOSSLESS,
        "workload": [
            {
                "kind": "application",
                "pattern": "all_to_all",
                "ranks": 4,
                "size": "200 KB",
                "collectives": {"library": "nccl", "slice": "20 KB", "in_flight": 2},
            }
        ],
    },
    "qcn": {
        "stop": {"time": "3 ms"},
        "topology": STAR,
        "qcn": {"q_eq": "6 KB", "sample": "15 KB", "byte_counter": "15 KB", "timer": "100 us"},
        "transport": LOSSLESS,
        "workload": [{"kind": "n_to_1", "size": "1 MB"}],
    },
    "timeouts": {
        "stop": {"time": "3 s"},
        "topology": STAR,
        "switch": {"buffer": {"size": "12 KB"}, "marker": {"kind": "none"}},
        "host": {"rx_delay": "20 us", "wire_jitters": [{"host": "*", "to_switch": "1 us", "to_host": "1 us"}]},
        "transport": {"preset": "newreno", "rdma": {"rdma_send": True, "rdma_receives": 1}},
        "workload": [
            INCAST,
            {
                "kind": "requests",
                "client": "host0",
                "servers": ["host2"],
                "count": 5,
                "response": "40 KB",
                "pause": "400 ms",
            },
        ],
    },
    "offloads": {
        "topology": {**STAR, "link": {"rate": "1 Gbps", "delay": "1 us"}},
        "host": {"tso": True, "gro": True, "tx_delay": "3 us", "nic_queue": "fifo", "nic_buffer": "200 KB"},
        "transport": {"preset": "cubic"},
        "workload": [INCAST, {"kind": "permutation", "size": "500 KB"}],
    },
    "old": {
        "stop": {"time": "2 s"},
        "topology": STAR,
        "switch": {"buffer": {"size": "30 KB"}},
        "host": {"rx_delay": "50 us"},
        "transport": {"preset": "newreno", "stack": "freebsd9", "ecn": "classic", "sack": False},
        "workload": [
            {"kind": "n_to_1", "size": "600 KB"},
            {
                "kind": "requests",
                "client": "host1",
                "server": "host2",
                "count": 20,
                "persistent": False,
                "response": "90 KB",
            },
        ],
    },
    "overtaking": {
        "topology": {**FABRIC, "fabric_link": {"rate": "10 Gbps", "delay": "9 us"}},
        "routing": {"kind": "spray"},
        "transport": {"preset": "newreno", "fast_retransmit": True},
        "workload": [{"kind": "permutation", "size": "2 MB"}],
    },
    "placed": {
        "topology": {**FABRIC, "fabric_link": {"rate": "10 Gbps", "delay": "9 us"}},
        "routing": {"kind": "spray"},
        "transport": {"preset": "roce_dcqcn", "rdma_control": "none", "rdma_dp_ordering": "ooo_rw"},
        "workload": [{"kind": "permutation", "size": "1 MB"}],
    },
    "woven": {
        "topology": {**FABRIC, "fabric_link": {"rate": "4 Gbps", "delay": "1 us"}},
        "switch": {"buffer": {"size": "200 KB"}, "marker": {"kind": "step", "k": "20 KB"}},
        "routing": {"kind": "conweave"},
        "transport": LOSSY,
        "workload": [{"kind": "permutation", "size": "400 KB"}, INCAST],
    },
    "muxed": {
        "stop": {"time": "5 ms"},
        "topology": {**FABRIC, "ports_per_host": 2},
        "host": {"port_choice": "mux", "mux_active": ["host1:1"], "link_prober_interval": "100 us"},
        "routing": {"kind": "ecmp", "tunnel_remap": [{"priority": 3, "outer": 4}]},
        "switch": {"buffer": {"size": "100 KB"}, "pfc": {"priorities": [3, 4, 5]}},
        "failure": [{"port": "host0:0", "down": "50 us"}],
        "transport": LOSSLESS,
        "workload": [INCAST, {"kind": "permutation", "size": "300 KB"}],
    },
    "peered": {
        "stop": {"time": "5 ms"},
        "topology": {**FABRIC, "leaves": 4, "ports_per_host": 2, "peer_links": 1},
        "host": {"miimon": "50 us"},
        "routing": {"kind": "ecmp", "mlag": True, "convergence": "10 us"},
        "failure": [{"port": "host0:0", "down": "50 us"}],
        "transport": LOSSY,
        "workload": [INCAST, {"kind": "permutation", "size": "300 KB"}],
    },
    "hasty": {
        "stop": {"time": "100 ms"},
        "topology": STAR,
        "host": {"rx_delay": "100 us"},
        "transport": {
            "preset": "newreno",
            "rto_min": "120 us",
            "rto_initial": "1 ms",
            "rto_granularity": "10 us",
            "rto_form": "rfc",
            "timer_wheel": False,
        },
        "workload": [INCAST, {"kind": "permutation", "size": "2 MB"}],
    },
    "cut off": {
        "stop": {"time": "1500 ms"},
        "topology": STAR,
        "host": {"silent": ["host3"]},
        "failure": [{"link": ["host0", "switch"], "down": "50 us"}],
        "transport": {"preset": "newreno", "rto_min": "1 ms", "rto_max": "2 s"},
        "workload": [INCAST, {"kind": "n_to_1", "receiver": "host3", "size": "10 KB"}],
    },
    "long": {
        "topology": {**STAR, "link": {"rate": "1 Gbps", "delay": "1 us"}},
        "switch": {"buffer": {"size": "60 KB"}, "marker": {"kind": "step", "k": "30 KB"}},
        "host": {"rx_delay": "40 us"},
        "transport": {
            "preset": "cubic",
            "tcp": {"cubic_friendly": False},
            "rdma": {"dcqcn_rise_interval": "3 us", "dcqcn_recovery_steps": 1},
        },
        "workload": [{"kind": "n_to_1", "size": "2 MB"}],
    },
    "deadlock": {
        "stop": {"time": "3 ms"},
        "topology": {"kind": "ring", "switches": 5, "hosts_per_switch": 1},
        "switch": {"buffer": {"size": "100 KB"}},
        "transport": {"preset": "tcp_bolt", "tcp": {"initial_window": "4 MB"}, "rdma": {"rdma_control": "none"}},
        "workload": [
            {
                "kind": "flows",
                "flows": [{"src": f"host{i}", "dst": f"host{(i + 2) % 5}", "size": "6 MB"} for i in range(5)],
            }
        ],
    },
}

# What selects a kind of table, and the table's other keys.
KINDS: dict[tuple[str, str], Tables] = {
    ("topology.kind", "fat_tree"): {"k": 2},
    ("topology.kind", "xgft"): {"m": [2, 2], "w": [1, 2]},
    ("topology.kind", "pgft"): {"m": [2, 2], "w": [1, 2], "p": [1, 1]},
    ("topology.kind", "leaf_spine"): {"leaves": 2, "spines": 2, "hosts_per_leaf": 2},
    ("topology.kind", "dumbbell"): {"left": 2, "right": 2},
    ("topology.kind", "star"): {"hosts": 4},
    ("topology.kind", "line"): {"switches": 2, "hosts_per_switch": 2},
    ("topology.kind", "ring"): {"switches": 3, "hosts_per_switch": 1},
    ("topology.kind", "jellyfish"): {"switches": 6, "network_ports": 3, "hosts_per_switch": 1},
    ("topology.kind", "torus"): {"lengths": [2, 2], "hosts_per_switch": 1},
    ("topology.kind", "dragonfly"): {"p": 1, "a": 2, "h": 1, "g": 3},
    ("topology.kind", "custom"): {
        "hosts": ["host0", "host1", "host2", "host3"],
        "switches": ["leaf0", "leaf1"],
        "links": [
            {"ends": ends, "rate": "10 Gbps", "delay": "1 us"}
            for ends in (
                ["host0", "leaf0"],
                ["host1", "leaf0"],
                ["host2", "leaf1"],
                ["host3", "leaf1"],
                ["leaf0", "leaf1"],
            )
        ],
    },
    ("routing.kind", "auto"): {},
    ("switch.buffer.policy", "per_port"): {"size": "40 KB"},
    ("switch.buffer.policy", "shared"): {"size": "150 KB", "alpha": 0.5},
    ("switch.buffer.policy", "ideal_output_queued"): {"size": "100 KB"},
    ("switch.marker.kind", "step"): {"k": "20 KB"},
    ("switch.marker.kind", "red"): {"min": "5 KB", "max": "30 KB", "p_max": 0.5},
    ("switch.classes.NAME.marker.kind", "step"): {"k": "10 KB"},
    ("switch.classes.NAME.marker.kind", "red"): {"min": "3 KB", "max": "20 KB", "p_max": 0.5},
    ("switch.scheduler.kind", "ets"): {"groups": [{"priorities": [0], "share": 30}, {"priorities": [3], "share": 70}]},
    ("workload.kind", "flows"): {
        "flows": [
            {"src": "host1", "dst": "host0", "size": "100 KB", "id": "a"},
            {"src": "host2", "dst": "host0", "size": "100 KB", "id": "b"},
        ]
    },
    ("workload.kind", "permutation"): {"size": "200 KB"},
    ("workload.kind", "n_to_1"): {"size": "200 KB"},
    ("workload.kind", "long_flows"): {"flows": [{"src": "host1", "dst": "host0"}, {"src": "host2", "dst": "host0"}]},
    ("workload.kind", "incast"): {"rate": 2000.0, "fan_in": 3, "stop": "1 ms"},
    ("workload.kind", "requests"): {
        "client": "host0",
        "servers": ["host1", "host2"],
        "count": 6,
        "reply_delay": "5 us",
    },
    ("workload.kind", "background"): {
        "arrivals": {"kind": "load", "load": 0.4},
        "sizes": {"kind": "fixed", "size": "30 KB"},
        "stop": "1 ms",
    },
    ("workload.kind", "scatter_gather"): {
        "aggregators": ["host0"],
        "stop": "3 ms",
        "gaps": {"kind": "exponential", "mean": "300 us"},
    },
    ("workload.kind", "hotspot"): {"burst_start": "100 us", "burst": "200 us", "stop": "1 ms"},
    ("workload.kind", "storage"): {
        "targets": ["host0"],
        "sizes": {"kind": "fixed", "size": "20 KB"},
        "count": 8,
        "read_share": 0.5,
    },
    ("workload.kind", "kv_transfer"): {
        "requests": {
            "kind": "poisson",
            "per_second": 4000,
            "sizes": {"kind": "fixed", "size": "60 KB"},
            "stop": "2 ms",
        },
        "bytes_per_token": "2 KB",
        "prefill_rate": 200_000,
    },
    ("workload.kind", "udp"): {
        "rate": "6 Gbps",
        "stop": "300 us",
        "burst": {"sizes": {"kind": "fixed", "size": "20 KB"}, "idle": "50 us"},
    },
    ("workload.kind", "application"): {"pattern": "all_reduce", "ranks": 4, "size": "200 KB", "compute": "10 us"},
    ("workload.kind", "training"): {
        "gpus": 4,
        "tp": 2,
        "ep": 2,
        "layers": 4,
        "hidden": 64,
        "sequence": 64,
        "micro_batches": 2,
        "experts": 2,
        "sequence_parallel": False,
        "forward": "10 us",
        # Tensor-parallel pairs on different rails of different servers.
        "hosts": ["host0", "host3", "host1", "host2"],
    },
    ("workload.requests.kind", "poisson"): {
        "per_second": 4000,
        "sizes": {"kind": "fixed", "size": "60 KB"},
        "stop": "2 ms",
    },
    ("workload.requests.kind", "trace"): {
        "entries": [{"tokens": 20}, {"arrival": "100 us", "tokens": 40, "cached": 10}]
    },
    ("workload.sizes.kind", "fixed"): {"size": "20 KB"},
    ("workload.sizes.kind", "uniform"): {"min": "10 KB", "max": "30 KB"},
    ("workload.sizes.kind", "log_uniform"): {"min": "10 KB", "max": "30 KB"},
    ("workload.sizes.kind", "list"): {"sizes": ["10 KB", "20 KB"]},
    ("workload.sizes.kind", "cdf"): {"points": [[1000, 0.5], [30000, 1.0]]},
    ("workload.burst.sizes.kind", "fixed"): {"size": "20 KB"},
    ("workload.requests.sizes.kind", "fixed"): {"size": "20 KB"},
    ("workload.burst.sizes.kind", "uniform"): {"min": "10 KB", "max": "30 KB"},
    ("workload.requests.sizes.kind", "uniform"): {"min": "10 KB", "max": "30 KB"},
    ("workload.burst.sizes.kind", "log_uniform"): {"min": "10 KB", "max": "30 KB"},
    ("workload.requests.sizes.kind", "log_uniform"): {"min": "10 KB", "max": "30 KB"},
    ("workload.burst.sizes.kind", "list"): {"sizes": ["10 KB", "20 KB"]},
    ("workload.requests.sizes.kind", "list"): {"sizes": ["10 KB", "20 KB"]},
    ("workload.burst.sizes.kind", "cdf"): {"points": [[1000, 0.5], [30000, 1.0]]},
    ("workload.requests.sizes.kind", "cdf"): {"points": [[1000, 0.5], [30000, 1.0]]},
    ("workload.arrivals.kind", "load"): {"load": 0.4},
    ("workload.arrivals.kind", "rate"): {"per_host": 3000.0},
    ("workload.arrivals.kind", "concurrency"): {"per_host": 2},
    ("workload.gaps.kind", "exponential"): {"mean": "300 us"},
    ("workload.gaps.kind", "log_normal"): {"mean": "300 us", "sigma": 1.0},
}

# Values for keys whose type does not say what they are.
# CoDel that acts within a millisecond.
CODEL = {"target": "20 us", "interval": "100 us"}
CODEL_KEYS = ("target", "interval", "ecn", "ce_threshold", "flows", "quantum", "memory_limit")
FULL_CODEL = {"limit": 10, **CODEL}


def with_codel(codel: Tables) -> Tables:
    """What keys of `switch.codel` need."""
    return {"switch.queue": "fq_codel", "switch.marker": {"kind": "none"}, "switch.codel": codel}


def with_codel_in_class(codel: Tables) -> Tables:
    """What keys of the same table of a class need: TCP and the datagrams of that class are lossy."""
    return {"switch.classes.NAME": {"priorities": [0, 1], "queue": "fq_codel", "codel": codel}}


def with_linux_switch(linux: Tables) -> Tables:
    """What keys of `switch.linux` need: queues that mark arrivals or not at all, and a CPU that lets frames wait."""
    return {"switch.kind": "linux", "switch.marker": {"kind": "none"}, "switch.linux": linux}


def with_reads_or_sends(transport: Tables, read_share: float) -> Tables:
    """What keys of queue pairs need: storage with several operations under way, all reads or all writes."""
    storage = {**KINDS["workload.kind", "storage"], "kind": "storage", "queue_depth": 4, "read_share": read_share}
    return {
        "transport": {"preset": "roce_dcqcn", "rdma_control": "none", **transport},
        "workload": [storage],
    }


# What a key needs beside its kinds.
# Two GPUs that write to another host.
STORED = {
    "workload.gpus": 2,
    "workload.tp": 1,
    "workload.hosts": ["host0", "host1"],
    "workload.iterations": 2,
}
SAVED = STORED | {"workload.checkpoint": {"targets": ["host2"]}}
CHECKPOINT_KEYS = ("every", "targets", "bytes", "mode", "part", "parallel_weights")

BESIDE: dict[str, Tables] = {
    **{f"workload.{key}": {"workload.cp": 2} for key in ("cp_comm", "kv_hidden", "attention_share")},
    "workload.bucket_size": {"workload.overlap_grad_reduce": True},
    "workload.overlap_param_gather": {"workload.overlap_grad_reduce": True, "workload.iterations": 2},
    "workload.checkpoint": STORED,
    **{f"workload.checkpoint.{key}": SAVED for key in CHECKPOINT_KEYS},
    **{f"switch.codel.{key}": with_codel(CODEL) for key in CODEL_KEYS},
    **{f"switch.codel.{key}": with_codel(FULL_CODEL) for key in ("limit", "drop_batch")},
    **{f"switch.classes.NAME.codel.{key}": with_codel_in_class(CODEL) for key in CODEL_KEYS},
    **{f"switch.classes.NAME.codel.{key}": with_codel_in_class(FULL_CODEL) for key in ("limit", "drop_batch")},
    **{
        f"switch.linux.{key}": with_linux_switch({"packets_per_second": 400_000})
        for key in ("gro", "interrupt_delay", "ring", "packets_per_second")
    },
    "workload.grid": {"workload.pattern": "stencil"},
    "routing.low_load": {"routing.mode": "packet_quality"},
    # Marks need senders that are ECN-capable and behind another leaf switch than the receiver.
    "routing.path_busy": {"workload": [{**UDP, "sources": ["host2", "host3"], "ecn": True}]},
    # Two flows of datagrams share a state, with shorter gaps than each alone.
    "routing.flow_states": {"routing.idle_time": "1 us"},
    "workload.expert_parameters": {"workload.tp": 1},
    "switch.pfc.headroom_pool.size": {"switch.pfc.headroom_pool": {"size": "60 KB"}},
    "switch.marker.not_ect": {"switch.marker.at": "enqueue"},
    "switch.classes.NAME.marker.not_ect": {"switch.classes.NAME.marker.at": "enqueue"},
    "transport.rdma_max_rd_atomic": with_reads_or_sends({}, read_share=1.0),
    **{
        f"transport.{key}": with_reads_or_sends({"rdma_send": True, "rdma_receives": 1}, read_share=0.0)
        for key in ("rdma_repost_delay", "rdma_rnr_timer", "rdma_rnr_retry")
    },
}

# Keys that change no result, or only one that this test does not see, each with the reason.
EXCEPTIONS: dict[str, str] = {
    "workload.name": "names rows of tables, which are compared without names",
    "workload.flows[].id": "a name for `after`",
    "routing.effort": "on a fabric of four switches all efforts find the same routes",
    "routing.trees_per_lane": "four switches have two trees",
    "routing.sample_percent": "four switches have too few links to sample",
    "routing.demand[].src": "the one pair of the demand has the same best route from each host of a leaf",
    "routing.demand[].dst": "the same",
    "routing.demand[].rate": "the same",
}


def toml(value: Any) -> str:
    """A value as TOML."""
    match value:
        case dict():
            return "{ " + ", ".join(f"{key} = {toml(one)}" for key, one in value.items()) + " }"
        case list():
            return "[" + ", ".join(toml(one) for one in value) + "]"
        case bool():
            return str(value).lower()
        case str():
            return json.dumps(value)
        case _:
            return repr(value)


def text_of(tables: Tables) -> str:
    return "".join(f"{key} = {toml(value)}\n" for key, value in tables.items())


@cache
def resolved(text: str) -> tuple[Any, str, tuple[str, ...]]:
    """The scenario, the mistakes, and the warnings."""
    try:
        scenario = _core.resolve(text)
    except _core.ScenarioError as error:
        return None, "; ".join(f"{one['path']}: {one['message']}" for one in error.problems), ()
    return scenario, "", tuple(scenario.warnings)


@cache
def outcome(text: str, level: str, folder: str) -> tuple[str, str, tuple[str, ...]]:
    """A digest of all results, the mistakes, and the warnings."""
    scenario, mistakes, warnings = resolved(text)
    if scenario is None:
        return "", mistakes, warnings
    out = (
        str(Path(folder) / hashlib.sha256((level + text).encode()).hexdigest())
        if "packets" in text and folder
        else None
    )
    try:
        run: Any = _core.run_flows(scenario, out=out) if level == "flow" else _core.run(scenario, out=out, threads=1)
    except _core.RunError as error:
        return "", str(error), warnings
    summary = {
        key: value
        for key, value in run.summary.items()
        if not key.startswith(("wall", "peak", "out", "packet_hops_per", "thread"))
    }
    digest = hashlib.sha256(json.dumps(summary, default=str, sort_keys=True).encode())
    if level == "packets":
        for name, part in run.packed():
            digest.update(name.encode() + part)
    else:
        for table in (run.flows, run.links):
            digest.update(repr(rows(table)).encode())
    for file in sorted(Path(out).glob("*.pcapng")) if out else ():
        digest.update(file.read_bytes())
    return digest.hexdigest(), "", (*warnings, *run.summary["warnings"])


def rows(table: Any) -> Any:
    import polars as pl

    return pl.DataFrame(table).rows()


def looked_up(tables: Tables, path: str) -> Any:
    at: Any = tables
    for name in path.replace("[]", "").split("."):
        at = at[0] if isinstance(at, list) and at else at
        at = at.get(name) if isinstance(at, dict) else None
    return at


def chosen(tables: Tables, when: str) -> Tables:
    """The scenario with the kinds of tables that a condition names."""
    tables = copy.deepcopy(tables)
    for condition in when.split(" and "):
        path, _, kind = condition.partition(" = ")
        if not kind or looked_up(tables, path) == kind:
            continue
        above = path.rpartition(".")[0]
        extra = KINDS.get((path, kind), {})
        if above == "workload":
            spread(tables, "workload", [{"kind": kind, **copy.deepcopy(extra)}])
        elif above == "topology":
            tables["topology"] = {"link": FABRIC["link"], "kind": kind, **copy.deepcopy(extra)}
        elif path.startswith("transport."):
            spread(tables, path, kind)
        else:
            if above == "workload.burst.sizes":
                spread(tables, "workload.burst", {"idle": "50 us"})
            spread(tables, above, {path.rpartition(".")[2]: kind, **copy.deepcopy(extra)})
    return tables


def of_kind(tables: Tables, kind: str) -> Tables:
    """The scenario with all transports of one kind."""
    tables = copy.deepcopy(tables)
    everywhere = [tables["transport"], *tables.get("transports", {}).values()]
    is_lossless = [one["preset"] == "tcp_bolt" for one in everywhere]
    if kind == "rdma":
        for one, lossless in zip(everywhere, is_lossless, strict=True):
            of_kind = {"rdma": one["rdma"]} if "rdma" in one else {}
            one.clear()
            one.update({"preset": "roce_dcqcn", "lossless": lossless, **of_kind})
    elif kind == "udp":
        priority = 3 if any(is_lossless) else 0
        other = 1 if "classes" in tables.get("switch", {}) else 0
        tables["workload"] = [
            {**UDP, "sources": ["host1"], "priority": priority, "ecn": True},
            {**UDP, "sources": ["host2", "host3"], "priority": other, "name": "other"},
        ]
        tables["transport"] = {"preset": "cubic"}
        tables.pop("transports", None)
        if any(is_lossless):
            tables.setdefault("switch", {}).setdefault("pfc", {})
    return tables


def kinds_for(row: Row) -> list[str]:
    """The kinds of transport that a key is tried with."""
    found = re.search(r"transport\.kind = (\w+)", row["when"])
    if found:
        return [found[1]]
    if row["path"].startswith(("transport.", "workload.", "topology.", "stop", "name", "seed", "clocks")):
        return ["tcp", "rdma"] if "kind = udp" not in row["when"] else ["udp"]
    return ["tcp", "rdma", "udp"]


def says(words: str, path: str) -> bool:
    """Whether a text names a key by its path, or a table of faults that it belongs to."""
    plain, text = path.replace("[]", ""), re.sub(r"\.\d+(?=[.:])", "", words)
    # Rows of a list are one value, and faults are refused by their table.
    names = [plain, *([path.partition("[]")[0]] if "[]" in path and not path.startswith("workload") else [])]
    return any(re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", text) for name in names)


def is_refused(mistakes: str, row: Row) -> bool:
    """Whether an error is about a key, or about the kind of table that has it."""
    kinds = re.findall(r"workload\.kind = (\w+)", row["when"])
    return says(mistakes, row["path"]) or any(
        re.search(f"is an? {kind}: use pauseframe run", mistakes) for kind in kinds
    )


# Tables that the flow level refuses.
REFUSED = ("failure", "corruption", "pause_storm")
# Scenarios that take longer: only keys of transports and faults need them.
LONG = ("timeouts", "old", "overtaking", "hasty", "cut off", "long")


def scenarios_for(row: Row, kind: str) -> list[Tables]:
    """The scenarios in which a key is tried."""
    is_own = row["path"].startswith(("transport.", "host."))
    also = {"tcp": LONG, "rdma": ("timeouts", "long"), "udp": ("timeouts",)}[kind] if is_own else ()
    # The quick ones first: most keys show there.
    names = sorted(SCENARIOS, key=lambda name: (name in LONG, name == "recorded"))
    return [SCENARIOS[name] for name in names if name not in LONG or name in also]


def prepared(tables: Tables, row: Row, kind: str, level: str) -> Tables:
    """A scenario in which a key exists."""
    base = chosen(of_kind(tables, kind), row["when"])
    if level == "flow" and not row["path"].startswith(REFUSED):
        base = {key: value for key, value in base.items() if key not in REFUSED}
    if kind == "udp" and row["path"].startswith("transport."):
        base |= {"transport": {"preset": "udp"}, "workload": [{**UDP, "sources": ["host1", "host2"]}]}
    for path, value in BESIDE.get(row["path"], {}).items():
        spread(base, path, copy.deepcopy(value))
    return base


def shows(row: Row, kind: str, level: str, folder: str) -> bool:
    """Whether some scenario shows that the key was changed."""
    refused = False
    for tables in scenarios_for(row, kind):
        base = prepared(tables, row, kind, level)
        before, mistakes, _ = outcome(text_of(base), level, folder)
        if mistakes:
            refused = refused or is_refused(mistakes, row)
            continue
        current = looked_up(base, row["path"])
        for value in candidates(row):
            if value == current:
                continue
            if isinstance(value, str) and (row["path"], value) in KINDS:
                changed = chosen(base, f"{row['path']} = {value}")
            else:
                changed = copy.deepcopy(base)
                spread(changed, row["path"], value)
            after, mistakes, now = outcome(text_of(changed), level, folder)
            if mistakes:
                refused = refused or is_refused(mistakes, row)
            elif after != before or any(says(one, row["path"]) for one in now):
                return True
    return refused


def unseen(level: str, part: str, folder: str) -> list[str]:
    """Keys whose change nobody shows. Of a key that several routing engines have, one engine shows it."""
    here = [row for row in rows_of_schema() if row["path"].split(".")[0].split("[")[0] in PARTS[part]]
    shown: set[tuple[str, str]] = set()
    left = []
    for row in (row for row in here if row["path"] not in EXCEPTIONS):
        for kind in kinds_for(row):
            if row["path"].startswith("routing.") and (row["path"], kind) in shown:
                continue
            if shows(row, kind, level, folder):
                shown.add((row["path"], kind))
            else:
                left.append((row["path"], row["when"], kind))
    others = {one for one in shown if one[0].startswith("routing.")}
    return [f"{path} ({when}) with {kind}" for path, when, kind in left if (path, kind) not in others]


PARTS = {
    "transport": {"transport"},
    "workload": {"workload"},
    "switch": {"switch", "qcn"},
    "routing": {"routing", "topology"},
    "rest": {"name", "seed", "clocks", "stop", "host", "failure", "corruption", "pause_storm", "record"},
}


@pytest.mark.parametrize("part", PARTS)
def test_every_key_shows_in_packets(part, tmp_path):
    assert unseen("packets", part, str(tmp_path)) == []


# Keys of routing engines change tables of routes, which small fabrics at flow level seldom show.
@pytest.mark.parametrize("part", ["transport", "workload", "switch", "rest"])
def test_every_key_shows_at_flow_level(part, tmp_path):
    assert unseen("flow", part, str(tmp_path)) == []


def test_exceptions_are_few_and_exist():
    known = {row["path"] for row in _core.options()}
    assert set(EXCEPTIONS) <= known
    assert len(EXCEPTIONS) <= 10
