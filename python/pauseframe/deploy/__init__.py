"""From a plan of `pauseframe route plan` to files for switches and hosts, an order of roll-out, and its undo."""

from __future__ import annotations

from pauseframe.deploy.plan import DeployError, Plan, Settings, read_plan
from pauseframe.deploy.write import write_deployment

__all__ = ["DeployError", "Plan", "Settings", "read_plan", "write_deployment"]
