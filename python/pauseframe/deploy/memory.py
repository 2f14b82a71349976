"""The buffers of a scenario as SONiC's pools and profiles.

The simulator and SONiC divide a shared buffer alike: pool, headroom of each lossless group, reserved bytes. A buffer
for each port becomes static limits in a pool that can hold all of them at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from pauseframe.deploy import quantities
from pauseframe.deploy.inventory import DeployError
from pauseframe.devices.files import shown
from pauseframe.devices.model import PRIORITIES
from pauseframe.fabric.headroom import FRAME, annex_o

if TYPE_CHECKING:
    from pauseframe.deploy.design import Design
    from pauseframe.devices.model import End

Rows = dict[str, dict[str, str]]
LOSSY_GROUP, LOSSY_QUEUE, LOSSLESS_QUEUE = "ingress_lossy_profile", "egress_lossy_profile", "egress_lossless_profile"
INGRESS, EGRESS, LOSSY = "ingress_lossless_pool", "egress_lossless_pool", "egress_lossy_pool"
LOSSY_TH = 3
"""Exponent of alpha of lossy groups at the ingress: their limit is that of the egress queue, as in the simulator."""


@dataclass
class Memory:
    """The packet memory of one switch, in bytes."""

    pool: int
    headroom: dict[End, int]
    """Headroom of one lossless group of each port."""
    shared_headroom: int
    """Size of the headroom pool; 0 if each group has its own headroom."""
    limits: dict[End, int]
    """Bytes at which a lossless group is paused; empty if alpha decides."""
    beside: int
    """Headroom and reserved bytes of all groups, besides the pool."""

    @property
    def all(self) -> int:
        """The whole packet memory: a limit that no lossless queue reaches."""
        return self.pool + self.beside


def headroom(design: Design, end: End) -> int:
    """Headroom of a lossless group: the scenario's, else what the link needs by Annex O, in whole KiB.

    Raises DeployError if the scenario's is too small for the cable.
    """
    behind = design.settings.port_mtu - design.mtu
    classes = len(design.lossless)
    need = annex_o(
        design.speed(end), design.cables[end], max_frame=design.mtu + FRAME, lossless=classes, behind=behind
    ).total
    given = design.switch["pfc"].get("headroom")
    if given is None:
        return -(-need // 1024) * 1024
    size = quantities.whole(given)
    if size < need:
        raise DeployError(
            f"switch.pfc.headroom is {size:,} B, and {shown(design.names[end])} needs {need:,} B: packets would be "
            "lost; leave the key out, and each link gets what it needs"
        )
    return size


def memory(design: Design, switch: str) -> Memory:
    """The memory of a switch. Raises DeployError if the scenario's buffer is too small for the headroom."""
    ends, classes = list(design.ends(switch)), len(design.lossless)
    own = {end: headroom(design, end) for end in ends} if classes else {}
    pool = design.switch["pfc"].get("headroom_pool") if classes else None
    given = _own(design, switch, "headroom_pool") or pool.get("size") if pool else None
    shared = quantities.whole(given) if given else 0
    if pool and not shared:
        ratio = quantities.number(pool.get("over_subscription", 2.0))
        shared = max(round(sum(own.values()) * classes / ratio), *own.values())
    size = quantities.whole(_own(design, switch, "buffer") or design.switch["buffer"]["size"])
    beside = (shared or sum(own.values()) * classes) + sum(reserved(design, n) for n in design.lossless) * len(ends)
    if design.switch["buffer"]["policy"] == "per_port":
        limits = {end: _xoff(design) or size - headroom for end, headroom in own.items()}
        if min(limits.values(), default=1) <= 0:
            raise DeployError(f"switch.buffer.size is {size:,} B a port, and the headroom of its links needs more")
        return Memory(sum(limits.values()) * classes + size * len(ends), own, shared, limits, beside)
    if size - beside <= 0:
        raise DeployError(
            f"switch.buffer.size is {size:,} B, and headroom and reserved bytes of {shown(switch)} need {beside:,} B: "
            "a larger buffer, shorter cables (--cable) or fewer lossless classes"
        )
    limit = _xoff(design)
    return Memory(size - beside, own, shared, {} if limit is None else dict.fromkeys(own, limit), beside)


def _own(design: Design, switch: str, key: str) -> Any:
    """A value of `switch.override` for a switch, the last one that names it; None without one."""
    name = design.names[next(design.ends(switch))].partition(":")[0]
    found = None
    for own in design.switch.get("override", []):
        if key in own and any(fnmatchcase(name, glob) for glob in own["switches"]):
            found = own[key]
    return found


def _xoff(design: Design) -> int | None:
    given = design.switch["pfc"].get("xoff") if design.lossless else None
    return None if given is None else quantities.whole(given)


def reserved(design: Design, priority: int) -> int:
    """Bytes that each (port, priority) has besides the pool."""
    return quantities.whole(design.setting(priority, "reserved") or 0)


