"""The command `pauseframe`: one file for each group of commands, and shared code in `_common.py`.

Each command imports its modules when it runs, so that `--help` is fast. Exit codes: `_errors.py`.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pauseframe._core import InputError, __version__, limit
from pauseframe.cli import _complete
from pauseframe.cli._common import say
from pauseframe.cli._errors import ERRORS, complain, exit_code_of
from pauseframe.cli._options import PlainGroup
from pauseframe.files.reading import VARIABLE
from pauseframe.terminal import interrupt, standard

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

GROUPS = {
    "simulate": ("run", "flow", "demo"),
    "examples": ("example",),
    "scenarios": ("show", "validate", "presets", "options", "schema"),
    "plugins": ("cc",),
    "packetdrill": ("packetdrill",),
    "kernels": ("kernel",),
    "look": ("report", "view", "export"),
    "sweeps": ("sweep", "compare"),
    "busbw": ("busbw",),
    "tuning": ("tune",),
    "reproduce": ("reproduce",),
    "topo": ("topo",),
    "imports": ("import",),
    "route": ("route",),
    "devices": ("lint", "headroom", "deploy"),
    "counters": ("counters",),
}
"""The commands of each file.

A command line that names one command loads only that file, because loading all files takes longer than a small run.
"""

MEANT = {
    "check": "validate",
    "examples": "example",
    "help": "pauseframe --help",
    "list": "presets, options or reproduce --list",
    "ls": "presets, options or reproduce --list",
    "play": "view",
    "plot": "report",
    "simulate": "run",
    "start": "demo",
    "version": "pauseframe --version",
} | dict.fromkeys(("init", "new", "create"), "example, or pauseframe run on a scenario file that you write")
"""The commands that a word stands for that is not a command here."""

# Newer versions of Typer bundle their own Click, so this code does not name Click's types.
UsageError: Any = typer.BadParameter.__base__


class Commands(PlainGroup):
    """The group of all commands; suggests the right command if a file or folder comes first."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Resolves a command as Click does, and adds a hint for a word that is not a command."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            ctx.fail(f"{args[0]!r} is not a command{_command_for(args[0], self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Runs a command; explains a superfluous word on the command line."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            error.message = error.message.removeprefix("Value error, ")
            if similar := getattr(error, "possibilities", None):
                from difflib import get_close_matches

                error.possibilities = get_close_matches(str(getattr(error, "option_name", "")), similar, cutoff=0.65)
            if error.message.startswith("Got unexpected extra argument"):
                error.message += _meant_by_extra(sys.argv[1:], error.message)
            elif error.message.startswith("No such option"):
                error.message += _meant_by_option(sys.argv[1:], str(getattr(error, "option_name", "")))
            raise


def _meant_by_extra(given: list[str], message: str) -> str:
    if any(word == "--set" and "=" not in following for word, following in pairwise(given)):
        return "; write --set PATH=VALUE, with = and no space"
    if "(s)" in message and any(word.endswith(".toml") for word in given):
        command = given[0] if given else "run"
        return f"; a command takes the file, and changes as options: pauseframe {command} FILE.toml --set KEY=VALUE"
    return ""


def _meant_by_option(given: list[str], option: str) -> str:
    """Which commands have an option that this one lacks."""
    from typer.main import get_command

    known: Any = get_command(_app_of(GROUPS))
    having = [name for name, command in known.commands.items() if any(option in one.opts for one in command.params)]
    after = [name for name in having if name in given]
    if after:
        return f"; write it after the command: pauseframe {after[0]} {option}"
    return f"; {', '.join(having)} {'has' if len(having) == 1 else 'have'} it" if 0 < len(having) < 4 else ""


def _command_for(word: str, known: list[str]) -> str:
    from pathlib import Path

    from pauseframe.terminal.text import nearest

    path = Path(word)
    if path.suffix == ".toml":
        return f"; did you mean pauseframe run {word}?"
    if (path / "manifest.json").is_file():
        return f"; did you mean pauseframe report {word}?"
    if instead := MEANT.get(word.lower()):
        return f"; did you mean {instead}?"
    meant = nearest(word, known, 1)
    return f"; did you mean {meant[0]}?" if meant else "; pauseframe --help lists the commands"


def _version(wanted: bool) -> None:
    if wanted:
        print(f"pauseframe {__version__}")
        raise typer.Exit


def _limits(given: list[str] | None) -> None:
    if given:
        os.environ[VARIABLE] = ",".join([*filter(None, [os.environ.get(VARIABLE)]), *given])
    limit("bytes")  # an InputError if any limit is wrong


def pauseframe(
    version: Annotated[  # noqa: ARG001 (its callback has it)
        bool, typer.Option("--version", "-V", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    limits: Annotated[
        list[str] | None,
        typer.Option(
            "--limit",
            metavar="NAME=NUMBER",
            help="Raise a limit of readers: bytes, rows, steps or table. Repeatable; before the command.",
        ),
    ] = None,
) -> None:
    """Options that come before the subcommand, such as --version."""
    interrupt.allow()
    _limits(limits)


def _app_of(groups: Iterable[str]) -> typer.Typer:
    """Makes the Typer application of the given groups of commands."""
    app = typer.Typer(
        name="pauseframe",
        cls=Commands,
        no_args_is_help=True,
        add_completion=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        help="Simulates TCP and RoCEv2 over lossless and lossy Ethernet packet by packet, plans deadlock-free routes, "
        "tunes settings, and checks the configuration of switches and hosts.",
        epilog="Exit codes: 0 done, 1 failed or found something wrong, 2 wrong input, 3 deadlock, 130 interrupted. "
        "Start with: pauseframe demo, or pauseframe example",
    )
    app.callback()(pauseframe)
    for name in groups:
        app.add_typer(import_module(f"pauseframe.cli.{name}").commands)
    return app


def _groups_for(arguments: Sequence[str]) -> list[str]:
    """The groups that a command line needs: the group of its command, or all groups (such as for help)."""
    first = next((argument for argument in arguments if not argument.startswith("-")), "")
    return [name for name, commands in GROUPS.items() if first in commands] or list(GROUPS)


def __getattr__(name: str) -> typer.Typer:
    """`app`: the Typer application with all groups."""
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _app_of(GROUPS)


def main() -> None:
    """The entry point: runs a command and turns errors and Ctrl-C into exit codes."""
    standard.reopen_closed()
    try:
        code = _complete.complete_in_bash(_exit_code) if "COMP_WORDS" in os.environ else _exit_code()
        interrupt.ignore()
        code = interrupt.EXIT_CODE if interrupt.arrived and code == 1 else code
    except BaseException as error:
        # A library that is being loaded may turn the interrupt into another error.
        if not (interrupt.arrived or isinstance(error, KeyboardInterrupt)):
            raise
        interrupt.ignore()
        say("interrupted")
        code = interrupt.EXIT_CODE
    sys.exit(code)


def _refuse_other_encodings(words: Sequence[str]) -> None:
    """Raises InputError for a word that is not UTF-8: the core has no other text."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            shown = word.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
            raise InputError(f"{shown}: this word of the command line is not UTF-8; rename the file") from None


def _exit_code() -> int:
    try:
        _refuse_other_encodings(sys.argv[1:])
        _app_of(_groups_for(sys.argv[1:] or _complete.words()))()
    except SystemExit as end:  # Typer always ends with SystemExit, also after Ctrl-C
        return end.code if isinstance(end.code, int) else 0
    except ERRORS as error:
        complain(error)
        return exit_code_of(error)
    return 0
