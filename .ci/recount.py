#!/usr/bin/env python3
"""docs/validation/papers.md and README's line about it: the verdicts of verdicts.json, counted.

`make recount`, after `pauseframe reproduce --record`; tests/test_reproduce.py compares.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from pauseframe._text import format_number
from pauseframe.reproduce import expected, scan
from pauseframe.reproduce.expected import Known
from pauseframe.reproduce.judge import VERDICTS, Verdict
from pauseframe.reproduce.report import scan_state
from pauseframe.reproduce.spec import Claim, Experiment, find_experiments, shipped_experiments

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "validation" / "papers.md"
README = ROOT / "README.md"
LINE = re.compile(r"(?<=<!-- make recount -->\n).*\n")
PAPERS = {
    "bolt": "TCP-Bolt (INFOCOM 2014)",
    "cee": "Short and fat (HOTI 2011)",
    "judd": "Judd (NSDI 2015)",
    "repro": "DCTCP on a testbed",
    "dctcp": "DCTCP (SIGCOMM 2010), recalled",
}
Judged = tuple[Experiment, Claim, Known | None]
HEAD = """<!-- Written by `make recount`; do not edit. -->
# Beside the papers

Every claim of the papers has its bands in a table of their own (`experiments/claims.csv`), and there is [one
rule](../how-to/reproduce-papers.md#verdicts): *reproduced* is the median of five seeds in its band, *shape
only* is within a factor of 2 of the paper's number with the same sign and on the same side of 1, and a claim
has the verdict of its worst part. These are the verdicts at the reduced size, of the seeds 1 to 5; those of
DCTCP's own paper rest on numbers recalled, not read.
"""


def judged() -> list[Judged]:
    """Every claim with what is known of it."""
    known = expected.read(shipped_experiments())
    return [
        (one, claim, known.get(claim.id, {}).get("quick")) for one in find_experiments() for claim in one.spec.claims
    ]


def page(claims: list[Judged]) -> str:
    """The whole page."""
    parts = [HEAD, *counts(claims), *scanned(), *differing(claims), *edges(claims), *loosened(claims)]
    return "\n".join(parts) + "\n"


def readme_line(claims: list[Judged]) -> str:
    """What README says of it."""
    tally = Counter(map(verdict, claims))
    waiting = f", and {tally['not run']} are not recorded yet" if tally["not run"] else ""
    return (
        f"Of {len(claims)} claims of the papers {tally['reproduced']} are reproduced and {tally['shape only']} have "
        "the right shape, by [one strict rule](docs/validation/papers.md); "
        f"{tally['differs']} differ, each with the reason{waiting}.\n"
    )


def verdict(one: Judged) -> Verdict:
    """Of a claim; what was never recorded was not run."""
    return "not run" if one[2] is None else one[2]["verdict"]


def counts(claims: list[Judged]) -> Iterator[str]:
    """A row for each paper."""
    yield f"\n| paper | claims | {' | '.join(VERDICTS)} | reproduced | or in shape |"
    yield "|---|" + "---|" * (len(VERDICTS) + 3)
    for key, name in PAPERS.items():
        yield _counted(name, (one for one in claims if one[0].key == key))
    yield _counted("all", claims)


def _counted(name: str, claims: Iterable[Judged]) -> str:
    tally = Counter(map(verdict, claims))
    total = sum(tally.values())
    shares = tally["reproduced"] / total, (tally["reproduced"] + tally["shape only"]) / total
    numbers = [total, *(tally[one] for one in VERDICTS), *(f"{share:.0%}" for share in shares)]
    return f"| {name} | {' | '.join(map(str, numbers))} |"


def scanned() -> Iterator[str]:
    """How far the joint scans have come."""
    for one in find_experiments():
        if one.spec.stages:
            yield f"\nJoint scan `{one.id}`: {scan_state(one, scan.read(one.known_scan))}"


def differing(claims: list[Judged]) -> Iterator[str]:
    """What is not reproduced, and why."""
    yield "\n## What is not reproduced, and why\n\n| claim | paper | here | verdict | why |\n|---|---|---|---|---|"
    for _, claim, known in claims:
        if known is not None and known["verdict"] != "reproduced":
            pairs = zip(claim.parts, known["parts"], strict=False)
            missed = [(part, found) for part, found in pairs if found["verdict"] != "reproduced"]
            here = "; ".join(f"{part.title}: {_number(found['median'])}" for part, found in missed)
            cells = claim.text, claim.claimed, here, known["verdict"], known["why"]
            yield f"| {claim.id} {' | '.join(map(_cell, cells))} |"


def edges(claims: list[Judged]) -> Iterator[str]:
    """Numbers that other seeds may judge otherwise."""
    yield "\n## At the edge\n\nFive other seeds may well give these numbers another verdict.\n"
    yield "| part | here | band |\n|---|---|---|"
    for _, claim, known in claims:
        pairs = zip(claim.parts, known["parts"] if known is not None else [], strict=False)
        for number, (part, found) in enumerate(pairs, start=1):
            if found["at_edge"]:
                low, high = found["interval"] or (None, None)
                here = f"{_number(found['median'])} ({_number(low)} to {_number(high)})"
                yield f"| {claim.id}.{number} {_cell(part.title)} | {here} | {part.band_text} |"


def loosened(claims: list[Judged]) -> Iterator[str]:
    """Bands and measures that are not those of the table."""
    yield "\n## Bands that are not the table's\n\n| part | band | why |\n|---|---|---|"
    for _, claim, _ in claims:
        for number, part in enumerate(claim.parts, start=1):
            if part.instead:
                yield f"| {claim.id}.{number} {_cell(part.title)} | {part.band_text} | {_cell(part.instead)} |"


def _number(value: float | None) -> str:
    return "-" if value is None else format_number(value, 3)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def main() -> int:
    """Writes page and line."""
    claims = judged()
    PAGE.write_text(page(claims), encoding="utf-8")
    README.write_text(LINE.sub(readme_line(claims), README.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
