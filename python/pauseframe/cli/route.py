"""The commands `route`: plan, check, update and draw forwarding tables.

The exit code is also 1 if tables can deadlock or are invalid.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pauseframe._core import InputError
from pauseframe.cli._common import (
    AsJson,
    Force,
    Quiet,
    in_shell,
    name_file,
    out_option,
    print_json,
    print_known,
    print_pairs,
    say,
)
from pauseframe.cli._errors import NOT_DONE
from pauseframe.cli._fabric import (
    Arranged,
    Delay,
    Display,
    Drawn,
    Format,
    HostsPerSwitch,
    Rate,
    Source,
    prepared,
)
from pauseframe.cli._options import PlainTyper
from pauseframe.terminal import interrupt

if TYPE_CHECKING:
    from pauseframe._core import Topology

commands = PlainTyper()
route = commands.group("route", "Plan and check deadlock-free routes.")

RowsBudget = Annotated[int | None, typer.Option("--rows", min=1, help="Rows that the table of a switch can hold.")]
LISTED = 8
"""Names that a message lists."""
Protect = Literal["link", "switch", "two_links"]
"""The failures, one at a time, that backups protect against."""
Tables = Literal["csv", "parquet"]
Effort = Literal["fast", "normal", "best"]
"""Amount of time for the search for good orders."""


@route.command(epilog="Examples: pauseframe route plan fat_tree:k=8 --lanes 2 --vlans 16 -o plan/ | "
               "pauseframe route plan fabric.graphml --engine edst --lanes 8 --rows 32000 -o plan/")  # fmt: skip
def plan(
    source: Source,
    out: Annotated[Path, out_option("Folder for tables, summary and drawing.")],
    engine: Annotated[str, typer.Option(help="Routing engine; `pauseframe route engines` lists them.")] = "auto",
    lanes: Annotated[int | None, typer.Option(help="Lanes (priorities) at most.")] = None,
    vlans: Annotated[int | None, typer.Option(help="VLANs, over all lanes.")] = None,
    sampled_vlans: Annotated[
        int | None, typer.Option(help="order_pair: VLANs that use only a part of the links, for failures.")
    ] = None,
    sample_percent: Annotated[int | None, typer.Option(help="order_pair: how large that part is, in percent.")] = None,
    backup_vlans: Annotated[
        int | None, typer.Option(help="auto, order_pair: VLANs for failures [default: a quarter of 8 or more].")
    ] = None,
    protect: Annotated[
        Protect | None, typer.Option(help="auto, order_pair: which failure must leave every pair a route.")
    ] = None,
    groups: Annotated[
        Path | None, typer.Option(help="As --protect, for links that fail together: CSV with the header group,port.")
    ] = None,
    effort: Annotated[Effort | None, typer.Option(help="auto, order_pair: how long to look for good orders.")] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            min=0.001,
            metavar="SECONDS",
            help="auto, order_pair: seconds that the plan may take on one core [default: 10; with --effort best 60].",
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=0, help="auto, order_pair: end the search here, as plan.json of another plan says."),
    ] = None,
    hosts_per_switch: HostsPerSwitch = 0,
    tables: Annotated[
        Tables | None, typer.Option(help="Format of the tables [default: csv; parquet above a million rows].")
    ] = None,
    json_tables: Annotated[bool, typer.Option("--json-tables", help="Write tables.json too.")] = False,
    root: Annotated[str | None, typer.Option(help="up_down: the root switch.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of random orders, trees and ties.")] = 1,
    first_vlan: Annotated[int, typer.Option(min=1, max=4094, help="Number of the first VLAN.")] = 1,
    rows: RowsBudget = None,
    by_switch: Annotated[
        bool,
        typer.Option("--by-switch", help="Count one row for all hosts of a switch (address blocks), not one per host."),
    ] = False,
    from_: Format = None,
    rate: Rate = "10 Gbps",
    delay: Delay = "1 us",
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Plan routes that cannot deadlock.

    Verifies the routes before writing them. Ctrl-C ends the search and keeps the best plan so far.
    """
    from pauseframe.fabric.routing import plan_routes, read_groups, write_plan
    from pauseframe.types import PlanOrder

    topology = prepared(source, from_, rate, delay, hosts_per_switch)
    if root is not None:
        _check_root(root, topology)
    about = PlanOrder(topology=source, engine=engine, lanes=lanes, seed=seed, effort=effort, budget_s=budget)
    at_risk = None if groups is None else read_groups(groups, topology)
    with Display("plan", quiet or as_json) as display:
        routes = plan_routes(
            topology, engine, lanes=lanes, vlans=vlans, sampled_vlans=sampled_vlans, sample_percent=sample_percent,
            backup_vlans=backup_vlans, protect=protect, groups=at_risk,
            effort=effort, budget=budget, steps=steps, root=root, seed=seed, first_vlan=first_vlan, progress=display,
        )  # fmt: skip
        summary = write_plan(
            routes, topology, out, about=about, rows_budget=rows, by_switch=by_switch, force=force,
            json_tables=json_tables, tables=tables, protect=protect, groups=at_risk, progress=display,
        )  # fmt: skip
    if as_json:
        print_json(summary)
    elif not quiet:
        use, report = summary["rows"], summary["report"]
        lines = [
            ("VLANs", str(report["vlans"])),
            ("lanes", str(report["lanes"])),
            ("dependencies between buffers", f"{report['dependencies']}, no cycle"),
            ("pairs of hosts without a route", str(report["unreachable"]["count"])),
            ("rows of a switch, at most", f"{use['rows']} ({use['switch']})"),
            ("  with an address block for each switch", str(use["rows_by_switch"])),
        ]
        print_pairs(lines, f"{engine} on {source}")
        for note in summary["notes"]:
            print(note)
        print(f"\ntables in {out}; next: pauseframe route check {in_shell(source)} {in_shell(out)} --what-if")
    if routes.interrupted and steps is None:
        raise typer.Exit(interrupt.EXIT_CODE)


