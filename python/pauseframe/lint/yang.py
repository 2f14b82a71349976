"""`--yang DIR`: validates the files against the operator's YANG models, with yanglint (libyang) or yangson (Python).

CONFIG_DB is first converted to instance data of the models, as on SONiC's devices. Only tables of known form are
converted; the messages are the validator's own.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET  # for writing XML; reading untrusted XML needs another parser

from pauseframe.devices.files import shown
from pauseframe.devices.sonic_schema import TABLES

if TYPE_CHECKING:
    from pauseframe.devices.read import Reading
    from pauseframe.devices.sonic_db import ConfigDb

COMMON = (Path(sys.prefix, "share/yang/modules/ietf"), Path("/usr/share/yang/modules/libyang"))
"""Folders in which pyang and libyang keep the models of RFC 6991, which SONiC's models import but do not include."""
_SECONDS = 120
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_IMPORT = re.compile(r"^\s*import\s+\"?([\w.-]+)", re.MULTILINE)
_LEAF_LIST = re.compile(r"^\s*leaf-list\s+([\w.-]+)", re.MULTILINE)
_REVISION = re.compile(r"^\s*revision\s+\"?([0-9]{4}-[0-9]{2}-[0-9]{2})", re.MULTILINE)


def validate(models: Path, reading: Reading) -> tuple[list[str], bool]:
    """The validator's messages, one per line, and whether anything failed."""
    program = shutil.which("yanglint")
    if program is None and find_spec("yangson") is None:
        return [
            "yang: no validator is here: install yanglint (Debian: libyang2-tools) or "
            "pip install 'pauseframe[yang]', or leave out --yang"
        ], True
    files = {module_of(path): path for path in sorted(models.glob("*.yang"))} if models.is_dir() else {}
    containers = {table: name for name, path in files.items() for table in tables_of(path)}
    lists = {name: lists_of(files[name]) for name in set(containers.values())}
    if not containers:
        return [
            f"yang: no model in {shown(models)} has a table that is known here: give the folder of sonic-*.yang"
        ], True
    namespaces = {name: namespace_of(path) for name, path in files.items()}
    lines, failed = [], False
    for device, database in reading.databases.items():
        data, used = instance(database, containers, namespaces, lists)
        if not used:
            continue
        wanted = [files[name] for name in _with_imports(used, files, "sonic-")]
        said, wrong = _run(program, models, wanted, data) if program else yangson(models, wanted, data)
        failed |= wrong
        lines += [f"yang: {shown(device)}: {line}" for line in said]
        lines += [] if wrong else [f"yang: {shown(device)}: valid ({', '.join(sorted(used))})"]
    return lines, failed


def _with_imports(used: set[str], files: dict[str, Path], prefix: str = "") -> list[str]:
    """Models with all directly or indirectly imported models, because conditions refer to data of imported models."""
    found, waiting = set[str](), sorted(used)
    while waiting:
        name = waiting.pop()
        if name not in found and name in files:
            found.add(name)
            imports = _IMPORT.findall(files[name].read_text(encoding="utf-8", errors="replace"))
            waiting += [other for other in imports if other.startswith(prefix)]
    return sorted(found)


def module_of(path: Path) -> str:
    """Name of a YANG model: the name of its file without the revision."""
    return path.stem.partition("@")[0]


def namespace_of(path: Path) -> str:
    """Namespace of a YANG model."""
    found = re.search(r"\bnamespace\s+\"([^\"]+)\"", path.read_text(encoding="utf-8", errors="replace"))
    return found[1] if found else ""


