"""The search for good settings of a scenario: parameters, objectives, constraints; the answer and its evidence.

`study.py` reads and carries out a search, `search.py` proposes settings (Optuna), `trials.py` runs them through the
machinery of sweeps, `answer.py` judges the best of them on seeds that the search has not used.
"""

from __future__ import annotations

from pauseframe.tune.study import Study, Tuning, carry_out, prepare, tune

__all__ = ["Study", "Tuning", "carry_out", "prepare", "tune"]
