"""Builds a report: figures and tables of each group of runs in one HTML file."""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict
from urllib.parse import quote

from pauseframe.files.atomic import write_text
from pauseframe.report import (
    answers,
    applications,
    data,
    figures,
    long_flows,
    operations,
    paths,
    pauses,
    summary,
)
from pauseframe.report.figures import Figures
from pauseframe.report.html import render, script_json
from pauseframe.report.page import GroupPage, Queries, RunHeader, SizeBin
from pauseframe.results import flow_sizes
from pauseframe.results.causes import lossless_caution
from pauseframe.results.ideals import ideal_caution, ideals_of
from pauseframe.results.percentiles import EXPLANATION, SHARES, TITLES, explanation, marked
from pauseframe.terminal.text import MISSING, format_bytes, format_count, format_duration, format_us

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
    from typing import Unpack

    from pauseframe.report.data import RunData
    from pauseframe.report.page import Answer, PercentileRow, Player

PERCENTILE_TITLES = {name: TITLES[name] for name in data.PERCENTILES}
BUSIEST_PORTS = 12
CIRCLES = 3


@dataclass(frozen=True)
class Group:
    """Runs to compare with one another; ratios refer to the first."""

    title: str
    runs: list[RunData]
    text: str = ""


@dataclass(frozen=True)
class Claim:
    """A claim of a paper with its measurement."""

    id: str
    text: str
    paper_value: str
    measured: str
    verdict: str
    """"reproduced", "shape only", "differs", or the reason for having no verdict."""
    why: str


@dataclass(frozen=True)
class Check:
    """A rule that was checked, such as one of the contract of congestion controls."""

    subject: str
    rule: str
    demand: str
    broken: str | None
    """Description of the violation; None if the rule holds."""


class Parts(TypedDict, total=False):
    """The parts of a report besides its runs."""

    title: str | None
    answer: Answer | None
    """The answer at the top, which collapses the groups of runs."""
    player: Player | None
    claims: Sequence[Claim]
    claims_note: str
    checks: Sequence[Check]
    """Checks above the runs."""
    lines: str | None
    """A glob over the names of ports and flows to draw over time, such as "leaf0:*"."""


def build_report(groups: Sequence[Group], out: Path, **parts: Unpack[Parts]) -> Path:
    """Writes the report of `groups` to the file `out` and returns its path. The report is one file that works offline.

    `parts` are the keys of `Parts`.
    """
    html = render_report(groups, out, **parts)
    for run in (run for group in groups for run in group.runs):
        run.check_unchanged()
    return write_text(out, html)


def render_report(groups: Sequence[Group], out: Path | None = None, **parts: Unpack[Parts]) -> str:
    """The report as text; with `out`, the report has links to the players of its runs."""
    page = Figures()
    contexts = [_group(number, group, page, parts.get("lines"), out) for number, group in enumerate(groups)]
    player = parts.get("player")
    nothing: Parts = {"answer": None, "player": None, "claims": (), "claims_note": "", "checks": ()}
    context = {**nothing, **parts, "title": parts.get("title") or _title(groups)}
    embedded = None if player is None else script_json(player.html)
    return render("report.html.j2", page, groups=contexts, marks=EXPLANATION, player_page=embedded, **context)


def _title(groups: Sequence[Group]) -> str:
    labels = [run.label for group in groups for run in _with_distinct_labels(group.runs)]
    return " beside ".join(labels) if len(labels) < 3 else f"{labels[0]} and {len(labels) - 1} more"


