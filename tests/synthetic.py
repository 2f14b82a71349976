"""Makes results folders in the schema of docs/reference/results.md without a simulation."""

import json
import math
import random
from pathlib import Path

import polars as pl
from pauseframe import _core

SCHEMAS = {
    "flows": {
        "flow": pl.UInt32,
        "workload": pl.Categorical,
        "transport": pl.Categorical,
        "query": pl.UInt32,
        "src": pl.Categorical,
        "dst": pl.Categorical,
        "size_bytes": pl.UInt64,
        "reply_bytes": pl.UInt64,
        "delivered_bytes": pl.UInt64,
        "status": pl.Categorical,
        "start_us": pl.Float64,
        "finish_us": pl.Float64,
        "fct_us": pl.Float64,
        "ideal_fct_us": pl.Float64,
        "slowdown": pl.Float64,
        "retransmits": pl.UInt32,
        "timeouts": pl.UInt32,
        "loss_probes": pl.UInt32,
        "undone": pl.UInt32,
        "ce_packets": pl.UInt64,
    },
    "queries": {
        "query": pl.UInt32,
        "workload": pl.Categorical,
        "aggregator": pl.Categorical,
        "fan_in": pl.UInt32,
        "response_bytes": pl.UInt64,
        "start_us": pl.Float64,
        "finish_us": pl.Float64,
        "fct_us": pl.Float64,
        "ideal_fct_us": pl.Float64,
        "slowdown": pl.Float64,
        "timeouts": pl.UInt32,
    },
    "ports": {
        "port": pl.Categorical,
        "node": pl.Categorical,
        "peer": pl.Categorical,
        "tier": pl.Categorical,
        "priority": pl.UInt8,
        "rate_bps": pl.UInt64,
        "tx_packets": pl.UInt64,
        "tx_bytes": pl.UInt64,
        "utilisation": pl.Float64,
        "drops_buffer_full": pl.UInt64,
        "drops_headroom_exceeded": pl.UInt64,
        "drops_not_ect": pl.UInt64,
        "drops_headroom_pool": pl.UInt64,
        "drops_codel": pl.UInt64,
        "drops_ring_full": pl.UInt64,
        "drops_link_down": pl.UInt64,
        "drops_corrupted": pl.UInt64,
        "drops_watchdog": pl.UInt64,
        "ecn_marks": pl.UInt64,
        "backlog_max_bytes": pl.UInt64,
        "backlog_mean_bytes": pl.Float64,
        "ingress_max_bytes": pl.UInt64,
        "pauses_received": pl.UInt64,
        "resumes_received": pl.UInt64,
        "paused_us": pl.Float64,
        "paused_longest_us": pl.Float64,
    },
    "throughput": {
        "start_us": pl.Float64,
        "end_us": pl.Float64,
        "workload": pl.Categorical,
        "received_bytes": pl.UInt64,
    },
    "series": {
        "time_us": pl.Float64,
        "metric": pl.Categorical,
        "entity": pl.Categorical,
        "value": pl.Float64,
    },
}

SIM_TIME_S = 0.1


def flow_rows(rng, count, slow):
    """Flows from 2 KB to 32 MB; `slow` stretches the tail of the completion times."""
    for number in range(count):
        size = int(math.exp(rng.uniform(math.log(2e3), math.log(32e6))))
        ideal = 240 + size * 8e-4
        fct = ideal * (1 + rng.expovariate(1 / slow))
        start = rng.uniform(0, 8e4)
        yield {
            "flow": number,
            "workload": "background",
            "transport": "default",
            "query": None,
            "src": f"h{rng.randrange(54)}",
            "dst": f"h{rng.randrange(54)}",
            "size_bytes": size,
            "reply_bytes": 0,
            "delivered_bytes": size,
            "status": "finished",
            "start_us": start,
            "finish_us": start + fct,
            "fct_us": fct,
            "ideal_fct_us": ideal,
            "slowdown": fct / ideal,
            "retransmits": 0,
            "timeouts": 0,
            "loss_probes": 0,
            "undone": 0,
            "ce_packets": rng.randrange(20),
        }


