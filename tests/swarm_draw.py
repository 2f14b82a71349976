"""Draws whole scenarios from a seed; any mechanisms can be combined.

`swarm_kinds` lists the mechanisms of a scenario.
"""

import random
from typing import Any

import tomli_w
from pauseframe import _core
from swarm_keys import give_keys
from swarm_work import Place, udp, workload

Table = dict[str, Any]

MECHANISMS = {
    "qcn": 0.1,
    "udp": 0.2,
    "failure": 0.25,
    "lasting failure": 0.05,
    "corruption": 0.18,
    "slow receiver": 0.14,
    "ets": 0.12,
    "watchdog": 0.2,
    "whole link": 0.08,
    "offload": 0.15,
    "second transport": 0.25,
    "deaf host": 0.1,
    "pause storm": 0.12,
    "one way": 0.06,
}
"""Probability of each optional mechanism."""
ENGINES = ("up_down", "order_pair", "edst", "shortest_path", "dfsssp", "lash")
"""Kinds of routing that plan forwarding tables."""
CIRCLES = 0.2
"""Probability of a scenario with a cyclic buffer dependency; hardly any other scenario deadlocks."""

PAIRS = 0.07
"""Probability of racks with two ToRs each, joined by mux cables or peer links."""


def draw(seed: int, attempt: int = 0) -> Table:
    """Draws a scenario as a TOML table. The same seed and attempt give the same scenario."""
    rng = random.Random(f"{seed}/{attempt}")
    if rng.random() < CIRCLES:
        return _circle(rng, seed)
    of_pairs = random.Random(f"{seed}/{attempt}/pairs")
    if of_pairs.random() < PAIRS:
        return _pairs(of_pairs, seed)
    topology = _topology(rng)
    of_ports = random.Random(f"{seed}/{attempt}/ports")
    _give_ports(of_ports, topology)
    place = _place(topology)
    chosen = {name for name, share in MECHANISMS.items() if rng.random() < share}
    if {"ports_per_host", "planes"} & topology.keys():
        chosen -= {"qcn"}
    scenario: Table = {
        "name": f"swarm-{seed}",
        "seed": rng.randrange(1 << 32),
        "stop": {"time": f"{rng.choice([200, 1000, 1000, 3000, 3000, 20000])} us"},
        "topology": topology,
        "transport": _transport(rng),
        "routing": _routing(rng, chosen),
        "host": _host(rng, chosen, place),
        "workload": [workload(rng, place) for _ in range(rng.choice([1, 1, 2, 3]))],
    }
    if "second transport" in chosen:
        scenario["transports"] = {"other": _transport(rng)}
        scenario["workload"].append(workload(rng, place) | {"transport": "other"})
    if "udp" in chosen:
        scenario["workload"].append(udp(rng, scenario["host"].get("mtu", "1500 B")))
    scenario["switch"] = _switch(rng, chosen, scenario)
    scenario |= {"clocks": "ideal"} if rng.random() < 0.15 else {}
    if rng.random() < 0.2:
        all_hosts = {"host": "*", "to_switch": rng.choice(["0 s", "300 ns", "5 us"])}
        scenario["host"]["wire_jitters"] = [all_hosts]
    if rng.random() < 0.1:
        place_of = rng.choice(place.hosts)
        own = {"host": place_of, "to_switch": "2 us", "to_host": "700 ns"}
        scenario["host"].setdefault("wire_jitters", []).insert(0, own)
    if "qcn" in chosen:
        scenario["qcn"] = {"preset": rng.choice(["standard", "qcn20", "qcn66"]), "sample": "15 KB"}
    if "pfc" in scenario["switch"] and rng.random() < 0.2:
        scenario["record"] = {"deadlock_after": f"{rng.choice([1, 20, 100])} us"}
    _choices_of_ports(of_ports, scenario)
    _give_conweave(random.Random(f"{seed}/{attempt}/conweave"), scenario)
    _give_codel(random.Random(f"{seed}/{attempt}/codel"), scenario)
    _give_linux(random.Random(f"{seed}/{attempt}/linux"), scenario)
    _give_servers(random.Random(f"{seed}/{attempt}/servers"), scenario, place)
    scenario |= _faults(rng, chosen, place)
    of_keys = random.Random(f"{seed}/{attempt}/keys")
    return give_keys(of_keys, scenario, of_keys.choice([0, 0, 1, 2, 4]))


def _give_ports(rng: random.Random, topology: Table) -> None:
    """Gives some fabrics hosts with several ports."""
    if topology["kind"] in {"custom", "file"} or rng.random() < 0.75:
        return
    pairs = topology["kind"] == "star" or (topology["kind"] == "leaf_spine" and topology["leaves"] % 2 == 0)
    if pairs and rng.random() < 0.7:
        topology["ports_per_host"] = 2
    else:
        topology["planes"] = rng.choice([2, 3])


