"""The judge of claims on hand-made points, metrics on a real run, and an experiment from file to verdict."""

import html
import json
import math
import re
import runpy
import shlex
import tomllib
from pathlib import Path

import polars as pl
import pytest
import test_cli
from pauseframe import InputError, RunError, ScenarioError
from pauseframe.reproduce import expected, plots
from pauseframe.reproduce.command import measured
from pauseframe.reproduce.judge import Judgement, Measured, judge
from pauseframe.reproduce.measure import _rows, measure
from pauseframe.reproduce.points import Point
from pauseframe.reproduce.run import plan, plan_stage, reproduce
from pauseframe.reproduce.scan import settings
from pauseframe.reproduce.spec import Claim, Metric, Plot, find_experiments, select
from test_fabrics import cli


def point(variant, value, seed=1, at=None, axes=None, metric="m"):
    return Point(variant, seed, metric, value, at or {}, axes or {})


def claim_of(**part):
    return Claim.model_validate({"id": "X-1", "parts": [{"metric": "m", **part}]})


def verdict(points, **part):
    judgement = judge(claim_of(**part), points)
    return judgement.verdict, judgement.parts[0].values


def test_factor_at_shared_keys():
    points = [
        point("a", 8.0, at={"bin": 1}),
        point("b", 2.0, at={"bin": 1}),
        point("a", 9.0, at={"bin": 2}),
        point("b", 3.0, at={"bin": 2}),
        point("a", 100.0, at={"bin": 3}),
    ]
    rule = {"kind": "factor", "of": "a", "over": "b"}
    assert verdict(points, **rule, across="min", low=2.5) == ("reproduced", [3.0])
    assert verdict(points, **rule, across="max", low=5, theirs=8.0) == ("shape only", [4.0])
    assert verdict(points, **rule, across="max", low=5) == ("differs", [4.0])
    assert verdict(points, **rule, across="mean", high=0.5) == ("differs", [3.5])
    assert verdict(points, **rule, at={"bin": 2}, low=2.9, high=3.1) == ("reproduced", [3.0])
    with pytest.raises(ValueError, match="across"):
        verdict(points, **rule, low=1)


def test_best_is_the_smallest_at_each_key():
    points = [point("a", 6.0), point("b", 3.0), point("c", 2.0)]
    assert verdict(points, kind="factor", of="a", over="best", low=3)[1] == [3.0]
    assert verdict(points, kind="factor", of="a", over="best", only=["a", "b"], low=2)[1] == [2.0]


def test_the_median_over_seeds_decides():
    points = [point("a", value, seed=seed) for seed, value in enumerate([1.0, 5.0, 6.0])]
    judgement = judge(claim_of(kind="within", variant="a", low=4, high=6), points)
    assert judgement.verdict == "reproduced"
    assert judgement.holds_in == (2, 3)


@pytest.mark.parametrize(
    ("rule", "value", "expected"),
    [
        # Within a factor of 2 of the paper's number, and on the same side of 1.
        ({"kind": "factor", "low": 8, "theirs": 10.0}, 5.0, "shape only"),
        ({"kind": "factor", "low": 8, "theirs": 10.0}, 4.9, "differs"),
        ({"kind": "factor", "low": 1.4, "high": 1.45, "theirs": 1.5}, 1.0, "differs"),
        ({"kind": "factor", "low": 1.4, "high": 1.45, "theirs": 1.5}, 3.1, "differs"),
        ({"kind": "factor", "low": 0.4, "high": 0.5, "theirs": 0.6}, 1.0, "differs"),
        ({"kind": "factor", "low": 0.9, "high": 1.1, "theirs": 1.0}, 2.0, "shape only"),
        ({"kind": "factor", "low": 2, "high": 2.5, "theirs": [1.5, 3.0]}, 6.0, "shape only"),
        # A gain of 0.4 % does not have the shape of a gain of 49 %, and neither has a loss.
        ({"kind": "change", "low": -0.65, "high": -0.3, "theirs": -0.49}, 0.996, "differs"),
        ({"kind": "change", "low": -0.65, "high": -0.3, "theirs": -0.49}, 0.75, "shape only"),
        ({"kind": "change", "low": -0.65, "high": -0.3, "theirs": -0.49}, 1.49, "differs"),
        ({"kind": "change", "low": 0.6, "high": 2.2, "theirs": 1.31}, 3.3, "shape only"),
    ],
)
def test_shape_only_is_within_two_of_the_papers_number(rule, value, expected):
    points = [point("a", value), point("b", 1.0)]
    assert verdict(points, of="a", over="b", **rule)[0] == expected


def test_every_shape_band_has_a_bottom_and_a_top():
    for experiment in find_experiments():
        for claim in experiment.spec.claims:
            for part in claim.parts:
                assert part.theirs is None or all(map(math.isfinite, part.shape)), claim.id


@pytest.mark.parametrize(("right", "expected"), [(10, "reproduced"), (9, "reproduced"), (8, "differs")])
@pytest.mark.parametrize(
    "rule", [{"kind": "order", "order": ["b", "a"]}, {"kind": "factor", "of": "a", "over": "b", "low": 1}]
)
def test_an_order_holds_in_nine_tenths_of_the_seeds(rule, right, expected):
    points = [
        point(name, 2.0 if name == "a" and seed < right else 1.5 - 0.1 * (name == "a"), seed=seed)
        for seed in range(10)
        for name in "ab"
    ]
    assert verdict(points, **rule)[0] == expected


