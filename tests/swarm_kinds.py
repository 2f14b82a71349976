"""Lists the mechanisms of a resolved scenario; a drawn key that has no effect does not count."""

from collections.abc import Iterator
from typing import Any

Table = dict[str, Any]

KINDS = {
    "topology": "star dumbbell line leaf_spine fat_tree xgft ring torus dragonfly jellyfish custom scale_up",
    "links": "asymmetric",
    "routing": "ecmp spray round_robin letflow drill adaptive ars conweave threshold resilient capacity up_down "
    "order_pair edst shortest_path dfsssp lash best_of_two least_loaded per_packet lanes",
    "pairs": "mux tunnel_remap mlag",
    "control": "newreno dctcp cubic vegas pfabric aimd lia bbr",
    "stack": "linux freebsd9 ns3",
    "queue pairs": "none dcqcn timely swift hpcc nscc ooo_rw go_back_n delayed_cnp port_cnps side_window few_reads "
    "several_split several_in_turn oblivious bitmap reps mixed",
    "transport": "lossless lossy two_transports no_sack rack pacing classic_ecn fin no_handshake cache impatient "
    "subflows",
    "clocks": "real ideal",
    "host": (
        "stack_delay jitter wire_jitter unequal_jitter mtu_576 mtu_9000 nic_fifo "
        "nic_per_destination nic_codel nic_fq_codel small_nic tso gro refusing silent slow_receiver"
    ),
    "buffer": "per_port shared ideal_output_queued egress_pool reserved",
    "marker": "none step red dequeue packets by_port geometric",
    "switch": "latency pfabric_queue trim_queue codel fq_codel class_codel queue_packets ets pfc whole_link quanta "
    "watchdog_drop watchdog_forward watchdog_alert watchdog_poll headroom_pool one_way qcn linux",
    "work": "permutation n_to_1 incast background scatter_gather hotspot long_flows requests flows udp storage "
    "application training",
    "traffic": "kept_connections new_connections closed_loop flow_graph circle collective trace udp_bursts udp_sized "
    "udp_ecn",
    "record": "deadlock_soon paths",
    "fault": "node_fails port_fails lasts comes_back damaged_frames damaged_bits ends slow_ends reroutes pause_storm "
    "xon_storm",
}
"""All mechanisms, grouped by the part of a scenario that they belong to."""

ALL = [f"{of}: {kind}" for of, kinds in KINDS.items() for kind in kinds.split()]


def kinds_of(resolved: Table) -> set[str]:
    """The mechanisms of a resolved scenario, each a member of `ALL`."""
    found = {
        *(f"topology: {kind}" for kind in [resolved["topology"]["kind"]]),
        *(f"topology: {kind}" for kind in _given(scale_up=resolved["topology"]["scale_up"])),
        f"clocks: {resolved['clocks']}",
        *(f"links: {kind}" for kind in _links(resolved["topology"])),
        *(f"routing: {kind}" for kind in _routing(resolved)),
        *(f"pairs: {kind}" for kind in _pairs(resolved)),
        *(kind for transport in _transports(resolved) for kind in _transport(transport)),
        *(f"transport: {kind}" for kind in ["two_transports"] if resolved.get("transports")),
        *(f"host: {kind}" for kind in _host(resolved["host"])),
        *(f"buffer: {kind}" for kind in _buffer(resolved["switch"]["buffer"])),
        *(f"marker: {kind}" for kind in _marker(resolved["switch"]["marker"])),
        *(f"switch: {kind}" for kind in _switch(resolved)),
        *(f"work: {work['kind']}" for work in resolved["workload"]),
        *(f"traffic: {kind}" for work in resolved["workload"] for kind in _traffic(work)),
        *(
            f"record: {kind}"
            for kind in _given(
                deadlock_soon=resolved["record"]["deadlock_after"] != "1 ms", paths=resolved["record"]["paths"]
            )
        ),
        *(f"fault: {kind}" for kind in _faults(resolved)),
    }
    return found & set(ALL)