def _group(number: int, group: Group, page: Figures, lines: str | None, out: Path | None) -> GroupPage:
    runs = _with_distinct_labels(group.runs)
    finished = [data.finished_flows(run) for run in runs]
    by_bin = [
        (index, run.label, data.percentiles_by(frame, "bin"))
        for index, (run, frame) in enumerate(zip(runs, finished, strict=True))
    ]
    answer = answers.answer(runs, page.add)
    players = {number: link for number, run in enumerate(runs) if out is not None and (link := _player(run, out))}
    heat = figures.heat_maps(runs)
    of_operations = operations.operations_table(runs)
    trimmed = any(map(data.trims, runs))
    given, others = data.split_by_origin(runs) if len(runs) > 1 else ([], [])
    of_long_flows = long_flows.long_flows_table(runs)
    summaries = [*summary.tables(runs), *(table for table in (of_long_flows, of_operations) if table)]
    owners = _owners(runs)
    return GroupPage(
        id=f"g{number}",
        title=group.title,
        text=group.text,
        answer=answer,
        runs=[_run_header(run, owners) for run in runs],
        warnings=_shared(owners, len(runs)),
        players=[(runs[number].label, link) for number, link in players.items()],
        players_by_run=json.dumps(players),
        given=given,
        differing=others,
        caution=_caution(runs),
        ideals=ideal_caution({run.label: ideals_of(run.flows) for run in runs}) if len(runs) > 1 else "",
        summaries=summaries,
        marks=explanation(text for table in summaries for _, _, cells in table.rows for text, _ in cells),
        bins=_bins(runs, finished, by_bin, page, answer.chart == answers.ALL_FLOWS),
        percentiles=[
            (PERCENTILE_TITLES[key], page.add(figures.percentile_figure(by_bin, key, figures.bin_label, "flow size")))
            for key in ("p50", "p99", "p999")
            if _has_lines(table for _, _, table in by_bin)
        ],
        slowdown=_slowdown(runs, finished, page),
        queries=_queries(runs, page),
        applications=applications.section(runs, page.add),
        throughput=_throughput(runs, page, answer.chart),
        lines=[
            (one.title, one.note, [(label, page.add(figure)) for label, figure in one.parts])
            for one in figures.line_figures(runs, lines)
        ],
        pauses=_pauses(runs, page),
        paths=[found for run in runs if (found := paths.of_run(run, page.add))],
        drops=_counts(runs, page, "packets dropped or trimmed" if trimmed else "packets dropped", _losses),
        trimmed=trimmed,
        timeouts=_counts(runs, page, "timeouts", lambda run: {"timeouts": run.summary["timeouts"]}),
        retransmits=_counts(runs, page, "packets sent again", _retransmits),
        heat=None if heat is None else script_json(heat),
        busiest=[(run.label, _busiest(run)) for run in runs],
    )


def _losses(run: RunData) -> dict[str, int]:
    """Drops by reason, and trimmed packets, whose payload is lost as well."""
    return {**dict[str, int](**run.summary["drops_by_reason"]), "trimmed": data.trims(run)}


def _retransmits(run: RunData) -> dict[str, int]:
    return {"packets sent again": run.summary["retransmits"]}


def _with_distinct_labels(runs: Sequence[RunData]) -> list[RunData]:
    """Distinct labels for runs: names, else folder names, else names with seeds, else numbers."""
    folders = [run.folder.resolve().name for run in runs if run.folder is not None]
    names = Counter(run.label for run in runs)
    if len(names) < len(runs) == len(set(folders)):
        return [replace(run, label=folder) for run, folder in zip(runs, folders, strict=True)]
    runs = [
        run if names[run.label] == 1 else replace(run, label=f"{run.label}, seed {run.summary['seed']}") for run in runs
    ]
    names = Counter(run.label for run in runs)
    seen: Counter[str] = Counter()
    result = []
    for run in runs:
        seen[run.label] += 1
        numbered = names[run.label] > 1
        result.append(replace(run, label=f"{run.label} #{seen[run.label]}") if numbered else run)
    return result


def _owners(runs: Sequence[RunData]) -> dict[str, list[str]]:
    """The labels of the runs that have each warning."""
    owners: dict[str, list[str]] = {}
    for run in runs:
        for warning in dict.fromkeys(run.summary["warnings"]):
            owners.setdefault(warning, []).append(run.label)
    return owners


def _shared(owners: Mapping[str, Sequence[str]], runs: int) -> list[tuple[str, list[str]]]:
    """Warnings of several of `runs` runs, below the labels of these."""
    shared: dict[str, list[str]] = {}
    for warning, labels in owners.items():
        if len(labels) > 1:
            names = f"all {runs} runs" if len(labels) == runs > 2 else ", ".join(labels)
            shared.setdefault(names, []).append(warning)
    return list(shared.items())


