"""Comparisons: intervals with the stated coverage, paired differences by seed, tables and report."""

import csv
import io
import json
import random
import re
import shutil
from dataclasses import replace
from typing import Any

import pauseframe as pf
import polars as pl
import pytest
from pauseframe.report import Group, build_report, from_folder
from pauseframe.report.sweep import multiples
from pauseframe.sweep import tables
from pauseframe.sweep.compare import Cell, compare
from pauseframe.sweep.statistics import estimate
from pauseframe.terminal.text import is_number
from test_fabrics import cli

SCENARIO = """
name = "mixed"
stop = "3 s"
[topology]
kind = "star"
hosts = 4
link = { rate = "10 Gbps", delay = "1 us" }
[[workload]]
kind = "background"
sizes = { kind = "uniform", min = "10 KB", max = "100 KB" }
arrivals = { kind = "load", load = 0.3 }
stop = "3 ms"
"""
AXES: dict[str, list[object]] = {
    "transport.preset": ["dctcp", "tcp_bolt"],
    "workload.arrivals.load": [0.2, 0.5],
    "switch.latency": ["0 s", "1 us"],
}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    return pf.sweep(SCENARIO, axes=AXES, seeds=3, out=tmp_path_factory.mktemp("compare") / "mixed-sweep")


def test_known_ranks():
    # Ranks 1 and 6 of 6, 2 and 9 of 10, 40 and 61 of 100, from the tables of the sign test.
    for n, low, high in ((6, 1, 6), (8, 1, 8), (9, 2, 8), (10, 2, 9), (20, 6, 15), (100, 40, 61)):
        one = estimate([float(value) for value in range(1, n + 1)])
        assert (one.low, one.high) == (low, high), n
        assert one.coverage >= 0.95
    few = estimate([3.0, 1.0, 2.0])
    assert (few.median, few.low, few.high, few.coverage) == (2.0, 1.0, 3.0, 0.75)
    assert estimate([1.0]).low is None


def test_intervals_cover_the_median():
    rng = random.Random(1)
    n, trials = 11, 4000
    covered = 0
    for _ in range(trials):
        one = estimate([rng.expovariate(1.0) for _ in range(n)])
        assert one.low is not None
        assert one.high is not None
        covered += one.low <= 0.6931471805599453 <= one.high
    assert covered / trials == pytest.approx(one.coverage, abs=0.015)


def test_differences_are_taken_seed_by_seed(done):
    comparison = compare([done.folder], metrics=["fct_us.p99"])
    assert (comparison.by, comparison.variants) == ("transport.preset", ["dctcp", "tcp_bolt"])
    assert comparison.axes == {"workload.arrivals.load": ["0.2", "0.5"], "switch.latency": ["0 s", "1 us"]}
    cell: Any = comparison.cell("fct_us.p99", ("0.5", "1 us"), "tcp_bolt")

    def p99(preset, seed):
        axes = {"transport.preset": preset, "workload.arrivals.load": 0.5, "switch.latency": "1 us"}
        return done.run(seed, **axes).summary["fct_us"]["p99"]

    pairs = [(p99("tcp_bolt", seed), p99("dctcp", seed)) for seed in (1, 2, 3)]
    assert cell.value.median == sorted(one for one, _ in pairs)[1]
    assert cell.difference.median == sorted(one - other for one, other in pairs)[1]
    assert cell.ratio.median == sorted(one / other for one, other in pairs)[1]
    base: Any = comparison.cell("fct_us.p99", ("0.5", "1 us"), "dctcp")
    assert base.difference is None


def test_unfinished_flows_are_told(done, tmp_path):
    assert "unfinished" not in tables.note(compare([done.folder]))
    cut = pf.sweep(SCENARIO, seeds=2, set={"stop": "1 ms"}, out=tmp_path / "cut")
    assert tables.note(compare([cut.folder], metrics=["drops"])).startswith("2 of 2 runs left flows unfinished")