@pytest.mark.parametrize(
    ("values", "edge"),
    [([5.0, 5.1, 5.2, 5.3, 5.4], False), ([4.05, 4.5, 4.6, 4.8, 4.9], True), ([3.0, 3.9, 4.1, 4.2, 4.3], True)],
)
def test_a_number_that_other_seeds_may_judge_otherwise_is_at_the_edge(values, edge):
    points = [point("a", value, seed=seed) for seed, value in enumerate(values)]
    (part,) = judge(claim_of(kind="within", variant="a", low=4, high=6), points).parts
    assert (part.verdict, part.at_edge) == ("reproduced", edge)


@pytest.mark.parametrize(
    ("values", "edge"),
    [
        ([1.2, 1.25, 1.3, 1.35, 1.36], False),
        ([1.05, 1.06, 1.19, 1.25, 1.26], True),
        ([0.96, 1.2, 1.25, 1.3, 1.3], True),
    ],
)
def test_an_order_that_one_of_five_other_seeds_may_turn_round_is_at_the_edge(values, edge):
    """The median of the second is 1.19; no median of five other seeds would be below 1, but one of the five may be."""
    points = [point("a", 1.0, seed=seed) for seed in range(5)] + [
        point("b", value, seed=seed) for seed, value in enumerate(values)
    ]
    (part,) = judge(claim_of(kind="order", order=["a", "b"]), points).parts
    assert part.at_edge == edge


def test_the_flags_at_the_edge_are_those_of_the_judge():
    """verdicts.json stores the edge flags; a change to the judge requires new flags."""
    known = expected.read(ROOT / "python/pauseframe/experiments")
    claims = {claim.id: claim for experiment in find_experiments() for claim in experiment.spec.claims}
    for identifier, sizes in known.items():
        for size, entry in sizes.items():
            for number, (part, found) in enumerate(zip(claims[identifier].parts, entry["parts"], strict=True)):
                by_seed = {int(seed): value for seed, value in found["by_seed"].items()}
                again = Measured(part, by_seed, found["verdict"])
                assert again.at_edge == found["at_edge"], f"{identifier}.{number + 1}, {size}"


def test_two_zeros_are_in_no_order():
    assert verdict([point("a", 0.0), point("b", 0.0)], kind="order", order=["a", "b"])[0] == "not run"


def test_over_zero_there_is_no_factor():
    """Neither 0/0 nor 5/0 is a factor, and JSON has no infinity."""
    for value in (0.0, 5.0):
        points = [point("a", value), point("b", 0.0)]
        assert verdict(points, kind="factor", of="a", over="b", low=2) == ("not run", [])
        assert verdict(points, kind="change", of="a", over="b", low=2) == ("not run", [])
    rising = [point("a", 0.0), point("b", 5.0)]
    kind, (number,) = verdict(rising, kind="order", order=["a", "b"])
    assert kind == "reproduced"
    assert math.isfinite(number)


def test_explained():
    points = [point("a", value, at={"of": name}) for name, value in (("all", 10.0), ("calm", 4.0))]
    points.append(point("b", 2.0, at={"of": "all"}))
    rule = {"of": {"variant": "a", "at": {"of": "all"}}, "without": {"variant": "a", "at": {"of": "calm"}}}
    assert verdict(points, kind="explained", over={"variant": "b"}, low=0.6, **rule) == ("reproduced", [0.75])


def test_a_percentile_without_samples_beyond_it_is_refused():
    def tail(seeds):
        points = [Point("a", seed, "m", 5.0, {}, {}, 300, 3.0) for seed in range(seeds)]
        return judge(claim_of(kind="within", variant="a", low=1), points).parts[0]

    assert (tail(4).verdict, tail(4).samples) == ("reproduced", 1200)
    assert tail(3).verdict == "not run"
    assert tail(3).note == (
        "refused: 900 samples are too few: only about 9 lie beyond the percentile, and 10 are needed"
    )
    few = measured(Judgement(claim_of(kind="within", variant="a", low=1), [tail(3), tail(4)]))
    assert few.endswith(
        " = 5 (900 samples are too few: only about 9 lie beyond the percentile, and 10 are needed); m: a = 5"
    )


def test_samples_are_counted_where_they_are_taken():
    values = [*map(float, range(200)), 1.0, 2.0, 3.0, 6.0]
    frame = pl.DataFrame({"bin": ["x"] * 200 + ["y"] * 4, "value": values})
    x, y = _rows("m", frame, "p95")
    assert (x.at, x.samples, y.samples) == ({"bin": "x"}, 200, 4)
    assert [x.value, x.beyond, y.beyond] == pytest.approx([189.05, 10, 0.2])
    assert [row.value for row in _rows("m", frame, "mean")] == [99.5, 3.0]
    assert [row.beyond for row in _rows("m", frame, "median")] == [None, None]
    assert len(_rows("m", frame, "value")) == 204


