"""Checks all files of a deployed fabric together: schema and meaning, both ends of each link, deadlock."""

from __future__ import annotations

from pauseframe.lint.engine import Report, lint
from pauseframe.lint.finding import Finding, Severity

__all__ = ["Finding", "Report", "Severity", "lint"]
