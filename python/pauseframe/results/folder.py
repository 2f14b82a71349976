"""Reads a results folder: manifest, scenario and tables, each checked before use.

`report`, `view`, `compare`, `export`, `pf.load` and sweeps all read through `open_results`, so one place finds damage
and names the file, the fault and the remedy. The manifest holds size and SHA-256 of each file. A folder of a version
without digests is decoded completely instead. Modules that only readers need are imported on reading, so that
`pauseframe run` starts quickly.
"""

from __future__ import annotations

import json
import math
import stat
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, NoReturn, cast

from pauseframe import _core
from pauseframe.files.kinds import FLOW_LEVEL, MANIFEST, kind_of
from pauseframe.files.reading import parse_toml, read_text

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from pauseframe.types import Manifest, SealedFile, Summary

FINISHED = ("complete", "deadlock")
"""Statuses of runs that ended without an interruption."""
PROGRAM = "pauseframe"
SCENARIO = "scenario.resolved.toml"
LARGEST_NUMBER = 2.0**64
"""Largest number in a manifest: counters have 64 bits, and times in seconds or microseconds are far smaller."""
WRITTEN_WITH = {
    "flows": "record.flows = true",
    "ports": "record.ports = true",
    "states": "record.states = true",
    "paths": "record.paths = true",
    "equal_links": "record.paths = true",
    "conweave": 'routing.kind = "conweave"',
    "tunnels": 'host.port_choice = "mux"',
    "timeline": "timeline = true at an application",
    "kernel_sockets": "record.kernel = true",
    "kernel_counters": "record.kernel = true",
    "collectives": "collective operations in a workload of kind application or training",
}
"""Tables that a folder has only if the scenario requests them."""
CURE = "copy the folder again, or run the scenario again"


class DamagedResultsError(_core.InputError):
    """A file of a results folder is missing, or differs from the file that the run wrote."""


@dataclass(frozen=True)
class ResultsFolder:
    """A results folder with a checked manifest; each table is checked when it is read."""

    path: Path
    manifest: Manifest

    @property
    def summary(self) -> Summary:
        """The summary of the run."""
        return self.manifest["summary"]

    @cached_property
    def scenario_toml(self) -> str:
        """The scenario with every default filled in."""
        text = _text(self._checked(SCENARIO))
        try:
            parse_toml(text)
        except ValueError as error:
            self.damaged(SCENARIO, f"it is not TOML: {error}")
        return text

    def tables(self) -> list[str]:
        """The names of the tables that the run wrote."""
        files = self._seals or [path.name for path in self.path.iterdir()]
        return sorted(name.removesuffix(".parquet") for name in files if name.endswith(".parquet"))

    def has_table(self, name: str) -> bool:
        """True if the run wrote the table `name`."""
        file = f"{name}.parquet"
        return file in self._seals if self._seals else _is_there(self.path / file)

    def read(self, name: str) -> _core.Table:
        """Reads a table into memory."""
        import polars as pl

        path = self._checked_table(name)
        try:
            table = _core.read_table(str(path))
        except _core.RunError as error:
            self.damaged(path.name, str(error).removeprefix(f"{path}: "))
        self._check_columns(name, pl.DataFrame(table).lazy())
        return table

    def read_or_empty(self, name: str) -> _core.Table:
        """Reads a table into memory; without rows, if the manifest shows that the run did not write it."""
        was_written = self.has_table(name) or not self._seals or _is_there(self.path / f"{name}.parquet")
        return self.read(name) if was_written else _core.unpack_tables(name, [], [])

    def scan(self, name: str) -> pl.LazyFrame:
        """A lazy table, which is read when the caller collects it."""
        import polars as pl

        if not self._seals:
            return self.frame(name).lazy()
        path = self._checked_table(name)
        try:
            _core.check_table(str(path))
        except _core.RunError as error:
            self.damaged(path.name, str(error).removeprefix(f"{path}: "))
        self._check_columns(name, pl.scan_parquet(path, glob=False))
        return pl.scan_parquet(path, glob=False)  # a new one: the other remembers where the rows are

    def frame(self, name: str) -> pl.DataFrame:
        """A table as a data frame."""
        import polars as pl

        return pl.DataFrame(self.read(name))

    def damaged(self, file: str, why: str) -> NoReturn:
        """Raises an error that names the damaged file."""
        _damaged(self.path / file, why)

    @cached_property
    def _seals(self) -> dict[str, SealedFile]:
        return self.manifest.get("files", {})

    def _checked_table(self, name: str) -> Path:
        if not self.has_table(name) and not _is_there(self.path / f"{name}.parquet"):
            asked = f": a run writes it with {WRITTEN_WITH[name]}" if name in WRITTEN_WITH else f"; {CURE}"
            raise DamagedResultsError(f"{self.path} has no table {name}{asked}")
        return self._checked(f"{name}.parquet")

    def _checked(self, file: str) -> Path:
        """The path of a file, after a check of its size and digest against the manifest."""
        path = self.path / file
        try:
            found = path.stat()
            if not stat.S_ISREG(found.st_mode):
                self.damaged(file, "it is not a regular file")
            if self._seals:
                sealed = self._seals.get(file)
                if sealed is None:
                    self.damaged(file, f"{MANIFEST} does not list it")
                if found.st_size != sealed["bytes"]:
                    self.damaged(file, f"it has {found.st_size} bytes, the run wrote {sealed['bytes']}")
                if digest_of(path) != sealed["sha256"]:
                    self.damaged(file, "its content is not what the run wrote")
        except OSError as error:
            self.damaged(file, f"it cannot be read ({error.strerror})")
        return path

    def _check_columns(self, name: str, table: pl.LazyFrame) -> None:
        """Refuses a table whose columns are missing, have other types than in this version, or odd values."""
        if self.manifest.get("kind") == FLOW_LEVEL:
            return
        schema = table.collect_schema()
        version = self.manifest["version"]
        for column, kind in _columns(name).items():
            if column not in schema:
                self.damaged(f"{name}.parquet", f"it lacks the column {column} (pauseframe {version} wrote it)")
            if not _fits(kind, schema[column]):
                self.damaged(f"{name}.parquet", f"the column {column} has the type {schema[column]}, not {kind}")
        if odd := _odd_values(name, table):
            self.damaged(f"{name}.parquet", odd)


