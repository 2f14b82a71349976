"""The player in a browser: it loads without errors, seeks, names the origin of a storm, and shows a deadlock's cycle.

The test prints times but does not assert them. The test needs Chromium, and is skipped with a message without it.
"""

import itertools
import re
import shutil

import pauseframe as pf
import polars as pl
import pytest
from pauseframe.fabric import calculator
from pauseframe.fabric.draw import draw
from pauseframe.view import build_view, from_folder
from test_rdma import INCAST
from test_view import storm_text

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")

K16 = """
name = "k16"
stop = "120 us"
topology = { kind = "fat_tree", k = 16 }
switch = { buffer = "100 KB", marker = "none" }
transport = { preset = "tcp_dcb", initial_window = "100 KB" }
record = { states = { every = "5 us" } }
host = { nic_queue = "per_destination" }  # ACKs pass data: the fabric fills sooner, and pauses
workload = { kind = "permutation", size = "1 MB" }
"""
RING = """
name = "ring"
stop = "20 ms"
topology = { kind = "ring", switches = 5, hosts_per_switch = 1 }
transport = { stack = "none", preset = "tcp_bolt", initial_window = "4 MB", receive_window = "8 MB" }
switch = { buffer = "100 KB", marker = { kind = "step", k = "90 KB" }, pfc = { xoff = "40 KB" } }
record = { states = true }
[[workload]]
kind = "flows"
flows = [
    { src = "host0", dst = "host2", size = "6 MB" },
    { src = "host1", dst = "host3", size = "6 MB" },
    { src = "host2", dst = "host4", size = "6 MB" },
    { src = "host3", dst = "host0", size = "6 MB" },
    { src = "host4", dst = "host1", size = "6 MB" },
]
"""

ROCE = f"{INCAST}states = true\n"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    api = pytest.importorskip("playwright.sync_api", reason="no playwright here: pip install 'pauseframe[dev]'")
    with api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield running
        running.close()


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    home = tmp_path_factory.mktemp("pages")

    def build(name, *texts):
        folders = [home / f"{name}{number}" for number in range(len(texts))]
        for text, folder in zip(texts, folders, strict=True):
            pf.run(text, out=folder)
        return build_view([from_folder(folder) for folder in folders], home / f"{name}.html")

    return build


@pytest.fixture
def visit(browser):
    """Opens a page; at the end its console must be empty, and the page must have sent no network request."""
    said, contexts = [], []

    def go(path, *, width=1400, height=900, scheme="light", ready="html[data-ready]"):
        context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("request", lambda request: said.append(request.url) if request.url.startswith("http") else None)
        page.goto(path.as_uri())
        page.wait_for_selector(ready, timeout=60_000)
        return page

    yield go
    for context in contexts:
        context.close()
    assert said == []


def ink(page, colour="pause"):
    """Number of pixels on the map with a colour, by default that of pauses."""
    return page.evaluate(
        """(colour) => {
            const { canvas } = player.views[0], copy = new OffscreenCanvas(canvas.width, canvas.height);
            const pen = copy.getContext("2d", { willReadFrequently: true });
            pen.drawImage(canvas, 0, 0);
            const { data } = pen.getImageData(0, 0, canvas.width, canvas.height);
            const [r, g, b] = [1, 3, 5].map((at) => parseInt(player.theme[colour].slice(at, at + 2), 16));
            let count = 0;
            for (let i = 0; i < data.length; i += 4) count += data[i] === r && data[i + 1] === g && data[i + 2] === b;
            return count;
        }""",
        colour,
    )


def story(page):
    return page.inner_text(".story")


def test_a_thousand_hosts(pages, visit):
    page = visit(pages("k16", K16))
    print("ready after", page.get_attribute("html", "data-ready"), "ms in the page")
    took = page.evaluate(
        """() => [110, 5, 60, 90, 20, 119].map((time) => {
            const begin = performance.now();
            player.seek(time);
            return Math.round(performance.now() - begin);
        })"""
    )
    print("seeks took", took, "ms")
    assert page.evaluate("player.runs[0].hosts.reduce((sum, host) => sum + host, 0)") == 1024
    assert "nothing is paused" not in story(page)
    assert ink(page) > 100


