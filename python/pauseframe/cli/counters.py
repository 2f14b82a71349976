"""The command `counters`: what devices count, compared with what the simulated fabric shows.

Exit codes as those of `lint`: 0 without a fault, 1 with faults, 2 for input that cannot be read.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pauseframe.cli import _complete
from pauseframe.cli._common import AsJson, Open, in_shell, name_file, print_json, print_table, say, spare_inputs
from pauseframe.cli._errors import NOT_DONE, wrong_values
from pauseframe.cli._options import PlainTyper

if TYPE_CHECKING:
    from pauseframe.counters.expected import Expected
    from pauseframe.counters.judge import Verdict

commands = PlainTyper()


@commands.command(
    epilog="Examples: pauseframe counters tonight/ --run results/deployed --out counters.html | "
    "pauseframe counters results/deployed --as sonic"
)
def counters(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="Files with the output of devices, or folders of them; with --as a run."
        ),
    ],
    run: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Results of the simulated fabric.", autocompletion=_complete.runs),
    ] = None,
    configs: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Configuration of the devices, as for lint.")
    ] = None,
    before: Annotated[
        Path | None, typer.Option(metavar="PATH", help="An earlier collection, which is subtracted.")
    ] = None,
    flows: Annotated[
        int | None,
        typer.Option(min=1, help="Equal flows that each switch hashes, for uneven paths [default: those of the run]."),
    ] = None,
    form: Annotated[
        Literal["sonic", "ethtool"] | None,
        typer.Option("--as", help="Print the results of a run as switches (sonic) or hosts (ethtool) print theirs."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The page; with --as a folder with a file for each command.")
    ] = None,
    open_: Open = False,
    as_json: AsJson = False,
) -> None:
    """Compare what devices count with the simulated fabric.

    Reads show pfc counters, show queue counters and wredcounters, watermarks (SONiC), ethtool -S (mlx5), nstat and
    ss -toi; names pauses that nobody expects, pauses without marks, classes that should be empty, losses, uneven paths.
    """
    if form is not None:
        others = {"--run": run, "--configs": configs, "--before": before, "--flows": flows}
        if given := [name for name, value in others.items() if value is not None]:
            raise typer.BadParameter("--as prints a run and compares nothing: leave it out", param_hint=given[0])
        _print_run(files, form, out)
        return
    spare_inputs(out, "page")
    from pauseframe.counters.judge import judge
    from pauseframe.counters.model import since
    from pauseframe.counters.read import read_counters

    with wrong_values():
        counted = read_counters(files)
        if before is not None:
            counted = since(counted, read_counters([before]))
        expected = _expected(run, configs)
    verdict = judge(counted, expected, flows=flows)
    if as_json:
        _print_json(verdict, expected)
    else:
        _print(verdict, expected)
    if out is not None:
        from pauseframe.counters.page import page
        from pauseframe.files.atomic import write_text

        write_text(out, page(verdict, counted, expected, ", ".join(map(str, files))))
        if not as_json:
            name_file(out, as_json, open_)
    if not as_json:
        from pauseframe.counters.page import sentence

        if run is None and configs is None:
            say("note: name --run RUN or --configs PATH to find pauses and classes that nobody expects")
        print(sentence(verdict, counted, expected))
    if any(one.level == "fault" for one in verdict.remarks):
        raise typer.Exit(NOT_DONE)


def _expected(run: Path | None, configs: Path | None) -> Expected:
    from pauseframe.counters.expected import Expected
    from pauseframe.counters.of_run import read_run
    from pauseframe.devices.read import read_fabric

    fabric = read_fabric([configs]).fabric if configs is not None else None
    return Expected.of(read_run(run) if run is not None else None, fabric)


def _print(verdict: Verdict, expected: Expected) -> None:
    from pauseframe.counters.page import remark_rows, spread_rows
    from pauseframe.terminal.text import terminal_table

    if verdict.remarks:
        heads = ("", "device", "ports", "counter", {"header": "counted", "justify": "right"}, "in the run", "meaning")
        print_table(terminal_table(*heads, rows=remark_rows(verdict)))
    if verdict.spreads:
        links = ("switch", "links", "used", "busiest, of a fair part", "like flows", "flows", "in the run")
        print_table(terminal_table(*links, title="traffic over equal links", rows=spread_rows(verdict, expected)))
    for note in verdict.notes:
        say(f"note: {note}")


def _print_json(verdict: Verdict, expected: Expected) -> None:
    names = ("level", "kind", "device", "counter", "counted", "simulated", "text")
    print_json(
        {
            "expected_by": expected.source,
            "remarks": [
                {name: getattr(one, name) for name in names} | {"ports": [*one.ports]} for one in verdict.remarks
            ],
            "equal_links": [
                {"device": s.device, "what": s.what, "counts": s.counts, "used": s.used, "flows": s.flows}
                for s in verdict.spreads
            ],
            "notes": verdict.notes,
        }
    )


def _print_run(files: list[Path], form: Literal["sonic", "ethtool"], out: Path | None) -> None:
    from pauseframe.counters.of_run import read_run
    from pauseframe.counters.show import commands_of, file_name, transcript
    from pauseframe.files.atomic import write_text

    if len(files) > 1:
        raise typer.BadParameter("--as prints one run: name one results folder", param_hint="FILE")
    with wrong_values():
        run = read_run(files[0])
    if out is None:
        for line in transcript(run, form):
            print(line)
        return
    count = 0
    for name, command, lines in commands_of(run, form):
        write_text(out / name / file_name(command), "\n".join(lines) + "\n")
        count += 1
    print(f"{count} files in {out}; next: pauseframe counters {in_shell(out)} --run {in_shell(files[0])}")
