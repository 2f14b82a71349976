"""The commands `show`, `validate`, `presets`, `options`, `schema`: they inspect scenarios and keys without a run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from pauseframe._core import InputError, ScenarioError
from pauseframe.cli import _complete
from pauseframe.cli._common import (
    AllowPlugins,
    AsJson,
    Force,
    ForceLarge,
    PluginFiles,
    ScenarioFile,
    Seed,
    Set,
    load_plugins,
    name_file,
    out_option,
    print_json,
    print_table,
    print_wrapped,
    read_only_once,
    refuse_existing,
    resolve_file,
    say,
)
from pauseframe.cli._errors import WRONG_INPUT, complain, list_problems
from pauseframe.cli._options import PlainTyper
from pauseframe.terminal.text import none_of

if TYPE_CHECKING:
    from pauseframe.cli._evidence import Evidence
    from pauseframe.types import Problem

commands = PlainTyper()


@commands.command(
    epilog="Examples: pauseframe show incast.toml --set transport.preset=dctcp | pauseframe show incast.toml --toml"
)
def show(
    file: ScenarioFile,
    set_: Set = None,
    seed: Seed = None,
    as_json: AsJson = False,
    as_toml: Annotated[bool, typer.Option("--toml", help="Print the complete scenario as a TOML file.")] = False,
    plugin: PluginFiles = None,
    allow_plugins: AllowPlugins = False,
) -> None:
    """Show every value of a scenario, and its origin."""
    scenario = resolve_file(file, set_, seed, plugin, allow_plugins)
    if as_json:
        print_json([{"path": path, "value": value, "origin": origin} for path, value, origin in scenario.explain()])
    elif as_toml:
        print(scenario.toml, end="")
    else:
        from pauseframe.terminal.text import explain_table

        print_table(explain_table(scenario))
        for warning in scenario.warnings:
            say(f"warning: {warning}")


@commands.command(epilog="Example: pauseframe validate scenarios/*.toml")
def validate(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Scenario files (TOML); - for standard input.")
    ],
    force_large: ForceLarge = False,
    plugin: PluginFiles = None,
    allow_plugins: AllowPlugins = False,
    as_json: AsJson = False,
) -> None:
    """Check scenario files, sweeps and searches without running them.

    Lists every mistake with its place and the nearest key.
    """
    load_plugins(plugin)
    checked = [_check(file, force_large, allow_plugins) for file in read_only_once(files)]
    if as_json:
        print_json([one.record() for one in checked])
    else:
        for one in checked:
            one.show()
    if not all(one.ok for one in checked):
        raise typer.Exit(WRONG_INPUT)


@dataclass(frozen=True)
class _Checked:
    """The result of `validate` for one file."""

    file: Path
    runs: int = 1
    """Number of runs, if the file is a sweep."""
    warnings: Sequence[str] = ()
    error: Exception | None = None
    problems: Sequence[Problem] = ()

    @property
    def ok(self) -> bool:
        return self.error is None and not self.problems

    def show(self) -> None:
        if self.error is not None:
            complain(self.error)
        elif self.problems:
            list_problems(self.problems)
        else:
            kind = f", a sweep of {self.runs} runs" if self.runs > 1 else ""
            print(f"{self.file}: ok{kind}" + "".join(f"\n  warning: {warning}" for warning in self.warnings))

    def record(self) -> dict[str, object]:
        """The record of this file for --json."""
        problems = self.problems or getattr(self.error, "problems", [])
        if self.error is not None and not problems:
            problems = [{"path": "", "value": "", "message": str(self.error), "hint": ""}]
        return {
            "file": str(self.file),
            "ok": self.ok,
            "runs": self.runs if self.ok else 0,
            "warnings": list(self.warnings),
            "problems": list(problems),
        }


def _check(file: Path, force_large: bool, allow_plugins: bool) -> _Checked:
    from pauseframe.sweep.plan import Source

    try:
        source = Source.read(file)
        load_plugins([], allow_plugins, source.text, source.base_dir)
        if source.is_sweep:
            plan = source.plan()
            return _Checked(file, len(plan.runs), plan.warnings)
        if source.tune:
            from pauseframe.terminal.problems import placed
            from pauseframe.tune.spec import spec_from_table
            from pauseframe.tune.study import prepare

            spec = spec_from_table(source.tune)
            spec.problems = placed(spec.problems, source.original, source.file_name)
            prepare(source, spec)
        scenario = source.resolve()
    except (ScenarioError, InputError, OSError) as error:
        return _Checked(file, error=error)
    too_large = [] if force_large or not scenario.too_large else [scenario.too_large]
    return _Checked(file, 1, scenario.warnings, problems=too_large)


@commands.command(
    epilog="Examples: pauseframe presets | pauseframe presets tcp_bolt | pauseframe presets dctcp --stack none --json"
)
def presets(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="Show this preset alone, with the source of each value.",
            autocompletion=_complete.presets,
        ),
    ] = None,
    stack: Annotated[
        str | None, typer.Option(help="With NAME: the stack beneath it [default: the preset's own].")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List transport presets, or the values of one preset with their sources.

    The list has the stack of each preset, and how many of its figures agree with those of a real Linux kernel.
    """
    import pauseframe as pf

    known, stacks = pf.presets(), list(pf._core.stacks())
    if stack is not None and stack not in stacks:
        raise typer.BadParameter(none_of(stack, stacks), param_hint="--stack")
    if name is None:
        if stack is not None:
            raise typer.BadParameter("say beneath which preset: pauseframe presets NAME", param_hint="--stack")
        _show_presets(known, as_json)
    elif name not in known:
        raise typer.BadParameter(none_of(name, known), param_hint="NAME")
    else:
        _show_sources(name, stack or _own_stack(known[name]), as_json)


