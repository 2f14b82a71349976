"""Memory of the system, of this process's control group, and of a process, from /proc (Linux).

psutil reports the memory of the system and of a process, but not the limit of the control group, beyond which
containers and batch systems kill a run.
"""

from __future__ import annotations

import os
from pathlib import Path

PLENTY = 1 << 60
"""Available memory that is assumed if the system does not report it."""


def available_bytes() -> int:
    """Memory available without swapping, within the limit of the control group (containers, batch jobs)."""
    return min(_available_in_system(), _available_in_group())


def resident_bytes(process: int) -> int:
    """Resident memory of a process; 0 if it has ended or is unknown."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _available_in_system() -> int:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return PLENTY
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), PLENTY)


def _available_in_group() -> int:
    """Memory available within the control group (v2), which counts reclaimable file pages as used."""
    try:
        group = Path("/proc/self/cgroup").read_text().partition("::")[2].strip().lstrip("/")
        folder = Path("/sys/fs/cgroup") / group
        limit = (folder / "memory.max").read_text().strip()
        if limit == "max":
            return PLENTY
        used = int((folder / "memory.current").read_text())
        counts = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
        return max(0, int(limit) - used + int(counts.get("inactive_file", 0)))
    except (OSError, ValueError):
        return PLENTY
