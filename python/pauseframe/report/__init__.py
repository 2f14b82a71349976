"""From results folders to one self-contained HTML file. Reads results only, never the simulator."""

from pauseframe.report.build import Check, Claim, Group, build_report
from pauseframe.report.data import RunData, from_folder, from_run

__all__ = ["Check", "Claim", "Group", "RunData", "build_report", "from_folder", "from_run"]
