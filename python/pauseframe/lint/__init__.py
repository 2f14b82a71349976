"""Checks the configuration of a whole fabric: schema and meaning of every file, both ends of each link, deadlock."""

from __future__ import annotations

from pauseframe.lint.engine import Report, lint
from pauseframe.lint.finding import Finding, Severity

__all__ = ["Finding", "Report", "Severity", "lint"]
