"""Public names that load on first use, because seventy scenario classes take longer to import than a small run."""

from pauseframe.fabric.routing import read_routes, write_plan
from pauseframe.fabric.topology import from_networkx, load_topology, to_networkx
from pauseframe.flow import run_flows
from pauseframe.program import Program, programs
from pauseframe.scenario import table_names
from pauseframe.scenario.document import Scenario
from pauseframe.scenario.tables import *  # noqa: F403
from pauseframe.sweep.results import Sweep, load_sweep

__all__ = [
    "Program",
    "Scenario",
    "Sweep",
    "from_networkx",
    "load_sweep",
    "load_topology",
    "programs",
    "read_routes",
    "run_flows",
    "to_networkx",
    "write_plan",
]
__all__ += table_names.__all__
