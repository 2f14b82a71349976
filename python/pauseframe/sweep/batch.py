"""A batch is a file that holds many runs of a sweep, instead of a folder per run.

Only one process writes to a batch, and this process only appends records. Each record has a length and a digest, so a
reader finds the complete records and skips the remains of a killed process. A record holds a run (its manifest and the
tables with rows, packed by the core) or the text of a scenario shared by runs that differ only in their seed.

    record   magic (8 bytes), key (16), digest (16), length of the heading (4), length of the rest (8), heading, rest
    heading  JSON: the sections of the rest with their lengths; of a run also its scenario and its seed
    digest   BLAKE2b of key, heading and rest
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import struct
import time
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, cast

from pauseframe.files.atomic import HOST, link_file
from pauseframe.results.folder import DamagedResultsError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from pauseframe.types import Manifest

BATCHES = "batches"
"""The folder of batches within a sweep or a store."""
ENDING = ".runs"
RUN, SCENARIO = b"pf-run\x02\n", b"pf-toml\x01"
HEAD = struct.Struct("<8s16s16sIQ")
DIGEST_BYTES = 16
SYNC_EVERY_S = 1.0
"""Seconds between two syncs: a power failure loses at most the runs of this time, a kill only runs in progress."""


class Entry(NamedTuple):
    """Position of a record in a file."""

    path: Path
    key: str
    begin: int
    end: int


class Record:
    """A record whose digest was checked."""

    def __init__(self, entry: Entry, heading: bytes, rest: bytes) -> None:
        self.key = entry.key
        table = json.loads(heading)
        self.scenario: str = table.get("scenario", "")
        """Key of the record that holds the run's scenario."""
        self.seed: int = table.get("seed", 0)
        self._rest = rest
        self._places: dict[str, tuple[int, int]] = {}
        begin = 0
        for name, length in table["sections"].items():
            self._places[name] = begin, begin + length
            begin += length

    def section(self, name: str) -> bytes | None:
        """A section of the record; None if the record has no such section."""
        place = self._places.get(name)
        return None if place is None else self._rest[slice(*place)]

    @property
    def names(self) -> list[str]:
        """The names of the record's sections."""
        return list(self._places)

    @property
    def manifest(self) -> Manifest:
        """The manifest that a results folder of the run would have."""
        return cast("Manifest", json.loads(self.section("manifest") or b"{}"))


def scenario_key(toml: str) -> str:
    """The key of a scenario's record."""
    return hashlib.blake2b(toml.encode(), digest_size=DIGEST_BYTES).hexdigest()


def scenario_record(toml: str) -> bytes:
    """The record of a scenario without its seed."""
    return _record(SCENARIO, scenario_key(toml), {}, {"scenario": toml.encode()})


def run_record(key: str, scenario: str, seed: int, manifest_json: str, packed: Iterable[tuple[str, bytes]]) -> bytes:
    """The record of a run."""
    sections = {"manifest": manifest_json.encode(), **dict(packed)}
    return _record(RUN, key, {"scenario": scenario, "seed": seed}, sections)


def _record(magic: bytes, key: str, about: dict[str, object], sections: dict[str, bytes]) -> bytes:
    lengths = {name: len(section) for name, section in sections.items()}
    heading = json.dumps(about | {"sections": lengths}).encode()
    raw = bytes.fromhex(key)
    rest = b"".join(sections.values())
    return HEAD.pack(magic, raw, _digest(raw, heading, rest), len(heading), len(rest)) + heading + rest


