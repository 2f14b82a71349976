"""The report: self-contained, with correct numbers, also for empty, interrupted and large results."""

import dataclasses
import itertools
import json
import math
import re
import shutil
import subprocess
from html.parser import HTMLParser
from typing import Any

import pauseframe as pf
import polars as pl
import pytest
import synthetic
from pauseframe import RunError, load
from pauseframe.report import Claim, Group, build_report, data, figures, from_folder
from pauseframe.report.summary import tables
from pauseframe.terminal.text import format_duration

OUTSIDE = re.compile(r"""(?:src|href)\s*=\s*["']?(?:https?:)?//|@import|url\(\s*["']?http""")
LIBRARY = re.compile(r"<script>/\*! .*?uPlot.*?</script>", re.DOTALL)
VOID = {"meta", "link", "br", "wbr", "hr", "img", "input"}


class Page(HTMLParser):
    """An HTML parser that checks the nesting of elements, and collects texts by class and scripts by id."""

    def __init__(self, html):
        super().__init__()
        self.open: list[tuple[str, dict[str, str]]] = []
        self.scripts: dict[str, str] = {}
        self.text, self.classes = "", set()
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append((tag, dict(attrs)))
        self.classes.update((dict(attrs).get("class") or "").split())

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, text):
        if self.open and self.open[-1][0] == "script":
            self.scripts[self.open[-1][1].get("id", f"script{len(self.scripts)}")] = text
        else:
            self.text += text


def report(out, *folders, **more):
    path = build_report([Group("", [from_folder(folder) for folder in folders])], out, **more)
    html = path.read_text(encoding="utf-8")
    own = LIBRARY.sub("", html)
    return html, own, Page(own)


def test_three_runs(folders, tmp_path):
    html, own, page = report(tmp_path / "new" / "r.html", folders["dctcp"], folders["tcp_dcb"], folders["tcp_bolt"])
    assert len(html) < 400_000
    assert "uPlot (v1.6.32)" in LIBRARY.findall(html)[0][:300]
    assert not OUTSIDE.search(own), "nothing is fetched"
    assert '<meta name="viewport"' in own
    assert "prefers-color-scheme: dark" in own
    plots = json.loads(page.scripts["figures"])
    used = [int(number) for number in re.findall(r'data-figure="(\d+)"', own)]
    assert sorted(used) == list(range(len(plots))), "every figure has its one place"
    for text in ("dctcp", "tcp_dcb", "tcp_bolt", "Slowdown by flow size", "Busiest ports", "transport.preset"):
        assert text in page.text
    assert not list(tmp_path.glob("**/*.partial"))


def test_numbers_are_those_of_the_tables(folders, tmp_path):
    run = from_folder(folders["dctcp"])
    flows = run.flows.collect()
    table = data.percentiles_by(data.finished_flows(run), "bin")
    small = flows.filter(pl.col("size_bytes") < 10_000)
    assert table[0]["n"] == len(small)
    assert table[0]["p99"] == pytest.approx(small["fct_us"].quantile(0.99, "linear"))
    assert sum(row["n"] for row in table.values()) == len(flows)
    _, _, page = report(tmp_path / "r.html", folders["dctcp"])
    assert f"{small['fct_us'].quantile(0.5, 'linear'):.0f} us" in page.text or "ms" in page.text


def test_ratios_refer_to_the_first_run(folders):
    runs = [from_folder(folders[name]) for name in ("dctcp", "tcp_bolt")]
    means = [run.summary["fct_us"]["mean"] or 0.0 for run in runs]
    table = tables(runs)[0]
    column = table.columns.index("mean")
    assert table.rows[0][2][column][1] == ""
    assert float(table.rows[1][2][column][1].removeprefix("× ")) == pytest.approx(means[1] / means[0], rel=0.05)


@pytest.mark.parametrize("name", ["empty", "one"])
def test_little_to_show(folders, tmp_path, name):
    _, own, page = report(tmp_path / "r.html", folders[name])
    assert "No packet was dropped" in page.text or name == "one"
    assert ("No flow finished" in page.text) == (name == "empty")
    assert "[record.series]" in own, "it says how to record time lines"
    assert "NaN" not in page.scripts["figures"]


def test_long_flows_have_no_size(tmp_path):
    frames = synthetic.make_frames(flows=5, queries=0)
    unknown = [pl.lit(None, frames["flows"].schema[name]).alias(name) for name in ("size_bytes", "fct_us", "slowdown")]
    frames["flows"] = frames["flows"].with_columns(*unknown, pl.lit("stopped", pl.Categorical).alias("status"))
    folder = synthetic.write_folder(tmp_path / "long", frames)
    _, _, page = report(tmp_path / "r.html", folder)
    assert "No flow finished" in page.text
    assert max(data.throughput(from_folder(folder), synthetic.SIM_TIME_S)[1]) > 0


