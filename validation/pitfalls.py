#!/usr/bin/env python3
"""Writes docs/pitfalls.md and its figures: docs/pitfalls/page.md.in with the numbers of verdicts.json.

Run `make pitfalls` after `pauseframe reproduce --record`; tests/test_reproduce.py compares the output.
"""

import sys
import tempfile
from pathlib import Path

from pauseframe.reproduce import expected, plots, why
from pauseframe.reproduce.run import Outcome, reproduce
from pauseframe.reproduce.spec import find_experiments, select
from pauseframe.results import places

DOCS = Path(__file__).parents[1] / "docs"
EXPERIMENTS = ("bolt/queueing", "bolt/fig02", "bolt/fig02_three", "bolt/fig04", "bolt/fig07")
SEEDS = 1
"""Figures show one seed, because a median of time series is not a time series of a run."""


def text() -> str:
    """The text of the page with its numbers."""
    known = expected.read(places.EXPERIMENTS)
    return why.Numbers({}, known, "quick", []).fill((DOCS / "pitfalls" / "page.md.in").read_text(encoding="utf-8"))


def outcomes(out: Path) -> list[Outcome]:
    """The results that the figures show; runs in `out` are kept."""
    experiments = find_experiments()
    return reproduce([select(experiments, name)[0] for name in EXPERIMENTS], out, seeds=SEEDS, progress=False)


def main() -> int:
    """Writes the page and its figures."""
    (DOCS / "pitfalls.md").write_text(text(), encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        for outcome in outcomes(Path(folder)):
            for index, plot in enumerate(outcome.experiment.spec.plots, start=1):
                drawn = plots.figure(outcome.experiment, plot, outcome.points)
                path = DOCS / "pitfalls" / f"{outcome.experiment.name}-{index}.svg"
                plots.save(drawn, plot.title or outcome.experiment.title, path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