def tables_of(path: Path) -> set[str]:
    """The tables of a model that this program knows."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return set(re.findall(r"^\s*container\s+([A-Z][A-Z0-9_]*)\s*\{", text, re.MULTILINE)) & set(TABLES)


def lists_of(path: Path) -> set[str]:
    """The leaf-lists of a model; CONFIG_DB has their values in one text, separated by commas."""
    return set(_LEAF_LIST.findall(path.read_text(encoding="utf-8", errors="replace")))


def instance(
    database: ConfigDb, containers: dict[str, str], namespaces: dict[str, str], lists: dict[str, set[str]]
) -> tuple[str, set[str]]:
    """Instance data of the models as XML, and the models that the data need.

    Namespaces and leaf-list names are given by model.

    XML needs no distinction between numbers and texts, unlike JSON.
    """
    tops: dict[str, ET.Element] = {}
    for table, rows in database.tables.items():
        module = containers.get(table)
        if module is None or table == "DEVICE_NEIGHBOR" or not rows:
            continue
        if module not in tops:
            tops[module] = ET.Element(module, {"xmlns": namespaces[module]})
        into = ET.SubElement(tops[module], table)
        for key, row in rows.items():
            _add(into, table, key, row, lists[module])
    return "".join(ET.tostring(top, encoding="unicode") for top in tops.values()), set(tops)


def _add(into: ET.Element, table: str, key: str, row: dict[str, str], lists: set[str]) -> None:
    spec = TABLES[table]
    parts = key.split("|")
    form = next((form for form in spec.keys if len(form) == len(parts)), spec.keys[0])
    if table == "DEVICE_METADATA":
        item = ET.SubElement(into, key)  # a container for its only row
        for leaf, value in row.items():
            _leaf(item, leaf, value)
        return
    item = ET.SubElement(into, _list_of(table, len(parts)))
    for (leaf, _), part in zip(form, parts, strict=False):
        _leaf(item, leaf, part)
    if spec.entries is not None:
        (of_key, _), (of_value, _) = spec.entries
        for entry_key, entry_value in row.items():
            entry = ET.SubElement(item, table)
            _leaf(entry, of_key, entry_key)
            _leaf(entry, of_value, entry_value)
        return
    for leaf, value in row.items():
        for text in value.split(",") if leaf in lists else [value]:
            if _NAME.fullmatch(leaf):
                _leaf(item, leaf, text)


def _list_of(table: str, parts: int) -> str:
    """The YANG list of the rows whose keys have so many parts."""
    if table in {"QUEUE", "BUFFER_QUEUE"} and parts == 4:
        return f"VOQ_{table}_LIST"
    if table.endswith("INTERFACE") and table != "MCLAG_INTERFACE" and parts == 2:
        return f"{table}_IPPREFIX_LIST"
    return f"{table}_LIST"


def _leaf(into: ET.Element, name: str, text: str) -> None:
    ET.SubElement(into, name).text = "".join(c for c in text if c.isprintable())


def _run(program: str, models: Path, files: list[Path], data: str) -> tuple[list[str], bool]:
    with tempfile.TemporaryDirectory(prefix="pauseframe-") as folder:
        path = Path(folder) / "instance.xml"
        path.write_text(data, encoding="utf-8")
        # The operator names the schema files, pauseframe the instance file: no data appear on the command line.
        options = ["-Q", "-f", "xml", "-t", "config", "-p", str(models.resolve())]
        command = [program, *options, *(str(f.resolve()) for f in files)]
        try:
            done = subprocess.run([*command, str(path)], capture_output=True, text=True, timeout=_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return [f"yanglint took more than {_SECONDS} s and was stopped"], True
    if done.returncode < 0:
        return [f"yanglint ended by signal {-done.returncode}: its version may not know these models"], True
    said = [shown(line) for line in done.stderr.splitlines() if line.strip()]
    return said if done.returncode else [], done.returncode != 0


def yangson(models: Path, files: list[Path], data: str) -> tuple[list[str], bool]:
    """Messages of the package yangson about instance data; yangson stops at the first error.

    An unreadable model is reported with yangson's message. yangson needs a list of the modules as a YANG library (RFC
    7895). It does not support `text()` in conditions (XPath 1.0), so `text()` is replaced by `.`, the value of the
    leaf.
    """
    from yangson import DataModel
    from yangson.enumerations import ContentType
    from yangson.exceptions import YangsonException

    here = {module_of(path): path for folder in (*COMMON, models) for path in sorted(folder.glob("*.yang"))}
    try:
        with tempfile.TemporaryDirectory(prefix="pauseframe-") as folder:
            for path in models.glob("*.yang"):
                text = path.read_text(encoding="utf-8", errors="replace")
                Path(folder, path.name).write_text(text.replace("[text()", "[."), encoding="utf-8")
            model = DataModel(_library(here, files), [folder, *map(str, COMMON)])
        root = ET.fromstring(f"<config>{data}</config>")
        for leaf in root.iter():
            leaf.text = leaf.text or ("" if len(leaf) == 0 else None)
        model.from_xml(root).validate(ctype=ContentType.config)
    except YangsonException as error:
        return [shown(f"yangson: {type(error).__name__}: {error}")], True
    return [], False


def _library(here: dict[str, Path], files: list[Path]) -> str:
    """A YANG library of the models that have data, and of the models in `here` that these import."""
    main = {module_of(path) for path in files}
    modules = [
        {
            "name": name,
            "revision": max(_REVISION.findall(here[name].read_text(encoding="utf-8", errors="replace")), default=""),
            "namespace": namespace_of(here[name]),
            "conformance-type": "implement" if name in main else "import",
        }
        for name in _with_imports(main, here)
    ]
    return json.dumps({"ietf-yang-library:modules-state": {"module-set-id": "operator", "module": modules}})
