"""Fig. 14 of the TCP-Bolt paper: throughput of deadlock-free routes relative to ECMP on Jellyfish.

The paper gives 64-port switches, bisections of 1:1, 1:2 and 1:5, up to 7,200 servers and 20 random permutations. The
paper does not say how the ports are split. In reading B, the ratio of network ports to host ports equals the bisection.
Reading A uses Bollobás' bound for the bisection of a random regular graph (1988), n (r / 4 - sqrt(r ln 2) / 2) = n h /
2 / ratio. Both readings give about 7,200 hosts. Throughput is the sum of max-min fair rates; every value is the mean
over permutations. A seed draws graph, plans and permutations.
"""

from __future__ import annotations

import itertools
import random
from statistics import fmean
from typing import TYPE_CHECKING, Any, TypedDict

from pauseframe._core import Routes, Topology, flow_rates, plan_routes
from pauseframe.reproduce.points import Point

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pauseframe.reproduce.spec import Size

SETTINGS = {
    "B 1:1": (225, 32, 32),
    "B 1:2": (167, 21, 43),
    "B 1:5": (136, 11, 53),
    "A 1:1": (400, 46, 18),
    "A 1:2": (267, 37, 27),
    "A 1:5": (180, 24, 40),
}
"""(switches, network ports per switch, hosts per switch) of each setting."""


class Limits(TypedDict, total=False):
    """Limits on the switch resources that a plan may use."""

    lanes: int
    vlans: int
    sampled_vlans: int


ENGINES: dict[str, tuple[str, Limits, str]] = {
    "edst": ("edst_heuristic", {"lanes": 8}, "random"),
    "edst_exact": ("edst", {"lanes": 8}, "random"),
    "up_down": ("up_down", {"vlans": 8}, "random"),
    "order_pair_2": ("order_pair", {"lanes": 2, "vlans": 2}, "random"),
    "order_pair_16": ("order_pair", {"lanes": 2, "vlans": 16}, "random"),
    "order_pair_16_by_load": ("order_pair", {"lanes": 2, "vlans": 16}, "least_loaded"),
}
BISECTIONS = {"1:1": (32, 32), "1:2": (21, 43), "1:5": (11, 53)}
"""Network ports and hosts per switch of the curves in Fig. 14, by reading B."""
SERVERS = {"quick": (1800, 3600, 7200), "full": (1800, 2700, 3600, 5400, 7200)}
GROWTH = {"quick": (50, 100, 150, 225), "full": (50, 100, 150, 225, 500, 1000)}
PERMUTATIONS = {"quick": 2, "full": 20}
FAILED = (0.001, 0.01, 0.05, 0.1)
DEGREES = {"quick": ((20, 8), (100, 16), (225, 32)), "full": ((20, 4), (50, 8), (100, 16), (400, 24), (1000, 32))}
SAMPLED: Limits = {"lanes": 2, "vlans": 16, "sampled_vlans": 12}


def points(size: Size, seeds: Sequence[int]) -> list[Point]:
    """All points of the experiment."""
    return [point for one in seeds for point in _of_seed(size, one)]


def jellyfish(switches: int, network_ports: int, hosts_per_switch: int, seed: int) -> Topology:
    """A Jellyfish with links of 1 Gb/s."""
    size = f"switches={switches},network_ports={network_ports},hosts_per_switch={hosts_per_switch}"
    return Topology.family(f"jellyfish:{size},seed={seed},rate=1 Gbps,delay=0 s")


def throughput(topology: Topology, demand: str, seeds: range, routes: Routes | None, choice: str) -> list[float]:
    """Mean rate per host of each demand, in bit/s."""
    rates = flow_rates(topology, demand, routes=routes, choice=choice, seeds=list(seeds))
    return [one["throughput_bps"] for one in rates]


def _of_seed(size: Size, seed: int) -> Iterator[Point]:
    yield from _settings(size, seed)
    yield from _lanes(size, seed)
    yield from _curves(size, seed)
    yield from _growth(size, seed)
    yield from _trees(size, seed)
    yield from _failures(seed)


def _point(seed: int, metric: str, variant: str, value: float, **at: Any) -> Point:
    return Point(variant, seed, metric, value, at)


def _demands(size: Size) -> range:
    return range(1, PERMUTATIONS[size] + 1)


def _relative(topology: Topology, demand: str, size: Size, routes: Routes, choice: str, ecmp: list[float]) -> float:
    ours = throughput(topology, demand, _demands(size), routes, choice)
    return fmean(one / other for one, other in zip(ours, ecmp, strict=True))


