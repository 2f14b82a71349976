"""A run as a Perfetto trace: ports (queue, load, pauses), flows, deadlocks, ranks and collectives.

Ports and deadlocks come from the log of states, ranks of applications from their timelines, flows from their table. All
tracks share one clock, so a waiting rank appears above the pauses.

The trace consists of track events (perfetto.dev/docs/reference/synthetic-track-event), written with the messages of the
package `perfetto`. Times are nanoseconds.
"""

from __future__ import annotations

from importlib.util import find_spec
from io import BytesIO
from typing import TYPE_CHECKING, Any

from pauseframe._core import RunError
from pauseframe.files.atomic import write_bytes
from pauseframe.results.folder import ResultsFolder, open_results
from pauseframe.view.data import KINDS, flows_of, from_folder

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import polars as pl

    from pauseframe.scenario.plain import Value
    from pauseframe.view.data import Playback

SEQUENCE = 1
BACKLOG, LOAD, MARKS, DROPS, ASKED, PAUSED, RESUMED, CNPS_SENT, CNPS_RECEIVED = range(len(KINDS))


def export_perfetto(folder: Path, out: Path) -> Path:
    """Writes the trace of a results folder to the file `out` and returns its path.

    Raises FileNotFoundError if the folder has no results, RunError if the package perfetto is missing.
    """
    results = open_results(folder)
    if find_spec("perfetto") is None:
        raise RunError("export perfetto needs the package perfetto: pip install 'pauseframe[perfetto]'")
    trace = _Trace()
    _ranks(results, trace)
    _collectives(results, trace)
    if results.has_table("states"):
        run = from_folder(folder)
        _ports(run, trace, _node_tracks(run, trace))
        _deadlocks(run, trace)
    _flows(*flows_of(results), float(results.summary["sim_time_s"]) * 1e6, trace)
    return write_bytes(out, trace.content())


def _ns(time_us: float) -> int:
    return round(time_us * 1000)


class _Trace:
    """The packets of one Perfetto trace; each track gets a number."""

    def __init__(self) -> None:
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackDescriptor, TrackEvent
        from perfetto.trace_builder.proto_builder import StreamingTraceProtoBuilder

        self._descriptor, self._event = TrackDescriptor, TrackEvent
        self._file = BytesIO()
        self._builder = StreamingTraceProtoBuilder(self._file)
        self._tracks = 0

    def content(self) -> bytes:
        return self._file.getvalue()

    def track(self, name: str, parent: int | None = None, *, counter: str | None = None) -> int:
        """Adds a track; `counter` is the unit of a counter track. Child tracks keep the order of creation."""
        self._tracks += 1
        packet = self._builder.create_packet()
        descriptor = packet.track_descriptor
        descriptor.uuid, descriptor.name = self._tracks, name
        descriptor.sibling_order_rank = self._tracks
        descriptor.child_ordering = self._descriptor.EXPLICIT
        if parent is not None:
            descriptor.parent_uuid = parent
        if counter is not None:
            descriptor.counter.unit_name = counter
        self._builder.write_packet(packet)
        return self._tracks

    def begin(self, track: int, time_us: float, name: str, notes: dict[str, Value] | None = None) -> None:
        self._write(track, time_us, self._event.TYPE_SLICE_BEGIN, name, notes)

    def end(self, track: int, time_us: float) -> None:
        self._write(track, time_us, self._event.TYPE_SLICE_END)

    def instant(self, track: int, time_us: float, name: str, notes: dict[str, Value] | None = None) -> None:
        self._write(track, time_us, self._event.TYPE_INSTANT, name, notes)

    def count(self, track: int, time_us: float, value: float) -> None:
        packet = self._packet(track, time_us, self._event.TYPE_COUNTER)
        packet.track_event.double_counter_value = value
        self._builder.write_packet(packet)

    def _packet(self, track: int, time_us: float, kind: Any) -> Any:
        packet = self._builder.create_packet()
        packet.timestamp, packet.trusted_packet_sequence_id = _ns(time_us), SEQUENCE
        packet.track_event.type, packet.track_event.track_uuid = kind, track
        return packet

    def _write(
        self, track: int, time_us: float, kind: Any, name: str = "", notes: dict[str, Value] | None = None
    ) -> None:
        packet = self._packet(track, time_us, kind)
        if name:
            packet.track_event.name = name
        for key, value in (notes or {}).items():
            note = packet.track_event.debug_annotations.add()
            note.name = key
            if isinstance(value, float):
                note.double_value = value
            elif isinstance(value, int):
                note.int_value = value
            else:
                note.string_value = str(value)
        self._builder.write_packet(packet)


