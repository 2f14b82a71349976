"""The demo: TCP-Bolt and its rivals on the TCP-Bolt paper's fat tree and on a leaf-spine fabric.

Two experiments: that of the paper's figure 12 (`experiments/bolt/fig12.toml`, with the claim of figure 11 that the same
runs can judge), and the same transports on a fabric of today. What runs and judges the papers runs and judges them.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pauseframe._core import InputError, RunError
from pauseframe._text import format_count, format_number, format_us
from pauseframe.report import Claim, Group, build_report, from_folder
from pauseframe.reproduce.command import measured
from pauseframe.reproduce.parts import variants_named
from pauseframe.reproduce.run import STORE, Outcome, Record, plan, reproduce
from pauseframe.reproduce.spec import Experiment, Figure, Reduced, Size, find_experiments
from pauseframe.reproduce.why import UNKNOWN
from pauseframe.sweep.store import Store

if TYPE_CHECKING:
    from rich.table import Table

    from pauseframe.report import RunData
    from pauseframe.reproduce.judge import Judgement
    from pauseframe.reproduce.spec import Claim as ClaimOfPaper

VARIANTS = ("tcp", "dctcp", "tcp_dcb", "tcp_bolt", "tcp_bolt_spray")
"""Of the ten of figure 12."""
CLAIMS = ("B-M16", "B-M17", "B-M22", "B-M24")
FABRICS = {
    "fat_tree": (
        "Fat tree, partition-aggregate and background",
        "54 hosts, 10 Gb/s, base round-trip time 240 µs, 225 KB per port: the simulated network of the TCP-Bolt paper. "
        "Every host asks ten others for 2, 4 or 8 KB two hundred times a second and keeps one background flow of "
        "64 KB to 32 MB going.",
    ),
    "leaf_spine": (
        "Leaf-spine, web search at 60 % load",
        "32 hosts at 10 Gb/s under four leaves, two spines at 40 Gb/s, full bisection. Flow sizes of a web search "
        "cluster, Poisson arrivals at 60 % of the hosts' links.",
    ),
}


def experiments() -> dict[str, Experiment]:
    """The two experiments, by fabric."""
    known = {one.id: one for one in find_experiments()}
    incasts, medium = known["bolt/fig12"], known["bolt/fig11"]
    variants = {name: incasts.spec.variants[name] | {"name": name} for name in VARIANTS}
    claims = {claim.id: claim for one in (incasts, medium) for claim in one.spec.claims}
    of_paper = incasts.spec.model_copy(
        update={
            "variants": variants,
            "claims": [_of_these(claims[name]) for name in CLAIMS],
            "plots": [],
            "quick": _lasting("6 ms", workloads=2),
            "full": _lasting("150 ms", workloads=2),
        }
    )
    of_today = Figure(
        scenario="leaf_spine.toml",
        variants=variants,
        quick=_lasting("6 ms", workloads=1),
        full=_lasting("150 ms", workloads=1),
    )
    return {
        "fat_tree": Experiment(incasts.paper, incasts.source, of_paper),
        "leaf_spine": Experiment(incasts.paper, Path(__file__).parent / "leaf_spine.toml", of_today),
    }


def _of_these(claim: ClaimOfPaper) -> ClaimOfPaper:
    """A claim without the parts that need other transports."""
    return claim.model_copy(update={"parts": [one for one in claim.parts if {*variants_named(one)} <= {*VARIANTS}]})


def _lasting(stop: str, workloads: int) -> Reduced:
    """Flows and jobs start for so long."""
    return Reduced(seeds=1, set={f"workload.{number}.stop": stop for number in range(workloads)})


@dataclass(frozen=True)
class Demo:
    """What came of the demo."""

    report: Path
    groups: list[Group]
    """The runs, by fabric."""
    outcomes: list[Outcome]

    def records(self) -> list[Record]:
        """The verdicts on the claims."""
        return [record for outcome in self.outcomes for record in outcome.records()]


def run_demo(out: Path, *, quick: bool = False, force: bool = False, jobs: int | None = None) -> Demo:
    """Runs the demo into the folder `out` and writes its report there; runs that are there already are kept.

    Raises InputError if there is a report and no `force`, RunError if a run could not be carried out;
    KeyboardInterrupt on Ctrl-C, finished runs are kept.
    """
    path = out / "report.html"
    if path.exists() and not force:
        raise InputError(f"{path} exists; --force replaces it")
    path.unlink(missing_ok=True)  # it is of the runs that are about to be replaced
    size: Size = "quick" if quick else "full"
    plans = experiments()
    try:
        outcomes = reproduce(list(plans.values()), out, size=size, jobs=jobs, progress=True)
    except KeyboardInterrupt:
        sys.stderr.write(f"interrupted; the runs that had ended are kept in {out}, the same command does the others\n")
        raise
    if failures := [failure for outcome in outcomes for failure in outcome.failures]:
        raise RunError("; ".join(failures))
    _place(plans, size, out)
    groups = _groups(out)
    claims = [
        as_claim(judgement, outcome.told[judgement.claim.id])
        for outcome in outcomes
        for judgement in outcome.judgements
    ]
    return Demo(build_report(groups, path, title="TCP-Bolt and its rivals", claims=claims), groups, outcomes)


def _place(plans: dict[str, Experiment], size: Size, out: Path) -> None:
    """Makes OUT/FABRIC/VARIANT the results folder of each run."""
    store = Store(out / STORE)
    for fabric, experiment in plans.items():
        for cell in plan(experiment, size, [1]):
            store.place(cell.run.key, out / fabric / cell.variant)


def _groups(out: Path) -> list[Group]:
    return [
        Group(title, [from_folder(out / fabric / variant) for variant in VARIANTS], text)
        for fabric, (title, text) in FABRICS.items()
    ]


def as_claim(judgement: Judgement, why: str = "") -> Claim:
    """A judgement as the report of runs shows it; `why` with its numbers, left out where the demo has none."""
    bands = "; ".join(f"{part.part.title} {part.part.band_text}" for part in judgement.parts)
    claim = judgement.claim
    notes = "".join(f" {part.part.title}: {part.note}." for part in judgement.parts if part.note)
    return Claim(
        id=claim.id,
        text=claim.text,
        paper_value=claim.claimed,
        measured=measured(judgement),
        verdict=_in_words(judgement),
        why=f"Band: {bands}.{notes} {why if UNKNOWN not in why else ''}".strip(),
    )


def _in_words(judgement: Judgement) -> str:
    """The verdict; without one, whether numbers are missing or only samples."""
    if judgement.verdict != "not run":
        return judgement.verdict
    numbers_there = all(part.by_seed for part in judgement.parts)
    return "no verdict: too few samples" if numbers_there else "not measured"


def tables(demo: Demo) -> list[Table]:
    """For a terminal: one per fabric, and the claims."""
    from rich.table import Table

    claims = Table(title="Claims of the paper", title_justify="left", box=None, pad_edge=False)
    for name in ("claim", "paper", "here", "verdict"):
        claims.add_column(name, overflow="fold")
    for outcome in demo.outcomes:
        for one in outcome.judgements:
            claims.add_row(one.claim.id, one.claim.claimed, measured(one), _in_words(one))
    return [*map(_group_table, demo.groups), claims]


def _group_table(group: Group) -> Table:
    from rich.table import Table

    has_queries = any(run.summary["queries_total"] for run in group.runs)
    table = Table(title=group.title, title_justify="left", box=None, pad_edge=False)
    table.add_column("transport", no_wrap=True)
    names = ["left", "slowdown p50", "p99", *(["queries p99.9"] if has_queries else [])]
    for name in [*names, "drops", "timeouts", "CE", "pauses"]:
        table.add_column(name, justify="right", no_wrap=" " not in name)
    for run in group.runs:
        table.add_row(run.label, *_cells(run, has_queries))
    return table


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
