"""Transmit queues of hosts: waits behind a bulk flow, shares of flows, and a default that nothing else changes."""

from typing import Any

import numpy as np
import pauseframe as pf
import polars as pl
import pytest
import tomli_w

RATES = [1, 10, 100]
FRAME_BITS = 1538 * 8


def run_of(scenario: dict[str, Any]) -> pf.Run:
    return pf.run(tomli_w.dumps(scenario))


def star(hosts: int, gbps: int) -> dict[str, Any]:
    return {"kind": "star", "hosts": hosts, "link": {"rate": f"{gbps} Gbps", "delay": "1 us"}}


def answers(gbps: int, *, bulk: bool, host: dict[str, Any] | None = None, preset: str = "cubic") -> float:
    """The median time of small answers of a host, in us, from 5 ms on, when a bulk flow has opened its window."""
    pause = 100 if gbps < 100 else 20
    flow = {"kind": "long_flows", "flows": [{"src": "host0", "dst": "host2"}]}
    rpc = {
        "name": "rpc",
        "kind": "requests",
        "client": "host1",
        "server": "host0",
        "request": "200 B",
        "response": "1 KB",
        "count": 300 if gbps < 100 else 600,
        "pause": f"{pause} us",
        "persistent": True,
    }
    run = run_of(
        {
            "stop": {"time": "300 ms" if gbps == 1 else "60 ms"},
            "topology": star(3, gbps),
            "host": host or {},
            "transport": {"preset": preset},
            "workload": [*([flow] if bulk else []), rpc],
        }
    )
    of_rpc = pl.DataFrame(run.flows).filter(pl.col("workload").cast(pl.String) == "rpc", pl.col("start_us") > 5000)
    assert of_rpc.height > 100
    return float(np.median(of_rpc["fct_us"].drop_nulls().to_numpy()))


@pytest.mark.parametrize("gbps", RATES)
@pytest.mark.parametrize("preset", ["cubic", "newreno"])
def test_a_small_message_waits_for_two_frames_of_a_bulk_flow(gbps: int, preset: str) -> None:
    frame = FRAME_BITS / gbps / 1000
    wait = answers(gbps, bulk=True, preset=preset) - answers(gbps, bulk=False, preset=preset)
    assert 0 < wait <= 2 * frame + 0.01


@pytest.mark.parametrize("gbps", RATES)
def test_with_offload_it_waits_for_the_ring(gbps: int) -> None:
    """Between what the link sends in 16 us and a super-packet more."""
    tso = {"tso": True, "gro": False}
    wait = answers(gbps, bulk=True, host=tso) - answers(gbps, bulk=False, host=tso)
    super_packet = 44 * FRAME_BITS / gbps / 1000
    assert 16 < wait < 16 + super_packet + FRAME_BITS / gbps / 1000
    if gbps == 10:
        assert 26 <= wait <= 70


@pytest.mark.parametrize("gbps", RATES)
@pytest.mark.parametrize("preset", ["tcp_bolt", "cubic", "dctcp", "newreno"])
def test_rings_over_tcp_on_an_idle_star_come_near_their_bound(gbps: int, preset: str) -> None:
    run = run_of(
        {
            "stop": {"time": "100 s"},
            "topology": star(4, gbps),
            "host": {"mtu": "9000 B"},
            "transport": {"preset": preset},
            "workload": [
                {
                    "kind": "application",
                    "pattern": "all_reduce",
                    "algorithm": "ring",
                    "ranks": 4,
                    "size": "4 MB" if gbps < 100 else "20 MB",
                }
            ],
        }
    )
    assert pl.DataFrame(run.jobs)["slowdown"].item() <= 1.10


@pytest.mark.parametrize("tso", [False, True])
def test_bulk_flows_of_a_host_share_its_link(tso: bool) -> None:
    """Three flows to one host and one to another: equal shares, whatever their destinations."""
    targets = ["host1", "host1", "host1", "host2"]
    run = run_of(
        {
            "stop": {"time": "30 ms"},
            "topology": star(3, 10),
            "host": {"tso": tso},
            "transport": {"preset": "cubic"},
            "workload": [{"kind": "long_flows", "flows": [{"src": "host0", "dst": dst} for dst in targets]}],
        }
    )
    shares = pl.DataFrame(run.flows)["delivered_bytes"].to_numpy().astype(float)
    assert shares.sum() ** 2 / (len(shares) * (shares**2).sum()) >= 0.99
    assert shares.sum() * 8 / 0.030 > 9.2e9 * 0.9


@pytest.mark.parametrize("tso", [True, False])
def test_jitter_delays_a_super_packet_as_a_whole(tso: bool) -> None:
    """The stack handles a super-packet once: its frames leave back to back. Single frames are each late for itself."""
    messages, frames = 400, 20

    def times(jitter: str) -> np.ndarray:
        size = f"{frames * 1448} B"
        flows = [{"src": "host0", "dst": "host1", "size": size, "start": f"{n} ms"} for n in range(messages)]
        run = run_of(
            {
                "stop": {"when_finished": True},
                "topology": star(2, 100),
                "host": {"tso": tso, "tx_jitter": jitter},
                # A super-packet takes half of a window at most.
                "transport": {"preset": "cubic", "initial_window": f"{2 * frames} segments", "handshake": False},
                "workload": [{"kind": "flows", "flows": flows}],
            }
        )
        return pl.DataFrame(run.flows).sort("start_us")["fct_us"].to_numpy()

    late = times("10 us") - times("0 s")
    assert late.min() >= 0
    assert late.max() <= 10.001
    # Frame n holds up the last by its delay less the time of the n frames ahead of it.
    draws = np.random.default_rng(1).uniform(0, 10, (20_000, frames)) - FRAME_BITS / 100_000 * np.arange(frames)
    assert late.mean() == pytest.approx(5 if tso else draws.max(axis=1).mean(), abs=0.5)
