"""The demo: its page starts with the answer, and judges claims of the paper with the paper's runs, seeds and bands."""

import json
import re
from dataclasses import replace

import pauseframe as pf
import polars as pl
import pytest
from pauseframe.demo import FABRICS, SEEDS, VARIANTS, as_claim, experiments, run_demo
from pauseframe.demo.answer import Pooled, _bars, _cells, _of_background, _sentence
from pauseframe.reproduce.judge import judge
from pauseframe.reproduce.parts import variants_named
from pauseframe.reproduce.points import Point
from pauseframe.reproduce.run import plan
from pauseframe.reproduce.spec import find_experiments
from pauseframe.results.causes import Conditions
from pauseframe.terminal.text import MISSING
from test_cli import cli
from test_view_browser import CHROMIUM, FLAGS

CLAIMS = ("B-M03", "B-M16", "B-M17", "B-M20", "B-M22", "B-M28")
STOPS = {
    "fat_tree": {"quick": '"20 ms"', "full": '"200 ms"'},
    "leaf_spine": {"quick": '"6 ms"', "full": '"150 ms"'},
}


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
        assert values["workload.0.stop"] == STOPS[fabric][size]


def test_runs_are_those_of_the_reduced_reproduction():
    """The demo selects no outcome: its scenarios and seeds equal those of bolt/fig12, except for names of runs."""
    fig12 = next(one for one in find_experiments() if one.id == "bolt/fig12")
    ours, theirs = experiments()["fat_tree"], {}
    for cell in plan(fig12, "quick", [1]):
        theirs[cell.variant] = cell.run.toml.replace('name = "fat_tree"', f'name = "{cell.variant}"')
    for cell in plan(ours, "full", [1]):
        assert cell.run.toml == theirs[cell.variant]
    assert ours.size("full").seeds == SEEDS["full"] == fig12.size("quick").seeds


def test_claims_are_all_that_these_transports_decide():
    known = {one.id: one for one in find_experiments()}
    fat_tree = experiments()["fat_tree"].spec
    claims = {claim.id: claim for name in ("bolt/fig11", "bolt/fig12") for claim in known[name].spec.claims}
    decided = [name for name, claim in claims.items() if all({*variants_named(p)} <= {*VARIANTS} for p in claim.parts)]
    assert [claim.id for claim in fat_tree.claims] == sorted(decided) == list(CLAIMS)
    for claim in fat_tree.claims:
        assert claim == claims[claim.id], "text, bands and parts are the paper's"
        for part in claim.parts:
            for name in ("bolt/fig11", "bolt/fig12"):
                if part.metric in known[name].spec.metrics:
                    theirs = known[name].spec.metrics[part.metric]
                    assert fat_tree.metrics[part.metric].sql == theirs.sql
                    assert fat_tree.metrics[part.metric].take == theirs.taken("quick")


PAPER = {
    "incast_all": {"tcp": 3.0, "dctcp": 0.5, "tcp_dcb": 20.0, "tcp_bolt": 1.0, "tcp_bolt_spray": 0.5},
    "medium_p99": {"tcp": 1.1, "dctcp": 10.0, "tcp_dcb": 2.0, "tcp_bolt": 1.0, "tcp_bolt_spray": 1.0},
    "incast_p999": {"tcp": 12.0, "dctcp": 2.0, "tcp_dcb": 45.0, "tcp_bolt": 4.0, "tcp_bolt_spray": 2.0},
    "small_tail": {"tcp": 10.0, "dctcp": 2.0, "tcp_dcb": 45.0, "tcp_bolt": 1.0, "tcp_bolt_spray": 2.0},
}
OTHER = {
    metric: {"tcp": 1.0, "dctcp": 1.0, "tcp_dcb": 0.5, "tcp_bolt": 0.5 if metric == "incast_all" else 2.0}
    for metric in PAPER
}


@pytest.mark.parametrize(
    ("values", "verdicts"),
    [
        (PAPER, ["reproduced"] * 6),
        (OTHER, [*["differs"] * 5, "not measured"]),  # The scenario uses no packet spraying.
        ({}, ["not measured"] * 6),
    ],
)
def test_verdicts_follow_the_numbers(values, verdicts):
    points = [Point(variant, 1, metric, value) for metric, of in values.items() for variant, value in of.items()]
    claims = [as_claim(judge(claim, points)) for claim in experiments()["fat_tree"].spec.claims]
    assert [(claim.id, claim.verdict) for claim in claims] == list(zip(CLAIMS, verdicts, strict=True))


def pooled(name, time, slowdown, drops=0, count=2000):
    conditions = Conditions(name, count, 0, 0, False, "shared of 9 MB", 1e6)
    return Pooled(name, pl.Series([float(time)] * count), 0, pl.Series([slowdown] * count), drops, 0, 0, conditions)


def test_the_sentence_says_what_came_out():
    tcp, dctcp = pooled("TCP", 6000, 12.0, drops=300), pooled("DCTCP", 500, 10.0)
    good = _sentence({"tcp": tcp, "dctcp": dctcp, "tcp_bolt": pooled("TCP-Bolt", 750, 5.0)}, "p99")
    assert good == (
        "TCP-Bolt finishes incasts 8 times faster than TCP at p99 (750\u00a0us against 6\u00a0ms) and drops no packet, "
        "where TCP drops 300; DCTCP finishes incasts 1.5 times faster than TCP-Bolt, but background flows "
        "2 times slower at p99 of their slowdown."
    )
    bad = _sentence({"tcp": tcp, "dctcp": dctcp, "tcp_bolt": pooled("TCP-Bolt", 12000, 20.0, drops=7)}, "p95")
    assert "incasts 2 times slower than TCP at p95" in bad
    assert "drops 7 packets" in bad
    assert bad.endswith("24 times faster than TCP-Bolt, and background flows 2 times faster at p99 of their slowdown.")


