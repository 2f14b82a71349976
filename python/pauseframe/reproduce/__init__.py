"""Runs the experiments of papers, measures their metrics, and judges each claim.

An experiment is data (`experiments/PAPER/NAME.toml`): a scenario, its variants, metrics in SQL over the result tables,
and the paper's claims as bands. The same rules give the verdicts of all papers.
"""

from __future__ import annotations

from pauseframe.reproduce.judge import Judgement
from pauseframe.reproduce.run import Outcome, reproduce
from pauseframe.reproduce.spec import Experiment, Paper, find_experiments

__all__ = ["Experiment", "Judgement", "Outcome", "Paper", "find_experiments", "reproduce"]
