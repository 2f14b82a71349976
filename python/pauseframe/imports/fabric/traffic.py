"""The classes of traffic of a fabric: which code points its switches treat as lossless, and where."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pauseframe.devices.model import PRIORITIES
from pauseframe.lint.subject import group_of, lossless_queues

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pauseframe.devices.model import Fabric, Port, Queue, Switch

CNP_PRIORITY = 6
"""802.1p priority of congestion notification packets (NVIDIA: CNP_802P_PRIO)."""
USUAL_DSCP = (26, 3, 24, 4)
"""Code points of lossless RoCE traffic that guides name: NVIDIA 26 and 24, SONiC's AZURE map 3 and 4."""


@dataclass(frozen=True)
class CodePoint:
    """How a packet names its class: a DSCP, an 802.1p priority, or directly a priority if no switch has a map."""

    kind: Literal["dscp", "dot1p", "priority"]
    value: int

    def __str__(self) -> str:
        return f"{_KINDS[self.kind]} {self.value}"


_KINDS: dict[Literal["dscp", "dot1p", "priority"], str] = {"dscp": "DSCP", "dot1p": "802.1p", "priority": "priority"}


def code_point(text: str) -> CodePoint | None:
    """The code point that a text such as "DSCP 26" names; None for another text."""
    name, _, value = text.partition(" ")
    kind = next((kind for kind, known in _KINDS.items() if known == name), None)
    return CodePoint(kind, int(value)) if kind is not None and value.isdecimal() else None


BEST_EFFORT = CodePoint("dscp", 0)


@dataclass(frozen=True)
class Treatment:
    """What a port does with packets of a code point: their queue, and whether their group is paused when it fills."""

    queue: int
    group: int
    lossless: bool


def treatment(switch: Switch, port: Port, code: CodePoint) -> Treatment:
    """The treatment of a code point; without a map, or with a map that lacks it, the class is 0 (SAI default)."""
    if code.kind == "priority":
        traffic_class = code.value
    else:
        name = port.qos.dscp_to_tc if code.kind == "dscp" else port.qos.dot1p_to_tc
        points = switch.mapped(f"{code.kind}_to_tc", name) if name else None
        traffic_class = (points or {}).get(code.value, 0)
    queue = _bound(switch, port, "tc_to_queue").get(traffic_class, 0)
    group = _bound(switch, port, "tc_to_pg").get(traffic_class, 0)
    paused = {group_of(switch, port, priority) for priority in port.lossless}
    return Treatment(min(queue, max(PRIORITIES)), group, group in paused)


def _bound(switch: Switch, port: Port, kind: Literal["tc_to_queue", "tc_to_pg"]) -> Mapping[int, int]:
    """The map of a port. Beside ports with a map, a port without one has class 0 for all (PF024)."""
    name = getattr(port.qos, kind)
    if name is None and any(getattr(other.qos, kind) for other in switch.ports.values()):
        return {}
    return switch.mapped(kind, name) or {}


def lossless_code_points(fabric: Fabric) -> list[CodePoint]:
    """For each paused queue the code point that most ports lead into it; the most frequent first.

    Of code points that as many ports treat so, the usual DSCPs come first. Without maps, the paused priorities.
    """
    count: dict[int, Counter[CodePoint]] = defaultdict(Counter)
    paused: Counter[int] = Counter()
    for switch, port in fabric.ports():
        paused.update(port.lossless)
        for kind, name in (("dscp", port.qos.dscp_to_tc), ("dot1p", port.qos.dot1p_to_tc)):
            points = switch.mapped(f"{kind}_to_tc", name) if name else None
            for value in points or {}:
                code = CodePoint("dscp" if kind == "dscp" else "dot1p", value)
                found = treatment(switch, port, code)
                if found.lossless and found.queue in lossless_queues(switch, port):
                    count[found.queue][code] += 1
    if not count:
        return [CodePoint("priority", one) for one in sorted(paused, key=lambda one: (-paused[one], one))]
    best = [
        (min(codes, key=lambda code: (-codes[code], *_rank(code))), max(codes.values())) for codes in count.values()
    ]
    return [code for code, _ in sorted(best, key=lambda one: (-one[1], *_rank(one[0])))]


def marked_code_points(fabric: Fabric) -> list[int]:
    """For each queue with ECN marks the DSCP that most ports lead into it."""
    count: dict[int, Counter[int]] = defaultdict(Counter)
    for switch, port in fabric.ports():
        marked = {number for number, queue in port.queues.items() if _marks(switch, queue)}
        for point in switch.mapped("dscp_to_tc", port.qos.dscp_to_tc) or {} if marked else ():
            if (queue := treatment(switch, port, CodePoint("dscp", point)).queue) in marked:
                count[queue][point] += 1
    return [min(points, key=lambda point: (-points[point], point)) for _, points in sorted(count.items())]


def _marks(switch: Switch, queue: Queue) -> bool:
    wred = switch.wred.get(queue.wred or "")
    return wred is not None and wred.marks_green and "green" in wred.enabled


def _rank(code: CodePoint) -> tuple[int, int]:
    usual = code.kind == "dscp" and code.value in USUAL_DSCP
    return (USUAL_DSCP.index(code.value) if usual else len(USUAL_DSCP), code.value)
