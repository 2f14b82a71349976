"""Prints the demo on a terminal: sentence, chart, table, claims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

from pauseframe._text import wide_console
from pauseframe.reproduce.command import COLOURS, measured

if TYPE_CHECKING:
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
    console.print(f"\n{demo.answer.note}\n", style="dim", highlight=False)
    if any(judged.verdict != "not run" for outcome in demo.outcomes for judged in outcome.judgements):
        console.print(_claims(demo))
        console.print()
    console.print(f"report: {demo.report}", highlight=False, soft_wrap=True)


def _chart(answer: Answer) -> Table:
    table = Table(title=answer.chart, title_justify="left", show_header=False, box=None, pad_edge=False)
    for bar in answer.bars:
        table.add_row(bar.label, _bar(bar.share), bar.text)
    return table


def _bar(share: float) -> str:
    """A bar of block characters, in steps of an eighth of a cell.

    >>> _bar(0.0625), _bar(0.006)
    ('██▌', '▎')
    """
    eighths = max(round(share * BAR_CELLS * 8), 1 if share > 0 else 0)
    return "█" * (eighths // 8) + EIGHTHS[eighths % 8].strip()


def _table(answer: Answer) -> Table:
    table = Table(box=None, pad_edge=False)
    for number, (head, _) in enumerate(answer.heads):
        table.add_column(head, justify="right" if number else "left", overflow="fold", no_wrap=head != "beside TCP")
    for name, cells in answer.rows:
        table.add_row(name, *(f"{text} ({small})" if small else text for text, small in cells))
    return table


def _claims(demo: Demo) -> Table:
    table = Table(title="Claims of the paper", title_justify="left", box=None, pad_edge=False)
    for name in ("claim", "verdict", "paper", "here"):
        table.add_column(name, overflow="fold", no_wrap=name in {"claim", "verdict"})
    for outcome in demo.outcomes:
        for judged in outcome.judgements:
            if judged.verdict != "not run":
                verdict = f"[{COLOURS[judged.verdict]}]{judged.verdict}[/]"
                table.add_row(judged.claim.id, verdict, judged.claim.claimed, measured(judged))
    return table
