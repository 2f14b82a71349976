"""Stores the runs of sweeps, so that nothing is computed twice.

The store holds the batches of sweeps (`batch.py`), and a folder per run that is kept as a folder, named by the run's
key. Each run is written under a temporary name, sealed, and renamed, so every folder in the store is complete. The seal
in the manifest has the run's key, size and digest of each file, and a digest of the manifest, so that damaged or edited
runs are noticed and computed again. A sweep's folder has hard links to the files of its runs (copies if the file system
has no links), the manifest last. Deleting the store frees the space of runs that no sweep links to; sweeps stay
complete, but cannot reuse runs.
"""

from __future__ import annotations

import errno
import hashlib
import itertools
import json
import os
import shlex
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, TypedDict, cast

from pauseframe import _core
from pauseframe.files.atomic import HOST, is_alive, link_file, read_object, write_text
from pauseframe.results.folder import FINISHED, digest_of
from pauseframe.sweep.batch import BATCHES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pauseframe.plugins.load import LoadedFile
    from pauseframe.scenario.plain import Settings
    from pauseframe.sweep.plan import PlannedRun
    from pauseframe.types import Manifest, SealedFile

STORE_NAME = ".pauseframe-store"
ERROR_FILE = "error.json"
SCENARIO_FILE = "scenario.resolved.toml"
MANIFEST = "manifest.json"
DIGEST_BYTES = 16
_numbers = itertools.count()


class FailureEntry(TypedDict):
    """The content of `error.json`."""

    key: str
    axes: Settings
    seed: int
    message: str
    command: str
    """The command that repeats the failed run."""


