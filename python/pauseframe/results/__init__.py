"""The results of a run, in memory or read from a results folder (docs/reference/results.md)."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from pauseframe import _core
from pauseframe.results.folder import FINISHED, open_results
from pauseframe.results.table import Table, named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pauseframe.report.inline import InlinePage
    from pauseframe.types import FlowSummary, Summary

TableName = Literal[
    "flows",
    "queries",
    "ports",
    "series",
    "throughput",
    "pause_tree",
    "states",
    "paths",
    "equal_links",
    "conweave",
    "tunnels",
    "deadlocks",
    "jobs",
    "collectives",
    "ranks",
    "timeline",
    "kernel_sockets",
    "kernel_counters",
]


class _TableOf(cached_property[Table]):
    """A table of a run, with the name of its attribute, read on first use."""

    def __init__(self) -> None:
        super().__init__(lambda run: Table(run._core_table(self.attrname)))


class Run:
    """The tables and the summary of a run.

    `flows`, `queries`, `ports`, `series`, `throughput`, `pause_tree`, `states`, `paths`, `equal_links`, `conweave`,
    `tunnels`, `deadlocks`, `jobs`, `collectives`, `ranks`, `timeline`, `kernel_sockets` and `kernel_counters` are Arrow
    tables: polars, pandas, pyarrow and DuckDB read them without copying. docs/reference/results.md describes their
    columns and the entries of `summary`.
    """

    def __init__(
        self,
        summary: Summary,
        table: Callable[[TableName], _core.Table],
        *,
        status: str,
        scenario_toml: str,
        folder: Path | None,
        given: list[str] | None = None,
    ) -> None:
        self.summary: Summary = named(summary)
        """The object that `pauseframe run --json` prints."""
        self.status = status
        """"complete", "deadlock" (a deadlock ended the run), "interrupted", or "running" if the run has not ended."""
        self.scenario_toml = scenario_toml
        """The scenario with every default; running this scenario again gives the same results."""
        self.folder = folder
        """Path of the results folder, or None for a run in memory."""
        self.given = given
        """Keys that the scenario file or `set` gave; None for a folder that does not list them."""
        self._core_table = table

    @property
    def interrupted(self) -> bool:
        """True if Ctrl-C stopped the run before its end."""
        return self.status not in FINISHED

    @property
    def trims(self) -> int:
        """Number of packets whose payload switches cut off (`switch.queue = "trim"`)."""
        return self.summary.get("trims", 0)

    @property
    def deadlocked(self) -> bool:
        """True if a cycle of queues waited for ever, even if the run continued.

        A cycle that a PFC watchdog broke does not count if every flow finished.
        """
        return has_deadlock(self.summary)

    flows = _TableOf()
    """The table of flows, one row per flow."""
    queries = _TableOf()
    """The table of queries, one row per partition-aggregate job."""
    ports = _TableOf()
    """The table of ports, one row per port and priority that carried, dropped or paused traffic."""
    series = _TableOf()
    """Time series, one row per sample."""
    throughput = _TableOf()
    """Bytes that hosts received, one row per interval and workload; always recorded."""
    pause_tree = _TableOf()
    """Pauses with their causes, one row per pause (`record.pause_tree`)."""
    states = _TableOf()
    """The log for `pauseframe view`, one row per change (`record.states`)."""
    paths = _TableOf()
    """What flows sent through the ports of switches, one row per flow, queue pair and port (`record.paths`)."""
    equal_links = _TableOf()
    """How many flows took each of equal links (`record.paths`); empty if switches choose for each packet."""
    conweave = _TableOf()
    """What leaf switches did with `routing.kind = "conweave"`, one row per leaf switch."""
    tunnels = _TableOf()
    """What ToRs of mux cables sent through tunnels (`host.port_choice = "mux"`), one row per ToR."""
    deadlocks = _TableOf()
    """The table of deadlocks, one row per queue of a deadlock."""
    jobs = _TableOf()
    """The table of applications, one row per job: its run time, with its times on ideal hardware and alone."""
    collectives = _TableOf()
    """The table of collective operations, one row per operation and group, with the bandwidths of nccl-tests."""
    ranks = _TableOf()
    """The table of ranks: the host of each rank, and its compute, waiting and sending time."""
    timeline = _TableOf()
    """The table of ranks' activities over time, for applications with `timeline = true`."""
    kernel_sockets = _TableOf()
    """Sockets of hosts with a Linux kernel, one row per socket and sample (`record.kernel`)."""
    kernel_counters = _TableOf()
    """Counters of hosts with a Linux kernel, one row per counter that has changed (`record.kernel`)."""

    @overload
    def report(self, out: str | Path) -> Path: ...
    @overload
    def report(self, out: None = None) -> InlinePage: ...
    def report(self, out: str | Path | None = None) -> Path | InlinePage:
        """Writes the HTML report of this run to the file `out`; without `out`, a notebook shows the report inline."""
        from pauseframe.files.atomic import page_path
        from pauseframe.report import Group, build_report, from_run
        from pauseframe.report.build import render_report
        from pauseframe.report.inline import InlinePage

        groups = [Group("", [from_run(self)])]
        return InlinePage(render_report(groups), "report") if out is None else build_report(groups, page_path(out))

    def plot(
        self, metric: str = "received_bps", lines: str | None = None, *, beside: Run | Iterable[Run] = ()
    ) -> InlinePage:
        """A metric over time, shown in a notebook: mean, minimum and maximum, and the samples when zoomed in.

        "received_bps" is what all hosts receive together, in bits per second. The metrics of the series
        (docs/reference/results.md) are sampled at ports and flows: "backlog_bytes", "throughput_gbps", "cwnd_bytes" and
        others; `lines` chooses ports or flows by a glob such as "leaf0:*". `beside` are further runs.

        Raises InputError for an unknown metric, or one that the run did not record (`record.series`).
        """
        from pauseframe.report import from_run
        from pauseframe.report.inline import plot_runs

        others = [beside] if isinstance(beside, Run) else list(beside)
        if wrong := next((one for one in others if not isinstance(one, Run)), None):
            raise TypeError(f"beside: {wrong!r} is no run: give runs, such as beside=[pauseframe.load(FOLDER)]")
        return plot_runs([from_run(run) for run in (self, *others)], metric, lines)

    def view(self) -> InlinePage:
        """The player of this run, shown in a notebook.

        Raises InputError if the run has no results folder, or did not record states (`record.states`).
        """
        from pauseframe.report.inline import InlinePage
        from pauseframe.view import from_folder, view_page

        if self.folder is None:
            raise _core.InputError(
                'a run in memory cannot be played back: give it a folder, as in run(..., out="results/one")'
            )
        return InlinePage(view_page([from_folder(self.folder)]), "player", 900)

    def __repr__(self) -> str:
        from pauseframe.terminal.text import unfinished_flows

        summary = self.summary
        return (
            f"<pauseframe.Run {summary['name']!r} seed {summary['seed']} {self.status}: "
            f"{summary['flows_finished']} of {summary['flows_finished'] + unfinished_flows(summary)} flows, "
            f"{summary['sim_time_s']:g} s>"
        )

    def _repr_html_(self) -> str:
        from html import escape

        from pauseframe.results.percentiles import explanation
        from pauseframe.terminal.text import summary_rows

        pairs = summary_rows(self.summary)
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:right'>{escape(value)}</td></tr>"
            for name, value in pairs
        )
        if mark := explanation(value for _, value in pairs):
            rows += f"<tr><td colspan='2'><small>{escape(mark)}</small></td></tr>"
        title = escape(f"{self.summary['name']}, seed {self.summary['seed']}")
        note = "" if not self.interrupted else f" <em>({escape(self.status)})</em>"
        return f"<table><caption><b>{title}</b>{note}</caption><tbody>{rows}</tbody></table>"