def test_a_percentile_in_sql_is_a_mistake(folder):
    path = folder / "tiny" / "two.toml"
    path.write_text(path.read_text().replace("AVG(fct_us)", "QUANTILE_CONT(fct_us, 0.99)"))
    with pytest.raises(ScenarioError, match=r"metrics.fct.sql.*say `take = 'p99'`"):
        find_experiments(folder)


@pytest.mark.parametrize(
    ("values", "expected"), [([1, 2, 3], "reproduced"), ([1, 0.97, 3], "reproduced"), ([2, 1, 3], "differs")]
)
def test_order(values, expected):
    points = [point(name, value) for name, value in zip("abc", values, strict=True)]
    assert verdict(points, kind="order", order=["a", "b", "c"], slack=0.05)[0] == expected


def test_zero_share_crossover_monotone():
    assert verdict([point("a", 0.0)], kind="zero", variant="a")[0] == "reproduced"
    assert verdict([point("a", 1.0)], kind="zero", variant="a")[0] == "differs"
    rising = [point("a", value, axes={"size": size}) for size, value in (("1 KB", 1.0), ("1 MB", 4.0), ("20 KB", 2.0))]
    assert verdict(rising, kind="monotone", variant="a", along="size") == ("reproduced", [1.0])
    assert verdict(rising, kind="monotone", variant="a", along="size", direction="falling")[0] == "differs"
    flat = [point("b", 3.0, axes={"size": size}) for size in ("1 KB", "1 MB", "20 KB")]
    kind, values = verdict(rising + flat, kind="crossover", of="a", over="b", along="size", low=20e3, high=1e6)
    assert (kind, values) == ("reproduced", [20e3 + 980e3 / 2])
    assert verdict(rising + flat, kind="share", of="a", over="b", least=0.6) == ("reproduced", [pytest.approx(2 / 3)])


def test_lists_of_variants():
    """Lists of variants are compared pair by pair, each at its own key; an order compares means over lists."""
    points = [point(name, value, axes={"cc": cc}) for name, cc, value in (
        ("a", "x", 1.0), ("a", "y", 2.0), ("b", "x", 4.0), ("b", "y", 4.0), ("c", "x", 8.0), ("c", "y", 1.0),
    )]  # fmt: skip
    rule = {"kind": "factor", "of": ["b", "c"], "over": ["a", "b"]}
    assert verdict(points, across="max", low=1, **rule) == ("reproduced", [4.0])
    assert verdict(points, across="min", low=1, **rule) == ("differs", [0.25])
    assert verdict(points, kind="share", of=["b", "c"], over=["a", "b"], least=0.5) == ("differs", [0.25])
    x, y = ([{"variant": name, "at": {"cc": cc}} for name in "abc"] for cc in "xy")
    assert verdict(points, kind="order", order=[y, x], across="mean") == ("reproduced", [pytest.approx(13 / 7)])


def test_a_list_names_variants_that_there_are(folder):
    path = folder / "tiny" / "two.toml"
    path.write_text(path.read_text().replace('of = "slow"', 'of = ["slow", "nobody"]'))
    with pytest.raises(ScenarioError, match="nobody: is not one of slow, fast"):
        find_experiments(folder)


def test_nothing_measured_is_not_run():
    assert verdict([], kind="within", variant="a", low=0)[0] == "not run"


@pytest.fixture
def folder(tmp_path):
    """A paper with one experiment of two tiny runs."""
    paper = tmp_path / "experiments" / "tiny"
    paper.mkdir(parents=True)
    (paper / "paper.toml").write_text('title = "T"\ncitation = "C"\n')
    (paper / "two.scenario.toml").write_text(
        'stop = "2 s"\ntopology = { kind = "star", hosts = 3, link = { rate = "10 Gbps", delay = "1 us" } }\n'
        '[[workload]]\nkind = "flows"\nflows = [{ src = "host0", dst = "host1", size = "100 KB" }]\n'
    )
    (paper / "two.toml").write_text(
        """
title = "Two"
scenario = "two.scenario.toml"
variants = { slow = { "topology.link.rate" = "1 Gbps" }, fast = {} }
[metrics.fct]
sql = "SELECT AVG(fct_us) FROM flows"
[[plots]]
metric = "fct"
kind = "bars"
y_label = "µs"
[[claims]]
id = "T-1"
text = "Slow <b>is</b> slower"
kind = "factor"
metric = "fct"
of = "slow"
over = "fast"
low = 8
high = 10
"""
    )
    return tmp_path / "experiments"