def query_rows(rng, count, slow):
    for number in range(count):
        size = rng.choice([2000, 4000, 8000])
        ideal = 260 + size * 8e-3
        fct = ideal * (1 + rng.expovariate(1 / slow))
        yield {
            "query": number,
            "workload": "incast",
            "aggregator": f"h{rng.randrange(54)}",
            "fan_in": 10,
            "response_bytes": size,
            "start_us": number * 10.0,
            "finish_us": number * 10.0 + fct,
            "fct_us": fct,
            "ideal_fct_us": ideal,
            "slowdown": fct / ideal,
            "timeouts": 0,
        }


def port_rows(rng, lossless):
    nodes = [("edge", 18, "switch-host"), ("agg", 18, "switch-switch"), ("core", 9, "switch-switch")]
    for kind, count, tier in nodes:
        for node in range(count):
            for number in range(6):
                yield port_row(rng, f"{kind}{node}", number, tier, lossless)
    for host in range(54):
        yield port_row(rng, f"h{host}", 0, "host", lossless)


def port_row(rng, node, number, tier, lossless):
    use = rng.betavariate(2, 3)
    return {
        "port": f"{node}:{number}",
        "node": node,
        "peer": f"edge{rng.randrange(18)}",
        "tier": tier,
        "priority": 3 if lossless else 0,
        "rate_bps": 10_000_000_000,
        "tx_packets": int(use * 8e4),
        "tx_bytes": int(use * 1.2e8),
        "utilisation": use,
        "drops_buffer_full": 0 if lossless else int(rng.random() * 50 * use),
        "drops_headroom_exceeded": 0,
        "drops_not_ect": 0,
        "drops_headroom_pool": 0,
        "drops_codel": 0,
        "drops_ring_full": 0,
        "drops_link_down": 0,
        "drops_corrupted": 0,
        "drops_watchdog": 0,
        "ecn_marks": int(use * 9000),
        "backlog_max_bytes": int(use * 225e3),
        "backlog_mean_bytes": use * 2e4,
        "ingress_max_bytes": int(use * 180e3),
        "pauses_received": int(use * 40) if lossless else 0,
        "resumes_received": int(use * 40) if lossless else 0,
        "paused_us": use * 9e3 if lossless else 0.0,
        "paused_longest_us": use * 400 if lossless else 0.0,
    }


def throughput_rows(flows, intervals=500):
    """Throughput rows that count all bytes of a flow in the interval in which the flow ends."""
    width = SIM_TIME_S * 1e6 / intervals
    counts = [0] * intervals
    for flow in flows:
        if flow["finish_us"] < SIM_TIME_S * 1e6:
            counts[int(flow["finish_us"] / width)] += flow["delivered_bytes"]
    for number, count in enumerate(counts):
        start = number * width
        yield {"start_us": start, "end_us": start + width, "workload": "background", "received_bytes": count}


def series_rows(rng, samples):
    for metric, entities, peak in [
        ("backlog_bytes", [f"edge0:{n}/p3" for n in range(10)], 225e3),
        ("throughput_gbps", [f"edge0:{n}/p3" for n in range(4)], 10.0),
        ("paused_fraction", [f"edge0:{n}/p3" for n in range(4)], 1.0),
        ("cwnd_bytes", ["flow 1", "flow 2"], 300e3),
    ]:
        for entity in entities:
            value = 0.5
            for sample in range(samples):
                value = min(max(value + rng.gauss(0, 0.1), 0.0), 1.0)
                yield {
                    "time_us": sample * SIM_TIME_S * 1e6 / samples,
                    "metric": metric,
                    "entity": entity,
                    "value": value * peak,
                }


def statistics(values):
    frame = pl.Series(values, dtype=pl.Float64)
    shares = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
    return {"mean": frame.mean(), "max": frame.max()} | {
        key: frame.quantile(share, "linear") for key, share in shares.items()
    }


