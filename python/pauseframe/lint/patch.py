"""The changes that end findings: as JSON patches (RFC 6902) in the form of `config apply-patch`, and in files.

A change can uncover another fault: more headroom may need a larger pool. Therefore the changes are made in rounds, each
followed by the rules, and a patch is the difference between the first and the last tables.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter, defaultdict
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from pauseframe.devices.files import pointer, shown
from pauseframe.devices.read import reread
from pauseframe.devices.sonic_schema import TABLES
from pauseframe.files.atomic import whole_folder, write_text
from pauseframe.lint.engine import Report, judge

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pauseframe.devices.model import Place
    from pauseframe.devices.read import Reading
    from pauseframe.devices.sonic_db import ConfigDb, Row
    from pauseframe.lint.finding import Finding, PatchOperation

ROUNDS = 6
"""Maximum number of rounds. The longest chain known has four: group, profile, headroom, pool."""

DESIGN = "PF091"
"""The rule about differences from a plan or scenario."""

BUFFERS = "PF01"
"""Rules about profiles, headroom and pools: a change of one may require a change of another."""

TRIES = 8
"""Maximum number of findings whose patch is left out alone; then all patches of a device are."""

Tables = dict[str, "dict[str, Row]"]
Cause = tuple[str, "Place"]
"""A finding whose patch is made: code and first place."""


class Step(TypedDict):
    """An operation of a JSON patch."""

    op: str
    path: str
    value: NotRequired[Any]


@dataclass
class Fix:
    """Patches by device, and the report on the patched devices."""

    patches: dict[str, list[Step]]
    after: Report
    new: list[Finding]
    """Findings that the patches cause although patches were left out. A fault of a rule; the command names them."""


def fix(report: Report) -> Fix:
    """Patches for all findings that have one, except those that cause a finding which no other patch ends."""
    left = set[Cause]()
    after = _rounds(report, left)
    while new := _new(report, after):
        devices = {place.device for finding in new for place in finding.places}
        causes = [_cause(finding) for finding in report.findings if devices & _changes(finding)]
        causes = [cause for cause in causes if cause not in left]
        if not causes:
            break
        for cause in causes[:TRIES]:
            after = _rounds(report, left | {cause})
            if not _new(report, after):
                break
        else:
            left |= set(causes)
            after = _rounds(report, left)
    first, last = report.reading.databases, after.reading.databases
    patches = {name: list(difference(first[name], last[name])) for name in sorted(first)}
    return Fix({name: steps for name, steps in patches.items() if steps}, after, _new(report, after))


def patched(report: Report, finding: Finding) -> Reading:
    """The reading with the patch of one finding, and what the patch requires of buffers; the same if it has none."""
    others = {_cause(other) for other in report.findings if other.place != finding.place or other.code != finding.code}
    alone = Report(report.reading, [rule for rule in report.rules if rule.code.startswith(BUFFERS)], [finding])
    changed = _round(alone, set())
    if not changed:
        return report.reading
    return _rounds(judge(reread(report.reading, changed), alone.rules), others).reading


def _cause(finding: Finding) -> Cause:
    return finding.code, finding.place


def _changes(finding: Finding) -> set[str]:
    """The devices that the patch of a finding changes."""
    return {operation.device or finding.place.device for operation in finding.patch}


def _new(report: Report, after: Report) -> list[Finding]:
    known = {(finding.code, place) for finding in report.findings for place in finding.places}
    return [finding for finding in after.findings if not {(finding.code, place) for place in finding.places} <= known]


def _rounds(report: Report, left: set[Cause]) -> Report:
    """The report after patches were applied until nothing changes; `left` are findings whose patch is left out."""
    now = report
    for _ in range(ROUNDS):
        changed = _round(now, left)
        if not changed:
            break
        now = judge(reread(now.reading, changed), report.rules)
    return now


def _round(report: Report, left: set[Cause]) -> dict[str, ConfigDb]:
    """The databases that change if each finding's patch is applied; of two patches of one value the first counts.

    Differences from a design come alone and first: other rules would mend the same faults towards other values.
    """
    made = [finding for finding in report.findings if finding.patch and _cause(finding) not in left]
    return _applied(report, [f for f in made if f.code == DESIGN]) or _applied(report, made)


def _applied(report: Report, findings: Sequence[Finding]) -> dict[str, ConfigDb]:
    databases = report.reading.databases
    changed: dict[str, ConfigDb] = {}
    taken: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for place, operation in ((finding.place, operation) for finding in findings for operation in finding.patch):
        device = operation.device or place.device
        path = (operation.table, operation.key, *filter(None, [operation.field]))
        if device not in databases or path in taken[device] or path[:2] in taken[device]:
            continue
        tables = changed[device].tables if device in changed else deepcopy(databases[device].tables)
        if _apply(tables, operation):
            taken[device].add(path)
            changed[device] = replace(databases[device], tables=tables)
    return changed


def _apply(tables: Tables, change: PatchOperation) -> bool:
    """Applies an operation to tables; False if they have the value already."""
    rows = tables.get(change.table, {})
    row = rows.get(change.key)
    if change.value is None:
        if row is None or (change.field and change.field not in row):
            return False
        if change.field:
            del row[change.field]
        else:
            del rows[change.key]
        return True
    if row is not None and (not change.field or row.get(change.field) == change.value):
        return False
    into = tables.setdefault(change.table, {}).setdefault(change.key, {})
    if change.field:
        into[change.field] = change.value
    return True


def difference(before: ConfigDb, after: ConfigDb) -> Iterator[Step]:
    """The steps from the tables of one database to those of another; SONiC accepts no empty table."""
    for table in sorted(before.tables.keys() | after.tables.keys()):
        old, new = before.tables.get(table), after.tables.get(table)
        if old == new:
            continue
        if not new:
            yield {"op": "remove", "path": pointer(table)}
        elif old is None:
            yield {
                "op": "add",
                "path": pointer(table),
                "value": {k: _written(before, table, r) for k, r in new.items()},
            }
        else:
            for key in sorted(old.keys() | new.keys()):
                yield from _difference_of_rows(before, (table, key), old.get(key), new.get(key))


def _difference_of_rows(database: ConfigDb, path: tuple[str, str], old: Row | None, new: Row | None) -> Iterator[Step]:
    if new is None:
        yield {"op": "remove", "path": pointer(*path)}
    elif old is None:
        yield {"op": "add", "path": pointer(*path), "value": _written(database, path[0], new)}
    else:
        for name in sorted(old.keys() - new.keys()):
            yield {"op": "remove", "path": pointer(*path, name)}
        for name, value in _written(database, path[0], new).items():
            if old.get(name) != new[name]:
                yield {"op": "replace" if name in old else "add", "path": pointer(*path, name), "value": value}


def _written(database: ConfigDb, table: str, row: Row) -> dict[str, str | list[str]]:
    """A row as the device's image writes it: lists as such; before 202106, references are "[TABLE|name]"."""
    listed = [name for name, field in TABLES[table].fields.items() if field.listed] if table in TABLES else []
    fields = TABLES[table].fields if database.bracketed and table in TABLES else {}
    refers = {name: fields[name].refers[0] for name in row if name in fields and fields[name].refers}

    def written(name: str, value: str) -> str | list[str]:
        if name in listed:
            return value.split(",")
        return ",".join(f"[{refers[name]}|{part}]" for part in value.split(",")) if name in refers else value

    return {name: written(name, value) for name, value in row.items()}


