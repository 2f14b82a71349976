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
    """The peer of each port, by the names that tables use; `hosts` has further ports of hosts as "NAME.PORT"."""

    def __init__(self, topology):
        self.kind = {name: kind for name, kind, _ in topology.nodes()}
        self.peer: dict[tuple[str, str], str] = {}
        self.switch_of: dict[str, str] = {}
        self.uplink: dict[tuple[str, str], str] = {}
        edges = {edge["link"]: edge for edge in json.loads(topology.write("node-link"))["edges"]}
        for number, (ports, (a, b, *_)) in enumerate(zip(topology.ports(), topology.links(), strict=True)):
            nodes = {edges[number]["source"], edges[number]["target"]} - {name for name, *_ in topology.nodes()}
            for port, own, other, back in ((ports[0], a, b, ports[1]), (ports[1], b, a, ports[0])):
                self.peer[own, port.removeprefix(f"{own}:")] = other
                if self.kind[own] == "host":
                    further = f"{own}.{port.removeprefix(f'{own}:')}"
                    name = next(iter(nodes), further if own in self.switch_of else own)
                    self.switch_of[name] = other
                    self.uplink[other, back.removeprefix(f"{other}:")] = name
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
        if wires.kind.get(target) != "switch":
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
        assert all(wire.kind.get(row[2]) != "switch" for row in step if row[1] in kept)
    before, after = (host_rows(plan, wire) for plan, wire in zip(plans, wires, strict=True))
    added, removed = host_rows(steps[0], wires[1]), host_rows(steps[1], wires[0])
    assert (before | added) - removed == after
    differ = (made / "diff.csv").read_text().splitlines()[1:]
    assert len(differ) == summary["rows_added"] + summary["rows_removed"] + summary["rows_changed"]
    if not summary["renumbered"]:
        assert summary["rows_changed"] == 0


class Moments:
    """The rows that the switches hold during an update, from its files alone, and the packets that senders may send."""

    def __init__(self, old_plan, made, failed):
        self.wires: list[Wires] = []
        self.lane: dict[int, int] = {}
        self.plans: list[dict[tuple[str, int, str], str]] = []
        self.sent: list[set[tuple[str, str, int]]] = []
        for plan in (old_plan, made / "plan"):
            table, wires = Table(plan / "tables.csv"), Wires(pf.load_topology(plan / "topology.graphml"))
            by_host = host_rows(((*row, port) for row, port in table.rows.items()), wires)
            assert all(self.lane.setdefault(vlan, lane) == lane for vlan, lane in table.lane.items())
            self.wires.append(wires)
            self.plans.append({row[:3]: row[3] for row in by_host})
            self.sent.append({
                (source, target, vlan)
                for source in wires.hosts
                for target in wires.hosts
                for vlan in table.lane
                if source.partition(".")[0] != target.partition(".")[0] and table.may(wires, vlan, source, target)
            })  # fmt: skip
        old, new = (wires.peer for wires in self.wires)
        self.gone = set(old) - set(new)
        self.peer = {end: peer for end, peer in (old | new).items() if not (failed and end in self.gone)}
        self.added, self.removed = (
            {row[:3]: row[3] for row in host_rows(steps_of(made / name), wires)}
            for name, wires in (("1-add-rows.csv", self.wires[1]), ("3-remove-rows.csv", self.wires[0]))
        )

    def way(self, rows, which, source, target, vlan):
        """The ports of a packet of old (0) or new (1) senders, and whether it arrives; fails if it circles."""
        wires = self.wires[which]
        at = wires.switch_of[source]
        way: list[tuple[str, str]] = []
        while True:
            port = rows.get((at, vlan, target))
            if port is None or (at, port) not in self.peer:
                return way, False
            if wires.uplink.get((at, port)) == target:
                return way, True
            assert (at, port) not in way, f"{source} to {target} circles in VLAN {vlan}: {way}"
            way.append((at, port))
            at = self.peer[at, port]
            if at in wires.kind and wires.kind[at] == "host":
                return way, False

    def judge(self, rows, senders):
        """No packets of `senders` circle or wait for each other, and those that arrive in their plan arrive now."""
        waits = nx.DiGraph()
        for which in senders:
            for packet in self.sent[which]:
                way, arrives = self.way(rows, which, *packet)
                planned = self.way(self.plans[which], which, *packet)
                assert (way, arrives) == planned or not planned[1], f"{packet} took {way}, not {planned}"
                nx.add_path(waits, [(port, self.lane[packet[2]]) for port in way])
        cycle = None if nx.is_directed_acyclic_graph(waits) else nx.find_cycle(waits)
        assert cycle is None, f"a circle of buffers: {cycle}"

    def check(self, draw):
        """Checks random moments of each step, with all packets of old and new senders at once in the second one."""
        old, new = self.plans
        assert all(old.get(row, port) == port for row, port in self.added.items()), "a row in use changes"
        assert all(old.get(row) == port for row, port in self.removed.items()), "a row that nobody has is removed"
        self.judge({**old, **some(self.added, draw)}, [0])
        all_rows = old | self.added
        self.judge(all_rows, [0, 1])
        left = set(all_rows) - set(some(self.removed, draw))
        self.judge({row: all_rows[row] for row in left}, [1])
        final = {row: port for row, port in all_rows.items() if row not in self.removed}
        assert final == new
        assert not {(switch, port) for (switch, *_), port in final.items()} & self.gone, "rows over links that are gone"
        self.judge(final, [1])
        # A pair that may no longer use a VLAN, because its row led over a failed link, has no route there.
        kept = {vlan for *_, vlan in self.sent[0]} & {vlan for *_, vlan in self.sent[1]}
        stay = self.wires[1].switch_of
        lost = {packet for packet in self.sent[0] - self.sent[1] if packet[2] in kept and packet[0] in stay}
        assert all(self.way(final, 0, *packet) == ([], False) for packet in lost)


