"""Bus bandwidths of collectives on a fabric, in the table of nccl-tests (NVIDIA/nccl-tests, PERFORMANCE.md)."""

from pauseframe.busbw.measure import COLLECTIVES, Row, bench, measure, sizes_between
from pauseframe.busbw.measured import Measured, compare, read_measured

__all__ = ["COLLECTIVES", "Measured", "Row", "bench", "compare", "measure", "read_measured", "sizes_between"]
