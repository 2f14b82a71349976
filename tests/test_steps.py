"""Training steps and collectives: tables, hot links, stragglers, and four planted causes that the path must name."""

from dataclasses import replace

import pauseframe as pf
import polars as pl
import pytest
from pauseframe.examples import write_example
from pauseframe.report.data import from_run
from pauseframe.run import resolve
from pauseframe.steps import critical_path, explain, tables
from pauseframe.steps.expected import Recorded, excess_of, least_us
from pauseframe.steps.idle import Collectives, Idle
from pauseframe.steps.links import Parallelism, group_of
from pauseframe.steps.path import Segment
from pauseframe.steps.schedule import Schedule
from pauseframe.steps.tables import collectives, iterations
from pauseframe.sweep.plan import Source

LINK = 'link = { rate = "10 Gbps", delay = "1 us" }'
FLAT = f'topology = {{ kind = "star", hosts = 10, {LINK} }}\n'
RACKS = f'topology = {{ kind = "leaf_spine", leaves = 2, spines = 4, hosts_per_leaf = 4, {LINK} }}\n'
COMMON = 'stop = { when_finished = true }\nclocks = "ideal"\ntransport = { preset = "roce_dcqcn" }\n'


def job(late: int = -1, iterations: int = 2) -> str:
    """A ring all-reduce of 1 MB over 8 ranks behind 500 us of compute; `late` computes 900 us."""
    ranks = [
        f"rank {rank} of 8\ncomm 0 8 all\n"
        + f"{900_000 if rank == late else 500_000} allreduce 0 1000000\n" * iterations
        + "end 0\n"
        for rank in range(8)
    ]
    text = "".join(ranks)
    return (
        '[[workload]]\nname = "train"\nkind = "application"\nalgorithms = ["allreduce = ring"]\ntimeline = true\n'
        f'placement = "round_robin"\nprogram = """\n{text}"""\n'
    )


SLOW = '[host]\nslow_receivers = [{ host = "host3", rate = "4 Gbps", buffer = "50 KB" }]\n'
BACKUP = (
    '[[workload]]\nname = "backup"\nkind = "long_flows"\nflows = [{ src = "host9", dst = "host3", stop = "30 ms" }]\n'
)
CAUSES = {
    "slow receiver": (FLAT + COMMON + SLOW + job(), FLAT + COMMON + job(), "host3 paused switch:3"),
    "ECMP collision": (RACKS + COMMON + job(), FLAT + COMMON + job(), "times the mean of the 4 uplinks of leaf"),
    "marked flow": (FLAT + COMMON + job() + BACKUP, FLAT + COMMON + job(), "it also carries backup from host9"),
    "late compute": (FLAT + COMMON + job(late=2), FLAT + COMMON + job(), "rank 2 on host2 computes 900 us"),
}
"""For each cause: a run with it, the same run without it, and the place that must be named."""


@pytest.mark.parametrize("cause", CAUSES)
def test_a_planted_cause_is_named_with_its_cost(cause):
    with_it, without, place = CAUSES[cause]
    found, clean = (from_run(pf.run(text)) for text in (with_it, without))
    (explained,), (plain,) = explain(found), explain(clean)
    assert plain.causes == []
    first = explained.causes[0]
    assert first.kind == cause
    assert place in first.text
    gained = explained.took_us - plain.took_us
    assert first.costs_us == pytest.approx(gained, rel=0.1)
    assert explained.compute_us + explained.network_us == pytest.approx(explained.took_us)


def test_a_slow_receiver_is_named_where_it_pauses_nothing():
    text = FLAT + COMMON + SLOW.replace("50 KB", "500 KB") + job()
    (explained,) = explain(from_run(pf.run(text)))
    assert explained.causes[0].kind == "slow receiver"
    assert explained.causes[0].text.startswith("host3 reads at 4 Gbps (host.slow_receivers)")


def test_the_path_follows_messages_to_their_senders():
    rows = [
        (0, "compute", 0.0, 10.0, "compute"),
        (0, "waiting", 10.0, 50.0, "receive from 1"),
        (1, "compute", 0.0, 30.0, "compute"),
    ]
    timeline = pl.DataFrame(rows, schema=["rank", "activity", "start_us", "end_us", "step"], orient="row")
    path = [(part.kind, part.rank, part.start, part.end) for part in critical_path(timeline)]
    assert path == [("compute", 1, 0.0, 30.0), ("network", 0, 30.0, 50.0)]


