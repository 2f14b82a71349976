"""The command `pauseframe`. What a command needs is imported when it runs, so that `--help` is quick.

Exit codes, the same for every command (docs/reference/command-line.md): 0 done; 1 it could not be carried out, or what
was checked is not right; 2 what was asked for is wrong: a scenario, a name, a folder that is taken; 3 the run has a
deadlock; 130 interrupted, what was recorded is kept.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from pauseframe import (
    FabricError,
    InputError,
    RunError,
    ScenarioError,
    __version__,
    _interrupt,
    cli_fabrics,
    cli_operate,
    cli_view,
)
from pauseframe._text import none_of

if TYPE_CHECKING:
    from pauseframe import Resolved

app = typer.Typer(
    name="pauseframe",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A packet-level simulator of TCP over lossless (PFC) Ethernet.",
    epilog="Exit codes: 0 done, 1 not carried out or not right, 2 wrong input, 3 deadlock, 130 interrupted. "
    "Begin with: pauseframe demo",
)

ScenarioFile = Annotated[Path, typer.Argument(metavar="FILE", help="Scenario file (TOML).")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Change a key: --set switch.pfc.xoff='96 KB'. Repeatable."),
]
Seed = Annotated[int | None, typer.Option("--seed", help="Master seed, in place of the file's.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout and nothing else.")]
Force = Annotated[bool, typer.Option("--force", help="Replace results that exist.")]
ForceLarge = Annotated[bool, typer.Option("--force-large", help="Record series and packets of any size.")]


def _version(wanted: bool) -> None:
    if wanted:
        print(f"pauseframe {__version__}")
        raise typer.Exit


@app.callback()
def pauseframe(
    version: Annotated[  # noqa: ARG001 (its callback has it)
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that stand before the command."""
    _interrupt.allow()


DEADLOCK = 3
"""Exit code of a run with a deadlock: its results are whole, but what they say of times is how long it stood."""


@app.command(
    epilog="Exit code 3: the run has a deadlock. "
    "Example: pauseframe run incast.toml --set transport.preset=dctcp --seed 7 --out results/dctcp"
)
def run(
    file: ScenarioFile,
    set_: Set = None,
    seed: Seed = None,
    out: Annotated[Path | None, typer.Option("--out", help="Results folder [default: results/NAME-SEED].")] = None,
    force: Force = False,
    force_large: ForceLarge = False,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no table.")] = False,
) -> None:
    """Run a scenario and write its results folder."""
    import pauseframe as pf

    scenario = resolve_file(file, set_, seed)
    for warning in scenario.warnings:
        _say(f"warning: {warning}")
    folder = out or Path("results") / f"{scenario.name}-{scenario.seed}"
    result = pf.run(scenario, out=folder, force=force, force_large=force_large, progress=False if quiet else None)
    if as_json:
        print(json.dumps(result.summary))
    elif not quiet:
        from rich.console import Console

        from pauseframe._text import summary_table

        Console().print(summary_table(result.summary, f"{scenario.name}, seed {scenario.seed}"))
        print(f"\nresults in {folder}; next: pauseframe report {folder}")
    for warning in result.summary["warnings"]:
        if warning not in scenario.warnings:
            _say(f"warning: {warning}")
    if result.interrupted:
        _say(f"interrupted; what was recorded is kept in {folder}")
        raise typer.Exit(_interrupt.EXIT_CODE)
    if result.deadlocked:
        _say_deadlock(result.summary, folder)
        raise typer.Exit(DEADLOCK)


def _say_deadlock(summary: dict[str, Any], folder: Path) -> None:
    count, left = summary["deadlocks"], summary["flows_total"] - summary["flows_finished"]
    ended = "the run ended there" if summary["status"] == "deadlock" else "the run went on after it"
    _say(
        f"DEADLOCK: {count} {'circle' if count == 1 else 'circles'} of queues that wait for each other; {ended}, at "
        f"{summary['sim_time_s']:g} s of simulated time, with {left} flows unfinished. "
        f"Who waits for whom: {folder / 'deadlocks.parquet'}"
    )