def test_background_flows_have_a_percentile_of_their_number():
    """Of 138 flows 14 lie beyond p90, and 7 beyond p95, which 2,000 incasts allow."""
    few = {"tcp": pooled("TCP", 6000, 12.0), "dctcp": pooled("DCTCP", 500, 10.0), "tcp_bolt": pooled("Bolt", 750, 5.0)}
    few = {key: replace(one, background=pl.Series([1.0] * 122 + [one.background[0]] * 16)) for key, one in few.items()}
    assert "2 times slower at p90 of their slowdown" in _sentence(few, "p99")
    assert _of_background(few) == "p90"
    assert _cells(few["dctcp"], few["tcp"], "p99", _of_background(few))[4] == ("× 10", "")


def test_the_sentence_ranks_no_transport_with_unfinished_incasts():
    tcp, dctcp, bolt = pooled("TCP", 6000, 9.0), pooled("DCTCP", 800, 8.0), pooled("TCP-Bolt", 750, 5.0)
    cut = replace(bolt, unfinished=100)
    sentence = _sentence({"tcp": tcp, "dctcp": dctcp, "tcp_bolt": cut}, "p99")
    assert "TCP-Bolt finished 2,000 of 2,100 incasts." in sentence
    assert "faster" not in sentence
    assert [(bar.share, bar.text) for bar in _bars([tcp, cut], "p99")][1] == (0.0, "2,000 of 2,100 finished")
    assert _cells(cut, tcp, "p99", "p99")[3][0] == MISSING
    left = replace(bolt, background_unfinished=3)
    assert "TCP-Bolt left 3 unfinished" in _sentence({"tcp": tcp, "dctcp": dctcp, "tcp_bolt": left}, "p99")


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo") / "demo"
    done = cli("demo", "--quick", "--out", out, timeout=280)
    assert done.returncode == 0, done.stderr
    return out, done.stdout


def test_quick_demo(quick):
    out, printed = quick
    html = (out / "report.html").read_text(encoding="utf-8")
    for text in ("Leaf-spine", "tcp_bolt_spray", "TCP-Bolt finishes incasts", "6 of 6 claims need more samples"):
        assert text in html
    assert not re.search(r"\{[a-z_0-9]{4,}\|[a-z_]{4,}", html), "numbers stand in the texts, not their names"
    assert "NO VERDICT" not in html.upper(), "a claim that cannot be judged is not shown"
    places = [printed.index(text) for text in ("TCP-Bolt finishes", "of incast completion", "transport ", "report: ")]
    assert places == sorted(places), "the sentence, the chart, the table"
    assert re.search(r"[mu]s \?", printed), "a p99.9 of 208 incasts is marked"
    assert "?: fewer than 10 samples" in " ".join(printed.split())
    folders = {f"{fabric}/{variant}" for fabric in FABRICS for variant in VARIANTS}
    runs = {name: pf.load(out / name) for name in folders}
    assert {run.status for run in runs.values()} == {"complete"}
    foreign = out / "foreign"
    foreign.mkdir()
    (foreign / "report.html").write_text("not ours")
    with pytest.raises(pf.RunError, match="--force"):
        run_demo(foreign, quick=True)
    again = cli("demo", "--quick", "--out", out, "--json")
    said = json.loads(again.stdout)
    assert [claim["id"] for claim in said["claims"]] == list(CLAIMS)
    assert said["answer"]["sentence"].startswith("TCP-Bolt finishes incasts")
    assert said["answer"]["rows"][0]["transport"] == "TCP"
    assert "11 of 11 runs are there already" in again.stderr


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
@pytest.mark.parametrize(("width", "height"), [(1400, 900), (390, 844)])
def test_the_first_screen_is_the_answer(quick, width, height):
    api = pytest.importorskip("playwright.sync_api", reason="no playwright here: pip install 'pauseframe[dev]'")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page, said = browser.new_page(viewport={"width": width, "height": height}), []
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto((quick[0] / "report.html").as_uri())
        boxes = [
            page.locator(part).bounding_box()
            for part in ("main > .answer .sentence", "main > .answer .bars", "main > .answer table")
        ]
        assert [box["y"] for box in boxes] == sorted(box["y"] for box in boxes)
        assert boxes[-1]["y"] + boxes[-1]["height"] <= height, "all three on the first screen"
        sizes = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.scrollHeight]")
        assert sizes[0] == width, "nothing sticks out"
        assert sizes[1] < 4000, "the rest is folded"
        page.locator(".player summary").click()
        player = page.frame_locator(".player iframe")
        player.locator("html[data-ready]").wait_for(timeout=60_000)
        player.get_by_role("button", name="most pauses").click()
        assert re.match(r"\d+ queues are paused", player.locator(".story").inner_text())
        page.locator("details.fold > summary", has_text="Leaf-spine").click()
        page.locator("#g1 [data-figure]").first.scroll_into_view_if_needed()
        page.wait_for_selector("#g1 .uplot")
        browser.close()
    assert said == []


@pytest.mark.papers
def test_every_claim_of_the_full_demo_is_judged(tmp_path):
    done = run_demo(tmp_path / "demo")
    assert [record["id"] for record in done.records()] == list(CLAIMS)
    assert all(record["verdict"] != "not run" for record in done.records())
    assert "need more samples" not in done.report.read_text(encoding="utf-8")
