"""The demo: two experiments whose claims are those of the paper's, judged by the judge of all papers."""

import json
import re

import pauseframe as pf
import pytest
from pauseframe.demo import CLAIMS, FABRICS, VARIANTS, as_claim, experiments, run_demo
from pauseframe.reproduce.judge import judge
from pauseframe.reproduce.parts import variants_named
from pauseframe.reproduce.points import Point
from pauseframe.reproduce.run import plan
from pauseframe.reproduce.spec import find_experiments
from test_cli import cli


@pytest.mark.parametrize("fabric", FABRICS)
@pytest.mark.parametrize("size", ["quick", "full"])
def test_scenarios_resolve_without_warnings(fabric, size):
    cells = plan(experiments()[fabric], size, [1])
    assert [cell.variant for cell in cells] == list(VARIANTS)
    for cell in cells:
        scenario = pf.Scenario.from_toml(cell.run.toml).resolve()
        values = {path: value for path, value, _ in scenario.explain()}
        assert (scenario.warnings, values["transport.rto_min"]) == ([], '"2 ms"')
        assert values["transport.lossless"] == str(cell.variant.startswith("tcp_")).lower()
        assert values["transport.fast_retransmit"] == str(not cell.variant.endswith("spray")).lower()
        assert values["workload.0.stop"] == {"quick": '"6 ms"', "full": '"150 ms"'}[size]


def test_metrics_and_bands_are_those_of_the_paper():
    known = {one.id: one for one in find_experiments()}
    fat_tree = experiments()["fat_tree"].spec
    claims = {claim.id: claim for name in ("bolt/fig11", "bolt/fig12") for claim in known[name].spec.claims}
    assert [claim.id for claim in fat_tree.claims] == list(CLAIMS)
    for claim in fat_tree.claims:
        left_out = [part for part in claims[claim.id].parts if part not in claim.parts]
        assert all(set(variants_named(part)) - set(VARIANTS) for part in left_out)
        assert claim.model_copy(update={"parts": []}) == claims[claim.id].model_copy(update={"parts": []})
        for part in claim.parts:
            for name in ("bolt/fig11", "bolt/fig12"):
                theirs = known[name].spec.metrics
                assert part.metric not in theirs or fat_tree.metrics[part.metric] == theirs[part.metric]


PAPER = {
    "incast_all": {"tcp": 3.0, "dctcp": 0.5, "tcp_dcb": 20.0, "tcp_bolt": 1.0, "tcp_bolt_spray": 0.5},
    "medium_p99": {"tcp": 1.1, "dctcp": 10.0, "tcp_dcb": 2.0, "tcp_bolt": 1.0, "tcp_bolt_spray": 1.0},
    "incast_p999": {"tcp": 12.0, "dctcp": 2.0, "tcp_dcb": 45.0, "tcp_bolt": 4.0, "tcp_bolt_spray": 2.0},
}
OTHER = {
    metric: {"tcp": 1.0, "dctcp": 1.0, "tcp_dcb": 0.5, "tcp_bolt": 0.5 if metric == "incast_all" else 2.0}
    for metric in PAPER
}


@pytest.mark.parametrize(
    ("values", "verdicts"),
    [
        (PAPER, ["reproduced"] * 4),
        (OTHER, ["differs", "differs", "differs", "not measured"]),  # nothing is below the best; nothing was sprayed
        ({}, ["not measured"] * 4),
    ],
)
def test_verdicts_follow_the_numbers(values, verdicts):
    points = [Point(variant, 1, metric, value) for metric, of in values.items() for variant, value in of.items()]
    claims = [as_claim(judge(claim, points)) for claim in experiments()["fat_tree"].spec.claims]
    assert [(claim.id, claim.verdict) for claim in claims] == list(zip(CLAIMS, verdicts, strict=True))


def test_quick_demo(tmp_path):
    done = cli("demo", "--quick", "--out", tmp_path / "demo", timeout=280)
    assert done.returncode == 0, done.stderr
    html = (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
    for text in ("B-M16", "B-M24", "Leaf-spine", "tcp_bolt_spray"):
        assert text in html
    assert not re.search(r"\{[a-z_0-9]{4,}\|[a-z_]{4,}", html), "numbers stand in the texts, not their names"
    assert "Claims of the paper" in done.stdout
    assert "no verdict: too few samples" in html, "a tenth of the time is too short for a p99.9"
    assert "lie beyond the percentile" in html
    folders = {f"{fabric}/{variant}" for fabric in FABRICS for variant in VARIANTS}
    runs = {name: pf.load(tmp_path / "demo" / name) for name in folders}
    assert {run.status for run in runs.values()} == {"complete"}
    with pytest.raises(pf.RunError, match="--force"):
        run_demo(tmp_path / "demo", quick=True)
    again = cli("demo", "--quick", "--force", "--out", tmp_path / "demo", "--json")
    assert [claim["id"] for claim in json.loads(again.stdout)["claims"]] == list(CLAIMS)
    assert "10 of 10 runs are there already" in again.stderr
