"""Updates of routes, checked from their files by code independent of planner and verifier, with NetworkX for cycles.

`python tests/test_updates.py 500` tries 500 random updates (fail, add, move) over the 20 graphs.
"""

import csv
import json
import random
import sys
import tempfile
from pathlib import Path

import networkx as nx
import pauseframe as pf
import pytest
from pauseframe.fabric.routing import update_routes, write_plan, write_update

FABRICS = (
    "jellyfish:switches=12,network_ports=3,hosts_per_switch=1",
    "jellyfish:switches=10,network_ports=4,hosts_per_switch=2",
    "jellyfish:switches=16,network_ports=3,hosts_per_switch=1,seed=2",
    "jellyfish:switches=14,network_ports=6,hosts_per_switch=1,seed=3",
    "jellyfish:switches=20,network_ports=3,hosts_per_switch=1,seed=4",
    "jellyfish:switches=18,network_ports=4,hosts_per_switch=1,seed=5",
    "jellyfish:switches=12,network_ports=7,hosts_per_switch=1,seed=6",
    "fat_tree:k=4",
    "leaf_spine:leaves=4,spines=3,hosts_per_leaf=2",
    "leaf_spine:leaves=6,spines=4,hosts_per_leaf=1",
    "torus:lengths=4x4",
    "torus:lengths=5x3",
    "torus:lengths=3x3x2",
    "ring:switches=6,hosts_per_switch=1",
    "ring:switches=9,hosts_per_switch=1",
    "dragonfly:p=1,a=4,h=1,g=5",
    "dragonfly:p=1,a=2,h=2,g=5",
    "xgft:m=3x2,w=1x2",
    "line:switches=5,hosts_per_switch=1",
    "dumbbell:left=3,right=3",
)


class Wires:
    """The peer of each port, by the names that tables use."""

    def __init__(self, topology):
        self.kind = {name: kind for name, kind, _ in topology.nodes()}
        self.peer, self.switch_of, self.uplink = {}, {}, {}
        for ports, (a, b, *_) in zip(topology.ports(), topology.links(), strict=True):
            for port, own, other, back in ((ports[0], a, b, ports[1]), (ports[1], b, a, ports[0])):
                self.peer[own, port.removeprefix(f"{own}:")] = other
                if self.kind[own] == "host":
                    self.switch_of[own] = other
                    self.uplink[other, back.removeprefix(f"{other}:")] = own
        self.hosts = sorted(self.switch_of)


class Table:
    """A CSV file of forwarding tables: rows, lanes and, if present, senders."""

    def __init__(self, path):
        self.rows, self.lane, self.senders = {}, {}, set()
        header: list[str] = []
        with Path(path).open(newline="") as file:
            for line in csv.reader(file):
                if not line:
                    continue
                if not line[-1].isdigit() and line in (
                    ["vlan", "lane"],
                    ["switch", "vlan", "destination", "port"],
                    ["vlan", "from", "to"],
                ):
                    header = line
                elif header == ["vlan", "lane"]:
                    self.lane[int(line[0])] = int(line[1])
                elif len(header) == 4:
                    self.rows[line[0], int(line[1]), line[2]] = line[3]
                else:
                    self.senders.add((int(line[0]), line[1], line[2]))

    def may(self, wires, vlan, source, target):
        here, there = wires.switch_of[source], wires.switch_of[target]
        return not self.senders or here == there or bool({(vlan, here, there), (vlan, here, target)} & self.senders)


def walk(wires, rows, vlan, source, target):
    """The (switch, port) pairs of a packet's path, and whether it arrives; None if the packet loops."""
    at = wires.switch_of[source]
    way: list[tuple[str, str]] = []
    own = wires.switch_of[target]
    while True:
        port = rows.get((at, vlan, target), rows.get((at, vlan, own)))
        if at == own and (port is None or wires.uplink.get((at, port)) == target):
            named = {row[:2] for row in rows if row[2] in (target, own)} if port is None else {(at, vlan)}
            return way, bool(named)
        if port is None or (at, port) not in wires.peer:
            return way, False
        if (at, port) in way:
            return None
        way.append((at, port))
        at = wires.peer[at, port]
        if wires.kind[at] == "host":
            return way, at == target


def routes(wires, table):
    """The route of each (source, target) in each VLAN that reaches the target."""
    found = {}
    for source in wires.hosts:
        for target in wires.hosts:
            if source == target:
                continue
            for vlan in table.lane:
                if table.may(wires, vlan, source, target):
                    end = walk(wires, table.rows, vlan, source, target)
                    assert end is not None, f"{source} to {target} circles in VLAN {vlan}"
                    if end[1]:
                        found[source, target, vlan] = end[0]
    return found


