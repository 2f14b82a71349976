"""`reproduce PAPER --search`: searches what a paper leaves open, and judges the result on seeds that it has not seen.

`[[search]]` in `paper.toml` declares each key with its range and the reason, before the first run. Keys are searched
one at a time in the experiments that they reach, with two seeds. Each key takes the value with which most claims of
its experiments are reproduced, its present one in a tie; together these values are the paper's joint set, which five
other seeds judge. The same search on orders turned round (`turned.py`) is the negative control.
"""

from __future__ import annotations

import json
import resource
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from pauseframe._core import InputError
from pauseframe.files.atomic import write_text
from pauseframe.reproduce import run
from pauseframe.reproduce.judge import judge
from pauseframe.terminal.standard import write_note

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from pydantic import JsonValue

    from pauseframe.reproduce.judge import Judgement, Verdict
    from pauseframe.reproduce.spec import Claim, Experiment, Open, Settings

SEEDS = 2
FIRST_SEED = 101
"""The search's seeds; recorded verdicts have those from 1."""
UNSEEN = 5
FIRST_UNSEEN = 201
"""The seeds that judge the joint set."""
BUDGET = 3600.0
"""Processor time of a paper's search, in seconds; without the runs that judge the joint set."""
NAME = "search.json"
SELDOM = 0.1
"""Share of the points below which a claim holds only at a certain value."""


class Found(TypedDict):
    """A point of the search: an experiment with a key changed."""

    experiment: str
    key: str
    """The key; empty for the experiment as it is."""
    value: JsonValue
    verdicts: dict[str, Verdict]


class Joint(TypedDict):
    """The joint set, and the verdicts of the seeds that the search has not seen."""

    settings: dict[str, Settings]
    """The keys of each experiment that the set changes."""
    verdicts: dict[str, Verdict]
    medians: dict[str, list[float | None]]


class Searched(TypedDict):
    """The results of a paper's search; `turned` are those of the orders turned round."""

    points: list[Found]
    joint: Joint
    turned_points: list[Found]
    turned: Joint
    missed: list[str]
    """Points for which the processor time did not suffice."""


Claims = dict[str, list["Claim"]]
"""The claims to judge, by the experiment's id."""


@dataclass(frozen=True)
class Bench:
    """What all runs of a search share."""

    out: Path
    jobs: int | None
    progress: bool | None

    def judged(
        self, one: Experiment, changes: Settings, claims: Sequence[Sequence[Claim]], *, unseen: bool = False
    ) -> list[list[Judgement]]:
        """The judgements of several lists of claims on the experiment with changed keys; runs are kept and reused."""
        seed, seeds = (FIRST_UNSEEN, UNSEEN) if unseen else (FIRST_SEED, SEEDS)
        (outcome,) = run.reproduce(
            [one], self.out, seed=seed, seeds=seeds, jobs=self.jobs, progress=self.progress, changes=changes
        )
        return [[judge(claim, outcome.points) for claim in some] for some in claims]


def search(experiments: Sequence[Experiment], turned: Claims, bench: Bench) -> Searched:
    """Searches the keys of one paper's experiments; `turned` are the orders turned round, by experiment.

    Raises InputError if the paper declares no keys.
    """
    rows = experiments[0].paper.search
    reached = [one for one in experiments if any(one.name in row.experiments for row in rows)]
    if not reached:
        raise InputError(f"{experiments[0].key}: paper.toml declares no [[search]], so that there is nothing to search")
    claims: Claims = {one.id: one.spec.claims for one in reached}
    points: list[Found] = []
    turned_points: list[Found] = []
    missed: list[str] = []
    before = _processor_time()
    for one, row, value in _plan(reached):
        key, changes = (row.key, {row.key: value} | row.also) if row else ("", {})
        if _processor_time() - before > BUDGET:
            missed.append(f"{one.name}, {key} = {json.dumps(value)}")
            continue
        write_note(f"{one.id}: {in_words(changes) or 'as it is'}")
        found, reverse = bench.judged(one, changes, [claims[one.id], turned.get(one.id, [])])
        for kept, judgements in ((points, found), (turned_points, reverse)):
            verdicts = {judgement.claim.id: judgement.verdict for judgement in judgements}
            kept.append(Found(experiment=one.name, key=key, value=value, verdicts=verdicts))
    return Searched(
        points=points,
        joint=_judge_joint(reached, claims, points, bench),
        turned_points=turned_points,
        turned=_judge_joint(reached, turned, turned_points, bench),
        missed=missed,
    )


