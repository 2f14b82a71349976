"""Files for `swssconfig`: static FDB rows, learning of ports, and forwarding of frames without a row.

A file is a list of rows, each with one key (TABLE:KEY) and an operation, SET or DEL, which are applied in turn. Source:
sonic-swss, swssconfig/swssconfig.cpp.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from pauseframe.devices.files import Json, as_list, as_rows, as_text, shown, whole_number
from pauseframe.devices.model import FdbRow

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pauseframe.devices.model import Switch

MISSES = ("fdb_unicast_miss_packet_action", "fdb_multicast_miss_packet_action", "fdb_broadcast_miss_packet_action")
_FIELDS = {
    "FDB_TABLE": {"port", "type"},
    "SWITCH_TABLE": {*MISSES, "ecmp_hash_seed", "ecmp_hash_offset"},
    "PORT_TABLE": {"learn_mode"},
}
"""The fields that are read, by table."""


@dataclass(slots=True)
class Loaded:
    """What a file leaves behind once all of its rows are applied."""

    source: str
    fdb: list[FdbRow] | None = None
    """Static rows, in order; None if the file has none of FDB_TABLE. The last one of an address counts."""
    learns: dict[str, bool] = field(default_factory=dict)
    """Whether a port learns addresses."""
    floods: bool | None = None
    """True if frames without a row are forwarded; None if the file does not say."""
    seed: int | None = None
    offset: int | None = None
    """Seed and offset of the ECMP hash."""
    faults: list[str] = field(default_factory=list)
    """What `swssconfig` refuses."""
    others: set[str] = field(default_factory=set)
    """Tables and fields that no rule reads."""

    def apply(self, switch: Switch) -> None:
        """Sets learning and flooding of the VLANs for which CONFIG_DB sets neither."""
        for vlan in switch.vlans.values():
            known = {port: self.learns.get(port) for port in sorted({*vlan.members} & {*switch.ports})}
            left = [port for port, learns in known.items() if learns is None]
            if vlan.learning is None and len(left) < len(known):
                vlan.loaded, vlan.unset = self.source, left
                vlan.learning = True if True in known.values() else None if left else False
            if vlan.flood is None and self.floods is not None:
                vlan.flood, vlan.loaded = self.floods, self.source
        if self.seed is not None:
            switch.hashing = replace(switch.hashing, known=True, seed=self.seed)
        if self.offset is not None:
            switch.hashing = replace(switch.hashing, known=True, offset=self.offset)


def read(value: Json, source: str) -> Loaded | None:
    """What a file sets; None for any other file."""
    if not any(key.partition(":")[0] in _FIELDS for item in as_list(value) for key in as_rows(item)):
        return None
    found = Loaded(source)
    fdb: list[FdbRow] = []
    for key, row, set_ in _operations(value, found.faults):
        table, _, rest = key.partition(":")
        found.others |= {f"{table} {name}" for name in row if name not in _FIELDS.get(table, row)}
        if table == "FDB_TABLE":
            found.fdb = fdb
            _of_fdb(rest, row if set_ else None, fdb, found.faults)
        elif table == "SWITCH_TABLE":
            _of_switch(row if set_ else {}, found)
        elif table == "PORT_TABLE":
            _of_port(rest, row if set_ else {}, found)
        else:
            found.others.add(table)
    return found


def _operations(value: Json, faults: list[str]) -> Iterator[tuple[str, Mapping[str, Json], bool]]:
    """(key, fields, whether they are set) of each row; `swssconfig` ends at a row without SET or DEL."""
    for number, item in enumerate(as_list(value), 1):
        rows = as_rows(item)
        operation = as_text(rows.get("OP"))
        for key, fields in rows.items():
            if key == "OP":
                continue
            if operation in {"SET", "DEL"}:
                yield key, as_rows(fields), operation == "SET"
            else:
                what = f"OP {shown(operation)}" if operation else "no OP"
                faults.append(f"row {number}, {shown(key)}: {what}: swssconfig takes SET and DEL, and ends here")


def _of_fdb(key: str, row: Mapping[str, Json] | None, fdb: list[FdbRow], faults: list[str]) -> None:
    """Adds or removes a row of FDB_TABLE:Vlan100:00-11-22-33-44-55."""
    name, _, mac = key.partition(":")
    number, mac = vlan_number(name), mac.replace("-", ":").lower()
    if number is None:
        faults.append(f"FDB_TABLE:{shown(key)}: no VLAN")
    elif row is None:
        fdb[:] = [own for own in fdb if (own.vlan, own.mac) != (number, mac)]
    elif not as_text(row.get("port")):
        faults.append(f"FDB_TABLE:{shown(key)}: no port")
    elif as_text(row.get("type")) != "dynamic":  # a dynamic row ages out
        fdb.append(FdbRow(number, mac, as_text(row.get("port"))))


def _of_switch(row: Mapping[str, Json], found: Loaded) -> None:
    found.floods = any(as_text(row.get(n)) != "drop" for n in MISSES) if any(n in row for n in MISSES) else None
    found.seed, found.offset = (whole_number(as_text(row.get(f"ecmp_hash_{name}"))) for name in ("seed", "offset"))


def _of_port(port: str, row: Mapping[str, Json], found: Loaded) -> None:
    found.learns.pop(port, None)
    if "learn_mode" in row:
        found.learns[port] = as_text(row["learn_mode"]) not in {"disable", "drop"}


def vlan_number(name: str) -> int | None:
    """The number of a VLAN by its name in SONiC, Vlan100."""
    return whole_number(name.removeprefix("Vlan")) if name.startswith("Vlan") else None
