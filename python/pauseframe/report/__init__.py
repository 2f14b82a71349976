"""Turns results folders into one self-contained HTML file. Reads only results, never runs the simulator."""

from pauseframe.report.build import Check, Claim, Group, build_report
from pauseframe.report.data import RunData, from_folder, from_run
from pauseframe.report.page import Answer, Bar, Player

__all__ = [
    "Answer",
    "Bar",
    "Check",
    "Claim",
    "Group",
    "Player",
    "RunData",
    "build_report",
    "from_folder",
    "from_run",
]