def test_each_time_counts_what_is_unfinished_of_its_kind(tmp_path):
    """Flows beside times of flows, those of one size beside its p99, and queries beside times of queries."""
    text = """
name = "cut"
stop = "4 ms"
topology = { kind = "star", hosts = 5 }
[[workload]]
kind = "background"
sizes = { kind = "uniform", min = "5 KB", max = "600 KB" }
arrivals = { kind = "load", load = 0.6 }
[[workload]]
kind = "incast"
rate = 3000.0
fan_in = 4
response = ["64 KB"]
"""
    sweep = pf.sweep(text, axes={"transport.preset": ["dctcp", "tcp_bolt"]}, seeds=2, out=tmp_path / "cut")
    comparison = compare([sweep.folder])
    assert any(
        "queries" in cell.causes[0] for cell in comparison.cells if cell.metric == "query_fct_us.p99" and cell.causes
    )
    for variant in comparison.variants:
        of_variant = pl.col("transport.preset") == variant
        flows = sweep.flows.filter(of_variant, pl.col("status").cast(pl.String) == "running").collect()
        queries = sweep.queries.filter(of_variant, pl.col("fct_us").is_null()).collect()
        counts = {cell.metric: cell.unfinished for cell in comparison.cells if cell.variant == variant}
        assert 0 < len(queries) < len(flows)
        assert counts["query_fct_us.p50"] == counts["query_fct_us.max"] == len(queries)
        assert counts["fct_us.p99"] == counts["slowdown.p50"] == len(flows)
        size = flows["size_bytes"] + flows["reply_bytes"]
        assert counts["fct_us.p99.100KB_1MB"] == len(flows.filter(size >= 100_000)) > 0
        assert sum(count for metric, count in counts.items() if metric.startswith("fct_us.p99.")) == len(flows)


def test_missing_runs_are_named(tmp_path):
    """After one of several shards, tables have rows of its runs only: every command that shows them counts the rest."""
    axes = {"workload.arrivals.load": [0.2, 0.5, 0.1]}
    folder = tmp_path / "part"
    part = pf.sweep(SCENARIO, axes=axes, seeds=2, shard=(1, 3), out=folder)
    text = f"{folder}: 2 of 6 runs have finished, none with workload.arrivals.load = 0.1, 0.5"
    assert part.missing == text
    comparison = compare([folder])
    assert comparison.missing == [text]
    assert f"% {text}" in tables.latex_text(comparison)
    for options in ([], ["--json"], ["--csv", tmp_path / "x.csv"]):
        done = cli("compare", folder, *options)
        assert f"warning: {text}; tables and files show only those" in done.stderr
    assert json.loads(cli("compare", folder, "--json").stdout)["missing"] == [text]
    done = cli("report", folder, "--out", tmp_path / "report.html")
    assert text in done.stderr
    assert f"{text}; what follows is of those." in (tmp_path / "report.html").read_text()
    assert "2 of 6 runs" in part.plot("fct_us.mean").html
    for index in (2, 3):
        whole = pf.sweep(SCENARIO, axes=axes, seeds=2, shard=(index, 3), out=folder)
    assert (whole.missing, compare([folder]).missing) == ("", [])
    assert "have finished" not in cli("compare", folder).stderr
    shutil.rmtree(folder / "batches")
    with pytest.raises(pf.RunError, match=r"no finished run to compare; .*: 0 of 6 runs have finished$"):
        compare([folder])


