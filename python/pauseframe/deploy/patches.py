"""A switch's change as a JSON patch (RFC 6902), if its whole configuration was collected (`config apply-patch`).

Unlike `config load`, the patch also removes rows of the same queues and groups that would contradict the new ones.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING

from pauseframe.lint.patch import Step, difference

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pauseframe.deploy.inventory import Inventory
    from pauseframe.deploy.sonic import Tables
    from pauseframe.devices.sonic_db import ConfigDb

RANGES = ("QUEUE", "BUFFER_QUEUE", "BUFFER_PG")
"""Tables whose keys have ranges, such as "Ethernet0|3-4", which may overlap new rows."""


def of_inventory(known: Inventory, switches: Iterable[str]) -> dict[str, ConfigDb]:
    """The collected configurations, if every switch has one; else nothing: all switches take one form."""
    found = {name: known.databases[name] for name in switches if name in known.databases}
    return found if len(found) == len(list(switches)) else {}


def patch(before: ConfigDb, *parts: Tables) -> list[Step]:
    """The steps from a switch's configuration to the one that has these tables as well."""
    tables = deepcopy(before.tables)
    for part in parts:
        for table, rows in part.items():
            if table in RANGES:
                _remove_overlapping(tables.get(table, {}), rows)
            for key, row in rows.items():
                tables.setdefault(table, {}).setdefault(key, {}).update(row)
    return list(difference(before, replace(before, tables=tables)))


def _remove_overlapping(old: dict[str, dict[str, str]], new: Mapping[str, object]) -> None:
    wanted = {pair for key in new for pair in _numbers(key)}
    for key in [key for key in old if key not in new and wanted & set(_numbers(key))]:
        del old[key]


def _numbers(key: str) -> list[tuple[str, int]]:
    """The (port, number) pairs of a key such as "Ethernet0,Ethernet4|3-4"."""
    ports, _, last = key.rpartition("|")
    low, _, high = last.partition("-")
    if not low.isdecimal() or not (high or low).isdecimal():
        return []
    return [(port, number) for port in ports.split(",") for number in range(int(low), int(high or low) + 1)]


def expectations(before: ConfigDb, steps: Iterable[Step]) -> list[tuple[str, str, str, str]]:
    """(table, key, field, value now) of what the steps replace or remove; "" for a row that must not exist yet."""
    found = []
    for step in steps:
        table, *rest = (part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:])
        rows = before.rows(table)
        if len(rest) == 2 and step["op"] != "add":
            found.append((table, rest[0], rest[1], rows[rest[0]][rest[1]]))
        elif len(rest) == 1 and step["op"] == "remove":
            found += [(table, rest[0], name, value) for name, value in rows[rest[0]].items()]
        elif len(rest) == 1:
            found += [(table, rest[0], name, "") for name in list(step["value"])[:1]]
    return found