def test_interrupted_run_has_a_banner(folders, tmp_path):
    _, own, page = report(tmp_path / "r.html", folders["cut"], folders["dctcp"])
    assert "banner" in page.classes
    assert "was interrupted after 100 ms" in page.text
    assert "the headroom of edge0:1 is <small>" in page.text, "a warning is escaped, not markup"
    assert "is <small>" not in own


def test_claims(folders, tmp_path):
    claim = Claim("B-M16", "text & more", "20 times", "12×", "reproduced", "p99.9 < all")
    _, own, page = report(tmp_path / "r.html", folders["dctcp"], claims=[claim])
    assert 'data-verdict="reproduced"' in own
    assert "text & more" in page.text
    assert "p99.9 < all" in page.text


def test_groups_and_equal_names(folders, tmp_path):
    run = from_folder(folders["dctcp"])
    path = build_report([Group("A", [run, run]), Group("B", [run])], tmp_path / "r.html", title="Both <i>")
    html = path.read_text(encoding="utf-8")
    assert "dctcp, seed 1 #2" in html
    assert "<h1>Both &lt;i&gt;</h1>" in html
    assert 'href="#g1"' in html


def test_report_of_a_loaded_run(folders, tmp_path):
    path = load(folders["one"]).report(tmp_path / "one.html")
    assert 100_000 < path.stat().st_size < 200_000, "most of it is uPlot and the scripts"


def test_in_a_notebook(folders):
    """In a notebook, tables have a length, rows and a display; a report without a path is shown inline."""
    run = load(folders["one"])
    assert len(run.flows) == run.flows.num_rows == 1
    (row,) = run.flows
    assert row == run.flows[0] == run.flows[-1] == run.flows.rows()[0]
    assert row["status"] == "finished"
    assert list(run.flows["status"]) == [row["status"]]
    assert run.flows[:1].to_dicts() == [row]
    with pytest.raises(KeyError, match="did you mean fct_us"):
        run.flows["fct"]
    with pytest.raises(IndexError, match="1 row"):
        run.flows[1]
    assert "<table" in run.flows._repr_html_()
    shown = run.report()._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert shown.count('"') == 4, "nothing of the report ends the attribute"


def test_equal_names_are_told_apart_by_their_folders(tmp_path):
    places = [synthetic.write_folder(tmp_path / name, synthetic.make_frames(flows=20)) for name in ("bolt", "dctcp")]
    text = report(tmp_path / "r.html", *places)[2].text
    assert "seed 1 #2" not in text
    assert text.count("bolt") > 3


@pytest.mark.skipif(
    shutil.which("chromium") is None or shutil.which("pdftotext") is None,
    reason="chromium or pdftotext is not installed, so nobody prints the report",
)
def test_on_paper_every_figure_is_there(folders, tmp_path):
    """On paper, in a browser that has not scrolled: every time figure has its axis on some page."""
    out = tmp_path / "r.html"
    _, _, page = report(out, folders["tcp_bolt"], folders["tcp_dcb"])
    plots = json.loads(page.scripts["figures"])
    over_time = sum(plot["layout"]["xaxis"].get("title", "").startswith("simulated time") for plot in plots)
    assert over_time > 4
    command = [
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--no-first-run",
    ]
    command += [
        f"--user-data-dir={tmp_path / 'profile'}",
        "--virtual-time-budget=10000",
        f"--print-to-pdf={tmp_path / 'r.pdf'}",
    ]
    subprocess.run([*command, out.as_uri()], check=True, capture_output=True, timeout=120)
    text = subprocess.run(["pdftotext", tmp_path / "r.pdf", "-"], check=True, capture_output=True, text=True).stdout
    assert text.count("simulated time") == over_time


def test_folders_that_are_none(tmp_path, folders):
    with pytest.raises(FileNotFoundError, match=r"no manifest\.json"):
        from_folder(tmp_path)
    (tmp_path / "manifest.json").write_text('{"status": "running", "summary": null}')
    with pytest.raises(RunError, match="did not come to its end"):
        from_folder(tmp_path)
    (tmp_path / "manifest.json").write_text('{"status": ')
    with pytest.raises(RunError, match="damaged"):
        from_folder(tmp_path)


