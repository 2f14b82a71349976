#!/usr/bin/env python3
"""Writes docs/validation/papers.md and README's line about it: counts of the verdicts in verdicts.json.

Run `make recount` after `pauseframe reproduce --record`; tests/test_reproduce.py compares the output. The page also
states the agreement of other seeds, from each verdicts.json that `pauseframe reproduce --seed 1001 --out FOLDER`
writes:

    validation/papers/recount.py --unseen 1001 FOLDER/verdicts.json ...
"""

import json
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pauseframe.reproduce import expected, scan
from pauseframe.reproduce.expected import Known
from pauseframe.reproduce.judge import VERDICTS, Verdict
from pauseframe.reproduce.parts import Part
from pauseframe.reproduce.report import scan_state
from pauseframe.reproduce.spec import Claim, Experiment, find_experiments
from pauseframe.results.percentiles import ENOUGH_BEYOND
from pauseframe.results.places import EXPERIMENTS
from pauseframe.terminal.text import format_number

sys.path.insert(0, str(Path(__file__).parent))
import groups
import switches

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "validation" / "papers.md"
README = ROOT / "README.md"
UNSEEN = Path(__file__).parent / "unseen.json"
"""By first seed and claim: the verdicts of the parts for five seeds that the page's verdicts have not used."""
LINE = re.compile(r"(?<=<!-- make recount -->\n).*\n")
PAPERS = {
    "bolt": "TCP-Bolt (INFOCOM 2014)",
    "cee": "Short and fat (HOTI 2011)",
    "judd": "Judd (NSDI 2015)",
    "repro": "DCTCP on a testbed",
    "dctcp": "DCTCP (SIGCOMM 2010), recalled",
    "dcqcn": "DCQCN (SIGCOMM 2015), recalled",
    "hpcc": "HPCC (SIGCOMM 2019)",
}
HANGING = """
## What the verdicts depend on

Each line repeats an experiment with one key changed, on the same seeds. It has the parts whose verdict changes, with
their medians before and after, and the conclusion. `pauseframe reproduce EXPERIMENT --set KEY=VALUE` repeats one.
"""
Judged = tuple[Experiment, Claim, dict[str, Known]]
HEAD = """<!-- Written by `make recount`; do not edit. -->
# Seven papers, claim by claim

This page counts which claims of the papers the simulator reproduces, and says what differs in the others and why. A
claim is *reproduced* if the median of at least five seeds lies in the band of `experiments/claims.csv`
([the rule](../how-to/reproduce-papers.md#verdicts)), *as stated* if all settings are the paper's or our one reading of
it, and *with an unstated setting* if it takes a value that a search chose where the paper leaves it open. The mechanism
of a difference is *shown* by a run with one key changed, a variant or a count. The table is for the reduced size of the
experiments. The numbers of the DCTCP and DCQCN papers are recalled, not read.
"""
FULL = """
## At the papers' size

Short experiments have the papers' size already; the others run at that size with `--full`. Runs with `--full` and the
joint scan below have [ideal clocks](../models/clocks.md): they are older than the default of real clocks.
"""
SIZES = {"full": "the papers' size", "quick": "the reduced size"}
DIFFERING = """
## What differs

Each entry has the claim, the paper's number if it gives one, the parts that differ here, and the reason. The number of
a part is a median: for A over B of the ratio, for a change of the relative change (-0.27 is 27 % less), for an order of
the smallest ratio of neighbours, which is below 1 if they are not in order. The numbers are those of the papers' size
where the claim differs at that size. Claims with an asterisk have the right shape; where the other size reproduces a
claim, the entry names the size at which it differs.
"""


def judged() -> list[Judged]:
    """Every claim with its recorded verdicts."""
    known = expected.read(EXPERIMENTS)
    return [(one, claim, known.get(claim.id, {})) for one in find_experiments() for claim in one.spec.claims]


def page(claims: list[Judged]) -> str:
    """The text of the whole page."""
    parts = [
        HEAD,
        *groups.table(claims, PAPERS),
        *groups.opened(claims),
        *differing(claims),
        *groups.changed(),
        *full_size(claims),
        *hanging(),
        *scanned(),
        *edges(claims),
        *unseen(claims),
        *loosened(claims),
    ]
    return "\n".join(parts) + "\n"