def test_a_seek_is_what_playing_gives(pages, visit):
    """A key frame and the events after it give the same state as all events from the beginning."""
    page = visit(pages("storm", storm_text()))
    same = page.evaluate(
        """() => {
            const run = player.runs[0], parts = ["load", "depth", "paused"];
            const at = (time) => parts.map((part) => Array.from(run.seek(time)[part]).join()).join("|");
            const times = [1700, 3, 900.5, 899, 1999, 350];
            const sought = times.map(at);
            const played = times.map((time) => {
                run.state.at = 0;
                for (const part of parts) run.state[part].fill(0);
                run.apply(countUpTo(run.times, time));
                return parts.map((part) => Array.from(run.state[part]).join()).join("|");
            });
            return sought.map((state, i) => state === played[i] && state.length > 100);
        }"""
    )
    assert same == [True] * 6


def test_a_storm_is_followed_to_its_beginning(pages, visit):
    page = visit(pages("traced", storm_text()))
    assert "because of edge0_0:0 (edge0_0 → host0)" in story(page), "it opens at the worst moment"
    worst = ink(page)
    page.keyboard.press("Home")
    assert story(page) == "nothing is paused"
    assert ink(page) < worst - 1000
    page.get_by_role("button", name="most pauses").click()
    page.evaluate(
        """() => {
            const run = player.runs[0], port = run.links.indexOf(run.nodes.indexOf("host3"));
            player.choose({ view: player.views[0], port });
        }"""
    )
    steps = page.locator("#details ol.chain li").all_inner_texts()
    assert len(steps) >= 3
    assert steps[0].startswith("host3:0")
    assert "host0 asked for it because its own receive buffer was full" in steps[-1]
    assert page.locator("#details .uplot").count() == 2
    page.locator("#details ol.chain button").last.click()
    assert page.inner_text("#details h2") == "port edge0_0:0"


def test_keys_flows_and_clicks(pages, visit):
    page = visit(pages("keys", storm_text()), width=390, height=844, scheme="dark")
    now = lambda: page.evaluate("player.time")  # noqa: E731
    page.keyboard.press("Home")
    assert now() == 0
    page.keyboard.press("ArrowRight")
    assert now() == pytest.approx(5)
    page.keyboard.press("Shift+ArrowRight")
    assert now() == pytest.approx(55)
    page.keyboard.press(" ")
    page.wait_for_function("player.time > 56")
    page.keyboard.press(" ")
    assert page.evaluate("player.playing") is False
    page.keyboard.press("End")
    assert now() == pytest.approx(2000)
    page.fill("#find-flow", "host9 host13")
    page.select_option("#flow", index=1)
    assert page.inner_text("#details h2").startswith("flow ")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.locator("#sums .u-over").first.click()
    assert now() == pytest.approx(1000, rel=0.05)
    page.evaluate("scrollTo(0, 0)")
    box = page.locator("figure.map canvas").bounding_box()
    x, y = page.evaluate("[player.views[0].map.xs[0], player.views[0].map.ys[0]]")
    page.mouse.click(box["x"] + x, box["y"] + y)
    assert page.inner_text("#details h2").startswith("port ")


def test_a_page_that_is_not_shown_says_nothing(pages, visit):
    """A hidden page has no size, and drawing on it caused a console error.

    The page is drawn when it is shown again.
    """
    page = visit(pages("folded", storm_text()))
    page.get_by_role("button", name="most pauses").click()
    before = ink(page)
    fold = "(display) => { document.body.style.display = display; dispatchEvent(new Event('resize')); }"
    page.evaluate(fold, "none")
    page.evaluate("player.seek(300)")
    page.evaluate(fold, "")
    page.get_by_role("button", name="most pauses").click()
    assert ink(page) == before > 1000


def test_a_deadlock_shows_its_circle(pages, visit):
    page = visit(pages("ring", RING))
    page.get_by_role("button", name="first pause").click()
    assert "DEADLOCK" not in story(page)
    page.get_by_role("button", name="deadlock").click()
    assert story(page).startswith("DEADLOCK since 153.26 us: s0:1 → s1:2 → s2:2 → s3:2 → s4:2 wait for each other")
    assert page.evaluate("deadlocksAt(player.runs[0], player.time)[0].ports.length") == 5
    stopped = "(port) => run.slotsOf.get(port).some((slot) => run.pauseAt(slot, player.time) >= 0)"
    every = (
        f"(() => {{ const run = player.runs[0]; return deadlocksAt(run, player.time)[0].ports.every({stopped}); }})()"
    )
    assert page.evaluate(every), "at the instant of the last pause"
    assert ink(page) > 5000


