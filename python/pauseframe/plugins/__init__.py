"""Your own congestion controls, in Python or as shared libraries, without building the simulator.

`docs/your-own-algorithm.md` leads from an empty file to a plot.
"""

from __future__ import annotations

from pathlib import Path

from pauseframe.plugins.classes import (
    ECN,
    LOSS,
    MICROSECOND,
    SECOND,
    congestion_control,
    constant,
    rate_control,
    slow_start,
    uniform,
)
from pauseframe.plugins.records import Ack, Delivery, Pair, PairAck, Window

__all__ = [
    "ECN",
    "LOSS",
    "MICROSECOND",
    "SECOND",
    "Ack",
    "Delivery",
    "Pair",
    "PairAck",
    "Window",
    "congestion_control",
    "constant",
    "include_dir",
    "rate_control",
    "slow_start",
    "uniform",
]


def include_dir() -> str:
    """The folder of `pauseframe_cc.h`, for the -I of a C compiler."""
    return str(Path(__file__).parents[1] / "include")
