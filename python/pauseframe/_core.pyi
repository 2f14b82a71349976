"""The compiled half of pauseframe: parse, resolve, run, read tables. Use the names in `pauseframe` instead."""

from collections.abc import Callable, Sequence
from typing import Any, final

__all__ = [
    "Resolved",
    "Run",
    "RunError",
    "ScenarioError",
    "Table",
    "__version__",
    "options",
    "presets",
    "read_table",
    "resolve",
    "run",
]

__version__: str

class ScenarioError(ValueError):
    """The scenario is wrong. `problems` has one entry for every mistake."""

    problems: list[dict[str, str]]
    """Each: path ("switch.pfc.xon"), place ("incast.toml:12", "--set"), value (as written, or ""), message (what is
    allowed), hint (nearest key, or "")."""

class RunError(RuntimeError):
    """The run could not be carried out: the output folder, the disk, an internal assertion."""

@final
class Table:
    """A table in Arrow's memory layout (`__arrow_c_stream__`): polars, pandas, pyarrow and DuckDB take it as it is."""

    @property
    def num_rows(self) -> int: ...
    @property
    def column_names(self) -> list[str]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class Resolved:
    """A complete scenario."""

    @property
    def name(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def toml(self) -> str:
        """Every key with its value; resolves to itself."""
    @property
    def warnings(self) -> list[str]: ...
    def headroom(self) -> list[dict[str, Any]]:
        """The headroom of lossless classes, links that are alike in one row: each term of 802.1Qbb Annex O (`_ns`),
        what the link needs and what the switch gives (`_bytes`). Empty without PFC."""
    def explain(self) -> list[tuple[str, str, str]]:
        """(path, value, origin) of every key in the order of the file; origin: "file", "--set", "preset tcp_bolt",
        "default", "computed: ..."."""

@final
class Run:
    """What came of a run."""

    @property
    def summary(self) -> dict[str, Any]: ...
    @property
    def interrupted(self) -> bool: ...
    @property
    def flows(self) -> Table: ...
    @property
    def queries(self) -> Table: ...
    @property
    def ports(self) -> Table: ...
    @property
    def series(self) -> Table: ...
    @property
    def pause_tree(self) -> Table: ...
    @property
    def deadlocks(self) -> Table: ...

def resolve(
    text: str,
    *,
    base_dir: str = ".",
    file_name: str = "scenario",
    overrides: Sequence[tuple[str, str]] = ...,
    seed: int | None = None,
) -> Resolved:
    """Parses and resolves a scenario. `overrides` are (path, TOML value or bare word). Raises ScenarioError."""

def run(
    scenario: Resolved,
    *,
    out: str | None = None,
    force: bool = False,
    progress: Callable[[dict[str, Any]], None] | None = None,
) -> Run:
    """Runs to the end, or until a signal (Ctrl-C): what was recorded is kept and `interrupted` is true.

    `progress` is called about ten times a second with sim_time_s, stop_time_s (or None), wall_s, events, packet_hops,
    flows_started, flows_finished. The GIL is released in between. Raises RunError.
    """

def read_table(path: str) -> Table:
    """Reads a Parquet file."""

def options() -> list[dict[str, str]]:
    """Every key of a scenario file: path, when (the choice under which it exists, or ""), type, default, doc."""

def explain_transport(preset: str, stack: str = "none") -> list[dict[str, str]]: ...
def stacks() -> dict[str, str]: ...
def presets() -> dict[str, dict[str, str]]:
    """Transport presets: name to its row of values."""