def open_results(folder: Path) -> ResultsFolder:
    """Opens a results folder.

    FileNotFoundError if the folder does not exist or has no manifest, InputError if the run did not end or is at flow
    level, DamagedResultsError for any damage.
    """
    from pauseframe.types import Manifest

    value = _manifest(folder)
    if value.get("kind") == FLOW_LEVEL:
        raise _core.InputError(
            f"{folder} is a run at flow level, without packets: pauseframe export csv {folder} writes its tables"
        )
    return ResultsFolder(folder, cast("Manifest", _checked_manifest(folder, value, Manifest)))


def open_tables(folder: Path) -> ResultsFolder:
    """Opens a results folder of packets or of flow level, for its tables alone; raises as `open_results` does."""
    from pauseframe.types import FlowLevelManifest

    value = _manifest(folder)
    if value.get("kind") != FLOW_LEVEL:
        return open_results(folder)
    return ResultsFolder(folder, cast("Manifest", _checked_manifest(folder, value, FlowLevelManifest)))


def _manifest(folder: Path) -> dict[str, Any]:
    """What the manifest says, of a run that came to its end."""
    path = folder / MANIFEST
    if not _is_there(path):
        raise FileNotFoundError(_not_results(folder))
    try:
        value: Any = json.loads(_text(path))
    except (ValueError, RecursionError) as error:
        _damaged(path, f"it is not JSON: {error}")
    if not isinstance(value, dict):
        _damaged(path, "it is not a JSON object")
    if value.get("program", PROGRAM) != PROGRAM:
        raise _core.InputError(f"{folder} holds results of another program: {path} names {value['program']!r}")
    if value.get("status") == "failed":
        raise _core.InputError(f"{folder}: the run failed and has no results: {value.get('why')}")
    if value.get("status") == "running":
        raise _core.InputError(_unended(folder))
    return value


def _unended(folder: Path) -> str:
    """Why a run has no results yet: it goes on, or it was killed."""
    from pauseframe.files.lock import holder_of

    if holder := holder_of(folder):
        return f"{folder}: {holder} is still writing this run: wait for its end"
    return f"{folder}: the run did not come to its end (status 'running'); run the scenario again"


def _checked_manifest(folder: Path, value: dict[str, Any], kind: type) -> dict[str, Any]:
    from pauseframe.results.typed import flaws

    if found := flaws(value, kind, closed=False) or _unlikely_numbers(value, ""):
        version = f" (pauseframe {value['version']} wrote it)" if isinstance(value.get("version"), str) else ""
        _damaged(folder / MANIFEST, f"{found[0].lstrip('.: ')}{version}")
    return value