def judge(wires, rows, lanes, sent):
    """Checks that all of `sent` ((source, target, VLAN): route) arrives by its route, without a buffer cycle."""
    waits = nx.DiGraph()
    for (source, target, vlan), way in sent.items():
        end = walk(wires, rows, vlan, source, target)
        assert end is not None, f"{source} to {target} circles in VLAN {vlan}"
        assert end == (way, True), f"{source} to {target} is lost or moved in VLAN {vlan}: {end}, not {way}"
        nx.add_path(waits, [(port, lanes[vlan]) for port in way])
    cycle = None if nx.is_directed_acyclic_graph(waits) else nx.find_cycle(waits)
    assert cycle is None, f"a circle of buffers: {cycle}"


def changed(topology, draw):
    """`topology` with a link failed or added or a host moved, and whether a link failed; None for unusable draws."""
    kinds = {name: kind for name, kind, _ in topology.nodes()}
    fabric = [n for n, (a, b, *_) in enumerate(topology.links()) if kinds[a] == kinds[b] == "switch"]
    what = draw.choice(["fail", "add", "move"])
    if what == "fail":
        new, failed = topology.without([draw.choice(fabric)]), draw.random() < 0.5
    else:
        graph = pf.to_networkx(topology)
        switches = [name for name, kind in kinds.items() if kind == "switch"]
        one, other = draw.sample(switches, 2)
        if what == "move":
            one = draw.choice([name for name, kind in kinds.items() if kind == "host"])
            if other in graph[one] or graph.degree(one) != 1:
                return None
            graph.remove_edge(one, next(iter(graph[one])))
        graph.add_edge(one, other, rate="10 Gbps", delay="1 us")
        new, failed = pf.from_networkx(graph), False
    return (new, failed) if new.statistics()["diameter"] is not None else None


def one_update(old, routes_before, new, failed, folder, draw):
    """Plans an update, writes it, and checks random moments of each step; returns the new routes."""
    write_plan(routes_before, old, folder / "old")
    update = update_routes(routes_before, new, lanes=8, failed=failed)
    write_update(update, folder / "update")
    made = folder / "update"
    union = Wires(update["union"])
    # The checks use the graph of both topologies, because a moved host has another port there.
    for state in ("before", "after"):
        (folder / f"{state}.csv").write_text(update[state].write("csv"))
    before, after, during = (Table(path) for path in (folder / "before.csv", folder / "after.csv", made / "during.csv"))
    sent_before, sent_after = routes(union, before), routes(union, after)
    lanes = before.lane | during.lane | after.lane
    late = {source: draw.random() < 0.5 for source in union.hosts}
    added = sorted(set(during.rows) - set(before.rows))
    for part in (0.3, 0.7):
        # Step 1: some new rows are installed; all hosts send as before.
        some = {row for row in added if draw.random() < part}
        rows = before.rows | {row: during.rows[row] for row in some}
        judge(union, rows, lanes, sent_before)
        # Step 2: all new rows are installed; some hosts send by the new tables.
        mixture = {key: way for key, way in sent_before.items() if late[key[0]]}
        mixture |= {key: way for key, way in sent_after.items() if not late[key[0]]}
        judge(union, during.rows, lanes, mixture)
        # Step 3: all hosts send by the new tables; some old rows are removed.
        left = {row: port for row, port in during.rows.items() if row in after.rows or draw.random() < part}
        judge(union, left, lanes, sent_after)
    # Hosts that stay can reach each other afterwards too; a moved host is "(before)" at its old place.
    stay = set(union.hosts) & set(Wires(new).hosts)
    for source in sorted(stay):
        for target in sorted(stay):
            if any((source, target, vlan) in sent_before for vlan in before.lane):
                assert any((source, target, vlan) in sent_after for vlan in after.lane), (source, target)
    check_steps(folder / "old", made)
    return update["routes"], update["topology"]


def host_rows(rows, wires):
    """Rows by host: (switch, VLAN, host, port) for each host of a switch that a row names."""
    hosts: dict[str, list[str]] = {}
    own: dict[str, str] = {}
    for (switch, port), host in wires.uplink.items():
        hosts.setdefault(switch, []).append(host)
        own[host] = port
    found = set()
    for switch, vlan, target, port in rows:
        if wires.kind[target] == "host":
            found.add((switch, int(vlan), target, port))
        for host in hosts.get(target, ()):
            found |= {(switch, int(vlan), host, port), (target, int(vlan), host, own[host])}
    return found


