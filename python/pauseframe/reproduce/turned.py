"""The negative control of a search: orders that hold as stated, turned round, so that they are false.

A search that can make these hold could make anything hold. A part states an order if it is one, or if its band lies on
one side of equality. Of all in the experiments that a search reaches, twenty are taken, evenly by claim and part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pauseframe.reproduce.parts import Change, Factor, Order
from pauseframe.reproduce.points import BEST
from pauseframe.reproduce.spec import Claim

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pauseframe.reproduce.expected import Verdicts
    from pauseframe.reproduce.parts import Part
    from pauseframe.reproduce.search import Claims
    from pauseframe.reproduce.spec import Experiment

COUNT = 20


def orders(experiments: Sequence[Experiment], known: Verdicts) -> Claims:
    """The orders turned round, by the experiment's id; each is a claim of one part, such as `B-M23.1`.

    `experiments` are those of all papers, so that each paper's search has its part of the same twenty.
    """
    found: list[tuple[Experiment, Claim]] = []
    for one in experiments:
        if any(one.name in row.experiments for row in one.paper.search):
            found += [(one, claim) for claim in _of(one, known)]
    found.sort(key=lambda pair: pair[1].id)
    chosen: Claims = {}
    count = min(COUNT, len(found))
    for one, claim in (found[len(found) * place // count] for place in range(count)):
        chosen.setdefault(one.id, []).append(claim)
    return chosen


def _of(experiment: Experiment, known: Verdicts) -> Iterator[Claim]:
    for claim in experiment.spec.claims:
        parts = known.get(claim.id, {}).get("quick", {"parts": []})["parts"]
        for number, (part, found) in enumerate(zip(claim.parts, parts, strict=False), start=1):
            back = _turned(part) if found["verdict"] == "reproduced" else None
            if back is not None:
                yield Claim(id=f"{claim.id}.{number}", parts=[back])


def _turned(part: Part) -> Part | None:
    """The opposite order; None for a part that does not say which of two is larger."""
    if isinstance(part, Order):
        return part.model_copy(update={"order": part.order[::-1], "theirs": None})
    if not isinstance(part, (Factor, Change)) or part.over == BEST:
        return None
    equal = 1.0 if isinstance(part, Factor) else 0.0
    low, high = part.band
    if low < equal < high or (low, high) == (equal, equal):
        return None
    other = {"low": None, "high": equal} if low >= equal else {"low": equal, "high": None}
    return part.model_copy(update=other | {"theirs": None})
