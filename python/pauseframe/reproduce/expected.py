"""The verdicts that are known: `experiments/verdicts.json`, one entry per claim, for three master seeds.

`pauseframe reproduce all --record` writes it, `--expect` compares with it, the pages show it. Reduced size only.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypedDict

from pauseframe import RunError
from pauseframe._files import write_text
from pauseframe._text import format_number

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pauseframe.reproduce.run import Record

NAME = "verdicts.json"
SEEDS = (1, 2, 3)


class Known(TypedDict):
    """What is known of a claim."""

    verdicts: list[str]
    """One for each of SEEDS."""
    measured: list[float | None]
    """With the first of them."""


def read(folder: Path) -> dict[str, Known]:
    """By claim. Empty where there is no such file."""
    path = folder / NAME
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError) as error:
        raise RunError(f"{path}: {error}; write it anew with pauseframe reproduce all --record") from error


def write(folder: Path, by_seed: Sequence[Sequence[Record]]) -> Path:
    """Puts the records of all seeds beside the experiments; claims that were not run now keep their entries."""
    known = read(folder)
    for records in zip(*by_seed, strict=True):
        measured = [None if value is None else float(f"{value:.4g}") for value in records[0]["measured"]]
        known[records[0]["id"]] = {"verdicts": [record["verdict"] for record in records], "measured": measured}
    lines = ",\n".join(f" {json.dumps(claim)}: {json.dumps(known[claim])}" for claim in sorted(known))
    return write_text(folder / NAME, f"{{\n{lines}\n}}\n")


def changes(known: Mapping[str, Known], records: Sequence[Record]) -> list[str]:
    """A line for each claim whose verdict is not the known one of the first seed, with the numbers then and now."""
    lines = []
    for record in records:
        before = known.get(record["id"])
        if before is None:
            lines.append(f"{record['id']}: {record['verdict']}, not known before")
        elif before["verdicts"][0] != record["verdict"]:
            lines.append(
                f"{record['id']}: was {before['verdicts'][0]} ({_numbers(before['measured'])}), is now "
                f"{record['verdict']} ({_numbers(record['measured'])}); claimed: {record['claimed']}"
            )
    return lines


def stability(known: Mapping[str, Known], claim: str) -> str:
    """What the verdicts of the three seeds say, in words; empty if they are not known."""
    if claim not in known:
        return ""
    verdicts = known[claim]["verdicts"]
    if len(set(verdicts)) == 1:
        return f"{verdicts[0]} with each of {len(verdicts)} master seeds"
    counts = ", ".join(f"{one} with {verdicts.count(one)}" for one in dict.fromkeys(verdicts))
    return f"{counts} of {len(verdicts)} master seeds"


def _numbers(values: Sequence[float | None]) -> str:
    return ", ".join("-" if value is None else format_number(value, 3) for value in values)
