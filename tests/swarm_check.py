"""Rules that hold for every run, checked on its tables and captured packets by code independent of the simulator."""

import math
import struct
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

Row = dict[str, Any]

PACKET_MAX = 9216 + 42
"""Largest frame that a scenario can have, with headers and a VLAN tag, in bytes."""


LONG_S = 7200.0
"""Simulated seconds after which all work has finished: longer than all timeouts of a connection together."""

TABLES = (
    "flows",
    "queries",
    "ports",
    "series",
    "throughput",
    "pause_tree",
    "states",
    "conweave",
    "tunnels",
    "deadlocks",
    "jobs",
    "ranks",
    "timeline",
)
"""All tables of a run that the checks read, besides the summary and the packets."""

OF_THE_MACHINE = {"wall_s", "threads", "threads_reason", "packet_hops_per_s", "peak_rss_bytes", "out"}
"""Fields of the summary that depend on the machine and not on the network."""

ENDLESS = 7
"""RNR retries without an end (IBTA 9.7.5.2.8)."""
GAVE_UP_AFTER = 6
"""Timeouts after which a connection may give up, where its transport does not say: the default of `syn_retries`."""


@dataclass(frozen=True)
class Tables:
    """A run: its summary and its tables, with flows, queries and ports also as plain rows."""

    summary: Row
    frames: dict[str, pl.DataFrame]
    flows: list[Row]
    queries: list[Row]
    ports: list[Row]

    @staticmethod
    def of(run: Any) -> "Tables":
        frames = {name: pl.DataFrame(run.table(name)) for name in TABLES}
        flows, queries, ports = (frames[name].to_dicts() for name in ("flows", "queries", "ports"))
        return Tables(run.summary, frames, flows, queries, ports)

    def facts(self) -> Row:
        """Fields of the summary that depend only on the network."""
        facts = {key: value for key, value in self.summary.items() if key not in OF_THE_MACHINE}
        return facts | {"warnings": [text for text in facts["warnings"] if not text.startswith("threads:")]}

    def differences(self, other: "Tables", but: Iterable[str] = ()) -> list[str]:
        """The summary fields and tables that differ between two runs, without those in `but`."""
        mine, theirs = self.facts(), other.facts()
        facts = [f"summary.{key}" for key in mine if mine[key] != theirs.get(key)]
        tables = [name for name in TABLES if not self.frames[name].equals(other.frames[name], null_equal=True)]
        return [name for name in (*facts, *tables) if name not in but]


def violations(tables: Tables, resolved: Row) -> Iterator[str]:
    """A message for every rule that the run violates."""
    yield from _flows(tables, resolved)
    yield from _queries(tables)
    yield from _ports(tables, resolved)
    yield from _switches(tables)
    yield from _lossless(tables, resolved)
    yield from _sums(tables, resolved)


def _sums(tables: Tables, resolved: Row) -> Iterator[str]:
    """Counters that are kept in two places, or split by cause, agree."""
    pairs = {name for name, spec in _transports(resolved) if spec["kind"] == "rdma"}
    for flow in tables.flows:
        causes = flow["repeats_by_nak"] + flow["repeats_by_timeout"]
        if flow["transport"] in pairs and causes != flow["retransmits"]:
            yield f"flow {flow['flow']}: {flow['retransmits']} packets sent again for {causes} causes"
        if flow["reply_retransmits"] > flow["retransmits"] or flow["reply_timeouts"] > flow["timeouts"]:
            yield f"flow {flow['flow']}: more sent again of the reply than of all"
    totals = {name: sum(port[name] for port in tables.ports) for name in ("pauses_sent", "pauses_received")}
    if totals["pauses_received"] > totals["pauses_sent"]:
        yield f"more pauses received than sent: {totals}"
    received: Counter[str] = Counter()
    for row in tables.frames["throughput"].to_dicts():
        received[row["workload"]] += row["received_bytes"]
    delivered: Counter[str] = Counter()
    for flow in tables.flows:
        delivered[flow["workload"]] += flow["delivered_bytes"]
    complete = all(flow["status"] == "finished" for flow in tables.flows)
    for workload, due in delivered.items():
        got = received[workload]
        if got < due or (complete and got != due):
            yield f"{workload}: {got} bytes received, {due} delivered"


