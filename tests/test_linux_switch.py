"""A Linux machine as a switch: closed forms of rings, CPU and merged packets (docs/models/linux-switch.md)."""

from __future__ import annotations

from typing import Any

import pauseframe as pf
import polars as pl
import pytest
from pauseframe.run import resolve

FRAME = 1538 * 8 / 1000
"""Time of a full frame at 1 Gb/s, in us."""


def run(text: str, **more: Any) -> pf.Run:
    return pf.run(text, progress=False, **more)


def port(results: pf.Run, name: str) -> dict[str, Any]:
    return pl.DataFrame(results.ports).filter(pl.col("port").cast(pl.String) == name).row(0, named=True)


def star(hosts: int, gbps: int, slow: int = 0) -> str:
    """A star whose links to the first host have another rate if `slow` is given."""
    names = [f"host{n}" for n in range(hosts)]
    rates = [slow or gbps, *[gbps] * (hosts - 1)]
    links = ", ".join(
        f'{{ ends = ["{name}", "s"], rate = "{rate} Gbps", delay = "1 us" }}'
        for name, rate in zip(names, rates, strict=True)
    )
    return f'topology = {{ kind = "custom", hosts = {names}, switches = ["s"], links = [{links}] }}\n'.replace("'", '"')


BURSTS = """
stop = {{ when_finished = true }}
[transport]
preset = "cubic"
initial_window = "{window} segments"
handshake = false
receive_window = "1 MB"
[[workload]]
kind = "flows"
name = "bursts"
flows = [{flows}]
"""


def bursts(senders: int, frames: int, window: int | None = None) -> str:
    """A message of full frames from every sender to host0 at the same time, all in the first window."""
    size = frames * 1448
    flows = ", ".join(f'{{ src = "host{n}", dst = "host0", size = "{size} B" }}' for n in range(1, senders + 1))
    return BURSTS.format(window=window or frames, flows=flows)


INCAST = """
clocks = "ideal"
stop = "20 ms"
[switch]
buffer = "4 GB"
queue_packets = 40
marker = { kind = "step", k = "30 KB" }
[transport]
preset = "dctcp"
[[workload]]
kind = "n_to_1"
size = "400 KB"
receiver = "host0"
"""
IMMEDIATE = {"switch.kind": "linux", "switch.linux.gro": False, "switch.linux.interrupt_delay": "0 s"}


@pytest.mark.parametrize("preset", ["dctcp", "cubic"])
def test_without_its_mechanisms_it_is_the_ordinary_switch(preset: str) -> None:
    text = star(5, 10) + INCAST
    given = {"transport.preset": preset, "record.packets": True}
    if preset == "cubic":
        given |= {"switch.marker.kind": "none"}
        text = text.replace(', k = "30 KB"', "")
    plain, linux = (run(text, set=given | more) for more in ({}, IMMEDIATE))
    assert plain.summary["drops"] > 0
    assert plain.summary["fingerprint"] == linux.summary["fingerprint"]
    for table in ("flows", "ports"):
        one, other = (pl.DataFrame(getattr(results, table)) for results in (plain, linux))
        assert one.equals(other), table


UDP = """
stop = "50 ms"
[[workload]]
kind = "udp"
sources = ["host1"]
destinations = ["host0"]
rate = "{rate}"
"""


@pytest.mark.parametrize("rate", [10_000, 50_000])
def test_the_cpu_forwards_so_many_packets(rate: int) -> None:
    """81,274 full frames a second arrive; those that the CPU cannot forward find the ring full."""
    text = star(2, 1) + UDP.format(rate="1 Gbps")
    linux = {"switch.kind": "linux", "switch.linux.packets_per_second": rate}
    results = run(text, set=linux)
    sent = port(results, "s:0")
    assert sent["tx_packets"] == pytest.approx(0.05 * rate, abs=2)
    assert results.summary["drops"] == results.summary["drops_by_reason"]["ring_full"] > 0
    assert port(results, "s:1")["drops_ring_full"] == results.summary["drops"]
    assert run(text, set={"switch.kind": "linux"}).summary["drops"] == 0


@pytest.mark.parametrize("frames", [1, 12, 40])
def test_a_merged_packet_waits_for_the_interrupt_and_leaves_in_its_frames(frames: int) -> None:
    """At 10 Gb/s all frames arrive before the interrupt, 100 us after the first; they leave back to back at 1 Gb/s."""
    linux = {"switch.kind": "linux", "switch.linux.interrupt_delay": "100 us"}
    results = run(star(2, 10, slow=1) + bursts(1, frames), set=linux)
    received = (FRAME / 10 + 1) + 100 + (frames * FRAME + 1)
    assert pl.DataFrame(results.flows)["fct_us"][0] == pytest.approx(received, abs=1e-3)
    sent = port(results, "s:0")
    assert (sent["tx_packets"], results.summary["drops"]) == (frames, 0)


@pytest.mark.parametrize(("senders", "limit"), [(5, 2), (4, 1)])
def test_a_queue_of_n_packets_holds_n_merged_ones(senders: int, limit: int) -> None:
    """Merged packets of 20 frames meet: one leaves, `limit` wait, the others are dropped whole."""
    linux = {
        "stop": "1 ms",
        "switch.kind": "linux",
        "switch.linux.interrupt_delay": "100 us",
        "switch.queue_packets": limit,
    }
    text = (star(senders + 1, 10, slow=1) + bursts(senders, 20)).replace("stop = { when_finished = true }", "")
    results = run(text, set=linux | {"stop": "250 us"})
    assert port(results, "s:0")["drops_buffer_full"] == (senders - 1 - limit) * 20
    assert port(results, "s:0")["backlog_max_bytes"] == (20 * (1 + limit) - 1) * 1518
    # Without merging the same limit holds single frames.
    apart = run(text, set=linux | {"stop": "250 us", "switch.linux.gro": False})
    assert port(apart, "s:0")["drops_buffer_full"] > senders * 20 - 30