def _own_stack(row: dict[str, str]) -> str:
    # Queue pairs and datagrams have none.
    return row.get("stack", "none").strip('"')


def _show_presets(rows: dict[str, dict[str, str]], as_json: bool) -> None:
    from pauseframe._core import preset_docs
    from pauseframe.cli._evidence import calibrated, evidence_for

    docs = preset_docs()
    stacks = {name: _own_stack(row) for name, row in rows.items()}
    vouching = {name: evidence_for(name, stacks[name]) for name in rows}
    if as_json:
        calibration = {name: found and found.record() for name, found in vouching.items()}
        print_json(
            {
                name: {"doc": docs[name], "stack": stacks[name], "calibration": calibration[name], "values": row}
                for name, row in rows.items()
            }
        )
        return
    from textwrap import fill

    from pauseframe.terminal.text import plain_console, terminal_table

    columns = [{"header": head, "no_wrap": True} for head in ("preset", "stack", "as a real kernel")]
    lines = [(name, stacks[name], _figures(vouching[name]), docs[name]) for name in rows]
    console = plain_console()
    width = min(console.width, PRESETS_WIDTH) if console.is_terminal else PRESETS_WIDTH
    plain_console(width=width).print(terminal_table(*columns, {"header": "what it is", "overflow": "fold"}, rows=lines))
    print()
    note = (
        f"as a real kernel: inside the bands around {calibrated()}. Rows share figures: presets of equal values all of "
        "them, cubic and dctcp those of scenarios in which both compete"
    )
    print(fill(note, width))
    print_wrapped("next: pauseframe presets NAME, for all values of a preset with their sources")


PRESETS_WIDTH = 100
"""Maximum width of the table of presets, in terminal columns."""


def _figures(evidence: Evidence | None) -> str:
    """How many figures of a calibration agree with the kernel's."""
    return "–" if evidence is None else "{} of {}".format(*evidence.counts)