CALLS = pl.DataFrame(
    {
        "job": ["train"] * 3,
        "iteration": [0, 0, 0],
        "layer": ["a", "a", "b"],
        "phase": ["fp", "fp", "wg"],
        "group": ["TP", "TP", "DP"],
        "group_number": [0, 1, 0],
        "kind": ["allreduce", "allreduce", "allgather"],
        "algorithm": ["ring"] * 3,
        "ranks": [2, 2, 4],
        "bytes": [1_000_000, 1_000_000, 4_000_000],
        "start_us": [0.0, 0.0, 50.0],
        "ready_us": [10.0, 30.0, 50.0],
        "end_us": [30.0, 70.0, None],
        "algbw_gb_per_s": [50.0, 25.0, None],
        "busbw_gb_per_s": [50.0, 25.0, None],
    }
)


def test_a_collective_leads_to_the_rank_that_begins_it_last():
    rows = [
        (0, "compute", 0.0, 10.0, "compute"),
        (0, "waiting", 10.0, 30.0, "allreduce"),
        (1, "compute", 0.0, 5.0, "compute"),
        (1, "waiting", 5.0, 30.0, "allreduce"),
        (2, "compute", 0.0, 30.0, "compute"),
        (2, "waiting", 30.0, 70.0, "allreduce"),
        (3, "compute", 0.0, 5.0, "compute"),
        (3, "waiting", 5.0, 70.0, "allreduce"),
    ]
    timeline = pl.DataFrame(rows, schema=["rank", "activity", "start_us", "end_us", "step"], orient="row")
    path = [(part.kind, part.rank, part.start, part.end) for part in critical_path(timeline, CALLS)]
    assert path == [("compute", 2, 0.0, 30.0), ("network", 2, 30.0, 70.0)]
    late = timeline.filter(pl.col("rank") < 2)
    path = [(part.kind, part.rank, part.start, part.end) for part in critical_path(late, CALLS)]
    assert path == [("compute", 0, 0.0, 10.0), ("network", 0, 10.0, 30.0)]


def test_collectives_are_summed_by_kind_group_and_size():
    table = collectives(CALLS)
    assert table is not None
    assert table.rows == [
        ["allreduce TP", "ring", "2", "1 MB", "2", "30 us", "40 us", "37.5", "37.5"],
        ["allgather DP", "ring", "4", "4 MB", "1 (1 unfinished)", "–", "–", "–", "–"],
    ]


def test_a_wait_for_storage_ends_where_it_began():
    rows = [
        {"rank": 0, "activity": "compute", "start_us": 0.0, "end_us": 10.0, "step": "compute"},
        {"rank": 0, "activity": "waiting", "start_us": 10.0, "end_us": 15.0, "step": "receive from 1"},
    ]
    path = [(part.kind, part.rank, part.start, part.end) for part in critical_path(pl.DataFrame(rows))]
    assert path == [("compute", 0, 0.0, 10.0), ("network", 0, 10.0, 15.0)]


def test_iterations_show_exposed_communication():
    parts = {"compute_us": 60.0, "exposed_tp_us": 20.0, "exposed_cp_us": 0.0, "exposed_dp_us": 10.0}
    parts |= {"exposed_ep_us": 0.0, "exposed_pp_us": 0.0, "exposed_checkpoint_us": 0.0, "bubble_us": 10.0}
    jobs = pl.DataFrame([{"job": "train", "iteration_us": 100.0, **parts}])
    table = iterations(jobs)
    assert table is not None
    assert table.rows == [["train", "100 us", "60.0%", "20.0%", "0.0%", "10.0%", "0.0%", "0.0%", "0.0%", "10.0%"]]
    assert iterations(jobs.with_columns(pl.lit(None, pl.Float64).alias("iteration_us"))) is None


def test_pairs_of_ranks_belong_to_groups():
    sizes = Parallelism(tp=4, cp=1, dp=4, ep=2)
    kinds = [group_of(0, other, sizes) for other in (3, 4, 8, 5, 16)]
    assert kinds == ["TP", "EP", "DP", "across", "PP"]
    shared = Parallelism(tp=2, cp=2, dp=4, ep=1)
    assert [group_of(0, other, shared) for other in (1, 2, 4, 3, 8)] == ["TP", "CP", "DP", "across", "PP"]


