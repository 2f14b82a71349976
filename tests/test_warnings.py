"""Warnings of what a run cannot show, or shows for another reason than a reader would think."""

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
