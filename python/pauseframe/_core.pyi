"""The compiled half of pauseframe: parse, resolve, run, read tables. Use the names in `pauseframe` instead."""

from collections.abc import Callable, Sequence
from typing import final

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
    "columns",
    "congestion_control_contract",
    "engines",
    "explain_transport",
    "families",
    "flow_rates",
    "link_headroom",
    "loaded_plugins",
    "options",
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
    """The scenario is wrong. `problems` has one entry for every mistake."""

    problems: list[Problem]
    """Each: path ("switch.pfc.xon"), place ("incast.toml:12", "--set"), value (as written, or ""), message (what is
    allowed), hint (nearest key, or "")."""

class RunError(RuntimeError):
    """The run could not be carried out: the output folder, the disk, an internal assertion."""

class InputError(RunError):
    """What was asked for is not possible as it stands: a name that is none, a folder that is taken."""

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
    def has_plugins(self) -> bool:
        """Whether it uses a congestion control that was loaded."""
    @property
    def has_kernel(self) -> bool:
        """Whether its hosts are those of a Linux kernel."""
    @property
    def toml(self) -> str:
        """Every key with its value; resolves to itself."""
    @property
    def warnings(self) -> list[str]: ...
    @property
    def too_large(self) -> Problem | None:
        """Why `run` refuses it without `force_large`: an entry like those of `ScenarioError.problems`, with the
        estimated size of what it would record in its message."""
    def with_seed(self, seed: int) -> Resolved:
        """The same scenario with another seed, on the same graph: what `resolve` gives for it, in a fraction of the
        time."""
    def headroom(self) -> list[HeadroomRow]:
        """The headroom of lossless classes, links that are alike in one row: each term of 802.1Qbb Annex O (`_ns`),
        what the link needs and what the switch gives (`_bytes`). Empty without PFC."""
    def explain(self) -> list[tuple[str, str, str]]:
        """(path, value, origin) of every key in the order of the file; origin: "file", "--set", "preset tcp_bolt",
        "default", "computed: ..."."""

@final
class Run:
    """What came of a run."""

    @property
    def summary(self) -> Summary: ...
    @property
    def interrupted(self) -> bool: ...
    @property
    def finished(self) -> bool:
        """Whether it came to an end of its own: its status is "complete" or "deadlock"."""
    @property
    def peak_rss_bytes(self) -> int | None: ...
    @property
    def manifest_json(self) -> str:
        """What `manifest.json` of a results folder would say, on one line."""
    def packed(self) -> list[tuple[str, bytes]]:
        """The tables that have rows, each an Arrow IPC stream compressed with Zstandard, for `unpack_tables`."""
    @property
    def flows(self) -> Table: ...
    @property
    def queries(self) -> Table: ...
    @property
    def jobs(self) -> Table: ...
    @property
    def ranks(self) -> Table: ...
    @property
    def timeline(self) -> Table: ...
    @property
    def ports(self) -> Table: ...
    @property
    def series(self) -> Table: ...
    @property
    def throughput(self) -> Table: ...
    @property
    def pause_tree(self) -> Table: ...
    @property
    def states(self) -> Table: ...
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
    """Parses and resolves a scenario. `overrides` are (path, TOML value or bare word). Raises ScenarioError; RunError
    for an internal error, with its place, as all functions here do; KeyboardInterrupt on Ctrl-C."""

def run(
    scenario: Resolved,
    *,
    out: str | None = None,
    force: bool = False,
    force_large: bool = False,
    threads: int = 0,
    divide: bool = False,
    kernel: str | None = None,
    programs: list[tuple[str, str]] = ...,
    progress: Callable[[RunProgress], None] | None = None,
) -> Run:
    """Runs to the end, or until a signal (Ctrl-C): what was recorded is kept and `interrupted` is true. A signal while
    the results are written raises KeyboardInterrupt; the folder then says that the run is not complete.

    No more than `threads` share the network (0: no more than there are idle cores), and no more than pay off, unless
    `divide`: all of them, one for each switch with hosts at most. `progress` is called about ten times a second with
    sim_time_s, stop_time_s (or None), wall_s, events, packet_hops, flows_started, flows_finished. The GIL is released
    in between. Raises RunError; ScenarioError if it would record more than is sensible
    (`Resolved.too_large`) and `force_large` is false.
    """

def register_plugin(
    module: str, address: int, *, file: str, sha256: str, text: str | None = None, interpreted: bool = False
) -> str:
    """Adds the congestion control that the `pauseframe_cc` at `address` describes, and returns its name in scenarios,
    "MODULE:NAME". Who calls this keeps the memory valid until the process ends. Raises InputError."""

def loaded_plugins() -> list[tuple[str, str]]:
    """The loaded congestion controls: name, documentation."""