def _settings(size: Size, seed: int) -> Iterator[Point]:
    """The six settings, and skewed traffic on the first."""
    for setting, shape in SETTINGS.items():
        topology = jellyfish(*shape, seed)
        demands = {"permutation": "relative"}
        if setting == "B 1:1":
            demands |= {"rack_permutation": "relative_rack", "skewed:1": "relative_skewed"}
        ecmp = {demand: throughput(topology, demand, _demands(size), None, "random") for demand in demands}
        yield _point(seed, "ecmp", "ecmp", fmean(ecmp["permutation"]) / 1e9, setting=setting)
        for variant, (engine, settings, choice) in ENGINES.items():
            routes = plan_routes(topology, engine, seed=seed, **settings)
            report = routes.check()
            bad = report["can_deadlock"] or report["unreachable"]["count"] or report["loops"]["count"]
            yield _point(seed, "cyclic", variant, float(bool(bad)), setting=setting)
            yield _point(seed, "rows", variant, routes.table_use()["rows"], setting=setting)
            for demand, metric in demands.items():
                value = _relative(topology, demand, size, routes, choice, ecmp[demand])
                yield _point(seed, metric, variant, value, setting=setting)


def _lanes(size: Size, seed: int) -> Iterator[Point]:
    topology = jellyfish(*SETTINGS["B 1:1"], seed)
    ecmp = throughput(topology, "permutation", _demands(size), None, "random")
    for lanes in (1, 2, 4, 8):
        for variant in ("edst", "edst_exact"):
            routes = plan_routes(topology, ENGINES[variant][0], lanes=lanes, seed=seed)
            value = _relative(topology, "permutation", size, routes, "random", ecmp)
            yield _point(seed, "relative_by_lanes", variant, value, lanes=lanes)


def _curves(size: Size, seed: int) -> Iterator[Point]:
    """The curves of the figure: throughput against servers, one curve for each bisection and scheme."""
    for (bisection, (network_ports, hosts)), servers in itertools.product(BISECTIONS.items(), SERVERS[size]):
        topology = jellyfish(round(servers / hosts), network_ports, hosts, seed)
        engine, settings, choice = ENGINES["edst"]
        routes = plan_routes(topology, engine, seed=seed, **settings)
        for variant, plan, how in (("ecmp", None, "random"), ("edst", routes, choice)):
            value = fmean(throughput(topology, "permutation", _demands(size), plan, how)) / 1e9
            yield _point(seed, "throughput", variant, value, line=bisection, hosts=servers)


def _growth(size: Size, seed: int) -> Iterator[Point]:
    """Growing networks of switches with 32 network ports and 32 hosts."""
    for switches in GROWTH[size]:
        topology = jellyfish(switches, 32, 32, seed)
        ecmp = throughput(topology, "permutation", _demands(size), None, "random")
        for variant in ("edst", "edst_exact", "up_down", "order_pair_2"):
            engine, settings, choice = ENGINES[variant]
            routes = plan_routes(topology, engine, seed=seed, **settings)
            value = _relative(topology, "permutation", size, routes, choice, ecmp)
            yield _point(seed, "relative_by_size", variant, value, hosts=switches * 32)
            yield _point(seed, "gap_by_size", variant, 1 - value, hosts=switches * 32)


def _trees(size: Size, seed: int) -> Iterator[Point]:
    """Number of edge-disjoint trees in a lane below the bound floor(r / 2)."""
    for switches, degree in DEGREES[size]:
        topology = jellyfish(switches, degree, 1, seed)
        for variant in ("edst", "edst_exact"):
            found = len(plan_routes(topology, ENGINES[variant][0], lanes=1, seed=seed).vlans)
            yield _point(
                seed, "trees_missing", variant, degree // 2 - found, graph=f"{switches} switches, r = {degree}"
            )


def _failures(seed: int) -> Iterator[Point]:
    """Pairs of switches that no VLAN serves after a failure, before any rerouting."""
    topology = jellyfish(*SETTINGS["B 1:1"], seed)
    kinds = {name: kind for name, kind, _ in topology.nodes()}
    fabric = [i for i, (a, b, _, _) in enumerate(topology.links()) if kinds[a] == kinds[b] == "switch"]
    plans = {name: ENGINES[name][:2] for name in ("edst", "order_pair_16")}
    plans["order_pair_sampled"] = ("order_pair", SAMPLED)
    for variant, (engine, settings) in plans.items():
        routes = plan_routes(topology, engine, seed=seed, **settings)
        for part in FAILED:
            failed = random.Random(seed).sample(fabric, round(part * len(fabric)))
            lost, pairs = routes.pairs_lost(failed)
            yield _point(seed, "pairs_lost", variant, lost / pairs, failed=part)
