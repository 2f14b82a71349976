"""The data for the templates of `pauseframe reproduce`: figures by their numbers in the page, numbers as texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pauseframe.reproduce.judge import Verdict
    from pauseframe.reproduce.spec import Size


@dataclass(frozen=True)
class PartPage:
    """One number of a claim, with its band."""

    name: str
    value: str
    band: str
    shape: str
    held: str
    at_edge: bool
    samples: int
    verdict: Verdict
    note: str
    instead: str


@dataclass(frozen=True)
class ClaimPage:
    """A claim, its result, and the reason."""

    id: str
    text: str
    claimed: str
    quote: str
    why: str
    verdict: Verdict
    known: dict[Size, str]
    """The recorded results of the claim, by size of the runs."""
    holds_in: str
    parts: list[PartPage]


@dataclass(frozen=True)
class ScanRow:
    """A setting of a joint scan."""

    axes: str
    present: bool
    """True if the setting is the one that the paper's experiments use."""
    stage: int
    counts: dict[str, int]
    parts: dict[str, Verdict]


@dataclass(frozen=True)
class ExperimentPage:
    """An experiment: its plots, claims and parameters."""

    id: str
    anchor: str
    paper: str
    revision: int
    title: str
    figure: str
    text: str
    size: Size
    seeds: str
    first_seed: int
    seed_count: int
    other_seeds: str
    """The seeds of the recorded verdicts, if they differ from those of this run."""
    changes: str
    scenario: str
    settings: list[tuple[str, str]]
    plots: list[tuple[str, int, str]]
    """Title, figure number and caption of each plot."""
    claims: list[ClaimPage]
    scan: list[ScanRow]
    scan_axes: str
    scan_state: str
    failures: list[str]