def _run_header(run: RunData, owners: Mapping[str, Sequence[str]]) -> RunHeader:
    """The notes about a run; `owners` are the runs of each warning."""
    said = run.summary
    return RunHeader(
        label=run.label,
        status=run.status,
        seed=said["seed"],
        version=said["version"],
        fingerprint=said["fingerprint"],
        sim_time=format_duration(said["sim_time_s"]),
        wall=format_duration(said["wall_s"]),
        speed=f"{format_count(said['packet_hops_per_s'])} packet hops/s",
        warnings=[warning for warning in said["warnings"] if len(owners[warning]) == 1],
        nic_queue=said.get("nic_queue", MISSING).replace("_", " "),
        series_end="" if (full := said.get("series_full_at_s")) is None else format_duration(full),
        circles=_circles(run),
        toml=data.shortened(run.scenario_toml),
    )


def _circles(run: RunData) -> list[list[str]]:
    """The queues of each deadlock in the order of waiting, with the first queue repeated at the end."""
    if run.deadlocks is None or not run.summary["deadlocks"]:
        return []
    rows = run.deadlocks.select("deadlock", "position", "port", "priority", "bytes").collect()
    circles: dict[int, list[str]] = {}
    for number, _, port, priority, held in rows.sort("deadlock", "position").rows():
        circles.setdefault(number, []).append(f"{port}/p{priority} ({format_bytes(held)})")
    shown = list(circles.values())[:CIRCLES]
    return [[*around, around[0]] for around in shown]


def _player(run: RunData, out: Path) -> str | None:
    """Writes the page that replays the run, if the run logged states; returns the page's path relative to `out`."""
    from pauseframe.view import build_view, from_folder, has_log

    if run.folder is None or not has_log(run.folder):
        return None

    report = "report.html" if out.resolve() == (run.folder / "report.html").resolve() else None
    page = build_view([from_folder(run.folder)], run.folder / "view.html", report=report)
    return quote(Path(os.path.relpath(page.resolve(), out.resolve().parent)).as_posix())


def _caution(runs: Sequence[RunData]) -> str:
    """A caution above comparisons of lossless with lossy runs: buffers of equal size mean different memory."""
    return lossless_caution([data.conditions_of(run) for run in runs])


def _bins(
    runs: Sequence[RunData],
    finished: Sequence[Any],
    by_bin: Sequence[tuple[int, str, dict[Any, dict[str, float]]]],
    page: Figures,
    charted: bool,
) -> list[SizeBin]:
    """The bins that have flows; with `charted` the answer's chart shows all flows, which no bin repeats."""
    import polars as pl

    result = []
    left = [data.unfinished_flows(run) for run in runs]
    for index, name in enumerate(flow_sizes.NAMES):
        parts = [
            (number, run.label, frame.filter(pl.col("bin") == index)["fct_us"])
            for number, (run, frame) in enumerate(zip(runs, finished, strict=True))
        ]
        parts = [part for part in parts if len(part[2])]
        if parts:
            tables = [(number, label, table.get(index)) for number, label, table in by_bin]
            rows = _percentile_rows(tables, [of_run.get(index, 0) for of_run in left])
            is_new = not charted or len(parts[0][2]) < len(finished[0])
            drawn = is_new and _has_lines(part[2] for part in parts)
            result.append(SizeBin(name, page.add(figures.cdf_figure(parts)) if drawn else None, rows))
    return result


def _percentile_rows(
    tables: Sequence[tuple[int, str, dict[str, float] | None]], left: Sequence[int]
) -> list[PercentileRow]:
    """For each run: number, label, count, and (time, ratio to the first run) of each percentile.

    `left` is the number of unfinished flows, by run. Times of a part have no ratio: it excludes what took longest.
    """
    rows = []
    for (number, label, table), missing in zip(tables, left, strict=True):
        count = int(table["n"]) if table else 0
        cells = []
        for key in PERCENTILE_TITLES:
            column = [None if other is None else other[key] for _, _, other in tables]
            text = marked(format_us(column[number]), count, SHARES[key])
            cells.append((text, "" if missing or left[0] else summary.ratio(column, number)))
        shown = format_count(count) if count else MISSING
        rows.append((number, label, f"{shown} of {format_count(count + missing)}" if missing else shown, cells))
    return rows


