"""Every report begins with its answer: the sentence, the chart and the table agree with the tables of results."""

import json
import re
import shutil
from dataclasses import replace
from typing import Any

import pauseframe as pf
import polars as pl
import pytest
from pauseframe.report import Group, answers, build_report, from_run
from pauseframe.report.data import busy_until, throughput
from pauseframe.report.figures import Axis, _line, cdf_figure, counts_figure, percentile_figure, plot
from pauseframe.report.html import page as html_page
from pauseframe.report.sweep import build_sweep_report, multiples
from pauseframe.report.sweep_answer import _winners, sentence
from pauseframe.sweep import tables
from pauseframe.sweep.compare import compare
from test_view_browser import RING

STAR = 'topology = { kind = "star", hosts = 5 }\nswitch = { buffer = "40 KB" }\n'
FABRIC = (
    'topology = { kind = "leaf_spine", leaves = 4, spines = 2, hosts_per_leaf = 8 }\nswitch = { buffer = "100 KB" }\n'
)
BURST = f'name = "burst"\n{FABRIC}workload = {{ kind = "n_to_1", size = "64 KB" }}\n'
LONG = f'name = "long"\nstop = "2 ms"\n{STAR}workload = {{ kind = "n_to_1", size = "100 MB" }}\n'
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


def run(text, label="", **settings):
    data = from_run(pf.run(text, set=settings, progress=False))
    return replace(data, label=label) if label else data


@pytest.fixture(scope="module")
def lossy():
    return run(BURST, "lossy", **{"transport.preset": "dctcp"})


@pytest.fixture(scope="module")
def lossless():
    return run(BURST, "lossless", **{"transport.preset": "tcp_bolt"})


def answered(*runs):
    drawn = []

    def add(figure):
        drawn.append(figure)
        return len(drawn) - 1

    return answers.answer(runs, add), drawn


def test_one_run(lossy, lossless):
    answer, drawn = answered(lossless)
    slowest = lossless.flows.select(pl.col("fct_us").max()).collect().item()
    assert answer.sentence.startswith("All 31 flows finished; the slowest took ")
    assert f"{slowest:.3g}" in answer.sentence or f"{slowest / 1000:.3g}" in answer.sentence
    assert "No packet was dropped" in answer.sentence
    assert f"{lossless.summary['pfc_pauses']} pause frames were sent" in answer.sentence
    assert (answer.figure, len(drawn), answer.bars) == (0, 1, [])
    assert f"{lossy.summary['drops']} packets were dropped" in answered(lossy)[0].sentence


def test_two_runs_are_compared_by_their_slowest_flow(lossy, lossless):
    answer, drawn = answered(lossy, lossless)
    slowest = [one.flows.select(pl.col("fct_us").max()).collect().item() for one in (lossy, lossless)]
    assert slowest[0] > 1.01 * slowest[1]
    assert re.match(r"The slowest flow takes \S+ \S+ in lossless, \S+ \S+ in lossy", answer.sentence)
    assert "lossless dropped no packet" in answer.sentence
    assert [bar.share for bar in answer.bars] == pytest.approx([1.0, slowest[1] / slowest[0]])
    assert drawn == []
    columns = [head for head, _ in answer.heads]
    assert [name for name, _ in answer.rows] == ["lossy", "lossless"]
    assert answer.rows[0][1][columns.index("dropped") - 1][0] == f"{lossy.summary['drops']:,}"
    assert all(len(cells) == len(columns) - 1 for _, cells in answer.rows)


def test_equal_runs_are_not_ranked(lossless):
    sentence = answered(replace(lossless, label="a"), replace(lossless, label="b"))[0].sentence
    assert sentence.startswith("a and b differ by less than 1 % in the slowest flow")


def test_runs_whose_flows_never_finish_are_compared_by_throughput():
    one, two = run(LONG, "one"), run(LONG, "two", **{"transport.preset": "tcp_bolt"})
    assert "No flow finished within 2 ms" in answered(one)[0].sentence
    answer, _ = answered(one, two)
    assert "differ by less than 1 % in throughput" in answer.sentence
    assert all(bar.text.endswith("b/s") for bar in answer.bars)