def _check_root(root: str, topology: Topology) -> None:
    from pauseframe.terminal.text import nearest

    switches = [name for name, kind, _ in topology.nodes() if kind == "switch"]
    if root not in switches:
        near = nearest(root, switches)
        hint = f"did you mean {' or '.join(near)}?" if near else f"switches are {', '.join(switches[:LISTED])}"
        raise typer.BadParameter(f"{root!r} is no switch of the topology; {hint}", param_hint="--root")


@route.command(epilog="Examples: pauseframe route check fat_tree:k=8 plan/ --what-if | "
               "pauseframe route check fabric.ibnetdiscover opensm-lfts.dump --json | "
               "pauseframe route check lab.clab.yml fdb/ --addresses macs.csv --lane 10=3")  # fmt: skip
def check(
    source: Source,
    tables: Annotated[
        Path,
        typer.Argument(
            metavar="TABLES",
            help="Plan folder, .csv, .parquet, .json, LFT dump, folder of OpenSM dumps or of SWITCH.json (bridge -j).",
        ),
    ],
    format: Annotated[str | None, typer.Option(help="csv, parquet, json or opensm [default: by name].")] = None,
    addresses: Annotated[
        Path | None, typer.Option(help="CSV with the header address,node: which MAC belongs to whom.")
    ] = None,
    lane: Annotated[
        list[str] | None,
        typer.Option(metavar="VLAN=LANE", help="The lane of a VLAN, for tables that name none. Repeatable."),
    ] = None,
    rows: RowsBudget = None,
    what_if: Annotated[bool, typer.Option("--what-if", help="Try every failure of one link or switch.")] = False,
    what_if_groups: Annotated[
        Path | None, typer.Option(help="Try groups of links that fail together: CSV with the header group,port.")
    ] = None,
    what_if_pairs: Annotated[
        int, typer.Option(min=0, help="Try the failure of this many random pairs of links (seed 1).")
    ] = 0,
    hosts_per_switch: HostsPerSwitch = 0,
    examples: Annotated[int, typer.Option(min=1, help="How many examples of each finding --json gives.")] = 10,
    drawing: Annotated[Path | None, typer.Option("--draw", help="Draw the cycle, to a .svg or .html file.")] = None,
    from_: Format = None,
    rate: Rate = "10 Gbps",
    delay: Delay = "1 us",
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Check forwarding tables: deadlock, loops, missing routes.

    The exit code is 1 if the tables can deadlock or are invalid.
    """
    from pauseframe.fabric.draw import draw as draw_topology
    from pauseframe.fabric.routing import other_topology, read_routes, what_ifs

    if (tables / "manifest.json").is_file():
        raise InputError(f"{tables} holds the results of a run: name the forwarding tables that route plan wrote")
    topology = prepared(source, from_, rate, delay, hosts_per_switch)
    lanes = dict(_lane(item) for item in lane) if lane else None
    routes = read_routes(
        str(tables), topology, format=format, addresses=None if addresses is None else str(addresses), lanes=lanes
    )
    with Display("check", quiet or as_json) as display:
        report = routes.check(rows_budget=rows, what_if=what_if, examples=examples, progress=display)
    text = report.pop("text")
    notes = [*routes.notes, *filter(None, [other_topology(tables, topology)])]
    several = what_ifs(routes, topology, groups=what_if_groups, pairs=what_if_pairs)
    if drawing is not None:
        held = [arc["held"] for arc in report["shortest_cycle"]]
        cycle = {buffer["port"]: f"{buffer['port']}, lane {buffer['lane']}" for buffer in held}
        draw_topology(topology, drawing, mark=cycle, title=f"{source}: {tables}")
    if as_json:
        print_json({**report, **({"what_if_several": several} if several else {}), "notes": notes})
    elif not quiet:
        for note in notes:
            say(f"note: {note}")
        print(text, end="")
        for failure, figures in several.items():
            harmless, tried = figures["harmless"], figures["tried"]
            print(f"{failure} down: {harmless} of {tried} cost no pair of switches its last route")
            if figures["worst"]:
                print(f"  worst: {figures['worst'][0]}, {figures['worst'][1]} pairs")
        print("verdict: " + ("right" if report["clean"] else "NOT RIGHT"))
    if not report["clean"]:
        raise typer.Exit(NOT_DONE)


@route.command(epilog="Examples: pauseframe route update plan/ fabric-without-link.graphml -o update/ | "
               "pauseframe route update plan/ fabric.graphml --failed -o update/")  # fmt: skip
def update(
    old: Annotated[Path, typer.Argument(metavar="OLD", help="Folder of the plan in use.")],
    source: Annotated[str, typer.Argument(metavar="NEW_TOPOLOGY", help="As for route plan.")],
    out: Annotated[Path, out_option("Folder for the new plan, the rows that differ, and the steps.")],
    lanes: Annotated[
        int | None, typer.Option(help="Lanes at most [default: one more than OLD has, if need be].")
    ] = None,
    failed: Annotated[
        bool,
        typer.Option(
            "--failed", help="The links that are gone are down already [default: they are taken out at the end]."
        ),
    ] = False,
    hosts_per_switch: HostsPerSwitch = 0,
    from_: Format = None,
    rate: Rate = "10 Gbps",
    delay: Delay = "1 us",
    force: Force = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Plan tables for a changed topology, close to the tables in use.

    Also plans the steps from the old to the new tables, in which no packet is lost or blocked.
    """
    from pauseframe.fabric.routing import read_routes, update_routes, write_update
    from pauseframe.fabric.topology import load_topology

    topology = prepared(source, from_, rate, delay, hosts_per_switch)
    if not (old / "plan.json").is_file():
        raise InputError(f"{old} is not the folder of a route plan: name one that pauseframe route plan -o wrote")
    before = read_routes(str(old), load_topology(old / "topology.graphml"))
    with Display("update", quiet or as_json) as display:
        planned = update_routes(before, topology, lanes=lanes, failed=failed, progress=display)
        summary = write_update(planned, out, force=force)
    if as_json:
        print_json(summary)
    elif not quiet:
        added, changed, removed = summary["rows_added"], summary["rows_changed"], summary["rows_removed"]
        lines = [
            ("rows that differ", f"{added} added, {changed} changed, {removed} removed"),
            ("VLANs that keep their number", str(len(summary["kept"]))),
            ("VLANs with a new number", str(sum(new is not None for _, new in summary["renumbered"]))),
        ]
        if failed:
            lines.append(("pairs of hosts whose switches lost all routes", str(summary["pairs_lost_before"])))
        if summary["cut_off"]:
            lines.append(("cut off until a link returns", ", ".join(summary["cut_off"])))
        print_pairs(lines, f"{old} to {source}")
        for number, step in enumerate(summary["steps"], 1):
            print(f"{number}. {step['do']} ({step['safe']})")
        for note in summary["notes"]:
            say(f"note: {note}")
        print(f"\nsteps and new plan in {out}")


@route.command(name="draw", epilog="Example: pauseframe route draw fat_tree:k=4 plan/ --to host0 --vlan 1 -o tree.svg")
def draw_tree(
    source: Source,
    tables: Annotated[Path, typer.Argument(metavar="TABLES", help="As for route check.")],
    to: Annotated[str, typer.Option(help="The receiving host.")],
    vlan: Annotated[int, typer.Option(min=0, max=4094, help="The VLAN.")],
    out: Drawn,
    layout: Arranged = "auto",
    from_: Format = None,
    rate: Rate = "10 Gbps",
    delay: Delay = "1 us",
    as_json: AsJson = False,
) -> None:
    """Draw the routes to one host in one VLAN."""
    from pauseframe.fabric.draw import draw as draw_topology
    from pauseframe.fabric.routing import read_routes, tree_ports

    topology = prepared(source, from_, rate, delay, 0)
    routes = read_routes(str(tables), topology)
    lanes = dict(routes.vlans)
    if vlan not in lanes:
        raise typer.BadParameter(
            f"there is no VLAN {vlan}: there are {', '.join(map(str, lanes))}", param_hint="--vlan"
        )
    title = f"to {to} in VLAN {vlan}, lane {lanes[vlan]}"
    draw_topology(topology, out, layout=layout, mark=tree_ports(routes, topology, vlan, to), title=title)
    name_file(out, as_json)


@route.command(epilog="Example: pauseframe route engines")
def engines(as_json: AsJson = False) -> None:
    """List the routing engines."""
    from pauseframe import _core

    print_known(_core.engines(), as_json)


def _lane(item: str) -> tuple[int, int]:
    vlan, equals, lane = item.partition("=")
    if not (equals and vlan.strip().isdigit() and lane.strip().isdigit()):
        raise typer.BadParameter(f"{item!r} is not of the form VLAN=LANE", param_hint="--lane")
    return int(vlan), int(lane)
