"""Draws a few scenarios in each test run, with new seeds each time; PAUSEFRAME_SWARM_SEED repeats a run.

`python tests/swarm.py --count 1000` draws more scenarios, and writes each scenario that violates a rule to a file.
"""

import os
import secrets
from collections import Counter

import pytest
from swarm import check, scenario_of
from swarm_kinds import ALL, kinds_of

SCENARIOS = 24
FIRST = int(os.environ.get("PAUSEFRAME_SWARM_SEED") or secrets.randbelow(1 << 40))


@pytest.mark.parametrize("number", range(SCENARIOS))
def test_no_rule_is_broken(number: int) -> None:
    seed = FIRST + number
    assert list(check(seed)) == [], f"python tests/swarm.py --count 1 --seed {seed}"


def test_every_mechanism_is_drawn() -> None:
    drawn = Counter[str]()
    for seed in range(800):
        if all(drawn[kind] >= 5 for kind in ALL):
            break
        scenario = scenario_of(seed)
        drawn.update(kinds_of(scenario.resolved) if scenario else ())
    assert {kind: drawn[kind] for kind in ALL if drawn[kind] < 5} == {}
