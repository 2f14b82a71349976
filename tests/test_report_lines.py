"""Time lines of a report are true: what the page draws in a browser agrees with the Parquet tables, at every zoom."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pauseframe as pf
import polars as pl
import pytest
from pauseframe.report import Group, build_report, data, figures, from_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
EVERYTHING = 'record = { series = { every = "10 us", ports = ["*"], flows = ["*"] } }\n'
STAR = 'topology = { kind = "star", hosts = 5, link = { rate = "10 Gbps", delay = "1 us" } }\n'
LOADED = f"""stop = "40 ms"
{STAR}{EVERYTHING}
transport = {{ preset = "dctcp" }}
[[workload]]
kind = "background"
sizes = {{ kind = "uniform", min = "10 KB", max = "100 KB" }}
arrivals = {{ kind = "load", load = 0.3 }}
stop = "39 ms"
"""
SCENARIOS = {
    "readme": README.partition("```toml\n")[2].partition("```")[0],
    "long": LOADED,
    "lossy": f'{STAR}{EVERYTHING}switch = {{ buffer = "60 KB" }}\nworkload = {{ kind = "n_to_1", size = "400 KB" }}\n',
    "roce": f'{STAR}{EVERYTHING}transport = {{ preset = "roce_dcqcn" }}\n'
    'workload = { kind = "n_to_1", size = "1 MB" }\n',
    "qcn": f'qcn = true\n{STAR}{EVERYTHING}transport = {{ preset = "tcp_bolt" }}\n'
    'workload = { kind = "n_to_1", size = "1 MB" }\n',
}
READ = """async () => {
    const result = [];
    for (const canvas of document.querySelectorAll(".lines [data-figure]")) {
        const figure = figures[+canvas.dataset.figure];
        for (const trace of figure.data) trace.visible = true;
        canvas.closest("details").open = true;
        draw(canvas);
        showTime([0, figure.layout.xaxis.end]);
        await new Promise(requestAnimationFrame);
        const title = canvas.closest("details").querySelector("summary").textContent;
        for (const { name, drawn } of figure.data) result.push({ title, name, ...drawn });
    }
    return result;
}"""
"""Draws every line over the whole run and returns the points."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    api = pytest.importorskip("playwright.sync_api", reason="no playwright here: pip install 'pauseframe[dev]'")
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield running
        running.close()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("lines")
    for name, text in SCENARIOS.items():
        pf.run(text, out=home / name)
        build_report([Group("", [from_folder(home / name)])], home / f"{name}.html")
    return {name: home / name for name in SCENARIOS}


def visit(browser: Any, page: Path, width: int = 1400) -> Any:
    view = browser.new_page(viewport={"width": width, "height": 900})
    view.set_default_timeout(30_000)
    view.goto(page.as_uri())
    view.wait_for_selector("html[data-ready]")
    return view


def first_chart(page: Any) -> Any:
    """The area of the first time line, in view."""
    page.locator(".lines [data-figure]").first.scroll_into_view_if_needed()
    return page.locator(".lines [data-figure] .u-over").first


def table(folder: Path) -> pl.DataFrame:
    """Metric, entity, time in seconds, value in the unit of the figure."""
    is_time = pl.col("metric").str.ends_with("_us")
    return (
        pl.read_parquet(folder / "series.parquet")
        .with_columns(pl.col("metric", "entity").cast(pl.String))
        .with_columns(
            time=pl.col("time_us") / 1e6, value=pl.when(is_time).then(pl.col("value") / 1e6).otherwise(pl.col("value"))
        )
    )