def _digest(*parts: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        digest.update(part)
    return digest.digest()


class BatchWriter:
    """Writes a new batch of this process. The file appears with its first record."""

    def __init__(self, folder: Path) -> None:
        name = f"{HOST}+{os.getpid()}+{os.urandom(4).hex()}{ENDING}"
        self.path = folder / name
        self._file = -1
        self._synced = time.monotonic()
        self._scenarios: set[str] = set()

    def add_scenario(self, toml: str, key: str) -> None:
        """Adds a scenario under this key, unless the batch already has it."""
        if key not in self._scenarios:
            self._scenarios.add(key)
            self.append(scenario_record(toml))

    def append(self, record: bytes) -> None:
        """Appends a record to the batch."""
        if self._file < 0:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        begin = os.fstat(self._file).st_size
        try:
            left = memoryview(record)
            while left:
                left = left[os.write(self._file, left) :]
        except OSError:  # cuts off the partial record after a full disk
            os.ftruncate(self._file, begin)
            raise
        if time.monotonic() - self._synced > SYNC_EVERY_S:
            os.fsync(self._file)
            self._synced = time.monotonic()

    def close(self) -> None:
        """Ends the batch."""
        if self._file >= 0:
            os.fsync(self._file)
            os.close(self._file)
            self._file = -1


class Batches:
    """All records of the batches in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runs: dict[str, Entry] = {}
        self._scenarios: dict[str, Entry] = {}
        self._texts: dict[str, str] = {}
        self._right: set[Entry] = set()
        self._open: dict[Path, mmap.mmap] = {}
        for path in batch_files(folder):
            for magic, entry in self._entries(path):
                (self.runs if magic == RUN else self._scenarios).setdefault(entry.key, entry)

    def _map(self, path: Path) -> mmap.mmap | bytes:
        if path not in self._open:
            with path.open("rb") as file:
                if os.fstat(file.fileno()).st_size == 0:
                    return b""
                self._open[path] = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return self._open[path]

    def _entries(self, path: Path) -> Iterator[tuple[bytes, Entry]]:
        content = self._map(path)
        begin = 0
        while begin + HEAD.size <= len(content):
            magic, key, _, heading, rest = HEAD.unpack_from(content, begin)
            end = begin + HEAD.size + heading + rest
            if magic not in (RUN, SCENARIO) or end > len(content):
                return  # a killed process left an incomplete record
            yield magic, Entry(path, key.hex(), begin, end)
            begin = end

    def records_of(self, path: Path) -> list[Entry]:
        """Positions of the records in a file."""
        return [entry for _, entry in self._entries(path)]

    def flaw(self, key: str) -> str | None:
        """The reason why the run of this key cannot be read, or None. Reads the whole record."""
        try:
            record = self.read(key)
            self.toml(record)
        except (DamagedResultsError, KeyError) as error:
            return str(error)
        return None

    def read(self, key: str) -> Record:
        """The record of the run with this key, which must exist.

        Raises DamagedResultsError if the record is damaged.
        """
        return self._read(self.runs[key])

    def _read(self, entry: Entry) -> Record:
        content = self._map(entry.path)
        _, raw, digest, length, _ = HEAD.unpack_from(content, entry.begin)
        begin = entry.begin + HEAD.size
        heading, rest = content[begin : begin + length], content[begin + length : entry.end]
        if entry not in self._right and _digest(raw, heading, rest) != digest:
            what = f"the run {entry.key}" if entry.key in self.runs else "a scenario"
            raise DamagedResultsError(f"{entry.path}: {what} is not what was written")
        self._right.add(entry)
        return Record(entry, heading, rest)

    def toml(self, record: Record) -> str:
        """The complete scenario of a run, with its seed.

        Raises DamagedResultsError if the scenario's record is missing or damaged.
        """
        text = self._texts.get(record.scenario)
        if text is None:
            entry = self._scenarios.get(record.scenario)
            if entry is None:
                raise DamagedResultsError(f"{self.folder}: the scenario of the run {record.key} is missing")
            text = (self._read(entry).section("scenario") or b"").decode()
            self._texts[record.scenario] = text
        return with_seed(text, record.seed)


def with_seed(toml: str, seed: int) -> str:
    """A resolved scenario with another seed."""
    return toml.replace("\nseed = 0\n", f"\nseed = {seed}\n", 1)


def batch_files(folder: Path) -> list[Path]:
    """The batches in a folder, sorted by name."""
    with suppress(OSError):
        return sorted(path for path in folder.iterdir() if path.suffix == ENDING)
    return []


def finished_in(folder: Path, process: int) -> set[str]:
    """The keys of the runs in the batches that a process of this machine has written."""
    begin = f"{HOST}+{process}+"
    return {entry.key for entry in Batches(folder).runs.values() if entry.path.name.startswith(begin)}


def link_batches(source: Path, target: Path, names: Sequence[str]) -> None:
    """Adds batches of one folder to another by hard links, or by copies if the file system has none."""
    target.mkdir(parents=True, exist_ok=True)
    for name in names:
        link_file(source / name, target / name)


def remove_runs(batches: Batches, keys: Iterable[str]) -> None:
    """Removes the runs with the given keys from their batches, by rewriting the batches."""
    removed = {batches.runs[key] for key in keys}
    for path in sorted({entry.path for entry in removed}):
        writer = BatchWriter(batches.folder)
        content = path.read_bytes()
        for entry in batches.records_of(path):
            if entry not in removed:
                writer.append(content[entry.begin : entry.end])
        writer.close()
        path.unlink()