def _not_results(path: Path) -> str:
    """A message that describes a path which is not a results folder, and the remedy."""
    if path.is_file() and (path.parent / MANIFEST).is_file() and path.suffix != ".toml":
        return f"{path} is a file, not a results folder: did you mean its folder {path.parent}?"
    if kind := kind_of(path):
        return kind.message(path, "a results folder")
    if path.is_file():
        return f"{path} is a file, not a results folder"
    if path.is_dir():
        lost = any(path.glob("*.parquet")) and f"; copy it whole: pauseframe run writes a {MANIFEST} with the tables"
        return f"{path} is not a results folder: it has no {MANIFEST}{lost or _runs_near(path)}"
    return f"{path} is not a results folder: there is no such folder{_runs_near(path.parent, path.name)}"


def _runs_near(folder: Path, like: str = "") -> str:
    """A hint such as '; did you mean results/incast-1?', from the results folders or scenarios in `folder`."""
    from pauseframe.terminal.text import nearest

    found = sorted(path.parent.name for path in folder.glob(f"*/{MANIFEST}")) if folder.is_dir() else []
    meant = nearest(like, found) if like else found[:3]
    if meant:
        return f"; did you mean {' or '.join(str(folder / name) for name in meant)}?"
    scenarios = sorted(folder.glob("*.toml")) if folder.is_dir() and not like else []
    return f"; pauseframe run {scenarios[0]} writes one" if scenarios else ""


def digest_of(path: Path) -> str:
    """SHA-256 of a file, as hexadecimal digits."""
    import hashlib

    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_there(path: Path) -> bool:
    """True if a name exists, even as a broken or cyclic symbolic link."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except OSError:
        return path.parent.is_dir()
    return True


def _damaged(path: Path, why: str) -> NoReturn:
    raise DamagedResultsError(f"{path} is damaged: {why}; {CURE}")


def _text(path: Path) -> str:
    """The text of a file in the folder."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            _damaged(path, "it is not a regular file")
        return read_text(path)
    except _core.InputError as error:
        _damaged(path, str(error).removeprefix(f"{path}: "))
    except OSError as error:
        _damaged(path, f"it cannot be read ({error.strerror})")


def _unlikely_numbers(value: object, path: str) -> list[str]:
    """Paths of numbers that no run writes: negative, infinite, not a number, or larger than 64 bits."""
    if isinstance(value, dict):
        return [flaw for key, item in value.items() for flaw in _unlikely_numbers(item, f"{path}.{key}")]
    if isinstance(value, list):
        return [flaw for item in value for flaw in _unlikely_numbers(item, f"{path}[]")]
    if isinstance(value, bool) or not isinstance(value, int | float):
        return []
    likely = 0 <= value < LARGEST_NUMBER and math.isfinite(value)
    return [] if likely else [f"{path}: {value:.6g} is not a number that a run writes" if isinstance(value, float)
                              else f"{path}: no run writes such a number"]  # fmt: skip


@cache
def _columns(table: str) -> dict[str, str]:
    """Columns and types of a table in this version."""
    rows = _core.columns()
    return {row["name"]: row["type"] for row in rows if row["page"] == "results" and row["table"] == table}


def _odd_values(name: str, table: pl.LazyFrame) -> str | None:
    """A column with a value that no run writes: none where there is always one, or a number that is not finite."""
    import polars as pl

    columns = _columns(name)
    always = [column for column, kind in columns.items() if not kind.endswith("null")]
    numbers = [column for column, kind in columns.items() if kind.startswith("float64")]
    counts = [pl.col(column).null_count().alias(f"{column} has rows without a value") for column in always]
    counts += [
        (~pl.col(column).is_finite()).sum().alias(f"{column} has a number that is not finite") for column in numbers
    ]
    found = table.select(counts).collect().row(0, named=True)
    return next((f"the column {fault}" for fault, count in found.items() if count), None)


def _fits(declared: str, found: pl.DataType) -> bool:
    """True if a column has the type that docs/reference/results.md declares."""
    import polars as pl

    kind = declared.removesuffix(", null")
    if kind in {"string", "dictionary(string)"}:
        return isinstance(found, pl.String | pl.Categorical | pl.Enum)
    numbers = {"uint8": pl.UInt8, "uint16": pl.UInt16, "uint32": pl.UInt32, "uint64": pl.UInt64, "float64": pl.Float64}
    return found == (pl.List(pl.UInt32) if kind == "list(uint32)" else numbers[kind])