@app.command(
    epilog="Examples: pauseframe show incast.toml --set transport.preset=dctcp | pauseframe show --preset tcp_bolt"
    " | pauseframe show --transport dctcp --stack linux"
)
def show(
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="Scenario file (TOML).")] = None,
    preset: Annotated[str | None, typer.Option("--preset", help="Show a transport preset instead.")] = None,
    transport: Annotated[
        str | None, typer.Option("--transport", help="Show a preset with the source of each value instead.")
    ] = None,
    stack: Annotated[str, typer.Option("--stack", help="The stack beneath --transport.")] = "none",
    set_: Set = None,
    seed: Seed = None,
    as_json: AsJson = False,
    as_toml: Annotated[bool, typer.Option("--toml", help="Print the complete scenario as a file.")] = False,
    headroom: Annotated[bool, typer.Option("--headroom", help="Show the headroom of each kind of link alone.")] = False,
) -> None:
    """Show a scenario with every default filled in, and where each value comes from."""
    if sum(what is not None for what in (file, preset, transport)) != 1:
        raise typer.BadParameter("give one of a scenario file, --preset and --transport")
    if transport is not None:
        _show_transport(transport, stack, as_json)
        return
    if preset is not None:
        _show_preset(preset, as_json)
        return
    assert file is not None  # by the check above
    scenario = resolve_file(file, set_, seed)
    if headroom:
        _show_headroom(scenario, as_json)
    elif as_json:
        rows = [{"path": path, "value": value, "origin": origin} for path, value, origin in scenario.explain()]
        print(json.dumps(rows))
    elif as_toml:
        print(scenario.toml, end="")
    else:
        from pauseframe._text import explain_table

        _print_wide(explain_table(scenario))
        _show_headroom(scenario, as_json=False)
        for warning in scenario.warnings:
            _say(f"warning: {warning}")


def _show_headroom(scenario: Resolved, as_json: bool) -> None:
    rows = scenario.headroom()
    if as_json:
        print(json.dumps(rows))
    elif rows:
        from pauseframe._text import headroom_table

        _print_wide(headroom_table(rows))


@app.command(epilog="Example: pauseframe validate scenarios/*.toml")
def validate(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Scenario files (TOML).")],
    force_large: ForceLarge = False,
) -> None:
    """Check scenario files and sweeps: every mistake in them, nothing run."""
    wrong = 0
    for file in files:
        try:
            kind, warnings, too_large = _check_file(file)
        except (ScenarioError, OSError) as error:
            wrong += 1
            _complain(error)
            continue
        if too_large and not force_large:
            wrong += 1
            _list_problems([too_large])
        else:
            print(f"{file}: ok{kind}" + "".join(f"\n  warning: {warning}" for warning in warnings))
    if wrong:
        raise typer.Exit(2)


def _check_file(file: Path) -> tuple[str, list[str], dict[str, str] | None]:
    """What a file is, for a sweep how many runs, its warnings, and what it would record too much of."""
    from pauseframe.scenario import read_scenario_file
    from pauseframe.sweep.plan import Source
    from pauseframe.sweep.spec import split_file

    text, _, name = read_scenario_file(file)
    if not split_file(text, name)[1]:
        scenario = resolve_file(file, None, None)
        return "", scenario.warnings, scenario.too_large
    plan = Source.read(file).plan()
    return f", a sweep of {len(plan.runs)} runs", plan.warnings, None


@app.command(epilog="Example: pauseframe report results/dctcp-7 results/tcp_bolt-7 --out compare.html --open")
def report(
    folders: Annotated[
        list[Path],
        typer.Argument(metavar="DIR...", help="Results folders or sweeps; the first is the one compared to."),
    ],
    out: Annotated[Path | None, typer.Option("--out", help="File [default: report.html in the first folder].")] = None,
    lines: Annotated[
        str | None,
        typer.Option("--lines", metavar="PATTERN", help="Time lines of ports or flows of such names ('leaf0:*')."),
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="Show it in a browser.")] = False,
) -> None:
    """Write one self-contained HTML report of one or several runs, or of sweeps."""
    from pauseframe.report import Group, build_report, from_folder

    target = out or folders[0] / "report.html"
    if any((folder / "sweep.json").is_file() for folder in folders):
        from pauseframe.report.sweep import build_sweep_report
        from pauseframe.sweep.compare import compare

        path = build_sweep_report(compare(folders), target)
    else:
        path = build_report([Group("", [from_folder(folder) for folder in folders])], target, lines=lines)
    print(path)
    if open_:
        typer.launch(path.resolve().as_uri())