def test_links_show_their_traffic_and_stragglers_their_delay():
    shown = {table.title: table for table in tables(from_run(pf.run(FLAT + COMMON + job(late=2) + BACKUP)))}
    hot = shown["hottest links"].rows[0]
    assert hot[0] == "switch:3 → host3"
    assert {part.split()[0] for part in hot[-1].split(", ")} == {"backup", "train"}
    assert shown["stragglers"].rows == [["train, rank 2 on host2", "1.8 ms", "1 ms", "+80.0%"]]


def test_what_an_idle_fabric_would_take():
    """32 GPUs in 4 servers, a rail for each."""
    servers = {rank: rank // 8 for rank in range(32)}
    idle = Idle(50_000.0, 50_000.0, servers, sizes=Parallelism(tp=8, cp=1, dp=4, ep=1))
    call = {"kind": "allreduce", "group": "DP", "group_number": 0, "algorithm": "ring", "ranks": 4, "bytes": 4_000_000}
    assert least_us(call, idle) == pytest.approx(6 * (1e6 / 50e3 + 5))
    assert least_us(call | {"group": "TP", "ranks": 8}, idle) is None
    # All 32 GPUs of 4 servers: the ring leaves each server over 8 NICs.
    whole = call | {"group": "all", "ranks": 32, "kind": "allgather"}
    assert least_us(whole, replace(idle, overhead=1.02)) == pytest.approx(31 * (1.02 * 4e6 / 32 / 8 / 50e3 + 5))
    spread = call | {"group": "all", "ranks": 32, "kind": "alltoall"}
    assert least_us(spread, idle) == pytest.approx(4e6 * 24 / 32 / 50e3 + 5)
    assert least_us(spread | {"kind": "alltoallv"}, idle, load=0.5) == pytest.approx(4e6 * 24 / 2 / 50e3 + 5)
    assert least_us(spread | {"kind": "alltoallv"}, idle) is None


def test_long_ways_and_the_cost_of_messages_are_no_fault_of_the_network():
    servers = dict(enumerate(range(4)))
    far = Idle(50_000.0, 50_000.0, servers, sizes=Parallelism(tp=1, cp=1, dp=4, ep=1), delay=200.0, farthest=200.0)
    call = {"kind": "allgather", "group": "DP", "group_number": 0, "algorithm": "ring", "ranks": 4, "bytes": 4_000_000}
    assert least_us(call, far) == pytest.approx(3 * (1e6 / 50e3 + 5 + 200))
    costly = replace(far, delay=0.0, collectives=Collectives(cost_us=200.0))
    assert least_us(call, costly) == pytest.approx(least_us(call, far))
    # The second slice of a chunk hides in the way of the first, and chunks follow each other.
    sliced = replace(far, collectives=Collectives(slice=1e6))
    assert least_us(call | {"bytes": 8_000_000}, sliced) == pytest.approx(3 * (1e6 / 50e3 + 5 + 200))
    assert least_us(call | {"bytes": 32_000_000}, sliced) == pytest.approx(4 * 3 * (1e6 / 50e3 + 5 + 200))
    single = replace(far, collectives=Collectives(slice=1e6, in_flight=1))
    assert least_us(call | {"bytes": 8_000_000}, single) == pytest.approx(2 * 3 * (1e6 / 50e3 + 5 + 200))


def test_calls_of_a_group_follow_each_other():
    idle = Idle(50_000.0, 50_000.0, dict(enumerate(range(4))), sizes=Parallelism(tp=1, cp=1, dp=4, ep=1))
    call = {"kind": "allgather", "group": "DP", "group_number": 0, "algorithm": "ring", "ranks": 4}
    rows = [
        call | {"bytes": 4_000_000, "start_us": 0.0, "ready_us": 0.0, "end_us": 75.0},
        call | {"bytes": 8_000_000, "start_us": 1.0, "ready_us": 1.0, "end_us": 210.0},
    ]
    timeline = pl.DataFrame(
        {"rank": [0], "activity": ["waiting"], "start_us": [50.0], "end_us": [210.0], "step": ["wait"]}
    )
    path = [Segment("network", 0, 50.0, 210.0, "wait", call=1)]
    # The second begins at 75 us and takes 135.
    clean = excess_of(Recorded(timeline, pl.DataFrame(rows), path), Schedule(timeline, idle))
    assert clean.longer == pytest.approx(0.0)
    rows[1]["end_us"] = 310.0
    path = [Segment("network", 0, 50.0, 310.0, "wait", call=1)]
    slow = excess_of(Recorded(timeline, pl.DataFrame(rows), path), Schedule(timeline, idle))
    assert (slow.longer, slow.expected) == pytest.approx((100.0, 160.0))


def test_a_backup_beside_a_training_step_is_named_with_its_cost(tmp_path):
    folder = write_example("training", tmp_path / "training")
    step, backup = (from_run(pf.run(folder / f"{name}.toml")) for name in ("step", "backup"))
    (plain,), (found,) = explain(step), explain(backup)
    assert plain.causes == []
    assert found.causes[0].kind == "marked flow"
    assert "gpu25 → gpu1" in found.causes[0].text
    assert "it also carries backup from gpu16" in found.causes[0].text
    assert found.causes[0].costs_us == pytest.approx(found.took_us - plain.took_us, rel=0.1)
    shown = {table.title: table.rows for table in tables(step)}
    assert shown["training steps"][0][0] == "train"
    # Groups of tensor parallelism are servers: their traffic is on no link.
    assert {row[-1] for row in shown["hottest links"]} == {"train DP"}
    busbw = {row[0]: float(row[-1]) for row in shown["collectives"]}
    assert busbw["reduce_scatter DP"] == pytest.approx(50 * 4096 / 4182, rel=0.02)


MODEL = """
name = "model"
topology = { kind = "star", hosts = 2, link = { rate = "400 Gbps", delay = "500 ns" } }
transport = { preset = "roce_dcqcn" }
[[workload]]
name = "train"
kind = "training"
layers = 1
hidden = 1024
sequence = 1
forward = "100 us"
"""


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("", []),
        ("top_k = 4", ["top_k"]),
        ("expert_parameters = 7", ["expert_parameters"]),
        ("experts = 4\ntop_k = 4\nexpert_parameters = 7", []),
    ],
)
def test_keys_of_experts_are_said_without_experts(more, said):
    """Also in the resolved scenario, which has every key."""
    scenario = resolve(MODEL + more)
    for one in (scenario, resolve(scenario.toml)):
        idle = [warning for warning in one.warnings if "changes nothing" in warning]
        assert [warning.split(":")[0].rpartition(".")[2] for warning in idle] == said