def _given(**named: Any) -> Iterator[str]:
    return (name for name, is_so in named.items() if is_so)


def _links(topology: Table) -> Iterator[str]:
    links = topology.get("links", [])
    other = (f"{key}_back" in link and link[f"{key}_back"] != link[key] for link in links for key in ("rate", "delay"))
    return _given(asymmetric=any(other))


def _routing(resolved: Table) -> Iterator[str]:
    routing, pfc = resolved["routing"], resolved["switch"]["pfc"]
    yield routing["kind"]
    yield from (routing.get(key, "") for key in ("choice", "index", "weights", "spray"))
    lanes = bool(pfc) and len(pfc["priorities"]) > 1
    yield from _given(per_packet=routing.get("per") == "packet", lanes=lanes)


def _pairs(resolved: Table) -> Iterator[str]:
    routing = resolved["routing"]
    is_mux = resolved["host"]["port_choice"] == "mux"
    return _given(mux=is_mux, tunnel_remap=bool(routing.get("tunnel_remap")), mlag=routing.get("mlag") is True)


def _transports(resolved: Table) -> list[Table]:
    return [resolved["transport"], *resolved.get("transports", {}).values()]


def _transport(transport: Table) -> Iterator[str]:
    if transport["kind"] == "rdma":
        yield f"queue pairs: {transport['rdma_control'].split('_')[0]}"
        yield f"queue pairs: {transport['rdma_entropy']}"
        habits = _given(
            ooo_rw=transport["rdma_dp_ordering"] == "ooo_rw",
            go_back_n=not transport["rdma_selective_repeat"],
            delayed_cnp=transport["rdma_cnp_delay"] != "0 s",
            port_cnps=transport["rdma_cnp_scope"] == "port",
            side_window=transport["rdma_window"] != "none",
            few_reads=transport["rdma_max_rd_atomic"] < 16,
            adaptive_timer=transport["rdma_timer"] == "adaptive",
            posted_receives="rdma_receives" in transport,
            transmit_window="rdma_tx_window" in transport,
            several_split=transport["rdma_qps_per_connection"] > 1 and transport["rdma_split_data_on_qps"],
            several_in_turn=transport["rdma_qps_per_connection"] > 1 and not transport["rdma_split_data_on_qps"],
        )
        yield from (f"queue pairs: {habit}" for habit in habits)
        return
    yield f"control: {transport['congestion_control']}"
    yield f"stack: {transport['stack']}"
    habits = _given(
        lossless=transport["lossless"],
        lossy=not transport["lossless"],
        no_sack=not transport["sack"],
        rack=transport["rack"],
        pacing=transport["pacing"],
        classic_ecn=transport["ecn"] == "classic",
        fin=transport["fin"],
        no_handshake=not transport["handshake"],
        cache=transport["cache"] != "none",
        impatient=transport["rto_min"] in {"10 us", "200 us"},
        subflows=transport["subflows"] > 1,
    )
    yield from (f"transport: {habit}" for habit in habits)


def _host(host: Table) -> Iterator[str]:
    rows = {row["host"]: row["to_switch"] for row in host.get("wire_jitters", [])}
    return _given(
        stack_delay=host["tx_delay"] != "0 s",
        jitter=host["tx_jitter"] != "0 s",
        wire_jitter=rows.get("*", "0 s") != "0 s",
        unequal_jitter=bool(rows.keys() - {"*"}),
        mtu_576=host["mtu"] == "576 B",
        mtu_9000=host["mtu"] == "9 KB",
        nic_fifo=host["nic_queue"] == "fifo",
        nic_per_destination=host["nic_queue"] == "per_destination",
        nic_codel=host["nic_queue"] == "codel",
        nic_fq_codel=host["nic_queue"] == "fq_codel",
        small_nic=host["nic_buffer"] == "3 KB",
        tso=host["tso"],
        gro=host["gro"],
        refusing=host["refusing"],
        silent=host["silent"],
        slow_receiver=host["slow_receivers"],
    )


