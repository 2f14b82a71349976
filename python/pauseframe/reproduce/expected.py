"""The recorded verdicts: `experiments/verdicts.json`, an entry per claim and size with the results of each seed.

`pauseframe reproduce all --record` writes this file, `--expect` compares with it, and the pages show its verdicts.
"""

from __future__ import annotations

import json
import statistics
from typing import TYPE_CHECKING, TypedDict

from pauseframe._core import RunError
from pauseframe.files.atomic import write_text
from pauseframe.reproduce.judge import verdict_of
from pauseframe.terminal.text import format_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set
    from pathlib import Path

    from pauseframe.reproduce.judge import Judgement, Measured, Verdict
    from pauseframe.reproduce.spec import Size

NAME = "verdicts.json"


class KnownPart(TypedDict):
    """The record of a part of a claim."""

    verdict: Verdict
    by_seed: dict[str, float]
    median: float | None
    interval: list[float] | None
    held: int
    """Number of seeds whose value is in the part's band."""
    at_edge: bool
    samples: int


class Known(TypedDict):
    """The record of a claim at a size."""

    verdict: Verdict
    parts: list[KnownPart]
    why: str
    """The reason for the verdict, with its numbers; empty for reproduced claims."""


Verdicts = dict[str, dict[str, Known]]
"""Recorded verdicts by claim and size."""


def read(folder: Path) -> Verdicts:
    """Reads the recorded verdicts; empty if the file does not exist."""
    path = folder / NAME
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError) as error:
        raise RunError(f"{path}: {error}; rewrite it with pauseframe reproduce all --record") from error


def write(folder: Path, judgements: Sequence[Judgement], size: Size, told: Mapping[str, str]) -> Path:
    """Records the judgements; other claims keep their entries, and so does the other size unless its parts were others.

    `told` maps each claim to the reason for its verdict.
    """
    known = read(folder)
    for judgement in judgements:
        why = "" if judgement.verdict == "reproduced" else told[judgement.claim.id]
        entry: Known = {"verdict": judgement.verdict, "parts": [_part(one) for one in judgement.parts], "why": why}
        before = known.get(judgement.claim.id, {})
        same = {key: one for key, one in before.items() if len(one["parts"]) == len(entry["parts"])}
        known[judgement.claim.id] = same | {size: entry}
    lines = ",\n".join(f" {json.dumps(claim)}: {json.dumps(known[claim])}" for claim in sorted(known))
    return write_text(folder / NAME, f"{{\n{lines}\n}}\n")


def _part(measured: Measured) -> KnownPart:
    return {
        "verdict": measured.verdict,
        "by_seed": {str(seed): _short(value) for seed, value in measured.by_seed.items()},
        "median": None if measured.median is None else _short(measured.median),
        "interval": None if measured.interval is None else list(map(_short, measured.interval)),
        "held": measured.held,
        "at_edge": measured.at_edge,
        "samples": measured.samples,
    }


def _short(value: float) -> float:
    return float(f"{value:.4g}")


def changes(known: Verdicts, judgements: Sequence[Judgement], size: Size) -> list[str]:
    """A line for each part whose verdict differs from the recorded one of the same seeds, with both numbers."""
    lines = []
    for judgement in judgements:
        before = known.get(judgement.claim.id, {}).get(size)
        if before is None:
            lines.append(f"{judgement.claim.id}: {judgement.verdict}, not known before")
            continue
        seeds = {seed for part in judgement.parts for seed in part.by_seed}
        for number, (then, now) in enumerate(zip(before["parts"], judgement.parts, strict=False), start=1):
            line = _change(then, now, seeds)
            if line:
                lines.append(f"{judgement.claim.id}.{number}: {line}; claimed: {judgement.claim.claimed}")
        if len(before["parts"]) != len(judgement.parts):
            lines.append(f"{judgement.claim.id}: has {len(judgement.parts)} parts, had {len(before['parts'])}")
    return lines


def _change(then: KnownPart, now: Measured, seeds: Set[int]) -> str:
    """Compares the values of common seeds, or the verdicts without any; `seeds` are the seeds of the judgement."""
    shared = [seed for seed in now.by_seed if str(seed) in then["by_seed"]]
    if not now.by_seed and then["by_seed"] and seeds.isdisjoint(map(int, then["by_seed"])):
        return ""  # in both recordings, these seeds give a ratio with denominator 0
    if not shared:
        return "" if then["verdict"] == now.verdict else f"was {then['verdict']}, is now {now.verdict}"
    before = statistics.median(then["by_seed"][str(seed)] for seed in shared)
    after = statistics.median(now.by_seed[seed] for seed in shared)
    verdicts = verdict_of(now.part, before), verdict_of(now.part, _short(after))
    if verdicts[0] == verdicts[1]:
        return ""
    numbers = format_number(before, 3), format_number(after, 3)
    return f"was {verdicts[0]} ({numbers[0]}), is now {verdicts[1]} ({numbers[1]})"


def stability(known: Verdicts, claim: str, size: Size) -> str:
    """The recorded verdict of a claim in words; empty if the claim was never recorded."""
    if size not in known.get(claim, {}):
        return ""
    entry = known[claim][size]
    seeds = max((len(part["by_seed"]) for part in entry["parts"]), default=0)
    held = ", ".join(str(part["held"]) for part in entry["parts"])
    what = "its part is" if len(entry["parts"]) == 1 else "its parts are"
    edge = [str(number) for number, part in enumerate(entry["parts"], start=1) if part.get("at_edge")]
    near = f"; at the edge: part {', '.join(edge)}" if edge else ""
    return f"{entry['verdict']} over {seeds} seeds; {what} in the band with {held} of them{near}"