def test_syns_that_markers_dropped_are_told(tmp_path):
    """The flows of dropped SYNs wait one second for a timer, which no table of FCTs explains."""
    base = (
        'stop = "5 ms"\nclocks = "ideal"\ntopology = { kind = "star", hosts = 4 }\nhost.nic_queue = "per_destination"\n'
    )
    base += 'transport.preset = "dctcp"\ntransport.ect_on_syn = false\n'
    base += 'switch.marker = { k = "5 KB", not_ect = "drop" }\n'
    base += 'workload = [{ kind = "n_to_1", size = "1 MB", senders = 2 }, '
    base += '{ kind = "n_to_1", size = "1 MB", start = "0.5 ms" }]\n'
    lost = pf.sweep(base, seeds=2, out=tmp_path / "lost")
    dropped = lost.summaries["syn_drops_not_ect"].sum()
    assert dropped > 0
    assert f"in all runs: {dropped}. Each is sent again" in tables.note(compare([lost.folder], metrics=["drops"]))
    kept = pf.sweep(base, seeds=2, set={"transport.ect_on_syn": True}, out=tmp_path / "kept")
    assert "SYN" not in tables.note(compare([kept.folder], metrics=["drops"]))


def test_by_another_axis(done):
    comparison = compare([done.folder], by="switch.latency", metrics=["fct_us.p50"])
    assert list(comparison.axes) == ["transport.preset", "workload.arrivals.load"]
    slower = [cell for cell in comparison.cells if cell.variant == "1 us"]
    assert len(slower) == 4
    assert all(cell.difference and cell.difference.median > 0 for cell in slower)


def test_folders_with_one_another(done, tmp_path):
    for preset in ("dctcp", "tcp_bolt"):
        for seed in (1, 2):
            pf.run(SCENARIO, set={"transport.preset": preset}, seed=seed, out=tmp_path / f"{preset}-{seed}")
    folders = [tmp_path / f"{preset}-{seed}" for preset in ("dctcp", "tcp_bolt") for seed in (1, 2)]
    comparison = compare(folders)
    assert (comparison.by, comparison.variants, comparison.runs) == ("results", ["dctcp", "tcp_bolt"], 4)
    other = pf.sweep(SCENARIO, axes=AXES, seeds=2, set={"host.mtu": "9 KB"}, out=tmp_path / "jumbo")
    both = compare([done.folder, other.folder])
    assert both.variants == ["mixed-sweep", "jumbo"]
    assert list(both.axes) == list(AXES)
    assert {cell.difference.n for cell in both.cells if cell.difference} == {2}  # seeds that both folders have
    with pytest.raises(pf.RunError, match="is a single run, and mixed-sweep a sweep over"):
        compare([done.folder, folders[0]])
    with pytest.raises(pf.RunError, match=r"fct_us\.p99"):
        compare(folders, metrics=["fct"])
    with pytest.raises(pf.RunError, match="no axis"):
        compare([done.folder], by="transport.prest")
    with pytest.raises(FileNotFoundError):
        compare([tmp_path])


def test_tables(done, tmp_path):
    names = ("c.csv", "c.tex", "c.html")
    paths = [tmp_path / name for name in names]
    files = ["--csv", paths[0], "--latex", paths[1], "--report", paths[2]]
    shown = cli("compare", done.folder, "--metric", "fct_us.p99", *files)
    assert shown.returncode == 0
    assert "Δ to dctcp †" in shown.stdout
    assert "† Not the same memory: the fullest switch held" in shown.stdout
    assert "FCT, p99" in shown.stdout
    assert "3 seeds" in shown.stdout
    rows = list(csv.DictReader(io.StringIO(paths[0].read_text())))
    assert len(rows) == 8
    assert {row["n"] for row in rows} == {"3"}
    latex = paths[1].read_text()
    assert latex.count(r"\\") == 4 + 2  # The LaTeX table has rows, a title and headings.
    assert r"tcp\_bolt" in latex
    body = "\n".join(line for line in latex.splitlines() if not line.startswith("% "))
    assert not re.search(r"(?<!\\)[%_#]", body)
    html = paths[2].read_text()
    assert "switch.latency = 1 us" in html
    assert html.count('data-figure="') == 6


def test_report_of_a_sweep(done):
    made = cli("report", done.folder)
    assert (made.returncode, made.stderr) == (0, "")
    html = (done.folder / "report.html").read_text()
    assert "24 runs, compared by transport.preset" in html
    assert "FCT, p99.9" in html
    assert pf.load_sweep(done.folder).report(done.folder.parent / "again.html").stat().st_size > 100_000


