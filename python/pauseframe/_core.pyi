"""The compiled core of pauseframe: parses, resolves and runs scenarios, and reads tables.

Users import these names from `pauseframe` instead.
"""

from collections.abc import Callable, Sequence
from typing import Literal, final

from pauseframe.types import (
    FlowSummary,
    HeadroomRow,
    PlannedUpdate,
    Problem,
    RouteReport,
    RunProgress,
    StageProgress,
    SteadyRates,
    Summary,
    TableUse,
    TopologyStatistics,
)

__all__ = [
    "FabricError",
    "FlowRun",
    "InputError",
    "ParquetWriter",
    "Resolved",
    "Routes",
    "Run",
    "RunError",
    "ScenarioError",
    "Table",
    "Topology",
    "__version__",
    "check_table",
    "columns",
    "congestion_control_contract",
    "engines",
    "explain_transport",
    "families",
    "flow_rates",
    "is_rate_control",
    "limit",
    "link_headroom",
    "loaded_plugins",
    "options",
    "packetdrill",
    "plan_routes",
    "preset_docs",
    "presets",
    "read_routes",
    "read_table",
    "register_plugin",
    "resolve",
    "run",
    "run_flows",
    "schema",
    "shortest_path_cycle",
    "stacks",
    "table_of",
    "term_hint",
    "unpack_tables",
    "update_routes",
]

__version__: str

class ScenarioError(ValueError):
    """A scenario has mistakes; `problems` has one entry for every mistake."""

    problems: list[Problem]
    """Each entry: path ("switch.pfc.xon"), place ("incast.toml:12", "--set"), value (as written, or ""), message, hint.

    The message states the allowed values; the hint is the nearest key, or "".
    """

class RunError(RuntimeError):
    """A run failed because of the output folder, the disk or an internal assertion."""

class InputError(RunError):
    """A request is impossible, such as for an unknown name or for an output folder that already exists."""

@final
class Table:
    """A table in Arrow's memory layout (`__arrow_c_stream__`); polars, pandas, pyarrow and DuckDB read it directly."""

    @property
    def num_rows(self) -> int: ...
    @property
    def column_names(self) -> list[str]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...