def congestion_control_contract(name: str) -> list[tuple[str, str, str | None]]:
    """The contract of congestion controls, judged for one of them: each rule, what it demands, and how it was broken,
    or None. Raises InputError if there is none of this name."""

def term_hint(word: str, known: list[str]) -> str | None:
    """What to say of a term of the field that is none of `known`; None for any other word."""

def read_table(path: str) -> Table:
    """Reads a Parquet file. Raises RunError if it is none, or damaged."""

_Column = tuple[str, Sequence[bool | int | float | str | None]]

def unpack_tables(name: str, parts: Sequence[bytes], columns: Sequence[_Column]) -> Table:
    """The rows of packed tables `name`, one after another, with further columns that have a value for each part. Of no
    parts, the empty table. Raises RunError for damaged parts, or if there is no such table."""

def table_of(columns: Sequence[_Column]) -> Table:
    """A table of these columns: truth values, whole numbers, numbers or texts; None is a missing value."""

@final
class ParquetWriter:
    """A Parquet file that is written in parts; it must not be there before."""

    def __new__(cls, path: str) -> ParquetWriter: ...
    def write(self, table: Table) -> None:
        """Appends rows. Raises OSError."""
    def close(self) -> None:
        """Writes what is left, to the disk. Raises OSError."""

def columns() -> list[dict[str, str]]:
    """Every column of the tables of a run and of a run at flow level: page of the reference, table, name, type, doc."""

def options() -> list[dict[str, str]]:
    """Every key of a scenario file: path, when (the choice under which it exists, or ""), type, default, doc."""

def schema() -> str:
    """A JSON Schema (draft 2020-12) of scenario files: types, units, ranges, names, and which kind has which keys."""

def explain_transport(preset: str, stack: str | None = None) -> list[dict[str, str]]: ...
def stacks() -> dict[str, str]: ...
def preset_docs() -> dict[str, str]: ...
def presets() -> dict[str, dict[str, str]]:
    """Transport presets: name to its row of values."""

class FabricError(ValueError):
    """A topology, tables or a plan are not possible: what is wrong, where, and what would do."""

@final
class Topology:
    """A fabric: hosts, switches, links. See `pauseframe.load_topology`."""

    @staticmethod
    def read(path: str, *, format: str | None = None, rate: str = "10 Gbps", delay: str = "1 us") -> Topology:
        """A file in an interchange format, by default the one of its extension. Raises FabricError with the line."""
    @staticmethod
    def parse(text: str, format: str, *, rate: str = "10 Gbps", delay: str = "1 us") -> Topology:
        """The same from text. Formats: graphml, node-link, hpcc, htsim, containerlab, ibnetdiscover."""
    @staticmethod
    def family(text: str) -> Topology:
        """A family with its parameters: "fat_tree:k=6"; `families()` lists them."""
    @staticmethod
    def of_scenario(scenario: Resolved) -> Topology: ...
    @property
    def notes(self) -> list[str]:
        """What was assumed or left out when it was read."""
    def nodes(self) -> list[tuple[str, str, int | None]]:
        """(name, "host" or "switch", level)."""
    def links(self) -> list[tuple[str, str, int, float]]:
        """(one end, other end, bits per second, delay in microseconds) by link number; rate and delay from the one
        end to the other."""
    def ports(self) -> list[tuple[str, str]]:
        """The names of the two ports of each link, as tables and reports have them: "leaf0:eth3"."""
    def _repr_html_(self) -> str:
        """The picture that notebooks show."""
    def statistics(self) -> TopologyStatistics:
        """hosts, switches, fabric_links, host_links, rates, switch_ports, hosts_per_switch, diameter, distance_mean,
        bisection, problems."""
    def write(self, format: str) -> str:
        """The text of a file; everything but ibnetdiscover can be written."""
    def without(self, links: Sequence[int]) -> Topology:
        """The topology without some links, by number. The other ports keep their names."""

    def levels(self) -> dict[str, int] | None:
        """The level of every node, hosts at 0: as named, or by distance from the hosts if that is consistent."""
    def with_single_ports(self) -> Topology:
        """The topology with every further port of a host that has several links as a host of its own, "NAME.PORT"."""
    def with_hosts(self, per_switch: int, *, rate: str = "10 Gbps", delay: str = "1 us") -> Topology:
        """The topology with hosts "SWITCH-host1" ... at every switch, if it has none. Raises FabricError."""

