"""Sweeps: a scenario for many values of some keys, each for many seeds, on all cores or on a cluster."""

from pauseframe.sweep.results import Sweep, load_sweep
from pauseframe.sweep.run import sweep

__all__ = ["Sweep", "load_sweep", "sweep"]