def test_a_deadlock_comes_first():
    stuck = run(RING)
    assert answered(stuck)[0].sentence.startswith("Deadlock: 5 queues wait for each other")
    end = stuck.summary["sim_time_s"]
    assert busy_until(stuck) == end
    x, y = throughput(stuck, end)
    assert [x[-1], y[-1]] == pytest.approx([end, 0.0]), "the line ends at zero, after the deadlock"


def test_no_figure_is_twice_on_a_page(lossy, tmp_path):
    for number, one in enumerate((lossy, run(LONG), run(RING))):
        page = build_report([Group("", [one])], tmp_path / f"{number}.html").read_text(encoding="utf-8")
        found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', page)
        assert found
        drawn = json.loads(found[1])
        texts = [json.dumps(figure, sort_keys=True) for figure in drawn]
        assert len(texts) == len(set(texts)) > 0
        assert page.count("Application bytes that reached their hosts") == 1


def test_a_warning_of_several_runs_is_shown_once(lossy, tmp_path):
    def banners(*warnings):
        runs = [
            replace(lossy, label=f"r{number}", summary={**lossy.summary, "warnings": list(texts)})
            for number, texts in enumerate(warnings)
        ]
        page = build_report([Group("", runs)], tmp_path / "r.html").read_text(encoding="utf-8")
        texts = re.findall(r'<div class="banner" role="status">(.*?)</div>', page, re.DOTALL)
        return [" ".join(re.sub("<[^>]*>", " ", text).split()) for text in texts]

    assert banners(["slow", "short"], ["slow", "wide"]) == ["r0 short", "r1 wide", "r0, r1 slow"]
    assert banners(["slow"], [], ["slow"]) == ["r0, r2 slow"]
    assert banners(["slow", "wide"], ["slow", "wide"], ["slow", "wide"]) == ["all 3 runs slow wide"]
    assert banners(["slow"]) == ["r0 slow"]


def test_the_page_begins_with_sentence_chart_and_table(lossy, lossless, tmp_path):
    page = build_report([Group("", [lossy, lossless])], tmp_path / "r.html").read_text(encoding="utf-8")
    main = page.partition("<main>")[2]
    places = [main.index(part) for part in ('class="sentence"', 'class="bars"', '<table class="numbers">', "<h2>")]
    assert places == sorted(places)


SWEEP = """[sweep]
transport.preset = ["cubic", "tcp_bolt"]
workload.size = ["20 KB", "64 KB"]
seeds = 2
"""


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "burst.toml").write_text(BURST + SWEEP, encoding="utf-8")
    pf.sweep(folder / "burst.toml", out=folder / "results", progress=False)
    return folder / "results"


def test_the_sentence_of_a_sweep_counts_the_best_variant(swept):
    comparison = compare([swept])
    text = sentence(comparison)
    lowest = []
    for setting in comparison.settings:
        found = [comparison.cell("fct_us.p99", setting, variant) for variant in comparison.variants]
        cells = [cell for cell in found if cell is not None]
        assert len(cells) == 2
        if cells[0].value.median != cells[1].value.median:
            lowest.append(min(cells, key=lambda cell: cell.value.median).variant)
    for variant in set(lowest):
        assert f"{variant} in {lowest.count(variant)}" in text
    assert "They differ" in text
    assert sentence(compare([swept], metrics=["drops"])).startswith("drops")