def some(rows, draw):
    part = draw.random()
    return {row: port for row, port in rows.items() if draw.random() < part}


def steps_of(path):
    with path.open(newline="") as file:
        return [tuple(row) for row in list(csv.reader(file))[1:]]


def with_port_names(topology):
    """`topology` with the default names of ports as their own names, so that a removed link renames no port."""
    graph = json.loads(topology.write("node-link"))
    names = [
        dict(zip(ends[:2], ports, strict=True)) for ends, ports in zip(topology.links(), topology.ports(), strict=True)
    ]
    for edge in graph["edges"]:
        for end in ("source", "target"):
            edge[f"{end}_port"] = names[edge["link"]][edge[end]].removeprefix(f"{edge[end]}:")
    return pf.Topology.parse(json.dumps(graph), "node-link")


LOSING = (
    ("leaf_spine:leaves=4,spines=3,hosts_per_leaf=2", "edst"),
    ("leaf_spine:leaves=3,spines=2,hosts_per_leaf=1", "lash"),
    ("jellyfish:switches=10,network_ports=3,hosts_per_switch=1", "edst"),
    ("jellyfish:switches=9,network_ports=4,hosts_per_switch=1,seed=3", "dfsssp"),
    ("torus:lengths=3x3", "edst"),
    ("fat_tree:k=4", "up_down"),
    ("leaf_spine:leaves=4,spines=2,hosts_per_leaf=2,ports_per_host=2", "edst"),
    ("leaf_spine:leaves=4,spines=2,hosts_per_leaf=1,ports_per_host=2", "order_pair"),
    ("leaf_spine:leaves=3,spines=3,hosts_per_leaf=2,planes=2", "edst"),
    ("leaf_spine:leaves=3,spines=2,hosts_per_leaf=2,planes=2", "up_down"),
)


def loss(whole, draw):
    """The numbers of one to three links: links between switches, and links of hosts with several ports."""
    kinds = {name: kind for name, kind, _ in whole.nodes()}
    ends = [{kinds[a], kinds[b]} for a, b, *_ in whole.links()]
    of_host: dict[str, list[int]] = {}
    for number, (a, b, *_) in enumerate(whole.links()):
        for host in (name for name in (a, b) if kinds[name] == "host"):
            of_host.setdefault(host, []).append(number)
    lost = draw.sample([n for n, kind in enumerate(ends) if kind == {"switch"}], draw.choice([1, 1, 2, 3]))
    if len(of_host) < ends.count({"switch", "host"}):
        lost = [*lost[draw.randrange(2) :], draw.choice(draw.choice(list(of_host.values())))]
    return lost