@app.command(
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
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Run a scenario for all combinations of some values, each for several seeds."""
    from pauseframe.sweep.command import run_sweep

    result = run_sweep(
        file, set_ or [], seeds, shard, out=out, resume=resume, jobs=jobs, on=on, store=store, quiet=quiet
    )
    done, planned, failed = len(result.finished), len(result.planned), len(result.failures)
    if as_json:
        print(
            json.dumps({"out": str(result.folder), "planned": planned, "finished": done, "failures": result.failures})
        )
    elif not quiet:
        print(f"{done} of {planned} runs in {result.folder}; next: pauseframe report {result.folder}")
    if dead := result.deadlocked:
        _say(f"DEADLOCK: {len(dead)} of {done} runs have one, such as {result.folder / dead[0]}")
    if failed:
        _say(f"{failed} runs failed; each has an error.json, and --resume tries them again")
        raise typer.Exit(1)


@app.command(
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


@app.command(epilog="Example: pauseframe presets --json | jq .tcp_bolt")
def presets(as_json: AsJson = False) -> None:
    """List the transport presets side by side."""
    import pauseframe as pf

    rows = pf.presets()
    if as_json:
        print(json.dumps(rows))
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("key", style="dim", no_wrap=True)
    for name in rows:
        table.add_column(name)
    keys = dict.fromkeys(key for row in rows.values() for key in row)
    for key in keys:
        values = [row.get(key, "") for row in rows.values()]
        table.add_row(key, *values, style="bold" if len(set(values)) > 1 else None)
    _print_wide(table)


@app.command(epilog="Example: pauseframe options pfc")
def options(
    containing: Annotated[str, typer.Argument(help="Only keys whose path or text contains this.")] = "",
    as_json: AsJson = False,
) -> None:
    """List every key of a scenario file: type, default, meaning."""
    import pauseframe as pf

    wanted = containing.lower()
    rows = [row for row in pf.options() if wanted in row["path"].lower() or wanted in row["doc"].lower()]
    if not rows:
        _no_such_option(containing)
    if as_json:
        print(json.dumps(rows))
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("key", no_wrap=True)
    table.add_column("type", style="dim")
    table.add_column("default")
    table.add_column("meaning", overflow="fold", min_width=30)
    for row in rows:
        when = f" ({row['when']})" if row.get("when") else ""
        table.add_row(row["path"], row["type"], row["default"], row["doc"] + when)
    _print_wide(table)


def _no_such_option(wanted: str) -> NoReturn:
    import pauseframe as pf
    from pauseframe._text import nearest

    parts = dict.fromkeys(part for row in pf.options() for part in row["path"].split("."))
    meant = nearest(wanted, parts)
    hint = f"; did you mean {' or '.join(meant)}?" if meant else "; pauseframe options lists all"
    _say(f"error: no key has {wanted!r} in its path or meaning{hint}")
    raise typer.Exit(2)


@app.command(epilog="Example: pauseframe demo --quick --out results/quick")
def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for results and report.")] = Path("results/demo"),
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the time, for a first look.")] = False,
    force: Force = False,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Runs at a time.")] = 2,
    open_: Annotated[bool, typer.Option("--open", help="Show the report in a browser.")] = False,
) -> None:
    """Run TCP-Bolt against its rivals on two data-centre fabrics and write a report."""
    from pauseframe.demo import run_demo

    path = run_demo(out, quick=quick, force=force, jobs=jobs)
    print(f"\nreport: {path}")
    if open_:
        typer.launch(path.resolve().as_uri())


@app.command(epilog="Example: pauseframe reproduce bolt/fig12 --quick")
def reproduce(
    what: Annotated[
        list[str] | None, typer.Argument(metavar="WHAT...", help="Experiment (bolt/fig12), paper, claim, or all.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List the experiments and their claims.")] = False,
    full: Annotated[bool, typer.Option("--full/--quick", help="The papers' size (hours), or a reduced one.")] = False,
    out: Annotated[Path, typer.Option("--out", help="Folder for runs, verdicts and reports.")] = Path(
        "results/reproduce"
    ),
    seed: Annotated[int, typer.Option("--seed", help="The first of the seeds.")] = 1,
    jobs: Annotated[int | None, typer.Option("--jobs", min=1, help="Runs at a time [default: one a core].")] = None,
    pdf: Annotated[
        Path | None, typer.Option("--pdf", help="Write every plot as PDF and SVG, for a paper, into this folder.")
    ] = None,
    experiments: Annotated[
        Path | None, typer.Option("--experiments", help="Folder of experiments [default: that of the checkout].")
    ] = None,
    expect: Annotated[
        bool, typer.Option("--expect", help="Fail where a verdict is not the one in the experiments' verdicts.json.")
    ] = False,
    record: Annotated[
        bool, typer.Option("--record", help="Run the master seeds 1, 2 and 3 and write their verdicts there.")
    ] = False,
    as_json: AsJson = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no table.")] = False,
) -> None:
    """Run experiments of the four papers and judge what they claim."""
    from pauseframe.reproduce.command import list_experiments, record_verdicts, run_reproduce, unexpected

    if list_ or not what:
        list_experiments(experiments, as_json=as_json)
        return
    if full and (expect or record):
        raise typer.BadParameter("verdicts are known for --quick alone", param_hint="--full")
    size: Any = "full" if full else "quick"
    if record:
        record_verdicts(what, experiments, out, jobs=jobs, quiet=quiet)
    outcomes = run_reproduce(
        what, experiments, out, size=size, seed=seed, jobs=jobs, pdf=pdf, as_json=as_json, quiet=quiet
    )
    wrong = unexpected(outcomes, experiments) if expect else []
    for line in wrong:
        sys.stderr.write(line + "\n")
    if wrong or any(outcome.failures for outcome in outcomes):
        raise typer.Exit(1)


cli_fabrics.add_to(app)
cli_operate.add_to(app)
cli_view.add_to(app)


def resolve_file(file: Path, set_: list[str] | None, seed: int | None) -> Resolved:
    """The scenario of a file with the changes of a command line."""
    from pauseframe.scenario import read_scenario_file, resolve_text

    text, base_dir, name = read_scenario_file(file)
    pairs = [_split_override(item) for item in set_ or []]
    return resolve_text(text, base_dir=base_dir, file_name=name, overrides=pairs, seed=seed)


def _split_override(item: str) -> tuple[str, str]:
    path, equals, value = item.partition("=")
    if not equals or not path.strip():
        raise typer.BadParameter(f"{item!r} is not of the form PATH=VALUE", param_hint="--set")
    return path.strip(), value.strip()


def _show_preset(name: str, as_json: bool) -> None:
    import pauseframe as pf

    rows = pf.presets()
    if name not in rows:
        raise typer.BadParameter(none_of(name, rows), param_hint="--preset")
    if as_json:
        print(json.dumps(rows[name]))
        return
    from rich.table import Table

    table = Table(title=f"preset {name}", title_justify="left", show_header=False, box=None, pad_edge=False)
    for key, value in rows[name].items():
        table.add_row(key, value)
    _print_wide(table)


def _show_transport(name: str, stack: str, as_json: bool) -> None:
    from pauseframe import _core

    presets, stacks = _core.presets(), ["none", *_core.stacks()]
    if name not in presets:
        raise typer.BadParameter(none_of(name, presets), param_hint="--transport")
    if stack not in stacks:
        raise typer.BadParameter(none_of(stack, stacks), param_hint="--stack")
    rows = _core.explain_transport(name, stack)
    if as_json:
        print(json.dumps(rows))
        return
    from rich.table import Table

    table = Table(title=f"transport {name}, stack {stack}", title_justify="left", box=None, pad_edge=False)
    table.add_column("key", no_wrap=True)
    table.add_column("value", no_wrap=True)
    table.add_column("from", style="dim")
    table.add_column("source", overflow="fold", min_width=30)
    for row in rows:
        table.add_row(row["key"], row["value"], row["origin"], row["source"])
    _print_wide(table)


def _print_wide(table: Any) -> None:
    """Prints a table; into a pipe or file it is not cut to 80 columns."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=240)
    console.print(table)


def _say(text: str) -> None:
    print(text, file=sys.stderr)


def _complain(error: Exception) -> None:
    """Lists every mistake of a scenario on stderr: path, value, message, hint, line."""
    if not isinstance(error, ScenarioError):
        # What the system calls an error by number says nothing to people.
        text = re.sub(r" \(os error \d+\)", "", str(error))
        of_file = isinstance(error, OSError) and error.filename is not None and error.strerror
        _say(f"error: {error.filename}: {error.strerror}" if of_file else f"error: {text}")  # type: ignore[attr-defined]
        return
    problems = getattr(error, "problems", [])
    if not problems:
        _say(f"error: {error}")
    _list_problems(problems)


def _list_problems(problems: list[dict[str, str]]) -> None:
    for problem in problems:
        place = problem.get("place") or (f"line {problem['line']}" if problem.get("line") else "")
        value = f" = {problem['value']}" if problem["value"] else ""
        head = ": ".join(part for part in (place, problem["path"] + value) if part)
        hint = f"; {problem['hint']}" if problem["hint"] else ""
        _say(f"{head}: {problem['message']}{hint}")


def main() -> None:
    """The entry point: runs a command and turns errors and Ctrl-C into exit codes."""
    try:
        code = _exit_code()
        _interrupt.ignore()
        code = _interrupt.EXIT_CODE if _interrupt.arrived and code == 1 else code
    except BaseException as error:
        # A library that is being loaded may turn the interrupt into an error of its own.
        if not (_interrupt.arrived or isinstance(error, KeyboardInterrupt)):
            raise
        _interrupt.ignore()
        _say("interrupted")
        code = _interrupt.EXIT_CODE
    sys.exit(code)


def _exit_code() -> int:
    try:
        app()
    except SystemExit as end:  # how typer ends, Ctrl-C included
        return end.code if isinstance(end.code, int) else 0
    except (ScenarioError, FabricError, InputError, FileNotFoundError, IsADirectoryError) as error:
        _complain(error)
        return 2
    except (RunError, OSError) as error:
        _complain(error)
        return 1
    return 0
