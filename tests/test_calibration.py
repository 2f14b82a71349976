"""Compares the simulator with the kernel's runs: rows inside their bands stay inside (docs/validation/linux.md).

The test uses only the committed digest of the kernel's runs; it runs the scenarios without jitter, which need one run
each, and the fastest of the others.
"""

import csv
import json
import sys
from pathlib import Path

import pytest

CALIBRATION = Path(__file__).parents[1] / "validation" / "linux"
SINGLE = ["a_single_cubic", "a_single_cubic_nohystart", "a_single_dctcp", "a_single_reno", "a_single_vegas"]
TRANSFERS = ["g_fct_iw10", "g_fct_iw10_quickack", "g_fct_iw200_bigrmem"]
HELD_OUT = ["g_fct_iw10_bigrmem", "g_fct_iw10_reno", "g_fct_iw200"]
SEEDS = {
    "c_buildup_dctcp_rtt600": 3,
    "b_long2_dctcp_rtt100": 3,
    "b_long2_dctcp_rtt600_skew": 3,
    "b_long2_dctcp_rtt600": 3,
    "b_long2_dctcp_rtt600_tso": 3,
    "e_coexist_red_nodrop": 3,
}


@pytest.fixture(scope="module", autouse=True)
def modules():
    """The modules of the folder `validation/linux`, which is not a package."""
    sys.path.insert(0, str(CALIBRATION))
    yield
    sys.path.remove(str(CALIBRATION))


@pytest.mark.parametrize("scenario", [*SINGLE, *TRANSFERS, *HELD_OUT, *SEEDS])
def test_rows_stay_where_they_are(scenario):
    import ours
    from figures import figures
    from verdict import compare, held_out, known, reason, reference

    runs = [figures(scenario, ours.record(scenario, seed)) for seed in range(1, SEEDS.get(scenario, 1) + 1)]
    rows = compare(scenario, (reference() | held_out())[scenario], runs)
    assert len(rows) >= 8
    reasons = known()
    lost = [row for row in rows if row.standing == "outside" and reason(row, reasons) is None]
    assert not lost, "outside its band, and not in validation/linux/known.toml"
    won = [row for row in rows if row.standing == "inside" and reason(row, reasons) is not None]
    assert not won, "inside its band now: take it out of validation/linux/known.toml"


def test_known_rows_exist():
    from verdict import held_out, known, reference

    figures = reference() | held_out()
    for entry in known():
        assert set(entry["figures"]) <= set(figures[entry["scenario"]]), entry["scenario"]
        assert len(entry["reason"]) > 20


def test_the_median_of_the_kernels_runs_counts_and_what_they_span_is_in_range():
    from verdict import Row, compare, kernel_seeds

    alone = Row("f", "completion p50", 100.0, 120.0, 118.0, 122.0)
    assert (alone.kernel, alone.standing) == (100.0, "outside")
    three = Row("f", "completion p50", 100.0, 120.0, 118.0, 122.0, others=(119.0, 124.0))
    assert (three.kernel, three.standing, three.is_inside_reference) == (119.0, "inside", False)
    wide = Row("f", "completion p50", 100.0, 120.0, 118.0, 122.0, others=(101.0, 140.0))
    assert (wide.kernel, wide.spread, wide.standing) == (101.0, (100.0, 140.0), "in range")
    assert Row("f", "completion p50", 100.0, 150.0, 149.0, 151.0, others=(101.0, 140.0)).standing == "outside"
    assert (alone.kernel_inside_itself, three.kernel_inside_itself) == (None, 0.0)
    # Of 100, 102 and 110, only 102 lies within 5 % of the median of the other two; of 99 to 102, all halves agree.
    assert Row("f", "completion p50", 100.0, 0, 0, 0, others=(102.0, 110.0)).kernel_inside_itself == pytest.approx(
        1 / 3
    )
    assert Row("f", "completion p50", 100.0, 0, 0, 0, others=(101.0, 99.0, 102.0)).kernel_inside_itself == 1.0
    key = ("f_incast_cubic_rto5ms", "probes 32 x 64000 B")
    assert len(kernel_seeds()[key]) >= 2
    assert compare(key[0], {key[1]: 7.0}, [{key[1]: 2.0}])[0].others == kernel_seeds()[key]