def test_cdf_keeps_the_tail_in_few_points():
    values = pl.Series([math.exp(i / 1e5) for i in range(1_000_000)]).shuffle(seed=1)
    x, y = data.cdf(values)
    assert len(x) <= data.CDF_POINTS
    assert x == sorted(x)
    assert (x[0], x[-1], y[-1]) == (values.min(), values.max(), 1.0)
    assert sum(share > 0.999 for share in y) > 50
    assert max(b - a for a, b in itertools.pairwise(y)) < 0.01
    assert data.cdf(pl.Series([3.0, 1.0])) == ([1.0, 3.0], [0.5, 1.0])


def test_throughput_is_what_was_measured(folders):
    """The area under the throughput line equals the bytes of the table, whatever intervals the figure merges."""
    run = from_folder(folders["dctcp"])
    steps = data.received(run)
    x, y = data.throughput(run, synthetic.SIM_TIME_S)
    area = sum(rate * (end - start) for rate, (start, end) in zip(y[:-1], itertools.pairwise(x), strict=True)) / 8
    assert area == pytest.approx(steps["bytes"].sum(), rel=1e-9)
    assert len(x) <= data.THROUGHPUT_POINTS + 1
    measured = steps.filter((pl.col("start") >= x[3] - 1e-12) & (pl.col("start") < x[4] - 1e-12))["bytes"].sum()
    assert y[3] * (x[4] - x[3]) / 8 == pytest.approx(measured)
    assert len(steps) > 2 * len(x), "several intervals are a step"
    [(_, figure)] = figures.throughput_figures([run])
    step = format_duration(x[1] - x[0])
    assert figure["layout"]["yaxis"]["title"] == f"throughput, mean of each {step}"


def test_throughput_stays_within_the_link():
    """One receiver at 10 Gb/s, with losses and late retransmissions: no interval exceeds the rate of the link."""
    text = """
    topology = { kind = "star", hosts = 6, link = { rate = "10 Gbps", delay = "1 us" } }
    clocks = "ideal"
    transport = { stack = "none", preset = "newreno", rto_min = "2 ms" }
    switch = { buffer = "60 KB" }
    workload = [{ kind = "n_to_1", size = "400 KB" }]
    """
    run = pf.run(text)
    assert run.summary["timeouts"] > 0
    table, flows = pl.DataFrame(run.throughput), pl.DataFrame(run.flows)
    assert table["received_bytes"].sum() == flows["delivered_bytes"].sum()
    assert 500 <= len(table) <= 1000
    shown = data.from_run(run)
    _, y = data.throughput(shown, data.busy_until(shown))
    assert 5e9 < max(y) < 10e9


def test_lines_are_linked_between_runs(folders, tmp_path):
    """Both runs show the same ports in the same colours on the same axes; the page offers every sampled port."""
    frames = synthetic.make_frames(samples=50, lossless=True)
    frames["series"] = frames["series"].with_columns(pl.col("value") * 3)
    other = from_folder(synthetic.write_folder(tmp_path / "other", frames))
    (backlog,) = [
        part.parts
        for part in figures.line_figures([from_folder(folders["tcp_bolt"]), other])
        if part.title.startswith("Backlog")
    ]
    one, two = (figure for _, figure in backlog)
    for axis in ("xaxis", "yaxis"):
        assert one["layout"][axis]["range"] == two["layout"][axis]["range"]
    colours = [{trace["name"]: trace["meta"]["run"] for trace in figure["data"]} for figure in (one, two)]
    assert colours[0] == colours[1]
    assert len(colours[0]) == 10, "those hidden at first are there"
    assert sum(trace["visible"] is True for trace in one["data"]) == figures.LINES_A_FIGURE
    (only,) = [p for p in figures.line_figures([other], "edge0:7*") if p.title.startswith("Backlog")]
    assert [trace["name"] for trace in only.parts[0][1]["data"]] == ["edge0:7/p3"]


def test_equal_values_of_two_runs_are_both_seen(folders):
    run = from_folder(folders["dctcp"])
    table = data.percentiles_by(data.finished_flows(run), "bin")
    under, over = figures.percentile_figure([(0, "A", table), (1, "B", table)], "p50", str, "flow size")["data"]
    assert under["y"] == over["y"]
    assert under["marker"]["size"] > over["marker"]["size"]


def test_lossless_beside_lossy_is_said(folders, tmp_path):
    lossless = synthetic.write_folder(tmp_path / "bolt", synthetic.make_frames(lossless=True))
    toml = lossless / "scenario.resolved.toml"
    toml.write_text(toml.read_text().replace('rto_min = "2 ms"', 'rto_min = "2 ms"\nlossless = true'))
    assert "Not the same memory" in report(tmp_path / "r.html", folders["dctcp"], lossless)[2].text
    assert "Not the same memory" not in report(tmp_path / "r2.html", folders["dctcp"], folders["tcp_dcb"])[2].text


