#!/usr/bin/env python3
"""Closed-form surfaces with noise, which replace the simulator in searches whose right answer is known.

    tests/tune_surfaces.py --searches 10

prints for each surface how far the answers are from the optimum, in how many of 20 unseen seeds they keep the
constraints, and the comparison with random search at equal runs.
"""

import argparse
import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from random import Random
from typing import Any

from pauseframe.tune.finals import Finals
from pauseframe.tune.metrics import Reading
from pauseframe.tune.parameters import Space
from pauseframe.tune.search import Search
from pauseframe.tune.spec import Situation, spec_from_table
from pauseframe.tune.study import Study, search
from pauseframe.tune.trials import Setting

UNSEEN = range(100_000, 100_020)
NORMAL = statistics.NormalDist()
TIE = 0.01
"""Results that differ by a smaller share are a tie."""


class Stub:
    """A laboratory whose metrics are functions of the parameters; each function is a scenario."""

    def __init__(self, spec, *surfaces):
        self.spec, self._known, self.runs = spec, {}, 0
        self._surfaces = {f"stub {number}": surface for number, surface in enumerate(surfaces)}
        spec.situations = [Situation(name, {}) for name in self._surfaces]

    def prepare(self, changes):
        setting = Setting(changes)
        return self._known.setdefault(setting.name, setting)

    def measure(self, wanted):
        for setting, seeds in wanted:
            for name, seed in [(name, seed) for name in self._surfaces for seed in seeds]:
                if (name, seed) not in setting.readings:
                    self.runs += 1
                    values = self._surfaces[name](setting.changes, seed)
                    setting.readings[name, seed] = {metric: Reading(value) for metric, value in values.items()}


def number(value: Any) -> float:
    """The number in a value with a unit."""
    return float(value.split()[0]) if isinstance(value, str) else float(value)


@dataclass
class Surface:
    """An objective and a constraint with known medians and noise."""

    parameters: dict[str, Any]
    value: Callable[[Mapping[str, Any]], float]
    """Median of the objective."""
    default: dict[str, Any]
    noise: float = 0.03
    """Relative standard deviation of a run, half of it common to all settings."""
    maximize: bool = False
    margin: Callable[[Mapping[str, Any]], float] | None = None
    """Mean excess over the constraint, in standard deviations; below 0 keeps it."""
    counts: bool = False
    """True if a broken constraint shows as a count (drops), and a kept one as 0."""
    table: dict[str, Any] = field(default_factory=dict)

    def run(self, at: Mapping[str, Any], seed: int) -> dict[str, float]:
        """The metrics of a run. An empty setting is the default."""
        at = at or self.default
        common, own = Random(f"common {seed}"), Random(f"{seed} {sorted(at.items())}")
        factor = math.exp(self.noise * (common.gauss(0, 1) + own.gauss(0, 1)) / math.sqrt(2))
        values = {"fct_us.mean": self.value(at) * factor, "drops": 0.0}
        if self.margin is not None:
            excess = self.margin(at) + (common.gauss(0, 1) + own.gauss(0, 1)) / math.sqrt(2)
            counted = 40.0 * math.exp(excess) if excess > 0 else 0.0
            values["drops"] = counted if self.counts else excess
        return values

    def kept_share(self, at: Mapping[str, Any]) -> float:
        """The share of all seeds in which a setting keeps the constraint."""
        return 1.0 if self.margin is None else NORMAL.cdf(-self.margin(at))

    def optimum(self, steps: int = 60) -> float:
        """The best median among the settings that keep the constraint in 95 % of all seeds."""
        space = Space(list(spec_from_table(self.search_table()).parameters.values()))
        steps = steps if len(space.parameters) < 3 else 30
        grid = product(*[[n / steps for n in range(steps + 1)]] * len(space.parameters))
        settings = [space.changes(point) for point in grid]
        return (max if self.maximize else min)(self.value(at) for at in settings if self.kept_share(at) >= 0.95)

    def search_table(self) -> dict[str, Any]:
        """The table of the search."""
        objective = {"maximize" if self.maximize else "minimize": "fct_us.mean"}
        limits = {} if self.margin is None else {"constraints": {"drops": 0}}
        return {"parameters": self.parameters, "objectives": [objective], **limits, **self.table}

    def study(self, seed: int) -> tuple[Study, Stub]:
        """A search of this surface, and its laboratory."""
        spec = spec_from_table(self.search_table() | {"search_seed": seed})
        assert spec.problems == []
        begin, seeds = 1, {}
        for name, count in (("search", spec.seeds), ("check", spec.check_seeds), ("held_out", spec.held_out)):
            seeds[name] = list(range(begin, begin + count))
            begin += count
        parameters = list(spec.parameters.values())
        starts = [("default", self.default)]
        return Study(None, spec, "stub", parameters, starts, self.default, [], seeds), Stub(spec, self.run)  # type: ignore[arg-type]

    def excess(self, at: Mapping[str, Any], best: float) -> float:
        """Ratio by which a setting is worse than the optimum; infinite if it breaks the constraint too often."""
        if self.kept_share(at) < 0.95:
            return math.inf
        value = self.value(at)
        return best / value if self.maximize else value / best


