"""Fills results into the texts that explain why a claim differs; the texts name the numbers.

| in the text | what |
|---|---|
| `{B-M17.1}` | the number of the first part of B-M17 |
| `{B-M17.1 %}` | that number as a percentage |
| `{medium_p99|dctcp|bin=1-4 MB}` | a metric of the experiment: of a variant, at these keys |

Numbers are medians over seeds with three digits. For claims that the current call did not run, the texts show recorded
numbers.
"""

from __future__ import annotations

import re
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pauseframe.terminal.text import format_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pauseframe.reproduce.expected import Verdicts
    from pauseframe.reproduce.judge import Judgement
    from pauseframe.reproduce.points import Point
    from pauseframe.reproduce.spec import Size

NAMED = re.compile(r"\{([^{}]+)\}")
PART = re.compile(r"([A-Z]-[A-Z]?\d+(?:-[\w-]+)?)\.(\d+)")
UNKNOWN = "?"
"""Text that replaces a missing number."""


@dataclass(frozen=True)
class Numbers:
    """The numbers that explanatory texts may name."""

    judgements: Mapping[str, Judgement]
    known: Verdicts
    size: Size
    points: Sequence[Point]

    def fill(self, text: str) -> str:
        """Replaces the placeholders in a text by numbers."""
        return NAMED.sub(self._number, text)

    def _number(self, found: re.Match[str]) -> str:
        name, _, form = found[1].rpartition(" ") if found[1].endswith(" %") else (found[1], "", "")
        part = PART.fullmatch(name)
        value = self._of_part(part[1], int(part[2])) if part else self._of_metric(name)
        if value is None:
            return UNKNOWN
        return f"{format_number(100 * value, 3)} %" if form else format_number(value, 3)

    def _of_part(self, claim: str, number: int) -> float | None:
        if claim in self.judgements and self.judgements[claim].parts[number - 1].values:
            return statistics.median(self.judgements[claim].parts[number - 1].values)
        entry = self.known.get(claim, {}).get(self.size)
        return entry["parts"][number - 1]["median"] if entry and number <= len(entry["parts"]) else None

    def _of_metric(self, name: str) -> float | None:
        metric, variant, *keys = name.split("|")
        wanted = dict(key.split("=", 1) for key in keys)
        values = [
            point.value
            for point in self.points
            if (point.metric, point.variant) == (metric, variant)
            and point.value is not None
            and all(str(point.keys.get(key)) == value for key, value in wanted.items())
        ]
        return statistics.median(values) if values else None


def names(text: str) -> list[str]:
    """The name in a placeholder, without its format."""
    return [found.removesuffix(" %") for found in NAMED.findall(text)]
