"""`--yang DIR`: the operator's own models judge the operator's files, by yanglint (libyang).

SONiC's devices validate the same way: CONFIG_DB is turned into instance data of the models first. Only tables whose form is
known here are turned; yanglint says what is wrong with them in its own words.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from pauseframe.devices.files import shown
from pauseframe.devices.read import Reading
from pauseframe.devices.sonic_db import ConfigDb
from pauseframe.devices.sonic_schema import TABLES

_SECONDS = 120
_LISTS = {"profile_list", "dhcp_servers", "dhcpv6_servers"}


def validate(models: Path, reading: Reading) -> tuple[list[str], bool]:
    """What yanglint says, a line each, and whether anything was wrong or could not be done."""
    program = shutil.which("yanglint")
    if program is None:
        return ["yang: yanglint is not here: install libyang-tools (Debian: libyang2-tools), or leave out --yang"], True
    files = {module_of(path): path for path in sorted(models.glob("*.yang"))} if models.is_dir() else {}
    containers = {table: name for name, path in files.items() for table in tables_of(path)}
    if not containers:
        return [f"yang: no model in {shown(models)} has a table that is known here: give the folder of sonic-*.yang"], True
    lines, failed = [], False
    for device, database in reading.databases.items():
        data, used = instance(database, containers)
        if not used:
            continue
        said, wrong = _run(program, models, [files[name] for name in sorted(used)], data)
        failed |= wrong
        lines += [f"yang: {shown(device)}: {line}" for line in said]
        lines += [] if wrong else [f"yang: {shown(device)}: valid ({', '.join(sorted(used))})"]
    return lines, failed


def module_of(path: Path) -> str:
    """A model's name: that of its file, without revision."""
    return path.stem.partition("@")[0]


def tables_of(path: Path) -> set[str]:
    """The tables of a model that are known here."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return set(re.findall(r"^\s*container\s+([A-Z][A-Z0-9_]*)\s*\{", text, re.MULTILINE)) & set(TABLES)


def instance(database: ConfigDb, containers: dict[str, str]) -> tuple[dict[str, Any], set[str]]:
    """Instance data of the models, and the models that it takes."""
    data: dict[str, Any] = {}
    used = set()
    for table, rows in database.tables.items():
        module = containers.get(table)
        if module is None or table == "DEVICE_NEIGHBOR":
            continue
        lists: dict[str, list[dict[str, Any]]] = {}
        for key, row in rows.items():
            name, item = _item(table, key, row)
            lists.setdefault(name, []).append(item)
        data.setdefault(f"{module}:{module}", {})[table] = lists
        used.add(module)
    return data, used


def _item(table: str, key: str, row: dict[str, str]) -> tuple[str, dict[str, Any]]:
    spec = TABLES[table]
    parts = key.split("|")
    form = next((form for form in spec.keys if len(form) == len(parts)), spec.keys[0])
    item: dict[str, Any] = {name: part for (name, _), part in zip(form, parts, strict=False)}
    name = f"{table}_LIST"
    if table in {"QUEUE", "BUFFER_QUEUE"} and len(parts) == 4:
        name = f"VOQ_{table}_LIST"
    elif table == "VLAN_INTERFACE" and len(parts) == 2:
        name = "VLAN_INTERFACE_IPPREFIX_LIST"
    if spec.entries is not None:
        (of_key, _), (of_value, _) = spec.entries
        item[table] = [{of_key: k, of_value: v} for k, v in row.items()]
    else:
        item |= {field: value.split(",") if field in _LISTS else value for field, value in row.items()}
    return name, item


def _run(program: str, models: Path, files: list[Path], data: dict[str, Any]) -> tuple[list[str], bool]:
    with tempfile.TemporaryDirectory(prefix="pauseframe-") as folder:
        path = Path(folder) / "instance.json"
        path.write_text(json.dumps(data), encoding="utf-8")
        command = [program, "-f", "json", "-t", "config", "-p", str(models.resolve()), *(str(f.resolve()) for f in files), str(path)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return [f"yanglint took more than {_SECONDS} s and was stopped"], True
    said = [shown(line) for line in done.stderr.splitlines() if line.strip()]
    return said if done.returncode else [], done.returncode != 0
