"""Applications in the report and on the terminal: activities of ranks over time, and reference times."""

import base64
import json
import shutil
from typing import cast

import pauseframe as pf
import polars as pl
import pytest
from pauseframe.report import applications, data, from_run
from pauseframe.report.applications import COLUMNS, Job, JobRow, occupied
from pauseframe.terminal.text import ACTIVITIES, summary_rows
from test_fabrics import cli
from test_report import report

TWO_JOBS = """
name = "two"
stop = "50 ms"
topology = { kind = "star", hosts = 8 }
transport = { preset = "tcp_bolt" }
[[workload]]
name = "train"
kind = "application"
pattern = "all_reduce"
ranks = 4
size = "200 KB"
compute = "50 us"
iterations = 2
alone = true
timeline = true
[[workload]]
name = "halo"
kind = "application"
pattern = "stencil"
ranks = 4
grid = [2, 2]
size = "100 KB"
compute = "20 us"
start = "100 us"
"""
STUCK = """
name = "stuck"
stop = "1 ms"
topology = { kind = "star", hosts = 2 }
[[workload]]
name = "mpi"
kind = "application"
timeline = true
program = \"\"\"
rank 0 of 2
250000 recv any 8 1
end 0
rank 1 of 2
0 recv 0 8 1
end 0
\"\"\"
"""


def made(rows, ranks, end_us):
    """A job made of (rank, activity, start_us, end_us) rows."""
    timeline = pl.DataFrame(rows, schema=["rank", "activity", "start_us", "end_us"], orient="row")
    hosts = pl.DataFrame({"rank": range(ranks), "host": [f"host{rank}" for rank in range(ranks)]})
    row = {"job": "made", "ranks": ranks, "start_us": 0.0, "finish_us": end_us}
    return Job(0, "run", cast("JobRow", row), hosts, timeline, end_us)


def bytes_of(figure):
    """The bytes behind a figure of activities: shares by row and column."""
    meta = figure["data"][0]["meta"]
    cells = base64.b64decode(meta["bands"])
    assert len(cells) == len(meta["names"]) * COLUMNS * 3
    line = COLUMNS * 3
    return [
        [tuple(cells[row * line + at : row * line + at + 3]) for at in range(0, line, 3)]
        for row in range(len(meta["names"]))
    ]


def test_time_is_shared_out_to_the_intervals_that_it_fell_in():
    # Intervals of 1 us: rank 0 computes for 1.5 intervals and then waits; rank 1 sends in the last quarter of an
    # interval.
    job = made([(0, "compute", 0.0, 1.5), (0, "waiting", 1.5, COLUMNS), (1, "sending", 9.75, 10.0)], 2, float(COLUMNS))
    one, two = bytes_of(applications._bands(job, [job]))
    assert one[:3] == [(255, 0, 0), (128, 128, 0), (0, 255, 0)]
    assert set(one[3:]) == {(0, 255, 0)}
    assert two[9] == (0, 0, 64)
    assert {cell for column, cell in enumerate(two) if column != 9} == {(0, 0, 0)}
    shares = {trace["name"]: trace["y"] for trace in applications._shares(job, [job])["data"]}
    assert [shares[name][1] for name in ACTIVITIES] == [0.5, 0.5, 0.0]
    assert shares["sending"][9] == 0.25


def test_connections_of_applications_are_no_unfinished_flows(tmp_path):
    run = pf.run(f'{TWO_JOBS}[[workload]]\nkind = "n_to_1"\nsenders = 2\nsize = "64 KB"\n', progress=False)
    assert run.summary["flows_finished"] == run.summary["flows_total"] > 2
    assert data.unfinished_flows(from_run(run)) == {}
    titles = [title for title, _ in summary_rows(run.summary, data.completed_flows(from_run(run)))]
    assert "FCT of 2 flows, mean" in titles
    assert "FCT, mean" in [title for title, _ in summary_rows(run.summary)]


def test_no_time_is_lost_between_table_and_figure(tmp_path):
    run = pf.run(TWO_JOBS, progress=False)
    train, _ = applications.jobs([from_run(run)])
    table = occupied(train, 1)
    totals = run.ranks.to_polars().filter(pl.col("job") == "train")
    for activity in ACTIVITIES:
        spent = table.group_by("row").agg(pl.col(activity).sum()).sort("row")[activity].to_list()
        assert spent == pytest.approx(totals.sort("rank")[f"{activity}_us"].to_list())


def test_many_ranks_are_put_together():
    rows = [(rank, "compute" if rank % 2 else "waiting", 0.0, 100.0) for rank in range(1000)]
    job = made(rows, 1000, 100.0)
    figure = applications._bands(job, [job])
    names = figure["data"][0]["meta"]["names"]
    assert (job.per_row, len(names), names[0], names[-1]) == (8, 125, "ranks 0–7", "ranks 992–999")
    assert {cell for row in bytes_of(figure) for cell in row} == {(128, 128, 0)}
    odd = made([*rows, *((rank, "sending", 0.0, 100.0) for rank in range(1000, 1025))], 1025, 100.0)
    last = bytes_of(applications._bands(odd, [odd]))[-1]
    assert set(last) == {(0, 0, 255)}, "the last row has fewer ranks, and is none the paler for it"


