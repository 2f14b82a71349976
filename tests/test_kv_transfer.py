"""KV caches between prefill and decode, from the scenario to the tables."""

import json
from pathlib import Path

import pauseframe as pf
import polars as pl
import pytest
from pauseframe.sweep.plan import Source

KV = """
name = "kv"
[topology]
kind = "star"
hosts = 8
link = { rate = "100 Gbps", delay = "1 us" }
[transport]
preset = "roce_dcqcn"
ecn = "off"
[transport.rdma]
rdma_control = "none"
[switch]
marker = "none"
[host]
tx_jitter = "0 s"
[[workload]]
kind = "kv_transfer"
bytes_per_token = "1 KiB"
prefill_rate = 1_000_000
"""
BYTE_US = 8e-5
"""Time of a byte at 100 Gb/s."""
FRAME, RETH, ACK = 1024 + 62 + 4 + 20, 16, 66 + 4 + 20
"""A full packet on the wire, the address of a WRITE in its first packet, and an acknowledgement."""


def transfer(tokens: int) -> float:
    """Time of a WRITE of so many packets from host to host over one switch, alone."""
    return ((tokens + 1) * FRAME + 2 * RETH + 2 * ACK) * BYTE_US + 4.0


def run(requests: list[dict[str, object]], **keys: object) -> pf.Run:
    changes: dict[str, object] = {"workload.requests": {"kind": "trace", "entries": requests}}
    changes |= {f"workload.{key}": value for key, value in keys.items()}
    return pf.run(Source.read(KV).resolve_with(changes, seed=1), progress=False)


def queries(done: pf.Run) -> pl.DataFrame:
    return done.queries.to_polars()


def test_a_cache_takes_the_time_of_its_packets_after_its_prefill() -> None:
    done = run([{"tokens": 200}, {"arrival": "1 ms", "tokens": 1}])
    found = queries(done)
    assert found["start_us"].to_list() == pytest.approx([200.0, 1001.0])
    assert found["fct_us"].to_list() == pytest.approx([transfer(200), transfer(1)], rel=1e-9)
    assert found["slowdown"].to_list() == pytest.approx([1.0, 1.0])


def test_shares_go_from_gpu_to_gpu_in_parallel() -> None:
    done = run([{"tokens": 400}, {"arrival": "1 ms", "tokens": 400}], tp=2)
    found, flows = queries(done), done.flows.to_polars()
    # Each prefill instance has one request, and its two GPUs send at once to those of a decode instance.
    assert found["fct_us"].to_list() == pytest.approx([transfer(200)] * 2, rel=1e-9)
    assert found["slowdown"].to_list() == pytest.approx([1.0] * 2)
    assert sorted(flows["src"].cast(pl.String)) == ["host0", "host1", "host2", "host3"]
    for _, shares in flows.group_by("query"):
        assert sorted(shares["dst"].cast(pl.String)) in (["host4", "host5"], ["host6", "host7"])


def test_layers_hide_the_transfer_behind_the_prefill() -> None:
    whole, parts = (queries(run([{"tokens": 400}], layers=layers))["fct_us"][0] for layers in (1, 10))
    assert whole == pytest.approx(transfer(400), rel=1e-9)
    assert parts == pytest.approx(transfer(40), rel=1e-9)
    # Where the network is slower than the prefill, decoding waits for the rest; headers are not in the ideal.
    slow = queries(run([{"tokens": 400}], layers=10, prefill_rate=100_000_000))
    assert slow["fct_us"][0] > transfer(400) - 4.0
    assert 1.0 <= slow["slowdown"][0] < 1.1


@pytest.mark.parametrize("preset", ["cubic", "roce_dcqcn"])
@pytest.mark.parametrize("layers", [1, 4])
def test_an_idle_network_is_near_the_ideal_and_never_below(preset: str, layers: int) -> None:
    """Small parts pipeline better over the hops than a whole, and no part waits for Nagle's rule."""
    text = KV.replace('ecn = "off"\n[transport.rdma]\nrdma_control = "none"\n', "")
    requests = {"kind": "poisson", "per_second": 200, "sizes": {"kind": "log_uniform", "min": "1 KB", "max": "3 MB"}}
    changes: dict[str, object] = {"transport.preset": preset, "workload.layers": layers, "workload.tp": 2}
    changes |= {"workload.prefill_rate": 20e6, "workload.requests": {**requests, "stop": "100 ms"}}
    found = queries(pf.run(Source.read(text).resolve_with(changes, seed=1), progress=False))
    assert all(1.0 <= slowdown < 20 for slowdown in found["slowdown"])


