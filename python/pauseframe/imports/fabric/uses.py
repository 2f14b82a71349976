"""Which rows of a switch's tables the scenario takes: the same field is used in one row and without effect in another.

A profile of a lossless group gives thresholds, one of lossy groups nothing: the simulator drops lossy packets at their
egress queue. `Uses.lacks` names what the scenario does not take of the fields that the account calls used or mapped.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from pauseframe.devices.files import whole_number
from pauseframe.devices.model import QOS_MAPS
from pauseframe.devices.tunnels import BUFFER_MAPS
from pauseframe.imports.fabric import switches
from pauseframe.imports.fabric.traffic import CNP_PRIORITY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe.devices.model import BufferProfile, Port, Switch
    from pauseframe.devices.sonic_db import ConfigDb
    from pauseframe.imports.fabric.scope import Scope
    from pauseframe.imports.fabric.switches import Classes

PORTS = ("PORT", "PORT_QOS_MAP", "BUFFER_PG", "BUFFER_QUEUE", "QUEUE", "PFC_WD", "CABLE_LENGTH")
"""Tables whose rows, or fields, are ports."""
KINDS = {table: kind for kind, table in QOS_MAPS.items()}


class Lack(NamedTuple):
    """Of which rows the scenario does not have a field, and the reason."""

    which: str
    why: str


UNWIRED = Lack("of ports without a link", "no link of the scenario has them")
GROUPS = Lack("of other groups", "lossy traffic is limited at its queue, and other lossless groups have no traffic")
QUEUES = Lack("of other queues", "a lossless queue drops nothing, and other queues have no traffic")
PROFILES = Lack("of other profiles", "no group or queue with traffic of the scenario has them")
AT_QUEUES = Lack("of profiles of queues", "a queue has no bytes for itself, and egress pools no memory")
POOLS = Lack(
    "of other pools", "a switch has one pool; switch.buffer.egress_pool would take its bytes from lossless traffic"
)
STATIC = Lack("beside static limits", "each queue has its own limit, and the pool holds them all")
TYPE = Lack("beside lossless groups", "the pool of these groups is switch.buffer")
UNBOUND = Lack("that no queue names", "no queue of a link has them")
MAPS = Lack("that no port names", "no port of a link, or no traffic of the scenario, looks them up")
POINTS = Lack("of other code points", "no traffic of the scenario has them")
TRAFFIC_CLASSES = Lack("of other classes", "no traffic of the scenario has them")
LOSSY_GROUPS = Lack("of lossy classes", "the simulator has a group for each priority")
PRIORITIES = Lack("of other priorities", "no port pauses them")
HOSTS = Lack("beside files of hosts", "they give the MTU")


class Uses:
    """What the scenario takes from the tables of one SONiC switch."""

    def __init__(self, scope: Scope, classes: Classes, name: str, database: ConfigDb, *, per_port: bool) -> None:
        self._scope = scope
        self._classes = classes
        self._switch: Switch = scope.fabric.switches[name]
        self._database = database
        self._per_port = per_port
        self._ports: dict[str, Port] = {end.port: port for end, _, port in scope.ports() if end.device == name}

    def lacks(self, table: str, key: str, field: str) -> Lack | None:
        """Why a value is not taken, though the scenario takes this field of other rows; None if it is."""
        if table in PORTS and not self._is_wired(table, key, field):
            return UNWIRED
        if table in KINDS:
            return self._of_map(table, key, field)
        found = {
            "BUFFER_PG": self._of_group,
            "BUFFER_QUEUE": self._of_queue,
            "BUFFER_PROFILE": self._of_profile,
            "BUFFER_POOL": self._of_pool,
            "WRED_PROFILE": self._of_wred,
            "SCHEDULER": self._of_scheduler,
            "PORT_QOS_MAP": self._of_port,
            "LOSSLESS_TRAFFIC_PATTERN": self._of_pattern,
        }.get(table)
        return None if found is None else found(key, field)

    def _is_wired(self, table: str, key: str, field: str) -> bool:
        if key.lower() == "global":
            return True
        if table == "CABLE_LENGTH":
            return field in self._ports
        parts = key.split("|")
        names = parts[-2] if table in {"BUFFER_PG", "BUFFER_QUEUE", "QUEUE"} and len(parts) > 1 else key
        return any(name in self._ports for name in names.split(","))

    def _numbered(self, key: str) -> Iterator[tuple[str, int]]:
        """The wired ports and the groups or queues of a row."""
        *_, names, numbers = ("", *key.split("|"))
        first, _, last = numbers.partition("-")
        low, high = whole_number(first), whole_number(last or first)
        for name in names.split(",") if low is not None and high is not None else ():
            yield from ((name, number) for number in range(low or 0, (high or 0) + 1) if name in self._ports)

    @cached_property
    def _groups(self) -> set[tuple[str, int]]:
        """The groups of the lossless traffic."""
        found = {name: switches.data_of(self._switch, port, self._classes) for name, port in self._ports.items()}
        return {(name, one.group) for name, one in found.items() if one.lossless}

    @cached_property
    def _queues(self) -> set[int]:
        return {*switches.lossy_queues(self._scope, self._classes)}

    def _of_group(self, key: str, _: str) -> Lack | None:
        return None if self._groups & {*self._numbered(key)} else GROUPS

    def _of_queue(self, key: str, _: str) -> Lack | None:
        return None if self._queues & {number for _, number in self._numbered(key)} else QUEUES

    @cached_property
    def _group_profiles(self) -> dict[str, BufferProfile]:
        names = {self._ports[name].groups.get(group) or "" for name, group in self._groups}
        return {name: self._switch.profiles[name] for name in names if name in self._switch.profiles}

    @cached_property
    def _queue_profiles(self) -> set[str]:
        own = (queue for port in self._ports.values() for n, queue in port.queues.items() if n in self._queues)
        return {queue.profile for queue in own if queue.profile}

    def _of_profile(self, key: str, field: str) -> Lack | None:
        if self._per_port and field == "pool":
            return STATIC
        if key in self._group_profiles:
            return None
        if key in self._queue_profiles:
            return None if field in {"dynamic_th", "static_th"} else AT_QUEUES
        return PROFILES

    def _of_pool(self, key: str, field: str) -> Lack | None:
        lossless = {profile.pool for profile in self._group_profiles.values() if profile.xoff}
        pools = switches.pools_of(self._scope, self._classes)
        if key not in {pool.name for end, _, _, pool in pools if end.device == self._switch.name}:
            return POOLS
        if self._per_port and field in {"size", "type"}:
            return STATIC
        return TYPE if lossless and field == "type" else None

    def _of_wred(self, key: str, _: str) -> Lack | None:
        bound = {queue.wred for port in self._ports.values() for queue in port.queues.values()}
        return None if key in bound else UNBOUND

    def _of_scheduler(self, key: str, _: str) -> Lack | None:
        bound = {queue.scheduler for port in self._ports.values() for queue in port.queues.values()}
        return None if key in bound else UNBOUND

    def _of_pattern(self, _: str, field: str) -> Lack | None:
        nics = (self._scope.fabric.nic(end) for end in self._scope.hosts)
        return HOSTS if field == "mtu" and any(nic is not None and nic.mtu for nic in nics) else None

    def _of_port(self, _: str, field: str) -> Lack | None:
        """Maps of code points that the traffic has not, and of groups and pauses without lossless traffic."""
        kind = field.removesuffix("_map")
        return MAPS if kind in QOS_MAPS and not self._looks_up(kind) else None

    def _looks_up(self, kind: str) -> bool:
        code = self._classes.code
        if kind in {"dscp_to_tc", "dot1p_to_tc"}:
            return kind.startswith("dscp" if code is None else code.kind)
        return kind == "tc_to_queue" or bool(self._classes.paused if kind.startswith("pfc") else code)

    def _of_map(self, table: str, key: str, field: str) -> Lack | None:
        if any(key == row.get(name) for row in self._database.rows("TUNNEL").values() for name in _of_tunnels(table)):
            return None
        kind, number = KINDS[table], whole_number(field)
        named = {name for name, port in self._ports.items() if getattr(port.qos, kind) == key}
        if not named or not self._looks_up(kind):
            return MAPS
        if kind in {"dscp_to_tc", "dot1p_to_tc"}:
            return None if number in self._points else POINTS
        if kind == "tc_to_queue":
            return (
                None
                if number in {tc for name in named for tc in self._classes_at(name, self._points)}
                else TRAFFIC_CLASSES
            )
        if kind == "tc_to_pg":
            code = self._classes.code
            own = set() if code is None else {code.value}
            return None if number in {tc for name in named for tc in self._classes_at(name, own)} else LOSSY_GROUPS
        return None if number in {one for name in named for one in self._ports[name].lossless} else PRIORITIES

    @cached_property
    def _points(self) -> set[int]:
        """The code points of the scenario's traffic."""
        code = self._classes.code
        if code is not None and code.kind != "dscp":
            return {0, code.value, *([CNP_PRIORITY] if code.kind == "dot1p" else [])}
        return {0, self._classes.cnp_dscp, *(point for point, _ in self._classes.of_dscp)}

    def _classes_at(self, name: str, points: set[int]) -> set[int]:
        """The traffic classes of code points at a port; without a map, class 0."""
        code, port = self._classes.code, self._ports[name]
        if code is not None and code.kind == "priority":
            return points
        kind = "dscp_to_tc" if code is None or code.kind == "dscp" else "dot1p_to_tc"
        own = getattr(port.qos, kind)
        found = self._switch.mapped(kind, own) if own else None
        return {(found or {}).get(point, 0) for point in points}


def _of_tunnels(table: str) -> Iterator[str]:
    """The fields of TUNNEL that name a map of a table."""
    yield from (field for field, of in BUFFER_MAPS.items() if of == table)
    yield from ("decap_dscp_to_tc_map",) if table == "DSCP_TO_TC_MAP" else ()
