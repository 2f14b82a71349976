"""Progress bars on a terminal or in a notebook: simulated time, events per second, time left."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Protocol

from pauseframe.terminal.standard import shows_errors_on_terminal
from pauseframe.terminal.text import format_count, format_duration, plain_console

if TYPE_CHECKING:
    from pauseframe.types import RunProgress, StageProgress


class Display(Protocol):
    """A progress display for the dicts that the core sends."""

    def __call__(self, info: RunProgress) -> None:
        """Shows a progress dict of the core."""

    def close(self) -> None:
        """Ends the display; later output starts on a new line."""


def time_left(info: RunProgress) -> float | None:
    """Seconds until the stop time at the pace so far; None without a stop time or before the first event."""
    stop, now = info["stop_time_s"], info["sim_time_s"]
    if stop is None or now <= 0:
        return None
    return float(info["wall_s"] * max(stop - now, 0.0) / now)


def describe(info: RunProgress) -> str:
    """The progress as one line: "12.4 ms of 50 ms · 8.1 M events/s · 3.2 s left"."""
    simulated = format_duration(info["sim_time_s"])
    stop = "" if info["stop_time_s"] is None else f" of {format_duration(info['stop_time_s'])}"
    pace = format_count(info["events"] / info["wall_s"]) if info["wall_s"] > 0 else "0"
    left = time_left(info)
    if left is None:
        end = f"{info['flows_finished']} of {info['flows_started']} flows"
    else:
        end = f"{format_duration(left)} left"
    return f"{simulated}{stop} · {pace} events/s · {end}"


class _TerminalBar:
    """A progress bar on stderr, removed at the end; the last column shows the text `line` or the elapsed time."""

    def __init__(self, name: str, line: str | None = None) -> None:
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        last = TimeElapsedColumn() if line is None else TextColumn("{task.fields[line]}", markup=False)
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), last)
        self._progress = Progress(*columns, console=plain_console(stderr=True), transient=True)
        self._name = name
        self._task = self._progress.add_task(name, total=None, line=line)
        self._progress.start()

    def close(self) -> None:
        """Removes the bar."""
        self._progress.stop()


class TerminalDisplay(_TerminalBar):
    """The progress bar of a run."""

    def __init__(self, name: str) -> None:
        super().__init__(name, "starting")

    def __call__(self, info: RunProgress) -> None:
        """Updates the bar."""
        self._progress.update(self._task, total=info["stop_time_s"], completed=info["sim_time_s"], line=describe(info))


class LateDisplay:
    """A bar on stderr that appears with the first progress: a run of less than 0.1 s shows none."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._bar: TerminalDisplay | None = None

    def __call__(self, info: RunProgress) -> None:
        """Updates the bar."""
        self._bar = self._bar or TerminalDisplay(self._name)
        self._bar(info)

    def close(self) -> None:
        """Removes the bar."""
        if self._bar is not None:
            self._bar.close()


class NotebookDisplay:
    """A bar in the output of a Jupyter cell, updated in place."""

    def __init__(self, name: str) -> None:
        from IPython.display import HTML, display

        self._name = name
        self._html = HTML
        self._handle = display(HTML(escape(name)), display_id=True)

    def __call__(self, info: RunProgress) -> None:
        """Updates the bar."""
        stop = info["stop_time_s"]
        value = "" if stop is None else f' value="{info["sim_time_s"]}" max="{stop}"'
        line = escape(f"{self._name}: {describe(info)}")
        self._handle.update(self._html(f'<progress{value} style="width:16em"></progress> {line}'))

    def close(self) -> None:
        """Removes the bar."""
        self._handle.update(self._html(""))


class StageDisplay(_TerminalBar):
    """A progress bar for computations in stages (`stage`, `done`, `of`; `of` is 0 if the total is unknown).

    `best` is the mean detour of a planner's best routes so far.
    """

    def __call__(self, info: StageProgress) -> None:
        """Updates the bar."""
        count = f" {info['done']}" if info["done"] and not info["of"] else ""
        best = "" if info["best"] is None else f", best so far {info['best']:.2%} of detours"
        self._progress.update(
            self._task,
            description=f"{self._name}: {info['stage']}{count}{best}",
            total=info["of"] or None,
            completed=info["done"],
        )


def stage_display(name: str) -> StageDisplay | None:
    """A progress bar if stderr is a terminal, else None."""
    return StageDisplay(name) if shows_errors_on_terminal() else None
