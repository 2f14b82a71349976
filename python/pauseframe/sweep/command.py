"""What the commands `sweep` and `compare` do with their arguments."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pauseframe._files import write_text
from pauseframe._problems import failure, problem
from pauseframe.sweep.plan import Source
from pauseframe.sweep.run import carry_out
from pauseframe.sweep.spec import split_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pauseframe.sweep.results import Sweep


def run_sweep(
    file: Path, settings: Sequence[str], seeds: str | None, shard: str | None, *, quiet: bool, **options: Any
) -> Sweep:
    """`pauseframe sweep`. Raises ScenarioError for what is wrong with the sweep or any of its runs."""
    source = Source.read(Path(file))
    for item in settings:
        path, equals, text = (part.strip() for part in item.partition("="))
        values = split_values(text)
        if not equals or not path or not values:
            raise failure([problem("--set", item, "is not of the form PATH=VALUE or PATH=V1,V2")])
        value = values[0]
        if len(values) > 1 or path in source.spec.axes:
            source.vary({path: values})
        elif isinstance(value, dict) and {"from", "to", "steps"} <= set(value):
            source.vary({path: value})
        else:
            source.set({path: value})
    source.vary(None, seeds=None if seeds is None else _seeds(seeds))
    plan = source.plan()
    for warning in plan.warnings:
        sys.stderr.write(f"warning: {warning}\n")
    return carry_out(plan, shard=_shard(shard), progress=not quiet, **options)


def show_comparison(
    folders: Sequence[Path],
    by: str | None,
    metrics: Sequence[str] | None,
    level: float,
    *,
    csv: Path | None,
    latex: Path | None,
    report: Path | None,
) -> None:
    """`pauseframe compare`."""
    from rich.console import Console

    from pauseframe.sweep import tables
    from pauseframe.sweep.compare import compare

    comparison = compare(folders, by=by, metrics=metrics or None, level=level)
    if csv is not None:
        write_text(csv, tables.csv_text(comparison))
    if latex is not None:
        write_text(latex, tables.latex_text(comparison))
    if report is not None:
        from pauseframe.report.sweep import build_sweep_report

        build_sweep_report(comparison, report)
    console = Console()
    if not console.is_terminal:
        console = Console(width=240)
    for table in tables.terminal_tables(comparison):
        console.print(table)
        console.print()
    console.print(tables.note(comparison), markup=False, highlight=False)
    if caution := tables.caution(comparison):
        console.print(caution, markup=False, highlight=False)


def _seeds(text: str) -> int | list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        raise failure([problem("--seeds", text, "must be how many, or a list: 3,5,8")]) from None
    return numbers if "," in text else numbers[0]


def _shard(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    index, _, count = text.partition("/")
    if not (index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
        raise failure([problem("--shard", text, "must be I/N, with I from 1 to N")])
    return int(index), int(count)
