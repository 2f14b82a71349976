"""Single faults in twelve generated fabrics: the right rule finds each; fabrics without faults are clean.

`FAULTS=500 pytest tests/test_lint_faults.py` tries five times as many: `make night`.
"""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
import sys
from collections import Counter
from typing import TYPE_CHECKING

import lint_fabrics
import pauseframe as pf
import pytest
from lint_fabrics import Tables
from lint_faults import CHANNEL_FAULTS, FAULTS, LAYER2_FAULTS, MORE_FAULTS, Devices, Fault
from pauseframe.deploy import Settings, write_deployment
from pauseframe.devices.read import Reading, read_fabric, reread
from pauseframe.devices.sonic_db import documents
from pauseframe.lint.engine import judge
from pauseframe.lint.fix import fix

if TYPE_CHECKING:
    from pathlib import Path

SEED = int(os.environ.get("FAULTS_SEED", "20261122"))
ALL = 500
COUNT = int(os.environ.get("FAULTS", ALL // 5))
"""Faults that are tried, of the numbers below, which are for 500."""
CLOS = {  # name: (leaves, spines, servers per leaf, faults)
    "clos-10": (8, 2, 4, 80),
    "clos-20": (16, 4, 4, 60),
    "clos-40": (36, 4, 2, 20),
    "clos-80": (74, 6, 2, 10),
    "clos-200": (192, 8, 1, 5),
}
PLANS = {  # name: (topology, engine, lanes, VLANs, faults)
    "jellyfish-10": ("jellyfish:switches=10,network_ports=4,hosts_per_switch=2", "order_pair", 2, 4, 80),
    "jellyfish-16": ("jellyfish:switches=16,network_ports=5,hosts_per_switch=1", "order_pair", 2, 4, 60),
    "leaf-spine-12": ("leaf_spine:leaves=8,spines=4,hosts_per_leaf=2", "up_down", 1, 4, 40),
    "fat-tree-20": ("fat_tree:k=4", "up_down", 1, 2, 20),
    "torus-27": ("torus:lengths=3x3x3,hosts_per_switch=1", "edst", 2, None, 25),
}


BUNDLED = {"bundled-8": (6, 2, 2, 60), "bundled-16": (12, 4, 4, 40)}
"""Fabrics with port channels and addresses. name: (leaves, spines, servers per leaf, faults)"""


class Touched(dict[str, Tables]):
    """Copies a device on first access, and remembers which devices were copied."""

    def __init__(self, devices: Devices) -> None:
        super().__init__(devices)
        self.names: set[str] = set()

    def __getitem__(self, name):
        if name not in self.names:
            self.names.add(name)
            self[name] = copy.deepcopy(super().__getitem__(name))
        return super().__getitem__(name)


def tables_of(reading: Reading) -> Devices:
    return {name: database.tables for name, database in reading.databases.items()}


def with_faults(base: Reading, devices: Touched) -> Reading:
    """The linter's reading of a fabric in which some devices were changed."""
    return reread(base, {name: next(documents(json.loads(json.dumps(devices[name])), name)) for name in devices.names})


@pytest.fixture(scope="module")
def fabrics(tmp_path_factory) -> dict[str, tuple[Reading, list[Fault], int]]:
    root = tmp_path_factory.mktemp("fabrics")
    found: dict[str, tuple[Reading, list[Fault], int]] = {}
    for seed, (name, (leaves, spines, servers, faults)) in enumerate(CLOS.items()):
        folder = lint_fabrics.write(lint_fabrics.clos(leaves, spines, servers, seed=seed), root / name)
        found[name] = (read_fabric([folder]), [*FAULTS, *MORE_FAULTS], faults)
    for seed, (name, (leaves, spines, servers, faults)) in enumerate(BUNDLED.items()):
        folder = lint_fabrics.write(lint_fabrics.bundled(leaves, spines, servers, seed=seed), root / name)
        found[name] = (read_fabric([folder]), CHANNEL_FAULTS, faults)
    for name, (topology, engine, lanes, vlans, faults) in PLANS.items():
        folder = deployed(root, name, topology, engine, lanes, vlans)
        found[name] = (read_fabric([folder]), [*FAULTS, *MORE_FAULTS, *LAYER2_FAULTS * 3], faults)
    return found


def deployed(root: Path, name: str, topology: str, engine: str, lanes: int, vlans: int | None) -> Path:
    fabric = pf.load_topology(topology)
    routes = pf.plan_routes(fabric, engine, lanes=lanes, vlans=vlans, first_vlan=100)
    pf.write_plan(routes, fabric, root / f"{name}-plan")
    write_deployment(root / f"{name}-plan", root / name, Settings(sonic_release="next"))
    write_deployment(root / f"{name}-plan", root / f"{name}-old", Settings())
    for file in (root / f"{name}-old").rglob("fdb.json"):  # with both forms, the two can disagree
        shutil.copy(file, root / name / file.relative_to(root / f"{name}-old"))
    return root / name


@pytest.mark.parametrize("name", [*CLOS, *PLANS, *BUNDLED])
def test_nothing_is_found_in_a_fabric_without_faults(fabrics, name):
    reading, _, _ = fabrics[name]
    assert [(str(f.place), f.message) for f in judge(reading).findings] == []


def test_single_faults_are_found_by_the_right_rule(fabrics):
    tried, missed, by_rule = 0, [], Counter[str]()
    for name, (base, faults, count) in fabrics.items():
        draw = random.Random(f"{SEED} {name}")
        mixed = draw.sample(faults, len(faults))
        for number in range(count * COUNT // ALL):
            devices = Touched(tables_of(base))
            what, codes = mixed[number % len(mixed)](devices, draw)
            got = {finding.code for finding in judge(with_faults(base, devices)).findings}
            tried += 1
            by_rule.update(got & codes)
            if not got & codes:
                missed.append((name, what, sorted(codes), sorted(got)))
    sys.stdout.write(f"seed {SEED}: {tried} faults, {len(missed)} missed: {missed}; {dict(by_rule)}\n")
    assert tried >= 0.9 * COUNT
    assert len(missed) <= COUNT / 100, missed
    assert len(by_rule) >= 25 + COUNT // 50


NIGHTLY = [pytest.param(name, marks=pytest.mark.night) for name in ("clos-10", "jellyfish-10")]


@pytest.mark.parametrize("name", ["bundled-8", *NIGHTLY])
def test_patches_cause_no_finding(fabrics, name):
    """What a patch leaves was found before: every kind of fault, on a fabric of each family."""
    tried = patched = 0
    base, faults, _ = fabrics[name]
    draw = random.Random(f"{SEED} {name} patches")
    for fault in dict.fromkeys(faults):
        devices = Touched(tables_of(base))
        what, _ = fault(devices, draw)
        report = judge(with_faults(base, devices))
        fixed = fix(report)
        assert [f"{f.code} {f.place}: {f.message}" for f in fixed.new] == [], (name, what)
        tried += len(report.findings)
        patched += len(report.findings) - len(fixed.after.findings)
    sys.stdout.write(f"seed {SEED}: {patched} of {tried} findings end by their patch\n")
    assert patched > tried / 3, "most kinds have a patch"
