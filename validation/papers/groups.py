"""The groups of claims with which docs/validation/papers.md leads, and what the search of each paper has found.

changes.toml has a row for each claim whose group a change of settings, classes or statistics has moved, with the
reason; the page shows them.
"""

import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import switches
from pauseframe.reproduce import expected, search, why
from pauseframe.reproduce.expected import Known
from pauseframe.reproduce.search import Searched
from pauseframe.reproduce.spec import Claim, Experiment
from pauseframe.results.places import EXPERIMENTS
from pauseframe.terminal.text import format_number

CHANGES = Path(__file__).parent / "changes.toml"
STATED, UNSTATED, SHOWN, NOT_SHOWN, NOT_JUDGED = GROUPS = (
    "as stated",
    "with an unstated setting",
    "differs, mechanism shown",
    "differs, mechanism not shown",
    "cannot be judged",
)
FOUR = ("bolt", "cee", "judd", "repro")
"""The papers whose texts were read; the numbers of the others are recalled or of one page."""
Judged = tuple[Experiment, Claim, dict[str, Known]]
OPEN = """
## With an unstated setting

`pauseframe reproduce PAPER --search` searches the keys that a paper leaves open. `paper.toml` declares each with its
range and the reason. Each key is tried alone with two seeds, and takes the value with which most claims of its
experiments are reproduced; five other seeds judge the claims with all these values together, the joint set. Ranges were
declared before the first run, but after a search by hand on the seeds 1 to 5 had been seen.
"""
WHY_NOT_MORE = """
The aim for the four papers is 75 %. Most of what differs rests on what their texts only draw or leave out: the rates
and laws of cee's workloads and its traces, the load of bolt's background, and the offload and interrupts of repro's
Linux machines.
"""
CONTROL = """
### Negative control

The same search was made for orders that hold as stated, turned round, so that they are false:
"""
CHANGED = """
## What the last revision of the settings changed

These claims are in another group since the papers' stated settings were read again, with the reason.
"""


def searches() -> dict[str, Searched]:
    """The recorded results of the searches, by paper."""
    found = {about.parent.name: search.read(about.parent) for about in sorted(EXPERIMENTS.glob("*/paper.toml"))}
    return {key: one for key, one in found.items() if one is not None}


def group(one: Judged, searched: dict[str, Searched]) -> str:
    """The group of a claim."""
    experiment, claim, sizes = one
    verdict = sizes["quick"]["verdict"] if "quick" in sizes else "not run"
    if verdict == "reproduced":
        return STATED
    found = searched.get(experiment.key)
    if found is not None and found["joint"]["verdicts"].get(claim.id) == "reproduced":
        return UNSTATED
    if claim.cannot_judge or verdict == "not run":
        return NOT_JUDGED
    return SHOWN if _is_shown(claim) else NOT_SHOWN


def _is_shown(claim: Claim) -> bool:
    """True if a switch of a key, or a number of a variant in the reason, shows why the claim differs."""
    named = any(not why.PART.fullmatch(name) for name in why.names(claim.why))
    return named or claim.id in _switched()


@cache
def _switched() -> set[str]:
    """The claims that the switches which have run name or move."""
    kept, known = switches.kept(), expected.read(EXPERIMENTS)
    ran = [one for one in switches.switches() if one.key in kept]
    moved = (row["part"] for one in ran for row in switches.moved(one, kept[one.key], known))
    return {name for one in ran for name in one.claims} | {part.rpartition(".")[0] for part in moved}


def table(claims: list[Judged], names: dict[str, str]) -> Iterator[str]:
    """The table of groups, with one row for each paper."""
    searched = searches()
    rows = {name: Counter(group(one, searched) for one in claims if one[0].key == key) for key, name in names.items()}
    rows["the four papers of which the text was read"] = sum((rows[names[key]] for key in FOUR), Counter[str]())
    rows["all"] = sum((rows[names[key]] for key in names), Counter[str]())
    yield f"\n| paper | claims | {' | '.join(GROUPS)} | the first two |"
    yield "|---|" + "---|" * (len(GROUPS) + 2)
    for name, tally in rows.items():
        right = tally[STATED] + tally[UNSTATED]
        counts = " | ".join(str(tally[one]) for one in GROUPS)
        yield f"| {name} | {tally.total()} | {counts} | {right / max(tally.total(), 1):.0%} |"
    yield WHY_NOT_MORE.rstrip("\n")


def opened(claims: list[Judged]) -> Iterator[str]:
    """Joint sets, the claims that hold with them or only without, and the negative control."""
    searched = searches()
    yield OPEN.rstrip("\n")
    for key, found in searched.items():
        for name, settings in found["joint"]["settings"].items():
            yield f"\n`{key}/{name}`: {search.in_words(settings)}.\n"
            mine = [one for one in claims if one[0].id == f"{key}/{name}"]
            lines = [line for one in mine if (line := _with_joint(one, found, searched))]
            yield from lines or ["Each of its claims stays as it is."]
        if found["missed"]:
            yield f"\n{key}: the processor time did not suffice for {'; '.join(found['missed'])}."
    waiting = sorted({one[0].key for one in claims if one[0].paper.search} - set(searched))
    if waiting:
        yield f"\nDeclared and not searched yet: {', '.join(waiting)}."
    yield CONTROL.rstrip("\n") + "\n"
    for key, found in searched.items():
        held, turned = search.turned_round(found)
        if turned:
            yield f"- `{key}`: {held} of {turned} hold."


def _with_joint(one: Judged, found: Searched, searched: dict[str, Searched]) -> str:
    _, claim, sizes = one
    verdict = found["joint"]["verdicts"].get(claim.id)
    medians = ", ".join(
        f"{part.name or part.title}: {'-' if value is None else format_number(value, 3)}"
        for part, value in zip(claim.parts, found["joint"]["medians"].get(claim.id, []), strict=False)
    )
    if group(one, searched) == UNSTATED:
        held, points = search.share(found, claim.id)
        only = held < search.SELDOM * points
        share = "only at these values" if only else f"at {held} of {points} points of the search"
        return f"- **{claim.id}** {claim.text}. {medians}. Reproduced {share}."
    if sizes["quick"]["verdict"] == "reproduced" and verdict not in (None, "reproduced"):
        return f"- {claim.id} is reproduced as stated, and not with the joint set: {medians}."
    return ""


def changes() -> list[dict[str, str]]:
    """The rows of validation/papers/changes.toml: `claim`, `was`, `now` and `why`."""
    return list(tomllib.loads(CHANGES.read_text(encoding="utf-8"))["change"]) if CHANGES.is_file() else []


def changed() -> Iterator[str]:
    """The list of claims that moved, with reasons."""
    yield CHANGED
    for row in changes():
        yield f"- **{row['claim']}** {row['was']} → {row['now']}: {' '.join(row['why'].split())}"
