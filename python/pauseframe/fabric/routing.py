"""Plans, checks, writes and reads deadlock-free routes.

>>> import pauseframe as pf
>>> fabric = pf.load_topology("jellyfish:switches=20,network_ports=6,hosts_per_switch=4")
>>> routes = pf.plan_routes(fabric, "order_pair", lanes=2, vlans=4)
>>> report = routes.check()
>>> report["can_deadlock"], report["unreachable"]["count"]
(False, 0)
"""

from __future__ import annotations

import csv
import difflib
import io
import json
import random
from itertools import combinations
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pauseframe import _core
from pauseframe._core import Routes
from pauseframe.fabric.checked import needs_topology, plan_routes
from pauseframe.fabric.draw import draw
from pauseframe.fabric.parts import cut_off, naming_cut_off, reachable_ports
from pauseframe.fabric.planned_names import with_planned_names
from pauseframe.files.atomic import whole_folder
from pauseframe.files.reading import read_text
from pauseframe.types import PlanSummary

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pauseframe.types import (
        Failures,
        PlanOrder,
        RouteReport,
        RowChange,
        SeveralFailures,
        StageProgress,
        Step,
        Update,
        UpdateSummary,
    )

__all__ = [
    "Routes",
    "other_topology",
    "plan_routes",
    "read_groups",
    "read_routes",
    "tree_ports",
    "update_routes",
    "what_ifs",
    "write_plan",
    "write_update",
]

SUMMARY = "plan.json"
ROWS_CSV = 1_000_000
"""Maximum number of rows, over all switches, that are written as CSV."""
STRANDED = "4-cut-off-rows.csv"
"""Rows of switches that are cut off from the rest of the fabric."""
BEFORE = " (before)"
"""Ends the names of hosts at their old places, on the union of the old and the new topology."""
HostRow = tuple[str, str, str, str]
"""A row of forwarding tables: switch, VLAN, host (or a further port of one), port."""


def write_plan(
    routes: Routes,
    topology: _core.Topology,
    folder: str | Path,
    *,
    about: PlanOrder | None = None,
    rows_budget: int | None = None,
    by_switch: bool = False,
    force: bool = False,
    json_tables: bool = False,
    tables: str | None = None,
    protect: str | None = None,
    groups: Sequence[Sequence[int]] | None = None,
    progress: Callable[[StageProgress], None] | None = None,
) -> PlanSummary:
    """Verifies the tables and writes them into a folder, which appears whole or not at all.

    The folder has `tables.csv`, or `tables.parquet` for more than a million rows (`tables`, "csv" or "parquet",
    overrides this choice), with `json_tables` also `tables.json`, and `topology.graphml`, `topology.svg` and
    `plan.json`. `plan.json` holds the request (`about`), the steps of the plan, the report of the verifier, and the
    number of rows that the switches need. With `protect` or `groups` of the plan, its notes count the failures that
    cost a pair its last route nevertheless. Raises FabricError, without writing, for tables that can deadlock, loop,
    leave out a pair, or exceed `rows_budget`.
    """
    folder = Path(folder)
    needs_topology(topology)
    if folder.exists() and any(folder.iterdir()):
        _refuse_full(folder, force)
    if rows_budget is not None:
        routes.fit(rows_budget, by_switch=by_switch)
    report = routes.check(what_if=protect is not None, progress=progress)
    text = report.pop("text")
    if not report["clean"]:
        raise _core.FabricError(f"the tables were not written, since they are not right:\n{text}")
    use = routes.table_use()
    summary = PlanSummary(
        program="pauseframe", **(about or {}), steps=routes.steps, rows=use, vlans=routes.vlans,
        notes=[*routes.notes, *_unprotected(routes, topology, report, (protect, groups))], report=report,
    )  # fmt: skip
    with whole_folder(folder, replace=force) as partial:
        rows = use["rows_by_switch"] * sum(kind == "switch" for _, kind, _ in topology.nodes())
        kinds = [tables or ("csv" if rows <= ROWS_CSV else "parquet")] + ["json"] * json_tables
        for kind in kinds:
            routes.write_file(str(partial / f"tables.{kind}"), kind)
        (partial / "topology.graphml").write_text(topology.write("graphml"), encoding="utf-8")
        draw(topology, partial / "topology.svg", title=str(summary.get("topology", "topology")))
        (partial / SUMMARY).write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    return summary


TWO_LINKS = 1000
"""Pairs of links that are tried for a plan that protects against two."""