@pytest.mark.parametrize("layout", ["a line", "a line each"])
def test_long_lists_of_the_scenario_are_not_shown(layout, folders, tmp_path):
    folder = synthetic.write_folder(tmp_path / "listed", synthetic.make_frames(flows=10))
    toml = folder / "scenario.resolved.toml"
    flows = [f'{{ src = "h{n}", dst = "h0", size = "1 MB" }}' for n in range(100_000)]
    block = ", ".join(flows) if layout == "a line" else "".join(f"\n    {flow}," for flow in flows) + "\n"
    toml.write_text(toml.read_text() + f'flows = [{block}]\nlast = "shown"\n')
    html, _, page = report(tmp_path / "r.html", folder)
    assert "a list of 100000" in page.text
    assert 'last = "shown"' in page.text
    assert len(html) < 1_000_000


def test_a_list_of_flows_as_runs_write_it_is_not_shown():
    """Lists that the core writes, in any memory layout: a long list is shown as its length, a short list in full."""

    def written(count):
        flows = [f'{{ src = "host{number % 5 + 1}", dst = "host0", size = "1 KB" }}' for number in range(count)]
        text = f"""
        topology = {{ kind = "star", hosts = 6, link = {{ rate = "10 Gbps", delay = "1 us" }} }}
        transport = {{ preset = "newreno" }}
        workload = [{{ kind = "flows", flows = [{", ".join(flows)}] }}]
        """
        return pf.run(text).scenario_toml

    long, short = written(300), written(2)
    assert "a list of 300" in data.shortened(long)
    assert len(data.shortened(long)) < len(long) - 10_000
    assert data.shortened(short) == short


def test_idle_end_is_not_shown(folders):
    run = from_folder(folders["one"])
    finish = run.flows.collect()["finish_us"][0]
    interval = synthetic.SIM_TIME_S / 500
    assert 0 < data.busy_until(run) - finish / 1e6 <= interval
    assert data.busy_until(from_folder(folders["empty"])) == synthetic.SIM_TIME_S


def test_lines_keep_peaks(folders):
    run = from_folder(folders["tcp_bolt"])
    metric = run.series.filter(pl.col("metric").cast(pl.String) == "backlog_bytes").collect()
    names = data.highest([run], "backlog_bytes", 3)
    lines = data.lines(run, "backlog_bytes", names, 1)
    assert list(lines) == names
    assert len(names) == 3
    assert max(line.peak for line in lines.values()) == metric["value"].max()
    assert sum(line.count for line in lines.values()) == len(
        metric.filter(pl.col("entity").cast(pl.String).is_in(names))
    )


def test_heat_map_places_ports(folders):
    run = from_folder(folders["tcp_bolt"])
    heat = figures.heat_maps([run])
    assert heat is not None
    assert heat["groups"] == ["agg (18)", "core (9)", "edge (18)", "h (54)"]
    edge = heat["runs"][0]["groups"][2]
    port = run.ports.filter(pl.col("port").cast(pl.String) == "edge7:4").collect().row(0, named=True)
    drawn = edge["z"]["utilisation"][edge["numbers"].index("4")][edge["nodes"].index("edge7")]
    assert drawn == pytest.approx(port["utilisation"], rel=1e-3)
    assert edge["peers"][4][7] == port["peer"]


def test_priorities_of_a_port_are_added(tmp_path):
    frames = synthetic.make_frames(flows=1, queries=0)
    two = pl.concat([frames["ports"], frames["ports"].with_columns(priority=pl.lit(3, pl.UInt8))])
    folder = synthetic.write_folder(tmp_path / "two", frames | {"ports": two})
    rows = data.ports_by_number(from_folder(folder))
    assert len(rows) == len(frames["ports"])
    assert rows["drops"].sum() == 2 * frames["ports"]["drops_buffer_full"].sum()
    assert max(rows["utilisation"].to_list()) <= 1.0


def test_a_million_flows_give_a_small_report(tmp_path):
    frames = synthetic.make_frames(flows=10_000)
    frames["flows"] = pl.concat([frames["flows"]] * 100)
    folder = synthetic.write_folder(tmp_path / "large", frames)
    html, _, _ = report(tmp_path / "r.html", folder)
    assert len(html) < 600_000


def test_natural_order():
    assert sorted(["edge10", "edge2", "2", "agg1"], key=data.natural) == ["agg1", "edge2", "edge10", "2"]


