"""The demo: TCP-Bolt and its rivals on the TCP-Bolt paper's fat tree and on a leaf-spine fabric.

Runs every transport on both fabrics, several at a time in processes of their own, prints what came out, and writes
one report in which the paper's claims stand beside what was measured.
"""

from __future__ import annotations

import signal
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pauseframe import InputError
from pauseframe._text import format_count, format_number, format_us

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from concurrent.futures import Future
    from multiprocessing.synchronize import Event

    from pauseframe.report import Claim, RunData

# ECT on all packets, as the paper's simulator marks them whatever they are: else a SYN that meets a queue above the
# threshold is dropped (RFC 3168 §6.1.1 forbids ECT on it; DCTCP+ sets it).
DCTCP = {"transport.preset": "dctcp", "transport.ect_on_syn": True}
BOLT = {"transport.preset": "tcp_bolt", "transport.ect_on_syn": True}
VARIANTS: dict[str, dict[str, Any]] = {
    "newreno": {"transport.preset": "newreno"},
    "dctcp": DCTCP,
    "tcp_dcb": {"transport.preset": "tcp_dcb"},
    "tcp_bolt": BOLT,
    "tcp_bolt_spray": BOLT | {"routing.kind": "spray"},
}
FABRICS = {
    "fat_tree": (
        "Fat tree, partition-aggregate and background",
        "54 hosts, 10 Gb/s, base round-trip time 240 µs, 225 KB a port: the simulated network of the TCP-Bolt paper. "
        "Every host asks ten others for 2, 4 or 8 KB two hundred times a second and keeps one background flow of "
        "64 KB to 32 MB going.",
    ),
    "leaf_spine": (
        "Leaf-spine, web search at 60 % load",
        "32 hosts at 10 Gb/s under four leaves, two spines at 40 Gb/s, full bisection. Flow sizes of a web search "
        "cluster, Poisson arrivals at 60 % of the hosts' links.",
    ),
}
QUICK_WORKLOADS = {"fat_tree": 2, "leaf_spine": 1}
QUICK_STOP = "6 ms"


@dataclass(frozen=True)
class Job:
    """One run of the demo."""

    fabric: str
    variant: str
    out: Path
    force: bool
    quick: bool

    def settings(self) -> dict[str, Any]:
        """What is changed in the fabric's scenario."""
        quick = {f"workload.{n}.stop": QUICK_STOP for n in range(QUICK_WORKLOADS[self.fabric])} if self.quick else {}
        return {"name": self.variant, **VARIANTS[self.variant], **quick}


def run_demo(out: Path, *, quick: bool = False, force: bool = False, jobs: int = 2) -> Path:
    """Runs the demo into the folder `out` and returns the path of its report.

    Raises InputError if there is a report and no `force`, RunError if a run could not be carried out;
    KeyboardInterrupt on Ctrl-C, finished runs are kept.
    """
    report_path = out / "report.html"
    if report_path.exists() and not force:
        raise InputError(f"{report_path} exists; --force replaces it")
    report_path.unlink(missing_ok=True)  # it is of the runs that are about to be replaced
    plan = [Job(fabric, variant, out / fabric / variant, force, quick) for fabric in FABRICS for variant in VARIANTS]
    try:
        _run_all(plan, jobs)
    except KeyboardInterrupt:
        sys.stderr.write(f"interrupted; the runs that had begun are kept in {out}\n")
        raise
    return _write_report(out, report_path)


def scenario_path(fabric: str) -> Path:
    """The scenario file of a fabric of the demo."""
    return Path(__file__).parent / f"{fabric}.toml"


def _run_all(plan: list[Job], jobs: int) -> None:
    # Threads would do for speed, but only a process has a main thread, where Ctrl-C ends a run.
    context = get_context("spawn")
    stop = context.Event()
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_worker, initargs=(stop,))
    with pool, _bar(len(plan)) as step:
        futures: dict[Future[dict[str, Any]], Job] = {pool.submit(_run_one, job): job for job in plan}
        try:
            for future in as_completed(futures):
                job, summary = futures[future], future.result()
                if summary["status"] == "interrupted":
                    raise KeyboardInterrupt
                step(f"{job.fabric}/{job.variant}: {format_count(summary['packet_hops_per_s'])} packet hops/s")
        except BaseException:
            stop.set()  # for jobs that are with a worker already, and can not be cancelled
            pool.shutdown(cancel_futures=True)
            raise


_stop: Event
"""In a worker: nothing new is begun."""


def _start_worker(stop: Event) -> None:
    global _stop  # noqa: PLW0603 (what an initializer is for)
    _stop = stop
    _ignore_interrupts()


def _ignore_interrupts() -> None:
    """Between runs a worker has nothing to stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run_one(job: Job) -> dict[str, Any]:
    import pauseframe as pf

    if _stop.is_set():
        return {"status": "interrupted"}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        path = scenario_path(job.fabric)
        return pf.run(path, set=job.settings(), out=job.out, force=job.force, threads=1, progress=False).summary
    finally:
        _ignore_interrupts()


@contextmanager
def _bar(total: int) -> Iterator[Callable[[str], None]]:
    """Gives a function to call after each run; on a terminal it moves a bar, else it prints."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    if not console.is_terminal:
        yield console.print
        return
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("first runs under way", total=total)
        yield lambda text: progress.update(task, advance=1, description=text)


def _write_report(out: Path, path: Path) -> Path:
    from pauseframe.demo.claims import judge
    from pauseframe.report import Group, build_report, from_folder

    groups = [
        Group(title, [from_folder(out / fabric / variant) for variant in VARIANTS], text)
        for fabric, (title, text) in FABRICS.items()
    ]
    claims = judge({run.label: run for run in groups[0].runs})
    _print(groups, claims)
    return build_report(groups, path, title="TCP-Bolt and its rivals", claims=claims)


def _print(groups: list[Any], claims: list[Claim]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    for group in groups:
        has_queries = any(run.summary["queries_total"] for run in group.runs)
        table = Table(title=group.title, title_justify="left", box=None, pad_edge=False)
        table.add_column("transport", no_wrap=True)
        names = ["left", "slowdown p50", "p99", *(["queries p99.9"] if has_queries else [])]
        for name in [*names, "drops", "time-outs", "CE", "pauses"]:
            table.add_column(name, justify="right", no_wrap=" " not in name)
        for run in group.runs:
            table.add_row(run.label, *_cells(run, has_queries))
        console.print(table)
        console.print()
    table = Table(title="Claims of the paper", title_justify="left", box=None, pad_edge=False)
    for name in ("claim", "paper", "here", "verdict"):
        table.add_column(name, overflow="fold")
    for claim in claims:
        table.add_row(claim.id, claim.paper_value, claim.measured, claim.verdict)
    console.print(table)


def _cells(run: RunData, has_queries: bool) -> list[str]:
    summary = run.summary
    queries = [format_us(summary["query_fct_us"]["p999"])] if has_queries else []
    return [
        format_count(summary["flows_total"] - summary["flows_finished"]),
        format_number(summary["slowdown"]["p50"]),
        format_number(summary["slowdown"]["p99"]),
        *queries,
        *(format_count(summary[key]) for key in ("drops", "timeouts", "ecn_marks", "pfc_pauses")),
    ]
