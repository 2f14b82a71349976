"""Simulates TCP and RoCEv2 over lossless and lossy Ethernet, plans deadlock-free routes, checks deployed fabrics.

>>> import pauseframe as pf
>>> scenario = pf.Scenario(
...     topology=pf.Star(3, link=pf.Link("10 Gbps", "1 us")),
...     transport=pf.Transport(preset="dctcp"),
...     workload=[pf.NToOne(senders=2, size="1 MB")],
... )
>>> run = pf.run(scenario)
>>> run.summary["flows_finished"]
2

Tables such as `run.flows` are in Arrow's memory layout: `polars.DataFrame(run.flows)`, `pyarrow.table(run.flows)`,
`pandas.DataFrame.from_arrow(run.flows)` and DuckDB take them without copying.
"""

# ruff: noqa: F405 (_later.py declares all of these names in its __all__)
from pauseframe.terminal import interrupt as interrupt  # must be first: handles Ctrl-C while the command loads

# isort: split
from pauseframe._core import (
    FabricError,
    InputError,
    Resolved,
    Routes,
    RunError,
    ScenarioError,
    Table,
    Topology,
    __version__,
    options,
    presets,
)
from pauseframe.fabric.checked import flow_rates, plan_routes
from pauseframe.results import FlowRun, Run, load
from pauseframe.results.folder import DamagedResultsError
from pauseframe.run import run
from pauseframe.scenario import table_names
from pauseframe.sweep import sweep
from pauseframe.tune import tune

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pauseframe._later import *  # noqa: F403
    from pauseframe.plugins import (
        ECN,
        LOSS,
        MICROSECOND,
        SECOND,
        Ack,
        Delivery,
        Pair,
        PairAck,
        Window,
        congestion_control,
        constant,
        include_dir,
        rate_control,
        slow_start,
        uniform,
    )
    from pauseframe.scenario.tables import *  # noqa: F403

__all__ = [
    "ECN",
    "LOSS",
    "MICROSECOND",
    "SECOND",
    "Ack",
    "DamagedResultsError",
    "Delivery",
    "FabricError",
    "FlowRun",
    "InputError",
    "Pair",
    "PairAck",
    "Program",
    "Resolved",
    "Routes",
    "Run",
    "RunError",
    "Scenario",
    "ScenarioError",
    "Sweep",
    "Table",
    "Topology",
    "Window",
    "__version__",
    "congestion_control",
    "constant",
    "flow_rates",
    "from_networkx",
    "include_dir",
    "load",
    "load_sweep",
    "load_topology",
    "options",
    "plan_routes",
    "presets",
    "programs",
    "rate_control",
    "read_routes",
    "run",
    "run_flows",
    "slow_start",
    "sweep",
    "to_networkx",
    "tune",
    "uniform",
    "write_plan",
]
__all__ += table_names.__all__

OF_PLUGINS = {
    "ECN",
    "LOSS",
    "MICROSECOND",
    "SECOND",
    "Ack",
    "Delivery",
    "Pair",
    "PairAck",
    "Window",
    "congestion_control",
    "constant",
    "include_dir",
    "rate_control",
    "slow_start",
    "uniform",
}
"""The names of the module `plugins`; a plug-in file needs only these names."""


def __dir__() -> list[str]:
    """All public names, also those that load on first access."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    """Loads a name of `_later.py` on first access (PEP 562)."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in OF_PLUGINS:
        from pauseframe import plugins

        globals().update({own: getattr(plugins, own) for own in OF_PLUGINS})
        return globals()[name]
    from pauseframe import _later

    for later in _later.__all__:
        globals().setdefault(later, getattr(_later, later))
    return globals()[name]
