"""One rule for percentiles in terminal, report, compare and reproduce, and the other criteria for a difference."""

import ast
import re
from pathlib import Path

import pauseframe as pf
import polars as pl
import pytest
from pauseframe.report import Group, build_report, from_folder
from pauseframe.reproduce import plots
from pauseframe.reproduce.points import Point
from pauseframe.reproduce.spec import Plot
from pauseframe.results import percentiles
from pauseframe.results.operations import operations
from pauseframe.sweep import tables
from pauseframe.sweep.compare import compare
from test_fabrics import cli

BASE = """
stop = "{stop}"
clocks = "ideal"
topology = {{ kind = "star", hosts = 5 }}
host = {{ nic_queue = "per_destination" }}
switch = {{ buffer = {{ policy = "per_port", size = "100 KB" }} }}
transport = {{ stack = "none", preset = "{preset}" }}
[[workload]]
kind = "flows"
flows = [
    {{ src = "host1", dst = "host0", size = "20 KB" }},
    {{ src = "host2", dst = "host0", size = "40 KB" }},
    {{ src = "host3", dst = "host0", size = "80 KB" }},
    {{ src = "host4", dst = "host0", size = "4 MB" }},
]
"""


def scenario(preset, stop):
    return BASE.format(preset=preset, stop=stop)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Four flows of each transport; the longest DCTCP flow does not finish."""
    home = tmp_path_factory.mktemp("percentiles")
    return [
        pf.run(scenario(preset, stop), out=home / preset).folder
        for preset, stop in (("dctcp", "1 ms"), ("tcp_bolt", "1 s"))
    ]


def test_the_terminal_marks_and_counts(tmp_path):
    (tmp_path / "few.toml").write_text(scenario("tcp_bolt", "1 s"))
    done = cli("run", tmp_path / "few.toml", "--out", tmp_path / "few")
    assert re.search(r"p50 / p99 / p99\.9 / slowest .* \? / .* \? / .* \? / [\d.]+ ms\n", done.stdout)
    assert percentiles.EXPLANATION in done.stdout
    (tmp_path / "cut.toml").write_text(scenario("dctcp", "1 ms"))
    cut = cli("run", tmp_path / "cut.toml", "--out", tmp_path / "cut")
    assert re.search(r"p50 / p99 / p99\.9 / slowest .* \? / [\d.]+ \w+ \(1 unfinished\)", cut.stdout)


def test_the_report_marks_and_says_what_else_decides(runs, tmp_path):
    html = build_report([Group("", [from_folder(run) for run in runs])], tmp_path / "r.html").read_text("utf-8")
    assert re.search(r'<td class="unsure">[^<]* \?<', html)
    assert "?: fewer than 10 samples lie beyond" in html
    assert re.search(r"<small>1 of 4 flows unfinished in dctcp</small>", html)
    assert "<small>memory differs: " in html


def test_compare_marks_and_says_what_else_decides(runs):
    comparison = compare(runs, metrics=["fct_us.p99", "drops"])
    (row,), (drops,) = (tables.rows(comparison, metric) for metric in ("fct_us.p99", "drops"))
    assert row[0].endswith(" ? (1 unfinished)"), "three samples of four flows"
    assert row[1].endswith(" ?"), "four samples"
    assert row[2].endswith(" (flows unfinished, memory differs)")
    assert not any("?" in cell or "memory" in cell for cell in drops), "a count is no percentile, and no time"
    assert percentiles.EXPLANATION in tables.note(comparison)
    assert percentiles.EXPLANATION not in tables.note(compare(runs, metrics=["drops"]))


def test_samples_of_other_seeds_make_no_percentile_surer(tmp_path):
    """`compare` shows the median of one percentile per seed, so the mark counts the samples of one seed."""
    names = ", ".join(f'{{ src = "host1", dst = "host0", size = "1 KB", start = "{n} us" }}' for n in range(12))
    text = scenario("tcp_bolt", "1 s").partition("[[workload]]")[0]
    text += f'[[workload]]\nkind = "flows"\nflows = [{names}]\n'
    done = pf.sweep(text, axes={"transport.preset": ["tcp_bolt"]}, seeds=5, out=tmp_path / "twelve")
    (cell,) = compare([done.folder], metrics=["fct_us.p50"]).cells
    assert (cell.samples, cell.is_unsure) == (12, True), "6 of 12 lie beyond the median, 30 of all seeds together"
    rows = tables.rows(compare([done.folder], metrics=["fct_us.p50"]), "fct_us.p50")
    assert " ?" in rows[0][0]


def test_plots_of_experiments_show_few_samples_pale():
    plot = Plot(metric="m", kind="bars", x="size")
    points = [
        Point("a", seed, "m", 5.0, {"size": size}, {}, 10 * n, n) for seed in (1, 2) for size, n in ((1, 9), (2, 10))
    ]
    assert plots._trace(0, "a", plot, points)["marker"]["opacity"] == [0.35, 1.0]
    assert percentiles.EXPLANATION in plots.counts(plot, points)
    assert percentiles.EXPLANATION not in plots.counts(plot, [one for one in points if one.keys["size"] == 2])


def test_percentiles_of_operations_interpolate():
    """Linear between order statistics (type 7): of 10 and 20 us the median is 15 us, and p99 is 19.9 us."""
    rows = [("disk", "write", 1000, 0, 0.0, us, us) for us in (10.0, 20.0)]
    columns = ("workload", "operation", "size_bytes", "reply_bytes", "start_us", "finish_us", "fct_us")
    row = operations(pl.DataFrame(rows, schema=columns, orient="row").lazy()).row(0, named=True)
    assert [row[f"{name}_us"] for name in ("p50", "p99", "p999")] == pytest.approx([15.0, 19.9, 19.99])


def test_every_quantile_says_how_it_interpolates():
    """Polars takes the nearest sample by default; NumPy interpolates."""
    sources = [*Path(pf.__file__).parent.rglob("*.py"), *(Path(__file__).parents[1] / "tools").glob("*.py")]
    silent = [
        f"{path}:{call.lineno}"
        for path in sources
        for call in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr == "quantile"
        and ast.unparse(call.func.value) != "np"
        and len(call.args) + len(call.keywords) < 2
    ]
    assert silent == []