def test_bands():
    from figures import Band, band

    assert band("queue p50") == Band(0.05, 1.0)
    assert band("response p50") == Band(0.05)
    assert band("response p95") == band("marked fraction") == Band(0.15)
    assert not Band(0.05).holds(106.0, 100.0)
    assert Band(0.05, 1.0).holds(4.0, 3.0)


def test_the_package_says_what_the_page_says():
    """`calibration.json`, which `pauseframe presets` reads, agrees with the page and with the rows of each scenario."""
    package = json.loads(
        (CALIBRATION.parents[1] / "python" / "pauseframe" / "calibration.json").read_text(encoding="utf-8")
    )
    validation = CALIBRATION.parents[1] / "docs" / "validation"
    page = (validation / "linux.md").read_text(encoding="utf-8")
    with (validation / "linux.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for name, scenario in package["scenarios"].items():
        mine = [row["result"] for row in rows if row["scenario"] == name]
        assert (len(mine), mine.count("inside")) == (scenario["figures"], scenario["inside"]), name
    total = sum(scenario["figures"] for scenario in package["scenarios"].values())
    alone = sum(scenario["inside_reference"] for scenario in package["scenarios"].values())
    assert len(rows) == total
    assert f"Around the kernel's reference run alone, {alone} ({alone / total:.1%}) are inside" in page
    assert package["kernel"] in page


def test_the_page_counts_the_held_out_rows():
    """The page's counts of held-out figures are those of `held_out.csv`, which has every figure of the kernel."""
    import ours
    from verdict import held_out

    validation = CALIBRATION.parents[1] / "docs" / "validation"
    with (validation / "held_out.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    kernel = held_out()
    assert set(kernel) == set(ours.held_out())
    assert [(row["scenario"], row["figure"]) for row in rows] == [
        (name, key) for name in kernel for key in kernel[name]
    ]
    inside = sum(row["result"] == "inside" for row in rows)
    page = (validation / "linux.md").read_text(encoding="utf-8")
    assert f"**Held out: {inside} of {len(rows)} figures ({inside / len(rows):.1%}) of {len(kernel)} scenarios" in page


def test_held_out_runs_at_ten_gigabits_are_five_times_as_short():
    import figures

    assert figures.steady("d_converge_10g_cubic") == (1.2e6, 3e6)
    assert figures.steady("d_converge_1g_cubic") == (6e6, 15e6)
    assert figures.steady("b_long2_cubic_rtt100") == (1e6, float("inf"))


def test_each_row_is_counted_for_the_presets_of_its_scenario():
    import evidence
    from verdict import Row

    rows = [
        Row("e_coexist_red_drop", "drops total", reference=100, ours=100, low=100, high=100),
        Row("e_coexist_red_drop", "queue p50", reference=100, ours=60, low=60, high=60, others=(60, 60)),
        Row("f_incast_cubic_rto5ms", "timeouts 4 x 2000 B", reference=9, ours=0, low=0, high=0),
    ]
    found = evidence.evidence(rows)["scenarios"]
    both = {"presets": ["cubic", "dctcp"], "figures": 2, "inside": 2, "inside_reference": 1}
    assert found["e_coexist_red_drop"] == both
    assert found["f_incast_cubic_rto5ms"] == {"presets": ["cubic"], "figures": 1, "inside": 0, "inside_reference": 0}


def test_an_incast_of_kernel_hosts_counts_until_its_rounds_are_complete():
    """The probes of a server's last segment in the pause after a round belong to no round, as in the laboratory."""
    import polars as pl
    from kernel_hosts import of_rounds

    counted = [(1000.0, "h1", 2), (2000.0, "h1", 5), (4000.0, "h1", 6), (12000.0, "h1", 9), (2000.0, "r", 7)]
    counters = pl.DataFrame(
        [(time, node, "TcpExtTCPLossProbes", value) for time, node, value in counted],
        schema={"time_us": pl.Float64, "node": pl.String, "counter": pl.String, "value": pl.UInt64},
        orient="row",
    )
    rounds = pl.DataFrame({"query": [0, 1], "start_us": [500.0, 11000.0], "finish_us": [1700.0, 11800.0]})
    found = of_rounds(counters, rounds, late=500.0).sort("query")
    assert found["query"].to_list() == [0, 1]
    assert found["TcpExtTCPLossProbes"].to_list() == [5, 3]