def _drawn_pairs(topology: _core.Topology, count: int) -> list[list[int]]:
    """Random pairs of links between switches (seed 1), or each pair once if there are no more."""
    kinds = {name: kind for name, kind, _ in topology.nodes()}
    fabric = [n for n, (a, b, *_) in enumerate(topology.links()) if kinds[a] == kinds[b] == "switch"]
    if comb(len(fabric), 2) <= count:
        return [list(pair) for pair in combinations(fabric, 2)]
    draw = random.Random(1)
    return [draw.sample(fabric, 2) for _ in range(count)]


def _unprotected(
    routes: Routes,
    topology: _core.Topology,
    report: RouteReport,
    wanted: tuple[str | None, Sequence[Sequence[int]] | None],
) -> list[str]:
    """The failures of a kind, and of groups of links, that a plan with backups does not protect against."""
    protect, groups = wanted
    found: list[tuple[str, Failures]] = []
    if what_if := report["what_if"]:
        found.append(("links", what_if["links"]))
        if protect == "switch":
            found.append(("switches", what_if["switches"]))
    several: dict[str, Sequence[Sequence[int]]] = {"of the groups": groups or []}
    if protect == "two_links":
        pairs = _drawn_pairs(topology, TWO_LINKS)
        several[f"of {f'{TWO_LINKS} drawn' if len(pairs) == TWO_LINKS else f'the {len(pairs)}'} pairs of links"] = pairs
    counts = [(f"of the {one['tried']} {kind}", one["tried"] - one["harmless"]) for kind, one in found]
    counts += [(words, sum(routes.pairs_lost(links)[0] > 0 for links in cases)) for words, cases in several.items()]
    advice = "raise --backup-vlans, or try another --seed or --effort best"
    if report["lanes"] == 1 and all(level is not None for _, kind, level in topology.nodes() if kind == "switch"):
        advice += "; what needs a way down and up again stays, because one lane by levels has none"
    return [
        f"{lost} {words} still cost pairs their last route when they fail: {advice}" for words, lost in counts if lost
    ]


def _refuse_full(folder: Path, force: bool) -> None:
    """Refuses a folder with files that are no plan, and a plan without `force`."""
    if not (folder / SUMMARY).is_file():
        raise _core.InputError(
            f"the folder {folder} holds files but no {SUMMARY}: it is left as it is, name another one"
        )
    if not force:
        raise _core.InputError(
            f"the folder {folder} is not empty: name another one, or replace the plan with --force "
            "(in Python: force=True)"
        )


def read_routes(
    path: str | Path,
    topology: _core.Topology,
    *,
    format: str | None = None,
    addresses: str | None = None,
    lanes: dict[int, int] | None = None,
) -> Routes:
    """Reads tables from a plan folder, a file (csv, parquet, json, opensm) or a folder of SWITCH.json files.

    A SWITCH.json file holds the output of `bridge -j fdb show`. `addresses` is a CSV file with the header address,node;
    `lanes` gives the lanes of VLANs that the tables do not give. Raises FabricError for tables that do not fit the
    topology, with the first difference if they are a plan for another topology.
    """
    needs_topology(topology)
    try:
        return _core.read_routes(str(path), topology, format=format, addresses=addresses, lanes=lanes)
    except _core.FabricError as error:
        if other := other_topology(path, topology):
            raise _core.FabricError(f"{other}. Use that one, or plan again: pauseframe route plan") from error
        if "does not fit the header" in str(error):
            raise _core.FabricError(f"{error}; correct this line, or plan again: pauseframe route plan") from error
        raise


def other_topology(tables: str | Path, topology: _core.Topology) -> str | None:
    """The first difference between a topology and that of a plan, with what to do; None without a difference."""
    folder = tables if (tables := Path(tables)).is_dir() else tables.parent
    own = folder / "topology.graphml"
    if not ((folder / SUMMARY).is_file() and own.is_file()):
        return None
    planned = _core.Topology.read(str(own))
    for plan, here in ((_nodes(planned), _nodes(topology)), (_links(planned), _links(topology))):
        for mine, others, place in ((plan, here, "only in the plan"), (here, plan, "not in the plan")):
            if one := next((one for one in mine if one not in others), None):
                return f"{tables}: the plan is for another topology: {one} is {place}; its own topology: {own}"
    return None


def _nodes(topology: _core.Topology) -> dict[str, None]:
    return {f"the {kind} {name}": None for name, kind, _ in topology.nodes()}


