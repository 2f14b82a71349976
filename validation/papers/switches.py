#!/usr/bin/env python3
"""Finds the settings that claims depend on: repeats experiments with a changed key; keeps switches.json.

`make switches` runs the missing rows of switches.toml; `make recount` shows the results on
docs/validation/papers.md. A row has `experiment`, `set`, `seeds` (5 by default), `claims` (the
page names them if no verdict changes) and `text`, the conclusion.
"""

import json
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TypedDict

from pauseframe.reproduce import expected
from pauseframe.reproduce.expected import Verdicts
from pauseframe.reproduce.judge import verdict_of
from pauseframe.reproduce.parts import Part
from pauseframe.reproduce.run import reproduce
from pauseframe.reproduce.spec import Experiment, Settings, find_experiments, select
from pauseframe.results.places import EXPERIMENTS
from pauseframe.terminal.text import format_number

LIST = Path(__file__).with_suffix(".toml")
KEPT = Path(__file__).with_suffix(".json")
ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Switch:
    """A row of validation/papers/switches.toml."""

    experiment: str
    set: Settings
    text: str
    seeds: int = 5
    claims: list[str] = field(default_factory=list)

    @property
    def key(self) -> str:
        """The name under which the results are kept."""
        return f"{self.experiment} {json.dumps(self.set, sort_keys=True)} {self.seeds}"


class Moved(TypedDict):
    """A part with and without the change, as medians over the same seeds."""

    part: str
    before: float | None
    after: float
    verdicts: tuple[str, str]


Kept = dict[str, dict[str, dict[str, float]]]
"""The numbers by switch, part and seed."""


def switches() -> list[Switch]:
    """The rows of switches.toml."""
    return [Switch(**row) for row in tomllib.loads(LIST.read_text(encoding="utf-8"))["switch"]]


def kept() -> Kept:
    """The results that validation/papers/switches.json stores."""
    return dict(json.loads(KEPT.read_text(encoding="utf-8"))) if KEPT.is_file() else {}


def run(switch: Switch, out: Path) -> dict[str, dict[str, float]]:
    """The numbers of all parts of the experiment, by seed."""
    (experiment,) = select(find_experiments(), switch.experiment)
    (outcome,) = reproduce([experiment], out, seeds=switch.seeds, changes=switch.set, jobs=1, progress=False)
    if outcome.failures:
        sys.exit(f"{switch.key}: {outcome.failures[0]}")
    return {
        f"{judgement.claim.id}.{number}": {str(seed): float(f"{value:.4g}") for seed, value in part.by_seed.items()}
        for judgement in outcome.judgements
        for number, part in enumerate(judgement.parts, start=1)
    }


def moved(switch: Switch, numbers: dict[str, dict[str, float]], known: Verdicts) -> Iterator[Moved]:
    """The parts whose verdict changes with the same seeds."""
    for name, part in _parts(switch).items():
        claim, _, number = name.rpartition(".")
        after = numbers.get(name, {})
        before = known.get(claim, {}).get("quick", {"parts": []})["parts"]
        same = before[int(number) - 1]["by_seed"] if before else {}
        seeds = [seed for seed in after if seed in same]
        if not after:
            continue
        then = median(same[seed] for seed in seeds) if seeds else None
        now = median(after.values())
        verdicts = "not run" if then is None else verdict_of(part, then), verdict_of(part, now)
        if verdicts[0] != verdicts[1]:
            yield Moved(part=name, before=then, after=now, verdicts=verdicts)


def _parts(switch: Switch) -> dict[str, Part]:
    (experiment,) = select(find_experiments(), switch.experiment)
    return {f"{one.id}.{n}": part for one in experiment.spec.claims for n, part in enumerate(one.parts, start=1)}


def experiment_of(switch: Switch) -> Experiment:
    """The experiment that the row changes."""
    return select(find_experiments(), switch.experiment)[0]


def lines() -> Iterator[str]:
    """The list in Markdown."""
    results, known = kept(), expected.read(EXPERIMENTS)
    for switch in switches():
        if switch.key in results:
            yield _line(switch, list(moved(switch, results[switch.key], known)))


def _line(switch: Switch, rows: list[Moved]) -> str:
    change = ", ".join(f"`{key} = {_shown(value)}`" for key, value in switch.set.items())
    moves: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        moves.setdefault(row["verdicts"], []).append(_changed(row))
    changed = [f"{' → '.join(verdicts)}: {', '.join(parts)}" for verdicts, parts in moves.items()]
    found = "; ".join(changed) or f"no change of {', '.join(switch.claims)}"
    return f"- `{switch.experiment}`, {change}: {found}. {switch.text}"


def _changed(row: Moved) -> str:
    before = "-" if row["before"] is None else format_number(row["before"], 3)
    return f"{row['part']} {before} → {format_number(row['after'], 3)}"


def _shown(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_shown(one)}" for key, one in value.items()) + " }"
    return json.dumps(value)


def main() -> int:
    """Runs the missing rows, keeps each result at once, and drops results of rows that were removed."""
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "results" / "switches"
    results = {switch.key: numbers for switch in switches() if (numbers := kept().get(switch.key)) is not None}
    for switch in switches():
        if switch.key not in results:
            sys.stderr.write(f"{switch.key}\n")
            results[switch.key] = run(switch, out)
        lines = ",\n".join(f" {json.dumps(key)}: {json.dumps(numbers)}" for key, numbers in results.items())
        KEPT.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