def _node_tracks(run: Playback, trace: _Trace) -> dict[int, int]:
    """A track for each node in the log, switches first."""
    fabric = run.fabric
    nodes = sorted({fabric.owner(port) for port, _ in run.slots}, key=lambda node: (fabric.is_host[node], node))
    return {node: trace.track(("host " if fabric.is_host[node] else "switch ") + fabric.names[node]) for node in nodes}


def _ports(run: Playback, trace: _Trace, nodes: dict[int, int]) -> None:
    """Tracks of each port and priority: pauses and events, queue, load."""
    groups = {slot[0]: rows for slot, rows in run.events.group_by("slot", maintain_order=True)}
    for slot, (port, priority) in enumerate(run.slots):
        fabric = run.fabric
        name = f"{fabric.port_names[port]} → {fabric.names[fabric.peer(port)]}, priority {priority}"
        parent = trace.track(name, nodes[fabric.owner(port)])
        queue, load = (trace.track(what, parent, counter=unit) for what, unit in (("queue", "bytes"), ("load", "%")))
        tracks = {BACKLOG: queue, LOAD: load}
        scale = {BACKLOG: 1.0, LOAD: 100.0}
        events = groups[slot].select("time_us", "k", "value").rows()
        for time_us, kind, value in events:
            if kind in tracks:
                trace.count(tracks[kind], time_us, value * scale[kind])
        _slices(run, trace, parent, fabric.names[fabric.peer(port)], events)


def _slices(run: Playback, trace: _Trace, track: int, asker: str, events: Iterable[tuple[float, int, float]]) -> None:
    """Adds the pauses, pause requests, marks, drops and CNPs of one port and priority."""
    paused, because = False, ""
    for time_us, kind, value in events:
        if kind == ASKED:
            because = run.fabric.port_names[int(value)] if value >= 0 else f"{asker} itself"
            trace.instant(track, time_us, "asked to pause", {"by": asker, "because of": because})
        elif kind == PAUSED and not paused:
            paused = True
            trace.begin(track, time_us, f"paused by {asker}", {"because of": because} if because else None)
        elif kind == RESUMED and paused:
            paused = False
            trace.end(track, time_us)
        elif kind in {MARKS, DROPS, CNPS_SENT, CNPS_RECEIVED}:
            trace.instant(
                track,
                time_us,
                KINDS[kind].replace("cnps", "CNPs").replace("_", " "),
                {"packets in the interval": int(value)},
            )
    if paused:
        trace.end(track, run.end_us)