def lose_links(fabric, engine, draw, folder):
    """Updates after links failed, before they are taken out, or after they were added; their files are right."""
    whole = with_port_names(pf.load_topology(fabric))
    part = whole.without(loss(whole, draw))
    if part.statistics()["diameter"] is None:
        return 0
    change = draw.choice(["fail", "fail", "take out", "add"])
    old, new = (part, whole) if change == "add" else (whole, part)
    old, new = old.with_single_ports(), new.with_single_ports()
    planned = pf.plan_routes(old, engine, effort="fast" if engine == "order_pair" else None)
    write_plan(planned, old, folder / "old")
    update = update_routes(planned, new, lanes=8, failed=change == "fail")
    write_update(update, folder / "made")
    moments = Moments(folder / "old", folder / "made", change == "fail")
    moments.check(draw)
    check_steps(folder / "old", folder / "made")
    check_differences(moments, folder / "made", update)
    return 1


def check_differences(moments, made, update):
    """diff.csv has exactly the rows by (switch, switch of the destination) in which the two plans differ."""
    if update["moved_hosts"]:
        return
    before, after = (
        {
            (row[0], row[1], wires.switch_of[row[2]]): port
            for row, port in plan.items()
            if row[0] != wires.switch_of[row[2]]
        }
        for plan, wires in zip(moments.plans, moments.wires, strict=True)
    )
    expected = set()
    for old, new in [*((vlan, vlan) for vlan in update["kept"]), *update["renumbered"]]:
        was = {(row[0], row[2]): port for row, port in before.items() if row[1] == old}
        will_be = {(row[0], row[2]): port for row, port in after.items() if row[1] == new}
        for row in was.keys() | will_be.keys():
            if was.get(row) != will_be.get(row):
                ends = ((old, was.get(row)), (new, will_be.get(row)))
                expected.add((*row, *(str(word) for end in ends for word in (end if end[1] else ("", "")))))
    assert set(steps_of(made / "diff.csv")) == expected


@pytest.mark.parametrize("number", range(len(LOSING)))
def test_files_of_an_update_leave_no_row_over_links_that_are_gone(number, tmp_path):
    draw = random.Random(number)
    done = sum(lose_links(*LOSING[number], draw, tmp_path / str(time)) for time in range(4))
    assert done > 1


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


SEVERAL_PORTS = (
    "leaf_spine:leaves=4,spines=2,hosts_per_leaf=2,ports_per_host=2",
    "leaf_spine:leaves=3,spines=2,hosts_per_leaf=2,ports_per_host=3",
    "leaf_spine:leaves=3,spines=2,hosts_per_leaf=2,planes=2",
)


def redrawn(topology, *, lost=(), turned=False, named=False):
    """`topology` as a file lists it: without some links, from the last link on, or with names of ports."""
    graph = json.loads((with_port_names(topology) if named else topology).write("node-link"))
    edges = [edge for number, edge in enumerate(graph["edges"]) if number not in lost]
    graph["edges"] = [{**edge, "link": number} for number, edge in enumerate(edges[::-1] if turned else edges)]
    return pf.Topology.parse(json.dumps(graph), "node-link").with_single_ports()


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("fabric", SEVERAL_PORTS)
def test_a_dead_port_of_a_host_moves_no_other(fabric, named, tmp_path):
    """Whichever port is lost, and in whichever order a file lists the links: ports keep the names of the plan."""
    whole = pf.load_topology(fabric)
    old = redrawn(whole, named=named)
    routes = pf.plan_routes(old, "up_down", vlans=2)
    own = [number for number, (a, b, *_) in enumerate(whole.links()) if "host0" in (a, b)]
    names = ["host0", *(f"host0.eth{number}" for number in range(2, len(own) + 1))]
    assert len(own) > 1
    for lost, gone in [((), []), *(((link,), [name]) for link, name in zip(own, names, strict=True))]:
        for turned in (False, True):
            new = redrawn(whole, lost=lost, turned=turned, named=named)
            update = update_routes(routes, new, failed=True)
            assert (update["moved_hosts"], update["cut_off"]) == ([], gone)
            assert update["kept"] == [vlan for vlan, _ in routes.vlans]
            assert (update["changes"], update["renumbered"]) == ([], [])
            ports = {node["id"] for node in json.loads(update["topology"].write("node-link"))["nodes"]}
            assert set(names) - ports == set(gone)
            assert update["routes"].check()["clean"]
    # The port that is left keeps its name through further updates, and the first one gets its name back.
    update = update_routes(routes, redrawn(whole, lost=own[:1], named=named), failed=True)
    write_update(update, tmp_path / "made")
    planned = pf.load_topology(tmp_path / "made" / "plan" / "topology.graphml")
    read = pf.read_routes(str(tmp_path / "made" / "plan"), planned)
    again = update_routes(read, redrawn(whole, lost=own[:1], named=named), failed=True)
    assert (again["moved_hosts"], again["changes"], again["cut_off"]) == ([], [], [])
    back = update_routes(read, redrawn(whole, turned=True, named=named))
    assert (back["moved_hosts"], back["kept"]) == ([], update["kept"])