def test_a_ratio_has_no_milli(done):
    """Tick labels for 0.01 and 1000 have no prefix for a ratio, and have one for a unit that takes prefixes."""
    api = pytest.importorskip("playwright.sync_api", reason="no playwright here: pip install 'pauseframe[dev]'")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    page_of = pf.load_sweep(done.folder).report(done.folder.parent / "ratios.html")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.goto(page_of.as_uri())
        ticks = page.evaluate(
            '["×", "", "s", "B"].map(unit => logTicks(-2, 3).map(([, tick]) => withPrefix(tick, unit)))'
        )
        browser.close()
    assert ticks[0] == ["0.01 ×", "0.1 ×", "1 ×", "10 ×", "100 ×", "1,000 ×"]
    assert ticks[1] == ["0.01", "0.1", "1", "10", "100", "1,000"]
    assert ticks[2] == ["10 ms", "100 ms", "1 s", "10 s", "100 s", "1 ks"]
    assert ticks[3][-1] == "1 KB"


def test_an_interval_does_not_flatten_the_rest(done):
    """If one interval spans decades, as retransmission timeouts cause, the axis of all panels becomes logarithmic."""
    plain = compare([done.folder], metrics=["fct_us.p50"])
    axes = [figure["layout"]["yaxis"] for _, figure in multiples(plain, "fct_us.p50", relative=False)]
    tops = [axis["range"] for axis in axes]
    assert len(tops) == 2
    assert tops[0] == tops[1]
    assert tops[0][0] == 0
    one = plain.cells[0]
    wide = replace(one, value=replace(one.value, low=one.value.median, high=one.value.median * 1000))
    spread = replace(plain, cells=[wide, *plain.cells[1:]])
    axes = [figure["layout"]["yaxis"] for _, figure in multiples(spread, "fct_us.p50", relative=False)]
    assert [axis["type"] for axis in axes] == ["log", "log"]
    assert axes[0]["span"] == axes[1]["span"]
    low, top = axes[0]["span"]
    assert top == pytest.approx(one.value.median / 1e3)
    assert 0 < low < one.value.median / 1e6


def test_p99_by_flow_size(done):
    """The terminal shows one table for all sizes; its numbers are computed from the flows."""
    shown = cli("compare", done.folder)
    assert shown.returncode == 0
    assert "FCT, p99, by flow size" not in shown.stdout, "all flows are of one size bin"
    sizes = 'sizes = { kind = "uniform", min = "10 KB", max = "100 KB" }'
    mixed = SCENARIO.replace(sizes, 'sizes = { kind = "uniform", min = "2 KB", max = "300 KB" }')
    sweep = pf.sweep(mixed, axes={"transport.preset": ["dctcp", "tcp_bolt"]}, seeds=1, out=done.folder.parent / "sizes")
    lines = cli("compare", sweep.folder).stdout.splitlines()
    begin = lines.index(next(line for line in lines if line.startswith("FCT, p99, by flow size")))
    assert [line.strip().split("  ")[0] for line in lines[begin + 1 : begin + 4]] == [
        "< 10 KB",
        "10–100 KB",
        "0.1–1 MB",
    ]
    flows = sweep.run(1, **{"transport.preset": "tcp_bolt"}).flows.to_polars()
    small = flows.filter(flows["size_bytes"] + flows["reply_bytes"] < 10_000)["fct_us"]
    cell: Any = compare([sweep.folder], metrics=["fct_us.p99.to_10KB"]).cell("fct_us.p99.to_10KB", (), "tcp_bolt")
    assert cell.value.median == small.quantile(0.99, "linear")


