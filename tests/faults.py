"""Makes every call of the system that a command writes with fail once, and runs the command again.

`python tests/faults.py [--points N] [--seed S] [COMMAND...]` tries all points of all commands, or a
sample of N of them. A point is a command, a fault and a number n: the n-th call under the working folder (open, write,
fsync, rename, link, mkdir, ftruncate, unlink) meets the fault. After each point:

- the command has ended, with a line about the error or with its whole result; no process of it is left;
- each file under its final name is that of an undisturbed command, and what is marked as whole is whole;
- the command, run again, gives the undisturbed result, and removes what the first one left.

The calls fail in a preloaded library, which `cc` makes of fault_shim.c. The commands run in forks of a process that has
loaded the package, so a point costs what its command costs.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import mmap
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fault_checks import (
    REMOVING,
    TIMED_OUT,
    WRONG_INPUT,
    Command,
    Ended,
    differences,
    flaws,
    is_leftover,
    is_refusal,
    plain,
    wrong_end,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fault_checks import Tree

FAULTS = {"ENOSPC": 1, "EIO": 2, "EINTR": 3, "short": 4, "kill": 5, "full": 6, "torn": 7, "pause": 8}
"""The faults by their number in fault_shim.c.

`short` writes half of what it is given, `full` is a disk that stays full, `torn` writes half and kills the process.
`pause` stops the command until a second one in the same folder has ended, or waits.
"""
LIMIT_S = 120.0
"""Seconds after which a command counts as hanging."""
WAITS_S = 1.0
"""Seconds after which a second command counts as waiting for the first."""
GRACE_S = 10.0
"""Seconds in which workers of a killed command end."""


class State(ctypes.Structure):
    """`struct state` of fault_shim.c."""

    _fields_ = (
        ("armed", ctypes.c_ulong),
        ("count", ctypes.c_ulong),
        ("at", ctypes.c_ulong),
        ("fault", ctypes.c_ulong),
        ("under", ctypes.c_char * 512),
        ("call", ctypes.c_char * 512),
    )


class Harness:
    """Runs commands in one folder, with or without faults."""

    def __init__(self, inputs: Path, work: Path, state: Path) -> None:
        self.inputs, self.work = inputs, work
        self.log = work.with_name("output")
        with state.open("r+b") as file:
            self._state = State.from_buffer(mmap.mmap(file.fileno(), 0))
        self._state.under = str(work).encode()

    def prepare(self, command: Command) -> None:
        """Makes a new folder with the inputs of a command, and its first results if it replaces some."""
        shutil.rmtree(self.work, ignore_errors=True)
        self.work.mkdir()
        for name in command.needs:
            source = self.inputs / name
            (shutil.copytree if source.is_dir() else shutil.copyfile)(source, self.work / name)
        if not command.fresh:
            self.run(replace(command, line=command.line.removesuffix(" --force")).line)

    def run(self, line: str, at: int = 0, fault: str = "full") -> Ended:
        """Runs a command line in a fork; its `at`-th call meets the fault."""
        self._expect(at, fault)
        return self._end(self._start(line, self.log), self.log)

    def run_two(self, line: str, at: int) -> tuple[Ended, Ended]:
        """Runs a command line twice in one folder: the first stops at its `at`-th call until the second has ended."""
        self._expect(at, "pause")
        first = self._start(line, self.log)
        begun = time.monotonic()
        while not self._state.call and not _has_ended(first) and time.monotonic() - begun < LIMIT_S:
            time.sleep(0.001)
        log = self.log.with_name("output of the second")
        second = self._start(line, log)
        begun = time.monotonic()
        while not _has_ended(second) and time.monotonic() - begun < WAITS_S:
            time.sleep(0.001)
        for member in _members(first):
            os.kill(member, signal.SIGCONT)
        return self._end(first, self.log), self._end(second, log)

    def _expect(self, at: int, fault: str) -> None:
        state = self._state
        state.count, state.at, state.fault, state.call = 0, at, FAULTS[fault], b""

    def _start(self, line: str, log: Path) -> int:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            self._become(line, log)
        return child

    def _end(self, child: int, log: Path) -> Ended:
        state = self._state
        code = self._wait(child)
        state.armed = 0
        left = _left_of(child)
        return Ended(code, log.read_text(errors="replace"), state.count, bytes(state.call).decode(), left)

    def _become(self, line: str, log: Path) -> None:
        os.setsid()
        os.chdir(self.work)
        for number, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)):
            os.dup2(os.open(os.devnull if number == 0 else log, mode, 0o644), number)
        os.dup2(1, 2)
        sys.argv = ["pauseframe", *line.split()]
        from pauseframe import cli

        code = 99
        try:
            self._state.armed = 1
            cli.main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        except BaseException:  # noqa: BLE001 (the traceback is the defect)
            sys.excepthook(*sys.exc_info())
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

    def _wait(self, child: int) -> int:
        begun = time.monotonic()
        while True:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            if time.monotonic() - begun > LIMIT_S:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return TIMED_OUT
            time.sleep(0.002)

    def tree(self) -> Tree:
        """The files below the working folder, without what differs from run to run."""
        found = (path for path in sorted(self.work.rglob("*")) if path.is_file())
        return {str(path.relative_to(self.work)): plain(path.name, path.read_bytes()) for path in found}


def _has_ended(child: int) -> bool:
    return os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _left_of(session: int) -> int:
    """The number of processes of a session that do not end; kills them."""
    begun = time.monotonic()
    while members := _members(session):
        if time.monotonic() - begun > GRACE_S:
            for member in members:
                with suppress(ProcessLookupError):
                    os.kill(member, signal.SIGKILL)
            return len(members)
        time.sleep(0.005)
    return 0


def _members(session: int) -> list[int]:
    found = []
    for name in os.listdir("/proc"):  # noqa: PTH208 (names only)
        if name.isdigit():
            with suppress(OSError):
                fields = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session and fields[0] != "Z":
                    found.append(int(name))
    return found


# Trying ---------------------------------------------------------------------------------------------------------------


@dataclass
class Measured:
    """A command without faults."""

    command: Command
    calls: int
    before: Tree
    whole: Tree


def measure(harness: Harness, command: Command) -> Measured:
    """Runs a command undisturbed: its calls, and its files."""
    harness.prepare(command)
    before = harness.tree()
    ended = harness.run(command.line)
    assert ended.code in command.codes, f"{command.name}: {ended.code} {ended.output[-2000:]}"
    return Measured(command, ended.calls, before, harness.tree())


def attempt(harness: Harness, measured: Measured, at: int, fault: str) -> tuple[Ended, list[str]]:
    """Tries one point; how the command ended, and what is wrong."""
    command = measured.command
    harness.prepare(command)
    if fault == "pause":
        return attempt_two(harness, measured, at)
    ended = harness.run(command.line, at, fault)
    found = list(flaws(measured.before, measured.whole, harness.tree(), ended, command, fault))
    again = harness.run(command.again or command.line)
    if again.code == WRONG_INPUT and "--force" in again.output:
        again = harness.run(f"{command.line} --force")
    if again.code not in command.codes and not (again.code == WRONG_INPUT and is_refusal(again.output)):
        found.append(f"run again: {again.code} {again.output[-300:]}")
    now = harness.tree()
    if ended.call.startswith(REMOVING) and again.code not in command.codes:  # what is left waits for the next writer
        now = {path: content for path, content in now.items() if not is_leftover(path)}
    found += [f"run again: {one}" for one in differences(measured.whole, now)]
    return ended, found


def attempt_two(harness: Harness, measured: Measured, at: int) -> tuple[Ended, list[str]]:
    """Tries two processes in one folder; each succeeds, or is refused by name, and the result is whole."""
    command = measured.command
    both = harness.run_two(command.line, at)
    found = []
    for which, ended in zip(("first", "second"), both, strict=True):
        wrong = wrong_end(ended, command, "pause") or (f"{ended.left} processes left" if ended.left else "")
        refused = ended.code in (1, WRONG_INPUT) and is_refusal(ended.output)
        if wrong or not (ended.code in command.codes or refused):
            found.append(f"{which}: {wrong or ended.code} {ended.output[-300:]!r}")
    if not any(ended.code in command.codes for ended in both):
        found.append("neither succeeded")
    return both[0], found + list(differences(measured.whole, harness.tree()))


def points_of(
    all_of: Sequence[Measured], count: int | None, seed: int, faults: Sequence[str]
) -> list[tuple[int, int, str]]:
    """All points, or a sample with as many of each command."""
    of_each = [
        [(number, at, fault) for fault in faults for at in range(1, one.calls + 1)] for number, one in enumerate(all_of)
    ]
    draw = random.Random(seed)
    of_each = [
        draw.sample(points, min(one.command.most or len(points), len(points)))
        for one, points in zip(all_of, of_each, strict=True)
    ]
    if count is None:
        return sorted(point for points in of_each for point in points)
    share = -(-count // len(of_each))
    drawn = [point for points in of_each for point in draw.sample(points, min(share, len(points)))]
    return sorted(draw.sample(drawn, min(count, len(drawn))))


def say(text: str) -> None:
    """Prints a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def serve(arguments: argparse.Namespace, folder: Path) -> int:
    """Tries the points in this process, which has the library preloaded; the number of defects."""
    sys.argv[0] = "pauseframe"  # workers are forks, as on the command line
    import fault_commands

    inputs = folder / "inputs"
    inputs.mkdir()
    known = fault_commands.commands(slow=arguments.points is None or bool(arguments.commands))
    chosen = [one for one in known if not arguments.commands or one.name in arguments.commands]
    subprocess.run([sys.executable, fault_commands.__file__, str(inputs)], check=True)
    fault_commands.load()
    gc.freeze()  # forks share what is loaded
    harness = Harness(inputs, folder / "work", Path(os.environ["FAULT_STATE"]))
    all_of = [measure(harness, command) for command in chosen]
    points = points_of(all_of, arguments.points, arguments.seed, arguments.faults or list(FAULTS))
    tried, defects = Counter[str](), 0
    for number, at, fault in points:
        one = all_of[number]
        ended, found = attempt(harness, one, at, fault)
        tried[f"{fault} {'absorbed' if ended.code in one.command.codes else 'reported'}"] += 1
        if found:
            defects += 1
            say(f"{one.command.name}: {fault} at call {at} of {one.calls} ({ended.call})")
            say("".join(f"    {line}\n" for line in found[:6]) + f"    {ended.output[-300:]!r}")
    calls = {one.command.name: one.calls for one in all_of}
    record = json.dumps({"points": len(points), "defects": defects, "calls": calls, "ended": tried})
    say(record)
    if arguments.record is not None:
        arguments.record.write_text(f"{record}\n")
    return defects


def compiler() -> str | None:
    """A C compiler, without which nothing fails on purpose."""
    return next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)


def preload(folder: Path) -> dict[str, str]:
    """Compiles the library; the environment that preloads it."""
    library, state = folder / "fault_shim.so", folder / "state"
    source = Path(__file__).with_name("fault_shim.c")
    subprocess.run([str(compiler()), "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    state.write_bytes(bytes(ctypes.sizeof(State)))
    return {"LD_PRELOAD": str(library), "FAULT_STATE": str(state)}


def main() -> None:
    """Starts itself with the library preloaded."""
    parser = argparse.ArgumentParser()
    parser.add_argument("commands", nargs="*")
    parser.add_argument("--points", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, help="a file for the figures of docs/how-it-is-tested.md")
    parser.add_argument("--fault", dest="faults", action="append", choices=list(FAULTS))
    if "FAULT_STATE" in os.environ:
        sys.exit(serve(parser.parse_args(), Path(os.environ["FAULT_STATE"]).parent) > 0)
    parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="faults-") as name:
        environment = os.environ | preload(Path(name))
        sys.exit(subprocess.run([sys.executable, *sys.argv], env=environment, check=False).returncode)


if __name__ == "__main__":
    main()
