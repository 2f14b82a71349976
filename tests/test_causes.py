"""Causes of a longer critical path: the right one, at ports of the job, and none where nothing is wrong."""

from typing import Any

import pauseframe as pf
import polars as pl
import pytest
from pauseframe.report.data import from_run
from pauseframe.steps import explain
from pauseframe.steps.causes import gains_of
from pauseframe.steps.evidence import Finding
from pauseframe.steps.expected import Delayed, Excess
from pauseframe.steps.idle import Messages
from pauseframe.steps.late import late_ranks
from pauseframe.steps.links import Parallelism
from pauseframe.steps.network import Fabric, Link, Network, Traffic
from pauseframe.steps.path import Segment
from pauseframe.steps.schedule import turns

COMMON = 'stop = { when_finished = true }\nclocks = "ideal"\ntransport = { preset = "roce_dcqcn" }\n'
LINK = 'link = { rate = "100 Gbps", delay = "500 ns" }'
STAR = COMMON + f'topology = {{ kind = "star", hosts = 8, {LINK} }}\n'
FAST = STAR.replace("100 Gbps", "400 Gbps")
NO_CONTROL = '"roce_dcqcn", rdma_control = "none"'
RACKS = COMMON + f'topology = {{ kind = "leaf_spine", leaves = 3, spines = 2, hosts_per_leaf = 5, {LINK} }}\n'


def training(hosts: str = "0 1 2 3", **keys: Any) -> str:
    """A training job on these hosts: data parallel, with gradients of 4 MB, unless keys say otherwise."""
    names = [f"host{number}" for number in hosts.split()]
    usual: dict[str, Any] = {
        "layers": 1,
        "hidden": 1024,
        "sequence": 16,
        "parameters": 1_000_000,
        "forward": "100 us",
    } | keys
    lines = [f"{key} = {value if str(value).startswith('{') else _toml(value)}" for key, value in usual.items()]
    body = "\n".join([f"hosts = {names}".replace("'", '"'), f"gpus = {len(names)}", *lines])
    return f'[[workload]]\nname = "train"\nkind = "training"\ntimeline = true\n{body}\n'


