"""Searches for good settings of a scenario: parameters, objectives, constraints; the answer and its evidence.

`study.py` reads and runs a search, `search.py` proposes settings by the model of `beliefs.py` and `surrogate.py`,
`trials.py` runs them as a sweep, `finals.py` chooses among the best ones on held-out seeds.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from pauseframe._core import Resolved
    from pauseframe.scenario.document import Scenario
    from pauseframe.tune.study import Tuning


def tune(scenario: Scenario | Resolved | str | Path, **options: Any) -> Tuning:
    """Searches for the values of some keys that optimise the objectives and meet all constraints.

    `scenario` is as for `pauseframe.run`. `options` are the keys of a `[tune]` table (docs/how-to/tune.md: parameters,
    objectives, constraints, trials, ...) and override the keys of the file. `set` changes keys for all runs; `out`
    names the folder (results/NAME-tune, or a numbered one) for the answer (JSON and a page) and every run;
    `resume=False` rejects a folder with a search; `store`, `jobs`, `on`, `shard`, `threads` and `progress` are those of
    `pauseframe.sweep`;
    `beside_random=True` also runs a random search with as many runs; `play=False` does not record the decisive runs for
    `pauseframe view`.

    Raises ScenarioError with every mistake in the scenario or the search, InputError if the search cannot run.

    >>> import pauseframe as pf
    >>> pf.tune("incast.toml", trials=40).recommended  # doctest: +SKIP
    """
    from pauseframe.tune.study import tune as carry_out

    return carry_out(scenario, **options)
