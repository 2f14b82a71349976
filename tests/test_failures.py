"""Cost of failures to a plan, and benefit of backups, compared with routes that the test follows one by one."""

import itertools
import random

import pauseframe as pf
import pytest
from pauseframe.fabric.routing import what_ifs

FABRIC = "jellyfish:switches=14,network_ports=6,hosts_per_switch=1"


class Follower:
    """Every route of a plan, as the links and switches on it."""

    def __init__(self, topology, routes):
        kinds = {name: kind for name, kind, _ in topology.nodes()}
        self.fabric = [n for n, (a, b, *_) in enumerate(topology.links()) if kinds[a] == kinds[b] == "switch"]
        self.switches = [name for name, kind in kinds.items() if kind == "switch"]
        link = {port: n for n, ports in enumerate(topology.ports()) for port in ports}
        self.routes = {}
        hosts = [name for name, kind in kinds.items() if kind == "host"]
        for pair in itertools.permutations(hosts, 2):
            ways = []
            for vlan, _ in routes.vlans:
                ports = routes.route(vlan, *pair)
                last = topology.links()[link[ports[-1]]][:2]
                if pair[1] in last and len(ports) > 1:
                    nodes = [port.rpartition(":")[0] for port in ports[1:]]
                    ways.append(({link[port] for port in ports}, set(nodes[1:-1])))
            self.routes[pair] = ways

    def lost(self, links=(), switch=None):
        """Pairs of hosts whose every route crosses a failed link or switch."""
        dead = set(links)
        return sum(all(dead & on or switch in through for on, through in ways) for ways in self.routes.values())


@pytest.fixture(scope="module")
def fabric():
    return pf.load_topology(FABRIC)


def plan(fabric, **settings):
    routes = pf.plan_routes(fabric, "order_pair", lanes=2, vlans=16, effort="fast", **settings)
    return routes, Follower(fabric, routes)


def groups_of(fabric, folder):
    """Random groups of two and three links, as a file and as numbers."""
    draw = random.Random(5)
    kinds = {name: kind for name, kind, _ in fabric.nodes()}
    links = [n for n, (a, b, *_) in enumerate(fabric.links()) if kinds[a] == kinds[b] == "switch"]
    groups = [draw.sample(links, size) for size in (2, 2, 2, 3, 3)]
    file = folder / "groups.csv"
    lines = [f"duct{n},{fabric.ports()[link][0]}" for n, group in enumerate(groups) for link in group]
    file.write_text("\n".join(["group,port", *lines]) + "\n")
    return file, groups


def test_costs_of_failures_are_those_of_the_routes(fabric, tmp_path):
    file, groups = groups_of(fabric, tmp_path)
    routes, follower = plan(fabric, backup_vlans=0)
    report = routes.check(what_if=True)["what_if"]
    by_link = [follower.lost([link]) for link in follower.fabric]
    by_switch = [follower.lost(switch=switch) for switch in follower.switches]
    for found, losses in ((report["links"], by_link), (report["switches"], by_switch)):
        assert (found["tried"], found["harmless"]) == (len(losses), losses.count(0))
        assert found["pairs_lost"] == sum(losses) > 0
        assert found["worst"][0]["pairs_lost"] == max(losses)
    several = what_ifs(routes, fabric, groups=file, pairs=40)
    for what, failures in (("a group of links", groups), ("two links", two_links(follower, 40))):
        losses = [follower.lost(links) for links in failures]
        found = several[what]
        assert (found["tried"], found["harmless"]) == (len(losses), losses.count(0))
        assert found["worst"] is not None
        assert found["worst"][1] == max(losses)
        assert [routes.pairs_lost(links)[0] for links in failures] == losses


def two_links(follower, count):
    draw = random.Random(1)
    return [draw.sample(follower.fabric, 2) for _ in range(count)]


@pytest.mark.parametrize("protect", ["link", "switch", "two_links", "groups"])
def test_backups_are_for_what_they_are_asked_for(fabric, tmp_path, protect):
    _, groups = groups_of(fabric, tmp_path)
    settings = {"groups": groups} if protect == "groups" else {"protect": protect}
    _, bare = plan(fabric, backup_vlans=0)
    routes, backed = plan(fabric, backup_vlans=8, **settings)
    assert routes.check()["clean"]
    failures = {
        "link": [{"links": [link]} for link in bare.fabric],
        "switch": [{"links": [link]} for link in bare.fabric] + [{"switch": name} for name in bare.switches],
        "two_links": [{"links": links} for links in itertools.combinations(bare.fabric, 2)],
        "groups": [{"links": links} for links in groups],
    }[protect]
    before, after = ([follower.lost(**failure) for failure in failures] for follower in (bare, backed))
    # Pairs that fit in no lane of the plan's orders stay lost: 212 of 4,321 pairs of links and 1 of 31 groups.
    assert sum(after) * {"link": 1000, "switch": 1000, "two_links": 10, "groups": 10}[protect] < sum(before)
