"""A run that left work unfinished is never ranked by the times of what it finished; losses include trimmed packets."""

import re
from dataclasses import replace

import pauseframe as pf
import polars as pl
import pytest
from pauseframe.plugins.check import key_figures
from pauseframe.report import Group, answers, from_run, summary
from pauseframe.report.build import render_report
from pauseframe.report.data import busy_until, from_folder, mean_throughput, received, throughput
from pauseframe.report.measure import measure_of
from pauseframe.report.sentences import beside
from pauseframe.sweep import tables
from pauseframe.sweep.compare import compare
from pauseframe.terminal.text import summary_rows

STAR = 'topology = { kind = "star", hosts = 5 }\nswitch = { buffer = "40 KB" }\n'
BURST = f'name = "burst"\n{STAR}workload = {{ kind = "n_to_1", size = "64 KB" }}\n'
TRIM = """name = "trim"
topology = { kind = "star", hosts = 5 }
transport.preset = "uec_nscc"
switch = { queue = "trim", buffer = "20 KB" }
workload = { kind = "n_to_1", size = "64 KB" }
"""


@pytest.fixture(scope="module")
def done():
    return replace(from_run(pf.run(BURST, progress=False)), label="done")


def cut(run, label, left, faster=1.0):
    """The run with its last `left` flows unfinished, and the others `faster` times as fast."""
    count = run.flows.select(pl.len()).collect().item()
    is_left = pl.int_range(pl.len()) >= count - left
    flows = run.flows.with_columns(
        pl.when(is_left).then(None).otherwise(pl.col("fct_us") / faster).alias("fct_us"),
        pl.when(is_left).then(pl.lit("running")).otherwise(pl.col("status").cast(pl.String)).alias("status"),
    )
    said = {**run.summary, "flows_finished": count - left}
    return replace(run, label=label, flows=flows, summary=said)


def answered(*runs):
    return answers.answer(runs, lambda _: 0)


def test_the_only_run_that_finished_is_named_and_so_is_the_other(done):
    answer = answered(cut(done, "stuck", 4), done)
    assert answer.sentence.startswith("Only done finished all its flows; the slowest took ")
    assert "stuck finished none of 4 flows." in answer.sentence
    assert "differ by less" not in answer.sentence
    assert (answer.bars[0].share, answer.bars[0].text) == (0.0, "0 of 4 finished")
    assert answer.bars[1].share == 1.0


def test_a_run_that_finished_a_part_does_not_win_by_the_times_of_that_part(done):
    answer = answered(done, cut(done, "part", 1, faster=3.0))
    assert answer.sentence.startswith("Only done finished all its flows")
    assert "part finished 3 of 4 flows." in answer.sentence
    assert [bar.share for bar in answer.bars] == [1.0, 0.0]
    cells = dict(answer.rows)["part"]
    assert not any("×" in small for _, small in cells[:3])
    assert "1 of 4 flows unfinished" in cells[2][1]


def test_tables_have_no_ratio_of_times_of_a_part(done):
    slower = replace(done, label="slower", summary={**done.summary, "fct_us": {**done.summary["fct_us"], "p99": 1e6}})

    def ratios(other):
        (_, of_first), (_, of_other) = [(label, cells) for label, _, cells in summary.tables([done, other])[0].rows]
        assert not any(small for _, small in of_first)
        return [small for _, small in of_other if small]

    assert ratios(slower)
    assert ratios(cut(slower, "part", 1)) == ["× 0.75"], "of the number of finished flows"
    page = render_report([Group("", [done, cut(done, "part", 1, faster=3.0)])])
    assert "× 0.33" not in page


def test_of_three_runs_only_complete_ones_are_compared(done):
    slower = replace(done, label="slower", flows=done.flows.with_columns(pl.col("fct_us") * 2))
    sentence = answered(done, cut(done, "part", 1, faster=3.0), slower).sentence
    assert re.match(r"The slowest flow takes .* in done, .* in slower, 2 times as long; ", sentence)
    assert sentence.endswith(" part finished 3 of 4 flows.")
    same = answered(done, replace(done, label="twin"), cut(done, "stuck", 4)).sentence
    assert same.startswith("done and twin differ by less than 1 %")
    twins = [replace(done, label=name) for name in "abc"]
    assert answered(*twins, cut(done, "stuck", 4)).sentence.startswith("The 3 runs that finished all flows differ by")


def test_no_run_is_ranked_if_all_left_flows_unfinished(done):
    sentence = answered(cut(done, "a", 1), cut(done, "b", 2, faster=9.0)).sentence
    assert sentence.startswith("No run finished all its flows; ")
    assert sentence.endswith("a finished 3 of 4 flows and b finished 2 of 4 flows.")


def test_one_run_says_that_its_times_are_of_a_part(done):
    assert answered(cut(done, "part", 1)).sentence.startswith("3 of 4 flows finished; the slowest of these took ")