def test_from_file_to_verdict(folder, tmp_path):
    done = cli("reproduce", "tiny/two", "--experiments", folder, "--out", tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    (record,) = json.loads(done.stdout)
    assert record["verdict"] == "reproduced"
    assert record["experiment"] == "tiny/two@1"
    assert record["measured"][0] > 8
    assert json.loads((tmp_path / "out" / "verdicts.json").read_text()) == [record]
    page = (tmp_path / "out" / "tiny.html").read_text()
    assert "Slow &lt;b&gt;is&lt;/b&gt; slower" in page
    assert f"pauseframe reproduce tiny/two --quick --seed 1 --seeds 5 --experiments {folder}<" in page
    index = (tmp_path / "out" / "index.html").read_text()
    assert "tiny.html#T-1" in index
    assert "<h1>One paper, claim by claim</h1>" in index
    run = next(path.parent for path in (tmp_path / "out" / "runs").rglob("flows.parquet"))
    (row,) = measure(run, {"n": Metric(sql="SELECT flows_total FROM summary")})
    assert row.value == pl.read_parquet(run / "flows.parquet").height == 1
    with pytest.raises(RunError, match="metric n"):
        measure(run, {"n": Metric(sql="SELECT nothing FROM flows")})


def test_a_verdict_that_is_not_the_known_one_fails(folder, tmp_path):
    arguments = ("reproduce", "tiny/two", "--experiments", folder, "--out", tmp_path / "out", "--quiet")
    unknown = cli(*arguments, "--expect", "--seeds", "1")
    assert (unknown.returncode, unknown.stderr) == (1, "T-1: reproduced, not known before\n")
    assert cli(*arguments, "--record", "--seeds", "1").returncode == 2
    assert cli(*arguments, "--record").returncode == 0
    known = json.loads((folder / "verdicts.json").read_text())
    (part,) = known["T-1"]["quick"]["parts"]
    assert (known["T-1"]["quick"]["verdict"], part["held"], list(part["by_seed"])) == ("reproduced", 5, list("12345"))
    assert 8 < part["median"] < 10
    seeded = (*arguments, "--expect", "--seeds", "1")
    assert (cli(*seeded).returncode, cli(*seeded).stderr) == (0, "")
    page = (tmp_path / "out" / "tiny.html").read_text()
    assert "reproduced over 5 seeds; its part is in the band with 5 of them" in page
    assert "Made with seed 1; the verdicts that are known are of seeds 1 to 5." in page
    known["T-1"]["quick"]["parts"][0]["by_seed"]["1"] = 7.5
    (folder / "verdicts.json").write_text(json.dumps(known))
    changed = cli(*seeded)
    assert changed.returncode == 1
    assert changed.stderr.startswith("T-1.1: was differs (7.5), is now reproduced (")
    assert list(known["T-1"]) == ["quick", "full"], "its reduced size is the paper's"
    two = folder / "tiny" / "two.toml"
    two.write_text(two.read_text().replace("[metrics.fct]", '[quick]\nset = { stop = "1 s" }\n[metrics.fct]'))
    (folder / "verdicts.json").unlink()
    for size, recorded in (("--quick", ["quick"]), ("--full", ["quick", "full"])):
        assert cli(*arguments, size, "--record").returncode == 0
        assert list(json.loads((folder / "verdicts.json").read_text())["T-1"]) == recorded


def test_the_number_of_claims_has_its_verb(folder, tmp_path):
    path, out = folder / "tiny" / "two.toml", tmp_path / "out"
    arguments = ("reproduce", "tiny/two", "--experiments", folder, "--out", out, "--seeds", "1")
    changed = (*arguments, "--set", "topology.link.delay=1 ms")
    assert "\n1 differs\n" in cli(*changed).stdout
    text = path.read_text()
    path.write_text(text + text[text.index("[[claims]]") :].replace("T-1", "T-2"))
    assert "\n2 differ\n" in cli(*changed).stdout
    assert ">2 differ<" in (out / "index.html").read_text()


def test_what_a_parameter_decides(folder, tmp_path):
    """--set applies before experiment and variant, and disables recording."""
    arguments = ("reproduce", "tiny/two", "--experiments", folder, "--out", tmp_path / "out", "--seeds", "1")
    changed = (*arguments, "--set", "topology.link.delay=1 ms")
    (record,) = json.loads(cli(*changed, "--json").stdout)
    assert record["verdict"] == "differs"
    for page in ("tiny.html", "index.html"):
        assert "Made with topology.link.delay = 1 ms: not the paper" in (tmp_path / "out" / page).read_text()
    assert cli(*changed, "--expect").returncode == 2
    assert "topology.link.dely" in cli(*arguments, "--set", "topology.link.dely=1 ms").stderr


def test_the_page_has_the_command_that_made_it(folder, tmp_path):
    """The same claims come from it, whatever options the command had."""
    options = ("--set", "topology.link.delay=1 ms", "--set", "switch.buffer=900 KB", "--seed", "3", "--seeds", "2")
    arguments = ("reproduce", "tiny/two", "--experiments", folder, *options)
    (record,) = json.loads(cli(*arguments, "--out", tmp_path / "out", "--json").stdout)
    page = (tmp_path / "out" / "tiny.html").read_text()
    (command,) = re.findall(r"<pre>pauseframe (reproduce .*?)</pre>", page)
    words = shlex.split(html.unescape(command))
    (again,) = json.loads(cli(*words, "--out", tmp_path / "again", "--json").stdout)
    assert again == record
    assert record["seeds"] == 2
    index = (tmp_path / "out" / "index.html").read_text()
    assert "tiny/two: made with seeds 3 to 4; the verdicts that are known are of seeds 1 to 5." in index


def test_other_settings_have_a_folder_of_their_own(folder, tmp_path):
    arguments = ("reproduce", "tiny/two", "--experiments", folder, "--seeds", "1", "--quiet")
    assert cli(*arguments, cwd=tmp_path).returncode == 0
    known = (tmp_path / "results/reproduce/verdicts.json").read_bytes()
    assert cli(*arguments, "--set", "topology.link.delay=1 ms", cwd=tmp_path).returncode == 0
    assert (tmp_path / "results/reproduce/verdicts.json").read_bytes() == known
    assert (tmp_path / "results/reproduce-delay=1ms/verdicts.json").is_file()


def test_a_seed_is_a_whole_number(folder, tmp_path):
    for seed in ("-3", str(2**64)):
        done = cli("reproduce", "tiny/two", "--experiments", folder, "--seed", seed, cwd=tmp_path)
        assert (done.returncode, "--seed" in done.stderr) == (2, True)


def test_numbers_in_why_come_from_results(folder, tmp_path):
    path = folder / "tiny" / "two.toml"
    text = path.read_text().replace('id = "T-1"', 'id = "T-1"\nwhy = "{fct|slow} us, {X-M1.1 %}"')
    path.write_text(text)
    done = cli("reproduce", "T-1", "--experiments", folder, "--out", tmp_path / "out", "--json", "--seeds", "1")
    (record,) = json.loads(done.stdout)
    assert re.fullmatch(r"[89]\d\d us, \?", record["why"]), record["why"]
    path.write_text(text.replace("{fct|slow}", "{fct|slower}"))
    with pytest.raises(ScenarioError, match=r"why = fct.slower: names no variant; did you mean slow"):
        find_experiments(folder)


def test_plots_for_a_paper(folder, tmp_path):
    done = cli("reproduce", "T-1", "--experiments", folder, "--out", tmp_path / "out", "--pdf", tmp_path / "pdf", "-q")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "pdf" / "tiny-two-1.pdf").read_bytes().startswith(b"%PDF")
    assert "<svg" in (tmp_path / "pdf" / "tiny-two-1.svg").read_text()


