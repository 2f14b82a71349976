"""Warnings of what a run cannot show, or shows for another reason than a reader would think."""

import re

import pauseframe as pf
import polars as pl
import pytest

STAR = """
name = "star"
stop = "1 ms"
topology = { kind = "star", hosts = 4, link = { rate = "10 Gbps", delay = "1 us" } }
"""
INCAST = '\n[[workload]]\nname = "w"\nkind = "n_to_1"\nsize = "10 KB"\n'


def warnings(text, **settings):
    return pf.run(text, progress=False, set=settings).summary["warnings"]


LATE = "workload w: it starts (5 ms) after the end of the run (1 ms): lower its start, or raise stop"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (INCAST + 'start = "5 ms"\n', LATE),
        (
            '\n[[workload]]\nname = "w"\nkind = "application"\npattern = "all_reduce"\nranks = 4\n'
            'size = "1 MB"\nstart = "5 ms"\n',
            LATE,
        ),
        (
            '\n[[workload]]\nname = "w"\nkind = "background"\nsizes = "1 KB"\n'
            'arrivals = { kind = "rate", per_host = 0.001 }\n',
            "workload w: no flow began before the end of the run: nothing was measured",
        ),
        (
            INCAST + '\n[[corruption]]\nports = ["host0:*"]\nfer = 0.5\nstart = "5 ms"\n',
            "corruption.0.start: 5 ms is after the end of the run; lower it, or raise stop",
        ),
    ],
)
def test_what_lies_outside_of_the_run_is_said_once(text, said):
    assert warnings(STAR + text) == [said]


@pytest.mark.parametrize(("rate", "stops"), [("10 Gbps", True), ("25 Gbps", True), ("100 Gbps", False)])
def test_a_window_of_nscc_below_its_acknowledgements_is_said(rate, stops):
    """Alone on its path a flow takes 1.47 times its ideal time at 10 Gb/s, and 1.00 at 100 Gb/s."""
    flow = '[[workload]]\nkind = "flows"\nflows = [{ src = "host0", dst = "host1", size = "5 MB" }]\n'
    run = pf.run(
        STAR.replace('"1 ms"', '"100 ms"') + flow,
        progress=False,
        set={"transport.preset": "uec_nscc", "topology.link.rate": rate},
    )
    said = [text for text in run.summary["warnings"] if "nscc's window" in text]
    assert (len(said) == 1) == stops
    assert (pl.DataFrame(run.flows)["slowdown"][0] > 1.1) == stops


def test_marks_behind_a_pause_of_a_slow_receiver_are_said():
    """Nobody shares the path, and DCQCN cuts: the receiver gets less than it reads."""
    text = STAR.replace('"10 Gbps"', '"100 Gbps"') + (
        '[transport]\npreset = "roce_dcqcn"\n[host]\nslow_receivers = [{ host = "host0", rate = "20 Gbps" }]\n'
        '[[workload]]\nkind = "long_flows"\nflows = [{ src = "host1", dst = "host0" }]\n'
    )
    said = [text for text in warnings(text, **{"stop.time": "20 ms"}) if "host.slow_receivers" in text]
    assert len(said) == 1
    assert not warnings(text, **{"stop.time": "20 ms", "transport.rdma_control": "none"})


@pytest.mark.parametrize(
    "workload",
    [
        'kind = "background"\nsizes = "1 B"\narrivals = { kind = "rate", per_host = 1e9 }\n',
        'kind = "background"\nsizes = "1 MB"\narrivals = { kind = "rate", per_host = 1e9 }\n',
    ],
)
def test_flows_that_pile_up_are_refused(workload):
    with pytest.raises(pf.ScenarioError, match="of its flows are open at the end"):
        pf.run(STAR + "\n[[workload]]\n" + workload, progress=False)


def test_training_without_bounds_is_refused():
    text = STAR + (
        '\n[[workload]]\nkind = "training"\nhidden = 64\nsequence = 64\nforward = "1 us"\nlayers = 1000\n'
        "micro_batches = 10000\niterations = 1\n"
    )
    with pytest.raises(pf.ScenarioError, match=r"micro_batches.*steps of a rank"):
        pf.run(text, progress=False)


