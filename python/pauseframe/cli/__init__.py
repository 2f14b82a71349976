"""The command `pauseframe`: a file per group of commands, what they share in `_common.py`.

What a command needs is imported when it runs, so that `--help` is quick. Exit codes: `_errors.py`.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from pauseframe import _interrupt
from pauseframe._core import __version__
from pauseframe.cli._common import say
from pauseframe.cli._errors import ERRORS, complain, exit_code_of
from pauseframe.cli._options import PlainGroup

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

GROUPS = {
    "simulate": ("run", "flow", "demo"),
    "scenarios": ("show", "validate", "presets", "options", "schema"),
    "look": ("report", "view", "export"),
    "sweeps": ("sweep", "compare"),
    "reproduce": ("reproduce",),
    "topo": ("topo",),
    "route": ("route",),
    "devices": ("lint", "headroom", "deploy"),
}
"""The commands of each file. A command line that names one loads that file only: all of them take longer than a small
run."""


def _version(wanted: bool) -> None:
    if wanted:
        print(f"pauseframe {__version__}")
        raise typer.Exit


def pauseframe(
    version: Annotated[  # noqa: ARG001 (its callback has it)
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that stand before the command."""
    _interrupt.allow()


def _app_of(groups: Iterable[str]) -> typer.Typer:
    """The command with these groups of commands."""
    app = typer.Typer(
        name="pauseframe",
        cls=PlainGroup,
        no_args_is_help=True,
        add_completion=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="A packet-level simulator of TCP over lossless (PFC) Ethernet.",
        epilog="Exit codes: 0 done, 1 failed or found something wrong, 2 wrong input, 3 deadlock, 130 interrupted. "
        "Start with: pauseframe demo",
    )
    app.callback()(pauseframe)
    for name in groups:
        app.add_typer(import_module(f"pauseframe.cli.{name}").commands)
    return app


def _groups_for(arguments: Sequence[str]) -> list[str]:
    """The groups that a command line needs: that of its command; all where it names none, such as for help."""
    first = next((argument for argument in arguments if not argument.startswith("-")), "")
    return [name for name, commands in GROUPS.items() if first in commands] or list(GROUPS)


def __getattr__(name: str) -> typer.Typer:
    """`app`: the command with all its groups."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _app_of(GROUPS)


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
        _app_of(_groups_for(sys.argv[1:]))()
    except SystemExit as end:  # how typer ends, Ctrl-C included
        return end.code if isinstance(end.code, int) else 0
    except ERRORS as error:
        complain(error)
        return exit_code_of(error)
    return 0