PLOT_POINTS = [
    point("a", value, seed=seed, at={"bin": name, "time_us": time})
    for seed in (1, 2, 3)
    for value, name, time in ((seed * 1.0, "x", 1e6), (seed * 10.0, "y", 0.0))
]


def test_plots_show_medians_over_seeds(folder):
    (experiment,) = find_experiments(folder)

    def figure(kind):
        return plots.figure(experiment, Plot(metric="m", variants=["a"], x="bin", kind=kind), PLOT_POINTS)["data"]

    (bars,) = figure("bars")
    assert (bars["x"], bars["y"]) == (["x", "y"], [2.0, 20.0])
    (line,) = figure("time")
    logarithmic = Plot(metric="m", variants=["a"], x="bin", kind="bars", log_y=True)
    axis = plots.figure(experiment, logarithmic, PLOT_POINTS)["layout"]["yaxis"]
    assert axis["span"] == [min(one.value for one in PLOT_POINTS), max(one.value for one in PLOT_POINTS)], (
        "intervals fit"
    )
    assert (line["x"], line["y"]) == ([0.0, 1.0], [20.0, 2.0])
    (cdf,) = figure("cdf")
    assert (cdf["x"][0], cdf["x"][-1], cdf["y"][-1]) == (1.0, 30.0, 1.0)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'over = "fast"',
            'over = "faster"',
            "parts.0.variant = faster: is not one of slow, fast; did you mean fast",
        ),
        ('kind = "factor"', 'kind = "faktor"', "claims.0.parts.0.kind = faktor: must be one of within, zero, factor"),
        ('kind = "factor"', 'kind = "faktor"', "did you mean factor"),
        ('kind = "factor"\n', "", "claims.0.parts.0.kind: is missing"),
        ("low = 8", "lower = 8", "claims.0.parts.0.lower: unknown key; did you mean low"),
        ("low = 8", 'low = "8"', "claims.0.parts.0.low = 8: should be a valid number"),
        (
            'metric = "fct"\nof',
            'metric = "fkt"\nof',
            "claims.0.parts.0.metric = fkt: is not one of fct; did you mean fct",
        ),
        (
            'kind = "bars"',
            'kind = "bar"',
            "plots.0.kind = bar: must be one of bars, line, time, cdf; did",
        ),
        ("[metrics.fct]\nsql", "[metrics.fct]\nsqll", "metrics.fct.sql: is missing"),
        ("[metrics.fct]\nsql", "[metrics.fct]\nsqll", "metrics.fct.sqll: unknown key; did you mean sql"),
        ('title = "Two"', 'titel = "Two"', "titel: unknown key; did you mean title"),
        ("two.scenario.toml", "none.toml", "scenario = none.toml: does not exist"),
        ('title = "Two"', "title = Two", "Invalid value"),
    ],
)
def test_mistakes_name_file_key_and_what_was_meant(folder, old, new, message):
    path = folder / "tiny" / "two.toml"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(ScenarioError) as caught:
        find_experiments(folder)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_all_mistakes_of_all_files_at_once(folder):
    path = folder / "tiny" / "two.toml"
    path.write_text(path.read_text().replace("low = 8", "lower = 8").replace('title = "Two"', 'titel = "Two"'))
    (folder / "tiny" / "paper.toml").write_text('title = "T"\n')
    with pytest.raises(ScenarioError) as caught:
        find_experiments(folder)
    assert [entry["path"] for entry in caught.value.problems] == ["citation", "claims.0.parts.0.lower", "titel"]


