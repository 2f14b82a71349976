"""The commands `report`, `view` and `export`: runs as HTML reports, as replays, and as files for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pauseframe.cli import _complete
from pauseframe.cli._common import (
    AsJson,
    Force,
    Last,
    Open,
    name_file,
    named_or_last,
    out_option,
    print_json,
    say,
    spare_inputs,
)
from pauseframe.cli._options import PlainTyper
from pauseframe.files.atomic import page_path

if TYPE_CHECKING:
    from pauseframe.report.data import RunData

commands = PlainTyper()
export = commands.group("export", "Export a run for other viewers and programs.")

RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="Results folder of a run.", autocompletion=_complete.runs)
]


@commands.command(epilog="Example: pauseframe report results/dctcp-7 results/tcp_bolt-7 --out compare.html --open")
def report(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DIR...",
            help="Folders of runs or sweeps; the others are compared to the first [default: the last run or sweep].",
            autocompletion=_complete.results,
        ),
    ] = None,
    last: Last = None,
    out: Annotated[Path | None, out_option("File [default: report.html in the first folder].")] = None,
    lines: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERN", help="Show time lines of the ports or flows whose names match, such as 'leaf0:*'."
        ),
    ] = None,
    open_: Open = False,
    as_json: AsJson = False,
) -> None:
    """Write an HTML report of runs or sweeps.

    The report is one file that works offline. Ratios compare each folder with the first.
    """
    from pauseframe.report import Group, build_report, from_folder

    folders = named_or_last(folders, last)
    spare_inputs(out, "page")
    target = page_path(out or folders[0] / "report.html")
    if any((folder / "sweep.json").is_file() for folder in folders):
        from pauseframe.report.sweep import build_sweep_report
        from pauseframe.sweep.compare import compare

        comparison = compare(folders)
        for text in comparison.missing:
            say(f"warning: {text}; the report shows only those")
        path = build_sweep_report(comparison, target)
    else:
        runs = [from_folder(folder) for folder in folders]
        if lines is not None:
            _check_lines(runs, lines)
        path = build_report([Group("", runs)], target, lines=lines)
    name_file(path, as_json, open_)


def _check_lines(runs: list[RunData], pattern: str) -> None:
    """Refuses a pattern that matches no port or flow with samples."""
    from pauseframe.report import figures

    def names(pattern: str | None) -> list[str]:
        parts = [figure for group in figures.line_figures(runs, pattern) for _, figure in group.parts]
        return sorted({trace["name"] for figure in parts for trace in figure["data"]})

    if names(pattern):
        return
    recorded = names(None)
    hint = f"recorded are {', '.join(recorded[:8])}" if recorded else "record them with record.series"
    raise typer.BadParameter(f"no samples have a name like {pattern}: {hint}", param_hint="--lines")


@commands.command(epilog="Example: pauseframe view results/incast-1 --open")
def view(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="RUN...",
            help="A run, and a second one to play beside it on the same clock [default: the last run].",
            autocompletion=_complete.runs,
        ),
    ] = None,
    last: Last = None,
    out: Annotated[Path | None, out_option("File [default: view.html in the first folder].")] = None,
    open_: Open = False,
    as_json: AsJson = False,
) -> None:
    """Write a page that replays a run.

    The page shows loads, queues, and which port pauses which and why, in one file that works offline.
    """
    from pauseframe.view import build_view, from_folder

    folders = named_or_last(folders, last, sweeps=False)
    if len(folders) > 2:
        raise typer.BadParameter(f"{len(folders)} runs do not fit beside each other: name two", param_hint="RUN")
    folder = folders[0]
    runs = [from_folder(path) for path in folders]
    spare_inputs(out, "page")
    target = page_path(out or folder / "view.html")
    report = folder / "report.html"
    beside_it = report.is_file() and target.resolve().parent == folder.resolve()
    path = build_view(runs, target, report="report.html" if beside_it else None)
    name_file(path, as_json, open_)


@export.command(epilog="Example: pauseframe export perfetto results/incast-1 -o incast.perfetto-trace")
def perfetto(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="RUN",
            help="Results folder of a run; with record.states it has ports, with timeline ranks.",
            autocompletion=_complete.runs,
        ),
    ],
    out: Annotated[Path | None, out_option("File [default: trace.perfetto-trace in the folder].")] = None,
    as_json: AsJson = False,
) -> None:
    """Write a trace for ui.perfetto.dev.

    The trace shows queues, loads and pauses of ports, deadlocks, flows, and ranks of applications.
    """
    from pauseframe.results.folder import open_results
    from pauseframe.view.perfetto import export_perfetto

    spare_inputs(out)
    path = export_perfetto(folder, out or folder / "trace.perfetto-trace")
    if not open_results(folder).has_table("states"):
        say(f"note: {folder} has no states, so the trace has no ports: run the scenario with record.states=true")
    name_file(path, as_json)


Tables = Annotated[
    list[str] | None,
    typer.Option("--table", metavar="NAME", help="This table, such as flows; repeatable [default: all]."),
]


@export.command(epilog="Example: pauseframe export csv results/incast-1 --table flows -o flows")
def csv(
    folder: RunFolder,
    out: Annotated[Path | None, out_option("Folder [default: csv in the run's folder].")] = None,
    table: Tables = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the tables of a run as CSV files.

    The columns are those of docs/reference/results.md; lists are joined with spaces.
    """
    _tables(folder, out, table or [], "csv", force, as_json)


@export.command(epilog="Example: pauseframe export arrow results/incast-1 --table series")
def arrow(
    folder: RunFolder,
    out: Annotated[Path | None, out_option("Folder [default: arrow in the run's folder].")] = None,
    table: Tables = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write the tables of a run as Arrow IPC files (Feather).

    pandas.read_feather, polars.read_ipc and R's arrow package read them without copying.
    """
    _tables(folder, out, table or [], "arrow", force, as_json)


def _tables(folder: Path, out: Path | None, names: list[str], ending: str, force: bool, as_json: bool) -> None:
    from pauseframe.view.tables import export_tables

    files = export_tables(folder, out or folder / ending, names, ending, force=force)
    if as_json:
        print_json({"out": [str(file) for file in files]})
        return
    for file in files:
        print(file)
