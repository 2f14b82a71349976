"""A few drawn scenarios in each run of the tests, others every time: set PAUSEFRAME_SWARM_SEED to repeat them.

`python tests/swarm.py --count 1000` draws more, and prints the command that repeats each one that breaks a rule.
"""

import os
import secrets

import pytest
from swarm import check

SCENARIOS = 24
FIRST = int(os.environ.get("PAUSEFRAME_SWARM_SEED") or secrets.randbelow(1 << 40))


@pytest.mark.parametrize("number", range(SCENARIOS))
def test_no_rule_is_broken(number: int) -> None:
    seed = FIRST + number
    assert list(check(seed)) == [], f"python tests/swarm.py --count 1 --seed {seed}"