def test_a_merged_packet_is_marked_whole() -> None:
    """Three merged packets of 20 frames: the first leaves, the second waits, the third finds it."""
    linux = {
        "switch.kind": "linux",
        "switch.linux.interrupt_delay": "100 us",
        "switch.marker.kind": "step",
        "switch.marker.k": "20 KB",
        "transport.preset": "dctcp",
        "stop": "300 us",
    }
    text = (star(4, 10, slow=1) + bursts(3, 20)).replace("stop = { when_finished = true }", "")
    assert run(text, set=linux).summary["ecn_marks"] == 20


def test_a_byte_limit_counts_all_bytes_of_a_merged_packet() -> None:
    linux = {"switch.kind": "linux", "switch.linux.interrupt_delay": "100 us", "stop": "250 us"}
    text = (star(4, 10, slow=1) + bursts(3, 20)).replace("stop = { when_finished = true }", "")
    for size, dropped in [(40 * 1518, 0), (40 * 1518 - 1, 20), (20 * 1518 - 1, 40)]:
        assert run(text, set=linux | {"switch.buffer.size": f"{size} B"}).summary["drops"] == dropped


def test_acknowledgements_and_datagrams_are_not_merged() -> None:
    text = star(2, 1) + UDP.format(rate="500 Mbps")
    delay = {"switch.linux.interrupt_delay": "200 us"}
    linux = {"switch.kind": "linux", "switch.linux.packets_per_second": 10_000} | delay
    assert port(run(text, set=linux), "s:0")["tx_packets"] == pytest.approx(500, abs=4)


FABRIC = """
stop = "5 ms"
[topology]
kind = "leaf_spine"
leaves = 3
spines = 2
hosts_per_leaf = 2
link = { rate = "10 Gbps", delay = "1 us" }
[host]
reaction = "5 us"
[switch]
kind = "linux"
queue_packets = 6
[switch.linux]
packets_per_second = 400000
interrupt_delay = "20 us"
ring = 64
[transport]
preset = "cubic"
[[workload]]
kind = "permutation"
size = "2 MB"
[[workload]]
kind = "n_to_1"
size = "200 KB"
receiver = "host0"
"""


def test_the_number_of_threads_changes_nothing() -> None:
    one, *others = (run(FABRIC, threads=threads) for threads in (1, 2, 3))
    assert one.summary["drops"] > 0
    for other in others:
        assert other.summary["fingerprint"] == one.summary["fingerprint"]
        assert pl.DataFrame(other.ports).equals(pl.DataFrame(one.ports))


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"switch.pfc": True}, "switch.pfc"),
        ({"transport.preset": "roce_dcqcn"}, "switch.pfc"),
        ({"switch.queue": "codel"}, "switch.queue"),
        ({"switch.buffer.policy": "shared"}, "switch.buffer.policy"),
        ({"switch.model": "g8264"}, "switch.buffer.policy"),
        ({"routing.kind": "spray"}, "routing.kind"),
        ({"qcn": True}, "qcn"),
        ({"switch.marker": {"kind": "step", "at": "dequeue"}}, "switch.marker.at"),
        ({"host.stack": "kernel"}, "host.stack"),
    ],
)
def test_what_it_does_not_have_is_refused(more: dict[str, Any], path: str) -> None:
    text = star(3, 10) + '[[workload]]\nkind = "n_to_1"\nsize = "20 KB"\nreceiver = "host0"\n'
    with pytest.raises(pf.ScenarioError) as refused:
        resolve(text, set={"switch.kind": "linux"} | more)
    assert f"{path}" in str(refused.value)


@pytest.mark.parametrize("key", ["gro", "interrupt_delay", "ring", "packets_per_second"])
def test_its_keys_are_refused_for_hardware(key: str) -> None:
    text = star(3, 10) + '[[workload]]\nkind = "n_to_1"\nsize = "20 KB"\nreceiver = "host0"\n'
    value = {"gro": True, "interrupt_delay": "10 us", "ring": 256, "packets_per_second": 1000}[key]
    with pytest.raises(pf.ScenarioError, match="the switches are no Linux machines"):
        resolve(text, set={f"switch.linux.{key}": value})


@pytest.mark.parametrize(("key", "value"), [("gro", False), ("ring", 64)])
def test_keys_without_an_effect_are_said(key: str, value: Any) -> None:
    text = star(3, 10) + '[[workload]]\nkind = "n_to_1"\nsize = "20 KB"\nreceiver = "host0"\n'
    at_once = {"switch.kind": "linux", "switch.linux.interrupt_delay": "0 s"}
    plain, changed = (run(text, set=at_once | more).summary for more in ({}, {f"switch.linux.{key}": value}))
    assert plain["fingerprint"] == changed["fingerprint"]
    assert not any("changes nothing" in warning for warning in plain["warnings"])
    assert [warning for warning in changed["warnings"] if warning.startswith(f"switch.linux.{key}: ")]


def test_a_resolved_scenario_resolves_to_itself() -> None:
    first = resolve(FABRIC)
    again = resolve(first.toml)
    assert (again.toml, again.warnings) == (first.toml, first.warnings)
    assert 'size = "4 GB"' in first.toml