def readme_line(claims: list[Judged]) -> str:
    """README's line about the page."""
    searched = groups.searches()
    tally = Counter(groups.group(one, searched) for one in claims)
    waiting = f", and {tally[groups.NOT_JUDGED]} cannot be judged" if tally[groups.NOT_JUDGED] else ""
    return (
        f"Of {len(claims)} claims of the papers {tally[groups.STATED]} are reproduced with the settings that the "
        f"papers state, and {tally[groups.UNSTATED]} with one more setting that they leave open, by [one strict "
        f"rule](docs/validation/papers.md); {tally[groups.SHOWN] + tally[groups.NOT_SHOWN]} differ, each with the "
        f"reason{waiting}.\n"
    )


def verdict(one: Judged, size: str = "quick") -> Verdict:
    """The verdict of a claim; a claim that was never recorded counts as not run."""
    return one[2][size]["verdict"] if size in one[2] else "not run"


def _sentence(verdicts: list[Verdict]) -> str:
    """The counts of verdicts as a sentence."""
    counted = (f"{count} {name}" for name in VERDICTS if (count := verdicts.count(name)))
    return f"{len(verdicts)} claims: {', '.join(counted)}."


def full_size(claims: list[Judged]) -> Iterator[str]:
    """The counts at the papers' size, the verdicts that differ there, and the claims that were not run at that size."""
    yield FULL.rstrip("\n")
    yield f"\n{_sentence([verdict(one, 'full') for one in claims])}"
    waiting = Counter(one[0].id for one in claims if "full" not in one[2])
    if waiting:
        names = (f"`{name}` ({count} {'claim' if count == 1 else 'claims'})" for name, count in waiting.items())
        yield f"\nNot run at that size yet: {', '.join(names)}."
    refused = [f"{claim.id} ({few})" for _, claim, sizes in claims if (few := _too_few(sizes.get("full")))]
    if refused:
        yield f"\nRun at that size but not judged: {', '.join(refused)}."
    changed = [one for one in claims if "full" in one[2] and verdict(one) != verdict(one, "full")]
    if changed:
        moved = (f"{one[1].id} {verdict(one)} → {verdict(one, 'full')}" for one in changed)
        yield f"\nAnother verdict than at the reduced size: {', '.join(moved)}."


def _too_few(known: Known | None) -> str:
    """The reason why a claim that was run was not judged; otherwise empty."""
    if known is None or known["verdict"] != "not run":
        return ""
    samples = min(part["samples"] for part in known["parts"] if part["verdict"] == "not run")
    return f"of {samples} samples, all seeds together, fewer than {ENOUGH_BEYOND} lie beyond the percentile"


def scanned() -> Iterator[str]:
    """Progress of the joint scans, and the range of each part's values over all settings."""
    for one in find_experiments():
        if one.spec.stages:
            rows = scan.read(one.known_scan)
            yield f"\n## What no setting gives\n\nJoint scan `{one.id}`, {len(rows)} settings: {scan_state(one, rows)}"
            yield from _ranges(one, [row for row in rows if row["stage"] > 1])


def _ranges(one: Experiment, rows: list[scan.Row]) -> Iterator[str]:
    """Parts that few settings reproduce; the single seed of the first stage serves only to rank."""
    present = next((row for row in rows if row["axes"] == one.spec.present), None)
    if not rows or present is None:
        return
    last = [row["counts"]["reproduced"] for row in rows if row["stage"] == max(row["stage"] for row in rows)]
    yield (
        f"The best settings of the last stage have {max(last)} of {len(present['parts'])} parts in their bands "
        f"({last.count(max(last))} of {len(last)} settings do); the present setting has "
        f"{present['counts']['reproduced']}, in stage {present['stage']}.\n"
    )
    parts = [f"{claim.id}.{n}" for of in one.scored for claim in of.claims for n in range(1, len(claim.parts) + 1)]
    parts = [name for name in parts if name in present["parts"]]  # claims that are newer than the scan are not in it
    held = {name: sum(row["parts"][name] == "reproduced" for row in rows) for name in parts}
    seldom = [f"{name} ({count})" for name, count in held.items() if 2 * count < len(rows)]
    yield (
        f"Of {len(rows)} settings with three or more seeds, fewer than half have these parts in their bands "
        f"(with their number): {', '.join(seldom)}."
    )


