"""The search over what a paper leaves open: its joint set, unseen seeds, the orders turned round, and the rules of the
judge that it rests on."""

import json
import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pauseframe.reproduce import search, turned
from pauseframe.reproduce.spec import find_experiments
from pauseframe.results.places import EXPERIMENTS
from test_fabrics import cli
from test_reproduce import point, verdict

PAPER = """
title = "T"
citation = "C"
[[search]]
key = "topology.link.delay"
experiments = ["two"]
values = ["20 us", "100 us", "30 us"]
why = "Not told."
"""
EXPERIMENT = """
scenario = "two.scenario.toml"
variants = { slow = { "topology.link.rate" = "1 Gbps" }, fast = {} }
[metrics.fct]
sql = "SELECT AVG(fct_us) FROM flows"
[[claims]]
id = "T-1"
text = "A flow takes long"
kind = "within"
metric = "fct"
variant = "fast"
low = 800
[[claims]]
id = "T-2"
text = "The slow link is slower"
kind = "order"
metric = "fct"
order = ["fast", "slow"]
"""
SCENARIO = """
stop = "2 s"
topology = { kind = "star", hosts = 3, link = { rate = "10 Gbps", delay = "1 us" } }
[[workload]]
kind = "flows"
flows = [{ src = "host0", dst = "host1", size = "100 KB" }]
"""


@pytest.fixture
def folder(tmp_path):
    paper = tmp_path / "experiments" / "tiny"
    paper.mkdir(parents=True)
    for name, text in (("paper.toml", PAPER), ("two.toml", EXPERIMENT), ("two.scenario.toml", SCENARIO)):
        (paper / name).write_text(text)
    return tmp_path / "experiments"


