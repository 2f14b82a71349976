"""The demo: its scenarios, and claims that are judged by the numbers whichever way they come out."""

import pauseframe as pf
import polars as pl
import pytest
import synthetic
from pauseframe.demo import FABRICS, VARIANTS, run_demo, scenario_path
from pauseframe.demo.claims import judge, medium_tail, query_tail
from pauseframe.report import from_folder


@pytest.mark.parametrize("fabric", FABRICS)
@pytest.mark.parametrize("variant", VARIANTS)
def test_scenarios_resolve_without_warnings(fabric, variant):
    scenario = pf.Scenario.from_file(scenario_path(fabric))
    resolved = scenario.resolve(set=VARIANTS[variant])
    assert resolved.warnings == []
    values = {path: value for path, value, _ in resolved.explain()}
    assert values["transport.rto_min"] == '"2 ms"'
    assert values["transport.lossless"] == str(variant.startswith("tcp_")).lower()
    assert values["transport.fast_retransmit"] == str(not variant.endswith("spray")).lower()


def scaled(tmp_path, query_factor, medium_factor):
    """Runs whose tails stand in given ratios to TCP-Bolt's."""
    base = synthetic.make_frames(slow=1.0, flows=4000, queries=3000)
    runs = {}
    for name in VARIANTS:
        frames = dict(base)
        for table, factor in (("queries", query_factor[name]), ("flows", medium_factor[name])):
            frames[table] = base[table].with_columns(pl.col("slowdown") * factor, pl.col("fct_us") * factor)
        runs[name] = from_folder(synthetic.write_folder(tmp_path / name, frames, name=name))
    return runs


PAPER = (
    {"newreno": 3.0, "dctcp": 0.5, "tcp_dcb": 20.0, "tcp_bolt": 1.0, "tcp_bolt_spray": 0.5},
    {"newreno": 1.1, "dctcp": 10.0, "tcp_dcb": 2.0, "tcp_bolt": 1.0, "tcp_bolt_spray": 1.0},
)
SHAPE = (
    {"newreno": 1.2, "dctcp": 0.9, "tcp_dcb": 2.0, "tcp_bolt": 1.0, "tcp_bolt_spray": 0.95},
    {"newreno": 1.0, "dctcp": 1.5, "tcp_dcb": 1.2, "tcp_bolt": 1.0, "tcp_bolt_spray": 1.0},
)
OTHER = (
    {"newreno": 3.0, "dctcp": 2.0, "tcp_dcb": 1.0, "tcp_bolt": 1.0, "tcp_bolt_spray": 1.5},
    {"newreno": 1.0, "dctcp": 0.9, "tcp_dcb": 0.8, "tcp_bolt": 1.0, "tcp_bolt_spray": 1.0},
)


@pytest.mark.parametrize(("factors", "verdict"), [(PAPER, "reproduced"), (SHAPE, "shape only"), (OTHER, "differs")])
def test_verdicts_follow_the_numbers(tmp_path, factors, verdict):
    claims = judge(scaled(tmp_path, *factors))
    assert [claim.id for claim in claims] == ["B-M16", "B-M17", "B-M22", "B-M24"]
    assert {claim.verdict for claim in claims} == {verdict}


def test_nothing_measured(tmp_path):
    empty = synthetic.make_frames(flows=0, queries=0)
    runs = {name: from_folder(synthetic.write_folder(tmp_path / name, empty, name=name)) for name in VARIANTS}
    assert {claim.verdict for claim in judge(runs)} == {"not measured"}


def test_what_has_not_finished_counts(tmp_path):
    frames = synthetic.make_frames(flows=0, queries=100, slow=1.0)
    late = pl.col("query") >= 50
    unfinished = [pl.when(~late).then(pl.col(name)).alias(name) for name in ("finish_us", "fct_us", "slowdown")]
    frames["queries"] = frames["queries"].with_columns(unfinished)
    run = from_folder(synthetic.write_folder(tmp_path / "run", frames))
    ideal = frames["queries"]["ideal_fct_us"].max()
    assert query_tail(run, by_size=False)[0] > 0.9 * synthetic.SIM_TIME_S * 1e6 / ideal


def test_tails_by_hand(tmp_path):
    frames = synthetic.make_frames(flows=300, queries=30)
    run = from_folder(synthetic.write_folder(tmp_path / "run", frames))
    flows, queries = frames["flows"], frames["queries"]
    middle = flows.filter((pl.col("size_bytes") >= 1_000_000) & (pl.col("size_bytes") < 4_000_000))
    assert medium_tail(run)[2] == pytest.approx(middle["slowdown"].quantile(0.99, "linear"))
    assert sorted(medium_tail(run)) == [0, 1, 2, 3]
    four = queries.filter(pl.col("response_bytes") == 4000)
    assert query_tail(run, by_size=True)[4000] == pytest.approx(four["slowdown"].quantile(0.999, "linear"))


def test_quick_demo(tmp_path, capsys):
    path = run_demo(tmp_path / "demo", quick=True)
    html = path.read_text(encoding="utf-8")
    for text in ("B-M16", "B-M24", "Leaf-spine", "tcp_bolt_spray"):
        assert text in html
    assert "Claims of the paper" in capsys.readouterr().out
    assert len(list(tmp_path.glob("demo/*/*/manifest.json"))) == 10
    with pytest.raises(pf.RunError, match="--force"):
        run_demo(tmp_path / "demo", quick=True)
