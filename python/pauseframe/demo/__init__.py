"""The demo: TCP-Bolt and four other transports on the TCP-Bolt paper's fat tree, and on a modern leaf-spine fabric.

The runs on the fat tree are those of `bolt/fig11` and `bolt/fig12` at reduced size, with the same seeds. The demo shows
every claim of the two figures that these five transports can decide; no claim is selected for its outcome.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pauseframe._core import InputError, RunError
from pauseframe.demo.answer import answer
from pauseframe.files.lock import locked
from pauseframe.report import Claim, Group, Player, build_report, from_folder
from pauseframe.reproduce.command import measured
from pauseframe.reproduce.parts import variants_named
from pauseframe.reproduce.run import STORE, plan, refuse_foreign, reproduce
from pauseframe.reproduce.spec import Experiment, Figure, Reduced, Size, find_experiments
from pauseframe.reproduce.why import UNKNOWN
from pauseframe.sweep.store import Store
from pauseframe.terminal.standard import write_note
from pauseframe.view import from_folder as playback_of
from pauseframe.view import view_page

if TYPE_CHECKING:
    from pauseframe.report import Answer, RunData
    from pauseframe.reproduce.judge import Judgement
    from pauseframe.reproduce.run import Cell, Outcome, Record
    from pauseframe.reproduce.spec import Claim as ClaimOfPaper
    from pauseframe.scenario.plain import Settings

VARIANTS = ("tcp", "dctcp", "tcp_dcb", "tcp_bolt", "tcp_bolt_spray")
"""The demo's five of the ten transports of figure 12."""
SEEDS: dict[Size, int] = {"full": 5, "quick": 1}
PLAYED = "tcp_dcb"
"""The run that the player shows: TCP over plain PFC, whose pauses spread furthest."""
FABRICS = {
    "fat_tree": (
        "Fat tree, partition-aggregate and background",
        "54 hosts, 10 Gb/s, base round-trip time 240 us, 225 KB per port: the simulated network of the TCP-Bolt paper. "
        "Every host asks ten others for 2, 4 or 8 KB two hundred times a second and keeps one background flow of "
        "64 KB to 32 MB going. Below is the run with seed 1 of each transport.",
    ),
    "leaf_spine": (
        "Leaf-spine, web search at 60 % load",
        "32 hosts at 10 Gb/s under four leaves, two spines at 40 Gb/s, full bisection. Flow sizes of a web search "
        "cluster, Poisson arrivals at 60 % of the hosts' links, seed 1.",
    ),
}


def experiments() -> dict[str, Experiment]:
    """The two experiments by fabric, and the short run for the player."""
    known = {one.id: one for one in find_experiments()}
    incasts, medium = known["bolt/fig12"], known["bolt/fig11"]
    variants = {name: incasts.spec.variants[name] | {"name": name} for name in VARIANTS}
    # Both figures have the same runs, and their common metrics are equal.
    claims = {claim.id: claim for one in (medium, incasts) for claim in one.spec.claims if _is_decided(claim)}
    of_paper = incasts.spec.model_copy(
        update={
            "variants": variants,
            # The percentiles of the reduced size, because the percentiles of the papers' size need hours of runs.
            "metrics": {
                name: metric.model_copy(update={"take": metric.taken("quick")})
                for name, metric in (medium.spec.metrics | incasts.spec.metrics).items()
            },
            "claims": [claims[name] for name in sorted(claims)],
            "plots": [],
            "quick": _lasting("20 ms", workloads=2, seeds=SEEDS["quick"]),
            "full": incasts.size("quick").model_copy(update={"seeds": SEEDS["full"]}),
        }
    )
    of_today = Figure(
        scenario="leaf_spine.toml",
        variants=variants,
        quick=_lasting("6 ms", workloads=1),
        full=_lasting("150 ms", workloads=1),
    )
    played = _lasting("3 ms", workloads=2, more={"record.states.every": "20 us", "record.series": False})
    playback = of_paper.model_copy(
        update={"variants": {PLAYED: variants[PLAYED]}, "claims": [], "metrics": {}, "quick": played, "full": played}
    )
    return {
        "fat_tree": Experiment(incasts.paper, incasts.source, of_paper),
        "leaf_spine": Experiment(incasts.paper, Path(__file__).parent / "leaf_spine.toml", of_today),
        "playback": Experiment(incasts.paper, incasts.source.with_name("playback.toml"), playback),
    }


def _is_decided(claim: ClaimOfPaper) -> bool:
    """True if every part of a claim names only transports of the demo."""
    return all({*variants_named(part)} <= {*VARIANTS} for part in claim.parts)


