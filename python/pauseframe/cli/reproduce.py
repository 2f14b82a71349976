"""The command `reproduce`: runs and judges the papers' experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from pauseframe.cli import _complete
from pauseframe.cli._common import AsJson, Jobs, Quiet, out_option, say
from pauseframe.cli._options import PlainTyper

commands = PlainTyper()
MAX_SEED = 2**64 - 1


@commands.command(epilog="Example: pauseframe reproduce bolt/fig12 --quick")
def reproduce(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WHAT...",
            help="Experiment (bolt/fig12), paper, claim, or all.",
            autocompletion=_complete.experiments,
        ),
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the experiments and their claims.")] = False,
    full: Annotated[bool, typer.Option("--full/--quick", help="The papers' size (hours), or a reduced one.")] = False,
    out: Annotated[
        Path | None,
        out_option(
            "Folder for runs, verdicts and reports [default: results/reproduce; with a kernel or --set one for it]."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, max=MAX_SEED, help="The first seed.")] = 1,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, help="Number of seeds; below 5 verdicts are provisional [default: the experiment's, at least 5]."
        ),
    ] = None,
    jobs: Jobs = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PATH=VALUE",
            help="Change a key in all runs, to see what it decides. A table that a variant turns off stays as it is. "
            "Repeatable.",
            autocompletion=_complete.settings,
        ),
    ] = None,
    stack: Annotated[
        Literal["simulated", "kernel"],
        typer.Option(help="Who moves the data of all hosts: our own TCP, or a Linux kernel."),
    ] = "simulated",
    kernel: Annotated[
        str | None,
        typer.Option(help="Version of that kernel, or its folder [default: 6.12, else the last built]."),
    ] = None,
    pdf: Annotated[
        Path | None, typer.Option(help="Folder to write every plot to, as PDF and SVG, for a paper.")
    ] = None,
    experiments: Annotated[
        Path | None, typer.Option(help="Folder of experiments [default: those of the package].")
    ] = None,
    expect: Annotated[
        bool, typer.Option("--expect", help="Fail if a verdict differs from the one in the experiments' verdicts.json.")
    ] = False,
    record: Annotated[bool, typer.Option("--record", help="Write the verdicts to that file.")] = False,
    search: Annotated[
        bool,
        typer.Option("--search", help="Search the keys that a paper leaves open, and judge the best set (an hour)."),
    ] = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run experiments of seven papers and judge their claims."""
    from pauseframe.cli._common import changes_of
    from pauseframe.kernel import find
    from pauseframe.reproduce.command import (
        beside_simulated,
        failures_of,
        list_experiments,
        record_verdicts,
        run_reproduce,
        run_search,
        unexpected,
    )

    if list_ or not what:
        list_experiments(experiments, as_json=as_json)
        return
    size: Literal["quick", "full"] = "full" if full else "quick"
    if record and (seeds is not None or seed != 1):
        raise typer.BadParameter("verdicts are recorded of the experiments' own seeds", param_hint="--record")
    _comparable(set_=bool(set_), recorded=record or expect, on_kernel=stack == "kernel", kernel=kernel)
    if search:
        options = {"--full": full, "--set": set_, "--expect": expect, "--pdf": pdf, "--seeds": seeds}
        _search_alone(options | {"--seed": seed != 1, "--stack": stack == "kernel", "--kernel": kernel})
        where = out or Path("results") / "reproduce"
        run_search(what, experiments, where, jobs=jobs, record=record, as_json=as_json, quiet=quiet)
        return
    folder = find(kernel) if stack == "kernel" else None
    outcomes = run_reproduce(
        what,
        experiments,
        out or _folder_of(folder, set_ or []),
        size=size,
        seed=seed,
        seeds=seeds,
        jobs=jobs,
        changes=changes_of(set_ or []),
        kernel=folder,
        pdf=pdf,
        as_json=as_json,
        quiet=quiet,
    )
    if record and not failures_of(outcomes):
        record_verdicts(outcomes, experiments)
    wrong = failures_of(outcomes) + (unexpected(outcomes, experiments) if expect else [])
    for line in (beside_simulated(outcomes, experiments) if folder else []) + wrong:
        say(line)
    if wrong:
        raise typer.Exit(1)


def _folder_of(kernel: Path | None, settings: list[str]) -> Path:
    """The folder of a command that names none: other hosts and settings do not replace the papers' verdicts."""
    from pauseframe.results.places import RESULTS, label

    parts = ["reproduce", *([kernel.name] if kernel else []), *([label(settings)] if settings else [])]
    return RESULTS / "-".join(parts)


def _search_alone(options: dict[str, object]) -> None:
    """Refuses options whose values a search fixes."""
    if given := [name for name, value in options.items() if value]:
        message = f"it has its own seeds, sizes and settings: leave out {', '.join(given)}"
        raise typer.BadParameter(message, param_hint="--search")


def _comparable(*, set_: bool, recorded: bool, on_kernel: bool, kernel: str | None) -> None:
    """Refuses what has no recorded verdicts to compare with, or to replace."""
    if set_ and recorded:
        raise typer.BadParameter("what is known is of the experiments' own settings", param_hint="--set")
    if on_kernel and recorded:
        raise typer.BadParameter("what is known is of simulated hosts", param_hint="--stack")
    if kernel is not None and not on_kernel:
        raise typer.BadParameter("it needs --stack kernel", param_hint="--kernel")