def test_a_token_goes_to_no_more_experts_than_there_are():
    with pytest.raises(pf.ScenarioError, match="a token cannot go to 64 of 4 experts"):
        resolve(MODEL + "experts = 4\ntop_k = 64")


MOE = """
topology = { kind = "star", hosts = 8, link = { rate = "400 Gbps", delay = "500 ns" } }
transport = { preset = "roce_dcqcn", rdma = { rdma_control = "none" } }
stop = { time = "10 s", when_finished = true }
[[workload]]
kind = "training"
ep = 8
layers = 2
hidden = 1024
sequence = 512
experts = 16
top_k = 2
forward = "50 us"
"""


def test_unequal_loads_of_experts_follow_the_seed_and_make_steps_longer() -> None:
    def step(skew: float, seed: int) -> tuple[float, list[float], set[str]]:
        done = pf.run(Source.read(MOE).resolve_with({"workload.expert_skew": skew}, seed=seed), progress=False)
        kinds = {str(kind) for kind in done.collectives.to_polars()["kind"]}
        return done.jobs.to_polars()["iteration_us"][0], done.ranks.to_polars()["compute_us"].to_list(), kinds

    equal, computes, kinds = step(0.0, 1)
    assert step(0.0, 2)[0] == pytest.approx(equal, rel=0.01)
    assert len(set(computes)) == 1
    assert "alltoallv" not in kinds
    one, other = step(1.0, 1), step(1.0, 2)
    assert one[0] != other[0]
    assert min(one[0], other[0]) > 1.2 * equal
    # Tokens are divided otherwise, and none are lost.
    assert sum(one[1]) == pytest.approx(sum(computes), rel=1e-6)
    assert max(one[1]) > 1.2 * min(one[1])
    assert "alltoallv" in one[2]


def test_a_skew_without_experts_changes_nothing_and_says_so() -> None:
    dense = MOE.replace("experts = 16\ntop_k = 2\n", "").replace("ep = 8\n", "")
    scenario = Source.read(dense).resolve_with({"workload.expert_skew": 1.0}, seed=1)
    assert any("expert_skew: it changes nothing" in warning for warning in scenario.warnings)