def test_a_shared_buffer_of_one_size_is_the_same_memory(done):
    comparison = compare([done.folder], metrics=["fct_us.p99"])
    assert tables.caution(comparison).startswith("† Not the same memory")
    assert comparison.same_memory == {"dctcp": True, "tcp_bolt": False}
    shared = pf.sweep(
        SCENARIO,
        axes={"transport.preset": ["dctcp", "tcp_bolt"]},
        seeds=1,
        set={"switch.buffer": {"policy": "shared", "size": "2 MB"}},
        out=done.folder.parent / "shared",
    )
    comparison = compare([shared.folder], metrics=["fct_us.p99"])
    assert tables.caution(comparison) == ""
    assert "†" not in "".join(tables.heads(comparison))


def test_one_table_for_all_metrics(tmp_path):
    """Metrics are rows and runs are columns, in the terminal, in LaTeX and on the page."""
    for preset in ("dctcp", "tcp_bolt"):
        pf.run(SCENARIO, set={"transport.preset": preset}, seed=1, out=tmp_path / preset)
    shown = cli(
        "compare", tmp_path / "dctcp", tmp_path / "tcp_bolt", "--latex", "t.tex", "--report", "t.html", cwd=tmp_path
    )
    table, _, _ = shown.stdout.partition("\n\n")
    head, *rows = table.splitlines()
    assert head.split() == ["dctcp", "tcp_bolt", "Δ", "to", "dctcp", "†"]
    names = [tables.title(name) for name in compare([tmp_path / "dctcp", tmp_path / "tcp_bolt"]).metrics]
    assert len(names) >= 8
    assert [row.strip().startswith(name) for row, name in zip(rows, names, strict=True)] == [True] * len(names)
    assert (tmp_path / "t.tex").read_text().count(r"\begin{tabular}") == 1
    page = (tmp_path / "t.html").read_text()
    assert page.count('<table class="numbers">') == 1
    sentence = page.partition('class="sentence">')[2].partition("<")[0]
    assert sentence.endswith("with one seed, which shows no interval.")


def test_slowdowns_of_other_ideal_times_say_so(tmp_path):
    """A handshake doubles the ideal time of a small flow; two kinds of TCP have nearly the same."""
    text = """
    stop = "20 ms"
    topology = { kind = "star", hosts = 3, link = { rate = "10 Gbps", delay = "1 us" } }
    workload = [{ kind = "n_to_1", size = "1 KB" }]
    """
    folders = []
    for name in ("dctcp", "roce_dcqcn", "tcp_bolt"):
        pf.run(text, set={"transport.preset": name}, out=tmp_path / name)
        folders.append(tmp_path / name)
    shown = cli("compare", *folders[:2]).stdout
    assert re.search(r"for flows < 10 KB their mean is 8\.\d+ us in dctcp, 3\.\d+ us in roce_dcqcn", shown)
    rows = {line.partition("  ")[0]: line for line in shown.splitlines()}
    assert "ideal times differ" in rows["slowdown, p50"]
    assert "ideal times differ" not in rows["FCT, p50"]
    build_report([Group("", [from_folder(folder) for folder in folders[:2]])], tmp_path / "r.html")
    assert "us in dctcp, 3." in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert "ideal times" not in cli("compare", folders[0], folders[2]).stdout
    sizes: dict[str, list[object]] = {"transport.preset": ["dctcp"], "workload.size": ["1 KB", "2 KB"]}
    swept = pf.sweep(text, axes=sizes, out=tmp_path / "sizes")
    note = tables.note(compare([swept.folder], by="workload.size"))
    assert "ideal times" not in note, "other flows have other ideal times"


def test_large_differences_are_factors():
    one = estimate([30.0])
    cell = Cell("fct_us.p99", (), "b", one, one, estimate([18.54]))
    assert tables.format_difference(cell) == "× 18.5"
    assert tables.format_difference(replace(cell, ratio=estimate([9.5]))) == "+850 %"
    mixed = replace(estimate([9.5]), low=8.0, high=12.0)
    assert tables.format_difference(replace(cell, ratio=mixed)) == "× 9.5 [× 8, × 12]"