def _toml(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


def flows(name: str, *pairs: tuple[int, int, str]) -> str:
    """Flows of another workload: sender, receiver and size."""
    rows = ", ".join(f'{{ src = "host{a}", dst = "host{b}", size = "{size}" }}' for a, b, size in pairs)
    return f'[[workload]]\nname = "{name}"\nkind = "flows"\nflows = [{rows}]\n'


def explained(text: str) -> Any:
    (one,) = explain(from_run(pf.run(text, progress=False)))
    return one


PIPELINE: dict[str, Any] = {"pp": 2, "layers": 4, "hidden": 4096, "sequence": 1024, "micro_batches": 4, "parameters": 0}
CONTEXT: dict[str, Any] = {"cp": 4, "layers": 2, "hidden": 4096, "sequence": 1024, "parameters": 0}
STORED: dict[str, Any] = {"parameters": 2_000_000, "checkpoint": '{ every = 1, targets = ["host7"] }'}
DELAYED: dict[str, Any] = {
    "collective": ({}, [(4, 1, "8 MB")], "switch:1"),
    "1f1b": (PIPELINE, [(4, 1, "80 MB"), (5, 1, "80 MB")], "switch:1"),
    "interleaved": (
        PIPELINE | {"schedule": "interleaved", "virtual_stages": 2},
        [(4, 1, "80 MB"), (5, 1, "80 MB")],
        "switch:1",
    ),
    "forward first": (PIPELINE | {"schedule": "as_simai"}, [(4, 1, "80 MB"), (5, 1, "80 MB")], "switch:1"),
    "ring attention": (CONTEXT, [(4, 1, "60 MB"), (5, 1, "60 MB"), (6, 1, "60 MB")], "switch:1"),
}


@pytest.mark.parametrize("kind", DELAYED)
def test_a_backup_is_named_with_its_cost_whatever_it_delays(kind):
    keys, pairs, port = DELAYED[kind]
    found = explained(STAR + training(**keys) + flows("backup", *pairs))
    plain = explained(STAR + training(**keys))
    assert plain.causes == []
    first = found.causes[0]
    assert (first.kind, len(found.causes)) == ("marked flow", 1)
    assert f"{port} marked" in first.text
    assert "it also carries backup from host" in first.text
    assert first.costs_us == pytest.approx(found.took_us - plain.took_us, rel=0.1)


def test_a_checkpoint_that_shares_its_target_is_delayed_by_the_backup():
    """Writers that share a target mark each other, so that only a run without rate control has no cause by itself."""
    text = STAR.replace('"roce_dcqcn"', NO_CONTROL) + training(**STORED)
    plain, found = explained(text), explained(text + flows("backup", (4, 7, "20 MB"), (5, 7, "20 MB")))
    assert plain.causes == []
    assert found.causes[0].kind == "marked flow"
    assert "host7" in found.causes[0].text
    assert "it also carries backup from host" in found.causes[0].text
    assert found.causes[0].costs_us == pytest.approx(found.took_us - plain.took_us, rel=0.1)


def test_a_backup_that_leaves_by_a_nic_of_the_job_is_named():
    plain = explained(STAR + training())
    found = explained(STAR + training() + flows("backup", (1, 4, "8 MB")))
    first = found.causes[0]
    assert first.kind == "shared link"
    assert first.text.startswith("host1:0 also carries backup to host4")
    assert first.costs_us == pytest.approx(found.took_us - plain.took_us, rel=0.1)


OTHERS = flows("other", (5, 11, "6 MB"), (6, 12, "6 MB"), (7, 10, "1 KB"), (8, 10, "1 KB"), (9, 10, "1 KB"))
BACKUP = flows("backup", (4, 1, "6 MB"))


def test_ports_that_the_job_does_not_use_are_no_cause():
    """Two other flows collide on an uplink of another leaf; the job and its backup stay inside of leaf0."""
    plain, found = explained(RACKS + training()), explained(RACKS + training() + BACKUP + OTHERS)
    assert [cause.kind for cause in found.causes] == ["marked flow"]
    assert "host0 → host1" in found.causes[0].text
    assert "backup from host4" in found.causes[0].text
    assert found.causes[0].costs_us == pytest.approx(found.took_us - plain.took_us, rel=0.1)
    assert explained(RACKS + training() + OTHERS).causes == []


def slow(rate: str) -> str:
    return f'[host]\nslow_receivers = [{{ host = "host3", rate = {rate} }}]\n'


@pytest.mark.parametrize("rate", ['"200 Gbps"', '"1 Gbps", stop = "10 us"'])
def test_a_receiver_that_is_never_slow_is_no_cause(rate):
    found = explained(RACKS + slow(rate) + training() + BACKUP)
    assert [cause.kind for cause in found.causes] == ["marked flow"]
    assert explained(RACKS + slow(rate) + training()).causes == []


def test_of_two_causes_the_costlier_is_named_with_what_the_other_leaves():
    both = explained(RACKS + slow('"40 Gbps"') + training() + BACKUP)
    without_slow = explained(RACKS + training() + BACKUP)
    assert [cause.kind for cause in both.causes] == ["slow receiver", "marked flow"]
    first, second = both.causes
    gained = both.took_us - without_slow.took_us
    assert first.costs_us == pytest.approx(gained, rel=0.3)
    # The slow receiver alone makes the step as long, so that without the backup nothing is gained.
    assert second.costs_us is None


def test_a_collision_beside_an_unused_uplink_is_named_with_its_cost():
    wide = COMMON + f'topology = {{ kind = "leaf_spine", leaves = 2, spines = 2, hosts_per_leaf = 6, {LINK} }}\n'
    found, plain = explained(wide + training("0 7 1 8")), explained(wide + training("0 1 2 3"))
    assert [cause.kind for cause in found.causes] == ["ECMP collision"]
    assert "leaf0:7 carries" in found.causes[0].text
    assert "2 times the mean of the 2 uplinks of leaf0" in found.causes[0].text
    assert found.causes[0].costs_us == pytest.approx(found.took_us - plain.took_us, rel=0.1)


UNEVEN: dict[str, Any] = {
    "experts": 16,
    "ep": 4,
    "hidden": 2048,
    "sequence": 512,
    "expert_skew": 1.2,
    "expert_parameters": 1,
}
QUIET = {
    "long links": (STAR.replace("500 ns", "100 us"), {"iterations": 2}),
    "long links, many slices": (FAST.replace("500 ns", "100 us"), {"parameters": 30_000_000}),
    "long links, exchanges": (
        STAR.replace("500 ns", "100 us"),
        {"experts": 4, "ep": 4, "hidden": 4096, "sequence": 1024, "expert_parameters": 1},
    ),
    "long links, stages": (STAR.replace("500 ns", "100 us"), PIPELINE | {"sequence": 64}),
    "costly messages": (STAR, {"collectives": '{ message_cost = "200 us" }'}),
    "oversubscribed": (
        COMMON + 'topology = { kind = "leaf_spine", leaves = 2, spines = 1, hosts_per_leaf = 2, '
        'link = { rate = "100 Gbps", delay = "500 ns" }, fabric_link = { rate = "50 Gbps", delay = "500 ns" } }\n',
        {"hosts": "0 2 1 3"},
    ),
    "uneven experts": (STAR, UNEVEN),
    "checkpoints beside steps": (
        STAR,
        {"iterations": 3, "forward": "300 us", "parameters": 2_000_000}
        | {"checkpoint": '{ every = 1, targets = ["host7"], mode = "async" }'},
    ),
}


@pytest.mark.parametrize("kind", QUIET)
def test_a_network_without_a_fault_has_no_cause(kind):
    fabric, keys = QUIET[kind]
    found = explained(fabric.replace('"roce_dcqcn"', NO_CONTROL) + training(**keys))
    assert [cause.text for cause in found.causes if cause.kind != "late compute"] == []


def test_marks_of_the_jobs_own_bytes_cost_what_rate_control_costs():
    """The load of the experts is no fault of the network; what DCQCN makes of their incast is one."""
    text = STAR + training(**UNEVEN)
    marked, free = explained(text), explained(text.replace('"roce_dcqcn"', NO_CONTROL))
    (own,) = [cause for cause in marked.causes if cause.kind == "marked flow"]
    assert "it also carries" not in own.text
    assert own.costs_us == pytest.approx(marked.took_us - free.took_us, rel=0.15)


@pytest.mark.parametrize(
    "keys",
    [
        {"pp": 4, "layers": 4, "micro_batches": 4, "backward": "300 us"},
        {"pp": 4, "layers": 8, "micro_batches": 8, "backward": "1 ms", "schedule": "interleaved", "virtual_stages": 2},
        {"pp": 2, "cp": 2, "layers": 4, "micro_batches": 8, "backward": "200 us", "hidden": 128, "sequence": 4096},
    ],
)
def test_equal_stages_have_no_late_rank(keys):
    assert explained(FAST + training(**keys, parameters=0)).causes == []


def timeline(durations: dict[int, list[float]], step: str = "") -> pl.DataFrame:
    """Computations of ranks, one after the other, and a wait of rank 0 before them."""
    rows = [(0, "waiting", 0.0, 1.0, step)] if step else []
    for rank, own in durations.items():
        start = 1.0
        for took in own:
            rows.append((rank, "compute", start, start + took, "compute"))
            start += took
    return pl.DataFrame(rows, schema=["rank", "activity", "start_us", "end_us", "step"], orient="row")


def whole_path(rank: int, own: list[float]) -> list[Segment]:
    return [Segment("compute", rank, 0.0, took, "compute", number) for number, took in enumerate(own)]


def test_a_late_stage_is_found_whatever_the_order_of_its_computations():
    durations = {0: [1.0, 1.0, 3.0, 3.0], 1: [1.0, 3.0, 1.0, 3.0], 2: [1.5, 4.5, 1.5, 4.5], 3: [1.0, 3.0, 1.0, 3.0]}
    rows = timeline(durations, "receive from 1")
    stages = Parallelism(tp=1, cp=1, dp=1, ep=1, pp=4)
    (late,) = late_ranks(rows, whole_path(2, durations[2]), stages)
    assert (late.rank, late.own, late.usual, late.times) == (2, 4.5, 3.0, 4)
    assert late.cost == pytest.approx(4.0)
    for rank in (0, 1, 3):
        assert late_ranks(rows, whole_path(rank, durations[rank]), stages) == []
    # Ranks of one stage, and of a job without messages, compute the same things in the same order.
    turned = {0: [1.0, 9.0, 1.0], 1: [9.0, 1.0, 1.0], 2: [1.0, 1.0, 9.0], 3: [1.0, 1.0, 1.0]}
    for sizes in (Parallelism(tp=1, cp=1, dp=4, ep=1), None):
        (late,) = late_ranks(timeline(turned), whole_path(0, turned[0]), sizes)
        assert (late.own, late.usual, late.times) == (9.0, 1.0, 1)


def test_turns_are_those_of_the_simulator():
    """The order of Megatron's schedules, of two stages and four micro-batches."""

    def order(schedule: str, chunks: int, stage: int) -> str:
        messages = Messages(per_stage=4, chunks=chunks, schedule=schedule)
        found = turns(messages, stage, 2)
        return " ".join(f"{'f' if one.is_forward else 'b'}{one.batch}{'ab'[one.chunk]}" for one in found)

    assert order("1f1b", 1, 0) == "f0a f1a b0a f2a b1a f3a b2a b3a"
    assert order("1f1b", 1, 1) == "f0a b0a f1a b1a f2a b2a f3a b3a"
    assert order("as_simai", 1, 0) == "f0a f1a f2a f3a b3a b2a b1a b0a"
    assert order("interleaved", 2, 1).startswith("f0a f1a f0b b0b f1b b1b f2a b0a")


def test_groups_are_numbered_as_in_the_table_of_collectives():
    sizes = Parallelism(tp=2, cp=2, dp=4, ep=2, pp=2)
    assert sizes.members("TP", 3) == [6, 7]
    assert sizes.members("DP", 1) == [1, 3, 5, 7]
    assert sizes.members("CP", 2) == [4, 6]
    assert sizes.members("EP", 2) == [4, 6]
    assert sizes.members("DP_EP", 0) == [0, 4]
    assert sizes.members("all", 0) == list(range(16))


def network(pairs: dict[tuple[str, str], float], **more: Any) -> Network:
    """A job on three leaves of two hosts, with two spines and one link more, from leaf2 to spine0."""
    ends = [(f"h{leaf}{host}", f"leaf{leaf}") for leaf in range(3) for host in range(2)]
    ends += [(f"leaf{leaf}", f"spine{spine}") for leaf in range(3) for spine in range(2)] + [("leaf2", "spine0")]
    links = [Link(f"{a}:{at}", a, b, 100.0, 0.5) for at, (a, b) in enumerate(ends)]
    links += [Link(f"{b}:{at}", b, a, 100.0, 0.5) for at, (a, b) in enumerate(ends)]
    fabric = Fabric(links, frozenset(a for a, b in ends if a.startswith("h")))
    usual: dict[str, Any] = {"is_shortest": True, "recorded": None, "failed": frozenset()} | more
    return Network(fabric, Traffic(pairs, {}), **usual)


def test_only_links_on_shortest_paths_of_the_job_count():
    used = network({("h00", "h10"): 8.0, ("h20", "h21"): 8.0})
    crossed = {link.port for link in used.fabric.links if used.crossing(link) and link.node not in used.fabric.hosts}
    assert crossed == {"leaf0:6", "leaf0:7", "spine0:8", "spine1:9"}
    assert used.pairs == {("leaf0", "leaf1"): 8.0}
    assert used.fabric.delay("h00", "h10") == pytest.approx(2.0)
    assert used.fabric.delay("h20", "h21") == pytest.approx(1.0)
    recorded = network({("h00", "h10"): 8.0}, recorded=frozenset({"leaf0:6"}))
    assert not recorded.crossing(recorded.fabric.by_port["leaf0:7"])


def test_equal_links_are_next_hops_of_a_switch_or_links_into_the_next():
    def equal(port: str, **more: object) -> set[str]:
        used = network({("h00", "h10"): 8.0, ("h20", "h10"): 8.0}, **more)
        return {link.port for link in used.equal(used.fabric.by_port[port])}

    assert equal("leaf0:6") == {"leaf0:6", "leaf0:7"}
    assert equal("leaf2:10") == {"leaf2:10", "leaf2:11", "leaf2:12"}
    assert equal("spine0:8") == {"spine0:8", "spine1:9"}
    failed = frozenset({("leaf2", "spine1"), ("spine1", "leaf2")})
    assert equal("leaf2:10", failed=failed) == {"leaf2:10", "leaf2:12"}


def test_a_cause_costs_what_the_next_worst_at_its_place_leaves():
    hosts = {0: "host0", 1: "host1", 2: "host2"}
    slow = Finding("slow receiver", "", 30.0, "host1", "host1")
    shared = Finding("marked flow", "", 10.0, "backup", "host0")
    stored = Finding("marked flow", "", 5.0, "other", "host7")
    parts = [Delayed(60.0, frozenset({0, 1})), Delayed(12.0, frozenset({0})), Delayed(9.0, frozenset({2, "host7"}))]
    gains = gains_of([slow, shared, stored], Excess(81.0, 100.0, parts), hosts)
    assert gains == pytest.approx({slow: 40.0, shared: 12.0, stored: 9.0})
    elsewhere = Finding("marked flow", "", 50.0, "more", "host3")
    assert elsewhere not in gains_of([slow, elsewhere], Excess(81.0, 100.0, parts), hosts)
