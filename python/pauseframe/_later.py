"""The public names that are loaded when one of them is first asked for: seventy classes take a while to be made."""

from pauseframe.flow import run_flows
from pauseframe.program import Program, programs
from pauseframe.routing import write_plan
from pauseframe.scenario import Scenario, tables
from pauseframe.scenario.tables import *  # noqa: F403
from pauseframe.sweep.results import Sweep, load_sweep
from pauseframe.topology import from_networkx, load_topology, to_networkx

__all__ = [
    "Program",
    "Scenario",
    "Sweep",
    "from_networkx",
    "load_sweep",
    "load_topology",
    "programs",
    "run_flows",
    "to_networkx",
    "write_plan",
]
__all__.extend(tables.__all__)