@final
class Resolved:
    """A resolved scenario: every key has a value."""

    @property
    def name(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def has_plugins(self) -> bool:
        """True if the scenario uses a congestion control of a plug-in."""
    @property
    def has_kernel(self) -> bool:
        """Whether its hosts are those of a Linux kernel."""
    @property
    def toml(self) -> str:
        """The scenario as TOML, every key with its value; resolving this text gives an equal scenario."""
    @property
    def warnings(self) -> list[str]: ...
    @property
    def too_large(self) -> Problem | None:
        """The reason why `run` refuses the scenario without `force_large`, or None.

        The reason is an entry as in `ScenarioError.problems`, whose message gives the estimated size of the recordings.
        """
    def with_seed(self, seed: int) -> Resolved:
        """The same scenario with another seed on the same graph.

        The result equals that of `resolve`, but takes a fraction of the time.
        """
    def headroom(self) -> list[HeadroomRow]:
        """The headroom of lossless classes, with one row for each group of equal links; empty without PFC.

        A row has each term of 802.1Qbb Annex O (`_ns`), and the needed and the reserved headroom (`_bytes`).
        """
    def explain(self) -> list[tuple[str, str, str]]:
        """(path, value, origin) of every key in the order of the file.

        Origins are "file", "--set", "preset tcp_bolt", "default", "computed: ...".
        """

@final
class Run:
    """The results of a run."""

    @property
    def summary(self) -> Summary: ...
    @property
    def interrupted(self) -> bool: ...
    @property
    def finished(self) -> bool:
        """True if the run ended without an interruption: its status is "complete" or "deadlock"."""
    @property
    def peak_rss_bytes(self) -> int | None: ...
    @property
    def manifest_json(self) -> str:
        """The content of the results folder's `manifest.json`, on one line."""
    def packed(self) -> list[tuple[str, bytes]]:
        """The non-empty tables, each an Arrow IPC stream compressed with LZ4, for `unpack_tables`."""
    def table(self, name: str) -> Table:
        """The table of this name; KeyError if a run has none of that name."""

def resolve(
    text: str,
    *,
    base_dir: str = ".",
    file_name: str = "scenario",
    overrides: Sequence[tuple[str, str]] = ...,
    seed: int | None = None,
) -> Resolved:
    """Parses and resolves a scenario; `overrides` are pairs (path, TOML value or bare word).

    Raises ScenarioError for mistakes, KeyboardInterrupt on Ctrl-C and, like all functions of this module, RunError with
    the source line for an internal error.
    """

def run(
    scenario: Resolved,
    *,
    out: str | None = None,
    force: bool = False,
    force_large: bool = False,
    threads: int = 0,
    kernel: str | None = None,
    programs: list[tuple[str, str]] = ...,
    progress: Callable[[RunProgress], None] | None = None,
) -> Run:
    """Runs a scenario to its end, or until Ctrl-C; then the results so far are kept, and `interrupted` is true.

    Ctrl-C while the results are being written raises KeyboardInterrupt; the manifest then marks the run as incomplete.
    `threads` threads run the network, at most one for each switch with hosts; 0: one per idle core, or fewer if more
    would not help. `progress` is called about ten times per second with sim_time_s, stop_time_s (or None), wall_s,
    events, packet_hops, flows_started, flows_finished. Between these calls the GIL is released. Raises RunError if the
    run fails, and ScenarioError if the scenario would record or hold too much (`Resolved.too_large`) and
    `force_large` is false.
    """

def packetdrill(
    text: str, folder: str
) -> tuple[Literal["pass", "fail", "not applicable"], int | None, str, list[tuple[int, str, list[tuple[str, int]]]]]:
    """Runs a packetdrill script, whose commands refer to files relative to `folder`.

    Returns the verdict, the line and the reason, and for each snippet of Python up to there its line, its text and
    fields of `struct tcp_info`.
    """

def register_plugin(
    module: str, address: int, *, file: str, sha256: str, text: str | None = None, interpreted: bool = False
) -> str:
    """Adds the congestion control that the `pauseframe_cc` at `address` describes.

    Returns its name in scenarios, "MODULE:NAME". The caller keeps the memory valid until the process ends. Raises
    InputError for an invalid description.
    """

def loaded_plugins() -> list[tuple[str, str]]:
    """The loaded congestion controls: the name and the documentation of each."""

def is_rate_control(name: str) -> bool:
    """True if a loaded plug-in steers queue pairs; false if it steers TCP or is not loaded."""

def congestion_control_contract(name: str) -> list[tuple[str, str, str | None]]:
    """Checks a congestion control against the contract: (rule, requirement, violation or None) for each rule.

    Raises InputError for an unknown name.
    """

def term_hint(word: str, known: list[str]) -> str | None:
    """The error message for a term of the field that is not in `known`; None for any other word."""

def check_table(path: str) -> None:
    """Refuses a Parquet file whose rows exceed the limit of a table, from its footer alone."""

def limit(name: str) -> int:
    """The limit of readers with this name, such as `bytes`; `PAUSEFRAME_LIMITS` raises it."""

def read_table(path: str) -> Table:
    """Reads a Parquet file. Raises RunError if the file is damaged or in another format."""

_Column = tuple[str, Sequence[bool | int | float | str | None]]

def unpack_tables(name: str, parts: Sequence[bytes], columns: Sequence[_Column]) -> Table:
    """Joins the rows of packed tables `name`, and adds columns with one value for each part.

    Without parts, returns the empty table. Raises RunError for damaged parts, or for an unknown table.
    """

def table_of(columns: Sequence[_Column]) -> Table:
    """Makes a table of the given columns of Booleans, integers, floats or texts; None is a missing value."""

@final
class ParquetWriter:
    """Writes a new Parquet file in parts; the file must not exist."""

    def __new__(cls, path: str) -> ParquetWriter: ...
    def write(self, table: Table) -> None:
        """Appends the rows of a table. Raises OSError."""
    def close(self) -> None:
        """Writes the remaining rows, and syncs the file. Raises OSError."""

def columns() -> list[dict[str, str]]:
    """Every column of the tables of packet-level and flow-level runs: page of the reference, table, name, type, doc."""

def options() -> list[dict[str, str]]:
    """Every key of a scenario file: path, when (the condition under which it exists, or ""), type, default, doc."""

def schema() -> str:
    """A JSON Schema (draft 2020-12) of scenario files, with types, units, ranges, names, and the keys of each kind."""

def explain_transport(preset: str, stack: str | None = None) -> list[dict[str, str]]: ...
def stacks() -> dict[str, str]: ...
def preset_docs() -> dict[str, str]: ...
def presets() -> dict[str, dict[str, str]]:
    """Transport presets: the name of each, with its keys and values."""

class FabricError(ValueError):
    """A topology, forwarding tables or a plan are impossible; the message gives fault, place and remedy."""

@final
class Topology:
    """A fabric: its hosts, switches and links. See `pauseframe.load_topology`."""

    @staticmethod
    def read(path: str, *, format: str | None = None, rate: str = "10 Gbps", delay: str = "1 us") -> Topology:
        """Reads a file in an interchange format, by default that of the file's extension.

        Raises FabricError with the line of a mistake.
        """
    @staticmethod
    def parse(text: str, format: str, *, rate: str = "10 Gbps", delay: str = "1 us") -> Topology:
        """Parses a text in the format graphml, node-link, hpcc, htsim, containerlab or ibnetdiscover."""
    @staticmethod
    def family(text: str) -> Topology:
        """Generates a topology of a family with parameters, such as "fat_tree:k=6"; `families()` lists the families."""
    @staticmethod
    def of_scenario(scenario: Resolved) -> Topology:
        """The topology of a scenario, with one node for each host."""
    @property
    def notes(self) -> list[str]:
        """Notes about data that the reader assumed or left out."""
    def nodes(self) -> list[tuple[str, str, int | None]]:
        """The nodes as (name, "host" or "switch", level)."""
    def links(self) -> list[tuple[str, str, int, float]]:
        """The links by number, as (one end, other end, bits per second, delay in microseconds).

        Rate and delay are those from the one end to the other.
        """
    def ports(self) -> list[tuple[str, str]]:
        """The names of the two ports of each link, as in tables and reports: "leaf0:eth3"."""
    def port_names(self) -> list[str]:
        """The names of all ports in results, link by link, both ends: "leaf0:3"."""
    def _repr_html_(self) -> str:
        """A picture of the topology for notebooks."""
    def statistics(self) -> TopologyStatistics:
        """Statistics: hosts, switches, fabric_links, host_links, rates, switch_ports, and more.

        The other entries are hosts_per_switch, diameter, distance_mean, bisection and problems.
        """
    def write(self, format: str) -> str:
        """The topology as the text of a file, in any format except ibnetdiscover."""
    def without(self, links: Sequence[int]) -> Topology:
        """The topology without the links with the given numbers; all other ports keep their names."""

    def levels(self) -> dict[str, int] | None:
        """The level of every node, with hosts at 0: from names, or from the distance to the hosts if consistent."""
    def with_single_ports(self) -> Topology:
        """The topology in which each additional link of a host leads to a host "NAME.PORT"."""
    def with_hosts(self, per_switch: int, *, rate: str = "10 Gbps", delay: str = "1 us") -> Topology:
        """The topology with hosts "SWITCH-host1" ... at every switch. Raises FabricError if it already has hosts."""

@final
class Routes:
    """Forwarding tables of all switches of a topology."""

    @property
    def notes(self) -> list[str]:
        """Notes about data that the reader assumed or left out."""
    @property
    def topology(self) -> Topology:
        """The topology that the tables are for."""
    @property
    def vlans(self) -> list[tuple[int, int]]:
        """The VLANs, each with its lane, as (VLAN, lane)."""
    @property
    def steps(self) -> int | None:
        """Number of steps until the end of the search, or until Ctrl-C; None if the steps were not counted."""
    @property
    def interrupted(self) -> bool:
        """True if Ctrl-C ended the search early."""
    def check(
        self,
        *,
        rows_budget: int | None = None,
        what_if: bool = False,
        examples: int = 10,
        progress: Callable[[StageProgress], None] | None = None,
    ) -> RouteReport:
        """The verifier's report, as in docs/reference/routing.md: can_deadlock, clean, shortest_cycle, loops, and more.

        The other entries are black_holes, unreachable, tables, what_if, ..., and text, a summary for people.
        """
    def table_use(self) -> TableUse:
        """The table size: switch (with the most rows), rows (one per VLAN and host), rows_by_switch, vlans.

        `rows_by_switch` counts one row per VLAN and switch with hosts.
        """
    def fit(self, budget: int, *, by_switch: bool = False) -> None:
        """Raises FabricError if a switch needs more rows than `budget`."""
    def pairs_lost(self, links: Sequence[int]) -> tuple[int, int]:
        """Number of ordered pairs of switches that no VLAN serves if the given links are down, and of all pairs."""
    def route(self, vlan: int, source: str, destination: str) -> list[str]:
        """The egress ports of a route, from the sender's port to the place where the packet arrives or is lost."""
    def write(self, format: str) -> str:
        """The tables as text in the format "csv" or "json"."""
    def write_file(self, path: str, format: str) -> None:
        """Writes the tables into a file in the format "csv", "json" or "parquet".

        The formats csv and parquet are written row by row, so that large tables need no additional memory.
        """

def plan_routes(
    topology: Topology,
    engine_name: str = "auto",
    *,
    lanes: int | None = None,
    vlans: int | None = None,
    sampled_vlans: int | None = None,
    sample_percent: int | None = None,
    backup_vlans: int | None = None,
    protect: str | None = None,
    groups: Sequence[Sequence[int]] | None = None,
    effort: str | None = None,
    budget: float | None = None,
    steps: int | None = None,
    root: str | None = None,
    seed: int = 1,
    first_vlan: int = 1,
    progress: Callable[[StageProgress], None] | None = None,
) -> Routes:
    """Plans deadlock-free tables with one of `engines()`. Raises FabricError, and KeyboardInterrupt on Ctrl-C.

    The engines auto and order_pair search for `budget` seconds on one core (default 10, with effort "best" 60),
    including the proof. The budget is counted in steps of about a nanosecond, so the result is the same on every
    machine. For these two engines, the first Ctrl-C ends the search and keeps the best plan so far. `Routes.steps`
    gives the number of steps until then, and the argument `steps` ends another search at the same point.

    Backup VLANs protect against one failure at a time of the kind `protect`: "link", "switch" or "two_links"; or of one
    of `groups`, lists of link numbers that fail together. `effort` is "fast", "normal" or "best".
    """

def read_routes(
    path: str,
    topology: Topology,
    *,
    format: str | None = None,
    addresses: str | None = None,
    lanes: dict[int, int] | None = None,
) -> Routes:
    """Reads tables from a plan folder, a file (csv, parquet, json, opensm) or a folder of SWITCH.json files.

    A SWITCH.json file holds the output of `bridge -j fdb show`. `addresses` is a CSV file with the header address,node;
    `lanes` gives the lanes of VLANs that the tables do not give.
    """

def update_routes(
    routes: Routes,
    topology: Topology,
    *,
    lanes: int | None = None,
    failed: bool = False,
    progress: Callable[[StageProgress], None] | None = None,
) -> PlannedUpdate:
    """Plans tables for another topology close to the tables in use, for `pauseframe.fabric.routing.write_update`.

    The result has topology (with the names of its ports), routes (the new tables), kept and renumbered (VLANs; pairs of
    old and new), changes (switch, destination, (VLAN, port) before and after), mixes (whether old and new routes
    together have no cycle), moved_hosts, lost_before (pairs of hosts), and on the graph of both topologies (union):
    before, during, after. `lanes` is the maximum number of lanes, by default one more than the old tables have.
    `failed` means that removed links are already down. Raises FabricError.
    """

def engines() -> dict[str, str]:
    """Routing engines by name, each with a line of help."""

def families() -> dict[str, str]:
    """Topology families by name, with their parameters."""

@final
class FlowRun:
    """The results of a scenario at flow level."""

    @property
    def summary(self) -> FlowSummary: ...
    @property
    def interrupted(self) -> bool: ...
    @property
    def flows(self) -> Table: ...
    @property
    def links(self) -> Table: ...

def run_flows(
    scenario: Resolved,
    *,
    routes: Routes | None = None,
    choice: str = "random",
    slack: int = 0,
    demand: str | None = None,
    bound: float | None = None,
    out: str | None = None,
    force: bool = False,
    progress: Callable[[StageProgress], None] | None = None,
) -> FlowRun:
    """See `pauseframe.run_flows`."""

def flow_rates(
    topology: Topology,
    demand: str = "permutation",
    *,
    routes: Routes | None = None,
    choice: str = "random",
    slack: int = 0,
    seeds: Sequence[int] = ...,
    bound: float | None = None,
    progress: Callable[[StageProgress], None] | None = None,
) -> list[SteadyRates]:
    """Max-min fair rates of a static demand, one dict for each seed, which draws demand and routes.

    A dict has seed, flows, throughput_bps (per host), rate_bps {mean, min, p1, p50, p99, max}, hops_mean, bound_bps
    (lower, upper) or None. Without `routes`, a hash selects a shortest path for every flow (ECMP). `bound` is the
    relative gap between the bounds on the rate that any routing could give every pair at once.
    """

def link_headroom(
    rate_bps: int, delay_ps: int, max_frame: int, *, reaction_ps: int, lossless: int = 1
) -> dict[str, int]:
    """The headroom of one lossless class of a link by IEEE 802.1Qbb Annex O, as in scenarios.

    Both directions of the link are equal. `max_frame` is the largest frame in bytes, without preamble and gap;
    `lossless` is the number of lossless classes. The terms are frame_ahead_ps, pause_frames_ps, delay_back_ps,
    reaction_ps, last_frame_ps and delay_ps; arriving_bytes (bytes that arrive during the sum of these times),
    crossing_bytes (the frame that crosses XOFF, less one byte) and total_bytes.
    """

def shortest_path_cycle(topology: Topology) -> list[tuple[str, str, str, str]]:
    """The shortest cyclic buffer dependency if packets take any shortest path (ECMP); empty without one.

    Each entry is (egress port whose buffer is held, egress port that packets wait for, sender and receiver of such a
    route). Raises FabricError if a pair of hosts has no path, or a host does not have exactly one link.
    """