def test_differences_in_words():
    def words(metric, value, base):
        difference = estimate([one - other for one, other in zip(value, base, strict=True)])
        ratio = None if 0 in base else estimate([one / other for one, other in zip(value, base, strict=True)])
        return tables.format_difference(Cell(metric, (), "b", estimate(value), difference, ratio))

    assert words("fct_us.p99", [9.0, 10.0, 11.0], [10.0, 10.0, 10.0]) == "0 % [-10 %, +10 %]"
    assert words("fct_us.p99", [1000.00336, 1000.4, 1001.0], [1000.0] * 3) == "≈ 0 % [≈ 0 %, +0.1 %]"
    assert words("drops", [3.0, 0.0, 5.0], [0.0, 1.0, 2.0]) == "+3 [-1, +3]"  # from zero
    assert words("fct_us.p99", [1500.0], [0.0]) == "+1.5 ms"


def test_no_interval_where_the_seed_changes_nothing(tmp_path):
    fixed = """
    clocks = "ideal"
    workload = [{ kind = "n_to_1", senders = 2, size = "100 KB" }]
    topology = { kind = "star", hosts = 3, link = { rate = "10 Gbps", delay = "1 us" } }
    """
    axes: dict[str, list[object]] = {"transport.preset": ["dctcp", "tcp_bolt"]}
    sweep = pf.sweep(fixed, axes=axes, seeds=6, out=tmp_path / "fixed")
    comparison = compare([sweep.folder])
    assert all(cell.seedless and cell.value.low is None for cell in comparison.cells)
    assert all(cell.difference is None or cell.difference.low is None for cell in comparison.cells)
    shown = cli("compare", sweep.folder).stdout
    assert "The seed changes nothing in every row" in shown
    assert "[" not in shown.replace("[3]", "")


def test_intervals_stay_where_seeds_differ(done):
    comparison = compare([done.folder])
    assert not any(cell.seedless for cell in comparison.cells)
    assert "changes nothing" not in tables.note(comparison)


@pytest.mark.parametrize("begin", ["=", "+", "-", "@", "\t", "\r", "\n"])
def test_no_text_is_a_formula(begin, done):
    evil = f"{begin}HYPERLINK(1)"
    comparison = compare([done.folder], metrics=["fct_us.p99"])
    renamed = {name: evil if name == "dctcp" else name for name in comparison.variants}
    cells = [replace(cell, variant=renamed[cell.variant]) for cell in comparison.cells]
    text = tables.csv_text(replace(comparison, variants=list(renamed.values()), cells=cells))
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    safe = "'" + evil.replace("\r", "\n")
    assert {row["transport.preset"] for row in rows} == {safe, "tcp_bolt"}
    assert {row["baseline"] for row in rows} == {safe}
    assert not [cell for row in rows for cell in row.values() if cell.startswith(begin) and not is_number(cell)]


def test_numbers_stay_numbers(done):
    rows = list(csv.DictReader(io.StringIO(tables.csv_text(compare([done.folder])))))
    differences = [float(row["difference_median"]) for row in rows if row["difference_median"]]
    assert min(differences) < 0  # A negative number keeps a minus sign and gets no apostrophe.
    assert {row["workload.arrivals.load"] for row in rows} == {"0.2", "0.5"}
    assert tables.as_text("-0.5") == "-0.5"


def test_the_nearest_metric_and_axis(done):
    wrong = cli("compare", done.folder, "--metric", "fct_us.p9")
    assert wrong.returncode == 2
    assert "did you mean fct_us.p99" in wrong.stderr
    wrong = cli("compare", done.folder, "--by", "transport.prest")
    assert wrong.returncode == 2
    assert "did you mean transport.preset?" in wrong.stderr


TRAINING = """
name = "train"
stop = { when_finished = true }
clocks = "ideal"
topology = { kind = "star", hosts = 4, link = { rate = "10 Gbps", delay = "1 us" } }
transport = { preset = "roce_dcqcn" }
[[workload]]
kind = "application"
name = "train"
placement = "round_robin"
program = '''
"""