def _pairs(rng: random.Random, seed: int) -> Table:
    """Racks with two ToRs each, which peer links join (MLAG), or to which mux cables join the hosts."""
    topology: Table = {"kind": "leaf_spine", "leaves": rng.choice([2, 4]), "spines": rng.choice([1, 2])}
    topology |= {"hosts_per_leaf": rng.choice([1, 2, 3]), "ports_per_host": 2, "link": _link(rng)}
    place = _place(topology)
    chosen = {name for name, share in MECHANISMS.items() if rng.random() < share} - {"qcn"}
    transport = _transport(rng)
    # A detour is a part of a flow's path, so packets with entropy values have none.
    while "rdma_entropy" in transport or transport.get("preset") == "uec_nscc":
        transport = _transport(rng)
    scenario: Table = {
        "name": f"swarm-{seed}",
        "seed": rng.randrange(1 << 32),
        "stop": {"time": f"{rng.choice([1000, 3000, 20000])} us"},
        "topology": topology,
        "transport": transport,
        "routing": {"kind": "ecmp", "convergence": rng.choice(["0 s", "50 us"])},
        "host": _host(rng, chosen, place),
        "workload": [workload(rng, place) for _ in range(rng.choice([1, 2]))],
    }
    scenario["switch"] = switch = _switch(rng, chosen, scenario)
    if switch.get("queue") == "trim" or rng.random() < 0.4:
        topology["peer_links"] = rng.choice([1, 2])
        scenario["routing"]["mlag"] = True
        scenario["host"]["port_choice"] = rng.choice(["802.3ad", "xor", "active-backup", "least_loaded"])
    else:
        _give_mux(rng, scenario)
    return scenario | _faults(rng, chosen, place)


def _give_mux(rng: random.Random, scenario: Table) -> None:
    host, switch = scenario["host"], scenario["switch"]
    host |= {"port_choice": "mux", "link_prober_interval": rng.choice(["10 us", "50 us"])}
    host |= rng.choice([{}, {"negative_signal_count": 1}]) | rng.choice([{}, {"mux_active": ["host1:1", "host2:1"]}])
    pfc = switch.get("pfc")
    if "scheduler" in switch or rng.random() < 0.3:
        return
    if pfc is None:
        scenario["routing"]["tunnel_remap"] = [{"priority": 0, "outer": 2}]
    elif isinstance(pfc, dict) and not pfc.get("whole_link"):
        own = pfc.get("priorities", [3])
        pfc["priorities"] = sorted({*own, 5})
        scenario["routing"]["tunnel_remap"] = [{"priority": own[0], "outer": 5}]


def _give_codel(rng: random.Random, scenario: Table) -> None:
    """Gives some lossy queues CoDel, with a target that is often exceeded."""
    switch, host = scenario["switch"], scenario["host"]
    codel: Table = {"target": rng.choice(["5 us", "50 us"]), "interval": rng.choice(["100 us", "1 ms"])}
    codel |= rng.choice([{}, {"ecn": True}, {"ecn": False}, {"ce_threshold": "20 us"}, {"limit": 20}])
    own: Table = {"queue": rng.choice(["codel", "fq_codel"]), "codel": codel}
    if own["queue"] == "fq_codel":
        codel |= rng.choice([{}, {"flows": 2}, {"quantum": "300 B"}, {"memory_limit": "20 KB", "drop_batch": 3}])
    if rng.random() < 0.1 and "queue" not in switch:
        if "pfc" in switch:
            switch["classes"] = {"lossy": {"priorities": [0], **own}}
        else:
            switch.pop("marker", None)
            switch |= own
    if rng.random() < 0.15 and "pfc" not in switch:
        host["nic_queue"] = rng.choice(["codel", "fq_codel"])


def _give_linux(rng: random.Random, scenario: Table) -> None:
    """Makes the switches of some scenarios Linux machines, if nothing in it needs hardware."""
    switch, routing = scenario["switch"], scenario["routing"].get("kind", "ecmp")
    needs_hardware = {"pfc", "queue", "classes", "scheduler", "codel"} & switch.keys() or "qcn" in scenario
    if rng.random() > 0.5 or needs_hardware or _lossless(scenario) or routing != "ecmp":
        return
    if switch.get("marker", {}).get("at") == "dequeue" or "entropy" in str(scenario):
        return
    size = switch["buffer"]["size"]
    switch |= {"kind": "linux", "buffer": {"size": size}, "queue_packets": rng.choice([1, 5, 100])}
    delay = rng.choice(["0 s", "3 us", "40 us", "250 us"])
    switch["linux"] = {"packets_per_second": rng.choice([50_000, 1_000_000]), "interrupt_delay": delay}
    if rng.random() < 0.3:
        switch["linux"] |= rng.choice([{"gro": False}, {"ring": 7}])


