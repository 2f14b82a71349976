"""Values that a shell completes: callbacks for Typer, and the words that bash splits at `=`.

A shell waits for the answer, so the callbacks import the compiled core and little else.
"""

from __future__ import annotations

import io
import os
import sys
from contextlib import redirect_stdout
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

WORDS = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
"""Variables in which shells hand over the command line: bash, and the others."""


def presets(incomplete: str) -> list[str]:
    """Names of presets."""
    from pauseframe._core import presets

    return _that_begin(presets(), incomplete)


def examples(incomplete: str) -> list[str]:
    """Names of examples."""
    from pauseframe.examples import examples

    return _that_begin(examples(), incomplete)


def experiments(incomplete: str) -> list[str]:
    """Papers, and their experiments as PAPER/NAME."""
    from pauseframe.results.places import EXPERIMENTS

    files = [
        path for path in EXPERIMENTS.glob("*/*.toml") if path.stem != "paper" and not path.stem.endswith(".scenario")
    ]
    names = [f"{path.parent.name}/{path.stem}" for path in files]
    return _that_begin({"all", *(path.parent.name for path in files), *names}, incomplete)


def rules(incomplete: str) -> list[str]:
    """Codes of lint rules, also behind a comma."""
    from pauseframe.lint import engine

    done, comma, code = incomplete.rpartition(",")
    return [f"{done}{comma}{name}" for name in _that_begin(engine.rules(), code)]


def runs(incomplete: str) -> list[str]:
    """Results folders of runs."""
    return _results(incomplete, sweeps=False)


def results(incomplete: str) -> list[str]:
    """Results folders of runs and sweeps."""
    return _results(incomplete, sweeps=True)


def _results(incomplete: str, *, sweeps: bool) -> list[str]:
    from pauseframe.results.places import results

    return _that_begin((str(folder) for _, folder in results(sweeps)), incomplete)


def settings(incomplete: str) -> list[str]:
    """Keys of scenarios with "=", and behind it the words that a key takes; those that one key alone takes at once."""
    key, equals, _ = incomplete.partition("=")
    known = _keys()
    if equals:
        return [f"{key}={word}" for word in known.get(key, ())]
    found = _that_begin(known, incomplete)
    return [f"{found[0]}={word}" for word in known[found[0]] or ("",)] if len(found) == 1 else [f"{k}=" for k in found]


def parameters(incomplete: str) -> list[str]:
    """Keys of scenarios with "=", for searches."""
    return [f"{key}=" for key in _that_begin(_keys(), incomplete)]


def _keys() -> dict[str, list[str]]:
    """The keys of a scenario, with the words that each takes; entries of lists are counted from 0."""
    from pauseframe._core import options

    known: dict[str, list[str]] = {}
    for row in options():
        path = row["path"].replace("[]", ".0")
        head, dot, rest = path.partition(".")
        path = f"workload.0.{rest}" if head == "workload" and dot else path
        if "NAME" not in path:
            known[path] = list(dict.fromkeys([*known.get(path, []), *_words(row["type"])]))
    return known


def _words(kind: str) -> list[str]:
    if kind == "true or false":
        return ["true", "false"]
    words = kind.removeprefix("one of ").split(", ")
    return [word for word in words if " " not in word] if kind.startswith("one of ") else []


def _that_begin(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))


def words() -> list[str]:
    """The words of the command line that a shell wants to have completed, without the program; [] otherwise."""
    return next((os.environ[name].split()[1:] for name in WORDS if name in os.environ), [])


def complete_in_bash(run: Callable[[], int]) -> int:
    """Completes words that have `=` in them.

    Bash splits KEY=VALUE into three words, and replaces the last of them: this joins them for Typer, and prints what
    follows `=`.
    """
    given, at = os.environ["COMP_WORDS"].split("\n"), int(os.environ.get("COMP_CWORD", "0"))
    joined: list[str] = []
    for before, word in pairwise(["", *given[: at + 1]]):
        if joined and (word == "=" or (before == "=" and word)):
            joined[-1] += word
        else:
            joined.append(word)
    os.environ["COMP_WORDS"], os.environ["COMP_CWORD"] = "\n".join(joined), str(len(joined) - 1)
    with redirect_stdout(io.StringIO()) as answer:
        code = run()
    head, equals, _ = joined[-1].rpartition("=")
    sys.stdout.writelines(f"{line.removeprefix(head + equals)}\n" for line in answer.getvalue().splitlines())
    return code