def test_jobs_answer_although_one_run_finished_none(done):
    def job(label, time):
        return replace(done, label=label, jobs=pl.DataFrame({"time_us": [time]}, {"time_us": pl.Float64}).lazy())

    full, short = job("full", 3410.0), job("short", None)
    sentence = answered(full, short).sentence
    assert sentence.startswith("Only full finished its job; it took 3.41 ms; ")
    assert sentence.endswith("short did not finish its job.")
    assert answered(cut(short, "short", 4)).sentence.startswith("No job finished within ")
    both = answered(short, replace(short, label="other")).sentence
    assert "short left 1 job unfinished. other left 1 job unfinished." in both


def test_unfinished_flows_beside_finished_queries_are_named(done):
    queries = pl.DataFrame({"fct_us": [100.0, 200.0]}).lazy()
    said = {**done.summary, "queries_total": 2, "queries_finished": 2}
    run = cut(replace(done, queries=queries, summary=said), "busy", 3)
    sentence = answered(run).sentence
    assert sentence.startswith("All 2 queries finished; the slowest took 200 us. 3 flows did not finish. ")
    both = answered(run, replace(run, label="twin")).sentence
    assert "busy left 3 flows unfinished." in both


def test_the_rate_of_a_run_that_waits_is_that_of_the_whole_run(done):
    end = 100 * done.summary["sim_time_s"]
    stuck = cut(replace(done, summary={**done.summary, "sim_time_s": end}), "stuck", 4)
    assert busy_until(stuck) == end
    bits = 8 * received(stuck)["bytes"].sum()
    assert mean_throughput(stuck) == pytest.approx(bits / end)
    assert f"within {end * 1e3:.3g} ms" in answered(stuck).sentence
    x, y = throughput(stuck, end)
    assert [x[-1], y[-1]] == pytest.approx([end, 0.0]), "the stall is in the figure"
    assert len(x) > 10, "the intervals before the stall are as fine as without it"
    late = replace(stuck, flows=done.flows)
    assert mean_throughput(late) > 50 * mean_throughput(stuck), "an idle end does not count"


def test_cc_check_counts_no_scenario_in_which_a_control_left_flows(done):
    slow = replace(done, label="cubic", flows=done.flows.with_columns(pl.col("fct_us") * 2))
    groups = {
        "One": [done, slow],
        "Two": [cut(done, "mine", 1, faster=9.0), slow],
        "Three": [cut(done, "mine", 4), cut(slow, "cubic", 4)],
    }
    texts = beside({title: measure_of(runs) for title, runs in groups.items()}, groups)
    assert texts == [
        "By slowest flow it is faster than cubic in 1 and slower in 0 of the 1 scenario in which both finish "
        "everything.",
        "It carries more in 0 and less in 0 of the 1 scenario without times.",
        "Two: it left 1 of 4 flows unfinished, cubic none.",
    ]
    answer = answers.of_scenarios("mine keeps the contract.", groups)
    assert [bar.text for bar in answer.bars][2] == "3 of 4 finished"


def test_the_terminal_of_cc_check_counts_unfinished_flows():
    run = pf.run(BURST, set={"stop": "100 us"}, progress=False)
    assert key_figures(run)["unfinished"] == "4 of 4"
    assert key_figures(pf.run(BURST, progress=False))["unfinished"] == "0"


@pytest.fixture(scope="module")
def trimmed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trim") / "run"
    pf.run(TRIM, out=folder, progress=False)
    return folder


def test_trimmed_packets_are_losses_in_a_report(trimmed, done):
    run = from_folder(trimmed)
    count = run.ports.select(pl.col("trims").sum()).collect().item()
    again = run.summary["retransmits"]
    assert count > 0 == run.summary["drops"]
    sentence = answered(run).sentence
    assert f"{count} packets were trimmed, {again} packets sent again" in sentence.replace(" and ", ", ")
    assert "No packet was dropped" not in sentence
    page = render_report([Group("", [run])])
    assert "Packets dropped or trimmed, by reason" in page
    assert "No packet was dropped." not in page
    columns = {name: cells for table in summary.tables([run, done]) for name, cells in columns_of(table)}
    assert columns["trimmed"] == [f"{count}", "0"]
    assert columns["sent again"] == [f"{again}", f"{done.summary['retransmits']}"]
    assert f"trim dropped no packet and trimmed {count}" in answered(run, done).sentence
    assert "trimmed" not in dict(answered(done).heads)


def columns_of(table):
    names = list(table.columns)
    return [(name, [cells[place][0] for _, _, cells in table.rows]) for place, name in enumerate(names)]


def test_trimmed_packets_are_in_compare_and_the_terminal(trimmed):
    run = pf.load(trimmed)
    assert run.trims > 0
    assert ("packets trimmed", f"{run.trims}") in summary_rows(run.summary)
    comparison = compare([trimmed])
    names = [row[0] for row in tables.rows_by_metric(comparison)]
    assert {"packets trimmed", "packets sent again"} <= set(names)
    cell = comparison.cell("trims", (), comparison.variants[0])
    assert cell is not None
    assert cell.value.median == run.trims