def log_distance(value: Any, best: float) -> float:
    """Natural logarithm of the ratio to a best value."""
    return math.log(number(value) / best)


A = {"a": {"from": "5 KB", "to": "500 KB", "scale": "log"}}
B = {"b": {"from": "100 us", "to": "100000 us", "scale": "log"}}
W = {"w": {"from": 1, "to": 64}}
X = {"x": {"from": 0.0, "to": 10.0}}
C = {"c": ["red", "green", "blue"]}


def _valley(at: Mapping[str, Any]) -> float:
    x, y = log_distance(at["a"], 40), log_distance(at["b"], 3000)
    return 1 + 2 * (x + y) ** 2 + 0.3 * (x - y) ** 2


def _two_dips(at: Mapping[str, Any]) -> float:
    x = number(at["x"])
    return 2 - 0.8 * math.exp(-(((x - 7.3) / 1.5) ** 2)) - 1.2 * math.exp(-(((x - 1.6) / 0.45) ** 2))


def _colours(at: Mapping[str, Any]) -> float:
    best = {"red": 20.0, "green": 60.0, "blue": 180.0}[at["c"]]
    height = {"red": 8.0, "green": 10.0, "blue": 6.0}[at["c"]]
    return height / (1 + log_distance(at["a"], best) ** 2)


SURFACES = {
    "bowl": Surface(A, lambda at: 1 + log_distance(at["a"], 60) ** 2, {"a": "22.5 KB"}),
    "kink": Surface(W, lambda at: 10 + abs(at["w"] - 37), {"w": 10}),
    "valley": Surface(A | B, _valley, {"a": "22.5 KB", "b": "200 us"}, noise=0.05),
    "three": Surface(
        A | X | W,
        lambda at: 1 + log_distance(at["a"], 60) ** 2 + ((at["x"] - 7) / 3) ** 2 + ((at["w"] - 12) / 16) ** 2,
        {"a": "22.5 KB", "x": 2.0, "w": 10},
        noise=0.05,
    ),
    "edge": Surface(A, lambda at: number(at["a"]), {"a": "22.5 KB"}, margin=lambda at: -25 * log_distance(at["a"], 50)),
    "edge of two": Surface(
        A | W,
        lambda at: 100 / number(at["a"]) + ((at["w"] - 12) / 12) ** 2,
        {"a": "22.5 KB", "w": 30},
        margin=lambda at: (number(at["a"]) - 80) / 3,
    ),
    "drops": Surface(
        A | B,
        lambda at: number(at["a"]) ** 0.5 * (1 + 0.3 * log_distance(at["b"], 2000) ** 2),
        {"a": "200 KB", "b": "500 us"},
        margin=lambda at: -12 * log_distance(at["a"], 40),
        counts=True,
    ),
    "plateau": Surface(
        W,
        lambda at: 1 + 0.5 * max(0, 2 - at["w"]) + 0.02 * max(0, at["w"] - 18),
        {"w": 10},
        margin=lambda at: (at["w"] - 50) / 4,
        counts=True,
        noise=0.01,
    ),
    "two dips": Surface(X, _two_dips, {"x": 5.0}, noise=0.02),
    "colours": Surface(A | C, _colours, {"a": "22.5 KB", "c": "blue"}, maximize=True, margin=lambda _: -6.0),
}