def test_times_of_applications(tmp_path):
    """Jobs are compared by their times, of sweeps and of folders; unfinished jobs have none."""
    ranks = "".join(f"rank {n} of 4\ncomm 0 4 all\n100000 allreduce 0 1000000\nend 0\n" for n in range(4))
    text = f"{TRAINING}{ranks}'''\n"
    sweep = pf.sweep(text, axes={"topology.link.delay": ["1 us", "50 us"]}, out=tmp_path / "delays")
    compared = compare([tmp_path / "delays"])
    assert "job_time_us" in compared.metrics
    values = {cell.variant: cell.value.median for cell in compared.cells if cell.metric == "job_time_us"}
    for delay, took in values.items():
        (job,) = sweep.run(1, **{"topology.link.delay": delay}).jobs
        assert took == job["time_us"]
    assert values["50 us"] > values["1 us"]
    for stop in ("1 s", "200 us"):
        pf.run(text, set={"stop": stop}, out=tmp_path / stop.replace(" ", ""))
    folders = compare([tmp_path / "1s", tmp_path / "200us"])
    ended = {(cell.metric, cell.variant): cell.value.median for cell in folders.cells}
    assert ended["job_time_us", "1s"] == values["1 us"]
    assert ended["jobs_unfinished", "200us"] == 1
    assert ("job_time_us", "200us") not in ended


def seeded(folder, seeds, **settings):
    return pf.sweep(SCENARIO, seeds=seeds, set={"stop": "0.3 ms", **settings}, out=folder, progress=False).folder


def test_a_note_says_which_seeds_the_differences_are_over(tmp_path):
    """Also where medians are over other seeds than the differences beside them."""
    first, other = seeded(tmp_path / "a", [1, 2, 3, 4]), seeded(tmp_path / "b", [3, 4, 5], **{"switch.latency": "1 us"})
    comparison = compare([first, other], metrics=["events"])
    note = tables.note(comparison)
    assert "Medians over 3 to 4 seeds" in note
    assert "Δ of b to a is over the 2 seeds that both have; the medians are over 4 and 3." in note
    cell: Any = comparison.cell("events", (), "b")
    assert (cell.difference.n, cell.seeds, cell.first_seeds) == (2, (3, 4, 5), (1, 2, 3, 4))


def test_a_note_says_why_a_difference_is_empty(tmp_path):
    folders = [seeded(tmp_path / name, seeds) for name, seeds in (("a", [1, 2, 3]), ("b", [4]), ("c", [4]))]
    comparison = compare(folders, metrics=["events"])
    assert [row[2:5:2] for row in tables.rows(comparison, "events")] == [["–", "–"]]
    assert (
        "Δ of b and c to a is empty (–): no seed is common (seeds 1 to 3 and 4), and differences are between runs of "
        "one seed: run both with the same seeds."
    ) in tables.note(comparison)
    assert "–" in cli("compare", *folders, "--metric", "events").stdout
    same = compare([seeded(tmp_path / "d", [1, 2, 3]), folders[0]], metrics=["events"])
    assert "Δ of" not in tables.note(same)
    assert "empty" not in tables.note(same)


def test_a_note_says_why_a_value_is_missing(done):
    comparison = compare([done.folder], metrics=["events"])
    setting = comparison.settings[0]
    cells = [cell for cell in comparison.cells if (cell.setting, cell.variant) != (setting, "tcp_bolt")]
    assert "A value is missing (–) where no finished run has one." in tables.note(replace(comparison, cells=cells))
    lacks = [replace(cell, difference=None, ratio=None, first_seeds=()) for cell in comparison.cells]
    assert "Δ is empty (–) where dctcp has no value." in tables.note(replace(comparison, cells=lacks))
    assert "–" not in tables.note(comparison)
