"""The kinds of faults that operators injected: each in five fabrics, at places drawn at random, found by its rule."""

import os
import random
import sys

import lint_fabrics
import lint_kinds
import pauseframe as pf
import pytest
from lint_kinds import KINDS, SIBLINGS, Nowhere
from pauseframe.deploy import Settings, write_deployment
from pauseframe.deploy.scenario import deploy_scenario
from pauseframe.devices.read import read_fabric
from pauseframe.examples import HOME
from pauseframe.lint.engine import judge
from test_deploy import planned

SEED = int(os.environ.get("FAULTS_SEED", "20261128"))
EACH = 5
"""Fabrics for each kind."""
PLANS = {  # name: (topology, engine, lanes, VLANs, settings)
    "next": (
        "jellyfish:switches=8,network_ports=3,hosts_per_switch=1",
        "order_pair",
        2,
        4,
        Settings(sonic_release="next"),
    ),
    "jellyfish": (
        "jellyfish:switches=6,network_ports=3,hosts_per_switch=1",
        "order_pair",
        2,
        2,
        Settings(hosts="dctcp"),
    ),
    "leaf-spine": ("leaf_spine:leaves=3,spines=2,hosts_per_leaf=2", "up_down", 1, 2, Settings()),
    "torus": ("torus:lengths=3x3,hosts_per_switch=1", "edst", 2, None, Settings(hosts="roce_dcqcn")),
    "fat-tree": ("fat_tree:k=2", "up_down", 1, 2, Settings()),
    "leaf-spine-4": ("leaf_spine:leaves=4,spines=2,hosts_per_leaf=1", "up_down", 1, 2, Settings(hosts="dctcp_plus")),
}
SCENARIOS = ("roce", "dctcp", "storage")
CLOS = {"clos-6": (4, 2, 2), "clos-5": (3, 2, 4)}
BUNDLED = {f"bundled-{n}": sizes for n, sizes in enumerate([(3, 2, 2), (4, 2, 1), (2, 2, 3), (6, 2, 2), (3, 3, 1)])}
FABRICS = (*PLANS, *SCENARIOS, *CLOS, *BUNDLED)
BY_DAY = ("leaf-spine", "bundled-0")


def made(name, folder):
    """The files of a fabric."""
    if name in PLANS:
        topology, engine, lanes, vlans, settings = PLANS[name]
        write_deployment(planned(folder / f"{name}-plan", topology, engine, lanes, vlans), folder / name, settings)
    elif name in SCENARIOS:
        text = (HOME / name / "fabric.toml").read_text()
        deploy_scenario(pf.Scenario.from_toml(text).resolve(), folder / name, Settings())
    else:
        make, sizes = (lint_fabrics.clos, CLOS[name]) if name in CLOS else (lint_fabrics.bundled, BUNDLED[name])
        lint_fabrics.write(make(*sizes, seed=FABRICS.index(name)), folder / name)
    return folder / name


def is_found(root, kind, draw):
    """Whether the right rule reports a fault of a kind at the device that has it; and what was found."""
    with lint_kinds.changed(root, kind, draw) as (device, codes):
        found = judge(read_fabric([root])).findings
    own = [f for f in found if f.code in codes]
    places = {place.device for f in own for place in (*f.places, *([f.other] if f.other else []))}
    hit = device in places or any(device in f.message for f in own)
    return hit, f"{kind} at {device}: {sorted({(f.code, str(f.place)) for f in found})}"


def missed_of(fabrics, kinds, each):
    """The faults that were not found, and how many were tried of each kind."""
    missed, tried = [], dict.fromkeys(kinds, 0)
    for kind in kinds:
        names = sorted(fabrics)
        random.Random(f"{SEED} {kind}").shuffle(names)
        for name in names:
            if tried[kind] == each:
                break
            try:
                hit, what = is_found(fabrics[name], kind, random.Random(f"{SEED} {kind} {name}"))
            except Nowhere:
                continue
            tried[kind] += 1
            missed += [] if hit else [f"{name}: {what}"]
    return missed, tried


def test_a_sample_of_kinds_is_found(tmp_path):
    fabrics = {name: made(name, tmp_path) for name in BY_DAY}
    kinds = random.Random(SEED).sample(sorted(KINDS), 8)
    missed, tried = missed_of(fabrics, kinds, 1)
    assert sum(tried.values()) == 8
    assert missed == []


SMALL = ("roce", "leaf-spine", "clos-5")
"""Switches with two ports to others, VLANs with rows, and wider switches."""


@pytest.mark.parametrize("kind", sorted(SIBLINGS))
def test_siblings_are_found(tmp_path, kind):
    """Faults that were silent: each in every one of three fabrics that has a place for it."""
    fabrics = {name: made(name, tmp_path) for name in SMALL}
    missed, tried = missed_of(fabrics, [kind], len(SMALL))
    assert missed == []
    assert tried[kind] > 0


@pytest.mark.night
def test_each_kind_is_found_in_five_fabrics(tmp_path):
    """At least 95 % of the faults; a row of a plan that leads a frame on a longer way is seen by --design alone."""
    fabrics = {name: made(name, tmp_path) for name in FABRICS}
    missed, tried = missed_of(fabrics, list(KINDS), EACH)
    sys.stdout.write(f"seed {SEED}: {sum(tried.values())} faults of {len(KINDS)} kinds, missed: {missed}\n")
    assert set(tried.values()) == {EACH}, tried
    assert len(missed) <= 0.05 * sum(tried.values()), missed
