"""Figures and pages that a notebook shows in a frame: `run.plot`, `run.view`, `run.report`, `sweep.plot`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pauseframe._core import InputError
from pauseframe.report import figures
from pauseframe.report.html import page
from pauseframe.terminal.text import none_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pauseframe.report.data import RunData
    from pauseframe.report.figures import Figure

RECEIVED = "received_bps"
"""The metric of `run.plot` that every run has."""
LEGEND = 130
"""Pixels for captions, titles and legend of a figure."""
HEADING = 80
"""Pixels for the heading of a page."""


class InlinePage:
    """A page that a notebook shows in a frame, and that `save` writes to a file."""

    def __init__(self, html: str, title: str, height: int = 800) -> None:
        self.html = html
        self.title = title
        self.height = height

    def save(self, path: str | Path) -> Path:
        """Writes the page to a file and returns its path."""
        from pauseframe.files.atomic import page_path, write_text

        return write_text(page_path(path), self.html)

    def __repr__(self) -> str:
        return f"<{self.title}, {len(self.html) / 1e6:.1f} MB: shown in a notebook; .save(PATH) writes it to a file>"

    def _repr_html_(self) -> str:
        from html import escape

        # An iframe separates the styles of page and notebook, and its srcdoc attribute needs no server.
        style = f"width: 100%; height: {self.height}px; border: 0"
        return f'<iframe srcdoc="{escape(self.html)}" style="{style}"></iframe>'


def plot_runs(runs: Sequence[RunData], metric: str, lines: str | None) -> InlinePage:
    """A metric of runs over time."""
    if metric == RECEIVED:
        return in_frame(figures.throughput_figures(runs), metric)
    if metric not in figures.LINES:
        raise InputError(none_of(metric, [RECEIVED, *figures.LINES]))
    found = figures.line_figures(runs, lines, [metric])
    if not found or not any(figure["data"] for _, figure in found[0].parts):
        others = figures.line_figures(runs, None, [metric]) if lines is not None else []
        if known := sorted(
            {trace["name"] for group in others for _, figure in group.parts for trace in figure["data"]}
        ):
            raise InputError(f"no samples of {metric} have a name like {lines}; recorded are {', '.join(known[:8])}")
        if metric == "alpha" and figures.line_figures(runs, lines, ["cwnd_bytes"]):
            raise InputError(
                "the run has samples of flows, but their congestion control has no alpha: DCTCP has one, and a plug-in "
                "with a method alpha(self) that returns a number"
            )
        names = "" if lines is None else f" for a name like {lines}"
        raise InputError(
            f'the run has no samples of {metric}{names}: record them with record.series = {{ every = "10 us", '
            'ports = ["*"], flows = ["*"] }'
        )
    return in_frame(found[0].parts, found[0].title)


def in_frame(parts: Sequence[tuple[str, Figure]], title: str) -> InlinePage:
    """Figures with their captions as a page."""
    height = HEADING + sum(figure.get("height", 300) + LEGEND for _, figure in parts)
    return InlinePage(page(parts, title=title), f"figure of {title}", height)
