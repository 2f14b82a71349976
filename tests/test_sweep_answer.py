"""The sentence of a sweep: pairs are compared seed by seed, and variants with unfinished work have no rank."""

import re
from dataclasses import replace

import pauseframe as pf
import pytest
from pauseframe.report.sweep import build_sweep_report, multiples
from pauseframe.report.sweep_answer import _beside, _differ, _largest, _surely, sentence
from pauseframe.sweep import tables
from pauseframe.sweep.compare import Cell, compare
from pauseframe.sweep.statistics import estimate

SCENARIO = """name = "cut"
topology = { kind = "star", hosts = 5 }
switch = { buffer = "40 KB" }
stop = "1 ms"
workload = { kind = "n_to_1", size = "64 KB" }
"""


def cell(variant, values, setting="0.5"):
    """A cell of one value a seed, beginning with seed 1."""
    by_seed = dict(enumerate(values, start=1))
    return Cell("fct_us.p99", (setting,), variant, estimate(list(by_seed.values())), None, None, by_seed=by_seed)


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A sweep over the stop: nothing, a part, or everything finishes."""
    folder = tmp_path_factory.mktemp("sweep") / "cut"
    axes = {"stop": ["20 us", "215 us", "50 ms"], "workload.size": ["40 KB", "64 KB"]}
    pf.sweep(SCENARIO, axes=axes, seeds=2, out=folder, progress=False)
    return folder


@pytest.fixture(scope="module")
def comparison(swept):
    return compare([swept], by="stop")


WIDE = [100.0, 150.0, 200.0, 250.0, 300.0, 350.0, 400.0]


def test_seeds_tell_two_variants_apart_by_their_differences(comparison):
    """Whatever the first variant: all intervals overlap, and every seed is slower with `slow`."""
    fast, slow, noisy = cell("b", WIDE), cell("c", [1.2 * one for one in WIDE]), cell("a", WIDE[::-1])
    assert _differ(fast, slow, 0.95)
    assert _differ(slow, fast, 0.95)
    assert not _differ(fast, noisy, 0.95)
    one = replace(comparison, variants=["a", "b", "c"])
    text = _beside(one, [replace(noisy, value=estimate([1.1 * value for value in WIDE])), fast, slow])
    assert text == "250 us with b, 300 us with c (+20 % to b seed by seed)"
    assert _beside(one, [fast, noisy]).endswith("the seeds do not tell them apart")


def test_values_of_zero_are_compared_by_difference():
    assert _differ(cell("a", [0.0] * 7), cell("b", [3.0] * 7), 0.95)


def test_seeds_without_a_pair_are_compared_by_intervals():
    apart = replace(cell("b", [1.2 * one for one in WIDE]), by_seed={})
    assert not _differ(cell("a", WIDE), apart, 0.95)
    assert _differ(cell("a", WIDE), replace(cell("b", [9 * one for one in WIDE]), by_seed={}), 0.95)


def test_the_seeds_confirm_a_winner_against_every_other_variant(comparison):
    fast, slow, noisy = cell("b", WIDE), cell("c", [1.2 * one for one in WIDE]), cell("d", [300.0, *WIDE[:0:-1]])
    rows = [[slow, fast], [noisy, fast]]
    assert _surely(comparison, rows, min) == "; the seeds confirm 1 of them"
    assert _surely(comparison, rows[:1], min) == ""
    assert _surely(comparison, [[cell("a", [1.0]), cell("b", [2.0])]], min) == "", "single seeds"


def test_variants_are_not_called_equal_because_of_one_setting(comparison):
    """The setting that differs most seed by seed may have equal medians."""
    one = replace(comparison, variants=["a", "b"])
    equal = [cell("a", [1000.0, 2000.0, 3000.0], "20 KB"), cell("b", [2000.0, 3000.0, 1000.0], "20 KB")]
    other = [cell("a", [1000.0, 2000.0, 3000.0], "64 KB"), cell("b", [1020.0, 2040.0, 3060.0], "64 KB")]
    assert not _largest(one, "fct_us.p99", [equal, other]).startswith("All variants")
    assert _largest(one, "fct_us.p99", [equal]).startswith("All variants")
    assert "with a, 2 ms with b" in _beside(one, equal), "two variants with one median are both named"


def test_every_pair_has_the_ratio_of_its_table(tmp_path):
    """Between the first variant and another one the sentence has the ratio of the table."""
    pf.sweep(SCENARIO.replace("1 ms", "1 s"), axes={"workload.size": ["40 KB", "64 KB"]}, seeds=3, out=tmp_path / "s")
    found = compare([tmp_path / "s"])
    first, second = (found.cell("fct_us.mean", (), variant) for variant in found.variants)
    assert first is not None
    assert second is not None
    assert second.beside(first, found.level) == (second.difference, second.ratio)


def test_a_variant_that_finished_a_part_does_not_win(swept, comparison):
    """In 20 us nothing finishes, in 215 us all small flows and a part of the others."""
    text = sentence(comparison)
    part = [comparison.cell("fct_us.p99", setting, "215 us") for setting in comparison.settings]
    assert any(one is not None and one.unfinished for one in part), "the scenario leaves a part"
    assert text.startswith("FCT, p99 is lowest with 50 ms in 1 of 2 settings; in 1 the variants are equal. ")
    assert "20 us finished none of 16 flows of all seeds, in 2 of 2 settings." in text
    assert re.search(r"215 us finished [1-7] of 8 flows of all seeds, in 1 of 2 settings.", text)
    page = build_sweep_report(comparison, swept / "report.html").read_text(encoding="utf-8")
    assert "Hollow points are times of a part" in page
    (panel,) = [panel for _, panel in multiples(comparison, "fct_us.p99", relative=False)]
    symbols = {trace["name"]: trace["marker"].get("symbol") for trace in panel["data"]}
    assert symbols == {"215 us": ["", "circle-open"], "50 ms": None}


def test_one_setting_names_the_only_variant_that_finished(tmp_path):
    pf.sweep(SCENARIO, axes={"stop": ["20 us", "50 ms", "60 ms"]}, seeds=2, out=tmp_path / "s", progress=False)
    text = sentence(compare([tmp_path / "s"]))
    assert " with 50 ms and 60 ms. 20 us finished none of 8 flows of all seeds." in text
    assert "all variants" not in text
    pf.sweep(SCENARIO, axes={"stop": ["20 us", "50 ms"]}, seeds=2, out=tmp_path / "t", progress=False)
    found = compare([tmp_path / "t"])
    assert tables.rows(found, "fct_us.p99")[0][0] == "– (8 unfinished)"
    text = sentence(found)
    assert (
        " with 50 ms, the only variant that finished everything. 20 us finished none of 8 flows of all seeds." in text
    )
    ((_, panel),) = multiples(found, "fct_us.p99", relative=False)
    assert panel["layout"]["xaxis"]["categoryarray"] == ["20 us (8 of 8 flows unfinished)", "50 ms"]
    assert [trace["name"] for trace in panel["data"]] == ["50 ms"]
    cut = replace(found, cells=[replace(one, unfinished=1) for one in found.cells])
    ((_, panel),) = multiples(cut, "fct_us.p99", relative=False)
    assert panel["data"] == [], "a bar would rank the times of a part"


def test_no_variant_is_ranked_if_all_left_flows(swept):
    one = compare([swept], by="workload.size")
    outcomes = {key: replace(outcome, left=3) for key, outcome in one.outcomes.items()}
    cut = replace(one, outcomes=outcomes)
    assert sentence(cut).startswith("FCT, p99 ranks no variant: none finished everything under any setting.")


def test_jobs_that_did_not_finish_count_in_a_sweep(tmp_path):
    """Seeds whose jobs are unfinished have no time, so the median over the others does not win."""
    text = """name = "job"
stop = "1 s"
topology = { kind = "star", hosts = 4 }
workload = { kind = "application", pattern = "all_reduce", ranks = 4, size = "1 MB" }
"""
    pf.sweep(text, axes={"stop": ["1 s", "50 us"]}, seeds=1, out=tmp_path / "s", progress=False)
    found = compare([tmp_path / "s"])
    assert "job_time_us" in found.metrics
    assert sentence(found).endswith(
        "with 1 s, the only variant that finished everything. 50 us did not finish its job."
    )
    assert found.outcomes["job_time_us", (), "50 us"].left == 1


def test_heat_maps_count_what_is_unfinished(comparison):
    shown = next(one for one in comparison.cells if one.unfinished and one.metric == "fct_us.p99")
    assert tables.median_text(shown).endswith(f"({shown.unfinished} unfinished)")


def test_a_few_of_thousands_leave_the_ranks(swept):
    one = compare([swept], by="workload.size")
    outcomes = {key: replace(outcome, value=1.0, done=5_000, left=3) for key, outcome in one.outcomes.items()}
    text = sentence(replace(one, outcomes=outcomes))
    assert "ranks no variant" not in text
    assert "64 KB left 9 of 15,009 flows unfinished." in text
