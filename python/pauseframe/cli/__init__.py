"""The command `pauseframe`: a file per group of commands, what they share in `_common.py`.

What a command needs is imported when it runs, so that `--help` is quick. Exit codes: `_errors.py`.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from pauseframe import _interrupt
from pauseframe._core import __version__
from pauseframe.cli import devices, look, reproduce, route, scenarios, simulate, sweeps, topo
from pauseframe.cli._common import say
from pauseframe.cli._errors import ERRORS, complain, exit_code_of

# Newer versions of Typer bring a Click of their own, so its types are not named here.
UsageError: Any = typer.BadParameter.__base__


class Commands(TyperGroup):
    """The commands. Whoever names a file or a folder first learns which command it is for."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """As Click does, with a hint for what is no command."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            ctx.fail(f"{args[0]!r} is not a command{_command_for(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Runs a command; says what a word too many was meant for."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            if error.message.startswith("Got unexpected extra argument"):
                error.message += _meant_by_extra(sys.argv[1:], error.message)
            raise


def _meant_by_extra(given: list[str], message: str) -> str:
    if any(word == "--set" and "=" not in following for word, following in pairwise(given)):
        return "; write --set PATH=VALUE, with = and no space"
    if "(s)" in message and any(word.endswith(".toml") for word in given):
        command = given[0] if given else "run"
        return f"; a command takes the file, and changes as options: pauseframe {command} FILE.toml --set KEY=VALUE"
    return ""


def _command_for(word: str, known: list[str]) -> str:
    from pathlib import Path

    from pauseframe._text import nearest

    path = Path(word)
    if path.suffix == ".toml":
        return f"; did you mean pauseframe run {word}?"
    if (path / "manifest.json").is_file():
        return f"; did you mean pauseframe report {word}?"
    if (instead := {"simulate": "run", "plot": "report", "check": "validate", "play": "view"}.get(word)) is not None:
        return f"; did you mean {instead}?"
    meant = nearest(word, known, 1)
    return f"; did you mean {meant[0]}?" if meant else "; pauseframe --help lists the commands"


app = typer.Typer(
    cls=Commands,
    name="pauseframe",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="A packet-level simulator of TCP over lossless (PFC) Ethernet.",
    epilog="Exit codes: 0 done, 1 failed or found something wrong, 2 wrong input, 3 deadlock, 130 interrupted. "
    "Start with: pauseframe demo",
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"pauseframe {__version__}")
        raise typer.Exit


@app.callback()
def pauseframe(
    version: Annotated[  # noqa: ARG001 (its callback has it)
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that stand before the command."""
    _interrupt.allow()


for group in (simulate, scenarios, look, sweeps, reproduce, topo, route, devices):
    app.add_typer(group.commands)


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
        say("interrupted")
        code = _interrupt.EXIT_CODE
    sys.exit(code)


def _exit_code() -> int:
    try:
        app()
    except SystemExit as end:  # how typer ends, Ctrl-C included
        return end.code if isinstance(end.code, int) else 0
    except ERRORS as error:
        complain(error)
        return exit_code_of(error)
    return 0