NEEDED = """
stop = "1 ms"
topology = { kind = "leaf_spine", leaves = 3, spines = 2, hosts_per_leaf = 2 }
transport = { preset = "roce_dcqcn" }
[[failure]]
link = ["leaf0", "spine0"]
down = "100 us"
[[failure]]
link = ["leaf0", "spine1"]
down = "100 us"
[[workload]]
kind = "flows"
flows = [
    { src = "host2", dst = "host4", size = "6 MB" }, { src = "host3", dst = "host5", size = "6 MB" },
    { src = "host2", dst = "host3", size = "6 MB" },
]
"""


@pytest.mark.parametrize("routing", [{"routing.kind": "ecmp"}, {"routing.kind": "spray"}, {"routing.kind": "up_down"}])
def test_flows_that_need_no_dead_link_are_not_counted(routing):
    """They are merely not over at the end of the run."""
    routing = {**routing, **({"routing.convergence": "10 us"} if routing["routing.kind"] != "up_down" else {})}
    assert not [text for text in warnings(NEEDED, **routing) if text.startswith("failure:")]
    needing = NEEDED.replace('src = "host2", dst = "host4"', 'src = "host0", dst = "host4"')
    found = [text for text in warnings(needing, **routing) if text.startswith("failure:")]
    assert len(found) == 1
    assert "1 unfinished flow needs them" in found[0]


RING = """
stop = "3 ms"
routing = { convergence = "10 us" }
transport = { preset = "roce_dcqcn", rdma_control = "none" }
switch = { pfc = true }
topology = { kind = "leaf_spine", leaves = 2, spines = 2, hosts_per_leaf = 2 }
[[failure]]
node = "spine0"
down = "20 us"
[[workload]]
kind = "flows"
flows = [{ src = "host0", dst = "host2", size = "100 MB" }]
"""


def test_a_flow_with_another_way_needs_no_dead_switch():
    """Once routes have changed its packets avoid the switch; before, they need it."""
    found = [text for text in warnings(RING) if text.startswith("failure:")]
    assert found == []


def of_recovery(run):
    """Warnings of packets sent again, timeouts and waits for timers."""
    return [text for text in run.summary["warnings"] if re.match(r"transports?\S*\.(rdma_(control|time)|rto_)", text)]


LOSSY = """
topology = { kind = "star", hosts = 9, link = { rate = "100 Gbps", delay = "1 us" } }
switch = { buffer = "60 KB" }
transport = { preset = "roce_dcqcn", rdma_control = "none", lossless = false, rdma_selective_repeat = true }
workload = [{ kind = "n_to_1", size = "400 KB" }]
"""
SPRAYED = """
routing = { kind = "spray" }
topology.kind = "leaf_spine"
topology.leaves = 2
topology.spines = 4
topology.hosts_per_leaf = 4
topology.link = { rate = "100 Gbps", delay = "1 us" }
transport = { preset = "roce_dcqcn", rdma_control = "none" }
workload = [{ kind = "permutation", size = "4 MB" }]
"""
BONDED = SPRAYED.replace('kind = "spray"', 'kind = "ecmp"').replace(
    "spines = 4", "spines = 4\ntopology.ports_per_host = 2"
)
BONDED = BONDED.replace('kind = "permutation", size = "4 MB"', 'kind = "n_to_1", size = "500 KB"')
BONDED += 'host = { port_choice = "balance-rr" }\n'


def test_losses_on_one_path_are_no_overtaking():
    run = pf.run(LOSSY, progress=False)
    assert run.summary["drops"] * 2 > run.summary["retransmits"] > 1000
    [text] = [text for text in of_recovery(run) if "packets again" in text]
    assert "overtake" not in text
    assert "ecmp" not in text
    assert re.search(
        r"packets were lost; use one of DCQCN, lossless = true, a larger switch.buffer or rdma_tx_window$", text
    )