def _give_servers(rng: random.Random, scenario: Table, place: Place) -> None:
    """Joins the hosts of some fabrics to servers, and lets some train."""
    host = scenario["host"]
    past_network = {"refusing", "silent", "slow_receivers"} & {key for key, value in host.items() if value}
    if len(place.hosts) % 2 == 0 and not past_network and rng.random() < 0.15:
        links: Table = {"gpus_per_server": 2, "latency": rng.choice(["25 ns", "1 us"])}
        links |= rng.choice([{"gpu": "A100"}, {"rate": "3 Gbps"}])
        topology = scenario["topology"]
        has_rails = topology["kind"] == "leaf_spine" and topology["leaves"] % 2 == 0 and "failure" not in scenario
        if has_rails and topology.get("ports_per_host", 1) == 1:
            links["rails"] = rng.random() < 0.5
        topology["scale_up"] = links
    gpus = place.free - place.free % 2
    if gpus >= 2 and rng.random() < 0.08:
        place.free -= gpus
        scenario["workload"].append(_training(rng, gpus, place.hosts[-1]))


def _training(rng: random.Random, gpus: int, last_host: str) -> Table:
    saves: Table = {}
    if gpus >= 4 and rng.random() < 0.3:
        # The storage takes no rank, nor does the rest of its server.
        gpus -= 2
        checkpoint: Table = {"targets": [last_host], "mode": rng.choice(["blocking", "async"])}
        checkpoint |= {"part": rng.choice(["5 KB", "16 MiB"]), "parallel_weights": rng.random() < 0.5}
        saves = {"checkpoint": checkpoint | ({"bytes": "100 KB"} if rng.random() < 0.5 else {})}
    tp = rng.choice([1, 2])
    experts = {"ep": 2, "experts": 4, "top_k": 2} if gpus // tp % 2 == 0 and rng.random() < 0.3 else {}
    stages = 2 if not experts and gpus // tp % 2 == 0 and rng.random() < 0.5 else 1
    steps: Table = {"kind": "training", "gpus": gpus, "tp": tp, "pp": stages, **experts, "layers": 4}
    steps |= {"hidden": 64, "sequence": rng.choice([8, 100]), "micro_batches": 2, "forward": "3 us"}
    steps["schedule"] = rng.choice(["1f1b", "as_simai", "interleaved"])
    if steps["schedule"] == "interleaved":
        steps["virtual_stages"] = 2
    steps["iterations"] = rng.choice([1, 2])
    if gpus // tp // stages % 2 == 0 and rng.random() < 0.4:
        steps |= {"cp": 2, "cp_comm": rng.choice(["p2p", "all_gather", "a2a"]), "kv_hidden": rng.choice([16, 64])}
    steps["distributed_optimizer"] = rng.random() < 0.7
    if rng.random() < 0.4:
        gathers = steps["distributed_optimizer"] and rng.random() < 0.6
        steps |= {"overlap_grad_reduce": True, "overlap_param_gather": gathers}
        steps["bucket_size"] = rng.choice([1, 20_000, 10**9])
    library: Table = {"algorithm": rng.choice(["auto", "ring", "tree"]), "slice": rng.choice(["step", "3 KB", "1 MiB"])}
    library |= {"in_flight": rng.choice([1, 4]), "channels": rng.choice([0, 2]), "pxn": rng.random() < 0.5}
    library |= {"message_cost": rng.choice(["0 s", "2 us"]), "p2p_chunk": rng.choice(["128 KiB", "1 KB"])}
    return steps | saves | {"collectives": library, "placement": rng.choice(["packed", "random"])}


def _give_conweave(rng: random.Random, scenario: Table) -> None:
    """Gives some fabrics with several paths between leaf switches ConWeave."""
    topology, kind = scenario["topology"], scenario["routing"]["kind"]
    fits = topology["kind"] == "fat_tree" or (topology["kind"] == "leaf_spine" and topology["spines"] > 1)
    spreads = scenario["host"].get("port_choice") == "balance-rr"
    transports = [scenario["transport"], *scenario.get("transports", {}).values()]
    spreads |= any("rdma_entropy" in transport for transport in transports)
    if not fits or kind in ENGINES or spreads or rng.random() < 0.4:
        return
    routing: Table = {
        "kind": "conweave",
        "reply_slack": rng.choice(["1 us", "4 us"]),
        "path_busy": rng.choice(["0 s", "16 us"]),
    }
    routing |= {"epoch_idle": rng.choice(["20 us", "300 us"]), "tail_slack": rng.choice(["0 s", "16 us", "160 us"])}
    routing |= {"blind_wait": rng.choice(["20 us", "200 us"]), "hold_queues": rng.choice([0, 1, 65_535])}
    scenario["routing"] = routing | {"control_priority": rng.choice([0, 6, 7])}


