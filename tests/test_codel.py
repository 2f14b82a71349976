"""CoDel and FQ-CoDel in scenarios: what they refuse, what they change, and what the tables say."""

from typing import Any

import pauseframe as pf
import polars as pl
import pytest
import tomli_w
from pauseframe import _core

STAR = {"kind": "star", "hosts": 4, "link": {"rate": "1 Gbps", "delay": "10 us"}}
FAST = {"target": "100 us", "interval": "2 ms"}
BULK = {"kind": "n_to_1", "receiver": "host0", "senders": 2, "size": "100 MB"}


def scenario(switch: dict[str, Any], *, transport: str = "newreno", **more: Any) -> str:
    tables = {
        "stop": {"time": "100 ms"},
        "topology": STAR,
        "switch": {"buffer": {"size": "2 MB"}, **switch},
        "transport": {"preset": transport},
        "workload": [BULK],
    }
    return tomli_w.dumps(tables | more)


def bottleneck(text: str) -> dict[str, Any]:
    """The row of the port to the receiver."""
    ports = pl.DataFrame(pf.run(text, progress=False).ports)
    return ports.filter(pl.col("peer").cast(pl.String) == "host0").sort("tx_bytes").row(-1, named=True)


@pytest.mark.parametrize("queue", ["codel", "fq_codel"])
def test_codel_keeps_the_queue_short(queue: str) -> None:
    plain = bottleneck(scenario({"queue": "fifo", "marker": "none"}))
    port = bottleneck(scenario({"queue": queue, "codel": FAST}))
    assert (plain["drops_codel"], plain["sojourn_max_us"], plain["new_flows"]) == (0, 0.0, 0)
    assert port["drops_codel"] > 10
    assert port["sojourn_max_us"] > 100
    assert (port["new_flows"] > 0) == (queue == "fq_codel")
    assert port["backlog_mean_bytes"] < plain["backlog_mean_bytes"] / 5
    assert port["utilisation"] > 0.9 * plain["utilisation"]


def test_codel_marks_what_is_capable_of_it() -> None:
    port = bottleneck(scenario({"queue": "fq_codel", "codel": FAST}, transport="dctcp"))
    assert port["ecn_marks"] > 10
    assert port["drops_codel"] == 0


def test_a_class_has_its_own_codel() -> None:
    classes = {"bulk": {"priorities": [0], "queue": "codel", "codel": {**FAST, "ecn": True}}}
    port = bottleneck(scenario({"classes": classes}, transport="dctcp"))
    assert port["sojourn_max_us"] > 0


@pytest.mark.parametrize(
    ("switch", "more", "path", "words"),
    [
        ({"codel": FAST}, {}, "switch.codel", "the queue has no CoDel"),
        ({"queue": "pfabric", "codel": FAST}, {}, "switch.codel", "the queue has no CoDel"),
        ({"queue": "codel", "codel": {"target": "200 ms"}}, {}, "switch.codel.interval", "not above target"),
        ({"queue": "codel", "marker": "step"}, {}, "switch.marker", "CoDel, which marks"),
        ({"queue": "codel"}, {"transport": "tcp_bolt"}, "switch.queue", "priority 3 is lossless"),
        (
            {"classes": {"lossy": {"priorities": [0], "queue": "codel"}}, "pfc": {"whole_link": True}},
            {"transport": "tcp_bolt"},
            "switch.classes.lossy.queue",
            "priority 0 is lossless",
        ),
        (
            {"classes": {"data": {"priorities": [3], "queue": "fq_codel"}}},
            {"transport": "tcp_bolt"},
            "switch.classes.data.queue",
            "priority 3 is lossless",
        ),
        ({}, {"host": {"nic_queue": "fq_codel"}, "transport": "tcp_bolt"}, "host.nic_queue", "lossless"),
        ({}, {"host": {"nic_queue": "codel"}, "transport": "roce_dcqcn"}, "host.nic_queue", "queue pairs"),
    ],
)
def test_what_codel_refuses(switch: dict[str, Any], more: dict[str, Any], path: str, words: str) -> None:
    with pytest.raises(_core.ScenarioError) as error:
        _core.resolve(scenario(switch, **more))
    found = {one["path"]: one["message"] for one in error.value.problems}
    assert words in found[path]


def test_keys_of_flows_do_nothing_without_flows() -> None:
    warnings = _core.resolve(scenario({"queue": "codel", "codel": {"flows": 16, "quantum": "3 KB"}})).warnings
    assert [one.partition(":")[0] for one in warnings] == ["switch.codel.flows", "switch.codel.quantum"]


@pytest.mark.parametrize("nic_queue", ["codel", "fq_codel"])
def test_codel_of_hosts(nic_queue: str) -> None:
    """Twenty flows of a host of 80 Mb/s hold at least 40 frames, 6 ms: more than Linux's target."""
    flows = [{"src": "host1", "dst": "host0", "size": "500 KB"} for _ in range(20)]
    slow = {**STAR, "link": {"rate": "80 Mbps", "delay": "10 us"}}
    more: dict[str, Any] = {
        "stop": {"time": "3 s"},
        "topology": slow,
        "host": {"nic_queue": nic_queue},
        "workload": [{"kind": "flows", "flows": flows}],
    }
    run = pf.run(scenario({}, **more), progress=False)
    port = pl.DataFrame(run.ports).filter(pl.col("node").cast(pl.String) == "host1").row(0, named=True)
    assert port["drops_codel"] > 0
    assert port["sojourn_max_us"] > 5000
    assert run.summary["flows_finished"] == 20
    assert run.summary["drops_by_reason"]["codel"] == port["drops_codel"]
