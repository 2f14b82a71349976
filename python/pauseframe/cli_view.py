"""The commands `view` and `export`: a run played back, and written for other viewers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

export = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Write a run for other viewers.")

RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Results folder of a run with record.states.")]


def view(
    folder: RunFolder,
    beside: Annotated[
        Path | None, typer.Argument(metavar="[RUN2]", help="A second run, played beside it on the same clock.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="File [default: view.html in the first folder].")] = None,
    open_: Annotated[bool, typer.Option("--open", help="Show it in a browser.")] = False,
) -> None:
    """Write a page that plays a run back: loads, queues, who pauses whom and why. One file, no network needed."""
    from pauseframe.view import build_view, from_folder

    runs = [from_folder(path) for path in (folder, beside) if path is not None]
    target = out or folder / "view.html"
    report = folder / "report.html"
    beside_it = report.is_file() and target.resolve().parent == folder.resolve()
    path = build_view(runs, target, report="report.html" if beside_it else None)
    typer.echo(path)
    if open_:
        typer.launch(path.resolve().as_uri())


@export.command(epilog="Example: pauseframe export perfetto results/incast-1 -o incast.perfetto-trace")
def perfetto(
    folder: RunFolder,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File [default: trace.perfetto-trace in the folder].")
    ] = None,
) -> None:
    """Write a trace for ui.perfetto.dev: queues, loads and pauses of ports, flows, deadlocks."""
    from pauseframe.view import from_folder
    from pauseframe.view.perfetto import export_perfetto

    typer.echo(export_perfetto(from_folder(folder), out or folder / "trace.perfetto-trace"))


@export.callback()
def _export() -> None:
    """One command a format."""


def add_to(app: typer.Typer) -> None:
    """Puts the commands into the program."""
    app.command(epilog="Example: pauseframe view results/incast-1 --open")(view)
    app.add_typer(export, name="export")
