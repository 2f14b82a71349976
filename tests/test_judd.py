"""The experiments of the judd paper share one set of parameters: whatever an experiment does not vary is equal."""

import tomllib
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "python/pauseframe/experiments" / "judd"
SCENARIOS = sorted(FOLDER.glob("*.scenario.toml"))
TRANSPORT = ("stack", "rack", "tlp", "sack_compression", "prr", "timer_wheel", "receive_buffer_max")


def read(path):
    return tomllib.loads(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.name)
def test_hosts_links_and_buffers_are_the_same(path):
    scenario, first = read(path), read(SCENARIOS[0])
    for key in ("host", "topology.link", "switch.buffer"):
        one, other = scenario, first
        for name in key.split("."):
            one, other = one[name], other[name]
        assert one == other, key


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.name)
def test_transports_differ_in_what_the_figures_are_about(path):
    scenario = read(path)
    want = {
        "stack": "linux",
        "rack": False,
        "tlp": False,
        "sack_compression": False,
        "prr": False,
        "timer_wheel": False,
        "receive_buffer_max": "16.777216 MB",
    }
    for transport in [scenario["transport"], *scenario.get("transports", {}).values()]:
        assert {key: transport[key] for key in TRANSPORT} == want
        if path.name != "stalls.scenario.toml":  # the order of delayed ACK and RTO varies
            assert (transport["rto_min"], transport["delayed_ack_timeout"]) == ("5 ms", "1 ms")


def test_the_marking_threshold_is_the_same_wherever_it_stands():
    thresholds = set()
    for path in FOLDER.glob("*.toml"):
        thresholds |= {
            line.split('k = "')[1].split('"')[0] for line in path.read_text().splitlines() if ' k = "' in line
        }
    assert thresholds == {"30 KB"}


def test_what_a_full_link_carries_is_the_total_of_table_2():
    assert pytest.approx(9900e6, rel=1e-3) == 10e9 * 8948 / 9038


def test_who_waits_in_table_3_shows_that_its_time_outs_are_those_of_one_sender():
    """There are 400 windows of two packets, and a full buffer of 4.4 ms holds 609: the rest must wait for a timer."""
    held = 10e9 * 4.4e-3 / (9038 * 8)
    waiting = 1 - held / (400 * 2)
    assert 0.2 < waiting < 0.3
    # Wait of a sender per timeout if 274 timeouts in 20 s belong to one sender, or to all 400 senders.
    alone, together = waiting * 20 / 274, waiting * 20 * 400 / 274
    assert 0.005 < alone < 0.030
    assert together > 5
