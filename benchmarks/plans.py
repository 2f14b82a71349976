"""What `route plan` costs and gives on twenty graphs of 10 to 2,000 switches.

`python benchmarks/plans.py [PART OF A NAME ...]` prints a line a graph and effort: processor time of plan and proof, steps,
peak memory, and the mean detour and the pairs without a route over 400 random pairs of hosts (the same for both efforts).
"""

import random
import resource
import subprocess
import sys
import time
from collections import deque

GRAPHS = [
    "ring:switches=10,hosts_per_switch=2",
    "jellyfish:switches=20,network_ports=6,hosts_per_switch=4",
    "dragonfly:p=2,a=4,h=2,g=9",
    "torus:lengths=6x6,hosts_per_switch=2",
    "fat_tree:k=8",
    "jellyfish:switches=50,network_ports=4,hosts_per_switch=4",
    "jellyfish:switches=100,network_ports=8,hosts_per_switch=8",
    "ring:switches=100,hosts_per_switch=2",
    "leaf_spine:leaves=100,spines=16,hosts_per_leaf=8",
    "dragonfly:p=4,a=8,h=4,g=20",
    "torus:lengths=14x14,hosts_per_switch=2",
    "jellyfish:switches=225,ports=64,hosts_per_switch=32",
    "fat_tree:k=16",
    "jellyfish:switches=500,network_ports=4,hosts_per_switch=4",
    "jellyfish:switches=500,network_ports=16,hosts_per_switch=16",
    "torus:lengths=10x10x10,hosts_per_switch=1",
    "jellyfish:switches=1000,network_ports=4,hosts_per_switch=4",
    "jellyfish:switches=1000,network_ports=32,hosts_per_switch=32",
    "ring:switches=2000,hosts_per_switch=1",
    "jellyfish:switches=2000,network_ports=8,hosts_per_switch=8",
]


def distance(neighbours: dict[str, list[str]], source: str, target: str) -> int:
    """Links of a shortest path between two nodes."""
    seen, queue = {source: 0}, deque([source])
    while target not in seen:
        at = queue.popleft()
        for node in neighbours[at]:
            if node not in seen:
                seen[node] = seen[at] + 1
                queue.append(node)
    return seen[target]


def measure(name: str, effort: str) -> None:
    """Plans in this process, and prints the line."""
    import pauseframe as pf

    fabric = pf.load_topology(name)
    start = time.process_time()
    routes = pf.plan_routes(fabric, effort=effort)
    planned = time.process_time() - start
    report = routes.check()
    proven = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    neighbours: dict[str, list[str]] = {}
    for a, b, *_ in fabric.links():
        neighbours.setdefault(a, []).append(b)
        neighbours.setdefault(b, []).append(a)
    hosts = [node for node, kind, _ in fabric.nodes() if kind == "host"]
    draw = random.Random(1)
    links = shortest = unserved = 0
    for _ in range(400):
        source, target = draw.sample(hosts, 2)
        ways = [routes.route(vlan, source, target) for vlan, _ in routes.vlans]
        # A way that does not arrive ends at a switch.
        ways = [way for way in ways if way and target in neighbours[way[-1].split(":")[0]]]
        if not ways:
            unserved += 1
            continue
        links += min(map(len, ways))
        shortest += distance(neighbours, source, target)
    print(
        f"{name},{effort},{planned:.2f},{proven:.2f},{routes.steps / 1e9:.2f},{memory:.0f},{report['lanes']},"
        f"{report['clean']},{links / shortest - 1:.4%},{unserved},{'; '.join(routes.notes)}",
        flush=True,
    )


def main() -> None:
    """Each plan in a process of its own, so that memory is its own too."""
    if sys.argv[1:2] == ["--one"]:
        measure(*sys.argv[2:4])
        return
    print("graph,effort,plan s,with proof s,steps 1e9,MB,lanes,clean,mean detour,unserved,notes", flush=True)
    for name in GRAPHS:
        if sys.argv[1:] and not any(part in name for part in sys.argv[1:]):
            continue
        for effort in ("fast", "normal"):
            subprocess.run([sys.executable, __file__, "--one", name, effort], check=True)


if __name__ == "__main__":
    main()