def test_every_axis_has_a_title(folders, tmp_path):
    """Axes of numbers state what they show, with a unit unless it is a share or a number; categories need no title.

    The unit stands in the title or, with its prefix, at every tick: "10 ms" beside "time (s)" confuses.
    """
    _, _, page = report(tmp_path / "r.html", folders["tcp_bolt"], folders["dctcp"])
    axes = [plot["layout"][axis] for plot in json.loads(page.scripts["figures"]) for axis in ("xaxis", "yaxis")]
    shown = [axis for axis in axes if axis.get("type") != "category" and axis.get("visible") is not False]
    assert len(shown) > 20
    assert [axis for axis in shown if not axis.get("title")] == []
    units = {title: match[1] for axis in shown if (match := re.search(r"\((.+)\)$", title := axis["title"]))}
    assert {"Gb/s", "× ideal"} <= {*units.values()}
    at_ticks = {axis["title"]: axis["ticksuffix"] for axis in shown if axis.get("ticksuffix")}
    assert {"s", "B", "b/s"} == {*at_ticks.values()}
    assert not units.items() & at_ticks.items()
    assert {axis["title"] for axis in shown} - {*units, *at_ticks} <= {
        "simulated time", "ports paused", "Paused share of each interval", "DCTCP alpha"
    }  # fmt: skip


def test_axes_of_sweeps_searches_and_papers_have_one_unit():
    from types import SimpleNamespace

    from pauseframe.report import sweep, tune
    from pauseframe.reproduce import plots

    assert sweep._y_axis("fct_us.p99", "s")["title"] == "FCT, p99"
    record = {"objectives": [{"metric": "fct_us.p99"}], "scenarios": ["a.toml"]}
    assert tune._value_axis(record, 0, [1.0])[1].items() >= {"title": "fct_us.p99", "ticksuffix": "s"}.items()
    for label, axis in (
        ("flow size (B)", {"title": "flow size", "ticksuffix": "B"}),
        ("senders", {"title": "senders"}),
    ):
        plot: Any = SimpleNamespace(kind="line", x_label=label, categories=None, log_x=True)
        assert plots._x_axis(plot, []) == {"type": "log"} | axis


def test_one_dot_a_run_is_no_figure(tmp_path):
    """Flows of one size make tables; with two sizes, the figures are there."""

    def titles(*sizes):
        flows = [
            f'{{ src = "host{number % 4 + 1}", dst = "host0", size = "{size}" }}'
            for size in sizes
            for number in range(8)
        ]
        text = f"""
        topology = {{ kind = "star", hosts = 5, link = {{ rate = "10 Gbps", delay = "1 us" }} }}
        workload = [{{ kind = "flows", flows = [{", ".join(flows)}] }}]
        """
        out = tmp_path / "-".join(sizes)
        pf.run(text, out=out)
        _, own, page = report(tmp_path / "r.html", out)
        plots = json.loads(page.scripts["figures"])
        single = [plot for plot in plots if all(len(trace.get("x", [0, 0])) == 1 for trace in plot["data"])]
        assert [plot for plot in single if plot["data"][0]["type"] != "bar"] == []
        return "p99 of FCT" in own, "p99 of slowdown" in own

    assert titles("20 KB") == (False, False)
    assert titles("20 KB", "2 MB") == (True, True)


def test_what_differs_is_what_was_set(tmp_path):
    """Keys that somebody set come first; what follows from them is folded. Old folders show all keys."""
    text = """
    topology = { kind = "star", hosts = 5, link = { rate = "10 Gbps", delay = "1 us" } }
    workload = [{ kind = "n_to_1", name = "burst", size = "20 KB" }]
    """
    for name, more in {"one": {}, "two": {"transport.preset": "tcp_bolt", "workload.0.size": "30 KB"}}.items():
        pf.run(text, set=more, out=tmp_path / name)
    runs = [from_folder(tmp_path / name) for name in ("one", "two")]
    given, others = data.split_by_origin(runs)
    assert given == [("transport.preset", ["cubic", "tcp_bolt"]), ("workload.burst.size", ["20 KB", "30 KB"])]
    assert {"transport.congestion_control", "switch.pfc"} <= {key for key, _ in others}
    _, own, _ = report(tmp_path / "r.html", tmp_path / "one", tmp_path / "two")
    assert f"<summary>{len(others)} other keys differ" in own
    assert data.split_by_origin([runs[0], dataclasses.replace(runs[1], given=None)]) == (
        data.differing([run.scenario_toml for run in runs]),
        [],
    )