def _links(topology: _core.Topology) -> dict[str, None]:
    return {f"the link {' - '.join(sorted(ports))}": None for ports in topology.ports()}


def update_routes(
    routes: Routes,
    topology: _core.Topology,
    *,
    lanes: int | None = None,
    failed: bool = False,
    progress: Callable[[StageProgress], None] | None = None,
) -> Update:
    """Plans tables for a changed topology that are close to `routes`, the tables of the old topology.

    Raises FabricError if no tables for the changed topology exist.

    `lanes` is the maximum number of lanes in total (default: one more than `routes` has). `failed` means that the
    missing links are already down: nodes without a path to the rest, and ports of hosts without a link, are then listed
    in `cut_off`, and the tables are those of the rest. Ports of hosts keep their names in `routes`, whichever of them
    the new topology names first. The plan is the same whether `routes` come from memory or from files.
    """
    topology, gone = with_planned_names(topology, routes.topology)
    cut = cut_off(topology) if failed else None
    rest = topology if cut is None else cut.rest
    hint = "" if failed else "; if its links are down already, --failed (failed=True) repairs the others"
    with naming_cut_off(rest, remedy=hint):
        planned = _core.update_routes(routes, rest, lanes=lanes, failed=failed, progress=progress)
    nodes = [*(gone if failed else []), *([] if cut is None else cut.nodes)]
    update: Update = {**planned, "old": routes, "cut_off": nodes}
    return {**update, "changes": _with_dead_rows(update)} if failed else update


def _with_dead_rows(update: Update) -> list[RowChange]:
    """`changes` with the old rows over failed links: packets cannot take them, so the core regards them as absent."""
    known = _switch_rows(update["before"], update["union"])
    dead = {row: port for row, port in _switch_rows(update["old"], update["union"]).items() if row not in known}
    old_number = {new: old for old, new in update["renumbered"]}
    changes: list[RowChange] = []
    for switch, destination, before, after in update["changes"]:
        vlan = old_number.get(after[0], after[0]) if after else None
        if before is None and vlan is not None and (port := dead.pop((vlan, switch, destination), None)):
            changes.append((switch, destination, (vlan, port), after))
        else:
            changes.append((switch, destination, before, after))
    return changes + [(switch, to, (vlan, port), None) for (vlan, switch, to), port in sorted(dead.items())]