def _choices_of_ports(rng: random.Random, scenario: Table) -> None:
    """Choices of hosts with several ports, and of switches that need no tables."""
    routing = scenario["routing"]
    if routing["kind"] == "spray":
        routing["kind"] = rng.choice(["spray", "letflow", "drill", "adaptive", "ars", "ars"])
        routing |= {"spray": rng.choice(["random", "round_robin"])} if routing["kind"] == "spray" else {}
    elif routing["kind"] == "ecmp" and rng.random() < 0.3:
        routing["hash"] = rng.choice(["murmur3", "crc32", "crc32_lo", "crc32_hi", "crc_ccitt", "xor", "siphash"])
        routing |= {"hash_seeds": rng.choice(["switch", "tier", "same"]), "hash_offsets": rng.choice([[], [0, 10]])}
        routing["hash_fields"] = rng.choice(["5-tuple", "addresses+flow_label", "5-tuple+dest_qp"])
        if routing["hash"] == "siphash":  # Linux's routers have neither seeds of tiers, offsets nor queue pairs
            routing |= {"hash_seeds": rng.choice(["switch", "same"]), "hash_offsets": []}
            routing["hash_fields"] = rng.choice(["5-tuple", "addresses+flow_label"])
    if routing["kind"] == "ars":
        routing |= _ars(rng)
    if routing["kind"] == "ecmp" and rng.random() < 0.4:
        routing["index"] = rng.choice(["threshold", "resilient"])
        routing["weights"] = rng.choice(["equal", "capacity"])
        routing |= {"buckets": rng.choice([2, 60])} if routing["index"] == "resilient" else {}
    _connections(rng, scenario)
    if rng.random() < 0.2:
        scenario.setdefault("record", {})["paths"] = True
    if {"ports_per_host", "planes"} & scenario["topology"].keys():
        choices = ["802.3ad", "xor", "active-backup", "queue_affinity", "least_loaded", "rail"]
        by_packet = scenario["host"].get("nic_queue", "per_flow") == "per_flow" and routing["kind"] not in ENGINES
        choice = rng.choice([*choices, "balance-rr"] if by_packet else choices)
        scenario["host"] |= {"port_choice": choice, "miimon": rng.choice(["0 s", "20 us", "100 ms"])}
        if choice in {"802.3ad", "xor", "queue_affinity"}:
            scenario["host"]["hash_policy"] = rng.choice(["layer2", "layer2+3", "layer3+4"])
        elif choice == "balance-rr":
            scenario["host"]["packets_per_slave"] = rng.choice([1, 4])


def _ars(rng: random.Random) -> Table:
    """Keys of adaptive routing by port quality."""
    modes = [f"{what}_{how}" for what in ("flowlet", "packet") for how in ("quality", "random")]
    ars: Table = {"mode": rng.choice([*modes, "fixed"])}
    ars |= {} if ars["mode"] == "fixed" else {"idle_time": rng.choice(["1 us", "20 us", "256 us"])}
    return ars | {"sampling_interval": rng.choice(["1 us", "16 us"]), "flow_states": rng.choice([1, 512])}


ONE_WAY = {"permutation", "n_to_1", "incast", "background", "long_flows", "flows", "application"}


def _connections(rng: random.Random, scenario: Table) -> None:
    """Several queue pairs for the messages of a transport, where all of its workloads can use them."""
    named = {"default": scenario["transport"]} | scenario.get("transports", {})
    for name, transport in named.items():
        own = [work for work in scenario["workload"] if work.get("transport", "default") == name]
        fits = all(work["kind"] in ONE_WAY and "request" not in work for work in own)
        if transport.get("preset") in QUEUE_PAIRS and fits and rng.random() < 0.6:
            transport |= {
                "rdma_qps_per_connection": rng.choice([2, 4, 7]),
                "rdma_split_data_on_qps": rng.random() < 0.6,
            }
        elif transport.get("preset") not in QUEUE_PAIRS and "read_rate" not in transport and rng.random() < 0.2:
            transport["subflows"] = rng.choice([2, 3, 7])
            if "congestion_control" not in transport and rng.random() < 0.5:
                transport["congestion_control"] = "lia"
        routing = scenario["routing"]
        if routing["kind"] == "ecmp" and transport.get("preset") == "uec_nscc":
            for key in [key for key in routing if key.startswith(("hash", "index", "weights", "buckets"))]:
                del routing[key]  # entropy values work with the ideal hash alone
        if routing["kind"] == "ecmp" and "hash" not in routing:
            _entropy(rng, transport, scenario["switch"])


