"""The values that similar devices and ports agree on, as changes of a device that differs from them.

Similar are switches of one model and tier, and their ports with one speed and cable that lead to the same kind of
device. A mistyped value usually differs from all of them, so theirs is the first candidate when a fault is mended.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pauseframe.devices.model import QOS_MAPS, End
from pauseframe.devices.tiers import levels
from pauseframe.lint.finding import PatchOperation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pauseframe.devices.model import Place, Switch
    from pauseframe.devices.read import Reading
    from pauseframe.lint.finding import Finding

AGREE = 3 / 4
"""Least share of the others that must have a value."""
ITS_OWN = {"lanes", "alias", "index", "description", "core_id", "core_port_id", "num_voq", "subport", "admin_status",
           "mac", "laser_freq", "tx_power", "dhcp_servers", "dhcpv6_servers"}  # fmt: skip
"""Fields in which ports or switches differ by design."""
OF_PORTS = ("PORT", "PORT_QOS_MAP", "PFC_WD", "QUEUE", "BUFFER_QUEUE", "BUFFER_PG")
"""Tables whose keys begin with a port."""
LINKS, CABLES = ("PORT", "CABLE_LENGTH"), "CABLE_LENGTH"
"""Tables with properties of a link: an odd one may be right, so only a finding about the row itself changes it."""
ALIKE = {
    *("BUFFER_PROFILE", "BUFFER_POOL", "WRED_PROFILE", "SCHEDULER", "LOSSLESS_TRAFFIC_PATTERN", *QOS_MAPS.values()),
    *("DEFAULT_LOSSLESS_BUFFER_PARAMETER", "SWITCH_TRIMMING", "SWITCH_HASH", "PFC_WD", "PORT_QOS_MAP"),
}
"""Tables whose rows have the same meaning at all switches. Keys of other tables may be addresses or neighbours."""
FEWEST = 2
"""Least number of rows that must agree in another table, and at switches of another tier."""

Kind = tuple[object, ...]
Rows = dict[tuple[str, str], tuple[str, dict[str, str]]]
"""By table and row (of ports: what follows the port) the key and the fields."""
Change = tuple[PatchOperation, ...]


@dataclass(frozen=True, slots=True)
class _Subject:
    """A device, or a port with its rows."""

    device: str
    port: str
    rows: Rows

    def operation(self, table: str, key: str, name: str, value: str | None) -> PatchOperation:
        return PatchOperation(table, key, self.port if table == CABLES else name, value, self.device)


@dataclass(slots=True)
class _Votes:
    """The rows that subjects of one kind have, and the values of their fields."""

    subjects: int = 0
    rows: Counter[tuple[str, str]] = field(default_factory=Counter)
    values: dict[tuple[str, str], dict[str, Counter[str]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(Counter))
    )
    keys: dict[tuple[str, str], str] = field(default_factory=dict)

    def add(self, subject: _Subject) -> None:
        self.subjects += 1
        for row, (key, fields) in subject.rows.items():
            self.rows[row] += 1
            self.keys[row] = key
            for name, value in fields.items():
                self.values[row][name][value] += 1

    def usual(self, row: tuple[str, str], name: str, own: str | None, *, has_row: bool) -> tuple[str | None, int]:
        """The value that enough other subjects with the row have (None: none), and how many; 0 if none."""
        others = self.rows[row] - has_row
        count = self.values[row][name].copy()
        if own is not None:
            count[own] -= 1
        lacking = others - count.total()
        value, most = max(count.items(), key=lambda item: item[1], default=("", 0))
        if others and most >= AGREE * others:
            return value, most
        return None, lacking if others and lacking >= AGREE * others else 0


class Usual:
    """What similar devices and ports have, by the tables of a reading."""

    def __init__(self, reading: Reading) -> None:
        fabric = reading.fabric
        tiers = levels([(link.a.device, link.b.device) for link in fabric.links], fabric.switches)
        self._reading, self._far = reading, fabric.peers()
        whole = [name for name, own in reading.databases.items() if own.whole and not own.case]
        self._roles: dict[str, Kind] = {name: (fabric.switches[name].hwsku, tiers.get(name)) for name in whole}
        self._votes: dict[Kind, _Votes] = defaultdict(_Votes)
        for name in whole:
            for kinds, subject in self._subjects(name):
                for kind in kinds:
                    self._votes[kind].add(subject)

    def changes(self, finding: Finding) -> list[Change]:
        """The changes of the devices of a finding to what similar devices and ports have."""
        places = [*finding.places, *([] if finding.other is None else [finding.other])]
        named = [*(place.device for place in places), *(operation.device for operation in finding.patch)]
        found = [
            change
            for device in dict.fromkeys(name for name in named if name in self._roles)
            for kinds, subject in self._subjects(device)
            for change in self._of_subject(kinds, subject)
        ]
        return [change for change in found if _may_change(change, places)]

    def _subjects(self, name: str) -> Iterator[tuple[list[Kind], _Subject]]:
        """A device and its ports, each with the kinds to which it belongs."""
        tables, switch, role = (
            self._reading.databases[name].tables,
            self._reading.fabric.switches[name],
            self._roles[name],
        )
        own: Rows = {}
        queues: dict[str, Rows] = defaultdict(dict)
        links: dict[str, Rows] = defaultdict(dict)
        for table, rows in tables.items():
            for key, row in rows.items():
                port, _, part = key.partition("|")
                if table == CABLES:
                    for port, length in row.items():
                        links[port][table, key] = key, {"length": length}
                elif table in OF_PORTS and port in switch.ports:
                    (links if table in LINKS else queues)[port][table, part] = key, row
                else:
                    own[table, key] = key, row
        yield [("device", *role), ("device",)], _Subject(name, "", own)
        for port in switch.ports:
            yield [("link", *role, self._leads_to(name, port))], _Subject(name, port, links[port])
            yield [self._kind_of(switch, port)], _Subject(name, port, queues[port])

    def _leads_to(self, device: str, port: str) -> bool | None:
        """Whether a switch is at the other end of a port; None if that is unknown."""
        far = self._far.get(End(device, port))
        return None if far is None else far.device in self._reading.fabric.switches

    def _kind_of(self, switch: Switch, port: str) -> Kind:
        own, alone = switch.ports[port], switch.channel_of(port) is None
        return "port", *self._roles[switch.name], own.speed, own.cable, self._leads_to(switch.name, port), alone

    def _of_subject(self, kinds: list[Kind], subject: _Subject) -> Iterator[Change]:
        for row, (key, fields) in subject.rows.items():
            if row[0] != "PORT" and (row[0] in ALIKE or subject.port) and self._alone_has(kinds[0], row):
                yield (PatchOperation(row[0], key, "", None, subject.device),)
                continue
            for name in self._names(kinds, row, fields) - ITS_OWN:
                own = fields.get(name)
                value, count = self._agreed(kinds, row, name, own)
                if value != own and count and (value is not None or row[0] in ALIKE):
                    yield (subject.operation(row[0], key, name, value),)
        yield from self._missing(kinds[0], subject)

    def _names(self, kinds: list[Kind], row: tuple[str, str], fields: dict[str, str]) -> set[str]:
        return {*fields, *(name for kind in kinds for name in self._votes[kind].values[row])}

    def _agreed(self, kinds: list[Kind], row: tuple[str, str], name: str, own: str | None) -> tuple[str | None, int]:
        for number, kind in enumerate(kinds):
            fewest = 1 if row[0] in ALIKE and kind[0] == "device" and not number else FEWEST
            value, count = self._votes[kind].usual(row, name, own, has_row=True)
            if count >= fewest:
                return value, count
        return None, 0

    def _alone_has(self, kind: Kind, row: tuple[str, str]) -> bool:
        """True if enough others of a kind exist and lack the row."""
        votes = self._votes[kind]
        return votes.subjects > FEWEST and votes.subjects - votes.rows[row] >= AGREE * (votes.subjects - 1)

    def _missing(self, kind: Kind, subject: _Subject) -> Iterator[Change]:
        """The rows that enough others of a kind have."""
        votes = self._votes[kind]
        for row, count in votes.rows.items():
            lacks = row not in subject.rows and (bool(subject.port) or row[0] in ALIKE | {"VLAN"})
            if not lacks or count < AGREE * (votes.subjects - 1):
                continue
            key = votes.keys[row]
            if subject.port and row[0] != CABLES:
                key = "|".join(filter(None, [subject.port, row[1]]))
            agreed = [(name, *votes.usual(row, name, None, has_row=False)) for name in votes.values[row]]
            fields = [(name, value) for name, value, _ in agreed if value is not None and name not in ITS_OWN]
            yield tuple(subject.operation(row[0], key, *one) for one in fields or [("", "")])


def _may_change(change: Change, places: list[Place]) -> bool:
    """False for properties of links that the finding is not about."""
    return all(
        operation.table not in LINKS
        or any(
            (p.device, p.table) == (operation.device, operation.table) and _port(p) == _port(operation) for p in places
        )
        for operation in change
    )


def _port(of: Place | PatchOperation) -> str:
    return (of.field or of.key) if of.table == CABLES else of.key
