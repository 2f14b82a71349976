"""Keys of drawn scenarios that come from the declarations, so that a new key is drawn on the day it is declared."""

import copy
import random
from functools import cache

import tomli_w
from key_values import Row, Tables, candidates, rows_of_schema, spread
from pauseframe import _core

WINGS = ("transport", "host", "switch", "routing", "qcn")
"""Sections whose keys are given; the swarm draws topology, workloads, faults and records otherwise."""
LEFT_OUT = {
    "transport.kind": "a preset says it",
    "host.kernel_hosts": "needs a kernel",
}
"""Keys that are not given, with the reason."""


@cache
def rows() -> list[Row]:
    """The keys that may be given."""
    return [row for row in rows_of_schema() if row["path"].split(".")[0] in WINGS and row["path"] not in LEFT_OUT]


def resolves(scenario: Tables) -> bool:
    """Whether the core takes a scenario."""
    try:
        _core.resolve(tomli_w.dumps(scenario))
    except _core.ScenarioError:
        return False
    return True


def give_keys(rng: random.Random, scenario: Tables, count: int) -> Tables:
    """The scenario with so many random keys at random values that the core takes."""
    known = rows()
    for _ in range(20 * count):
        row = rng.choice(known)
        values = list(candidates(row))
        if not values:
            continue
        changed = copy.deepcopy(scenario)
        try:
            spread(changed, row["path"], copy.deepcopy(rng.choice(values)))
        except (AttributeError, TypeError, KeyError):  # the scenario has a value where the key wants a table
            continue
        if changed != scenario and resolves(changed):
            scenario, count = changed, count - 1
        if count == 0:
            break
    return scenario