def _entropy(rng: random.Random, transport: Table, switch: Table) -> None:
    """Entropy values of packets, where the receiver takes them in any order."""
    any_order = {"uec_nscc": ["oblivious", "bitmap", "bitmap", "mixed", "mixed"]}.get(transport.get("preset", ""), [])
    if any_order and switch.get("queue") == "trim":
        any_order = ["bitmap", "mixed", "reps", "reps", "reps", "reps"]
    if transport.get("rdma_selective_repeat") or transport.get("rdma_dp_ordering") == "ooo_rw":
        any_order = any_order or ["oblivious"]
    if any_order and rng.random() < 0.95:
        transport |= {"rdma_entropy": rng.choice(any_order), "rdma_entropy_values": rng.choice([2, 64, 256])}


def _circle(rng: random.Random, seed: int) -> Table:
    """Unbounded windows around a ring, each flow to the host two switches away, as in Fig. 2 of the TCP-Bolt paper."""
    switches = rng.choice([5, 5, 6, 7])
    ends = [(f"host{n}", f"host{(n + 2) % switches}") for n in range(switches)]
    size = f"{rng.choice([300, 2000])} KB"
    flows = [{"src": src, "dst": dst, "size": size, "start": f"{rng.randrange(20)} us"} for src, dst in ends]
    pfc = _pfc(rng, {"watchdog"} if rng.random() < 0.3 else set(), "per_port") | {"xoff": "40 KB"}
    return {
        "name": f"swarm-{seed}",
        "seed": rng.randrange(1 << 32),
        "stop": {"time": f"{rng.choice([1000, 3000])} us", "on_deadlock": rng.random() < 0.7},
        "topology": {"kind": "ring", "switches": switches, "hosts_per_switch": 1, "link": _link(rng)},
        "transport": {"preset": "tcp_bolt", "initial_window": "4 MB", "receive_window": "8 MB"},
        "host": {"nic_queue": rng.choice(["fifo", "per_destination", "per_flow"])},
        "switch": {"buffer": "100 KB", "marker": {"kind": "step", "k": "90 KB"}, "pfc": pfc},
        "workload": [{"name": "round", "kind": "flows", "flows": flows}],
        "record": {"deadlock_after": f"{rng.choice([1, 20, 100, 1000])} us"},
    }


def _place(topology: Table) -> Place:
    text = tomli_w.dumps({"topology": topology, "workload": {"kind": "permutation", "size": "1 KB"}})
    nodes = _core.Topology.of_scenario(_core.resolve(text)).nodes()
    named = {kind: [name for name, what, _ in nodes if what == kind] for kind in ("host", "switch")}
    return Place(named["host"], named["switch"], free=len(named["host"]))


def _link(rng: random.Random) -> Table:
    # The window of parallel threads is as long as the delay of the shortest link, so a few links are very short.
    delay = rng.choice([0, 100, 500, 500, 1000, 1000, 1000, 5000])
    return {"rate": f"{rng.choice([1, 10, 10, 25, 100])} Gbps", "delay": f"{delay} ns"}


def _topology(rng: random.Random) -> Table:
    per_switch = rng.randint(1, 3)
    families: list[Table] = [
        {"kind": "star", "hosts": rng.randint(2, 9)},
        {"kind": "dumbbell", "left": rng.randint(1, 4), "right": rng.randint(1, 4)},
        {"kind": "line", "switches": rng.randint(2, 5), "hosts_per_switch": per_switch},
        {"kind": "leaf_spine", "leaves": rng.randint(2, 8), "spines": rng.randint(1, 3), "hosts_per_leaf": per_switch},
        {"kind": "fat_tree", "k": 4},
        {"kind": "xgft", "m": [rng.randint(2, 4), rng.randint(2, 4)], "w": [1, rng.randint(1, 2)]},
        {"kind": "ring", "switches": rng.randint(3, 6), "hosts_per_switch": rng.randint(1, 2)},
        {"kind": "torus", "lengths": [3, 3], "hosts_per_switch": 1},
        {"kind": "dragonfly", "p": 1, "a": 2, "h": 1, "g": 3},
        {
            "kind": "jellyfish",
            "switches": rng.choice([6, 8, 10]),
            "network_ports": 3,
            "hosts_per_switch": rng.randint(1, 2),
            "seed": rng.randrange(100),
        },
        _asymmetric(rng),
    ]
    topology = rng.choice(families)
    topology["link"] = _link(rng)
    if topology["kind"] != "star" and rng.random() < 0.5:
        topology["fabric_link"] = _link(rng)
    return topology