def test_the_sentence_of_a_sweep_says_the_difference_that_its_table_has(tmp_path):
    """The ratio of two medians is not the median of ratios: the setting that differs most is that of the table."""
    text = """topology = { kind = "star", hosts = 4 }
stop = { time = "1 s", when_finished = true }
[[workload]]
kind = "background"
sizes = "50 KB"
arrivals = { kind = "load", load = 0.5 }
stop = "1 ms"
[sweep]
"transport.preset" = ["newreno", "tcp_bolt"]
"workload.0.arrivals.load" = [0.3, 0.6, 0.9]
seeds = 5
"""
    (tmp_path / "load.toml").write_text(text, encoding="utf-8")
    pf.sweep(tmp_path / "load.toml", out=tmp_path / "results", progress=False)
    comparison = compare([tmp_path / "results"])
    cells = [cell for cell in comparison.cells if cell.metric == "fct_us.p99"]
    ratios = {cell.setting[0]: cell.ratio for cell in cells if cell.ratio is not None}
    most = max(ratios, key=lambda setting: abs(ratios[setting].median - 1))
    assert f"load = {most}: " in sentence(comparison)
    assert f"({tables.format_ratio(ratios[most])} seed by seed)" in sentence(comparison)


def test_medians_of_few_are_marked(lossy, tmp_path):
    mark, note = " ?", "?: fewer than 10 samples lie beyond this percentile."
    for count in (lossy.flows.collect().height, 19):
        one = replace(lossy, flows=lossy.flows.head(count))
        page = build_report([Group("", [one])], tmp_path / "r.html").read_text(encoding="utf-8")
        top = page[page.index('<section class="answer"') :].partition("</section>")[0]
        assert (f"ms{mark}" in top, note in top) == (count < 20, count < 20), count


def test_the_sentence_of_a_sweep_names_all_winners_and_the_axis_of_a_number(swept, tmp_path):
    (tmp_path / "tie.toml").write_text(
        BURST + '[sweep]\ntransport.preset = ["newreno", "tcp_bolt"]\nstop.time = ["1 s", "2 s"]\nseeds = [1]\n',
        encoding="utf-8",
    )
    pf.sweep(tmp_path / "tie.toml", out=tmp_path / "tie", progress=False)
    # A later end changes no flow, so both ends win or lose together.
    text = sentence(compare([tmp_path / "tie"], by="stop.time"))
    assert "in 2 the variants are equal" in text
    comparison = compare([swept], by="workload.size")
    cells = [cell for cell in comparison.cells if cell.metric == "fct_us.p99"][:2]
    tied = [replace(cells[0], variant="1"), replace(cells[0], variant="b"), replace(cells[1], variant="c")]
    assert _winners(comparison, tied, cells[0].value.median) == "workload.size = 1 and b"


def test_a_single_reason_of_drops_is_named_on_the_axis(lossy):
    figure = counts_figure([lossy], {"buffer_full": [3]}, "packets dropped")
    assert figure["layout"]["xaxis"]["title"] == "packets dropped: buffer full (number)"
    figure = counts_figure([lossy], {"buffer_full": [3], "link_down": [1]}, "packets dropped")
    assert figure["layout"]["xaxis"]["title"] == "packets dropped (number)"
    figure = counts_figure([lossy], {"timeouts": [3]}, "timeouts")
    assert figure["layout"]["xaxis"]["title"] == "timeouts (number)"


def test_percentiles_over_sizes_name_both_axes(lossy):
    table = {0: {"n": 100, "p50": 3.0}}
    figure = percentile_figure([(0, "lossy", table)], "p50", str, "flow size")
    assert [figure["layout"][axis]["title"] for axis in ("xaxis", "yaxis")] == ["flow size", "time"]


def test_one_setting_is_bars_and_one_sentence(swept, tmp_path):
    """Without a further axis a figure of dots would have one dot a run."""
    folders = []
    for name, preset in (("a", "cubic"), ("b", "tcp_bolt")):
        pf.run(BURST, set={"transport.preset": preset}, out=tmp_path / name, progress=False)
        folders.append(tmp_path / name)
    comparison = compare(folders)
    assert re.match(r"FCT, p99 is \S+ ms with b, \S+ ms with a", sentence(comparison))
    panels = [figure for metric in comparison.metrics for _, figure in multiples(comparison, metric, relative=False)]
    assert {trace["type"] for panel in panels for trace in panel["data"]} == {"bar"}
    assert "type" not in panels[0]["layout"]["yaxis"], "a bar begins at zero"
    lines = multiples(compare([swept]), "fct_us.p99", relative=False)
    assert {trace["type"] for _, panel in lines for trace in panel["data"]} == {"scatter"}


