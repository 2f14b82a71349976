"""Shows the progress of a sweep on stderr: runs done, failed, time left."""

from __future__ import annotations

import time
from typing import Any

from pauseframe.terminal.standard import shows_errors_on_terminal, write_note
from pauseframe.terminal.text import format_duration, plain_console

EVERY_S = 10.0
"""Seconds between two progress lines if stderr is not a terminal."""


class SweepDisplay:
    """Shows a progress bar on a terminal, and otherwise an occasional line.

    With `wanted` False nothing is shown, not even failures; with None, only on a terminal.
    """

    def __init__(self, wanted: bool | None, name: str, total: int, missing: int, reused: int) -> None:
        self._shown = shows_errors_on_terminal() if wanted is None else wanted
        self._name = name
        self._total = total
        self._missing = missing
        self._ended = 0
        self._failed = 0
        self._begun = self._said = time.monotonic()
        self._bar: Any = None
        if not self._shown:
            return
        there = total - missing
        if there:
            self._say(f"{there} of {total} runs are there already" + (f", {reused} from the store" if reused else ""))
        if missing and shows_errors_on_terminal():
            self._bar = _bar()
            self._task = self._bar.add_task(name, total=total, completed=there, line=f"{there}/{total}")
            self._bar.start()

    def step(self, failure: str | None) -> None:
        """Counts a run that has ended; `failure` is the error of a failed run."""
        self._ended += 1
        self._failed += failure is not None
        if not self._shown:
            return
        if failure:
            self._say(failure)
        if self._bar is not None:
            done = self._total - self._missing + self._ended
            self._bar.update(self._task, completed=done, line=self.describe())
        elif time.monotonic() - self._said > EVERY_S:
            self._said = time.monotonic()
            self._say(f"{self._name}: {self.describe()}")

    def describe(self) -> str:
        """The progress as one line: "12/300 · 1 failed · 4.2 min left"."""
        left = self._missing - self._ended
        pace = (time.monotonic() - self._begun) / max(self._ended, 1)
        parts = [f"{self._total - left}/{self._total}"]
        if self._failed:
            parts.append(f"{self._failed} failed")
        if left:
            parts.append(f"{format_duration(pace * left)} left")
        return " · ".join(parts)

    def close(self) -> None:
        """Removes the bar."""
        if self._bar is not None:
            self._bar.stop()

    def _say(self, text: str) -> None:
        if self._bar is not None:
            self._bar.console.print(text, highlight=False)
        else:
            write_note(text)


def _bar() -> Any:
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[line]}", markup=False),
    )
    return Progress(*columns, console=plain_console(stderr=True), transient=True)