def summary_of(frames, *, name, seed, status, warnings=()):
    flows, queries, ports = frames["flows"], frames["queries"], frames["ports"]
    slowdown = statistics(flows["slowdown"].drop_nulls())
    lossless = ("headroom_exceeded", "headroom_pool", "watchdog")
    reasons = ("buffer_full", "not_ect", "codel", "ring_full", "link_down", "corrupted", *lossless)
    drops = {reason: int(ports[f"drops_{reason}"].sum()) for reason in reasons}
    return {
        "name": name,
        "seed": seed,
        "version": "0.1.0",
        "fingerprint": f"{abs(hash((name, seed))) % 16**16:016x}",
        "sim_time_s": SIM_TIME_S,
        "wall_s": 5.25,
        "events": 41_000_000,
        "packet_hops": 30_000_000,
        "packet_hops_per_s": 5.7e6,
        "peak_rss_bytes": 123_000_000,
        "flows_total": len(flows),
        "flows_finished": int(flows["fct_us"].count()),
        "flows_failed": 0,
        "flows_long": 0,
        "queries_total": len(queries),
        "queries_finished": int(queries["fct_us"].count()),
        "drops": sum(drops.values()),
        "drops_by_reason": drops,
        "ecn_marks": int(ports["ecn_marks"].sum()),
        "watchdog_storms": 0,
        "syn_drops_not_ect": 0,
        "threads": 1,
        "threads_reason": "as asked for",
        "cnms": 0,
        "datagrams_sent": 0,
        "datagrams_lost": 0,
        "fullest_switch": "edge0" if len(ports) else None,
        "switch_held_max_bytes": int(ports["backlog_max_bytes"].max() or 0),
        "nic_queue": "per_destination",
        "series_full_at_s": None,
        "deadlocks": 0,
        "pfc_pauses": int(ports["pauses_received"].sum()),
        "retransmits": int(flows["retransmits"].sum()),
        "timeouts": int(flows["timeouts"].sum()),
        "fct_us": statistics(flows["fct_us"].drop_nulls()),
        "slowdown": {"p50": slowdown["p50"], "p99": slowdown["p99"]},
        "query_fct_us": statistics(queries["fct_us"].drop_nulls()),
        "status": status,
        "warnings": list(warnings),
        "out": None,
    }


def make_frames(*, seed=1, flows=2000, queries=300, ports=True, samples=0, slow=3.0, lossless=False):
    rng = random.Random(seed)
    rows = {
        "flows": list(flow_rows(rng, flows, slow)),
        "queries": query_rows(rng, queries, slow),
        "ports": port_rows(rng, lossless) if ports else [],
        "series": series_rows(rng, samples) if samples else [],
    }
    rows["throughput"] = throughput_rows(rows["flows"]) if flows else []
    return {name: pl.DataFrame(list(rows[name]), schema=schema) for name, schema in SCHEMAS.items()}


def whole(table, frame):
    """The table with additional columns that the tests here do not read."""
    kinds = {"uint32": pl.UInt32, "uint64": pl.UInt64, "float64": pl.Float64, "dictionary(string)": pl.Categorical}
    missing = []
    for column in _core.columns():
        if (column["page"], column["table"]) == ("results", table) and column["name"] not in frame.columns:
            kind, _, null = column["type"].partition(", ")
            value = None if null else "" if kind == "dictionary(string)" else 0
            missing.append(pl.lit(value).cast(kinds[kind]).alias(column["name"]))
    return frame.with_columns(missing)


def write_folder(folder: Path, frames, *, name="incast", seed=1, status="complete", warnings=(), preset="dctcp"):
    folder.mkdir(parents=True)
    for table, frame in frames.items():
        whole(table, frame).write_parquet(folder / f"{table}.parquet")
    summary = summary_of(frames, name=name, seed=seed, status=status, warnings=warnings)
    manifest = {key: summary[key] for key in ("version", "name", "seed", "fingerprint", "status")}
    manifest["program"] = "pauseframe"
    (folder / "manifest.json").write_text(json.dumps(manifest | {"summary": summary}))
    (folder / "scenario.resolved.toml").write_text(
        f'name = "{name}"\nseed = {seed}\n\n[topology]\nkind = "fat_tree"\nk = 6\n\n[transport]\npreset = "{preset}"\n'
        'rto_min = "2 ms"\n\n[[workload]]\nname = "incast"\nkind = "incast"\nresponse = ["2 KB", "4 KB"]\n'
    )
    return folder
