"""The player finds things: pods fold and open, ports are found by expressions, figures of reports lead to instants."""

import pauseframe as pf
import pytest
from pauseframe.report import Group, build_report, from_folder
from test_view import storm_text
from test_view_browser import CHROMIUM, K16, browser, pages, visit

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
__all__ = ["browser", "pages", "visit"]  # the fixtures

FOLDED = """(() => {
    const { map } = player.views[0], pod = map.folds.pods.findIndex((_, number) => map.folds.isFolded(number));
    const [left, top, width, height] = map.boxes[pod];
    return [left + width / 2, top + height / 2];
})()"""
"""The middle of a folded pod."""
HOST3 = """(() => {
    const { map, run } = player.views[0], node = run.nodes.indexOf("host3");
    return [map.xs[node], map.ys[node]];
})()"""


def test_pods_fold_and_have_names(pages, visit):
    page = visit(pages("folded k16", K16))
    shown = """player.runs[0].nodes.filter(
        (_, node) => player.runs[0].hosts[node] && !player.views[0].map.folds.isHidden(node)
    ).length"""
    opened = page.evaluate("player.views[0].map.folds.open.size")
    assert page.evaluate("player.views[0].map.folds.pods.length") == 16
    assert page.evaluate(shown) == 64 * opened <= 192, "only the pods of the chain are open"
    box = page.locator("figure.map canvas").bounding_box()
    x, y = page.evaluate(FOLDED)
    page.mouse.move(box["x"] + x, box["y"] + y)
    assert "64 hosts: click to open" in page.inner_text(".sheet .tip")
    page.mouse.click(box["x"] + x, box["y"] + y)
    assert page.evaluate(shown) == 64 * (opened + 1)
    small = visit(pages("unfolded", storm_text()))
    assert small.evaluate("player.views[0].map.folds.pods.length") == 0
    x, y = small.evaluate(HOST3)
    box = small.locator("figure.map canvas").bounding_box()
    small.mouse.move(box["x"] + x, box["y"] + y)
    assert small.inner_text(".sheet .tip") == "host3"


FILTERS = {
    "host3": lambda port: "host3" in port["port"],
    "port ~ edge0.* and paused": lambda port: port["port"].startswith("edge0") and port["paused"],
    "paused and not host": lambda port: port["paused"] and not port["host"],
    "queue > 20 KB or load >= 90 %": lambda port: port["queue"] > 20_000 or port["load"] >= 90,
    "(node = agg0_1 or peer = agg0_1) and queue<1KB": lambda port: "agg0_1" in port["ends"] and port["queue"] < 1000,
    "queue > 20 KiB and not paused": lambda port: port["queue"] > 20_480 and not port["paused"],
    "queue  >  0.00002 GB": lambda port: port["queue"] > 20_000,
    "queue > 20000 paused": lambda port: port["queue"] > 20_000 and port["paused"],
    "queue > 20 KB load > 90": lambda port: port["queue"] > 20_000 and port["load"] > 90,
    "rate > 100 Mb/s": lambda port: port["rate"] > 0.1,
    "rate = 10000 Mbps": lambda port: port["rate"] == 10,
    "load > 0": lambda port: port["load"] > 0,
    'switch port ~ "core[01]:"': lambda port: port["port"].startswith(("core0:", "core1:")),
}
WRONG = {
    "queue >": "queue > needs a value",
    "queue > many": "many is not a number: write queue > 100 KB",
    "queue > 90 %": "% is not a unit of queue (B, KB, MB, GB, TB, KiB, MiB, GiB): write queue > 100 KB",
    "queue > 100 kilobytes": "kilobytes is not a unit of queue",
    "queue > 5 host3": "host3 is not a unit of queue",
    "load > 1MB": "MB is not a unit of load (%): write load > 50 %",
    "load > 0.9": "0.9 may be 0.9 % or 90 %: write the unit, as in load > 50 %",
    "rate >= 5 KB": "KB is not a unit of rate",
    "rate >= 5 GB/s": "GB/s is not a unit of rate",
    "port > 3": "names are compared by ~, = and !=",
    "load ~ 3": "~ compares names",
    "port ~ [": "[ is not a regular expression",
    "foo = 3": "foo is not known: compare port, node, peer, queue, load, rate; or write paused, host, switch",
    "(paused": "a bracket is not closed",
    "paused )": ") does not belong here",
    "paused and": "the expression ends too early",
}
PORTS = """() => {
    const { run, map, found } = player.views[0];
    return Array.from(run.links, (owner, port) => ({
        port: run.portName(port), ends: [run.nodes[owner], run.nodes[run.peer(port)]], paused: map.paused[port] > 0,
        queue: map.depth[port], load: map.load[port] * 10, rate: run.rates[port], host: run.hosts[owner] > 0,
        found: found.has(port),
    }));
}"""


def test_ports_are_found_by_name_and_by_expression(pages, visit):
    page = visit(pages("found", storm_text()))
    for text, wanted in FILTERS.items():
        page.fill("#find", text)
        ports = page.evaluate(PORTS)
        assert [port["port"] for port in ports if port["found"]] == [port["port"] for port in ports if wanted(port)], (
            text
        )
        assert any(port["found"] for port in ports), text
        count = sum(port["found"] for port in ports)
        assert page.inner_text("#found").startswith(f"{count} of {len(ports)} ports")
        assert page.locator("#hits button").count() == min(count, 40)
    for text, message in WRONG.items():
        page.fill("#find", text)
        assert message in page.inner_text("#found"), text
        assert page.locator("#hits button").count() == 0
    page.fill("#find", "paused")
    page.keyboard.press("Enter")
    assert page.inner_text("#details h2").startswith("port ")
    page.evaluate("player.seek(0)")
    assert page.inner_text("#found").startswith("0 of "), "what is found follows the time"


def test_a_player_ends_where_its_log_was_full(pages, visit):
    page = visit(pages("full", storm_text().replace('every = "5 us"', 'every = "5 us", limit = 500')))
    end = page.evaluate("player.end")
    assert 0 < end < 2000, "the run has 2 ms"
    page.evaluate(f"player.seek({2 * end})")
    assert page.evaluate("player.time") == end
    assert page.inner_text(".story").endswith("the log was full here, and the run went on")


def test_a_click_in_a_figure_opens_the_player_at_that_instant(visit, tmp_path):
    text = storm_text() + '[record.series]\nevery = "10 us"\nports = ["edge0_0:*"]\n'
    pf.run(text, out=tmp_path / "run")
    page = visit(
        build_report([Group("", [from_folder(tmp_path / "run")])], tmp_path / "run" / "report.html"), ready="h1"
    )
    page.locator(".lines [data-figure]").first.scroll_into_view_if_needed()
    page.wait_for_selector(".lines .uplot")
    box = page.locator(".lines .u-over").first.bounding_box()
    time = page.evaluate("document.querySelector('.lines [data-figure]').plot.chart.posToVal(60, 'x') * 1e6")
    with page.expect_popup() as opened:
        page.mouse.click(box["x"] + 60, box["y"] + 10)
    player = opened.value
    player.wait_for_selector("html[data-ready]", timeout=60_000)
    assert player.evaluate("player.time") == pytest.approx(time, abs=0.01)
    page.mouse.dblclick(box["x"] + 60, box["y"] + 10)
    page.wait_for_timeout(600)
    assert len(page.context.pages) == 2, "a double click resets the view and opens nothing"
    assert player.evaluate("player.time") == pytest.approx(time, abs=0.01)
