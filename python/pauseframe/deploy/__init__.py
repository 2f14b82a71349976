"""Turns a plan of `pauseframe route plan` into files for switches and hosts, and into roll-out and roll-back steps."""

from __future__ import annotations

from pauseframe.deploy.plan import DeployError, Plan, Settings, read_plan
from pauseframe.deploy.write import write_deployment

__all__ = ["DeployError", "Plan", "Settings", "read_plan", "write_deployment"]
