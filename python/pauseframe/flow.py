"""Runs scenarios at the flow level: max-min fair rates and completion times without packets.

>>> import pauseframe as pf
>>> text = '''
... workload = [{ kind = "n_to_1", senders = 2, size = "1 MB" }]
... topology = { kind = "star", hosts = 3, link = { rate = "10 Gbps", delay = "1 us" } }
... '''
>>> pf.run_flows(text).summary["fct_us"]["mean"]
1600.0
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pauseframe import _core
from pauseframe.files.atomic import refuse_file
from pauseframe.results import FlowRun
from pauseframe.run import resolve
from pauseframe.terminal.standard import write_note
from pauseframe.terminal.text import (
    completion_rows,
    format_bytes,
    format_count,
    format_duration,
    format_number,
    format_rate,
    two_columns,
    unfinished_flows,
    without_completion,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pauseframe.run import Plugins
    from pauseframe.scenario.document import Scenario
    from pauseframe.types import FlowSummary, StageProgress


def run_flows(
    scenario: Scenario | _core.Resolved | str | Path,
    *,
    seed: int | None = None,
    set: Mapping[str, Any] | None = None,
    routes: _core.Routes | None = None,
    choice: str = "random",
    slack: int = 0,
    demand: str | None = None,
    bound: float | None = None,
    out: str | Path | None = None,
    force: bool = False,
    progress: Callable[[StageProgress], None] | bool | None = None,
    plugins: Plugins = (),
) -> FlowRun:
    """Simulates a scenario at flow level; `flows`, `links` and `summary` are as in docs/reference/flow-level.md.

    Without `demand`, the scenario's workloads and routing are simulated. With a demand ("permutation",
    "rack_permutation", "all_to_all", "n_to_1:16", "skewed:1.2"), every pair sends all the time, and `bound` (a relative
    gap such as 0.05) adds the best rate of any routing. `routes` replaces the scenario's routing by forwarding tables;
    each flow takes one of the VLANs whose route is at most `slack` links longer than the shortest, by `choice`:
    "random", "best_of_two" or "least_loaded". Ctrl-C keeps the results so far. `plugins` are as for `pauseframe.run`;
    the flow level has no congestion control, so plug-ins only make their names valid in the scenario.
    """
    resolved = resolve(scenario, seed=seed, set=set, plugins=plugins)
    if out is not None:
        refuse_file(out)
    display = None
    if progress is None or progress is True:
        from pauseframe.terminal.progress import stage_display

        display = stage_display(resolved.name)
    try:
        run = _core.run_flows(
            resolved,
            routes=routes,
            choice=choice,
            slack=slack,
            demand=demand,
            bound=bound,
            out=None if out is None else str(out),
            force=force,
            progress=progress if callable(progress) else display,
        )
    finally:
        if display is not None:
            display.close()
    if run.interrupted:
        at = format_duration(run.summary["sim_time_s"])
        write_note(f"interrupted at {at} of simulated time; what was simulated is kept")
    return FlowRun(run)


def summary_rows(summary: FlowSummary) -> list[tuple[str, str]]:
    """The most important lines of a flow-level summary."""
    rates, use, bound = summary["rate_bps"], summary["fabric_utilisation"], summary["bound"]
    rows = [("flows", format_count(summary["flows_total"]))]
    if summary["demand"] == "workloads":
        done, left, others = summary["flows_finished"], unfinished_flows(summary), without_completion(summary)
        rows = []
        if done or left or not others:
            rows.append(("flows finished", f"{format_count(done)} of {format_count(done + left)}"))
            rows += completion_rows(summary["fct_us"], summary["slowdown"], done, left)
        rows += others
        rows.append(("simulated time", format_duration(summary["sim_time_s"])))
    rows += [
        ("throughput a host", format_rate(summary["throughput_bps"])),
        ("rate of a flow, mean", format_rate(rates["mean"])),
        (
            "  min / p1 / p50 / p99 / max",
            " / ".join(format_rate(rates[key]) for key in ("min", "p1", "p50", "p99", "max")),
        ),
        ("links between switches on a path, mean", format_number(summary["hops_mean"])),
        ("use of links between switches, mean / max", " / ".join(format_number(use[key]) for key in ("mean", "max"))),
    ]
    if bound is not None:
        upper, lower = format_rate(bound["upper_bps"]), format_rate(bound["lower_bps"])
        rows += [
            ("any routing, every pair at once", f"{lower} to {upper} (gap {format_number(bound['gap'] * 100)} %)"),
            ("  the slowest flow here reaches", f"{format_number(bound['min_rate_over_upper'] * 100)} % of that"),
        ]
    return rows


def summary_text(summary: FlowSummary, verbose: bool = False) -> str:
    """The lines of `summary_rows` for a terminal; with `verbose`, also those about the simulator."""
    rows = summary_rows(summary)
    if verbose:
        rows += [
            ("wall time", format_duration(summary["wall_s"])),
            ("memory, peak", format_bytes(summary["peak_rss_bytes"])),
        ]
    return two_columns(rows, f"{summary['name']}, seed {summary['seed']}, {summary['demand']}")
