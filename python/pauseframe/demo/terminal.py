"""Prints the demo on a terminal: sentence, chart, table, claims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pauseframe.reproduce.command import COLOURS, measured
from pauseframe.terminal.text import terminal_table, wide_console

if TYPE_CHECKING:
    from rich.table import Table

    from pauseframe.demo import Demo
    from pauseframe.report import Answer

BAR_CELLS = 40
"""Width of the longest bar in terminal cells."""
EIGHTHS = " ▏▎▍▌▋▊▉"


def print_demo(demo: Demo) -> None:
    """Prints the first part of the report, and the verdicts."""
    console = wide_console()
    console.print(f"\n{demo.answer.sentence}\n", highlight=False)
    console.print(_chart(demo.answer))
    console.print()
    console.print(_table(demo.answer))
    console.print(f"\n{demo.answer.wide_note} {demo.answer.note}\n", style="dim", highlight=False)
    if any(judged.verdict != "not run" for outcome in demo.outcomes for judged in outcome.judgements):
        console.print(_claims(demo))
        console.print()
    console.print(f"report: {demo.report}", highlight=False, soft_wrap=True)


def _chart(answer: Answer) -> Table:
    rows = [(bar.label, _bar(bar.share), bar.text) for bar in answer.bars]
    return terminal_table(title=answer.chart, show_header=False, rows=rows)


def _bar(share: float) -> str:
    """A bar of block characters, in steps of an eighth of a cell.

    >>> _bar(0.0625), _bar(0.006)
    ('██▌', '▎')
    """
    eighths = max(round(share * BAR_CELLS * 8), 1 if share > 0 else 0)
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def _table(answer: Answer) -> Table:
    columns = [
        {"header": head, "justify": "right" if number else "left", "overflow": "fold", "no_wrap": head != "beside TCP"}
        for number, (head, _) in enumerate(answer.heads)
    ]
    return terminal_table(*columns, rows=[list(row.values()) for row in answer.as_records()])


def _claims(demo: Demo) -> Table:
    from rich.text import Text

    columns = [
        {"header": name, "overflow": "fold", "no_wrap": name in {"claim", "verdict"}}
        for name in ("claim", "verdict", "paper", "here")
    ]
    rows = [
        (one.claim.id, Text(one.verdict, COLOURS[one.verdict]), one.claim.claimed, measured(one))
        for outcome in demo.outcomes
        for one in outcome.judgements
        if one.verdict != "not run"
    ]
    return terminal_table(*columns, title="Claims of the paper", rows=rows)