@final
class Routes:
    """Forwarding tables of all switches of a topology."""

    @property
    def notes(self) -> list[str]:
        """What was assumed or left out when they were read."""
    @property
    def vlans(self) -> list[tuple[int, int]]:
        """(VLAN, its lane)."""
    @property
    def steps(self) -> int | None:
        """The steps that the plan took, up to the end of the search if that was cut short; None if nobody counted."""
    @property
    def interrupted(self) -> bool:
        """Whether the search was cut short."""
    def check(
        self,
        *,
        rows_budget: int | None = None,
        what_if: bool = False,
        examples: int = 10,
        progress: Callable[[StageProgress], None] | None = None,
    ) -> RouteReport:
        """The verifier's report, as in docs/reference/routing.md: can_deadlock, clean, shortest_cycle, loops,
        black_holes, unreachable, tables, what_if, ..., and text, a summary for people."""
    def table_use(self) -> TableUse:
        """switch (with the most rows), rows (one per VLAN and host),
        rows_by_switch (one per VLAN and switch with hosts), vlans."""
    def fit(self, budget: int, *, by_switch: bool = False) -> None:
        """Raises FabricError if a switch needs more rows than `budget`."""
    def pairs_lost(self, links: Sequence[int]) -> tuple[int, int]:
        """Ordered pairs of switches with hosts that no VLAN serves with these links (by number) down, and all pairs."""
    def route(self, vlan: int, source: str, destination: str) -> list[str]:
        """The egress ports on the way, the sender's first, to where the packet arrives or is lost."""
    def write(self, format: str) -> str:
        """The tables as "csv" or "json"."""
    def write_file(self, path: str, format: str) -> None:
        """The same into a file, "parquet" too; it and csv row by row, so that large tables need no further memory."""

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
    """Deadlock-free tables by one of `engines()`. Raises FabricError; KeyboardInterrupt on Ctrl-C.

    auto and order_pair search within `budget` seconds of one core (default 10, with effort "best" 60), proof included;
    it is counted in steps of about a nanosecond, so the result is the same on every machine. For these the first Ctrl-C
    ends the search and keeps the best plan so far, whose `Routes.steps` say when: `steps` ends a search there again.

    `protect` is "link", "switch" or "two_links": the failures, one at a time, that backup VLANs are for; or `groups`,
    lists of link numbers that fail together. `effort` is "fast", "normal" or "best".
    """

def read_routes(
    path: str,
    topology: Topology,
    *,
    format: str | None = None,
    addresses: str | None = None,
    lanes: dict[int, int] | None = None,
) -> Routes:
    """Tables from a plan folder, a file (csv, parquet, json, opensm) or a folder of SWITCH.json.

    The latter hold what `bridge -j fdb show` prints.

    `addresses` is a CSV file with the header address,node; `lanes` says VLAN by VLAN what the tables do not.
    """

def update_routes(
    routes: Routes,
    topology: Topology,
    *,
    lanes: int | None = None,
    failed: bool = False,
    progress: Callable[[StageProgress], None] | None = None,
) -> PlannedUpdate:
    """Tables for another topology near the ones in use, as `pauseframe.routing.write_update` writes them down.

    topology (with the names of its ports), routes (the new tables), kept and renumbered (VLANs; pairs of old and new),
    changes (switch, destination, (VLAN, port) before, the same after), mixes (whether old and new routes together have
    no cycle), moved_hosts, lost_before (pairs of hosts), and on the graph of both topologies (union): before, during,
    after. `lanes` is the most that may be used, by default one more than the old tables have. `failed`: the links that
    are gone are down already. Raises FabricError.
    """

def engines() -> dict[str, str]:
    """Routing engines by name, with a line of help."""

def families() -> dict[str, str]:
    """Families of topologies by name, with their parameters."""

@final
class FlowRun:
    """What came of a scenario at flow level."""

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
    """Max-min fair rates of a static demand, one dict for each seed (which draws demand and routes): seed, flows,
    throughput_bps (a host), rate_bps {mean, min, p1, p50, p99, max}, hops_mean, bound_bps (lower, upper) or None.

    Without `routes`, every flow takes a shortest path by hash (ECMP). `bound` is the relative gap to which what any
    routing could give every pair at once is bounded.
    """

def link_headroom(
    rate_bps: int, delay_ps: int, max_frame: int, *, reaction_ps: int, lossless: int = 1
) -> dict[str, int]:
    """The headroom of one lossless class of one link by IEEE 802.1Qbb Annex O, both directions alike, as a scenario's.

    `max_frame`: the largest frame in bytes, without preamble and gap; `lossless`: number of lossless classes. Terms:
    frame_ahead_ps, pause_frames_ps, delay_back_ps, reaction_ps, last_frame_ps, delay_ps; arriving_bytes (what the link
    carries in their sum), crossing_bytes (the frame that crosses XOFF, but for a byte), total_bytes.
    """

def shortest_path_cycle(topology: Topology) -> list[tuple[str, str, str, str]]:
    """A shortest cycle of buffers that wait for each other if packets take any shortest path (ECMP); empty if none.

    Each: (egress port whose buffer is held, egress port that is waited for, sender and receiver of a route that does).
    Raises FabricError if a pair of hosts has no path or a host has not exactly one link.
    """