@pytest.mark.parametrize("engine", ["up_down", "shortest_path"])
def test_of_parallel_links_the_one_that_is_gone_loses_its_rows(engine, tmp_path):
    """The plan's fabric has no port names; without a link it names what is left, so ports tell which of two is gone."""
    whole = pf.load_topology("pgft:m=2x2,w=1x1,p=1x2")
    switches = {name for name, kind, _ in whole.nodes() if kind != "host"}
    routes = pf.plan_routes(whole, engine, vlans=1)
    for lost in [number for number, (a, b, *_) in enumerate(whole.links()) if {a, b} <= switches]:
        new = whole.without([lost])
        update = update_routes(routes, new, failed=True)
        assert {frozenset(ports) for ports in update["topology"].ports()} == {frozenset(ports) for ports in new.ports()}
        write_update(update, tmp_path / f"{engine}{lost}")
        plan = tmp_path / f"{engine}{lost}" / "plan"
        assert pf.read_routes(str(plan), new).check()["clean"]


UNCHANGED = (
    ("dragonfly:p=1,a=4,h=1,g=5", None),
    ("jellyfish:switches=14,network_ports=4,hosts_per_switch=2", None),
    ("torus:lengths=3x3", None),
    ("torus:lengths=3x3", "lash"),
    ("torus:lengths=4x4", "dfsssp"),
    ("fat_tree:k=4", "up_down"),
    ("jellyfish:switches=10,network_ports=4,hosts_per_switch=2", "edst"),
    ("leaf_spine:leaves=3,spines=2,hosts_per_leaf=2,planes=2", "order_pair"),
)


@pytest.mark.parametrize(("fabric", "engine"), UNCHANGED)
def test_what_changes_no_route_changes_no_row(fabric, engine, tmp_path):
    """An update to the same topology, or with one more host at a switch, keeps all VLANs: gaps stay gaps."""
    topology = pf.load_topology(fabric).with_single_ports()
    routes = pf.plan_routes(topology, *[engine] * (engine is not None))
    vlans = [vlan for vlan, _ in routes.vlans]
    write_plan(routes, topology, tmp_path / "plan")
    read = pf.read_routes(str(tmp_path / "plan"), topology)
    for old in (routes, read):
        update = update_routes(old, topology)
        assert (update["kept"], update["renumbered"], update["changes"]) == (vlans, [], [])
        assert update["routes"].write("csv") == old.write("csv")
    if "planes" not in fabric:
        graph = pf.to_networkx(topology)
        switch = next(name for name, kind, _ in topology.nodes() if kind == "switch" and f"{name}" in graph["host0"])
        graph.add_node("new", kind="host")
        graph.add_edge("new", switch, rate="10 Gbps", delay="1 us")
        update = update_routes(read, pf.from_networkx(graph))
        assert (update["kept"], update["renumbered"], update["changes"]) == (vlans, [], [])
        assert update["routes"].check()["clean"]


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