def test_ticks_or_title_have_the_unit(pages, visit):
    page = visit(pages("units", RING))
    axes = page.evaluate(
        "[...player.charts.all].map(chart => chart.axes[1]).map(axis => [axis.label, axis.values(null, [2e5])[0]])"
    )
    assert len(axes) >= 5
    assert all(str(tick) == "200000" if label else tick == "200 KB" for label, tick in axes), axes


def test_two_runs_have_one_clock(pages, visit):
    calm = (
        storm_text()
        .replace('preset = "tcp_dcb"', 'preset = "tcp_bolt"')
        .replace('"none"', '{ kind = "step", k = "22.5 KB" }')
    )
    page = visit(pages("two", storm_text(), calm))
    page.evaluate("player.seek(600)")
    counts = [int(text.split()[0]) for text in page.locator(".story").all_inner_texts()]
    assert counts[0] > counts[1] > 0
    assert page.locator("#sums .u-legend").count() == 3


def test_pages_of_one_figure_draw_it(visit, tmp_path):
    """A topology is a drawing to zoom, the headroom calculator a figure as in reports."""
    fabric, headroom = tmp_path / "fabric.html", tmp_path / "headroom.html"
    draw(pf.load_topology("fat_tree:k=4"), fabric, mark=["edge0_0:0"])
    page = visit(fabric, ready="svg circle")
    assert page.locator("svg circle").count() == 36
    page.mouse.move(700, 400)
    page.mouse.wheel(0, -300)
    page.wait_for_function("svg.getAttribute('viewBox') !== whole")
    page.dblclick("svg")
    assert page.evaluate("svg.getAttribute('viewBox') === whole")
    calculator.draw(calculator.calculate(100_000, 40.0), headroom)
    page = visit(headroom, ready=".uplot")
    assert "Headroom for 100 Gb/s" in page.inner_text("h1")
    assert page.evaluate("[...plots][0].hits.length") > 5
    assert max(fabric.stat().st_size, headroom.stat().st_size) < 150_000


# Fifteen hosts send to one of a star: no host is slow, the queue of the switch is the cause.
INCAST = """
name = "incast"
stop = "2 ms"
topology = { kind = "leaf_spine", leaves = 3, spines = 2, hosts_per_leaf = 4 }
switch = { buffer = "200 KB", marker = "none", pfc = true }
transport = { preset = "tcp_dcb", initial_window = "100 KB" }
record = { states = { every = "5 us" } }
workload = { kind = "n_to_1", receiver = "host0", size = "1 MB" }
"""
SLOW = """
name = "slow"
stop = "3 ms"
topology = { kind = "star", hosts = 5 }
host = { slow_receivers = [{ host = "host2", rate = "1 Gbps", buffer = "100 KB" }] }
switch = { buffer = "80 KB", marker = "none", pfc = true }
transport = { preset = "tcp_dcb", initial_window = "100 KB", receive_window = "2 MB" }
record = { states = { every = "5 us" } }
workload = { kind = "flows", flows = [{ src = "host0", dst = "host2", size = "1 MB" }] }
"""
CAUSES = {
    # Scenario, when to look, the queue where it began (None: that of the first request in the log), how many pauses
    # the chain has at least, and its last words.
    "storm, first pause": (storm_text(), "first pause", "edge0_0:0", 1, "its own receive buffer was full"),
    "storm, most pauses": (storm_text(), "most pauses", "edge0_0:0", 3, "its own receive buffer was full"),
    "slow receiver": (SLOW, "most pauses", "switch:2", 2, "its own receive buffer was full"),
    "incast": (INCAST, "most pauses", "leaf0:0", 2, "which no pause held back"),
    "deadlock, first pause": (RING, "first pause", None, 1, "which no pause held back"),
}
KEYS = {"first pause": "f", "most pauses": "m"}


def by_clicks(page, when):
    yield page.get_by_role("button", name=when).click
    yield page.get_by_role("button", name="Why?").click
    yield page.get_by_role("button", name="where it began").click


def by_keys(page, when):
    for key in (KEYS[when], "w", "b"):
        yield lambda key=key: page.keyboard.press(key)