def test_points_open_the_runs_of_their_setting(swept):
    comparison = compare([swept])
    page = build_sweep_report(comparison, swept / "report.html")
    html = page.read_text(encoding="utf-8")
    assert html.count("report.runs/1.html") > 1
    runs = sorted((swept / "report.runs").iterdir())
    assert len(runs) == len(comparison.settings) == 2
    for setting, one in zip(comparison.settings, runs, strict=True):
        text = one.read_text(encoding="utf-8")
        assert f"workload.size = {setting[0]}, seed 1" in text
        assert all(f"</i>{variant}</th>" in text for variant in comparison.variants)
    assert main_order(html) == sorted(main_order(html))
    assert pf.load_sweep(swept).finished, "the pages disturb no sweep"


def main_order(html):
    main = html.partition("<main>")[2]
    return [main.index(part) for part in ('class="sentence"', "data-figure", '<table class="numbers">', "<h2>")]


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
@pytest.mark.parametrize("width", [390, 1400])
def test_ticks_stay_where_their_texts_have_no_room(tmp_path, width):
    """Each value has its tick; its text is there, if need be tilted, unless it would overlap the one before."""
    api = pytest.importorskip("playwright.sync_api", reason="no playwright here: pip install 'pauseframe[dev]'")
    doubled: list[float] = [2, 4, 8, 16, 32]
    axes: list[Axis] = [
        {"type": "category", "categoryarray": [f"{size} KB" for size in range(10, 90, 10)]},
        {"type": "category", "categoryarray": [f"host{number}" for number in range(64)]},
        {"tickvals": doubled, "ticktext": [str(number) for number in doubled]},
    ]
    drawn = []
    for axis in axes:
        x: Any = axis.get("categoryarray", doubled)
        drawn.append(("", plot([_line(0, "run", x, list(range(len(x))), "")], axis, {"title": "number"})))
    file = tmp_path / "ticks.html"
    file.write_text(html_page(drawn), encoding="utf-8")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page(viewport={"width": width, "height": 1500})
        tab.goto(file.as_uri())
        tab.wait_for_function("document.querySelectorAll('.uplot').length === 3")
        found = tab.evaluate(
            """() => [...document.querySelectorAll("[data-figure]")].map(({ plot }) => {
                const [axis] = plot.chart.axes;
                return [axis._splits.length, axis._values.filter(text => text !== "").length];
            })"""
        )
        browser.close()
    (sizes, all_sizes), (hosts, some_hosts), (numbers, all_numbers) = found
    assert (sizes, hosts, numbers) == (8, 64, 5)
    assert (all_sizes, all_numbers) == (8, 5)
    assert (some_hosts == 64) == (width == 1400)
    assert some_hosts > 12


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
def test_a_click_on_a_point_opens_its_page(swept):
    api = pytest.importorskip("playwright.sync_api", reason="no playwright here: pip install 'pauseframe[dev]'")
    page = build_sweep_report(compare([swept]), swept / "clicked.html")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page(viewport={"width": 1400, "height": 900})
        tab.goto(page.as_uri())
        tab.wait_for_selector(".uplot")
        hit = tab.evaluate(
            """() => {
                const { plot } = document.querySelector("[data-figure]"), box = plot.chart.root.getBoundingClientRect();
                const { x, y, link } = plot.hits.filter((hit) => hit.link).at(-1);
                return { x: box.left + x, y: box.top + y, link };
            }"""
        )
        with tab.expect_popup() as opened:
            tab.mouse.click(hit["x"], hit["y"])
        opened.value.wait_for_load_state()
        assert opened.value.url.endswith(hit["link"])
        assert "burst" not in opened.value.inner_text("h1")
        assert "workload.size" in opened.value.inner_text("h1")
        browser.close()


def test_a_distribution_of_two_flows_begins_at_zero():
    times = pl.Series([1_680_000.0, 1_710_000.0])
    (trace,) = cdf_figure([(0, "two", times)])["data"]
    assert (trace["x"], trace["y"]) == ([1.68, 1.68, 1.71], [0, 0.5, 1])


