"""The log of state changes, the page that replays it, and the Perfetto trace."""

import base64
import json
import re
import zlib
from array import array
from pathlib import Path

import pauseframe as pf
import polars as pl
import pytest
from pauseframe.view import build_view, from_folder
from pauseframe.view.layout import Graph, arrange
from typer.testing import CliRunner

HOW_TO = Path(__file__).parent.parent / "docs" / "how-to" / "watch-a-pause-storm.md"
LOSSY = """
name = "lossy"
stop = "2 ms"
topology = { kind = "star", hosts = 5 }
switch = { buffer = "60 KB", marker = { kind = "step", k = "15 KB" } }
transport = { preset = "dctcp" }
record = { states = { every = "7 us" } }
workload = { kind = "n_to_1", senders = 4, size = "500 KB" }
"""


def storm_text():
    found = re.search(r"^```toml\n(.*?)^```", HOW_TO.read_text(encoding="utf-8"), re.M | re.S)
    assert found
    return found.group(1)


@pytest.fixture(scope="module")
def storm(tmp_path_factory):
    """Results of the how-to's scenario, with the pause tree."""
    folder = tmp_path_factory.mktemp("view") / "storm"
    text = storm_text().replace('every = "5 us" }', 'every = "5 us" }\npause_tree = true')
    pf.run(text, out=folder)
    return folder


def states(folder):
    return pl.read_parquet(folder / "states.parquet").with_columns(pl.col("kind", "port", "because_of").cast(pl.String))


@pytest.mark.parametrize("text", [storm_text(), LOSSY], ids=["lossless", "lossy"])
def test_recording_changes_no_result(text):
    logged = pf.run(text)
    plain = pf.run(re.sub(r"states = \{.*?\}", "states = false", text))
    assert logged.states.num_rows > 100
    assert plain.states.num_rows == 0
    assert logged.summary["fingerprint"] == plain.summary["fingerprint"]
    for table in ("flows", "ports"):
        assert pl.DataFrame(getattr(logged, table)).equals(pl.DataFrame(getattr(plain, table)))


def test_pauses_are_those_of_the_tree(storm):
    log, tree = states(storm), pl.read_parquet(storm / "pause_tree.parquet")
    begun = log.filter(pl.col("kind") == "paused").select("time_us", "port").sort("time_us", "port")
    starts = tree.select(time_us="start_us", port=pl.col("port").cast(pl.String)).sort("time_us", "port")
    assert begun.equals(starts)
    ends = tree["end_us"].drop_nulls().sort()
    assert log.filter(pl.col("kind") == "resumed")["time_us"].sort().equals(ends, check_names=False)
    assert log["time_us"].is_sorted()


def test_requests_name_a_queue_of_the_node_that_asks(storm):
    play = from_folder(storm)
    number = {name: port for port, name in enumerate(play.fabric.port_names)}
    asked = states(storm).filter(pl.col("kind") == "asked")
    for port, because_of in asked.select("port", "because_of").iter_rows():
        peer = play.fabric.peer(number[port])
        if because_of is None:
            assert play.fabric.is_host[peer]
        else:
            assert play.fabric.owner(number[because_of]) == peer
    assert asked["because_of"].null_count() < len(asked)
    first = asked.row(0, named=True)
    assert (first["port"], first["because_of"]) == ("edge0_0:0", None), "the slow host asks first"
    assert asked.filter(pl.col("port") == "agg0_0:0")["because_of"][0] == "edge0_0:0"


def test_sums_are_those_of_the_ports():
    done = pf.run(LOSSY)
    log = pl.DataFrame(done.states).with_columns(pl.col("kind", "port").cast(pl.String))
    ports = pl.DataFrame(done.ports)
    total = {kind: log.filter(pl.col("kind") == kind)["value"].sum() for kind in ("marks", "drops")}
    assert total == {"marks": ports["ecn_marks"].sum(), "drops": ports["drops_buffer_full"].sum()}
    assert total["marks"] > 0
    assert total["drops"] > 0
    # The true largest backlog is less than twice the largest logged one.
    logged = log.filter(pl.col("kind") == "backlog").group_by("port").agg(pl.col("value").max())
    both = ports.with_columns(pl.col("port").cast(pl.String)).join(logged, on="port")
    assert len(both) >= 3
    assert both.filter(pl.col("value") > pl.col("backlog_max_bytes")).is_empty()
    assert both.filter(pl.col("backlog_max_bytes") > 2 * pl.col("value")).is_empty()