@pytest.mark.parametrize("means", [by_clicks, by_keys])
@pytest.mark.parametrize("case", CAUSES)
def test_three_steps_lead_to_the_cause(pages, visit, case, means):
    text, when, root, steps, reason = CAUSES[case]
    path = pages(f"{means.__name__} {case}", text)
    page = visit(path)
    look, why, begin = means(page, when)
    look()
    assert "paused" in story(page)
    assert "nothing is paused" not in story(page)
    why()
    chain = page.locator("#details ol.chain li").all_inner_texts()
    assert len(chain) >= steps
    assert reason in chain[-1]
    # The next frame of the browser draws the map: it has what the list says.
    page.wait_for_function(f"player.views[0].chain.length === {len(chain)}", timeout=5000)
    spoken = page.get_by_role("status").inner_text()
    assert all(step in spoken for step in chain), "a screen reader says the whole chain"
    assert in_sight(page, "#details h2")
    before = page.evaluate("player.time")
    begin()
    assert page.inner_text("#details h2") == f"port {root or first_request(path)}"
    assert page.evaluate("player.time") == pytest.approx(first_because_of(path, root or first_request(path)), abs=1e-3)
    assert page.evaluate("player.time") < before, "the time moves too"
    assert page.inner_text(".began").startswith("Here it began, at ")
    assert in_sight(page, "#details h2")
    assert page.locator("#details .uplot").count() >= 2, "its queue and its load over the run"


def first_request(page):
    """The queue because of which the first pause of a run was asked for, from its table."""
    log = pl.read_parquet(page.with_name(f"{page.stem}0") / "states.parquet")
    return log.filter(pl.col("kind").cast(pl.String) == "asked").sort("time_us", maintain_order=True)["because_of"][0]


def first_because_of(page, root):
    """When a pause was first asked for because of a queue, or of the host behind it; one storm fills the run."""
    log = pl.read_parquet(page.with_name(f"{page.stem}0") / "states.parquet")
    cause = pl.coalesce(pl.col("because_of").cast(pl.String), pl.col("port").cast(pl.String))
    return log.filter(pl.col("kind").cast(pl.String) == "asked", cause == root)["time_us"].min()


def in_sight(page, selector):
    box = page.locator(selector).bounding_box()
    return box is not None and 0 <= box["y"] <= page.viewport_size["height"] - box["height"]


def test_the_keys_of_a_deadlock(pages, visit):
    page = visit(pages("keys of a ring", RING))
    page.keyboard.press("d")
    assert story(page).startswith("DEADLOCK since")
    page.keyboard.press("w")
    spoken = page.get_by_role("status").inner_text()
    assert len(re.findall(r"s\d:\d waits for s\d:\d", spoken)) == 5
    assert "where the circle began" in spoken
    assert page.get_by_role("button", name="Go to where it began").count() == 1, "the circle is the cause, and no chain"
    assert "Why it is paused" not in page.inner_text("#details")
    page.evaluate("player.seek(player.end); player.choose({ view: player.views[0], port: 0 })")
    chain = page.locator("#details ol.chain li").all_inner_texts()
    assert len(chain) == 2
    assert chain[-1].endswith("it is in the deadlock."), "the chain of a port behind the circle"
    page.keyboard.press("d")
    page.keyboard.press("w")
    since = page.evaluate("player.time")
    page.keyboard.press("b")
    assert page.evaluate("player.time") < since, "the first of its pauses"
    assert "DEADLOCK" not in story(page)


def test_it_opens_at_the_worst_moment_with_the_chain(pages, visit):
    page = visit(pages("opened", storm_text()))
    most = page.evaluate("player.runs[0].highest")
    assert story(page).startswith(f"{most} queues are paused")
    assert page.locator("#details ol.chain li").count() == page.evaluate("player.views[0].chain.length") >= 3
    page = visit(pages("stuck", RING))
    assert story(page).startswith("DEADLOCK since 153.26 us")
    assert page.locator("#details ol.chain").first.locator("li").count() == 5, "the circle"
    calm = 'stop = "100 us"\ntopology = { kind = "star", hosts = 3 }\nrecord = { states = true }\n'
    page = visit(pages("calm", calm + 'workload = { kind = "n_to_1", size = "20 KB" }\n'))
    assert story(page) == "nothing is paused"
    assert page.inner_text("#details h2") == "Nothing chosen"


def test_a_port_that_is_not_in_the_log_is_not_called_silent(pages, visit):
    """A port with a load below a fifth has no rows, though it sent."""
    text = 'stop = "1 ms"\ntopology = { kind = "star", hosts = 3 }\nrecord = { states = true }\n'
    flow = '{ src = "host0", dst = "host1", size = "1 KB" }'
    page = visit(pages("light", f'{text}[[workload]]\nkind = "flows"\nflows = [{flow}]\n'))
    page.evaluate("player.choose({ view: player.views[0], port: 0 })")
    shown = page.inner_text("#details")
    assert "the log of states has nothing of this port: no queue of 4 KB, no load of 20 %, and no pause" in shown
    assert "below 20 %" in shown