def test_the_page(tmp_path):
    run = pf.run(TWO_JOBS, out=tmp_path / "two", progress=False)
    _, own, page = report(tmp_path / "r.html", tmp_path / "two")
    train, halo = run.jobs.rows()
    words = " ".join(page.text.split())
    assert f"trainall_reduce40 ns{train['time_us']:.0f} us{train['ideal_us']:.0f} us" in words, "cells of a table"
    assert f"{train['interference']:.3g}" in words
    assert halo["alone_us"] is None
    assert "halo : no time line was kept" in words.replace("halo:", "halo :")
    titles = ("Slowdown: time over that on ideal hardware", "Interference", "jobs on one clock", "Rank by rank")
    assert [title for title in titles if title not in page.text] == []
    assert "No flow finished, other than connections of applications." in words
    figures = json.loads(page.scripts["figures"])
    assert [trace["type"] for figure in figures for trace in figure["data"]].count("image") == 1
    assert own.count('data-figure="') == len(figures)


def test_what_ranks_wait_for(tmp_path):
    pf.run(STUCK, out=tmp_path / "stuck", progress=False)
    page = report(tmp_path / "r.html", tmp_path / "stuck")[2]
    assert "did not finish" in page.text
    assert "rank 0, line 2: waits for a message from any rank with tag 1" in page.text
    assert "rank 1, line 5: waits for a message from rank 0 with tag 1" in page.text
    table = pf.load(tmp_path / "stuck").timeline.to_polars()
    assert table.filter(pl.col("activity") == "waiting")["end_us"].to_list() == [250.0, 250.0], "nothing happens after"


def test_runs_without_applications_have_no_such_section(folders, tmp_path):
    assert "Applications" not in report(tmp_path / "r.html", folders["dctcp"])[2].text


def test_the_terminal_tells_times_of_jobs(tmp_path):
    (tmp_path / "two.toml").write_text(TWO_JOBS)
    done = cli("run", "two.toml", cwd=tmp_path)
    assert done.returncode == 0
    lines = [line.split() for line in done.stdout.splitlines()]
    run = pf.load(tmp_path / "results" / "two-1")
    (train,) = [line for line in lines if line[:2] == ["train", "4"]]
    assert train[4:6] == [f"{run.jobs[0]['slowdown']:.3g}", f"{run.jobs[0]['interference']:.3g}"]
    (halo,) = [line for line in lines if line[:2] == ["halo", "4"]]
    assert halo[5] == "–"


def test_a_page_without_scripts_of_others_is_painted(tmp_path):
    """In a browser: the pixels of the time lines match the activities of the ranks."""
    api = pytest.importorskip("playwright.sync_api", reason="no playwright here: pip install 'pauseframe[dev]'")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    pf.run(TWO_JOBS, out=tmp_path / "two", progress=False)
    report(tmp_path / "r.html", tmp_path / "two")
    said = []
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto((tmp_path / "r.html").as_uri())
        page.locator("figure.plot:has(.canvas)", has_text="Rank by rank").first.scroll_into_view_if_needed()
        page.wait_for_function("[...plots].some(plot => plot.figure.data[0].type === 'image')")
        pixels = page.evaluate(
            """async () => {
                const plot = [...plots].find(plot => plot.figure.data[0].type === "image"), { ctx } = plot.chart;
                await new Promise(requestAnimationFrame);
                const { rect, lines } = plot.hits[0], middle = [rect[0] + rect[2] / 2, rect[1] + rect[3] / 2];
                const pixel = ctx.getImageData(...middle.map(side => side * devicePixelRatio), 1, 1).data;
                const { names } = plot.figure.data[0].meta;
                return [[...pixel.slice(0, 3)], rgb(colour("compute")), lines().join(" "), names.length];
            }"""
        )
        browser.close()
    assert pixels[0] == pixels[1]
    assert pixels[2].startswith("rank 0 on host0")
    assert "compute 100 %" in pixels[2]
    assert pixels[3] == 4
    assert said == []


def test_a_time_pointed_at_is_shown_in_every_figure_of_time(tmp_path):
    api = pytest.importorskip("playwright.sync_api", reason="no playwright here: pip install 'pauseframe[dev]'")
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    recorded = TWO_JOBS + '[record]\nseries = { every = "10 us", ports = ["*"] }\n'
    pf.run(recorded, out=tmp_path / "two", progress=False)
    report(tmp_path / "r.html", tmp_path / "two")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1400, "height": 900})
        page.goto((tmp_path / "r.html").as_uri())
        page.wait_for_selector("html[data-ready]")  # before, the samples are packed
        shown, timed = page.evaluate(
            """async () => {
                redraw(true);
                await new Promise(requestAnimationFrame);
                const drawn = [...plots].filter(plot => plot.element.clientWidth);
                const timed = drawn.filter(plot => plot.isTime);
                const first = timed.find(plot => plot.element.closest(".lines")).chart;
                const half = first.scales.x.max / 2;
                first.setCursor({ left: first.valToPos(half, "x"), top: 20 }, true, true);
                const seen = timed.filter(({ chart }) => chart.cursor.left >= 0);
                const shown = seen.map(({ chart }) => chart.posToVal(chart.cursor.left, "x") / half);
                first.setCursor({ left: -10, top: -10 }, true, true);
                return [shown, [drawn.length, timed.length, timed.filter(({ chart }) => chart.cursor.left < 0).length]];
            }"""
        )
        browser.close()
    figures, with_time, hidden = timed
    assert figures > with_time >= 6
    assert len(shown) >= with_time - 1, "all whose range has this time"
    assert shown == pytest.approx([1.0] * len(shown), rel=0.01)
    assert hidden == with_time
