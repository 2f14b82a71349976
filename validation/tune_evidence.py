#!/usr/bin/env python3
"""Tests the answers of docs/how-to/tune.md on seeds that no search has used, and compares them with random search.

    validation/tune_evidence.py unseen tune/incast_timers.toml --out FOLDER
    validation/tune_evidence.py random tune/ecn_before_pfc.toml --set workload.0.stop="1 ms" --out FOLDER

`pauseframe example tune` writes these files. `unseen` counts how many of 20 further seeds lie in the printed prediction
interval and keep the constraints. `random` repeats the search and a random search with as many runs, for ten seeds of
the search, and compares their results on the seeds of the search: the best value, or the area that the front dominates
(hypervolume).
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from pauseframe.cli._common import changes_of
from pauseframe.sweep.incremental import IncrementalSweep
from pauseframe.sweep.plan import Source
from pauseframe.tune.search import Search, Trial
from pauseframe.tune.spec import Objective, spec_from_table
from pauseframe.tune.study import Study, carry_out, prepare
from pauseframe.tune.trials import Simulations, broken_seeds, per_seed

FURTHER = 20
REPETITIONS = 10
TIE = 0.01
"""Results that differ by a smaller share of the larger one are a tie."""
BEYOND = 1.1
"""Reference corner of the hypervolume, with the range of each objective over all fronts scaled to 1."""


def main() -> None:
    """Reads the command line, and runs one of the two tests."""
    options = _options()
    source = Source.read(options.file)
    source.set(changes_of(options.set))
    table = source.tune | {name: json.loads(value) for name, value in (one.split("=", 1) for one in options.tune)}
    study = prepare(source, spec_from_table(table))
    (unseen if options.what == "unseen" else beside_random)(study, options.out, options.jobs)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["unseen", "random"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--set", action="append", default=[], metavar="PATH=VALUE")
    parser.add_argument("--tune", action="append", default=[], metavar="KEY=JSON", help="a key of [tune]")
    parser.add_argument("--jobs", type=int)
    return parser.parse_args()


def unseen(study: Study, out: Path, jobs: int | None) -> None:
    """Prints, for each objective, how many further seeds its prediction interval contains."""
    tuning = carry_out(study, out=out / "search", jobs=jobs, play=False, progress=False)
    chosen = tuning.answer.recommended
    if chosen is None:
        sys.exit(f"nothing recommended: {tuning.record['notes']}")
    last = max(tuning.answer.seeds["held_out"]) + 10_000
    seeds = range(last + 1, last + 1 + FURTHER)
    runs = IncrementalSweep(out / "unseen", jobs=jobs)
    try:
        lab = Simulations(study.source, study.spec, runs)
        setting = lab.prepare(chosen.setting.changes)
        lab.measure([(setting, seeds)])
    finally:
        runs.close()
    print(f"{study.name}: {tuning.recommended}, {tuning.record['cost']['runs']} runs")
    for objective, interval in zip(study.spec.objectives, chosen.predictions, strict=True):
        low, high = interval.low, interval.high
        values = per_seed(setting, objective, tuning.answer.scale, study.spec)
        inside = sum(low <= values[seed] <= high for seed in seeds)
        print(f"  {objective.metric.text}: {inside} of {FURTHER} in {low:.6g} to {high:.6g}")
    kept = FURTHER - len(broken_seeds(setting, study.spec) & set(seeds))
    print(f"  constraints kept in {kept} of {FURTHER}, {len(setting.failures)} runs failed", flush=True)


def beside_random(study: Study, out: Path, jobs: int | None) -> None:
    """Prints the results of both searches in each repetition, and the number of wins, ties and losses of the search."""
    runs = IncrementalSweep(out / "random", jobs=jobs)
    found = []
    try:
        lab = Simulations(study.source, study.spec, runs)
        for number in range(1, REPETITIONS + 1):
            study.spec.search_seed = number
            seeds = study.seeds["search"]
            ours = Search(lab, study.parameters, study.starts, seeds)
            ours.run()
            other = Search(lab, study.parameters, [], seeds, trials=len(ours.trials), random=True)
            other.run()
            found.append((ours, other))
            print(f"{number}: {_best(ours, study)} | random {_best(other, study)}", flush=True)
    finally:
        runs.close()
    results = scores(found, study.spec.objectives)
    for number, pair in enumerate(results, 1):
        print(f"{number}: {pair[0]:.4g}, random {pair[1]:.4g}")
    counted = Counter(verdict(*pair) for pair in results)
    print(f"{study.name}: {counted['win']} wins, {counted['tie']} ties, {counted['loss']} losses", flush=True)


def complete(found: Search) -> list[Trial]:
    """The settings that keep the constraints in all seeds of the search, each once."""
    return list({one.setting.name: one for one in found.trials if one.state == "complete"}.values())


def _best(found: Search, study: Study) -> object:
    if len(study.spec.objectives) > 1:
        return f"{len(complete(found))} settings that keep the constraints"
    sign = study.spec.objectives[0].sign
    best = min(complete(found), key=lambda one: sign * one.values[0], default=None)
    return best and (best.setting.changes, best.values)


def scores(found: Sequence[tuple[Search, Search]], objectives: Sequence[Objective]) -> list[list[float]]:
    """The scores of each pair of outcomes: the negative of the best value, or the hypervolume; larger is better."""
    signs = [one.sign for one in objectives]
    fronts = [[[_signed(one.values, signs) for one in complete(outcome)] for outcome in pair] for pair in found]
    if len(signs) == 1:
        return [[-min((point[0] for point in front), default=float("inf")) for front in pair] for pair in fronts]
    everything = _front([point for pair in fronts for front in pair for point in front])
    low = [min(point[n] for point in everything) for n in (0, 1)]
    span = [max(point[n] for point in everything) - low[n] or 1.0 for n in (0, 1)]

    def scaled(front: list[list[float]]) -> list[list[float]]:
        return [[(point[n] - low[n]) / span[n] for n in (0, 1)] for point in front]

    return [[hypervolume(scaled(front)) for front in pair] for pair in fronts]


def _signed(values: Sequence[float], signs: Sequence[float]) -> list[float]:
    return [sign * value for sign, value in zip(signs, values, strict=True)]


def _front(points: Sequence[Sequence[float]]) -> list[list[float]]:
    """The non-dominated points of two objectives, sorted by the first objective."""
    front: list[list[float]] = []
    for one in sorted(map(list, points)):
        if not front or one[1] < front[-1][1]:
            front.append(one)
    return front


def hypervolume(points: Sequence[Sequence[float]]) -> float:
    """The area that points of two objectives dominate, smaller values being better, up to the corner `BEYOND`."""
    area, height = 0.0, BEYOND
    for x, y in _front(points):
        if x < BEYOND and y < height:
            area += (BEYOND - x) * (height - y)
            height = y
    return area


def verdict(ours: float, other: float) -> str:
    """The result of the search against the other search: win, tie or loss."""
    if abs(ours - other) <= TIE * max(abs(ours), abs(other)):
        return "tie"
    return "win" if ours > other else "loss"


if __name__ == "__main__":
    main()