def test_runs_of_endless_flows_say_what_they_dropped():
    lost = run(LONG, "newreno", **{"transport.preset": "newreno"})
    paused = run(LONG, "bolt", **{"transport.preset": "tcp_bolt"})
    assert lost.summary["drops"] > 0 == paused.summary["drops"]
    text = answered(paused, lost)[0].sentence
    assert text.endswith(f"dropped packets: 0 to {lost.summary['drops']:,}.")
    assert "dropped" not in answered(paused, paused)[0].sentence


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
def test_a_phone_reads_no_note_about_columns_that_it_does_not_show(tmp_path, lossy, lossless):
    api = pytest.importorskip("playwright.sync_api", reason="no playwright here: pip install 'pauseframe[dev]'")
    page = build_report([Group("", [lossless, lossy])], tmp_path / "two.html")
    read = """() => [...document.querySelectorAll(".answer thead th, .answer .note")]
        .filter(one => one.getBoundingClientRect().width > 0).map(one => one.innerText)"""
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        said = {}
        for width in (1400, 390):
            tab = browser.new_page(viewport={"width": width, "height": 900})
            tab.goto(page.as_uri())
            *heads, said[width] = tab.evaluate(read)
            assert ("throughput" in heads) == (width == 1400)
        browser.close()
    assert "Throughput: of all flows" in said[1400]
    assert said[1400].endswith("× n: so many times the value of lossless.")
    assert said[390] == "× n: so many times the value of lossless."


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
def test_tilted_names_end_inside_their_figure(tmp_path):
    """The text of the last tick begins at its tick and falls to the right: it ends inside the canvas."""
    api = pytest.importorskip("playwright.sync_api", reason="no playwright here: pip install 'pauseframe[dev]'")
    names = [f"aggregation{number}" for number in range(8)]
    axis: Axis = {"type": "category", "categoryarray": names}
    drawn = plot([_line(0, "run", names, list(range(8)), "")], axis, {"title": "number"})
    file = tmp_path / "names.html"
    file.write_text(html_page([("", drawn)]), encoding="utf-8")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page(viewport={"width": 390, "height": 900})
        tab.goto(file.as_uri())
        tab.wait_for_function("document.querySelectorAll('.uplot').length === 1")
        end, width = tab.evaluate(
            """() => {
                const { chart } = document.querySelector("[data-figure]").plot, [axis] = chart.axes;
                const last = axis._values.findLastIndex(text => text !== ""), at = axis._splits[last];
                const pen = document.createElement("canvas").getContext("2d");
                pen.font = "11px system-ui, sans-serif";
                const wide = pen.measureText(axis._values[last]).width * Math.cos(50 * Math.PI / 180);
                return [chart.over.offsetLeft + chart.valToPos(at, "x") + wide, chart.width];
            }"""
        )
        browser.close()
    assert end <= width


QUERIES = (
    f'name = "asked"\n{STAR}[[workload]]\nkind = "requests"\nclient = "host0"\nservers = ["host1", "host2"]\n'
    'response = "20 KB"\ncount = 5\n'
)


def test_the_chart_of_queries_names_queries():
    answer, (figure,) = answered(run(QUERIES))
    assert answer.chart == "times of all queries"
    layout = figure["layout"]
    assert (layout["xaxis"]["title"], layout["yaxis"]["title"]) == ("time of a query", "queries (share)")
    assert "of queries" in figure["data"][0]["hovertemplate"]
    flows = cdf_figure([(0, "a", pl.Series([1.0, 2.0]))])["layout"]
    assert (flows["xaxis"]["title"], flows["yaxis"]["title"]) == ("FCT", "flows (share)")


def test_small_ratios_have_digits(lossless):
    slower = replace(lossless, label="slower", flows=lossless.flows.with_columns(pl.col("fct_us") * 1.04))
    answer, _ = answered(lossless, slower)
    assert ", 1.04 times as long" in answer.sentence
    (time,) = [cells[2][1] for label, cells in answer.rows if label == "slower"]
    assert time == "× 1.04"
