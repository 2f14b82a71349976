"""Where the runs of sweeps are kept, so that what was computed once is not computed again.

The store holds one folder a run, named by the run's key. A run is written beside it under a name of its own, marked
with its key and the size of each file, and renamed into place: a folder of the store is whole. A sweep's folder has
hard links to the files of its runs (copies where the file system has no links), the manifest last. Deleting the store
frees what no sweep refers to, and costs nothing else but the reuse.
"""

from __future__ import annotations

import errno
import itertools
import json
import os
import shlex
import shutil
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

from pauseframe import _core

STORE_NAME = ".pauseframe-store"
ERROR_FILE = "error.json"
SCENARIO_FILE = "scenario.resolved.toml"
MANIFEST = "manifest.json"
_numbers = itertools.count()


class Store:
    """Runs by key."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.scratch_root = root / "unfinished"

    def folder(self, key: str) -> Path:
        """Where the run of this key is, or would be."""
        return self.root / key[:2] / key

    def has(self, key: str) -> bool:
        """Whether the run is there and whole."""
        return is_whole(self.folder(key), key)

    def scratch(self) -> Path:
        """A new folder for a run that is about to begin."""
        self.scratch_root.mkdir(parents=True, exist_ok=True)
        path = self.scratch_root / f"{socket.gethostname()}+{os.getpid()}+{next(_numbers)}"
        shutil.rmtree(path, ignore_errors=True)  # of a process with the same number, before a restart
        path.mkdir()
        return path

    def add(self, scratch: Path, key: str) -> None:
        """Seals a finished run and puts it in its place; the same run that is there already wins."""
        _seal(scratch, key)
        target = self.folder(key)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            scratch.rename(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            if not self.has(key):  # damaged, by a power cut for example
                shutil.rmtree(target)
                scratch.rename(target)

    def clean(self) -> None:
        """Removes what processes of this machine left that were killed."""
        if not self.scratch_root.is_dir():
            return
        for path in self.scratch_root.iterdir():
            host, _, rest = path.name.partition("+")
            number = rest.partition("+")[0]
            if host == socket.gethostname() and number.isdigit() and not _is_alive(int(number)):
                shutil.rmtree(path, ignore_errors=True)

    def place(self, key: str, target: Path) -> None:
        """Makes `target` the results folder of a run in the store; does what is missing."""
        source = self.folder(key)
        target.mkdir(parents=True, exist_ok=True)
        (target / ERROR_FILE).unlink(missing_ok=True)
        names = sorted(path.name for path in source.iterdir() if path.name != MANIFEST)
        for name in [*names, MANIFEST]:
            _link(source / name, target / name)


def is_whole(folder: Path, key: str) -> bool:
    """Whether a folder has the complete run of this key, each file with its length."""
    manifest = read_json(folder / MANIFEST)
    if manifest is None or manifest.get("key") != key or manifest.get("status") != "complete":
        return False
    try:
        return all((folder / name).stat().st_size == size for name, size in manifest["files"].items())
    except OSError:
        return False


def record_failure(target: Path, scenario: str, about: dict[str, Any], message: str) -> dict[str, Any]:
    """Writes `error.json` and the scenario into a run's folder and returns what the former says."""
    path = target / SCENARIO_FILE
    entry = {**about, "message": message, "command": f"pauseframe run {shlex.quote(str(path))}"}
    target.mkdir(parents=True, exist_ok=True)
    write_text(path, scenario)
    write_text(target / ERROR_FILE, json.dumps(entry, indent=2) + "\n")
    return entry


def read_json(path: Path) -> dict[str, Any] | None:
    """A JSON object from a file; None if there is none or it is damaged."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def write_text(path: Path, text: str, *, sync: bool = False) -> None:
    """Writes a file that a process finds whole or not at all; with `sync` also after a power cut."""
    partial = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.partial")
    try:
        with partial.open("w", encoding="utf-8") as file:
            file.write(text)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def is_disk_full(error: BaseException | str) -> bool:
    """Whether there is no room left (or none that this user may have): no run can succeed."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    numbers = (errno.ENOSPC, errno.EDQUOT)
    return any(text in str(error) for number in numbers for text in (f"os error {number})", f"[Errno {number}]"))


def _seal(folder: Path, key: str) -> None:
    manifest = read_json(folder / MANIFEST)
    if manifest is None or manifest.get("status") != "complete":
        raise _core.RunError(f"{folder}: the run did not come to its end")
    manifest["key"] = key
    manifest["files"] = {p.name: p.stat().st_size for p in sorted(folder.iterdir()) if p.name != MANIFEST}
    manifest["summary"]["out"] = None  # several sweeps may have it
    write_text(folder / MANIFEST, json.dumps(manifest, indent=2) + "\n")


def _link(source: Path, target: Path) -> None:
    if target.exists():
        if target.samefile(source):
            return
        target.unlink()
    try:
        target.hardlink_to(source)
    except FileExistsError:  # another process was quicker
        return
    except OSError as error:
        if is_disk_full(error):
            raise
        partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
        try:
            shutil.copyfile(source, partial)
            partial.replace(target)
        finally:
            partial.unlink(missing_ok=True)


def _is_alive(process: int) -> bool:
    with suppress(OSError, IndexError):
        if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return False  # it was killed, and its parent has yet to ask after it
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