def _slowdown(runs: Sequence[RunData], finished: Sequence[Any], page: Figures) -> list[tuple[str, int]]:
    tables = [
        (number, run.label, data.slowdown_by_size(frame))
        for number, (run, frame) in enumerate(zip(runs, finished, strict=True))
    ]
    tables = [table for table in tables if len(table[2])]
    drawn = _has_lines(table for _, _, table in tables)
    return [(key, page.add(figures.slowdown_figure(tables, key))) for key in ("p50", "p99") if drawn]


def _throughput(runs: Sequence[RunData], page: Figures, charted: str) -> list[tuple[str, int]] | None:
    """Figures of throughput, or None if the answer's chart, with the title `charted`, is the only one."""
    drawn = figures.throughput_figures(runs)
    new = [(name, page.add(figure)) for name, figure in drawn if name != charted]
    return new if new or not drawn else None


def _queries(runs: Sequence[RunData], page: Figures) -> Queries | None:
    import polars as pl

    tables = [
        (number, run.label, data.percentiles_by(data.finished_queries(run), "response_bytes"))
        for number, run in enumerate(runs)
    ]
    sizes = sorted({size for _, _, table in tables for size in table})
    if not sizes:
        return None
    left = [data.unfinished_by(run.queries, pl.col("response_bytes")) for run in runs]
    return Queries(
        figures=[
            (
                f"{PERCENTILE_TITLES[key.removesuffix('_slowdown')]} {'slowdown' if 'slowdown' in key else 'time'}",
                page.add(figures.percentile_figure(tables, key, figures.size_label, "response size")),
            )
            for key in ("p50", "p99", "p999", "p999_slowdown")
            if _has_lines(table for _, _, table in tables)
        ],
        sizes=[
            (
                figures.size_label(size),
                _percentile_rows(
                    [(n, label, table.get(size)) for n, label, table in tables],
                    [of_run.get(size, 0) for of_run in left],
                ),
            )
            for size in sizes
        ],
    )


def _has_lines(tables: Iterable[Sized]) -> bool:
    """True if a run has two points or more; one dot a run is a table, not a figure."""
    return any(len(table) > 1 for table in tables)


def _counts(runs: Sequence[RunData], page: Figures, kind: str, of: Callable[[RunData], dict[str, int]]) -> int | None:
    """A figure of counts by kind, or None if all are zero."""
    kinds = {name: [of(run).get(name, 0) for run in runs] for run in runs for name in of(run)}
    kinds = {name: counts for name, counts in kinds.items() if any(counts)}
    return page.add(figures.counts_figure(runs, kinds, kind)) if kinds else None


def _pauses(runs: Sequence[RunData], page: Figures) -> list[tuple[str, int, int]]:
    """For each run that recorded pauses: label, figure of depths over time, and tree at the worst instant."""
    until = max(map(data.busy_until, runs))
    found = [(number, pauses.depth_figure(run, until), pauses.tree_figure(run)) for number, run in enumerate(runs)]
    return [
        (runs[number].label, page.add(depth | {"run": number}), page.add(tree))
        for number, depth, tree in found
        if depth and tree
    ]


def _busiest(run: RunData) -> list[list[str]]:
    ports = data.ports_by_number(run).sort("utilisation", "port", descending=[True, False]).head(BUSIEST_PORTS)
    return [
        [
            port["port"],
            port["peer"],
            f"{port['utilisation']:.0%}",
            format_bytes(port["backlog_max_bytes"]),
            format_bytes(port["ingress_max_bytes"]),
            f"{port['paused']:.1%}",
            format_count(port["pauses_received"]),
            format_count(port["ecn_marks"]),
            format_count(port["drops"]),
            format_count(port["trims"]),
        ]
        for port in ports.iter_rows(named=True)
    ]