class Store:
    """Runs by key."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.scratch_root = root / "unfinished"

    @property
    def batches(self) -> Path:
        """The folder of the store's batches."""
        return self.root / BATCHES

    def folder(self, key: str) -> Path:
        """Path of the folder for the run with this key, whether it exists or not."""
        return self.root / key[:2] / key

    def has(self, key: str) -> bool:
        """True if the store has the run with unchanged bytes."""
        return flaw(self.folder(key), key) is None

    def scratch(self) -> Path:
        """A new folder for a run that is about to begin."""
        self.scratch_root.mkdir(parents=True, exist_ok=True)
        path = self.scratch_root / f"{HOST}+{os.getpid()}+{next(_numbers)}"
        shutil.rmtree(path, ignore_errors=True)  # a process with the same number left it before a restart
        path.mkdir()
        return path

    def add(self, scratch: Path, key: str) -> None:
        """Seals a finished run and moves it to its place; an existing equal run takes precedence."""
        _seal(scratch, key)
        target = self.folder(key)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            scratch.rename(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            if not self.has(key):  # the stored run is damaged, for example by a power cut
                shutil.rmtree(target)
                scratch.rename(target)

    def clean(self) -> None:
        """Removes leftovers of killed processes of this machine."""
        if not self.scratch_root.is_dir():
            return
        for path in self.scratch_root.iterdir():
            host, _, rest = path.name.partition("+")
            number = rest.partition("+")[0]
            if host == HOST and number.isdigit() and not is_alive(int(number)):
                shutil.rmtree(path, ignore_errors=True)

    def place(self, key: str, target: Path) -> None:
        """Makes `target` the results folder of a run in the store, by adding missing files."""
        source = self.folder(key)
        target.mkdir(parents=True, exist_ok=True)
        (target / ERROR_FILE).unlink(missing_ok=True)
        names = sorted(path.name for path in source.iterdir() if path.name != MANIFEST)
        for name in [*names, MANIFEST]:
            link_file(source / name, target / name)


def is_whole(folder: Path, key: str) -> bool:
    """True if a folder has the complete run of this key; does not read its tables."""
    return flaw(folder, key, contents=False) is None


def flaw(folder: Path, key: str, *, contents: bool = True) -> str | None:
    """The fault of a folder as the complete run of this key, or None. `contents` compares the digest of each file."""
    text = read_object(folder / MANIFEST)
    if text is None:
        return f"{MANIFEST} is missing or damaged"
    if text.get("seal") != _digest_of_manifest(text):
        return f"{MANIFEST} is not what was written"
    manifest = cast("Manifest", text)  # this program wrote the sealed manifest
    if manifest.get("key") != key or manifest.get("status") not in FINISHED:
        return "it is another run"
    files = manifest.get("files", {})
    if SCENARIO_FILE not in files:
        return f"{MANIFEST} does not say what belongs to it"
    for name, sealed in files.items():
        if (damage := file_flaw(folder / name, sealed, contents=contents)) is not None:
            return f"{name} {damage}"
    return None


def file_flaw(path: Path, sealed: SealedFile | None, *, contents: bool = True) -> str | None:
    """The difference of a file from its sealed state, or None."""
    try:
        size = path.stat().st_size
        if sealed is None or size != sealed["bytes"] or (contents and digest_of(path) != sealed["sha256"]):
            return "is not what was written"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return None


def record_failure(
    target: Path, scenario: str, run: PlannedRun, message: str, plugins: Sequence[LoadedFile] = ()
) -> FailureEntry:
    """Writes `error.json` and the scenario into a run's folder; returns the content of `error.json`.

    The command of the entry names those of `plugins` that the scenario uses.
    """
    path = target / SCENARIO_FILE
    used = [one.path for one in plugins if any(f'"{name}"' in scenario for name in one.names)]
    options = [part for file in used for part in ("--plugin", file)]
    entry: FailureEntry = {
        "axes": dict(run.axes),
        "seed": run.seed,
        "key": run.key,
        "message": message,
        "command": shlex.join(["pauseframe", "run", str(path), *options]),
    }
    target.mkdir(parents=True, exist_ok=True)
    write_text(path, scenario)
    write_text(target / ERROR_FILE, json.dumps(entry, indent=2) + "\n")
    return entry


def forget_failure(folder: Path, path: str) -> None:
    """Removes the leftovers of a failed run that has now finished in a batch."""
    place = folder / path
    for name in (ERROR_FILE, SCENARIO_FILE):
        (place / name).unlink(missing_ok=True)
    with suppress(OSError):  # the folder has other files
        while place != folder:
            place.rmdir()
            place = place.parent


def read_failure(target: Path) -> FailureEntry | None:
    """The content of `error.json` in a run's folder; None if it is absent or damaged."""
    entry = read_object(target / ERROR_FILE)
    return (
        cast("FailureEntry", entry) if entry is not None and set(FailureEntry.__annotations__) <= set(entry) else None
    )


def sealed_files(folder: Path) -> dict[str, SealedFile]:
    """The files of a sealed folder by name; none if its manifest is missing or damaged."""
    manifest = read_object(folder / MANIFEST)
    return {} if manifest is None else cast("Manifest", manifest).get("files", {})


def _seal(folder: Path, key: str) -> None:
    manifest = read_object(folder / MANIFEST)
    if manifest is None or manifest.get("status") not in FINISHED:
        raise _core.RunError(f"{folder}: the run did not come to its end")
    paths = [path for path in sorted(folder.iterdir()) if path.name != MANIFEST]
    manifest["key"] = key
    manifest["files"] = {p.name: {"bytes": p.stat().st_size, "sha256": digest_of(p)} for p in paths}
    manifest["summary"]["out"] = None  # several sweeps may share the run
    manifest["seal"] = _digest_of_manifest(manifest)
    write_text(folder / MANIFEST, json.dumps(manifest, indent=2) + "\n")


def _digest_of_manifest(manifest: Mapping[str, object]) -> str:
    """A digest of the manifest's values without the seal, independent of their order and layout in the file."""
    text = json.dumps({name: value for name, value in manifest.items() if name != "seal"}, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()