def write_update(update: Update, folder: str | Path, *, force: bool = False) -> UpdateSummary:
    """Verifies an update of `update_routes` and writes it into a folder, which appears whole or not at all.

    `plan/` is the new plan, as write_plan writes it. `1-add-rows.csv`, `2-senders.csv` and `3-remove-rows.csv` are the
    steps, `diff.csv` has the differing rows, `during.csv` the rows after the first and before the last step (without
    rows over failed links, which no packet can take), and `update.json` the summary. Rows of switches that a failure
    cut off are in `4-cut-off-rows.csv` instead of `3-remove-rows.csv`.
    """
    folder = Path(folder)
    if folder.exists() and (not force or not (folder / "update.json").is_file()) and any(folder.iterdir()):
        raise _core.InputError(f"the folder {folder} is not empty: name another one; --force replaces an update only")
    during = update["during"].check()
    if not update["mixes"] or during["can_deadlock"] or during["loops"]["count"]:
        raise _core.FabricError(
            f"the update was not written: old and new rows together are not right:\n{during['text']}"
        )
    with whole_folder(folder, replace=force) as partial:
        write_plan(update["routes"], update["topology"], partial / "plan")
        _write_steps(update, partial)
        summary = _summary(update)
        (partial / "update.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    return summary


def _write_steps(update: Update, folder: Path) -> None:
    lanes = dict(update["during"].vlans)
    kept = set(update["kept"])
    added: list[list[str]] = []
    removed: list[list[str]] = []
    differ: list[list[Any]] = []
    for switch, destination, was, will_be in update["changes"]:
        differ.append([switch, destination, *(was or ("", "")), *(will_be or ("", ""))])
    # Rows use the node names of their plan: on the union of both topologies a switch has more hosts, so the switch's
    # name would stand for other hosts than in the plan.
    for tables, rows in ((update["routes"], added), (update["old"], removed)):
        rows += [row for row in _rows(tables) if int(row[1]) not in kept]
    before, after = _kept_rows(update)
    # A port whose cable changes has two names on the union of both topologies, but only one in the switch.
    added += [[*row[:3], row[3].removesuffix(" (new)")] for row in sorted(after - before)]
    removed += map(list, sorted(before - after))
    header = ["switch", "vlan", "destination", "port"]
    _write_csv(folder / "1-add-rows.csv", header, added)
    senders = [
        [old if old else "", new if new else "", lanes.get(new, "") if new else ""] for old, new in update["renumbered"]
    ]
    _write_csv(folder / "2-senders.csv", ["leave_vlan", "use_vlan", "in_lane"], senders)
    # Hosts at a switch that is cut off still reach each other by its rows.
    lost = set(update["cut_off"])
    _write_csv(folder / "3-remove-rows.csv", header, [row for row in removed if row[0] not in lost])
    if stranded := [row for row in removed if row[0] in lost]:
        _write_csv(folder / STRANDED, header, stranded)
    _write_csv(
        folder / "diff.csv", ["switch", "destination", "vlan_before", "port_before", "vlan_after", "port_after"], differ
    )
    (folder / "during.csv").write_text(update["during"].write("csv"), encoding="utf-8")
    (folder / "during.graphml").write_text(update["union"].write("graphml"), encoding="utf-8")


def _rows(tables: Routes) -> list[list[str]]:
    """The rows of forwarding tables: switch, VLAN, destination, port."""
    lines = csv.reader(io.StringIO(tables.write("csv")))
    return [line for line in lines if len(line) == 4 and line[1] != "vlan"]


def _kept_rows(update: Update) -> tuple[set[HostRow], set[HostRow]]:
    """The rows of VLANs that keep their number, before and after the update.

    They differ in rows for added or removed hosts, to which no host sends, and in rows over failed links.
    """
    kept, attached = set(update["kept"]), _attachments(update["union"])
    before, old, after = (
        _host_rows([row for row in _rows(update[state]) if int(row[1]) in kept], attached)
        for state in ("before", "old", "after")
    )
    # "before" lacks rows over failed links. "old" has them, but its rows for all hosts of a switch must not be taken
    # as rows for hosts that are new there.
    hosts = {row[2] for row in before}
    return before | {row for row in old if row[2] in hosts}, after


def _host_rows(rows: Iterable[list[str]], attached: dict[str, tuple[str, str]]) -> set[HostRow]:
    """One row for each destination of `attached`, also instead of rows for all hosts of a switch."""
    beside: dict[str, dict[str, str]] = {}
    for host, (switch, port) in attached.items():
        beside.setdefault(switch, {})[host] = port
    found: set[HostRow] = set()
    for switch, vlan, destination, port in rows:
        if destination in attached:
            found.add((switch, vlan, destination, port))
            continue
        for host, own in beside.get(destination, {}).items():
            found |= {(switch, vlan, host, port), (destination, vlan, host, own)}
    return found


def _switch_rows(tables: Routes, union: _core.Topology) -> dict[tuple[int, str, str], str]:
    """The port for each (VLAN, switch, switch of the destination) of old tables, on the old topology or on `union`."""
    homes: dict[str, str] = {}
    for host, (switch, _) in _attachments(union).items():
        homes.setdefault(host.replace(BEFORE, ""), switch)  # the old place precedes the new one
    found: dict[tuple[int, str, str], str] = {}
    for switch, vlan, destination, port in _rows(tables):
        home = homes.get(destination.replace(BEFORE, ""), destination)
        if home != switch:
            found[int(vlan), switch, home] = port
    return found


def _attachments(topology: _core.Topology) -> dict[str, tuple[str, str]]:
    """The switch and its port of each destination, by link: each host, and "NAME.PORT" for its further ports."""
    hosts = {name for name, kind, _ in topology.nodes() if kind == "host"}
    # Where ports are nodes, the host's own node need not have its first link.
    edges = {edge["link"]: edge for edge in json.loads(topology.write("node-link"))["edges"]}
    found: dict[str, tuple[str, str]] = {}
    for number, ((one, other), (a, b, *_)) in enumerate(zip(topology.ports(), topology.links(), strict=True)):
        for host, own, switch, port in ((a, one, b, other), (b, other, a, one)):
            if host in hosts:
                node = next(edges[number][end] for end in ("source", "target") if edges[number][end] != switch)
                name = f"{host}.{own.removeprefix(f'{host}:')}" if node in found else node
                found[name] = switch, port.removeprefix(f"{switch}:")
    return found


def _write_csv(path: Path, header: list[str], rows: Iterable[Iterable[Any]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def _summary(update: Update) -> UpdateSummary:
    changes = update["changes"]
    new = [vlan for _, vlan in update["renumbered"] if vlan]
    old = [vlan for vlan, _ in update["renumbered"] if vlan]
    steps: list[Step] = [
        {"do": "connect what is new; add rows", "file": "1-add-rows.csv", "vlans": new,
         "safe": "nobody sends in these VLANs, or to these hosts"},
        {"do": "senders leave the old VLANs for the new ones", "file": "2-senders.csv", "vlans": new,
         "safe": "all rows are there, and old and new routes together have no cycle"},
        {"do": "wait until no packet is left in the old VLANs", "vlans": old, "safe": "nothing changes"},
        {"do": "remove rows; disconnect what is gone", "file": "3-remove-rows.csv", "vlans": old,
         "safe": "nobody sends in these VLANs, or to these hosts, and no packet passes a failed link"},
    ]  # fmt: skip
    if any(switch in update["cut_off"] for switch, *_ in changes):
        steps.append(
            {"do": "before a link of what is cut off returns: remove its rows", "file": STRANDED, "vlans": old,
             "safe": "until then its hosts reach each other by them"}
        )  # fmt: skip
    return {
        "program": "pauseframe",
        "steps": steps,
        "cut_off": update["cut_off"],
        "kept": update["kept"],
        "renumbered": update["renumbered"],
        "moved_hosts": update["moved_hosts"],
        "pairs_lost_before": update["lost_before"],
        "rows_added": sum(before is None for _, _, before, _ in changes),
        "rows_removed": sum(after is None for *_, after in changes),
        "rows_changed": sum(before is not None and after is not None for _, _, before, after in changes),
        "notes": update["routes"].notes,
    }


def read_groups(path: str | Path, topology: _core.Topology) -> list[list[int]]:
    """Reads groups of links that fail together from a CSV file with the header group,port.

    Each line of the file names a link by one of its ports, in the form of reports ("leaf0:eth3"). Returns the numbers
    of the links, group by group.
    """
    links = {port: number for number, ports in enumerate(topology.ports()) for port in ports}
    groups: dict[str, list[int]] = {}
    rows = csv.reader(io.StringIO(read_text(Path(path)), newline=""))
    try:
        for line, row in enumerate(rows, 1):
            if line == 1 and row == ["group", "port"]:
                continue
            if line == 1 or len(row) != 2:
                raise _core.FabricError(f"{path}, line {line}: write group,port, with that header")
            group, port = (word.strip() for word in row)
            if port not in links:
                near = difflib.get_close_matches(port, links, 1)
                hint = f"; did you mean {near[0]!r}?" if near else ""
                raise _core.FabricError(f"{path}, line {line}: there is no port {port!r}{hint}")
            groups.setdefault(group, []).append(links[port])
    except csv.Error as error:
        raise _core.FabricError(f"{path}, line {rows.line_num}: {error}") from None
    return list(groups.values())


def tree_ports(routes: Routes, topology: _core.Topology, vlan: int, to: str) -> list[str]:
    """The ports by which packets for `to`, a port of a host, leave in a VLAN, from every port that can reach it.

    The ports are those of other hosts in its plane. The first port of a host has the host's name, further ones
    "NAME.PORT".
    """
    senders = reachable_ports(topology, to)
    return sorted({port for sender in senders for port in routes.route(vlan, sender, to)})


def what_ifs(
    routes: Routes, topology: _core.Topology, *, groups: str | Path | None = None, pairs: int = 0
) -> dict[str, SeveralFailures]:
    """The pairs that lose their routes when several links fail together, before any rerouting.

    Tries the groups of a file (read_groups), and random pairs of links between switches (seed 1), or all of them. Each
    of the results has `tried`, `harmless` and `worst` (the failure, and the ordered pairs of switches that lose their
    last route).
    """
    cases = {"a group of links": read_groups(groups, topology) if groups is not None else []}
    cases["two links"] = _drawn_pairs(topology, pairs)
    ports = topology.ports()
    result: dict[str, SeveralFailures] = {}
    for what, failures in cases.items():
        if not failures:
            continue
        lost = [routes.pairs_lost(links)[0] for links in failures]
        worst = max(range(len(lost)), key=lost.__getitem__)
        name = ", ".join(" - ".join(ports[link]) for link in failures[worst])
        result[what] = {
            "tried": len(lost),
            "harmless": lost.count(0),
            "worst": (name, lost[worst]) if lost[worst] else None,
        }
    return result