def exponent(design: Design, priority: int) -> int:
    """The exponent of a class's alpha, rounded down, so that no queue holds more than in the simulation."""
    alpha = quantities.number(design.setting(priority, "alpha") or 1.0)
    found = min(max(math.floor(math.log2(alpha) + 1e-9), -8), 7)
    if not math.isclose(2.0**found, alpha):
        note = f"alpha = {alpha:g} is written as {2.0**found:g}: SONiC has powers of two from 1/256 to 128"
        if note not in design.notes:
            design.notes.append(note)
    return found


def profile_name(design: Design, end: End, priority: int) -> str:
    """Name of the profile of a lossless group, as buffermgrd forms it."""
    name = f"pg_lossless_{design.speed(end)}_{design.cables[end]}m"
    alike = exponent(design, priority) == exponent(design, design.lossless[0])
    alike &= reserved(design, priority) == reserved(design, design.lossless[0])
    return f"{name}_profile" if alike else f"{name}_{priority}_profile"


def tables(design: Design, switch: str) -> dict[str, Rows]:
    """BUFFER_POOL, BUFFER_PROFILE, BUFFER_PG and BUFFER_QUEUE of a switch."""
    found, ends = memory(design, switch), list(design.ends(switch))
    kind = "static" if found.limits else "dynamic"
    lossy_group = next(n for n in PRIORITIES if n not in design.lossless)
    profiles, groups, queues = _lossy_profiles(design, found), dict[str, dict[str, str]](), dict[str, dict[str, str]]()
    for end in ends:
        groups[f"{end.port}|{lossy_group}"] = {"profile": LOSSY_GROUP}
        for n in design.lossless:
            name = profile_name(design, end, n)
            profiles[name] = _profile(design, found, end, n)
            groups[f"{end.port}|{n}"] = {"profile": name}
        for n in PRIORITIES:
            lossless = n in design.lossless
            queues[f"{end.port}|{n}"] = {"profile": LOSSLESS_QUEUE if lossless else _lossy_name(design, n)}
    pools = {INGRESS: {"type": "ingress", "mode": kind, "size": str(found.pool)}}
    if found.shared_headroom:
        pools[INGRESS]["xoff"] = str(found.shared_headroom)
    if design.lossless:
        pools[EGRESS] = {"type": "egress", "mode": "static", "size": str(found.all)}
    lossy = design.switch["buffer"].get("egress_pool")
    pools[LOSSY] = {
        "type": "egress",
        "mode": _lossy_mode(design),
        "size": str(found.pool if lossy is None else quantities.whole(lossy)),
    }
    return {"BUFFER_POOL": pools, "BUFFER_PROFILE": profiles, "BUFFER_PG": groups, "BUFFER_QUEUE": queues}


def _lossy_mode(design: Design) -> str:
    return "static" if design.switch["buffer"]["policy"] == "per_port" else "dynamic"


def _lossy_name(design: Design, priority: int) -> str:
    first = next(n for n in PRIORITIES if n not in design.lossless)
    alike = _lossy_mode(design) == "static" or exponent(design, priority) == exponent(design, first)
    return LOSSY_QUEUE if alike else f"egress_lossy_{priority}_profile"


def _lossy_profiles(design: Design, found: Memory) -> Rows:
    """The profiles of lossy groups and queues, and of lossless queues, which drop nothing."""
    static = {"static_th": str(found.pool)}
    rows = {LOSSY_GROUP: {"pool": INGRESS, "size": "0"} | (static if found.limits else {"dynamic_th": str(LOSSY_TH)})}
    if design.lossless:
        rows[LOSSLESS_QUEUE] = {"pool": EGRESS, "size": "0", "static_th": str(found.all)}
    for n in PRIORITIES:
        if n not in design.lossless and (name := _lossy_name(design, n)) not in rows:
            size = quantities.whole(design.switch["buffer"]["size"])
            limit = {"dynamic_th": str(exponent(design, n))} if _lossy_mode(design) == "dynamic" else {}
            rows[name] = {"pool": LOSSY, "size": "0"} | (limit or {"static_th": str(size)})
    return rows


def _profile(design: Design, found: Memory, end: End, priority: int) -> dict[str, str]:
    """The profile of a lossless group. It resumes two frames below the pause, as the simulator does."""
    frame = design.mtu + FRAME
    own = reserved(design, priority)
    xoff, xon = design.switch["pfc"].get("xoff"), design.switch["pfc"].get("xon")
    gap = 2 * frame if xoff is None or xon is None else quantities.whole(xoff) - quantities.whole(xon)
    size = own if found.shared_headroom else own + found.headroom[end]
    limit = {"static_th": str(found.limits[end])} if found.limits else {"dynamic_th": str(exponent(design, priority))}
    sizes = {"size": size, "xon": frame, "xon_offset": gap, "xoff": found.headroom[end]}
    return {"pool": INGRESS} | {name: str(value) for name, value in sizes.items()} | limit
