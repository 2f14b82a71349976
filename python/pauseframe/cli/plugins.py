"""The commands `cc`: user-defined congestion controls."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pauseframe.cli._common import (
    AsJson,
    Force,
    Open,
    Quiet,
    Set,
    changes_of,
    is_own_page,
    out_option,
    print_json,
    print_table,
    say,
    show_page,
)
from pauseframe.cli._errors import NOT_DONE
from pauseframe.cli._options import PlainTyper

if TYPE_CHECKING:
    from pauseframe.plugins.check import Checked
    from pauseframe.report import Check

commands = PlainTyper()
cc = commands.group("cc", "Check and try congestion controls of your own.")


@cc.command(epilog="Example: pauseframe cc check mine.py --open")
def check(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Python files or shared libraries. This runs their code.")
    ],
    out: Annotated[Path | None, out_option("Report [default: results/cc-NAME.html, NAME of the first file].")] = None,
    set_: Set = None,
    contract: Annotated[bool, typer.Option("--contract", help="Check the contract only; simulate nothing.")] = False,
    force: Force = False,
    open_: Open = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Check a congestion control against the contract, and compare it with built-in ones.

    The built-in algorithms keep the same contract. A control of TCP is compared with CUBIC and DCTCP: one flow, two
    flows, an incast in a lossy and in a lossless network, and a fat tree with the flow sizes of a web search cluster.
    A control of queue pairs is compared with DCQCN and Swift: one flow, two flows, and an incast of 16.
    """
    from pauseframe._core import InputError
    from pauseframe.files.atomic import page_path
    from pauseframe.plugins.check import check as run_check

    target = None if contract else out or Path("results") / f"cc-{files[0].stem.removeprefix('lib')}.html"
    if target is not None:
        page_path(target)
    if target is not None and target.exists() and not force and not is_own_page(target):
        raise InputError(f"{target} exists: name another file with --out, or replace it with --force")
    tell = None if quiet or as_json else say
    show_rules = None if as_json else partial(_show_rules, quiet=quiet)
    changes = changes_of(set_ or [])
    checked = run_check(files, out=target, contract_only=contract, set=changes, tell=tell, show_rules=show_rules)
    if as_json:
        print_json(_record(checked))
    else:
        _show(checked, quiet)
    if open_ and checked.report is not None:
        show_page(checked.report)
    if not checked.kept:
        raise typer.Exit(NOT_DONE)


def _record(checked: Checked) -> dict[str, object]:
    return {
        "kept": checked.kept,
        "rules": [{"control": one.subject, "rule": one.rule, "broken": one.broken} for one in checked.rules],
        "runs": {
            scenario: {label: run.summary for label, run in of_control.items()}
            for scenario, of_control in checked.runs.items()
        },
        "report": None if checked.report is None else str(checked.report),
    }


def _show_rules(rules: list[Check], quiet: bool) -> None:
    from pauseframe.plugins.errors import place_of_method

    reasons: dict[str, str] = {}
    for one in rules:
        if one.broken is not None:
            place = "" if " raised " in one.broken else place_of_method(one.broken)
            why = reasons.get(one.broken) or one.broken + (f" ({place})" if place else "")
            print(f"BROKEN {one.subject}, rule {one.rule}: {one.demand}: {why}")
            reasons.setdefault(one.broken, f"as rule {one.rule}")
        elif not quiet:
            print(f"ok     {one.subject}, rule {one.rule}: {one.demand}")
    sys.stdout.flush()


def _show(checked: Checked, quiet: bool) -> None:
    if not quiet and checked.runs:
        print()
        _show_runs(checked)
    if checked.report is not None:
        print(f"report: {checked.report}")


def _show_runs(checked: Checked) -> None:
    from pauseframe.plugins.check import key_figures
    from pauseframe.results.percentiles import explanation
    from pauseframe.terminal.text import terminal_table

    marks = ""
    for scenario, runs in checked.runs.items():
        figures = {label: key_figures(run) for label, run in runs.items()}
        names = [{"header": name, "justify": "right", "no_wrap": True} for name in next(iter(figures.values()))]
        rows = [(label, *row.values()) for label, row in figures.items()]
        first = {"header": "", "style": "dim", "no_wrap": True}
        print_table(terminal_table(first, *names, title=scenario.replace("_", " "), rows=rows))
        print()
        cells = [cell for of_run in figures.values() for cell in of_run.values()]
        marks = marks or explanation(cells)
    if marks:
        print(marks)