def _buffer(buffer: Table) -> Iterator[str]:
    yield buffer["policy"]
    yield from _given(egress_pool="egress_pool" in buffer, reserved=buffer.get("reserved", "0 B") != "0 B")


def _marker(marker: Table) -> Iterator[str]:
    yield marker["kind"]
    yield from _given(
        dequeue=marker.get("at") == "dequeue",
        packets="packets" in str(marker.get("k")),
        by_port=any(isinstance(marker.get(key), dict) for key in ("k", "min", "max")),
        geometric=marker.get("spacing") == "geometric",
    )


def _switch(resolved: Table) -> Iterator[str]:
    switch, pfc = resolved["switch"], resolved["switch"]["pfc"] or {}
    action = (pfc.get("watchdog") or {}).get("action")
    return _given(
        latency=switch["latency"] != "0 s",
        pfabric_queue=switch["queue"] == "pfabric",
        trim_queue=switch["queue"] == "trim",
        codel=switch["queue"] == "codel",
        fq_codel=switch["queue"] == "fq_codel",
        class_codel="codel" in str(switch.get("classes")),
        queue_packets="queue_packets" in switch,
        ets=switch["scheduler"]["kind"] == "ets",
        pfc=pfc,
        whole_link=pfc.get("whole_link"),
        quanta=pfc.get("quanta", 65535) != 65535,
        watchdog_drop=action == "drop",
        watchdog_forward=action == "forward",
        watchdog_alert=action == "alert",
        watchdog_poll=(pfc.get("watchdog") or {}).get("poll", "0 s") != "0 s",
        headroom_pool=pfc.get("headroom_pool"),
        one_way=pfc.get("ports"),
        qcn=resolved["qcn"],
        linux=switch["kind"] == "linux",
    )


def _traffic(work: Table) -> Iterator[str]:
    flows = work["flows"] if work["kind"] == "flows" else []
    return _given(
        kept_connections=work.get("persistent") is True,
        new_connections=work.get("persistent") is False,
        closed_loop=work.get("arrivals", {}).get("kind") == "concurrency",
        flow_graph=any(flow.get("after") for flow in flows),
        circle=work["name"] == "round",
        collective="pattern" in work,
        trace="packed" in work or "program" in work,
        udp_bursts=work["kind"] == "udp" and work.get("burst"),
        udp_sized=work["kind"] == "udp" and "size" in work,
        udp_ecn=work.get("ecn"),
    )


def _faults(resolved: Table) -> Iterator[str]:
    failures, wires = resolved.get("failure", []), resolved.get("corruption", [])
    slow = resolved["host"]["slow_receivers"]
    return _given(
        node_fails=any("node" in failure for failure in failures),
        port_fails=any("port" in failure for failure in failures),
        lasts=any(_us(failure["up"]) > _us(resolved["stop"]["time"]) for failure in failures),
        comes_back=any(_us(failure["up"]) < _us(resolved["stop"]["time"]) for failure in failures),
        damaged_frames=any("fer" in wire for wire in wires),
        damaged_bits=any("ber" in wire for wire in wires),
        ends=any("stop" in wire for wire in wires),
        slow_ends=any("stop" in receiver for receiver in slow),
        pause_storm=any(storm["quanta"] for storm in resolved.get("pause_storm", [])),
        xon_storm=any(not storm["quanta"] for storm in resolved.get("pause_storm", [])),
        reroutes=failures and resolved["routing"].get("convergence", "10 ms") in {"0 s", "30 us"},
    )


def _us(text: str) -> float:
    value, unit = text.split()
    return float(value) * {"ps": 1e-6, "ns": 1e-3, "us": 1.0, "ms": 1e3, "s": 1e6, "min": 6e7, "h": 3.6e9}[unit]