def differing(claims: list[Judged]) -> Iterator[str]:
    """Claims that a size does not reproduce, with reasons: the papers' size if it is one of these."""
    yield DIFFERING
    for _, claim, sizes in claims:
        missing = [size for size in ("full", "quick") if size in sizes and sizes[size]["verdict"] != "reproduced"]
        if missing:
            known = sizes[missing[0]]
            pairs = zip(claim.parts, known["parts"], strict=False)
            missed = [(part, found) for part, found in pairs if found["verdict"] != "reproduced"]
            here = "; ".join(f"{_title(part)}: {_number(found['median'])}" for part, found in missed)
            shape = "\\*" if known["verdict"] == "shape only" else ""
            numbers = claim.claimed.removeprefix("recalled: ") if re.search(r"\d", claim.claimed) else ""
            paper = f" *Paper:* {numbers}." if numbers else ""
            only = f" (at {SIZES[missing[0]]} only)" if len(sizes) > len(missing) else ""
            why = known["why"] or _too_few(known)
            yield f"- **{claim.id}{shape}**{only} {claim.text}.{paper} *Here:* {here}. {why}"


def hanging() -> Iterator[str]:
    """Results that were measured by switching keys."""
    yield HANGING
    yield from switches.lines()


def edges(claims: list[Judged]) -> Iterator[str]:
    """Parts at the edge of a verdict, which other seeds may judge differently."""
    parts = [found for *_, sizes in claims if "quick" in sizes for found in sizes["quick"]["parts"]]
    yield "\n## Close to the edge of a band\n"
    yield (
        f"Other seeds could change the verdict of {sum(found['at_edge'] for found in parts)} of {len(parts)} parts, "
        "whose median is close to an edge of the band (`at_edge` in `experiments/verdicts.json`)."
    )


def unseen(claims: list[Judged]) -> Iterator[str]:
    """Agreement of the verdicts of other seeds, and the verdicts that differ."""
    yield "\n## With other seeds\n"
    yield "Five other seeds each judge the same experiments at the reduced size (`validation/papers/unseen.json`).\n"
    yield "| seeds from | papers | parts | same verdict | claims | same verdict |"
    yield "|---|---|---|---|---|---|"
    lists: list[str] = []
    for seed, found in json.loads(UNSEEN.read_text(encoding="utf-8")).items():
        parts: list[bool] = []
        whole: list[bool] = []
        papers: set[str] = set()
        others: list[str] = []
        for experiment, claim, sizes in claims:
            if claim.id not in found or verdict((experiment, claim, sizes)) == "not run":
                continue
            known = sizes["quick"]["parts"]
            same = [part["verdict"] == other for part, other in zip(known, found[claim.id], strict=True)]
            parts += same
            papers.add(experiment.key)
            whole.append(sizes["quick"]["verdict"] == max(found[claim.id], key=VERDICTS.index))
            for number, (part, other) in enumerate(zip(known, found[claim.id], strict=True), start=1):
                if part["verdict"] != other:
                    mark = "" if part["at_edge"] else "**"
                    others.append(f"{mark}{claim.id}.{number} {part['verdict']} → {other}{mark}")
        shares = [f"{len(one)} | {sum(one)} ({sum(one) / len(one):.1%})" for one in (parts, whole)]
        yield f"| {seed} | {', '.join(key for key in PAPERS if key in papers)} | {' | '.join(shares)} |"
        lists.append(f"- Seeds from {seed}: {', '.join(others)}.")
    yield "\nParts with another verdict; those in bold are not close to an edge:\n"
    yield from lists


def take_unseen(seed: str, files: list[str]) -> None:
    """Adds the verdicts of a run of `pauseframe reproduce` with another first seed."""
    known = json.loads(UNSEEN.read_text(encoding="utf-8")) if UNSEEN.exists() else {}
    for name in files:
        for claim in json.loads(Path(name).read_text(encoding="utf-8")):
            if claim["size"] == "quick":
                known.setdefault(seed, {})[claim["id"]] = [part["verdict"] for part in claim["parts"]]
    UNSEEN.write_text(json.dumps(known, indent=0, sort_keys=True) + "\n", encoding="utf-8")


def loosened(claims: list[Judged]) -> Iterator[str]:
    """Bands and measures that deviate from the standard table."""
    yield "\n## Bands that differ from claims.csv\n"
    for _, claim, _ in claims:
        for number, part in enumerate(claim.parts, start=1):
            if part.instead:
                yield f"- **{claim.id}.{number}** {part.title}, {part.band_text}: {part.instead}."


def _title(part: Part) -> str:
    """The title of a part; "(order)" marks an order, whose title is often a list of names."""
    return f"{part.title} (order)" if part.kind == "order" else part.title


def _number(value: float | None) -> str:
    return "-" if value is None else format_number(value, 3)


def main() -> int:
    """Writes the page and README's line."""
    if sys.argv[1:2] == ["--unseen"]:
        take_unseen(sys.argv[2], sys.argv[3:])
    claims = judged()
    PAGE.write_text(page(claims), encoding="utf-8")
    README.write_text(LINE.sub(readme_line(claims), README.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
