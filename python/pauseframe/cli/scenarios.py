"""The commands `show`, `validate`, `presets` and `options`: scenarios before they run, and what can stand in them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NoReturn

import typer

from pauseframe import InputError, ScenarioError
from pauseframe._text import none_of
from pauseframe.cli._common import (
    AsJson,
    ForceLarge,
    ScenarioFile,
    Seed,
    Set,
    print_json,
    print_table,
    resolve_file,
    say,
)
from pauseframe.cli._errors import WRONG_INPUT, complain, list_problems

commands = typer.Typer()


@commands.command(
    epilog="Examples: pauseframe show incast.toml --set transport.preset=dctcp | pauseframe show incast.toml --toml"
)
def show(
    file: ScenarioFile,
    set_: Set = None,
    seed: Seed = None,
    as_json: AsJson = False,
    as_toml: Annotated[bool, typer.Option("--toml", help="Print the complete scenario as a file.")] = False,
) -> None:
    """Show a scenario with every default filled in, and where each value comes from."""
    scenario = resolve_file(file, set_, seed)
    if as_json:
        print_json([{"path": path, "value": value, "origin": origin} for path, value, origin in scenario.explain()])
    elif as_toml:
        print(scenario.toml, end="")
    else:
        from pauseframe._text import explain_table

        print_table(explain_table(scenario))
        for warning in scenario.warnings:
            say(f"warning: {warning}")


@commands.command(epilog="Example: pauseframe validate scenarios/*.toml")
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
            complain(error)
            continue
        if too_large and not force_large:
            wrong += 1
            list_problems([too_large])
        else:
            print(f"{file}: ok{kind}" + "".join(f"\n  warning: {warning}" for warning in warnings))
    if wrong:
        raise typer.Exit(WRONG_INPUT)


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


@commands.command(
    epilog="Examples: pauseframe presets | pauseframe presets tcp_bolt | pauseframe presets dctcp --stack linux --json"
)
def presets(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Only this one, with the source of each value.")
    ] = None,
    stack: Annotated[str, typer.Option("--stack", help="With NAME: the stack beneath it, such as linux.")] = "none",
    as_json: AsJson = False,
) -> None:
    """List the transport presets side by side, or one of them with the source of each value."""
    import pauseframe as pf

    known, stacks = pf.presets(), ["none", *pf._core.stacks()]
    if stack not in stacks:
        raise typer.BadParameter(none_of(stack, stacks), param_hint="--stack")
    if name is None:
        if stack != "none":
            raise typer.BadParameter("say beneath which preset: pauseframe presets NAME", param_hint="--stack")
        _show_presets(known, as_json)
    elif name not in known:
        raise typer.BadParameter(none_of(name, known), param_hint="NAME")
    else:
        _show_sources(name, stack, as_json)


def _show_presets(rows: dict[str, dict[str, str]], as_json: bool) -> None:
    if as_json:
        print_json(rows)
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("key", style="dim", no_wrap=True)
    for name in rows:
        table.add_column(name)
    for key in dict.fromkeys(key for row in rows.values() for key in row):
        values = [row.get(key, "") for row in rows.values()]
        table.add_row(key, *values, style="bold" if len(set(values)) > 1 else None)
    print_table(table)


def _show_sources(name: str, stack: str, as_json: bool) -> None:
    from pauseframe import _core

    rows = _core.explain_transport(name, stack)
    if as_json:
        print_json(rows)
        return
    from rich.table import Table

    table = Table(title=f"preset {name}, stack {stack}", title_justify="left", box=None, pad_edge=False)
    table.add_column("key", no_wrap=True)
    table.add_column("value", no_wrap=True)
    table.add_column("from", style="dim")
    table.add_column("source", overflow="fold", min_width=30)
    for row in rows:
        table.add_row(row["key"], row["value"], row["origin"], row["source"])
    print_table(table)


@commands.command(epilog="Example: pauseframe options pfc")
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
        print_json(rows)
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
    print_table(table)


def _no_such_option(wanted: str) -> NoReturn:
    import pauseframe as pf
    from pauseframe._text import nearest

    parts = dict.fromkeys(part for row in pf.options() for part in row["path"].split("."))
    meant = nearest(wanted, parts)
    hint = f"; did you mean {' or '.join(meant)}?" if meant else "; pauseframe options lists all"
    raise InputError(f"no key has {wanted!r} in its path or meaning{hint}")
