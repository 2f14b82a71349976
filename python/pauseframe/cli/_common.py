"""Code that the commands share: common options, scenario input and output to the terminal."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pauseframe._core import InputError
from pauseframe.cli import _complete
from pauseframe.terminal.standard import write_note

if TYPE_CHECKING:
    from rich.table import Table

    from pauseframe._core import Resolved
    from pauseframe.scenario.plain import Settings


def _whole_seed(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or int(text) >= 2**64:
        raise typer.BadParameter(f"{text!r} must be a whole number from 0 to 2^64 - 1")
    return int(text)


def _thread_count(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"{text!r} must be a whole number from 1 on, or auto")
    return int(text)


def in_shell(word: object) -> str:
    """A path or other word as a shell reads it, for commands that a message proposes."""
    return shlex.quote(str(word))


ScenarioFile = Annotated[Path, typer.Argument(metavar="FILE", help="Scenario file (TOML); - for standard input.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Change a key: --set switch.pfc.xoff='96 KB'. Repeatable.",
        autocompletion=_complete.settings,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option("--seed", parser=_whole_seed, metavar="N", help="Seed of the run, in place of the file's."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout and nothing else.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite existing results.")]
ForceLarge = Annotated[bool, typer.Option("--force-large", help="Allow series, captures and open flows of any size.")]
Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        metavar="N|auto",
        parser=_thread_count,
        help="Number of threads, at most one for each switch with hosts; auto: one for each idle core, or fewer if "
        "more would not help [default: auto].",
    ),
]
PluginFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--plugin",
        metavar="FILE",
        help="Load congestion controls from a Python file or a shared library. This runs its code. Repeatable.",
    ),
]
AllowPlugins = Annotated[
    bool, typer.Option("--allow-plugins", help="Load the plug-ins that the scenario names. This runs their code.")
]
Last = Annotated[
    int | None, typer.Option("--last", min=1, metavar="N", help="Take the last N results in place of named folders.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no table.")]
Verbose = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Also print time, speed and memory of the simulator, and the fingerprint."),
]
Jobs = Annotated[int | None, typer.Option("--jobs", min=1, help="Runs at a time [default: one per core].")]
On = Annotated[
    str | None,
    typer.Option(
        "--on", metavar="ADDRESS", help="Run on the workers of a Dask scheduler, such as tcp://scheduler:8786."
    ),
]
RunThreads = Annotated[int | None, typer.Option("--threads", min=1, help="Number of threads of each run [default: 1].")]
Open = Annotated[bool, typer.Option("--open", help="Open the page in a browser.")]


def out_option(help: str) -> Any:
    """The option --out, for the file or the folder that a command writes."""
    return typer.Option("--out", "-o", help=help)


def say(text: str) -> None:
    """Prints a line to stderr. Escapes control characters, because the text may quote a file."""
    from pauseframe.terminal.text import printable

    write_note(printable(text))


def print_json(value: Any) -> None:
    """Prints a JSON value to stdout."""
    print(json.dumps(value))


def print_table(table: Table) -> None:
    """Prints a table, as several if its numbers would break. A pipe or a file has more than 80 columns."""
    from pauseframe.terminal.text import print_table as print_in_width

    print_in_width(table)


def print_wrapped(*paragraphs: str) -> None:
    """Prints paragraphs that fit the terminal, or as one line each into a pipe or a file; keeps their indentation."""
    from shutil import get_terminal_size
    from textwrap import fill

    for text in paragraphs:
        margin = " " * (len(text) - len(text.lstrip()) or 4)
        is_wide = not sys.stdout.isatty()
        print(text if is_wide else fill(text, get_terminal_size().columns - 1, subsequent_indent=margin))


def print_pairs(rows: list[tuple[str, str]], title: str) -> None:
    """Prints names and values in two columns."""
    from pauseframe.terminal.text import terminal_table

    columns: list[dict[str, Any]] = [{"style": "dim", "no_wrap": True}, {"overflow": "fold"}]
    print_table(terminal_table(*columns, title=title or None, show_header=False, rows=rows))


def print_known(known: dict[str, str], as_json: bool, note: str = "") -> None:
    """Prints the available names and their descriptions."""
    if as_json:
        print_json(dict(sorted(known.items())))
        return
    print_pairs(sorted(known.items()), "")
    if note:
        print(note)


def name_file(path: Path, as_json: bool, open_: bool = False) -> None:
    """Prints the path of a written file; with `open_`, opens the file in a browser."""
    if as_json:
        print_json({"out": str(path)})
    else:
        print(path)
    if open_:
        show_page(path)


def show_page(path: Path) -> None:
    """Opens a page in a browser."""
    typer.launch(path.resolve().as_uri())


def refuse_existing(path: Path, force: bool) -> None:
    """Raises InputError if a file exists that --force does not allow to overwrite."""
    if path.exists() and not force:
        raise InputError(f"{path} exists: name another file, or overwrite it with --force")


def is_own_page(path: Path) -> bool:
    """True for a page that pauseframe wrote: a newer one may take its place."""
    return path.is_file() and b"<footer>Written by pauseframe " in path.read_bytes()


def spare_inputs(path: Path | None, *written: str) -> None:
    """Raises InputError if a command would write over a file of a known kind that is none of the kinds `written`."""
    from pauseframe.files.kinds import kind_of

    kind = kind_of(path) if path is not None and path.is_file() else None
    if kind is not None and kind.key not in written:
        raise InputError(f"{path} is {kind.name}, and this command would overwrite it: name another file")


def named_or_last(
    folders: list[Path] | None, count: int | None, *, sweeps: bool = True, default: int = 1
) -> list[Path]:
    """The folders that a command names; else the last `count` results, with a line that names them."""
    if folders and count is not None:
        raise typer.BadParameter("name folders, or take the last ones, not both", param_hint="--last")
    if folders:
        return folders
    from pauseframe.results.places import last

    found = last(count or default, sweeps=sweeps)
    say(f"taking {', '.join(map(str, found))}")
    return found


def read_only_once(files: list[Path]) -> list[Path]:
    """Returns the files; refuses more than one `-`, because standard input can be read only once."""
    if sum(str(file) == "-" for file in files) > 1:
        raise typer.BadParameter("standard input can be read once", param_hint="FILE")
    return files


def load_plugins(files: list[Path] | None, allow: bool = False, text: str = "", base_dir: str = ".") -> None:
    """Loads the plug-ins that a command line names and, with `allow`, the plug-ins that the scenario names."""
    if files or allow:
        from pauseframe.plugins.load import files_of, load

        load(files or [])
        load(files_of(text) if allow else [], base_dir)


def resolve_file(
    file: Path,
    set_: list[str] | None,
    seed: int | None,
    plugins: list[Path] | None = None,
    allow_plugins: bool = False,
) -> Resolved:
    """Resolves a scenario file with the changes given on the command line."""
    from pauseframe.scenario.text import read_scenario_file, resolve_text

    text, base_dir, name = read_scenario_file(file)
    load_plugins(plugins, allow_plugins, text, base_dir)
    scenario = resolve_text(text, base_dir=base_dir, file_name=name, overrides=pairs_of(set_), seed=seed)
    if plugins:
        _warn_of_unused(plugins, scenario.toml)
    return scenario


def _warn_of_unused(plugins: list[Path], resolved: str) -> None:
    from pauseframe.plugins.load import load

    for plugin in load(plugins):
        if not any(f'"{name}"' in resolved for name in plugin.names):
            names = " or ".join(f'"{name}"' for name in plugin.names)
            say(f"warning: --plugin {plugin.path}: no transport of the scenario has the control {names}")


def pairs_of(items: list[str] | None) -> list[tuple[str, str]]:
    """Paths and TOML values of `--set` options, in the form of the core."""
    pairs = _split_overrides(items or [])
    for path, value in pairs:
        _refuse_range(path, value)
    return pairs


def changes_of(items: list[str]) -> Settings:
    """Parses `--set` options into keys and values."""
    from pauseframe.sweep.spec import split_values

    changes = {}
    for path, text in _split_overrides(items):
        _refuse_range(path, text)
        values = split_values(text)
        if len(values) != 1:
            raise typer.BadParameter(f"{path} has {len(values)} values: give one", param_hint="--set")
        changes[path] = values[0]
    return changes


def _split_overrides(items: list[str]) -> list[tuple[str, str]]:
    """Paths and texts of `--set` options; each path once."""
    pairs = [_split_override(item) for item in items]
    paths = [path for path, _ in pairs]
    if twice := next((path for path in paths if paths.count(path) > 1), None):
        raise typer.BadParameter(f"{twice} is set twice: keep one", param_hint="--set")
    return pairs


def _split_override(item: str) -> tuple[str, str]:
    path, equals, value = item.partition("=")
    if not equals or not path.strip():
        raise typer.BadParameter(f"{item!r} is not of the form PATH=VALUE", param_hint="--set")
    # In brackets or quotes it belongs to the value.
    next_key = None if value.lstrip()[:1] in set("{['\"") else re.search(r"\s[a-z_0-9]+\.[a-z_.0-9]+=", value)
    if next_key:
        raise typer.BadParameter(f"{item!r} has two keys: write --set before{next_key[0]}...", param_hint="--set")
    return path.strip(), value.strip()


def _refuse_range(path: str, text: str) -> None:
    """Refuses a range where a key has one value."""
    if not text.startswith("{") or "from" not in text:
        return
    from pauseframe.sweep.spec import axis_values, is_range
    from pauseframe.terminal.problems import failure, problem

    if is_range(axis_values(text)):
        hint = f"a range is for pauseframe sweep: --set '{path}={text}'"
        raise failure([problem(path, text, "is a range, and this command takes one value", hint) | {"place": "--set"}])
