"""What must hold after a command met a fault: the checks of tests/faults.py."""

from __future__ import annotations

import json
import os
import re
import signal
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TIMED_OUT = 124
"""Exit code of a command that was killed because it hung."""
WRONG_INPUT = 2
TIMED = ("wall_s", "waited_s", "run_s", "search_s", "peak_rss_bytes", "packet_hops_per_s", "computed")
"""Keys and columns that differ from run to run."""
TIMES = re.compile(rb'"(%s)": ?[-+.e\d]+' % "|".join(TIMED).encode())
COST = re.compile(rb"\d+ of them computed now; [^<]*")
"""The sentence of a report about the cost of a search."""
ADDED = ("seal", "key", "given")
"""A digest of the manifest with its times, and what `pauseframe run` adds to the manifest of a whole run."""


@dataclass(frozen=True)
class Command:
    """A command that writes, and the command that repairs what a failure left."""

    name: str
    line: str
    needs: tuple[str, ...]
    """Names in the folder of inputs."""
    again: str = ""
    """The command that is run after a failure; by default the same."""
    codes: tuple[int, ...] = (0,)
    """Exit codes of the undisturbed command."""
    fresh: bool = True
    """False: the command has run before, and its results are replaced."""
    most: int = 0
    """Points at most, for a command that takes seconds; 0 for all."""


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    output: str
    calls: int
    call: str
    """The call that met the fault."""
    left: int
    """Processes that were left."""


Tree = dict[str, bytes]


def flaws(before: Tree, whole: Tree, now: Tree, ended: Ended, command: Command, fault: str) -> Iterator[str]:
    """What is wrong after a command that met a fault."""
    if ended.left:
        yield f"{ended.left} processes left"
    if wrong := wrong_end(ended, command, fault):
        yield wrong
    here = {path: content for path, content in now.items() if not is_leftover(path)}
    if not wrong and ended.code in command.codes and "error: " not in ended.output:
        yield from differences(whole, here)
    if ended.code != -signal.SIGKILL and not ended.call.startswith(REMOVING):
        yield from (f"{path} left" for path in now.keys() - here.keys())
    for path, content in here.items():
        if content not in (before.get(path), whole.get(path)) and not is_open(path, now):
            yield f"{path} is half"
    yield from unmarked(before, whole, now)


REMOVING = ("unlink", "rmdir", "read")
"""Calls of which a removal consists: a command whose removal fails leaves files, until the next one."""


def wrong_end(ended: Ended, command: Command, fault: str) -> str:
    """What is wrong with an exit code and what was printed, if anything is."""
    if ended.code == TIMED_OUT:
        return "hangs"
    if "Traceback" in ended.output or "panicked" in ended.output:
        return "traceback"
    if ended.code == -signal.SIGKILL and fault in ("kill", "torn"):
        return ""
    if ended.code not in (1, 2, *command.codes):
        return f"exit code {ended.code}"
    has_word = ended.code in command.codes or re.search(r"error: |failed", ended.output)
    return "" if has_word else f"exit code {ended.code} without a word"


def is_open(path: str, now: Tree) -> bool:
    """True for what says of itself that it is not whole: a manifest of an unfinished run, appended records, a lock."""
    name = path.rpartition("/")[2]
    if name == "manifest.json":
        with suppress(ValueError):
            return json.loads(now[path]).get("status") in {"running", "failed"}
    if any(other.endswith("/error.json") for other in now) and name.endswith((".parquet", ".json", ".toml")):
        return True  # a sweep with a failed run, which its error.json names
    if b'"not run"' in now.get(path.replace(name, "verdicts.json"), b""):
        return True  # verdicts without a run that failed
    return name == ".lock" or name.endswith(".runs")


MARKS = {"manifest.json", "plan.json", "update.json", "deploy.json", "export.json"}
"""Files that say that their folder is whole."""


def unmarked(before: Tree, whole: Tree, now: Tree) -> Iterator[str]:
    """Files that are missing in a folder whose mark says that it is whole."""
    for mark, content in whole.items():
        folder, _, name = mark.rpartition("/")
        if name in MARKS and now.get(mark) == content != before.get(mark):
            lost = [path for path in whole if path.startswith(f"{folder}/") and path not in now]
            lost = [path for path in lost if not path.endswith(".html") and not is_leftover(path)]  # drawn later
            yield from (f"{mark} says whole, and {path} is missing" for path in lost)


def differences(whole: Tree, now: Tree) -> Iterator[str]:
    """The differences between an undisturbed result and another."""
    for path in sorted({*whole, *now}):
        if path.endswith((".runs", ".lock")):  # records in any order; the number of a process
            continue
        if path not in now:
            yield f"{path} is missing"
        elif path not in whole:
            yield f"{path} is left"
        elif whole[path] != now[path]:
            yield f"{path} differs"


def is_refusal(output: str) -> bool:
    """True if a command refuses to replace what is there, which is whole then."""
    return (
        re.search(r"error: .*(is not empty|exists|is in use by|is writing results|meanwhile|already|has a)", output)
        is not None
    )


def plain(name: str, content: bytes) -> bytes:
    """A file without times and memory."""
    if name == "runs.parquet":
        return _in_fork(content, _without_times)
    if name == "manifest.json":
        with suppress(ValueError):
            manifest = {key: value for key, value in json.loads(content).items() if key not in ADDED}
            content = json.dumps(manifest).encode()
    return COST.sub(b"", TIMES.sub(b"", content))


def _without_times(table: bytes) -> bytes:
    import polars as pl

    return pl.read_parquet(table).drop(TIMED, strict=False).write_json().encode()


def _in_fork(content: bytes, work: Callable[[bytes], bytes]) -> bytes:
    """Does work in a fork: threads of polars in this process would stop the forks of commands."""
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        with open(told, "wb") as pipe:  # noqa: PTH123 (a number)
            pipe.write(work(content))
        os._exit(0)
    os.close(told)
    with open(heard, "rb") as pipe:  # noqa: PTH123
        done = pipe.read()
    os.waitpid(child, 0)
    return done


def is_leftover(path: str) -> bool:
    """True for a temporary file or folder of a writer."""
    return ".partial" in path or "/unfinished/" in path