def test_the_scenarios_have_every_metric(folders: dict[str, Path]) -> None:
    sampled = {metric for folder in folders.values() for metric in table(folder)["metric"].unique()}
    assert sampled == {*figures.LINES}


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_drawn_is_what_was_measured(browser: Any, folders: dict[str, Path], name: str, width: int) -> None:
    """Mean, minimum and maximum of every line, to 0.1 %; and no sample is missing."""
    page = visit(browser, folders[name].with_suffix(".html"), width)
    drawn = page.evaluate(READ)
    page.close()
    metric_of = {title: metric for metric, (title, _) in figures.LINES.items()}
    samples = table(folders[name]).filter(pl.col("value").is_not_null())
    assert {metric_of[line["title"]] for line in drawn} == {*samples["metric"].unique()}
    known = {key: frame["value"] for key, frame in samples.partition_by("metric", "entity", as_dict=True).items()}
    for line in drawn:
        values = known[metric_of[line["title"]], line["name"]]
        assert sum(line["count"]) == len(values), line["name"]
        mean = sum(one * count for one, count in zip(line["mean"], line["count"], strict=True)) / len(values)
        assert mean == pytest.approx(values.mean(), rel=1e-3, abs=1e-9), (line["title"], line["name"])
        assert min(line["low"]) == pytest.approx(values.min(), rel=1e-3), (line["title"], line["name"])
        assert max(line["high"]) == pytest.approx(values.max(), rel=1e-3), (line["title"], line["name"])
    assert max(len(line["x"]) for line in drawn) <= width


def test_a_zoom_brings_the_samples_to_all_figures(browser: Any, folders: dict[str, Path]) -> None:
    """A drag over a figure: the samples themselves between the two times, and the same times everywhere."""
    page = visit(browser, folders["long"].with_suffix(".html"))
    box = first_chart(page).bounding_box()
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 0.5 * box["width"], y)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.52 * box["width"], y, steps=4)
    page.mouse.up()
    page.wait_for_timeout(200)
    ranges = page.evaluate("[...plots].filter(plot => plot.isTime).map(plot => plot.shown)")
    assert len(ranges) >= 3
    assert all(one == ranges[0] for one in ranges)
    low, high = ranges[0]
    assert 0.0005 < high - low < 0.0015
    trace = page.evaluate(
        "(({ name, drawn }) => ({ name, drawn }))(figures.find(f => f.blob === undefined && f.data[0].drawn).data[0])"
    )
    samples = table(folders["long"]).filter(
        (pl.col("metric") == "throughput_gbps") & (pl.col("entity") == trace["name"])
    )
    inside = samples.filter(pl.col("time").is_between(low, high)).sort("time")["value"].to_list()
    seen = [one for one, x in zip(trace["drawn"]["mean"], trace["drawn"]["x"], strict=True) if low <= x <= high]
    assert seen == pytest.approx(inside, rel=1e-6)
    assert set(trace["drawn"]["count"]) == {1}
    page.mouse.dblclick(box["x"] + 0.5 * box["width"], y)
    page.wait_for_timeout(200)
    assert page.evaluate("[...plots].filter(plot => plot.isTime).every(plot => plot.shown[1] === plot.x.whole[1])")
    page.close()


def test_one_crosshair_for_all_figures(browser: Any, folders: dict[str, Path]) -> None:
    page = visit(browser, folders["long"].with_suffix(".html"))
    box = first_chart(page).bounding_box()
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + 20)
    page.mouse.move(box["x"] + box["width"] / 3, box["y"] + 30)
    times = page.evaluate(
        "[...plots].filter(plot => plot.isTime).map(({ chart }) => chart.posToVal(chart.cursor.left, 'x'))"
    )
    assert len(times) >= 3
    assert times == pytest.approx([times[0]] * len(times), abs=1e-4)
    entry = page.locator(".lines .entry b").first.inner_text()
    assert "Gb/s (" in entry, "the legend has mean and range at the crosshair"
    page.close()


