"""How many threads a run takes: no more than pay off, unless it is told to; and the results are the same."""

import pauseframe as pf

# Two switches with hosts.
DUMBBELL = """
topology = { kind = "dumbbell", left = 2, right = 2, link = { rate = "10 Gbps", delay = "1 us" } }
workload = [{ kind = "permutation", size = "100 KB" }]
"""


def _said(run: pf.Run) -> list[str]:
    return [warning for warning in run.summary["warnings"] if warning.startswith("threads:")]


def test_a_small_network_takes_one_thread_and_says_so() -> None:
    run = pf.run(DUMBBELL, threads=2)
    assert run.summary["threads"] == 1
    assert _said(run) == ["threads: 2 were asked for, 1 taken: no more pay off in a network of this size"]
    assert _said(pf.run(DUMBBELL)) == _said(pf.run(DUMBBELL, threads=1)) == [], "nobody asked for more"


def test_a_network_is_divided_all_the_same_where_that_is_wanted() -> None:
    one, two, most = pf.run(DUMBBELL), *(pf.run(DUMBBELL, threads=count, divide=True) for count in (2, 5))
    assert [run.summary["threads"] for run in (one, two, most)] == [1, 2, 2]
    assert len({run.summary["fingerprint"] for run in (one, two, most)}) == 1
    assert _said(two) == []
    assert "only 2 switches have hosts" in _said(most)[0]