def test_an_address_leads_to_a_time_and_a_port(pages, visit):
    page = visit(pages("address", storm_text()))
    page.evaluate("location.hash = '#t=120.5&port=agg0_1:0'")
    page.wait_for_function("player.time === 120.5")
    assert page.inner_text("#details h2") == "port agg0_1:0"


def test_notifications_and_rates_of_queue_pairs(pages, visit):
    page = visit(pages("roce", ROCE))
    sent, received = page.evaluate(
        """() => {
            const run = player.runs[0], of = (kind) => run.values.filter((_, i) => run.kinds[i] === kind);
            const sum = (kind) => of(kind).reduce((all, value) => all + value, 0);
            return [sum(KIND.cnpsSent), sum(KIND.cnpsReceived)];
        }"""
    )
    assert sent >= received > 0
    first = page.evaluate("player.runs[0].times[player.runs[0].kinds.indexOf(KIND.cnpsReceived)]")
    page.evaluate("(time) => player.seek(time)", first)
    # The accent colour is nowhere else on the map while nothing is chosen.
    assert ink(page, "accent") > 10
    page.evaluate("() => player.choose({ view: player.views[0], flow: player.runs[0].flows[0] })")
    text = page.inner_text("#details")
    assert "rate of the queue pair" in text
    assert "CNPs sent, received" in text
    assert "CNPs of each interval" in text


def test_the_way_of_a_flow_is_listed_and_drawn(pages, visit):
    """With recorded paths a chosen flow shows the ports that it used, in order, and their packets."""
    text = """
name = "way"
stop = { time = "20 ms", when_finished = true }
topology = { kind = "leaf_spine", leaves = 2, spines = 2, hosts_per_leaf = 2 }
transport = { preset = "tcp_bolt" }
workload = { kind = "flows", flows = [{ src = "host0", dst = "host2", size = "150 KB" }] }
record = { states = true, paths = true }
"""
    page = visit(pages("way", text))
    page.select_option("#flow", index=1)
    ways = page.evaluate("[...document.querySelectorAll('.live h3')].map((one) => one.textContent)")
    assert ways[:2] == ["Way", "Way back"]
    steps = page.eval_on_selector_all(".live ol.chain li", "items => items.map((item) => item.textContent)")
    found = [re.fullmatch(r"(\S+) \((\w+) → (\w+)\): (\d+) packets", step) for step in steps]
    forward = [match.groups() for match in found if match is not None][:3]
    via = forward[0][2]
    assert [step[1:3] for step in forward] == [("leaf0", via), (via, "leaf1"), ("leaf1", "host2")]
    paths = pf.run(text, progress=False).paths.to_polars().with_columns(pl.col("port", "direction").cast(pl.String))
    rows = paths.filter(pl.col("direction") == "forward").select("port", "packets").rows()
    assert sorted((port, int(packets)) for port, _, _, packets in forward) == sorted(rows)
    assert page.evaluate("player.views[0].run.wayOf(player.chosen.flow).length") == 6
    # The time lines are those of the whole way.
    assert page.eval_on_selector_all(".lines h3", "items => items.length") >= 3


def test_the_way_of_a_flow_begins_at_the_port_that_it_left_by(pages, visit):
    """A host with two ports: its flows leave by either, and each way goes from leaf to leaf."""
    flows = ", ".join(f'{{ src = "host{n}", dst = "host{n + 4}", size = "20 KB" }}' for n in range(4))
    text = f"""
name = "ports"
stop = {{ time = "20 ms", when_finished = true }}
topology = {{ kind = "leaf_spine", leaves = 4, spines = 2, hosts_per_leaf = 2, ports_per_host = 2 }}
transport = {{ preset = "roce_dcqcn" }}
workload = {{ kind = "flows", flows = [{flows}] }}
record = {{ states = true, paths = true }}
"""
    page = visit(pages("ports", text))
    ways = page.evaluate(
        """() => {
            const { run } = player.views[0];
            const step = ([, port]) => [run.nodes[run.owner(port)], run.nodes[run.peer(port)]];
            return run.flows.map((flow) => run.wayOf(flow).filter(([back]) => !back).map(step));
        }"""
    )
    assert len(ways) == 4
    for way in ways:
        assert all(left[1] == right[0] for left, right in itertools.pairwise(way)), way
        assert way[-1][1].startswith("host"), way