def test_loads_add_up_to_the_utilisation():
    done = pf.run(LOSSY)
    end = done.summary["sim_time_s"] * 1e6
    log = pl.DataFrame(done.states).with_columns(pl.col("kind", "port").cast(pl.String))
    for port in pl.DataFrame(done.ports).with_columns(pl.col("port").cast(pl.String)).iter_rows(named=True):
        loads = log.filter((pl.col("kind") == "load") & (pl.col("port") == port["port"]))
        # The value of a row applies to the interval that ends at the row's time; the value before it applies until that
        # interval.
        steps = [(time - 7.0, value) for time, value in loads.select("time_us", "value").iter_rows()]
        until = [*(time for time, _ in steps[1:]), end][: len(steps)]
        area = sum((stop - begin) * value for (begin, value), stop in zip(steps, until, strict=True))
        # Values are rounded to a tenth, and a change of one tenth makes no row.
        assert area / end == pytest.approx(port["utilisation"], abs=0.15), port["port"]


def test_a_full_log_says_so(tmp_path):
    text = storm_text().replace('every = "5 us"', 'every = "5 us", limit = 500')
    done = pf.run(text, out=tmp_path / "cut")
    assert done.states.num_rows == 500
    (warning,) = [text for text in done.summary["warnings"] if "record.states.limit" in text]
    assert "full at" in warning
    page = build_view([from_folder(tmp_path / "cut")], tmp_path / "cut.html").read_text(encoding="utf-8")
    assert warning in page_data(page)[0]["warnings"]


def test_layout_keeps_pods_and_hosts_apart():
    fabric = pf.load_topology("fat_tree:k=4")
    names = [name for name, _, _ in fabric.nodes()]
    number = {name: node for node, name in enumerate(names)}
    graph = Graph(
        [kind == "host" for _, kind, _ in fabric.nodes()], [(number[a], number[b]) for a, b, _, _ in fabric.links()]
    )
    layout = arrange(graph)
    assert len(layout.pods) == 4
    assert len(set(layout.places)) == len(names)
    rows = {
        level: {layout.places[node][1] for node, own in enumerate(graph.levels()) if own == level} for level in range(4)
    }
    assert [len(rows[level]) for level in (1, 2, 3)] == [1, 1, 1]
    assert max(rows[3]) < max(rows[2]) < max(rows[1]) < min(rows[0])
    for (x, _, width, _), (right, _, _, _) in zip(layout.pods, layout.pods[1:], strict=False):
        assert x + width < right


def test_a_ring_is_a_circle():
    ring = arrange(
        Graph([False] * 5 + [True] * 5, [(i, (i + 1) % 5) for i in range(5)] + [(i, i + 5) for i in range(5)])
    )
    assert len({round((x - 0.5) ** 2 + (y - 0.5) ** 2, 9) for x, y in ring.places[:5]}) == 1
    assert not ring.pods


def page_data(page):
    """The data of the runs in the page."""
    found = re.search(r'id="runs">(.*?)</script>', page, re.S)
    assert found
    return json.loads(found.group(1))


def unpack(code, text):
    numbers = array(code)
    numbers.frombytes(zlib.decompress(base64.b64decode(text)))
    return numbers


def test_the_page_holds_the_log(storm, tmp_path):
    play = from_folder(storm)
    page = build_view([play], tmp_path / "view.html").read_text(encoding="utf-8")
    assert not re.search(r"""(?:src|href)=["']?https?:|@import|fetch\(""", page), "it needs no network"
    (data,) = page_data(page)
    events = {key: unpack(code, data["events"][key]) for key, code in (("steps", "I"), ("kinds", "B"), ("values", "f"))}
    assert len(events["kinds"]) == len(states(storm)) == len(play.events)
    tick, times = 0, []
    for step in events["steps"]:
        tick += step
        times.append(tick / (2**32 - 1) * data["end"])
    assert max(abs(a - b) for a, b in zip(times, play.events["time_us"], strict=True)) < 1e-3
    assert len(unpack("I", data["links"])) == 2 * len(play.fabric.links)
    assert len(data["flows"]) == 18


def test_commands(storm, tmp_path):
    from pauseframe.cli import app

    shown = CliRunner().invoke(app, ["view", str(storm), str(storm), "--out", str(tmp_path / "two.html")])
    assert shown.exit_code == 0, shown.output
    assert shown.output.strip() == str(tmp_path / "two.html")
    assert (tmp_path / "two.html").read_text(encoding="utf-8").count("<canvas") == 2
    plain = tmp_path / "plain"
    pf.run(LOSSY.replace('{ every = "7 us" }', "false"), out=plain)
    with pytest.raises(pf.InputError, match=r"record\.states=true"):
        from_folder(plain)
    with pytest.raises(FileNotFoundError):
        from_folder(tmp_path / "nowhere")


def test_runs_of_one_name_go_by_their_folders(storm, tmp_path):
    again, other = tmp_path / "again", tmp_path / "other"
    for folder in (again, other):
        pf.run(LOSSY, out=folder)

    def headed(*folders):
        page = build_view([from_folder(folder) for folder in folders], tmp_path / "view.html")
        return page.read_text(encoding="utf-8").partition("<h1>")[2].partition("</h1>")[0]

    assert "lossy, seed 1 (again) beside lossy, seed 1 (other)" in headed(again, other)
    assert "storm, seed 1 beside lossy, seed 1" in headed(storm, other)