def test_select_by_paper_experiment_and_claim(folder):
    experiments = find_experiments(folder)
    assert select(experiments, "tiny") == select(experiments, "tiny/two") == select(experiments, "T-1") == experiments
    with pytest.raises(RunError, match="is no paper, experiment or claim"):
        select(experiments, "fast")


ROOT = Path(__file__).parents[1]


def test_a_plot_over_a_variant_says_of_how_many_samples_it_is(folder):
    (experiment,) = find_experiments(folder)
    points = [
        Point(name, seed, "m", seed * value, {}, {"x": 1}, 40)
        for seed in (1, 2)
        for name, value in (("a", 6.0), ("b", 2.0))
    ]
    plot = Plot(metric="m", variants=["a"], over="b", x="x", kind="line")
    (line,) = plots.figure(experiment, plot, points)["data"]
    assert (line["name"], line["y"]) == ("a", [3.0])
    assert plots.counts(plot, points) == "medians of 2 seeds; 40 samples per number and seed"


def test_lines_are_named_as_in_the_paper_and_one_flow_is_of_one_seed(folder):
    (experiment,) = find_experiments(folder)
    points = [
        point(name, 10.0 * seed, seed=seed, at={"line": "B → A", "ms": ms})
        for name in ("a", "b")
        for seed in (1, 2)
        for ms in (0.0, 1.0)
    ]

    def names(**keys):
        return [
            (line["name"], line["y"])
            for line in plots.figure(experiment, Plot(metric="m", x="ms", kind="line", **keys), points)["data"]
        ]

    assert names(variants=["a"]) == [("B → A", [15.0, 15.0])]
    assert names(variants=["a"], single=True) == [("B → A", [10.0, 10.0])]
    assert [name for name, _ in names(variants=["a", "b"])] == ["a B → A", "b B → A"]


def test_a_scan_judges_all_claims_at_every_setting(folder):
    (tmp := folder / "tiny" / "joint.toml").write_text(
        'scenario = "two.scenario.toml"\nscores = ["two"]\n[axes]\n"topology.link.delay" = ["1 us", "1 ms"]\n'
    )
    (scan,) = select(find_experiments(folder), "tiny/joint")
    assert (list(scan.spec.variants), list(scan.spec.metrics)) == (["slow", "fast"], ["fct"])
    (outcome,) = reproduce([scan], folder.parent / "out", seeds=1, progress=False)
    best, other = outcome.scan
    assert (best["axes"], best["parts"]) == ({"topology.link.delay": "1 us"}, {"T-1.1": "reproduced"})
    assert other["counts"] == {"reproduced": 0, "shape only": 0, "differs": 1, "not run": 0}
    tmp.write_text(tmp.read_text().replace('["two"]', '["too"]'))
    with pytest.raises(ScenarioError, match=r"scores.0 = too: is not one of joint, two; did you mean two"):
        find_experiments(folder)


@pytest.fixture(scope="module")
def planned():
    """The runs of every experiment of the checkout at reduced size with one seed; the full size must also resolve."""
    experiments = [one for one in find_experiments(ROOT / "python/pauseframe/experiments") if not one.spec.function]
    assert all(plan(one, "full", [1]) for one in experiments if not one.scored)
    return [cell for one in experiments for cell in plan(one, "quick", [1])]


def test_a_change_below_a_table_that_a_variant_has_off_switches_nothing_on():
    """QCN's timer, set for all variants, used to switch QCN on in variants without QCN."""
    (experiment,) = select(find_experiments(), "cee/arrivals")
    timers = {
        cell.variant: tomllib.loads(cell.run.toml)["qcn"]
        for cell in plan(experiment, "quick", [1], {"qcn.timer": "1 ms"})
    }
    assert timers["base"] is False
    assert timers["qcn20"]["timer"] == "1 ms"


def test_a_change_that_is_for_no_run_is_refused(tmp_path):
    (experiment,) = select(find_experiments(), "bolt/fig01")
    with pytest.raises(InputError, match=r"qcn.timer: its table is switched off in all variants of bolt/fig01"):
        plan(experiment, "quick", [1], {"qcn.timer": "1 ms"})
    with pytest.raises(InputError, match="bolt/fig14: no runs of one scenario, so that --set has nothing to change"):
        reproduce(select(find_experiments(), "bolt/fig14"), tmp_path, changes={"transport.mss": "1000 B"})


def test_all_experiments_of_the_checkout_are_right_and_plan(planned):
    """Every file is readable, and every scenario of every variant resolves, at both sizes."""
    assert {cell.experiment.key for cell in planned} == {"bolt", "cee", "dcqcn", "dctcp", "hpcc", "judd", "repro"}


DECIDES_NOTHING = re.compile(
    r"name|seed|record\..*|stop\..*|topology\.(kind|hosts|switches|links\.ends|k|m|w|external|hosts_per_switch)"
    r"|workload\.(name|transport|client|server|servers|receiver|aggregators|hosts|sources|packed|timeline|trace|digest)"
    r"|workload\.(count|start|stop)|workload\.flows\..*|routing\.(digest|text|path|format|seed)"
    r"|host\.(stack|kernel_hosts|sysctl|qdisc|route|interrupt_delay)"
    r"|topology\.(ports_per_host|planes|peer_links)|routing\.(mlag|tunnel_remap)"
    r"|host\.(port_choice|hash_policy|miimon|lacp_rate|packets_per_slave|mux_active|link_prober_interval)"
    r"|host\.negative_signal_count|remember\..*"
)
"""Keys for names and recording, and keys that an experiment describes itself: senders, receivers, sizes, duration.

The papers run on simulated hosts with one port, which use no key of kernel hosts and of several ports.
"""
RDMA = r"transport\.(kind|rdma_.*|hpcc_.*|timely_.*|dcqcn_.*)"
UNUSED = {
    "tcp": re.compile(RDMA),
    "rdma": re.compile(rf"(?!({RDMA}|transport\.(preset|ecn|lossless|priority|dscp))$)transport\..*"),
}
"""Keys that a transport of this kind does not use."""