def _asymmetric(rng: random.Random) -> Table:
    """A tree of switches, some with a second link, whose two directions have different rates and delays."""
    switches = [f"s{n}" for n in range(rng.randint(2, 5))]
    ends = [(switch, switches[rng.randrange(n)]) for n, switch in enumerate(switches) if n > 0]
    ends += [ends[0]] if rng.random() < 0.5 else []
    hosts = [f"h{n}" for n in range(rng.randint(3, 8))]
    ends += [(host, rng.choice(switches)) for host in hosts]
    links = [{"ends": list(pair)} | _link(rng) for pair in ends]
    for link in links:
        if rng.random() < 0.6:
            link |= {f"{key}_back": value for key, value in _link(rng).items()}
    return {"kind": "custom", "hosts": hosts, "switches": switches, "links": links}


LOSSLESS = {"tcp_bolt", "tcp_dcb", "roce_dcqcn", "roce_hpcc", "roce_timely", "roce_swift"}
PRESETS = [
    "newreno",
    "dctcp",
    "dctcp",
    "dctcp_plus",
    "tcp_bolt",
    "tcp_bolt",
    "tcp_dcb",
    "cubic",
    "vegas",
    "bbr",
    "pfabric",
]

HABITS: list[Table] = [
    {"sack": False},
    {"sack": False, "reassembly_limit": 20},
    {"rack": True, "tlp": True, "prr": True},
    {"undo": True, "dsack": True, "frto": True, "timestamps": True},
    {"pacing": True},
    {"ecn": "classic", "ect_on_syn": True},
    {"fin": True},
    {"handshake": False},
    {"cache": "cee"},
    {"delayed_ack_form": "linux", "count_packets": True},
    {"delayed_ack_segments": 1},
    {"receive_window": "20 KB"},
    {"receive_buffer": "linux", "send_buffer": "linux"},
    {"read_rate": "2 Gbps"},
    {"small_segments": "nagle", "small_queues": True},
    {"idle_restart": "linux"},
    {"fast_retransmit": False},
    {"timer_wheel": True},
]


QUEUE_PAIRS = ["roce_dcqcn", "roce_hpcc", "roce_timely", "roce_swift", "uec_nscc", "uec_nscc", "uec_nscc", "uec_nscc"]


def _queue_pairs(rng: random.Random) -> Table:
    transport: Table = {"preset": rng.choice(QUEUE_PAIRS), "rdma_mtu": "256 B", "rdma_send": rng.random() < 0.3}
    transport["rdma_selective_repeat"] = rng.random() < 0.4
    if transport["preset"] not in ("roce_hpcc", "uec_nscc") and not transport["rdma_send"] and rng.random() < 0.6:
        transport |= {"rdma_dp_ordering": "ooo_rw", "rdma_ooo_window": rng.choice([8, 64, 4096])}
    if rng.random() < 0.3:
        transport["rdma_max_rd_atomic"] = rng.choice([1, 2])
    transport["rdma_timeout"] = f"{rng.choice([300, 5000])} us"
    if transport["preset"] == "roce_dcqcn":
        transport["rdma_control"] = rng.choice(["none", "none", "none", "dcqcn_paper", "dcqcn_connectx", "dcqcn_hpcc"])
    if transport["preset"] in ("roce_dcqcn", "roce_timely") and rng.random() < 0.5:
        transport["rdma_window"] = rng.choice(["fixed", "by_rate"])
    if rng.random() < 0.4:
        transport |= {"rdma_ack_every": 8, "rdma_cnp_interval": "4 us", "rdma_cnp_delay": "2 us"}
    if rng.random() < 0.3:
        transport["lossless"] = rng.random() < 0.5
    return transport | _losses(rng, transport)