def _flows(tables: Tables, resolved: Row) -> Iterator[str]:
    end_us = tables.summary["sim_time_s"] * 1e6
    # A flow that leaves a dead port sends by another while frames of the first still arrive.
    moves = resolved.get("failure") and {"ports_per_host", "planes"} & resolved["topology"].keys()
    for flow in tables.flows:
        name = f"flow {flow['flow']}"
        if flow["slowdown"] is not None and flow["slowdown"] < 1 - 1e-9 and not moves:
            yield f"{name} is faster than its ideal: slowdown {flow['slowdown']}"
        if flow["status"] == "finished":
            due = flow["size_bytes"] + flow["reply_bytes"]
            if flow["delivered_bytes"] != due:
                yield f"{name} finished with {flow['delivered_bytes']} of {due} bytes"
            if flow["failure"]:
                yield f"{name} finished and failed: {flow['failure']}"
        if flow["status"] == "failed" and not flow["failure"]:
            yield f"{name} failed without a reason"
        last = flow["finish_us"] if flow["finish_us"] is not None else flow["start_us"]
        if last > end_us * (1 + 1e-12) + 1e-6:
            yield f"{name} ends at {last} us, after the run ({end_us} us)"
        sent, lost = flow["datagrams_sent"], flow["datagrams_lost"]
        if lost > sent:
            yield f"{name} lost {lost} of {sent} datagrams"
    numbers = [flow["flow"] for flow in tables.flows]
    if len(set(numbers)) != len(numbers):
        yield "flow numbers repeat"


def _queries(tables: Tables) -> Iterator[str]:
    for query in tables.queries:
        if query["slowdown"] is not None and query["slowdown"] < 1 - 1e-9:
            yield f"query {query['query']} is faster than its ideal: slowdown {query['slowdown']}"
    numbers = [query["query"] for query in tables.queries]
    if len(set(numbers)) != len(numbers):
        yield "query numbers repeat"


def _ports(tables: Tables, resolved: Row) -> Iterator[str]:
    end = tables.summary["sim_time_s"]
    utilisation: defaultdict[str, float] = defaultdict(float)
    buffer = resolved["switch"]["buffer"]
    counted = any(resolved["switch"].get(key) for key in ("classes", "queue_packets", "codel"))
    fixed = buffer["policy"] == "per_port" and not counted
    for port in tables.ports:
        name = f"{port['port']}/p{port['priority']}"
        utilisation[port["port"]] += port["utilisation"]
        if port["tx_bytes"] * 8 > port["rate_bps"] * end + PACKET_MAX * 8:
            yield f"{name} sent {port['tx_bytes']} bytes in {end} s at {port['rate_bps']} bit/s"
        if port["backlog_mean_bytes"] > port["backlog_max_bytes"] * (1 + 1e-9):
            yield f"{name}: mean backlog {port['backlog_mean_bytes']} above the largest {port['backlog_max_bytes']}"
        if port["paused_us"] > end * 1e6 * (1 + 1e-9) + 1e-6 or port["paused_longest_us"] > port["paused_us"] + 1e-6:
            yield f"{name}: paused {port['paused_us']} us (longest {port['paused_longest_us']}) of {end * 1e6}"
        full = port["drops_buffer_full"] and port["tier"] != "host" and fixed
        if full and port["backlog_max_bytes"] + PACKET_MAX < _bytes(buffer["size"]):
            yield f"{name} dropped with {port['backlog_max_bytes']} bytes of {buffer['size']} at most in its queue"
    for port_name, share in utilisation.items():
        if share > 1 + 1e-9:
            yield f"{port_name} is used for {share} of the time"


