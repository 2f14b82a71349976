"""The commands `sweep` and `compare`: many runs, and what differs between them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pauseframe.cli._common import AsJson, Quiet, ScenarioFile, print_json, say

commands = typer.Typer()


@commands.command(
    epilog="Example: pauseframe sweep incast.toml --set transport.preset=dctcp,tcp_bolt --seeds 10 --out results/incast"
)
def sweep(
    file: ScenarioFile,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="PATH=V1,V2", help="Vary a key; with one value, change it for all. Repeatable."),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option("--seeds", metavar="N|LIST", help="How many seeds, or a list of them: 3,5,8.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Sweep's folder [default: results/NAME-sweep].")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Do what is missing in a folder that exists.")] = False,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Runs at a time [default: one a core].")] = None,
    on: Annotated[
        str | None, typer.Option("--on", metavar="ADDRESS", help="Dask scheduler, such as tcp://scheduler:8786.")
    ] = None,
    shard: Annotated[
        str | None, typer.Option("--shard", metavar="I/N", help="Every N-th run only, from number I (1 to N).")
    ] = None,
    store: Annotated[
        Path | None, typer.Option("--store", help="Runs to reuse [default: .pauseframe-store beside the folder].")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run a scenario for all combinations of some values, each for several seeds."""
    from pauseframe.sweep.command import run_sweep

    result = run_sweep(
        file, set_ or [], seeds, shard, out=out, resume=resume, jobs=jobs, on=on, store=store, quiet=quiet
    )
    done, planned, failed = len(result.finished), len(result.planned), len(result.failures)
    if as_json:
        print_json({"out": str(result.folder), "planned": planned, "finished": done, "failures": result.failures})
    elif not quiet:
        print(f"{done} of {planned} runs in {result.folder}; next: pauseframe report {result.folder}")
    if dead := result.deadlocked:
        say(f"DEADLOCK: {len(dead)} of {done} runs have one, such as {result.folder / dead[0]}")
    if failed:
        say(f"{failed} runs failed; each has an error.json, and --resume tries them again")
        raise typer.Exit(1)


@commands.command(
    epilog="Example: pauseframe compare results/incast --by transport.preset --metric fct_us.p99 --csv p99.csv"
)
def compare(
    folders: Annotated[
        list[Path], typer.Argument(metavar="DIR...", help="Sweeps or results; the first is the one compared to.")
    ],
    by: Annotated[
        str | None, typer.Option("--by", metavar="AXIS", help="Axis whose values are compared [default: the first].")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option("--metric", help="Entry of the summary, such as fct_us.p99. Repeatable."),
    ] = None,
    level: Annotated[float, typer.Option("--level", min=0.5, max=0.9999, help="Of confidence.")] = 0.95,
    csv: Annotated[Path | None, typer.Option("--csv", help="Write the numbers to this file.")] = None,
    latex: Annotated[Path | None, typer.Option("--latex", help="Write tables to this file (booktabs).")] = None,
    report: Annotated[Path | None, typer.Option("--report", help="Write an HTML report to this file.")] = None,
) -> None:
    """Compare sweeps or runs: medians with confidence intervals, differences seed by seed."""
    from pauseframe.sweep.command import show_comparison

    show_comparison(folders, by, metric, level, csv=csv, latex=latex, report=report)