def random_setting(surface: Surface, seed: int, runs: int) -> Mapping[str, Any] | None:
    """The best setting of a random search with so many runs that passes the same held-out test."""
    study, lab = surface.study(seed)
    seeds = study.seeds["search"]
    other = Search(lab, study.parameters, [], seeds, trials=max(1, runs // len(seeds)), random=True)
    other.run()
    judge = Finals(other, surface.default, [], study.seeds)
    complete = [one for one in other.trials if one.state == "complete"]
    sign = study.spec.objectives[0].sign
    for attempt, one in enumerate(sorted(complete, key=lambda one: sign * one.values[0])):
        if judge._holds(one.setting, attempt):
            return one.setting.changes
    return None


@dataclass
class Result:
    """What a search of a surface found."""

    at: Mapping[str, Any] | None
    verdict: str
    excess: float
    """Ratio to the optimum; infinite if the setting breaks the constraint too often."""
    kept: int
    """Number of unseen seeds, of 20, that keep the constraint."""
    random_excess: float
    runs: int
    shown: bool
    """True if no printed setting that keeps the constraints is better than the recommended one."""

    @property
    def loses(self) -> bool:
        """True if random search is better beyond a tie."""
        return self.random_excess < self.excess * (1 - TIE)


def searched(name: str, seed: int) -> Result:
    """Searches a surface, and compares with the optimum and with random search at equal runs."""
    surface = SURFACES[name]
    study, lab = surface.study(seed)
    answer = search(study, lab)
    best = surface.optimum()
    chosen = answer.recommended
    runs = int(answer.cost["runs_of_search"])
    other = random_setting(surface, seed, runs)
    random_excess = math.inf if other is None else surface.excess(other, best)
    if chosen is None:
        return Result(None, answer.verdict, math.inf, 0, random_excess, runs, True)
    kept = sum(surface.run(chosen.changes, seed)["drops"] <= 0 for seed in UNSEEN)
    points = [point for one in answer.sensitivity for point in one.points if point.kept]
    shown = all(ratio >= 1 for point in points for ratio in point.ratios) or answer.around != "the recommended setting"
    return Result(
        chosen.changes, answer.verdict, surface.excess(chosen.changes, best), kept, random_excess, runs, shown
    )


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--searches", type=int, default=10, help="searches of each surface")
    parser.add_argument("names", nargs="*", default=list(SURFACES))
    options = parser.parse_args()
    for name in options.names:
        found = [searched(name, seed) for seed in range(1, options.searches + 1)]
        near = sum(one.excess <= 1.1 for one in found)
        kept = sum(one.kept >= 19 for one in found)
        lost = sum(one.loses for one in found)
        won = sum(one.random_excess * (1 - TIE) > one.excess for one in found)
        worst = max(one.excess for one in found)
        print(
            f"{name}: {near} of {len(found)} within 10 % (worst {worst:.3f}), {kept} keep the constraint; "
            f"against random {won} wins, {len(found) - won - lost} ties, {lost} losses; "
            f"{sum(one.shown for one in found)} print nothing better; "
            f"{statistics.mean(one.runs for one in found):.0f} runs",
            flush=True,
        )
        for seed, one in enumerate(found, 1):
            if one.excess > 1.1 or one.kept < 19 or one.loses or not one.shown:
                print(f"  {seed}: {one}", flush=True)


if __name__ == "__main__":
    main()