def _bytes(text: str) -> float:
    value, unit = text.split()
    return float(value) * {"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 1024, "MiB": 2**20}[unit]


def _switches(tables: Tables) -> Iterator[str]:
    """Checks that each packet that enters a switch leaves it, is dropped, or is still there."""
    came: Counter[str] = Counter()
    left: Counter[str] = Counter()
    lost: Counter[str] = Counter()
    reasons = (
        "buffer_full",
        "headroom_exceeded",
        "headroom_pool",
        "not_ect",
        "codel",
        "link_down",
        "watchdog",
        "corrupted",
    )
    for port in tables.ports:
        came[port["peer"]] += port["tx_packets"]
        left[port["node"]] += port["tx_packets"]
        lost[port["node"]] += sum(port[f"drops_{reason}"] for reason in reasons)
    nodes = {port["node"] for port in tables.ports if port["tier"] != "host"}
    made = sum(port["cnms_sent"] for port in tables.ports) + tables.frames["conweave"]["control_frames"].sum()
    for node in sorted(nodes):
        if left[node] > came[node] + made:
            yield f"{node} sent {left[node]} packets of {came[node]} that came in"
    packets = tables.summary["packet_hops"]
    sent = sum(left.values())
    if packets > sent:
        yield f"{packets} packet hops of {sent} packets sent"


def _lossless(tables: Tables, resolved: Row) -> Iterator[str]:
    warned = any("headroom" in warning or "quanta" in warning for warning in tables.summary["warnings"])
    warned |= tables.summary["watchdog_storms"] > 0  # The watchdog may let a paused queue send.
    drops = tables.summary["drops_by_reason"]["headroom_exceeded"]
    # Pause storms end pauses that a port needs; ports with one-way pauses neither send nor obey them.
    pfc = resolved["switch"]["pfc"] or {}
    unheard = resolved.get("pause_storm") or pfc.get("ports")
    if drops and not warned and not unheard and not resolved.get("failure") and not resolved.get("corruption"):
        yield f"{drops} lossless packets were dropped, and no warning said so"


def _connection(flow: Row, hotspots: set[str]) -> tuple[str, ...]:
    is_shared = flow["operation"] or flow["query"] is not None or flow["workload"] in hotspots
    own = () if is_shared else (str(flow["flow"]),)
    return (flow["workload"], flow["src"], flow["dst"], *own)


def unfinished(tables: Tables, resolved: Row) -> Iterator[str]:
    """Work that is unfinished although all faults have ended, time was left, and no reported cause blocks it."""
    if tables.summary["deadlocks"]:
        return
    deaf = {*resolved["host"]["refusing"], *resolved["host"]["silent"]}
    missed = [flow for flow in tables.flows if flow["status"] not in {"finished", "stopped"}]
    failed = [flow for flow in missed if flow["status"] == "failed"]
    # Operations, requests and the messages of a hotspot share a queue pair. Its timeouts in a row can belong to several
    # of them: where only acknowledgements are lost, requests go on.
    hotspots = {work["name"] for work in resolved["workload"] if work["kind"] == "hotspot"}
    of_pair: Counter[tuple[str, ...]] = Counter()
    for flow in tables.flows:
        of_pair[_connection(flow, hotspots)] += flow["timeouts"]
    of_transport = dict(_transports(resolved))
    for flow in failed:
        is_pair = flow["failure"] == "retries_exhausted"
        patience = _patience(str(flow["failure"]), of_transport[flow["transport"]])
        timeouts = of_pair[_connection(flow, hotspots)] if is_pair or flow["operation"] else flow["timeouts"]
        if not deaf & {flow["src"], flow["dst"]} and timeouts < patience:
            yield f"flow {flow['flow']} failed after {flow['timeouts']} timeouts: {flow['failure']}"
    # pFabric keeps sending probes while nobody answers (SIGCOMM 2013, §4.2), so a flow to a silent host never ends.
    probing = {name for name, spec in _transports(resolved) if spec.get("congestion_control") == "pfabric"}
    endless = [flow for flow in missed if flow["transport"] in probing and deaf & {flow["src"], flow["dst"]}]
    hopeless = failed or endless
    # Work that waits for a failed flow waits for ever, and an application keeps its connections open.
    jobs = {work["name"] for work in resolved["workload"] if work["kind"] in {"application", "training"}}
    for flow in missed:
        waits = bool(hopeless) and flow["workload"] in jobs
        if flow["status"] == "running" and flow not in endless and not waits:
            yield f"flow {flow['flow']} still runs, after {flow['timeouts']} timeouts"
    if not hopeless:
        yield from _open_ends(tables, resolved)


def _patience(failure: str, spec: Row) -> float:
    """Timeouts after which a connection may give up at the earliest, by the retries of its transport."""
    if failure == "retries_exhausted":
        return int(spec.get("rdma_retry_count", 7)) + 1
    if failure == "rnr_retries_exhausted":
        return 0 if spec.get("rdma_rnr_retry", ENDLESS) < ENDLESS else math.inf
    return min(int(spec.get(key, GAVE_UP_AFTER)) for key in ("syn_retries", "retries"))


def _transports(resolved: Row) -> Iterator[tuple[str, Row]]:
    """The transports of a scenario, with their names in the `flows` table."""
    yield "default", resolved["transport"]
    yield from resolved.get("transports", {}).items()


def _open_ends(tables: Tables, resolved: Row) -> Iterator[str]:
    """Unfinished work although no flow has failed."""
    yield from (f"query {query['query']} is not complete" for query in tables.queries if query["finish_us"] is None)
    jobs = tables.frames["jobs"].to_dicts()
    yield from (f"job {job['job']} waits for {job['waits_for']}" for job in jobs if job["finish_us"] is None)
    for work in resolved["workload"]:
        begun = sum(flow["workload"] == work["name"] for flow in tables.flows)
        if work["kind"] == "flows" and begun != len(work["flows"]):
            yield f"{begun} of the {len(work['flows'])} flows of {work['name']} have begun"


def flow_level(flows: Iterable[Row]) -> Iterator[str]:
    """Checks that the flow level delivers all bytes, and that no flow is faster than its ideal."""
    for flow in flows:
        if flow["slowdown"] is not None and flow["slowdown"] < 1 - 1e-6:
            yield f"flow level: flow {flow['flow']} has a slowdown of {flow['slowdown']}"
        if flow["status"] == "finished" and flow["delivered_bytes"] != flow["size_bytes"] + flow["reply_bytes"]:
            yield f"flow level: flow {flow['flow']} finished with {flow['delivered_bytes']} bytes, not all of it"


def fewer_than_packets(packets: Tables, flows: Sequence[Row]) -> Iterator[str]:
    """Checks that the flow level finishes the flows that all finish in packets."""
    key = ("workload", "src", "dst", "size_bytes")
    done = Counter(tuple(str(flow[k]) for k in key) for flow in flows if flow["status"] == "finished")
    there = Counter(tuple(str(flow[k]) for k in key) for flow in packets.flows if flow["status"] == "finished")
    begun = [Counter(tuple(str(flow[k]) for k in key) for flow in level) for level in (flows, packets.flows)]
    if begun[0] != begun[1]:
        return  # in a closed loop, other durations lead to other flows, or to more of them before the end
    if done != there and all(flow["status"] == "finished" for flow in packets.flows):
        yield f"flow level finishes {done.total()} flows, packets {there.total()}"


def mean_backlogs(tables: Tables) -> Iterator[str]:
    """Compares the time-weighted mean backlogs in the table with densely sampled means, up to the sampling error."""
    if tables.frames["series"].is_empty():
        return
    samples = tables.frames["series"].filter(pl.col("metric").cast(str) == "backlog_bytes")
    # Sampling ends when nothing is left to happen, before stop.time; from then on queues are empty.
    is_cut = tables.summary["series_full_at_s"] is not None
    covered = pl.lit(1.0) if is_cut else pl.col("time_us").max() / (tables.summary["sim_time_s"] * 1e6)
    mean = pl.col("value").mean() * covered
    by_port = samples.group_by("entity").agg(mean.alias("mean"), pl.len().alias("n"))
    sampled = {str(row["entity"]): (row["mean"], row["n"]) for row in by_port.to_dicts()}
    for port in tables.ports:
        name = f"{port['port']}/p{port['priority']}"
        mean, count = sampled.get(name, (0.0, 0))
        if count < 200:
            continue
        # Error of a mean over n samples of a process that changes within one sampling interval.
        allowed = 6 * max(port["backlog_max_bytes"], 1) / math.sqrt(count) + 0.05 * mean
        if abs(mean - port["backlog_mean_bytes"]) > allowed:
            yield f"{name}: mean backlog {port['backlog_mean_bytes']:.0f} in the table, {mean:.0f} of {count} samples"


def captured(path: Path) -> Iterator[tuple[str, bytes]]:
    """(name of the capturing port, frame) for each packet of a pcapng file, in file order."""
    data, at, names = path.read_bytes(), 0, list[str]()
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind == 1:
            names.append(_interface_name(data, at + 16, at + length - 4))
        elif kind == 6:
            interface, _, _, size = struct.unpack_from("<IIII", data, at + 8)
            yield names[interface], data[at + 28 : at + 28 + size]
        at += length


def _interface_name(data: bytes, at: int, end: int) -> str:
    while at < end:
        code, length = struct.unpack_from("<HH", data, at)
        if code == 2:
            return data[at + 4 : at + 4 + length].decode()
        at += 4 + (length + 3) // 4 * 4
    return ""


def misrouted(path: Path, nodes: list[tuple[str, str, int | None]], peers: dict[str, str]) -> Iterator[str]:
    """IPv4 packets that a switch delivers to the wrong host."""
    number = {name: index for index, (name, _, _) in enumerate(nodes)}
    hosts = {name for name, kind, _ in nodes if kind == "host"}
    wrong, total = 0, 0
    for port, frame in captured(path):
        tagged = frame[12:14] == b"\x81\x00"
        kind, header = (frame[16:18], frame[18:]) if tagged else (frame[12:14], frame[14:])
        receiver = peers.get(port)
        if kind != b"\x08\x00" or receiver not in hosts:
            continue
        total += 1
        wrong += struct.unpack(">I", header[16:20])[0] & 0xFFFFFF != number[receiver]
    if wrong:
        yield f"{wrong} of {total} packets were handed to the wrong host"
