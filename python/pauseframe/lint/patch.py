"""Changes of a CONFIG_DB as JSON patches (RFC 6902) in the form of `config apply-patch`, and in files."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from pauseframe.devices.files import pointer, shown
from pauseframe.devices.sonic_schema import TABLES
from pauseframe.files.atomic import whole_folder, write_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pauseframe.devices.sonic_db import ConfigDb, Row
    from pauseframe.lint.fix import Fix


class Step(TypedDict):
    """An operation of a JSON patch."""

    op: str
    path: str
    value: NotRequired[Any]


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
