"""The search for good settings of a scenario: parameters, objectives, constraints; the answer and its evidence.

`study.py` reads and carries out a search, `search.py` proposes settings (Optuna), `trials.py` runs them through the
machinery of sweeps, `answer.py` judges the best of them on seeds that the search has not used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from pauseframe._core import Resolved
    from pauseframe.scenario import Scenario
    from pauseframe.tune.study import Tuning


def tune(scenario: Scenario | Resolved | str | Path, **options: Any) -> Tuning:
    """Searches for the values of some keys that are best in the objectives and keep all constraints.

    `scenario` is what `pauseframe.run` takes. `options` are the keys of a `[tune]` table (docs/how-to/tune.md:
    parameters, objectives, constraints, trials, ...), which go before that of the file, and: `set` changes keys for all
    runs; `out` names the folder (results/NAME-tune), which gets the answer as JSON and as a page, and every run;
    `resume=False` refuses a folder that has a search; `store`, `jobs`, `on`, `shard`, `threads` and `progress` are
    those of `pauseframe.sweep`; `beside_random=True` runs a random search with as many runs; `play=False` does not
    record the runs that decided for `pauseframe view`.

    Raises ScenarioError with every mistake in the scenario or the search, InputError if it cannot be carried out.

    >>> import pauseframe as pf
    >>> pf.tune("incast.toml", trials=40).recommended  # doctest: +SKIP
    """
    from pauseframe.tune.study import tune as carry_out

    return carry_out(scenario, **options)