def _show_sources(name: str, stack: str, as_json: bool) -> None:
    from pauseframe import _core
    from pauseframe.cli._evidence import evidence_for

    rows = _core.explain_transport(name, stack)
    if as_json:
        print_json(rows)
        return
    print_wrapped(f"preset {name}: {_core.preset_docs()[name]}", f"stack {stack}: {_core.stacks()[stack]}")
    print()
    for row in rows:
        print_wrapped(f"{row['key']}  {row['value']}  ({row['origin']})", f"    {row['source']}")
    print()
    if found := evidence_for(name, stack):
        rows_of = ", ".join(f"{n} ({i} of {f})" for n, (i, f) in found.scenarios.items())
        print_wrapped(f"inside the bands of {found}: {rows_of}")
    else:
        print("no figure beside a real kernel vouches for it")


SEARCHED = ("path", "doc", "source", "when")
"""What `options WORD` searches of a key."""
CLOSE_PATH = 0.85
"""Similarity (difflib) from which on a key is what was meant."""


@commands.command(epilog="Example: pauseframe options pfc, or pauseframe options 'kind = training'")
def options(
    containing: Annotated[
        str, typer.Argument(metavar="WORD", help="Only keys whose path, text or condition contains this.")
    ] = "",
    plugin: PluginFiles = None,
    as_json: AsJson = False,
) -> None:
    """List every key of a scenario file with type, default and description.

    Shows the document that defines a key, if one exists.
    """
    import pauseframe as pf

    load_plugins(plugin)
    wanted = containing.lower()
    rows = [row for row in pf.options() if any(wanted in row[part].lower() for part in SEARCHED)]
    if not rows:
        _no_such_option(containing)
    if as_json:
        print_json(rows)
        return
    for row in rows:
        head = f"{row['path']}  {row['type']}; {row['default']}" if row["default"] else f"{row['path']}  {row['type']}"
        notes = "".join(f" ({text})" for text in (row["source"], row["when"]) if text)
        print_wrapped(head, f"    {row['doc']}{notes}")


@commands.command(
    epilog="Example: pauseframe schema -o scenario.schema.json; then the first line of a scenario, for editors: "
    "#:schema ./scenario.schema.json"
)
def schema(
    out: Annotated[Path | None, out_option("File [default: stdout].")] = None,
    force: Force = False,
    plugin: PluginFiles = None,
    as_json: AsJson = False,
) -> None:
    """Print the JSON Schema of scenario files.

    With the schema, editors complete keys, show their descriptions and mark mistakes; `pauseframe validate` finds more
    mistakes.
    """
    from pauseframe import _core

    load_plugins(plugin)
    text = _core.schema()
    if out is None:
        print(text)
        return
    refuse_existing(out, force)
    from pauseframe.files.atomic import write_text

    name_file(write_text(out, text + "\n", replace=force), as_json)


def _no_such_option(wanted: str) -> NoReturn:
    from difflib import get_close_matches

    import pauseframe as pf
    from pauseframe.terminal.text import nearest

    rows = pf.options()
    texts = [" ".join(row[part] for part in SEARCHED).lower() for row in rows]
    words = [word for word in re.split(r"[\W_]+", wanted.lower()) if len(word) > 2]
    found = [word for word in words if word != wanted.lower() and any(word in text for text in texts)]
    # Short words look like too many others.
    meant = (
        []
        if found or len(wanted) < 5
        else nearest(wanted, dict.fromkeys(part for row in rows for part in row["path"].split(".")))
    )
    hint = "; pauseframe options lists all"
    if paths := get_close_matches(wanted, [row["path"] for row in rows], 1, CLOSE_PATH):
        hint = f"; did you mean {paths[0]}?"
    elif found:
        hint = f"; pauseframe options {found[0]} lists keys about {found[0]}"
    elif meant:
        hint = f"; did you mean {' or '.join(meant)}?"
    raise InputError(f"no key has {wanted!r} in its path, meaning or condition{hint}")