def test_long_queues_of_prefill_take_no_memory_and_sums_do_not_wrap() -> None:
    poisson = {"kind": "poisson", "per_second": 1e9, "sizes": "1 MB", "stop": "1 s"}
    changes: dict[str, object] = {"workload.requests": poisson, "workload.prefill_rate": 1, "stop.time": "1 ms"}
    assert queries(pf.run(Source.read(KV).resolve_with(changes, seed=1), progress=False)).is_empty()
    late = [{"arrival": "1 us", "tokens": 1000}] * 3
    for rate in (1e-300, 1e-4):
        changes = {
            "workload.requests": {"kind": "trace", "entries": late},
            "workload.prefill_rate": rate,
            "stop.time": "1 s",
        }
        assert len(pf.run(Source.read(KV).resolve_with(changes, seed=1), progress=False).flows) == 0


def test_times_of_a_trace_are_scaled_before_they_are_compared_with_the_end() -> None:
    entries = [{"arrival": "10 s", "tokens": 1}]
    for scale, is_late in ((0.001, False), (1.0, True)):
        requests = {"kind": "trace", "entries": entries, "time_scale": scale}
        changes: dict[str, object] = {"workload.requests": requests, "stop.time": "1 s"}
        warnings = Source.read(KV).resolve_with(changes, seed=1).warnings
        assert any("after the end of the run" in warning for warning in warnings) == is_late


def test_a_trace_is_kept_in_the_resolved_scenario(tmp_path: Path) -> None:
    lines = [{"timestamp": 0, "input_length": 600, "output_length": 9, "hash_ids": [0, 1]}] * 2
    (tmp_path / "trace.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    (tmp_path / "kv.toml").write_text(KV + 'requests = { kind = "trace", file = "trace.jsonl" }\n', encoding="utf-8")
    scenario = Source.read(tmp_path / "kv.toml").resolve_with({}, seed=1)
    # The second prompt is the first again: one token is computed and sent.
    assert "tokens = 600, cached = 599" in scenario.toml
    assert any("output_length" in warning for warning in scenario.warnings)
    again = pf.run(scenario.toml, progress=False)
    assert pl.DataFrame(again.flows)["size_bytes"].to_list() == [1024, 600 * 1024]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"tp": 3}, "the 4 hosts of prefill do not divide into instances of 3"),
        ({"prefill": ["host0"], "decode": ["host0"]}, '"host0" is in prefill too'),
        ({"prefill": ["host0", "host0"]}, "a host is named twice"),
        ({"prefill": ["host9"]}, "there is no host"),
        ({"prefill": [f"host{n}" for n in range(8)]}, "no host is left for decode"),
        (
            {"bytes_per_token": "100 TB", "requests": {"kind": "trace", "entries": [{"tokens": 99}]}},
            "a prompt of 99 tokens would have more than",
        ),
        ({"requests": {"kind": "trace"}}, "is required: a trace, or entries"),
        ({"requests": {"kind": "trace", "entries": []}}, "there is no request in it"),
    ],
)
def test_mistakes_have_a_reason(keys: dict[str, object], message: str) -> None:
    base = {"requests": {"kind": "trace", "entries": [{"tokens": 1}]}}
    changes = {f"workload.{key}": value for key, value in (base | keys).items()}
    with pytest.raises(pf.ScenarioError, match=message):
        Source.read(KV).resolve_with(changes, seed=1)


def test_layers_without_a_prefill_are_warned_of() -> None:
    changes = {"workload.requests": {"kind": "trace", "entries": [{"tokens": 1}]}, "workload.layers": 4}
    scenario = Source.read(KV.replace("prefill_rate = 1_000_000\n", "")).resolve_with(changes, seed=1)
    assert any(
        "workload.0.layers: without prefill_rate all parts are sent at once" in warning for warning in scenario.warnings
    )