def write_fixed(fixed: Fix, paths: Sequence[Path], folder: Path) -> list[str]:
    """Copies device files into a new folder and patches the copies. Returns a line for each device left as it is.

    Raises ValueError if the folder is not empty or in one of the paths, or if two paths have one name.
    """
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty: name another folder")
    if inside := next((path for path in paths if folder.resolve().is_relative_to(path.resolve())), None):
        raise ValueError(f"{folder} is in {inside}, which is copied: name a folder elsewhere")
    names = Counter(path.resolve().name for path in paths)
    if twice := [name for name, count in names.items() if count > 1]:
        raise ValueError(f"several paths are named {shown(twice[0])}: give the folder that has them")
    left = []
    with whole_folder(folder) as partial:
        alone = len(paths) == 1 and paths[0].is_dir()
        copies = {path: _copy(path, partial if alone else partial / path.resolve().name) for path in paths}
        for device, steps in fixed.patches.items():
            database = fixed.after.reading.databases[device]
            if database.form != "tables":
                left.append(f"{shown(device)}: not changed: {shown(database.source)} is no config_db.json")
                continue
            files = [_copied(Path(source), copies) for source in (database.source, *database.joined)]
            _patch_files(files, database.case, steps)
    return left


def _copy(path: Path, target: Path) -> Path:
    if path.is_dir():
        shutil.copytree(path, target, symlinks=True, dirs_exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    return target


def _copied(source: Path, copies: dict[Path, Path]) -> Path:
    return next(copy / source.relative_to(path) for path, copy in copies.items() if source.is_relative_to(path))


def _patch_files(files: Sequence[Path], case: str, steps: Iterable[Step]) -> None:
    """Applies steps to the files of one device: removals to all, other steps to the last file that has the path."""
    whole = [json.loads(file.read_text(encoding="utf-8-sig")) for file in files]
    documents = [document[case] if case else document for document in whole]
    for step in steps:
        parts = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]]
        depths = [_depth(document, parts) for document in documents]
        for document, depth in zip(documents, depths, strict=True):
            if step["op"] == "remove" and depth == len(parts):
                del _parent(document, parts)[parts[-1]]
        if step["op"] != "remove":
            last = max(range(len(documents)), key=lambda i: (depths[i], i if depths[i] else -i))
            _parent(documents[last], parts)[parts[-1]] = step["value"]
    for file, document in zip(files, whole, strict=True):
        text = file.read_text(encoding="utf-8-sig")
        if json.loads(text) != document:
            indent = re.search(r'\n( +)"', text)
            write_text(file, json.dumps(document, indent=len(indent[1]) if indent else 4) + "\n")


def _depth(document: Any, parts: Sequence[str]) -> int:
    """The number of leading parts of a path that a document has."""
    for depth, part in enumerate(parts):
        if not isinstance(document, dict) or part not in document:
            return depth
        document = document[part]
    return len(parts)


def _parent(document: Any, parts: Sequence[str]) -> Any:
    for part in parts[:-1]:
        document = document.setdefault(part, {})
    return document