def keys_of(table, path=""):
    """The paths of a resolved scenario's keys, with list rows, named transports and classes merged."""
    for key, value in table.items():
        inner = f"{path}.{key}" if path else key
        if isinstance(value, dict):
            yield from keys_of(value, re.sub(r"^transports\.\w+$", "transport", re.sub(r"\.classes\.\w+$", "", inner)))
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            for row in value:
                yield from keys_of(row, inner)
        else:
            yield re.sub(r"^topology\.links\.(rate|delay)$", r"topology.link.\1", inner)


def test_paper_toml_names_every_key_that_a_scenario_sets_or_inherits(planned):
    """Fails for a new key of the simulator: each paper.toml must name its parameter in the paper, and its value."""
    used: dict[str, set[str]] = {}
    named: dict[str, set[str]] = {}
    for text, paper in {cell.run.toml: cell.experiment.key for cell in planned}.items():
        scenario = tomllib.loads(text)
        assert scenario["remember"]["steps"] == "off", f"{paper}: a verdict needs every step simulated"
        unused = UNUSED[scenario["transport"]["kind"]]
        used.setdefault(paper, set()).update(key for key in keys_of(scenario) if not unused.fullmatch(key))
    for cell in planned:
        named[cell.experiment.key] = {key for row in cell.experiment.paper.parameter for key in row.keys}
    for paper, keys in used.items():
        assert {key for key in keys if not DECIDES_NOTHING.fullmatch(key)} == named[paper], paper


def test_a_constant_delayed_ack_is_shorter_than_the_timeout(planned):
    """A delayed ACK after the timeout repeats a lone segment: FreeBSD's 100 ms slowed IS of cee 1,074 times."""
    unit = {"s": 1e6, "ms": 1e3, "us": 1.0}

    def us(text):
        value, name = text.split()
        return float(value) * unit[name]

    for text in {cell.run.toml for cell in planned}:
        scenario = tomllib.loads(text)
        for transport in [scenario["transport"], *scenario.get("transports", {}).values()]:
            if transport.get("delayed_ack_form") != "fixed" or transport["delayed_ack_segments"] == 1:
                continue
            slop = us(transport["rto_slop"]) if transport["rto_form"] == "freebsd" else 0
            assert us(transport["delayed_ack_timeout"]) < max(us(transport["rto_min"]), slop), scenario["name"]


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A folder that all experiments share for their runs, because some experiments have common runs."""
    return tmp_path_factory.mktemp("reproduce")


@pytest.mark.papers
@pytest.mark.parametrize("name", [one.id for one in find_experiments() if one.spec.claims])
def test_the_verdicts_of_the_papers(name, store):
    """Runs every experiment at its reduced size with one of the recorded seeds.

    A changed verdict fails, with the recorded and the new numbers; `pauseframe reproduce NAME --record` accepts an
    intended change.
    """
    done = test_cli.cli("reproduce", name, "--expect", "--seeds", "1", "--out", store, "--quiet", cwd=ROOT, timeout=280)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.papers
def test_pitfalls_show_what_comes_out(store):
    """The page and its figures equal the output of `make pitfalls`."""
    pitfalls = runpy.run_path(str(ROOT / "validation" / "pitfalls.py"))
    page = (ROOT / "docs" / "pitfalls.md").read_text(encoding="utf-8")
    assert page == pitfalls["text"]()
    for outcome in pitfalls["outcomes"](store):
        for index, plot in enumerate(outcome.experiment.spec.plots, start=1):
            name = f"pitfalls/{outcome.experiment.name}-{index}.svg"
            if name in page:
                drawn = plots.figure(outcome.experiment, plot, outcome.points)
                assert plots.digest(drawn) in (ROOT / "docs" / name).read_text(encoding="utf-8"), name


def test_the_recount_is_that_of_the_verdicts():
    """The page and README's line equal the output of `make recount`."""
    recount = runpy.run_path(str(ROOT / "validation" / "papers" / "recount.py"))
    claims = recount["judged"]()
    assert (ROOT / "docs" / "validation" / "papers.md").read_text(encoding="utf-8") == recount["page"](claims)
    assert recount["readme_line"](claims) in (ROOT / "README.md").read_text(encoding="utf-8")


def test_switches_are_of_claims_that_there_are():
    """Every measured switch of a key is still in the list, and its row states its result."""
    tool = runpy.run_path(str(ROOT / "validation" / "papers" / "switches.py"))
    listed = tool["switches"]()
    assert tool["kept"]().keys() == {one.key for one in listed}
    for one in listed:
        spec = tool["experiment_of"](one).spec
        assert {*one.claims} <= {claim.id for claim in spec.claims}, one.key
        assert one.text, one.key


