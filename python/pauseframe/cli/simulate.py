"""The commands `run`, `flow` and `demo`: simulation with packets, simulation at flow level, and a first example."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pauseframe.cli._common import (
    AllowPlugins,
    AsJson,
    Force,
    ForceLarge,
    Jobs,
    Open,
    PluginFiles,
    Quiet,
    ScenarioFile,
    Seed,
    Set,
    Threads,
    Verbose,
    in_shell,
    out_option,
    print_json,
    print_table,
    print_wrapped,
    resolve_file,
    say,
    show_page,
)
from pauseframe.cli._errors import DEADLOCK
from pauseframe.cli._options import PlainTyper
from pauseframe.terminal import interrupt

if TYPE_CHECKING:
    from pauseframe import Run
    from pauseframe._core import Resolved, Routes

commands = PlainTyper()

PAGES = ("report.html", "view.html", "trace.perfetto-trace", "csv/*.csv", "arrow/*.arrow")
"""Patterns of what `report`, `view` and `export` write into a results folder, and `run --force` removes."""


BOUND = 0.1
"""The highest remember.bound."""
GAP = 0.05
"""The relative gap of a bound over all routings."""

Choice = Literal["random", "best_of_two", "least_loaded"]
"""Rules that choose a flow's VLAN."""


@commands.command(
    epilog="Exit code 3: the run has a deadlock. "
    "Example: pauseframe run incast.toml --set transport.preset=dctcp --seed 7 --out results/dctcp"
)
def run(
    file: ScenarioFile,
    set_: Set = None,
    seed: Seed = None,
    out: Annotated[
        Path | None, out_option("Results folder [default: results/NAME-SEED, with the settings of --set].")
    ] = None,
    force: Force = False,
    force_large: ForceLarge = False,
    threads: Threads = None,
    remember: Annotated[
        str | None,
        typer.Option(
            metavar="BOUND|check|off",
            help="Replay repeated steps of applications that agreed within a bound, such as 0.1%; check: simulate all "
            "and compare with what a replay would have given. The same as --set remember.steps=... [default: off].",
        ),
    ] = None,
    plugin: PluginFiles = None,
    allow_plugins: AllowPlugins = False,
    kernel: Annotated[
        str | None,
        typer.Option(help="Version of the hosts' Linux kernel, or its folder [default: 6.12, else the last built]."),
    ] = None,
    exec_: Annotated[
        list[str] | None,
        typer.Option("--exec", metavar="HOST=COMMAND", help="Run a command on a host with a kernel. Repeatable."),
    ] = None,
    as_json: AsJson = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Run a scenario and write its results folder.

    Prints what happened in the network.
    """
    import pauseframe as pf
    from pauseframe.results.places import is_whole, place
    from pauseframe.run import kernel_for, key_of

    interrupt.take_termination_alike()
    set_ = [*(set_ or ()), *_remembering(remember)]
    scenario = resolve_file(file, set_, seed, plugin, allow_plugins)
    for warning in scenario.warnings:
        say(f"warning: {warning}")
    programs = [_program(text) for text in exec_ or ()]
    key = key_of(scenario, kernel_for(scenario, kernel), programs)
    folder = out or place(f"{scenario.name}-{scenario.seed}", _named(set_), key, force=force)
    is_there = not force and is_whole(folder, key)
    pages = [name.partition("/")[0] for name in PAGES if any(folder.glob(name))]
    result = pf.run(
        scenario,
        out=folder,
        force=force,
        force_large=force_large,
        threads=threads,
        kernel=kernel,
        programs=programs,
        progress=False if quiet else None,
    )
    if pages and not is_there:
        say(f"note: the new run removed {', '.join(pages)} with the results of the old run")
    if as_json:
        print_json(result.summary)
    elif not quiet:
        _show(result, scenario, verbose)
        if exec_:
            print(f"\noutput of the programs: {folder / 'kernel'}")
        # A user who recorded states probably wants to view them; the report only counts them.
        next_step = "view" if (folder / "states.parquet").is_file() else "report"
        if next_step == "report" and not (folder / "flows.parquet").is_file():
            next_step = "export csv"
        there = " (they were there already)" if is_there else ""
        print(f"\nresults in {folder}{there}; next: pauseframe {next_step} {in_shell(folder)}")
    for warning in result.summary["warnings"]:
        if warning not in scenario.warnings:
            say(f"warning: {warning}")
    _end(result, folder)


def _show(result: Run, scenario: Resolved, verbose: bool) -> None:
    """Prints what happened in the network and, with `verbose`, how the simulator did."""
    from pauseframe.terminal.text import format_duration, simulator_rows, summary_rows, two_columns

    summary = result.summary
    # Only runs with applications count the flows' completion times, because connections of applications have none.
    completed = result.flows.to_polars()["fct_us"].count() if len(result.jobs) and len(result.flows) else None
    title = f"{summary['name']}, seed {summary['seed']}, {format_duration(summary['sim_time_s'])} simulated"
    print(two_columns(summary_rows(summary, completed), title))
    if len(result.jobs):
        _show_jobs(result)
    if summary.get("flows_long"):
        _show_long_flows(result)
    if '\nkind = "storage"\n' in scenario.toml:
        _show_operations(result)
    if verbose:
        print()
        print(two_columns(simulator_rows(summary), "simulator"))
        print(f"threads: {summary['threads']} ({summary['threads_reason']})")


def _show_jobs(result: Run) -> None:
    from pauseframe.report.data import from_run
    from pauseframe.steps import explain, tables
    from pauseframe.terminal.text import ACTIVITIES, OF_JOB, jobs_table, terminal_table

    print()
    print_table(jobs_table(result))
    print_wrapped(f"{', '.join(ACTIVITIES)}: {OF_JOB}")
    data = from_run(result)
    for table in tables(data):
        first, *others = table.columns
        print()
        print_table(
            terminal_table(
                first, *({"header": name, "justify": "right"} for name in others), title=table.title, rows=table.rows
            )
        )
    for one in explain(data):
        path, *causes = one.lines()
        print()
        print_wrapped(path, *(f"  {cause}" for cause in causes))


def _show_long_flows(result: Run) -> None:
    from pauseframe.results.long_flows import COLUMNS, NOTE, cells, long_flows
    from pauseframe.terminal.text import terminal_table

    found = long_flows(result.flows.to_polars().lazy(), result.summary["sim_time_s"] * 1e6).to_dicts()
    rows = [(row["transport"], *cells(row)) for row in found]
    columns = [{"header": name, "justify": "right"} for name in COLUMNS]
    print()
    print_table(terminal_table("transport", *columns, title="long flows", rows=rows))
    print_wrapped(NOTE)


def _show_operations(result: Run) -> None:
    from pauseframe.results.operations import COLUMNS, cells, operations
    from pauseframe.terminal.text import terminal_table

    found = operations(result.flows.to_polars().lazy()).to_dicts()
    rows = [(f"{row['workload']}, {row['operation']}", *cells(row)) for row in found]
    columns = [{"header": name, "justify": "right"} for name in COLUMNS]
    print()
    print_table(terminal_table("operation", *columns, title="operations on storage", rows=rows))


def _named(settings: list[str] | None) -> list[str]:
    """The settings that name a results folder: none if they have a name themselves, and no seed, which it has."""
    keys = {item: item.partition("=")[0].strip() for item in settings or ()}
    return [] if "name" in keys.values() else [item for item, key in keys.items() if key != "seed"]


def _remembering(text: str | None) -> list[str]:
    """The settings of `--remember`."""
    if text is None:
        return []
    if text in {"off", "check"}:
        return [f"remember.steps={text}"]
    try:
        if not text.endswith("%") or not 0 <= (bound := float(text.removesuffix("%")) / 100) <= BOUND:
            raise ValueError
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is neither off, check nor a bound such as 0.1%, at most {100 * BOUND:g} %",
            param_hint="--remember",
        ) from None
    return ["remember.steps=bound", f"remember.bound={bound!r}"]


def _program(text: str) -> tuple[str, str]:
    """The host and the command of `--exec HOST=COMMAND`."""
    host, equals, command = text.partition("=")
    if not (host and equals and command.strip()):
        raise typer.BadParameter(f'{text!r} is not HOST=COMMAND, such as "host3=iperf3 -s"', param_hint="--exec")
    return host, command


def _end(result: Run, folder: Path) -> None:
    """Exits with the exit code of an interrupted run or of a run with a deadlock."""
    if result.interrupted:
        say(f"interrupted; what was recorded is kept in {folder}")
        raise typer.Exit(interrupt.EXIT_CODE)
    if not result.deadlocked:
        return
    from pauseframe.terminal.text import counted, format_duration, unfinished_flows

    summary = result.summary
    count, left = summary["deadlocks"], unfinished_flows(summary)
    ended = "the run ended there" if summary["status"] == "deadlock" else "the run went on after it"
    say(
        f"DEADLOCK: {counted(count, 'cycle of queues')} that wait for each other; {ended}, at "
        f"{format_duration(summary['sim_time_s'])} of simulated time, with {counted(left, 'flow')} unfinished. "
        f"Who waits for whom: {folder / 'deadlocks.parquet'}"
    )
    raise typer.Exit(DEADLOCK)


@commands.command(
    epilog="Examples: pauseframe flow fabric.toml | pauseframe flow fabric.toml --demand permutation --bound"
)
def flow(
    file: ScenarioFile,
    set_: Set = None,
    seed: Seed = None,
    demand: Annotated[
        str | None,
        typer.Option(
            help="In place of the workloads: permutation, rack_permutation, all_to_all, n_to_1:N or skewed:S."
        ),
    ] = None,
    bound: Annotated[
        bool,
        typer.Option("--bound", help="With --demand: the most that any routing could give (maximum concurrent flow)."),
    ] = False,
    gap: Annotated[
        float | None, typer.Option(min=0.001, help="With --bound: how far it may be off, as a share [default: 0.05].")
    ] = None,
    tables: Annotated[Path | None, typer.Option(help="Forwarding tables in place of the scenario's routing.")] = None,
    choice: Annotated[Choice, typer.Option(help="With --tables: how a flow's VLAN is chosen.")] = "random",
    slack: Annotated[
        int, typer.Option(min=0, help="With --tables: how many links longer than the shortest a route may be.")
    ] = 0,
    out: Annotated[Path | None, out_option("Results folder [default: results/NAME-SEED-flow].")] = None,
    force: Force = False,
    plugin: PluginFiles = None,
    allow_plugins: AllowPlugins = False,
    as_json: AsJson = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Simulate a scenario at flow level, without packets.

    Active flows share the links max-min fairly.
    """
    import pauseframe as pf
    from pauseframe.files.kinds import FLOW_LEVEL
    from pauseframe.flow import run_flows, summary_text
    from pauseframe.results import given_keys
    from pauseframe.results.places import is_whole, keep_inputs, may_replace, place, summary_of
    from pauseframe.results.run_key import run_key

    if bound and demand is None:
        raise typer.BadParameter("a bound needs a static demand: add --demand", param_hint="--bound")
    if gap is not None and not bound:
        raise typer.BadParameter("the gap is that of a bound: add --bound", param_hint="--gap")
    interrupt.take_termination_alike()
    of_bound = (gap or GAP) if bound else None
    scenario = resolve_file(file, set_, seed, plugin, allow_plugins)
    routes: Routes | None = None
    if tables is not None:
        routes = pf.read_routes(str(tables), pf.Topology.of_scenario(scenario).with_single_ports())
    given = {"demand": demand, "bound": of_bound, "tables": tables, "choice": choice, "slack": slack}
    text = routes.write("csv") if routes is not None else ""
    key = run_key(scenario.toml, scenario.seed, FLOW_LEVEL, text, *map(str, given.values()))
    named = [f"{name}={value}" for name, value in given.items() if value not in (None, "random", 0)]
    folder = out or place(f"{scenario.name}-{scenario.seed}-flow", [*_named(set_), *named], key, force=force)
    if not force and is_whole(folder, key):
        say(f"{folder} has the results of these inputs already; --force runs again")
        summary, interrupted = summary_of(folder), False
    else:
        run = run_flows(
            scenario, routes=routes, choice=choice, slack=slack, demand=demand, bound=of_bound,
            out=folder, force=force or may_replace(folder, key), progress=False if quiet or as_json else None,
        )  # fmt: skip
        keep_inputs(folder, key, given_keys(scenario), run.summary)
        summary, interrupted = run.summary, run.interrupted
    if as_json:
        print_json(summary)
    elif not quiet:
        print(summary_text(summary, verbose))
        print(f"\nresults in {folder}; next: pauseframe export csv {in_shell(folder)}")
    # JSON has them.
    for warning in () if as_json else summary["warnings"]:
        say(f"warning: {warning}")
    if interrupted:
        raise typer.Exit(interrupt.EXIT_CODE)


@commands.command(epilog="Example: pauseframe demo --quick --out results/quick")
def demo(
    out: Annotated[Path, out_option("Folder for results and report.")] = Path("results/demo"),
    quick: Annotated[
        bool, typer.Option("--quick", help="A few seconds: shorter runs of one seed, too short for most claims.")
    ] = False,
    force: Force = False,
    jobs: Jobs = None,
    open_: Open = False,
    as_json: AsJson = False,
) -> None:
    """Compare TCP-Bolt with four other transports on two fabrics and write a report.

    Takes about a minute on two cores. The report opens with the answer and judges the paper's claims. After Ctrl-C the
    same command continues with the unfinished runs.
    """
    from pauseframe.demo import run_demo
    from pauseframe.demo.terminal import print_demo

    result = run_demo(out, quick=quick, force=force, jobs=jobs)
    if as_json:
        answer = {"sentence": result.answer.sentence, "rows": result.answer.as_records()}
        print_json({"out": str(result.report), "answer": answer, "claims": result.records()})
    else:
        print_demo(result)
    if open_:
        show_page(result.report)
