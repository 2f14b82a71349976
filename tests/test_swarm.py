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


@pytest.mark.parametrize(
    "seed", [3000145, 3000277, 3000982, 7000367, 7000552, 7002900, 7004243, 8000168, 8004691, 88120506]
)
def test_scenarios_that_broke_a_rule_once(seed: int) -> None:
    """A failing switch that announced what its queues freed over a link about to go down, a rule that forgot that
    operations, requests and messages of a hotspot share a connection, one that forgot requests which had no time to
    begin, a deadlock that an alert kept running, a round trip measured on packets that had waited behind a gap, a
    rule that compared the mean of a whole run with samples up to its last event, and an ideal time that knew no
    flowlets of single packets."""
    assert list(check(seed)) == []


def test_every_mechanism_is_drawn() -> None:
    drawn = Counter[str]()
    for seed in range(450):
        scenario = scenario_of(seed)
        drawn.update(kinds_of(scenario.resolved) if scenario else ())
    assert {kind: drawn[kind] for kind in ALL if drawn[kind] < 5} == {}