def _plan(reached: Sequence[Experiment]) -> Iterator[tuple[Experiment, Open | None, JsonValue]]:
    """Every experiment as it is, then each value of each key in each experiment that the key reaches."""
    for one in reached:
        yield one, None, None
        for row in one.paper.search:
            if one.name in row.experiments:
                yield from ((one, row, value) for value in row.values)


def _judge_joint(reached: Sequence[Experiment], claims: Claims, points: Sequence[Found], bench: Bench) -> Joint:
    """The joint set of some claims, judged by unseen seeds in the experiments that it changes."""
    settings = joint_settings(reached[0].paper.search, points)
    joint = Joint(settings=settings, verdicts={}, medians={})
    for one in reached:
        if one.name not in settings or not claims.get(one.id):
            continue
        write_note(f"{one.id}: joint set {json.dumps(settings[one.name])}, unseen seeds")
        (judgements,) = bench.judged(one, settings[one.name], [claims[one.id]], unseen=True)
        joint["verdicts"] |= {judgement.claim.id: judgement.verdict for judgement in judgements}
        joint["medians"] |= {found.claim.id: [_short(part.median) for part in found.parts] for found in judgements}
    return joint


def joint_settings(rows: Sequence[Open], points: Sequence[Found]) -> dict[str, Settings]:
    """The best value of each key over all experiments that it reaches; a key keeps its present value in a tie."""
    settings: dict[str, Settings] = {}
    for row in rows:
        scores = [_score(row, row.key, value, points) for value in row.values]
        best = row.values[scores.index(max(scores))]
        if max(scores) > _score(row, "", None, points):
            for name in row.experiments:
                settings[name] = settings.get(name, {}) | {row.key: best} | row.also
    return settings


def _score(row: Open, key: str, value: JsonValue, points: Sequence[Found]) -> int:
    """The number of claims that are reproduced; -1 for a value that not all experiments have tried."""
    here = [
        one for one in points if one["experiment"] in row.experiments and (one["key"], one["value"]) == (key, value)
    ]
    if len(here) < len(row.experiments):
        return -1
    return sum(verdict == "reproduced" for one in here for verdict in one["verdicts"].values())


def share(searched: Searched, claim: str) -> tuple[int, int]:
    """The number of points at which a claim is reproduced, and the number of points that judged it."""
    here = [one["verdicts"][claim] for one in searched["points"] if claim in one["verdicts"]]
    return here.count("reproduced"), len(here)


def turned_round(searched: Searched) -> tuple[int, int]:
    """The number of turned orders that hold, with unseen seeds if a joint set reaches them, and the number of all."""
    verdicts = {
        claim: verdict
        for one in searched["turned_points"]
        if not one["key"]
        for claim, verdict in one["verdicts"].items()
    } | searched["turned"]["verdicts"]
    return sum(verdict == "reproduced" for verdict in verdicts.values()), len(verdicts)


def write(folder: Path, searched: Searched) -> Path:
    """Records the results beside the paper's experiments, a point a line."""
    parts = []
    for key, value in searched.items():
        rows = ",\n".join(f"  {json.dumps(one)}" for one in value) if isinstance(value, list) and value else ""
        parts.append(f' "{key}": ' + (f"[\n{rows}\n ]" if rows else json.dumps(value)))
    return write_text(folder / NAME, "{\n" + ",\n".join(parts) + "\n}\n")


def read(folder: Path) -> Searched | None:
    """The recorded results of a paper's search; None if it never ran."""
    path = folder / NAME
    found: Searched | None = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None
    return found


def in_words(settings: Mapping[str, JsonValue]) -> str:
    """Keys and values as in `--set`."""
    return ", ".join(f"`{key} = {json.dumps(value)}`" for key, value in settings.items())


def _processor_time() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