def test_what_differs_says_why():
    known = expected.read(ROOT / "python/pauseframe/experiments")
    experiments = find_experiments(ROOT / "python/pauseframe/experiments")
    claims = {claim.id: claim for experiment in experiments for claim in experiment.spec.claims}
    assert known.keys() == claims.keys()
    silent = [name for name, claim in claims.items() if known[name]["quick"]["verdict"] == "differs" and not claim.why]
    assert silent == []


def test_no_result_is_typed_into_a_why():
    """Every number in an explanatory text is the paper's number, a setting, or a named result."""
    for about in sorted((ROOT / "python/pauseframe/experiments").glob("*/paper.toml")):
        given = set()
        for path in about.parent.glob("*.toml"):
            given |= set(NUMBER.findall(re.sub(r'^why = (""".*?"""|".*?")$', "", path.read_text(), flags=re.M | re.S)))
        for experiment in find_experiments():
            if experiment.key == about.parent.name:
                for claim in experiment.spec.claims:
                    typed = set(NUMBER.findall(re.sub(r"\{[^{}]*\}", "", claim.why))) - given
                    assert typed == set(), claim.id


NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?(?![\w])")
TABLE = ROOT / "python/pauseframe/experiments/claims.csv"


def test_every_band_is_that_of_the_table_or_says_why_not():
    table = pl.read_csv(TABLE, infer_schema_length=None)
    experiments = find_experiments()
    parts = {(c.id, n): p for one in experiments for c in one.spec.claims for n, p in enumerate(c.parts, start=1)}
    wanted = {(row["id"], row["part"]): row for row in table.iter_rows(named=True) if row["part"]}
    assert parts.keys() == wanted.keys()
    for key, part in parts.items():
        row = wanted[key]
        band = (-math.inf if row["low"] is None else row["low"], math.inf if row["high"] is None else row["high"])
        assert part.instead or part.band == pytest.approx(band), key
        assert part.kind == row["kind"], key
    left_out = {one.id for experiment in experiments for one in experiment.paper.left_out}
    assert {row["id"] for row in table.iter_rows(named=True) if not row["part"]} == left_out


def test_a_scan_halves_its_settings_and_keeps_what_it_found(folder, tmp_path):
    """A scan of three settings with one seed, then of the best and the present one with two; --record keeps it."""
    scan = folder / "tiny" / "joint.toml"
    scan.write_text(
        'scenario = "two.scenario.toml"\nscores = ["two"]\npresent = { "topology.link.delay" = "1 ms" }\n'
        '[axes]\n"topology.link.delay" = ["1 ms", "1 us", "2 ms"]\n'
        "[[stages]]\nseeds = 1\nkeep = 1\n[[stages]]\nseeds = 2\n"
    )
    arguments = ("reproduce", "tiny/joint", "--experiments", folder, "--out", tmp_path / "out", "--quiet")
    assert cli(*arguments).returncode == 0
    assert "The scan was not run yet." in (tmp_path / "out" / "tiny.html").read_text()
    assert cli(*arguments, "--full", "--record").returncode == 0
    best, other, last = json.loads((folder / "tiny" / "joint.json").read_text())
    assert (best["stage"], best["axes"], best["parts"]) == (
        2,
        {"topology.link.delay": "1 us"},
        {"T-1.1": "reproduced"},
    )
    assert (other["stage"], other["parts"]) == (2, {"T-1.1": "differs"}), "the present setting goes along"
    assert last["stage"] == 1
    assert len([*(tmp_path / "out" / "runs").rglob("manifest.json")]) == 10
    assert cli(*arguments).returncode == 0
    page = (tmp_path / "out" / "tiny.html").read_text()
    assert "Stage 2 of 2, finished." in page
    assert "1 ms (this paper's now)" in page


def test_the_present_setting_of_a_scan_is_that_of_its_scenario():
    """The setting that the page marks as the paper's is on the grid, and the scenario resolves to it by default."""
    (scan,) = select(find_experiments(), "bolt/scan")
    assert scan.spec.present in settings(scan.spec)
    stage = scan.spec.stages[0]
    with_it, without = (
        {cell.variant: cell.run.key for cell in plan_stage(scan, stage, [setting]) if "dctcp" in cell.variant}
        for setting in (scan.spec.present, {})
    )
    assert with_it == without


def test_the_example_of_the_guide(tmp_path):
    page = (ROOT / "docs" / "how-to" / "reproduce-papers.md").read_text()
    (text,) = re.findall(r"^```toml experiment\n(.*?)^```", page, re.M | re.S)
    bolt = tmp_path / "bolt"
    bolt.mkdir()
    (bolt / "mine.toml").write_text(text)
    for name in ("paper.toml", "fat_tree.scenario.toml"):
        # The keys that the paper leaves open belong to experiments that this folder has not.
        given = (ROOT / "python/pauseframe/experiments" / "bolt" / name).read_text()
        (bolt / name).write_text(re.sub(r"^\[\[search\]\]\n(?:.+\n)*", "", given, flags=re.M))
    (experiment,) = find_experiments(tmp_path)
    assert len(plan(experiment, "full", [1, 2, 3, 4, 5])) == 10