def _losses(rng: random.Random, transport: Table) -> Table:
    """How queue pairs recover from losses; NSCC has its own rules."""
    drawn: Table = {"rdma_timer": rng.choice(["adaptive", "ibta"]), "rdma_connect_time": rng.choice(["0 s", "5 us"])}
    if transport.get("preset") == "uec_nscc":
        return drawn
    if rng.random() < 0.3:
        drawn["rdma_nak_interval"] = rng.choice(["50 us", "500 us"])
    if rng.random() < 0.3:
        drawn["rdma_tx_window"] = rng.choice(["1 KB", "64 KB"])
    if transport["rdma_send"] and rng.random() < 0.5:
        drawn |= {"rdma_receives": rng.choice([1, 3]), "rdma_rnr_timer": 1, "rdma_repost_delay": "3 us"}
    if str(transport.get("rdma_control", "none")).startswith("dcqcn"):
        drawn |= {"rdma_slow_restart": rng.random() < 0.5, "rdma_cnp_on_ingress": rng.choice([0.5, 0.95])}
    return drawn


def _transport(rng: random.Random) -> Table:
    if rng.random() < 0.33:
        return _queue_pairs(rng)
    transport: Table = {"preset": rng.choice(PRESETS)}
    if rng.random() < 0.08:
        transport = {"congestion_control": "aimd", "aimd_b": 0.2}
    if rng.random() < 0.25:
        transport["stack"] = rng.choice(["linux", "freebsd9", "ns3"])
    if rng.random() < 0.3:
        transport["lossless"] = rng.random() < 0.7
    if rng.random() < 0.35:
        transport |= {"rto_min": f"{rng.choice([10, 200, 2000])} us", "rto_granularity": "1 us"}
        transport["rto_initial"] = f"{rng.choice([20, 500, 5000])} us"
    if rng.random() < 0.2:
        transport["initial_window"] = rng.choice(["1 segments", "bdp", "300 KB"])
    for habit in rng.sample(HABITS, rng.choice([0, 0, 1, 1, 2])):
        transport |= habit
    return transport


def _lossless(scenario: Table) -> bool:
    """True if the transport is lossless, as far as the scenario file shows."""
    transports = [scenario["transport"], *scenario.get("transports", {}).values()]
    return any(t.get("lossless", t.get("preset") in LOSSLESS) for t in transports)


def _switch(rng: random.Random, chosen: set[str], scenario: Table) -> Table:
    policy = rng.choice(["per_port", "per_port", "shared", "shared", "ideal_output_queued"])
    switch: Table = {"buffer": {"policy": policy, "size": f"{rng.choice([30, 100, 225, 1000])} KB"}}
    if policy == "shared":
        switch["buffer"]["alpha"] = rng.choice([0.125, 1.0, 8.0])
        if rng.random() < 0.5:
            more = rng.choice([{"reserved": "3 KB"}, {"egress_pool": "300 KB"}])
            switch["buffer"] |= {"size": "2 MB"} | more
    markers: list[Table] = [
        {"kind": "none"},
        {"kind": "red", "min": "10 KB", "max": "30 KB", "gentle": rng.random() < 0.5},
        {"kind": "red", "min": "5 KB", "max": "60 KB", "not_ect": "queue", "p_max": 0.3},
        {"kind": "red", "min": "5 KB", "max": {"*:0": "20 KB", "*": "9 KB"}, "at": "dequeue", "w_q": 1.0},
        {"kind": "step", "k": {"*:1": "20 packets", "*": "9 KB"}},
        {"kind": "step", "k": rng.choice(["10 KB", "12 packets"]), "at": rng.choice(["enqueue", "dequeue"])},
    ]
    if rng.random() < 0.35:
        switch["marker"] = rng.choice(markers)
    if rng.random() < 0.15:
        switch["latency"] = f"{rng.choice([100, 800])} ns"
    if rng.random() < 0.1 or "pfabric" in str(scenario["transport"]):
        switch["queue"] = rng.choice(["pfabric", "pfabric", "fifo"])
    if "uec_nscc" in str(scenario["transport"]) and rng.random() < 0.7:
        switch["queue"] = "trim"
    if rng.random() < 0.08:
        switch["queue_packets"] = rng.choice([5, 100])
    pfc = _pfc(rng, chosen, policy) if _lossless(scenario) or {"whole link", "one way", "pause storm"} & chosen else {}
    if pfc:
        switch["pfc"] = pfc
    if "ets" in chosen:
        groups = [{"priorities": [0], "share": 40}, {"priorities": [3], "share": 60}]
        switch["scheduler"] = {"kind": "ets", "groups": groups}
    return switch