@pytest.mark.parametrize(
    ("text", "cause", "cure"),
    [
        (SPRAYED, "(routing.kind = spray)", "routing by flow"),
        (BONDED, '(host.port_choice = "balance-rr")', "a host.port_choice by flow"),
    ],
)
def test_overtaking_without_a_loss_is_no_loss(text, cause, cure):
    run = pf.run(text, progress=False)
    assert run.summary["drops"] == 0
    [said] = [warning for warning in of_recovery(run) if "packets again" in warning]
    assert f"packets that others overtake {cause} are taken for lost; use rdma_dp_ordering" in said
    assert cure in said
    assert not re.search("DCQCN|lossless|switch.buffer|tx_window", said)


STORM = """
topology = { kind = "star", hosts = 3, link = { rate = "10 Gbps", delay = "1 us" } }
transport = { preset = "roce_dcqcn", rdma_control = "none" }
pause_storm = [{ senders = ["host1"], start = "0 us", stop = "5 ms" }]
stop = { time = "20 ms", when_finished = false }
[[workload]]
kind = "flows"
flows = [{ src = "host1", dst = "host0", size = "2 KB" }]
"""


# Timers of a run without losses or failures have another warning.
IDLE_FAILURE = '[[failure]]\nlink = ["host2", "switch"]\ndown = "1 us"\n'
REQUESTS = """[[workload]]
kind = "requests"
client = "host0"
server = "host1"
count = 2
response = "2 KB"
pause = "10 ms"
"""


@pytest.mark.parametrize(("workload", "start"), [(STORM[STORM.index("[[workload]]") :], "0 us"), (REQUESTS, "2 us")])
def test_a_timer_that_expires_behind_the_end_of_a_flow_is_no_wait(workload, start):
    """The acknowledgement of its last byte waits in the pause; the data arrived after 5 us."""
    text = STORM[: STORM.index("[[workload]]")].replace("0 us", start) + IDLE_FAILURE + workload
    run = pf.run(text, progress=False)
    flows = pl.DataFrame(run.flows)
    assert max(flows["fct_us"]) < 8
    assert flows["timeouts"].sum() == 2
    assert not [text for text in of_recovery(run) if "without progress" in text]


def test_lost_last_acknowledgements_delay_nobody():
    """20 flows have ended long before the timers for their acknowledgements expire."""
    text = """
    stop = { time = "200 ms", when_finished = false }
    topology = { kind = "star", hosts = 3, link = { rate = "10 Gbps", delay = "1 us" } }
    transport = { preset = "roce_dcqcn" }
    corruption = [{ ports = ["host0:*"], fer = 0.3 }]
    workload = [{ kind = "flows", flows = [{ src = "host1", dst = "host0", size = "2 KB" }] }]
    """
    many = text.replace(
        'size = "2 KB" }', 'size = "2 KB" }, ' + ", ".join(['{ src = "host1", dst = "host0", size = "2 KB" }'] * 19)
    )
    run = pf.run(many, progress=False)
    flows = pl.DataFrame(run.flows)
    assert run.summary["drops"] > 0
    assert flows["timeouts"].sum() > 0
    assert max(flows["fct_us"]) < 1000
    assert not [text for text in of_recovery(run) if "without progress" in text]


def test_a_wait_for_a_pause_is_no_wait_for_a_loss():
    """The flow needs the network for 1.6 ms of the 5 ms in which its host is paused."""
    run = pf.run(STORM, set={"workload.0.flows.0": {"src": "host0", "dst": "host1", "size": "2 MB"}}, progress=False)
    assert run.summary["drops"] == 0
    assert pl.DataFrame(run.flows)["timeouts"].sum() > 0
    said = of_recovery(run)
    assert any("timeouts although no packet was lost" in text for text in said)
    assert not any("avoid the losses" in text for text in said)