def _lasting(stop: str, workloads: int, seeds: int = 1, more: Settings | None = None) -> Reduced:
    """Settings that limit how long flows and jobs start."""
    stops: Settings = {f"workload.{number}.stop": stop for number in range(workloads)}
    return Reduced(seeds=seeds, set={**stops, **(more or {})})


@dataclass(frozen=True)
class Demo:
    """The results of the demo."""

    report: Path
    answer: Answer
    groups: list[Group]
    """The runs of the first seed, by fabric."""
    outcomes: list[Outcome]

    def records(self) -> list[Record]:
        """The verdicts on the claims."""
        return [record for outcome in self.outcomes for record in outcome.records()]


def run_demo(out: Path, *, quick: bool = False, force: bool = False, jobs: int | None = None) -> Demo:
    """Runs the demo in the folder `out` and writes its report there; does not repeat finished runs.

    Raises InputError if another program's report is there and `force` is not set, RunError if a run fails, and
    KeyboardInterrupt on Ctrl-C; finished runs are kept.
    """
    path = out / "report.html"
    if path.exists() and not force and not (out / STORE).is_dir():
        raise InputError(f"{path} exists and no demo wrote it; --force overwrites it")
    refuse_foreign(out)
    with locked(out):
        return _run_demo(out, path, quick, jobs)


def _run_demo(out: Path, path: Path, quick: bool, jobs: int | None) -> Demo:
    path.unlink(missing_ok=True)  # the report describes runs that will be replaced
    size: Size = "quick" if quick else "full"
    plans = experiments()
    try:
        outcomes = reproduce(list(plans.values()), out, size=size, jobs=jobs, progress=True)
    except KeyboardInterrupt:
        write_note(f"interrupted; {out} keeps the finished runs, and the same command does the others")
        raise
    if failures := [failure for outcome in outcomes for failure in outcome.failures]:
        raise RunError("; ".join(failures))
    store = Store(out / STORE)
    cells = {fabric: plan(one, size, range(1, 1 + one.size(size).seeds)) for fabric, one in plans.items()}
    _place(cells, store, out)
    said = answer(_runs(cells["fat_tree"], store))
    groups = [
        Group(title, [from_folder(out / fabric / variant) for variant in VARIANTS], text)
        for fabric, (title, text) in FABRICS.items()
    ]
    claims, note = _claims(outcomes)
    page = build_report(
        groups,
        path,
        title="TCP-Bolt and its rivals",
        claims=claims,
        claims_note=note,
        answer=said,
        player=_player(out / "playback" / PLAYED),
    )
    return Demo(page, said, groups, outcomes)


def _place(cells: dict[str, list[Cell]], store: Store, out: Path) -> None:
    """Makes OUT/FABRIC/VARIANT the results folder of each run of the first seed."""
    for fabric, of_fabric in cells.items():
        for cell in of_fabric:
            if cell.run.seed == 1:
                store.place(cell.run.key, out / fabric / cell.variant)


def _runs(cells: list[Cell], store: Store) -> dict[str, list[RunData]]:
    """The runs of all seeds, by variant."""
    return {
        variant: [from_folder(store.folder(cell.run.key)) for cell in cells if cell.variant == variant]
        for variant in VARIANTS
    }


def _player(folder: Path) -> Player:
    title = "Play back 3 ms of TCP over plain PFC: who pauses whom, and because of which queue"
    return Player(title, view_page([playback_of(folder)]))


def _claims(outcomes: list[Outcome]) -> tuple[list[Claim], str]:
    """The judged claims, and a note on the claims that were not judged."""
    shown = [
        as_claim(judgement, outcome.told[judgement.claim.id])
        for outcome in outcomes
        for judgement in outcome.judgements
        if judgement.verdict != "not run"
    ]
    left_out = sum(len(outcome.judgements) for outcome in outcomes) - len(shown)
    note = (
        "Every claim of Figs. 11 and 12 that names only these five transports. Runs, seeds and bands are those of "
        "'pauseframe reproduce bolt' at its reduced size: a band is the range in which a number counts as reproduced."
    )
    if left_out:
        note = (
            f"{left_out} of {left_out + len(shown)} claims need more samples than this run has: without --quick the "
            "demo judges all of them."
        )
    return shown, note


def as_claim(judgement: Judgement, why: str = "") -> Claim:
    """A judgement in the report's form; `why` gets its numbers, or is left out where the demo has none."""
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
    """The verdict in words; without a verdict, whether numbers or only samples are missing."""
    if judgement.verdict != "not run":
        return judgement.verdict
    numbers_there = all(part.by_seed for part in judgement.parts)
    return "no verdict: too few samples" if numbers_there else "not measured"
