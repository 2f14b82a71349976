"""The command `tune`: a search for the best values of some keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pauseframe.cli import _complete
from pauseframe.cli._common import (
    AllowPlugins,
    AsJson,
    Jobs,
    On,
    PluginFiles,
    Quiet,
    RunThreads,
    ScenarioFile,
    Set,
    changes_of,
    in_shell,
    load_plugins,
    out_option,
    print_json,
    print_table,
    say,
)
from pauseframe.cli._errors import NOT_DONE, wrong_values
from pauseframe.cli._options import PlainTyper

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pauseframe.sweep.plan import Source
    from pauseframe.tune.study import Study, Tuning

commands = PlainTyper()


@commands.command(
    epilog="Example: pauseframe tune incast.toml --parameter 'switch.marker.k=10 KB..400 KB:log' --minimize fct_us.p99 "
    "--constraint 'drops<=0'"
)
def tune(
    file: ScenarioFile,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter",
            "-p",
            metavar="PATH=FROM..TO[:log]|PATH=V1,V2",
            help="Tune a key: a range, also as {from=.., to=..}, or a list of values. Repeatable.",
            autocompletion=_complete.parameters,
        ),
    ] = None,
    minimize: Annotated[list[str] | None, typer.Option(metavar="METRIC", help="Smaller is better. Repeatable.")] = None,
    maximize: Annotated[list[str] | None, typer.Option(metavar="METRIC", help="Larger is better. Repeatable.")] = None,
    constraint: Annotated[
        list[str] | None, typer.Option(metavar="METRIC<=N", help="Or buffer=SIZE, cable=LENGTH. Repeatable.")
    ] = None,
    constraint_share: Annotated[
        float | None,
        typer.Option(min=0.5, max=0.99, help="Share of all seeds that must keep the constraints [default: 0.95]."),
    ] = None,
    set_: Set = None,
    trials: Annotated[int | None, typer.Option(min=1, help="How many settings to try [default: 60].")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Seeds of the search [default: 3].")] = None,
    held_out: Annotated[
        int | None, typer.Option(min=2, help="Further seeds, for the answer alone [default: 60].")
    ] = None,
    search_seed: Annotated[int | None, typer.Option(min=0, help="Seed of the search itself [default: 1].")] = None,
    beside_random: Annotated[
        bool,
        typer.Option(
            "--beside-random", help="Also run a random search with as many runs, and compare its best setting."
        ),
    ] = False,
    out: Annotated[Path | None, out_option("Folder of the search [default: results/NAME-tune].")] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on in the folder of the search; an error if it has another one.")
    ] = False,
    jobs: Jobs = None,
    on: On = None,
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Share the runs with N - 1 other processes on the same folder.")
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="Where finished runs are kept [default: .pauseframe-store beside the folder].")
    ] = None,
    threads: RunThreads = None,
    play: Annotated[
        bool, typer.Option("--play/--no-play", help="Record the runs that decided for pauseframe view.")
    ] = True,
    export: Annotated[
        tuple[str, Path] | None,
        typer.Option(metavar="sonic|linux DIR", help="Write files of switches and hosts that have the answer."),
    ] = None,
    inventory: Annotated[
        list[Path] | None, typer.Option(help="With --export: names and addresses of devices, as for pauseframe deploy.")
    ] = None,
    plugin: PluginFiles = None,
    allow_plugins: AllowPlugins = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Search for the best values of some keys, and show how certain the answer is.

    The file's [tune] table sets parameters, objectives and constraints; command-line options take precedence.
    The answer is a setting, or to keep the default (exit code 0); no setting that keeps the constraints, or nothing
    that could be measured (1).
    """
    from pauseframe.cli.sweeps import _shard
    from pauseframe.results.places import RESULTS
    from pauseframe.sweep.plan import Source
    from pauseframe.tune.export import TARGETS, export_answer
    from pauseframe.tune.study import carry_out, writes_answer

    own = _shard(shard)
    export = export if writes_answer(own) else None
    if export is not None and export[0] not in TARGETS:
        raise typer.BadParameter(f"{export[0]!r} is neither sonic nor linux", param_hint="--export")
    if export is not None and export[1].exists() and any(export[1].iterdir()):
        raise typer.BadParameter(f"{export[1]} is not empty: name another folder", param_hint="--export")
    given: dict[str, int | float | None] = {
        "trials": trials,
        "seeds": seeds,
        "held_out": held_out,
        "search_seed": search_seed,
    }
    given["constraint_share"] = constraint_share
    source = Source.read(file)
    load_plugins(plugin, allow_plugins, source.text, source.base_dir)
    source.set(changes_of(set_ or []))
    study = _study(source, parameter or [], minimize or [], maximize or [], constraint or [], given)
    place = RESULTS / f"{study.name}-tune" if resume and out is None else out
    result = carry_out(
        study, out=place, store=store, jobs=jobs, on=on, shard=own, threads=threads,
        beside_random=beside_random, play=play, progress=not quiet,
    )  # fmt: skip
    exported = None
    if export is not None and result.recommended is not None:
        with wrong_values():
            exported = export_answer(result, *export, inventory or ())
    if as_json:
        print_json(result.record | {"out": str(result.folder), "export": exported})
    else:
        _show(result, quiet)
        for note in (exported or {}).get("notes", []):
            say(f"note: {note}")
        if exported:
            print(f"exported to {exported['out']}; next: pauseframe lint {in_shell(exported['out'])}")
    if result.recommended is None:
        raise typer.Exit(NOT_DONE)


def _study(
    source: Source,
    parameters: list[str],
    minimize: list[str],
    maximize: list[str],
    constraints: list[str],
    given: Mapping[str, int | float | None],
) -> Study:
    """The search of a file, with the changes of the command line."""
    from pauseframe.terminal.problems import placed
    from pauseframe.tune.parameters import parse_parameter
    from pauseframe.tune.spec import add_constraints, add_objective, add_parameters, parse_constraint, spec_from_table
    from pauseframe.tune.study import prepare

    changed = {name: value for name, value in given.items() if value is not None}
    spec = spec_from_table(source.tune | changed)
    in_file = placed(spec.problems, source.original, source.file_name)
    given_here = [one["path"].removeprefix("tune.") in changed for one in in_file]
    spec.problems = [one if here else two for one, two, here in zip(spec.problems, in_file, given_here, strict=True)]
    named = set[str]()
    for text in parameters:
        path = text.partition("=")[0].strip()
        if "=" not in text:
            spec.complain("parameters", text, "is not of the form PATH=FROM..TO or PATH=V1,V2")
        elif path in named:
            spec.complain(
                f"parameters.{path}", text, "is tuned a second time", "give all its values in one --parameter"
            )
        else:
            named.add(path)
            add_parameters(spec, dict([parse_parameter(text)]))
    if minimize or maximize:
        spec.objectives = []
    for text in minimize:
        add_objective(spec, text, maximize=False)
    for text in maximize:
        add_objective(spec, text, maximize=True)
    for text in constraints:
        try:
            add_constraints(spec, parse_constraint(text))
        except ValueError as error:
            spec.complain("constraints", text, str(error))
    return prepare(source, spec)


def _show(result: Tuning, quiet: bool) -> None:
    from pauseframe.tune import text

    record: dict[str, Any] = result.record
    if record["recommended"] is None:
        say(text.verdict_text(record))
    elif not quiet:
        for table in text.tables(record):
            print_table(table)
            print()
        for line in text.lines(record):
            print(line)
    if not quiet:
        print(f"page: {result.folder / 'report.html'}")