def test_a_search_finds_the_open_value_and_judges_it_on_unseen_seeds(folder, tmp_path):
    """As stated T-1 differs, at 100 us it holds; the order turned round holds nowhere, so it changes nothing."""
    base = ("reproduce", "--experiments", folder, "--out", tmp_path / "out", "--quiet")
    assert cli(*base, "tiny/two", "--record").returncode == 0
    done = cli(*base, "tiny", "--search", "--record", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["tiny"]
    assert found == search.read(folder / "tiny")
    assert found["joint"]["settings"] == {"two": {"topology.link.delay": "100 us"}}
    assert found["joint"]["verdicts"] == {"T-1": "reproduced", "T-2": "reproduced"}
    assert search.share(found, "T-1") == (1, 4)
    assert search.turned_round(found) == (0, 1)
    assert found["turned"]["settings"] == {}
    seeds = {json.loads(path.read_text())["seed"] for path in (tmp_path / "out" / "runs").rglob("manifest.json")}
    assert seeds == {*range(1, 6), 101, 102, *range(201, 206)}


def test_the_joint_set_keeps_the_present_value_in_a_tie(folder):
    (row,) = find_experiments(folder)[0].paper.search
    points: list[Any] = [
        {"experiment": "two", "key": key, "value": value, "verdicts": {"T-1": "reproduced"}}
        for key, value in [("", None), *(("topology.link.delay", value) for value in row.values)]
    ]
    assert search.joint_settings([row], points) == {}
    points[0]["verdicts"]["T-1"] = "differs"
    assert search.joint_settings([row], points) == {"two": {"topology.link.delay": "20 us"}}


def test_twenty_orders_are_turned_round_and_do_not_hold():
    """The negative control has the orders that are recorded as reproduced, each with its opposite."""
    experiments = find_experiments()
    known: Any = {
        claim.id: {"quick": {"parts": [{"verdict": "reproduced"}] * len(claim.parts)}}
        for one in experiments
        for claim in one.spec.claims
    }
    chosen = [claim for claims in turned.orders(experiments, known).values() for claim in claims]
    assert len(chosen) == turned.COUNT
    parts = {f"{c.id}.{n}": part for one in experiments for c in one.spec.claims for n, part in enumerate(c.parts, 1)}
    for claim in chosen:
        back: Any = claim.parts[0]
        part: Any = parts[claim.id]
        if part.kind == "order":
            assert back.order == part.order[::-1]
        else:
            equal = {"factor": 1.0, "change": 0.0}[part.kind]
            assert (back.low, back.high) in {(equal, None), (None, equal)}
            assert max(back.band[0], part.band[0]) >= min(back.band[1], part.band[1]), "at most a tie is in both"


@pytest.mark.parametrize(
    ("what", "option", "told"),
    [
        ("tiny/two", [], "--search needs papers that declare keys: tiny"),
        ("tiny", ["--full"], "leave out --full"),
        ("tiny", ["--set", "seed=2"], "leave out --set"),
        ("tiny", ["--seed", "7"], "leave out --seed"),
        ("tiny", ["--seeds", "7"], "leave out --seeds"),
    ],
)
def test_a_search_refuses_what_it_cannot_use(folder, tmp_path, what, option, told):
    done = cli("reproduce", what, "--search", "--experiments", folder, "--out", tmp_path / "out", *option)
    assert done.returncode == 2
    assert told in " ".join(done.stderr.replace("│", " ").split())


def test_a_key_that_reaches_no_experiment_is_a_mistake(folder):
    path = folder / "tiny" / "paper.toml"
    path.write_text(path.read_text().replace('["two"]', '["tow"]'))
    done = cli("reproduce", "tiny", "--experiments", folder)
    assert done.returncode == 2
    assert "search.0.experiments" in done.stderr
    assert "did you mean two" in done.stderr


def test_two_seeds_that_agree_on_nothing_reproduce_nothing():
    """The mean of .13 and .74 lies in the band from .35, and no run does what the mean says."""
    points = [point("a", value, seed=seed) for seed, value in enumerate((0.13, 0.74))]
    assert verdict(points, kind="within", variant="a", low=0.35)[0] == "differs"
    assert verdict(points, kind="within", variant="a", low=0.1)[0] == "reproduced"


@pytest.mark.parametrize(
    ("held", "expected"), [(5, "reproduced"), (4, "shape only"), (1, "shape only"), (0, "differs")]
)
def test_a_single_run_of_the_paper_is_judged_by_the_share_of_ours(held, expected):
    points = [point("a", 0.7 if seed < held else 0.1, seed=seed) for seed in range(10)]
    assert verdict(points, kind="within", variant="a", low=0.35, single_run=True)[0] == expected


def test_the_best_overall_has_the_smallest_mean():
    points = [
        point(name, value, at={"bin": k})
        for k, pair in enumerate(((3.0, 2.0), (4.0, 9.0)))
        for name, value in zip("ab", pair, strict=True)
    ]
    assert verdict(points, kind="factor", of="a", over="best", overall=True, high=1.0) == ("reproduced", [1.0])
    assert verdict(points, kind="factor", of="a", over="best", across="max", high=1.0) == ("differs", [1.5])
    assert verdict(points, kind="factor", of="b", over="a", overall=True, high=1.0) == ("differs", [11 / 7])


def test_a_tie_is_within_two_per_cent_wherever_the_best_is_named():
    """Slack for ties is the same in all experiments: 2 % for "best" and "never worse", none for a difference."""
    points = [point("a", 1.019), point("b", 1.0), point("c", 1.021)]
    assert verdict(points, kind="share", of="a", over="b")[0] == "reproduced"
    assert verdict(points, kind="share", of="c", over="b")[0] == "differs"
    for experiment in find_experiments():
        for claim in experiment.spec.claims:
            for part in claim.parts:
                if part.kind == "factor" and part.over == "best" and part.low is None and part.overall:
                    assert part.high == 1.02, claim.id
                if part.kind == "order":
                    assert part.slack == 0, claim.id


def test_each_change_names_the_group_that_its_claim_is_in():
    """changes.toml says where a claim is now; one that has left the count is no claim of an experiment."""
    recount = runpy.run_path(str(Path(__file__).parents[1] / "validation" / "papers" / "recount.py"))
    groups, claims = recount["groups"], recount["judged"]()
    searched = groups.searches()
    now = {one[1].id: groups.group(one, searched) for one in claims}
    rows = groups.changes()
    assert rows
    for row in rows:
        assert now.get(row["claim"], "not counted") == row["now"], row["claim"]
        assert row["was"] != row["now"], row["claim"]
        assert row["why"], row["claim"]


def test_clocks_are_ideal_where_the_paper_simulates():
    """cee is a simulation throughout, bolt on its fat tree; the others are testbeds, whose clocks drift."""
    for path in EXPERIMENTS.glob("*/*.scenario.toml"):
        simulated = path.parent.name == "cee" or (path.parent.name, path.name) == ("bolt", "fat_tree.scenario.toml")
        if path.parent.name in {"bolt", "cee", "judd", "repro"}:
            clocks = tomllib.loads(path.read_text(encoding="utf-8")).get("clocks", "real")
            assert clocks == ("ideal" if simulated else "real"), path
