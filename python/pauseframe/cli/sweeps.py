"""The commands `sweep` and `compare`: many runs, and the differences between them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pauseframe.cli import _complete
from pauseframe.cli._common import (
    AllowPlugins,
    AsJson,
    Jobs,
    Last,
    On,
    PluginFiles,
    Quiet,
    RunThreads,
    ScenarioFile,
    in_shell,
    load_plugins,
    named_or_last,
    out_option,
    print_json,
    print_table,
    say,
    spare_inputs,
)
from pauseframe.cli._errors import NOT_DONE
from pauseframe.cli._options import PlainTyper

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pauseframe.sweep.compare import Comparison
    from pauseframe.sweep.plan import Plan, Source

commands = PlainTyper()

RANGE = re.compile(r"(\d+(?:\.\d+)?)(?:\.\.\.?|:|-)(\d+(?:\.\d+)?)")
"""How others write a range of numbers: 4..8, 0.1:0.9, 4-8."""


@commands.command(
    epilog="Example: pauseframe sweep incast.toml --set transport.preset=dctcp,tcp_bolt --seeds 10 --out results/incast"
)
def sweep(
    file: ScenarioFile,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="PATH=V1,V2",
            help="Vary a key; a single value changes it in all runs. Repeatable.",
            autocompletion=_complete.settings,
        ),
    ] = None,
    seeds: Annotated[
        str | None, typer.Option(metavar="N|LIST", help="How many seeds, or a list of them: 3,5,8.")
    ] = None,
    out: Annotated[Path | None, out_option("Folder of the sweep [default: results/NAME-sweep].")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on in the folder of the sweep; an error if it has another sweep.")
    ] = False,
    jobs: Jobs = None,
    on: On = None,
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Do every N-th run only, from the I-th on (1 to N).")
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            help="Where finished runs are kept, to be used again [default: .pauseframe-store beside the folder]."
        ),
    ] = None,
    keep_runs: Annotated[
        bool, typer.Option("--keep-runs", help="Make each run a results folder, as `pauseframe run` does.")
    ] = False,
    threads: RunThreads = None,
    plugin: PluginFiles = None,
    allow_plugins: AllowPlugins = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run a scenario for every combination of values and seeds."""
    from pauseframe.results.places import RESULTS
    from pauseframe.sweep.run import carry_out

    part = _shard(shard)
    plan = _plan(file, set_ or [], seeds, (plugin, allow_plugins))
    for warning in plan.warnings:
        say(f"warning: {warning}")
    if len(plan.runs) == 1:
        say(
            "warning: nothing is varied, so this sweep has one run: vary a key with --set PATH=V1,V2 or in [sweep], "
            "or the seed with --seeds N (pauseframe run does a single run)"
        )
    place = RESULTS / f"{plan.name}-sweep" if resume and out is None else out
    result = carry_out(
        plan, out=place, store=store, jobs=jobs, on=on, shard=part, keep_runs=keep_runs,
        threads=threads, progress=not quiet,
    )  # fmt: skip
    done, planned, failed = len(result.finished), len(result.planned), len(result.failures)
    if as_json:
        print_json({"out": str(result.folder), "planned": planned, "finished": done, "failures": result.failures})
    elif not quiet:
        print(f"{done} of {planned} runs in {result.folder}; next: pauseframe report {in_shell(result.folder)}")
    if dead := result.deadlocked:
        say(f"DEADLOCK: {len(dead)} of {done} runs have one, such as {result.folder / dead[0]}")
    if failed:
        say(f"runs that failed: {failed}; each has an error.json, and the same command tries again")
        raise typer.Exit(NOT_DONE)


