"""Fig. 14 of the TCP-Bolt paper on small graphs that take only seconds to measure, for `test_fabrics.py`."""

from collections.abc import Sequence

from pauseframe.reproduce import fig14
from pauseframe.reproduce.points import Point
from pauseframe.reproduce.spec import Size


def points(size: Size, seeds: Sequence[int]) -> list[Point]:
    """All points of the figure. The call changes the graph sizes for the rest of the process."""
    fig14.SETTINGS = {"B 1:1": (40, 8, 8), "A 1:1": (30, 6, 6)}
    fig14.GROWTH = {"quick": (34, 40, 60)}
    fig14.DEGREES = {"quick": ((20, 8), (50, 12))}
    return fig14.points(size, seeds)