def _flows(flows: pl.DataFrame, total: int, end_us: float, trace: _Trace) -> None:
    """A slice per flow below its source; overlapping flows of a host have separate tracks."""
    if flows.is_empty():
        return
    left_out = total - len(flows)
    root = trace.track("flows" + (f" (the slowest {len(flows)}, {left_out} more are left out)" if left_out else ""))
    parents: dict[str, int] = {}
    free: dict[str, list[tuple[float, int]]] = {}
    for flow in flows.sort("start_us", "flow").iter_rows(named=True):
        source, begin = flow["src"], flow["start_us"]
        end = end_us if flow["finish_us"] is None else flow["finish_us"]
        if begin > end:
            continue  # the flow would start after the end of the run
        if source not in parents:
            parents[source] = trace.track(f"from {source}", root)
        tracks = free.setdefault(source, [])
        place = next((place for place, (until, _) in enumerate(tracks) if until <= begin), len(tracks))
        if place == len(tracks):
            tracks.append((end, trace.track(f"from {source}, {place + 1}", parents[source])))
        tracks[place] = (end, tracks[place][1])
        notes = ("workload", "status", "size_bytes", "slowdown", "ce_packets", "timeouts", "retransmits")
        trace.begin(
            tracks[place][1],
            begin,
            f"flow {flow['flow']} to {flow['dst']}",
            {note: flow[note] for note in notes if flow[note] is not None},
        )
        trace.end(tracks[place][1], end)


def _ranks(results: ResultsFolder, trace: _Trace) -> None:
    """A track per job, with one per recorded rank below it: a slice per activity."""
    import polars as pl

    if not results.has_table("timeline"):
        return
    texts = pl.col("job", "activity", "step").cast(pl.String)
    slices = results.frame("timeline").with_columns(texts).sort("job", "rank", "start_us", maintain_order=True)
    hosts = results.frame("ranks").with_columns(pl.col("job", "host").cast(pl.String))
    host_of = {(job, rank): host for job, rank, host in hosts.select("job", "rank", "host").rows()}
    jobs: dict[str, int] = {}
    tracks: dict[tuple[str, int], int] = {}
    columns = ("job", "rank", "activity", "start_us", "end_us", "step", "line")
    for job, rank, activity, start_us, end_us, step, line in slices.select(columns).iter_rows():
        if job not in jobs:
            jobs[job] = trace.track(f"job {job}")
        if (job, rank) not in tracks:
            tracks[job, rank] = trace.track(f"rank {rank} on {host_of[job, rank]}", jobs[job])
        notes = {"step": step} | ({"line": line} if line is not None else {})
        trace.begin(tracks[job, rank], start_us, activity, notes)
        trace.end(tracks[job, rank], end_us)


def _collectives(results: ResultsFolder, trace: _Trace) -> None:
    """A track per job and kind of group: a slice per call of a collective; calls at the same time have own tracks."""
    import polars as pl

    if not results.has_table("collectives"):
        return
    rows = results.frame("collectives").with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String))
    tracks: dict[tuple[str, str], int] = {}
    free: dict[tuple[str, str], list[tuple[float, int]]] = {}
    for call in rows.drop_nulls("end_us").sort("start_us", "group_number").iter_rows(named=True):
        key = call["job"], call["group"]
        if key not in tracks:
            tracks[key] = trace.track(f"collectives of {call['job']}, {call['group'] or 'all'}")
        places = free.setdefault(key, [])
        begin, end = call["start_us"], call["end_us"]
        place = next((place for place, (until, _) in enumerate(places) if until <= begin), len(places))
        if place == len(places):
            places.append((end, trace.track(f"{call['group'] or 'all'} {place + 1}", tracks[key])))
        places[place] = (end, places[place][1])
        notes = ("layer", "phase", "group_number", "algorithm", "ranks", "bytes", "ready_us", "busbw_gb_per_s")
        shown = {note: call[note] for note in notes if call[note] not in (None, "")}
        trace.begin(places[place][1], begin, call["kind"], shown)
        trace.end(places[place][1], end)


def _deadlocks(run: Playback, trace: _Trace) -> None:
    for number, deadlock in enumerate(run.deadlocks):
        track = trace.track(f"deadlock {number}")
        names = [run.fabric.port_names[port] for port in deadlock["ports"]]
        trace.begin(track, deadlock["since_us"], " → ".join([*names, names[0]]), {"victims": deadlock["victims"]})
        trace.instant(track, deadlock["found_us"], "found")
        trace.end(track, max(run.end_us, deadlock["found_us"]))