def check_steps(old_plan, made):
    """The old rows with all steps applied equal the new rows; rows have the same names as in the plans."""
    plans, wires = [], []
    for plan in (old_plan, made / "plan"):
        table = Table(plan / "tables.csv")
        plans.append({(switch, str(vlan), to, port) for (switch, vlan, to), port in table.rows.items()})
        wires.append(Wires(pf.load_topology(plan / "topology.graphml")))
    steps = []
    for name in ("1-add-rows.csv", "3-remove-rows.csv"):
        with (made / name).open(newline="") as file:
            steps.append({tuple(row) for row in list(csv.reader(file))[1:]})
    summary = json.loads((made / "update.json").read_text())
    kept = {str(vlan) for vlan in summary["kept"]}
    for step, plan, wire in ((steps[0], plans[1], wires[1]), (steps[1], plans[0], wires[0])):
        assert {row for row in step if row[1] not in kept} == {row for row in plan if row[1] not in kept}
        assert all(wire.kind[row[2]] == "host" for row in step if row[1] in kept)
    before, after = (host_rows(plan, wire) for plan, wire in zip(plans, wires, strict=True))
    added, removed = host_rows(steps[0], wires[1]), host_rows(steps[1], wires[0])
    assert (before | added) - removed == after
    differ = (made / "diff.csv").read_text().splitlines()[1:]
    assert len(differ) == summary["rows_added"] + summary["rows_removed"] + summary["rows_changed"]
    if not summary["renumbered"]:
        assert summary["rows_changed"] == 0


FILES = ("1-add-rows.csv", "2-senders.csv", "3-remove-rows.csv", "diff.csv", "during.csv", "update.json")


def chain(fabric, count, seed, folder):
    """Successive updates, once with routes in memory and once with routes from files, give the same files."""
    draw = random.Random(seed)
    topology = pf.load_topology(fabric)
    routes = pf.plan_routes(topology, draw.choice(["order_pair", "up_down"]), vlans=2, seed=seed)
    write_plan(routes, topology, folder / "0" / "plan")
    for number in range(1, count + 1):
        change = None
        while change is None:
            change = draw.choice([changed, changed, with_another_host])(topology, draw)
        new, failed = change
        old = folder / str(number - 1) / "plan"
        read = pf.read_routes(str(old), pf.load_topology(old / "topology.graphml"))
        from_files = update_routes(read, new, lanes=8, failed=failed)
        in_memory = update_routes(routes, new, lanes=8, failed=failed)
        made, other = folder / str(number), folder / f"{number}-memory"
        write_update(from_files, made)
        write_update(in_memory, other)
        for name in (*FILES, "plan/tables.csv"):
            assert (made / name).read_text() == (other / name).read_text(), (fabric, seed, number, name)
        check_steps(old, made)
        routes, topology = in_memory["routes"], in_memory["topology"]


def with_another_host(topology, draw):
    """`topology` with one host more or less; no host moves, so VLANs can keep their numbers."""
    graph = pf.to_networkx(topology)
    kinds = {name: kind for name, kind, _ in topology.nodes()}
    hosts = [name for name, kind in kinds.items() if kind == "host"]
    if draw.random() < 0.5 and len(hosts) > 4:
        graph.remove_node(draw.choice(hosts))
    else:
        name = next(f"new{number}" for number in range(100) if f"new{number}" not in kinds)
        graph.add_node(name, kind="host")
        switch = draw.choice([switch for switch, kind in kinds.items() if kind == "switch"])
        graph.add_edge(name, switch, rate="10 Gbps", delay="1 us")
    return pf.from_networkx(graph), False


@pytest.mark.parametrize("seed", range(4))
def test_a_chain_of_updates_is_the_same_in_memory_and_through_files(seed, tmp_path):
    fabric = (
        "jellyfish:switches=12,network_ports=3,hosts_per_switch=1",
        "jellyfish:switches=10,network_ports=4,hosts_per_switch=2",
        "leaf_spine:leaves=4,spines=3,hosts_per_leaf=2",
        "torus:lengths=4x4",
    )[seed]
    chain(fabric, 4, seed, tmp_path)


def updates(fabric, count, seed):
    draw = random.Random(seed)
    topology = pf.load_topology(fabric)
    engine = draw.choice(["auto", "order_pair", "up_down"])
    effort = None if engine == "up_down" else "fast"
    planned = pf.plan_routes(topology, engine, vlans=draw.choice([2, 4]), seed=seed, effort=effort)
    done = 0
    while done < count:
        change = changed(topology, draw)
        if change is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            new, failed = change
            planned, topology = one_update(topology, planned, new, failed, Path(folder), draw)
        done += 1
    return done


@pytest.mark.parametrize("number", range(0, len(FABRICS), 3))
def test_no_moment_of_an_update_loses_or_stops_a_packet(number):
    assert updates(FABRICS[number], 2, seed=100 + number) == 2


if __name__ == "__main__":
    total = int(sys.argv[1])
    for number, fabric in enumerate(FABRICS):
        share = total // len(FABRICS)
        sys.stdout.write(f"{fabric} {updates(fabric, share, seed=number)}\n")
