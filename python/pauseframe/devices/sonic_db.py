"""CONFIG_DB in the form of its files: tables, rows and fields, all text.

The input is a `config_db.json`, a part of one, a dump of the database (`sonic-db-dump -n CONFIG_DB`: keys
"PORT|Ethernet0"), or instance data of the YANG models (`sonic-port:sonic-port` …). All of these forms are converted
into the same tables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pauseframe.devices.files import Json, as_list, as_rows, as_text
from pauseframe.devices.sonic_schema import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pauseframe.devices.sonic_fields import Table

Row = dict[str, str]
_TABLE = re.compile(r"[A-Z][A-Z0-9_]*")
_MODULE = re.compile(r"sonic-[a-z0-9_-]+:[A-Za-z0-9_-]+")
_REFERENCE = re.compile(r"\[[A-Z0-9_]+\|([^\[\]]+)\]")


@dataclass(slots=True)
class ConfigDb:
    """The tables of one device; the values of list fields are joined with commas."""

    source: str
    case: str = ""
    """Key of the document in its file, if the file has several documents."""
    tables: dict[str, dict[str, Row]] = field(default_factory=dict)
    malformed: list[tuple[str, str, str]] = field(default_factory=list)
    """Faults as (table, key, fault): values that are not a table or not a row."""
    form: Literal["tables", "dump", "yang"] = "tables"
    """The form of the file: tables as in config_db.json, a dump of the database, or instance data of the models."""
    joined: list[str] = field(default_factory=list)
    """Further files of the device, whose rows were added."""
    bracketed: bool = False
    """True if references are written as "[TABLE|name]", as by images before 202106."""

    @property
    def whole(self) -> bool:
        """True if the document is not a fragment, so that a missing row does not exist."""
        return self.form == "yang" or "PORT" in self.tables

    def rows(self, table: str) -> Mapping[str, Row]:
        """The rows of a table; empty if the table is missing."""
        return self.tables.get(table, {})


def documents(value: Json, source: str) -> Iterator[ConfigDb]:
    """The CONFIG_DBs of a JSON value, which is one document, or several by name, in any form."""
    top = as_rows(value)
    dumped = any(map(_is_dumped, top))
    if dumped:
        top = _of_dump(top)
    if any(_MODULE.fullmatch(key) for key in top):
        yield _of_yang(top, source)
    elif top and not any(_is_table(key, rows) for key, rows in top.items()) and _holds_documents(top):
        for case, inner in top.items():
            for document in documents(inner, source):
                document.case = case
                yield document
    else:
        yield _of_tables(top, source, "dump" if dumped else "tables")


def looks_like_config_db(value: Json) -> bool:
    """True if a JSON value has one of the forms of CONFIG_DB."""
    top = as_rows(value)
    known = any(key in TABLES or _MODULE.fullmatch(key) or _is_dumped(key) for key in top)
    return known or _holds_documents(top)


def _is_dumped(key: str) -> bool:
    return key.partition("|")[0] in TABLES and "|" in key


def _of_dump(top: Mapping[str, Json]) -> dict[str, Json]:
    """Tables of a database dump: Redis has one hash for each row, and list fields end with @."""
    tables: dict[str, Json] = {}
    for key, value in top.items():
        table, _, name = key.partition("|")
        into = tables.setdefault(table, {}) if name else None
        if not isinstance(into, dict):
            tables[key] = value
        elif isinstance(value, dict):
            fields = value.get("value") if value.get("type") == "hash" else value
            into[name] = dict(map(_of_hash, as_rows(fields).items()))
        else:
            into[name] = value
    return tables


def _of_hash(item: tuple[str, Json]) -> tuple[str, Json]:
    """A field of a hash; those with @ are lists."""
    name, value = item
    if name.endswith("@") and isinstance(value, str):
        value = [*value.split(",")]
    return name.removesuffix("@"), value


def _is_table(name: str, rows: Json) -> bool:
    return name in TABLES and isinstance(rows, dict)


def _holds_documents(top: Mapping[str, Json]) -> bool:
    def holds(inner: Json) -> bool:
        return any(key in TABLES or _MODULE.fullmatch(key) for key in as_rows(inner))

    return bool(top) and any(holds(inner) for inner in top.values()) and all(isinstance(i, dict) for i in top.values())


def _of_tables(top: Mapping[str, Json], source: str, form: Literal["tables", "dump"]) -> ConfigDb:
    found = ConfigDb(source, form=form)
    for table, rows in top.items():
        if not isinstance(rows, dict):
            if table in TABLES:
                found.malformed.append((table, "", "the table is not an object of rows"))
            continue
        into = found.tables.setdefault(table, {})
        for key, row in rows.items():
            if not isinstance(row, dict):
                if table in TABLES:
                    found.malformed.append((table, key, "the row is not an object of fields"))
                continue
            into[key] = {name: _value(found, item) for name, item in row.items() if name != "NULL"}
            for name in (name for name, item in row.items() if isinstance(item, list) and _is_text(table, name)):
                message = f'{name} is a list: SONiC keeps it as "{name}@", and nothing reads that'
                found.malformed.append((table, key, message))
    return found


def _is_text(table: str, name: str) -> bool:
    """Whether a known field is no list."""
    spec = TABLES[table].fields.get(name) if table in TABLES else None
    return spec is not None and not spec.listed


def _value(found: ConfigDb, item: Json) -> str:
    """The text of a field; images before 202106 wrote references as "[TABLE|name]", several with commas."""
    text = item if isinstance(item, str) else as_text(item)
    if "[" not in text:
        return text
    old = [_REFERENCE.fullmatch(part) for part in text.split(",")]
    names = [reference[1] for reference in old if reference]
    if len(names) < len(old):
        return text
    found.bracketed = True
    return ",".join(names)


def _of_yang(top: Mapping[str, Json], source: str) -> ConfigDb:
    found = ConfigDb(source, form="yang")
    for containers in top.values():
        for name, container in as_rows(containers).items():
            table = name.rpartition(":")[2]
            for child, rows in as_rows(container).items():
                _add_yang(found, table, child.rpartition(":")[2], rows)
    return found


def _add_yang(found: ConfigDb, table: str, child: str, rows: Json) -> None:
    into = found.tables.setdefault(table, {})
    if isinstance(rows, dict):
        into[child] = {name: as_text(item) for name, item in rows.items()}
        return
    spec = TABLES.get(table)
    for item in as_list(rows):
        row = dict(as_rows(item))
        if spec is None:
            key = "|".join(as_text(value) for value in list(row.values())[:2])
            into[as_text(row["name"]) if "name" in row else key] = {k: as_text(v) for k, v in row.items()}
            continue
        named, names = _yang_key(table, spec, row)
        if named is None:
            found.malformed.append((table, "", f"a row of {child} has no {names}"))
            continue
        into[named] = _yang_fields(table, spec, row)


def _yang_key(table: str, spec: Table, row: dict[str, Json]) -> tuple[str | None, str]:
    """The key of a row in a YANG list; the key's leaves are removed from the row."""
    renamed = {"DEVICE_NEIGHBOR": {"local_port": "peer_name"}}.get(table, {})
    for parts in sorted(spec.keys, key=len, reverse=True):
        names = [renamed.get(name, name) for name, _ in parts]
        if all(name in row for name in names):
            return "|".join(as_text(row.pop(name)) for name in names), ""
    return None, " and ".join(name for name, _ in spec.keys[0])


def _yang_fields(table: str, spec: Table, row: dict[str, Json]) -> Row:
    if spec.entries is None:
        return {name: as_text(item) for name, item in row.items()}
    (key, _), (value, _) = spec.entries
    entries = [as_rows(entry) for entry in as_list(row.get(table))]
    return {as_text(entry.get(key)): as_text(entry.get(value)) for entry in entries}
