"""What a training step and its collectives cost: tables, hot links, stragglers, and the critical path with causes."""

from pauseframe.steps.causes import Cause, Explained, explain
from pauseframe.steps.path import Segment, critical_path
from pauseframe.steps.tables import Table, tables

__all__ = ["Cause", "Explained", "Segment", "Table", "critical_path", "explain", "tables"]