def _pfc(rng: random.Random, chosen: set[str], policy: str) -> Table:
    pfc: Table = {}
    if "watchdog" in chosen:
        pfc["watchdog"] = {
            "detection": "300 us",
            "restoration": "300 us",
            "action": rng.choice(["drop", "forward", "alert"]),
        }
        pfc["watchdog"] |= {"poll": "100 us"} if rng.random() < 0.6 else {}
    if policy == "shared" and rng.random() < 0.3:
        pfc["headroom_pool"] = rng.choice([{"over_subscription": 1.0}, {"over_subscription": 4.0}, {"size": "20 KB"}])
    if "one way" in chosen:
        pfc["ports"] = [{"ports": ["*:0"]} | rng.choice([{"sends": False}, {"obeys": "none"}, {"obeys": "all"}])]
    if "whole link" in chosen:
        pfc["whole_link"] = True
    if rng.random() < 0.15:
        pfc["quanta"] = rng.choice([50, 2000])
    if rng.random() < 0.15:
        pfc["reaction"] = rng.choice(["0 s", "1 us"])
    return pfc


def _host(rng: random.Random, chosen: set[str], place: Place) -> Table:
    host: Table = {}
    rare: list[Table] = [
        {"tx_delay": "2 us", "rx_delay": "3 us"},
        {"tx_jitter": rng.choice(["0 s", "1 us"])},
        {"ticks_apart": True},
    ]
    for habit in [*rare, {"wire_overhead": "none"}]:
        host |= habit if rng.random() < 0.15 else {}
    if rng.random() < 0.4:
        # The reaction time is at least any window, so closed loops also run on several threads.
        host["reaction"] = rng.choice(["1 us", "3 us"])
    if rng.random() < 0.3:
        host["mtu"] = rng.choice(["576 B", "9000 B", "9000 B"])
    if rng.random() < 0.3 and "qcn" not in chosen:
        host["nic_queue"] = rng.choice(["fifo", "per_destination"])
    if rng.random() < 0.2:
        host["nic_buffer"] = "64 KB" if host.get("mtu") == "9000 B" else rng.choice(["3 KB", "64 KB"])
    if "offload" in chosen:
        host |= rng.choice([{"tso": True}, {"gro": True}, {"tso": True, "gro": True, "gro_timeout": "20 us"}])
    if "slow receiver" in chosen:
        rate = f"{rng.choice([100, 1000])} Mbps"
        slow = {"host": rng.choice(place.hosts), "rate": rate, "buffer": rng.choice(["64 KB", "200 KB"])}
        host["slow_receivers"] = [slow | ({"stop": f"{rng.choice([200, 900])} us"} if rng.random() < 0.5 else {})]
    if "deaf host" in chosen:
        host[rng.choice(["refusing", "silent"])] = [rng.choice(place.hosts)]
    return host


def _faults(rng: random.Random, chosen: set[str], place: Place) -> Table:
    faults: Table = {}
    failures = [_failure(rng, place) for _ in range(rng.choice([1, 1, 2]))] if "failure" in chosen else []
    if "lasting failure" in chosen:
        failures.append(_failure(rng, place) | {"up": "23 h"})
    if failures:
        faults["failure"] = failures
    if "corruption" in chosen:
        bad: Table = {"ports": [rng.choice(["*", f"{rng.choice(place.switches)}:*"])]}
        bad |= rng.choice([{"fer": 0.001}, {"fer": 0.02}, {"ber": 1e-6}])
        faults["corruption"] = [bad | ({"stop": f"{rng.choice([100, 900])} us"} if rng.random() < 0.5 else {})]
    if "pause storm" in chosen:
        storm: Table = {
            "senders": [rng.choice([*place.hosts, f"{rng.choice(place.switches)}:0"])],
            "priorities": [0, 3],
        }
        storm |= rng.choice([{"quanta": 100}, {"frames_per_second": 1e5, "quanta": 0}, {"frames_per_second": 1e4}])
        start = rng.choice([0, 20, 100])
        faults["pause_storm"] = [storm | {"start": f"{start} us", "stop": f"{start + rng.choice([50, 400])} us"}]
    return faults


def _failure(rng: random.Random, place: Place) -> Table:
    down = rng.choice([0, 20, 100, 300])
    what: Table = rng.choice(
        [
            {"node": rng.choice(place.switches)},
            {"node": rng.choice(place.hosts)},
            {"port": f"{rng.choice(place.switches)}:0"},
        ]
    )
    return what | {"down": f"{down} us", "up": f"{down + rng.choice([1, 60, 100, 800])} us"}


def _routing(rng: random.Random, chosen: set[str]) -> Table:
    hops = ["ecmp", "ecmp", "spray"]
    routing: Table = {"kind": rng.choice(hops if rng.random() < 0.55 or "qcn" in chosen else ENGINES)}
    if routing["kind"] in hops:
        if "failure" in chosen:
            routing["convergence"] = rng.choice(["0 s", "30 us", "10 ms"])
        return routing
    return routing | rng.choice([{}, {"per": "packet"}, {"choice": "best_of_two"}, {"choice": "least_loaded"}])
