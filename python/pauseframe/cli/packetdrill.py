"""The command `packetdrill`: public scripts of Linux's TCP as tests of ours."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pauseframe.cli._common import AsJson, Quiet, print_json, print_table
from pauseframe.cli._errors import NOT_DONE
from pauseframe.cli._options import PlainTyper

if TYPE_CHECKING:
    from pauseframe.packetdrill import Result

commands = PlainTyper()


@commands.command(epilog="Example: pauseframe packetdrill ~/packetdrill/gtests/net/tcp")
def packetdrill(
    paths: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders with scripts (.pkt), or scripts.")],
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run packetdrill scripts against TCP with stack = "linux".

    A script that needs what the model leaves out, such as epoll or Fast Open, is not applicable. Commands in scripts
    are not executed: sysctls in them become settings. Exit code 1 if a script fails.
    """
    from pauseframe.packetdrill import find, run

    results = [run(file) for file in find(paths)]
    counts = Counter(result.verdict for result in results)
    if as_json:
        print_json({"counts": dict(counts), "scripts": [_record(result) for result in results]})
    else:
        if not quiet:
            _show(results)
        print(", ".join(f"{counts[verdict]} {verdict}" for verdict in ("pass", "fail", "not applicable")))
    if counts["fail"]:
        raise typer.Exit(NOT_DONE)


def _record(result: Result) -> dict[str, object]:
    return {"file": str(result.file), "verdict": result.verdict, "line": result.line, "reason": result.reason or None}


def _show(results: list[Result]) -> None:
    from pauseframe.terminal.text import terminal_table

    parts = [result.file.parent for result in results]
    base = os.path.commonpath([part.absolute() for part in parts])
    rows = [
        (
            os.path.relpath(result.file, base),
            result.verdict,
            "" if result.line is None else f"line {result.line}: {result.reason}",
        )
        for result in results
    ]
    first = {"header": "script", "no_wrap": True}
    second = {"header": "result", "no_wrap": True}
    print_table(terminal_table(first, second, "reason", rows=rows))