TWO_TRANSPORTS = """
topology = { kind = "star", hosts = 9, link = { rate = "1 Gbps", delay = "1 us" } }
switch = { buffer = "4 MB" }
pause_storm = [{ senders = ["host1"], start = "0 us", stop = "5 ms" }]
[transports.nscc]
preset = "uec_nscc"
[transports.roce]
preset = "roce_swift"
[[workload]]
kind = "n_to_1"
transport = "nscc"
receiver = "host0"
size = "400 KB"
[[workload]]
kind = "flows"
transport = "roce"
flows = [{ src = "host2", dst = "host1", size = "50 KB" }]
"""


def test_each_transport_is_told_of_its_own_timer():
    said = of_recovery(pf.run(TWO_TRANSPORTS, progress=False))
    needless = [text for text in said if "although no packet was lost" in text]
    assert [text.partition(":")[0] for text in needless] == [
        "transports.nscc.rdma_timeout",
        "transports.roce.rdma_timer",
    ]
    assert not any("nscc" in text and re.search("adaptive|ibta|selective|tx_window", text) for text in said)
    ibta = pf.run(
        TWO_TRANSPORTS,
        set={"transports.roce.rdma_timer": "ibta", "transports.roce.rdma_timeout": "1 ms"},
        progress=False,
    )
    [roce] = [text for text in of_recovery(ibta) if text.startswith("transports.roce") and "although" in text]
    assert roce.startswith("transports.roce.rdma_timeout: ")
    assert "ibta" not in roce


SLOW = """
topology = { kind = "star", hosts = 3, link = { rate = "100 Gbps", delay = "1 us" } }
transport = { preset = "roce_hpcc" }
workload = [{ kind = "flows", flows = [{ src = "host0", dst = "host1", size = "2 MB" }] }]
"""


@pytest.mark.parametrize("preset", ["roce_hpcc", "uec_nscc", "roce_swift"])
@pytest.mark.parametrize(
    "changes",
    [
        {"host.slow_receivers": [{"host": "host1", "rate": "1 Gbps"}]},
        {"host.silent": ["host1"], "stop": "2 s"},
        {"transport.rdma_tx_window": "256 B", "topology.link.delay": "10 us"},
    ],
)
def test_a_window_that_something_else_keeps_empty_is_not_called_tiny(preset, changes):
    if preset == "uec_nscc" and "transport.rdma_tx_window" in changes:
        pytest.skip("NSCC has no such window")
    run = pf.run(SLOW, set={"transport.preset": preset} | changes, progress=False)
    assert not [text for text in run.summary["warnings"] if "mean window" in text]


def test_a_tiny_window_is_called_tiny():
    """64 flows share a link with room for seven packets."""
    many = SLOW.replace("hosts = 3", "hosts = 65").replace('"100 Gbps"', '"10 Gbps"')
    many = re.sub("workload = .*", 'workload = [{ kind = "n_to_1", size = "400 KB" }]', many)
    [said] = [text for text in pf.run(many, progress=False).summary["warnings"] if "mean window" in text]
    [least] = re.findall(r"least: ([\d.]+)", said)
    assert float(least) < 2


@pytest.mark.parametrize(
    "keys",
    [
        {"rdma_tx_window": "4 KB"},
        {"rdma_dp_ordering": "ooo_rw", "rdma_ooo_window": 8},
        {"rdma_connect_time": "25 ms"},
        {"rdma_cnp_on_ingress": 0.1},
    ],
)
def test_a_limit_that_a_key_sets_is_no_unfair_share(keys):
    text = """
    stop = "30 ms"
    topology = { kind = "star", hosts = 4, link = { rate = "100 Gbps", delay = "1 us" } }
    transport = { preset = "roce_dcqcn" }
    workload = [{ kind = "long_flows", flows = [{ src = "host1", dst = "host0" }] }]
    """
    run = pf.run(text, set={f"transport.{key}": value for key, value in keys.items()}, progress=False)
    assert pl.DataFrame(run.flows)["delivered_bytes"][0] * 8 / 30e-3 < 30e9
    assert not [warning for warning in run.summary["warnings"] if "max-min share" in warning]