@commands.command(
    epilog="Example: pauseframe compare results/incast --by transport.preset --metric fct_us.p99 --csv p99.csv"
)
def compare(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="DIR...",
            help="Folders of sweeps or runs; the others are compared to the first "
            "[default: the last sweep, or the last two runs].",
            autocompletion=_complete.results,
        ),
    ] = None,
    last: Last = None,
    by: Annotated[
        str | None, typer.Option(metavar="AXIS", help="Axis whose values are compared [default: the first].")
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="Metric, named as in the summary: fct_us.p99. Repeatable.")
    ] = None,
    level: Annotated[float, typer.Option(min=0.5, max=0.9999, help="Confidence level.")] = 0.95,
    csv: Annotated[Path | None, typer.Option(help="Write the numbers to this file.")] = None,
    latex: Annotated[Path | None, typer.Option(help="Write tables to this file (booktabs).")] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML report to this file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs or sweeps: medians, intervals, differences.

    Differences are computed seed by seed, which removes the variation that the variants share.
    """
    from pauseframe.files.atomic import write_text
    from pauseframe.sweep import tables
    from pauseframe.sweep.compare import compare as compare_folders

    for path, *written in ((csv,), (latex,), (report, "page")):
        spare_inputs(path, *written)
    folders = named_or_last(folders, last) if folders else _last_compared(last)
    comparison = compare_folders(folders, by=by, metrics=metric or None, level=level)
    if comparison.runs == 1 and not as_json:
        say(f"warning: {folders[0]} is a single run: name a second folder to compare it with")
    for text in comparison.missing:
        say(f"warning: {text}; tables and files show only those")
    if csv is not None:
        write_text(csv, tables.csv_text(comparison))
    if latex is not None:
        write_text(latex, tables.latex_text(comparison))
    if report is not None:
        from pauseframe.report.sweep import build_sweep_report

        build_sweep_report(comparison, report)
    _show(comparison, as_json)


def _last_compared(count: int | None) -> list[Path]:
    """The last results to compare: the last sweep alone, or a run with the one before it."""
    from pauseframe.results.places import SWEEP, last

    is_sweep = count is None and (last(1)[0] / SWEEP).is_file()
    return named_or_last(None, count, default=1 if is_sweep else 2)


def _show(comparison: Comparison, as_json: bool) -> None:
    from pauseframe.sweep import tables
    from pauseframe.sweep.compare import long_table

    if as_json:
        notes = {"note": tables.note(comparison), "caution": tables.caution(comparison)}
        effective = {key: dict(zip(comparison.variants, values, strict=True)) for key, values in comparison.effective}
        document = {"by": comparison.by, **notes, "missing": comparison.missing, "effective": effective}
        print_json(document | {"cells": long_table(comparison)})
        return
    for table in tables.terminal_tables(comparison):
        print_table(table)
        print()
    print(tables.note(comparison))
    if caution := tables.caution(comparison):
        print(caution)
    if lines := tables.effective(comparison):
        print("Settings of the network differ too:", *lines, sep="\n  ")


def _plan(
    file: Path, settings: Sequence[str], seeds: str | None, plugins: tuple[list[Path] | None, bool] = (None, False)
) -> Plan:
    """Plans all runs of a sweep; ScenarioError lists the mistakes of the sweep and of every run."""
    from pauseframe.sweep.plan import Source

    source = Source.read(file)
    load_plugins(*plugins, source.text, source.base_dir)
    for item in settings:
        _vary(source, item)
    source.vary(None, seeds=None if seeds is None else _seeds(seeds))
    return source.plan()


def _vary(source: Source, item: str) -> None:
    """`--set PATH=V1,V2` makes an axis, `--set PATH=VALUE` changes a key for all runs."""
    from pauseframe.sweep.spec import axis_values, is_range
    from pauseframe.terminal.problems import failure, problem

    path, equals, text = (part.strip() for part in item.partition("="))
    values = axis_values(text)
    if not equals or not path or not values:
        raise failure([problem("--set", item, "is not of the form PATH=VALUE or PATH=V1,V2")])
    if f"sweep.{path}" in source.varied:
        raise failure([problem("--set", item, f"varies {path} a second time", "give all its values in one --set")])
    if is_range(values) or len(values) > 1:
        return source.vary({path: values})
    (value,) = values
    if isinstance(value, str) and (ends := RANGE.fullmatch(value)) is not None:
        low, high = ends.groups()
        raise failure(
            [problem("--set", item, "is no range", f"write {path}='{{ from = {low}, to = {high}, steps = 5 }}'")]
        )
    if path in source.spec.axes:
        return source.vary({path: values})
    return source.set({path: value})


def _seeds(text: str) -> int | list[int]:
    from pauseframe.terminal.problems import failure, problem

    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    fits = len(set(numbers)) == len(numbers) and min(numbers, default=-1) >= 0 and numbers != [0]
    if not fits:
        raise failure([problem("--seeds", text, "must be the number of seeds, or a list of different ones: 3,5,8")])
    return numbers if "," in text else numbers[0]


def _shard(text: str | None) -> tuple[int, int] | None:
    from pauseframe.terminal.problems import failure, problem

    if text is None:
        return None
    index, _, count = text.partition("/")
    if not (index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
        raise failure([problem("--shard", text, "must be I/N, with I from 1 to N")])
    return int(index), int(count)
