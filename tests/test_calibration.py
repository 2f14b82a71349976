"""Our model beside the digest of the kernel's runs: rows inside their bands stay there (docs/validation/linux.md).

The scenarios without jitter, which need one run each, and of the others the quickest. From the committed digest alone.
"""

import sys
from pathlib import Path

import pytest

CALIBRATION = Path(__file__).parents[1] / "calibration"
SINGLE = ["a_single_cubic", "a_single_cubic_nohystart", "a_single_dctcp", "a_single_reno", "a_single_vegas"]
TRANSFERS = ["g_fct_iw10", "g_fct_iw10_quickack", "g_fct_iw200_bigrmem"]
SEEDS = {
    "c_buildup_dctcp_rtt600": 3,
    "b_long2_dctcp_rtt600": 3,
    "b_long2_dctcp_rtt600_tso": 3,
    "e_coexist_red_nodrop": 3,
}


@pytest.fixture(scope="module", autouse=True)
def modules():
    """The scripts of the folder, which is no package."""
    sys.path.insert(0, str(CALIBRATION))
    yield
    sys.path.remove(str(CALIBRATION))


@pytest.mark.parametrize("scenario", [*SINGLE, *TRANSFERS, *SEEDS])
def test_rows_stay_where_they_are(scenario):
    import ours
    from figures import figures
    from verdict import compare, known, reason, reference

    runs = [figures(scenario, ours.record(scenario, seed)) for seed in range(1, SEEDS.get(scenario, 1) + 1)]
    rows = compare(scenario, reference()[scenario], runs)
    assert len(rows) >= 8
    reasons = known()
    lost = [row for row in rows if row.standing == "outside" and reason(row, reasons) is None]
    assert not lost, "outside its band, and not in calibration/known.toml"
    won = [row for row in rows if row.standing == "inside" and reason(row, reasons) is not None]
    assert not won, "inside its band now: take it out of calibration/known.toml"


def test_known_rows_exist():
    from verdict import known, reference

    figures = reference()
    for entry in known():
        assert set(entry["figures"]) <= set(figures[entry["scenario"]]), entry["scenario"]
        assert len(entry["reason"]) > 20


def test_bands():
    from figures import Band, band

    assert band("queue p50") == Band(0.05, 1.0)
    assert band("response p50") == Band(0.05)
    assert band("response p95") == band("marked fraction") == Band(0.15)
    assert not Band(0.05).holds(106.0, 100.0)
    assert Band(0.05, 1.0).holds(4.0, 3.0)