def test_pixels_are_at_the_values(browser: Any, folders: dict[str, Path]) -> None:
    """The highest pixel in the colour of a line is at its highest mean, the highest of the band at the maximum."""
    page = visit(browser, folders["long"].with_suffix(".html"))
    first_chart(page)
    found = page.evaluate("""() => {
        const canvas = document.querySelectorAll(".lines [data-figure]")[1];
        canvas.closest("details").open = true;
        const figure = figures[+canvas.dataset.figure];
        figure.data.forEach((trace, index) => { trace.visible = index === 0; });
        draw(canvas);
        return new Promise(done => requestAnimationFrame(() => {
            const { chart } = canvas.plot, { drawn } = figure.data[0], { bbox, ctx } = chart;
            const { data } = ctx.getImageData(bbox.left, 0, bbox.width, ctx.canvas.height);
            const [r, g, b] = rgb(hue(figure.data[0].meta.run));
            let line = -1, band = -1;
            for (let i = 0; i < data.length; i += 4) {
                const row = Math.floor(i / 4 / bbox.width);
                const far = Math.abs(data[i] - r) + Math.abs(data[i + 1] - g) + Math.abs(data[i + 2] - b);
                if (line < 0 && data[i + 3] > 160 && far < 30) line = row;
                if (band < 0 && data[i + 3] > 8 && data[i + 2] > data[i] + 30) band = row;
            }
            const y = value => chart.valToPos(value, "y", true);
            done({ line, band, mean: y(Math.max(...drawn.mean)), high: y(Math.max(...drawn.high)),
                low: y(0), average: y(drawn.mean.reduce((a, b) => a + b) / drawn.mean.length) });
        }));
    }""")
    page.close()
    assert found["line"] == pytest.approx(found["mean"], abs=3)
    assert found["band"] == pytest.approx(found["high"], abs=3)
    assert found["low"] - found["high"] > 2 * (found["low"] - found["average"]), (
        "a line of maxima would be twice as high"
    )


def test_groups_of_samples_keep_the_numbers(
    browser: Any, folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page with too many samples has means, minima and maxima of groups, and states their size."""
    monkeypatch.setattr(figures, "SAMPLE_BYTES_IN_PAGE", 60_000)
    page_file = build_report([Group("", [from_folder(folders["long"])])], tmp_path / "r.html")
    assert "a point stands for up to" in page_file.read_text()
    assert page_file.stat().st_size < folders["long"].with_suffix(".html").stat().st_size
    page = visit(browser, page_file)
    drawn = page.evaluate(READ)
    page.close()
    samples = table(folders["long"]).filter(pl.col("metric") == "throughput_gbps")
    lines = [line for line in drawn if line["title"] == "Throughput"]
    assert lines
    for line in lines:
        values = samples.filter(pl.col("entity") == line["name"])["value"]
        mean = sum(one * count for one, count in zip(line["mean"], line["count"], strict=True)) / sum(line["count"])
        assert (sum(line["count"]), mean) == (len(values), pytest.approx(values.mean(), rel=1e-3))
        assert (min(line["low"]), max(line["high"])) == pytest.approx((values.min(), values.max()), rel=1e-3)


def test_the_page_of_the_readme_is_small(folders: dict[str, Path]) -> None:
    assert folders["readme"].with_suffix(".html").stat().st_size < 300_000


def test_no_two_of_many_runs_look_alike(browser: Any, folders: dict[str, Path]) -> None:
    """32 runs: each has its own pair of hue and dash, hue and shape, and its own swatch."""
    page = visit(browser, folders["readme"].with_suffix(".html"))
    looks = page.evaluate("""() => Array.from({ length: 32 }, (_, run) => [
        [hue(run), DASHES[texture(run)].join()].join(" "), [hue(run), SHAPES[texture(run)]].join(" "), swatchStyle(run),
    ])""")
    page.close()
    assert [len({*kind}) for kind in zip(*looks, strict=True)] == [32, 32, 32]


@pytest.mark.parametrize("ports", [4, 32, 48])
def test_no_two_lines_that_show_look_alike(ports: int) -> None:
    """Two priorities of each port: colour (eight) and dashes (four) tell the lines that show from one another."""
    names = [f"leaf0:{port}/p{priority}" for port in range(ports) for priority in (3, 6)]
    sample = data.Line([0.0, 1.0], [pl.Series([1.0, 2.0])], 1, 2)
    figure = figures._line_figure("throughput_gbps", names, dict.fromkeys(names, sample), 2.0, (1.0, 1.0))
    shown = [trace["meta"]["run"] for trace in figure["data"] if trace["visible"] is True]
    assert len(shown) == min(2 * ports, 16)
    assert len({(number % 8, number // 8 % 4) for number in shown}) == len(shown)