class FlowRun:
    """The results of a scenario at flow level: docs/reference/flow-level.md describes `summary` and the tables."""

    def __init__(self, core: _core.FlowRun) -> None:
        self.summary: FlowSummary = core.summary
        """The object that `pauseframe flow --json` prints."""
        self.interrupted = core.interrupted
        """True if Ctrl-C stopped the run before its end."""
        self.flows = Table(core.flows)
        """The table of flows, one row per flow."""
        self.links = Table(core.links)
        """The table of links, one row per port that carried a flow."""


def has_deadlock(summary: Summary) -> bool:
    """True if a run has a deadlock, unless a PFC watchdog broke the deadlock and every flow finished."""
    from pauseframe.terminal.text import unfinished_flows

    broken = summary["watchdog_storms"] and not unfinished_flows(summary)
    return bool(summary["deadlocks"]) and not broken


def from_core(run: _core.Run, scenario: _core.Resolved) -> Run:
    """The `Run` for a run that the core has just finished."""
    folder = run.summary.get("out")
    return Run(
        run.summary,
        run.table,
        status=run.summary["status"],
        scenario_toml=scenario.toml,
        folder=Path(folder) if folder else None,
        given=given_keys(scenario),
    )


def given_keys(scenario: _core.Resolved) -> list[str]:
    """The keys of a scenario that its file or `--set` gave."""
    return [path for path, _, origin in scenario.explain() if origin in ("file", "--set")]


def load(folder: str | Path) -> Run:
    """Reads a results folder. Raises FileNotFoundError if it is missing, DamagedResultsError if a file is damaged.

    A table that the run did not write is empty, as it was in memory.

    >>> import pauseframe as pf
    >>> pf.load("results/incast-7").flows  # doctest: +SKIP
    """
    folder = Path(folder)
    results = open_results(folder)
    return Run(
        results.summary,
        results.read_or_empty,
        status=results.manifest["status"],
        scenario_toml=results.scenario_toml,
        folder=folder,
        given=results.manifest.get("given"),
    )
