"""Which folder results go to, so that no command overwrites another's, and which results are the last ones."""

from __future__ import annotations

import glob
import hashlib
import itertools
import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pauseframe._core import InputError
from pauseframe.files.atomic import read_object, write_text
from pauseframe.files.kinds import FLOW_LEVEL, MANIFEST
from pauseframe.results.folder import FINISHED, PROGRAM
from pauseframe.terminal.standard import write_note

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

RESULTS = Path("results")
EXPERIMENTS = Path(__file__).parent.parent / "experiments"
"""Folder of the experiments that the package ships."""
SWEEP = "sweep.json"
LABEL_LENGTH = 80
"""Maximum length of what names the settings of a run in its folder's name; common file systems allow 255."""


def place(name: str, settings: Sequence[str], key: str, *, force: bool = False) -> Path:
    """The folder of a run whose command names none.

    A folder that has results of the same inputs; else results/NAME with the settings, or with a number if that folder
    has results of other inputs (unless `force`, which replaces them).
    """
    wanted = RESULTS / "-".join([name, *([label(settings)] if settings else [])])
    here = [wanted, *sorted(RESULTS.glob(f"{glob.escape(name)}*"))]
    same = next((folder for folder in here if has_key(folder, key)), None)
    return same or (wanted if force else first_that(wanted, is_free))


def first_that(wanted: Path, fits: Callable[[Path], bool]) -> Path:
    """The first of `wanted`, `wanted`-run2, `wanted`-run3 ... that fits."""
    numbered = (wanted.with_name(f"{wanted.name}-run{number}") for number in itertools.count(2))
    return next(folder for folder in itertools.chain([wanted], numbered) if fits(folder))


def label(settings: Sequence[str]) -> str:
    """Settings (PATH=VALUE) as a part of a folder's name: "preset=dctcp-xoff=96KB". Long labels end in a digest."""
    pairs = [item.partition("=") for item in settings]
    short = [f"{path.strip().rpartition('.')[2]}={value.replace('*', 'all')}" for path, _, value in pairs]
    text = "-".join(re.sub(r"[^A-Za-z0-9_.,+=-]", "", item) for item in short)
    if len(text) <= LABEL_LENGTH:
        return text
    return f"{text[: LABEL_LENGTH - 9]}~{hashlib.sha256(' '.join(settings).encode()).hexdigest()[:8]}"


def is_free(folder: Path) -> bool:
    """True if a run may write to a folder: it does not exist, it is empty, or it holds a run that did not end."""
    if not folder.is_dir():
        return not folder.exists()
    return is_abandoned(folder) or all(entry.name[0] == "." for entry in folder.iterdir())


def is_abandoned(folder: Path) -> bool:
    """True for a results folder whose run failed or was killed, or runs now: the core's lock tells these apart."""
    manifest = read_object(folder / MANIFEST) or {}
    return manifest.get("program") == PROGRAM and manifest.get("status") in {"running", "failed"}


def may_replace(folder: Path, key: str) -> bool:
    """True for a run that was killed, and for a part of a run of the same inputs; writes a note about the latter."""
    if has_key(folder, key) and not is_whole(folder, key):
        write_note(f"note: {folder} has an interrupted or damaged run of these inputs, which is replaced")
        return True
    return is_abandoned(folder)


def has_key(folder: Path, key: str) -> bool:
    """True if a folder holds a run of these inputs, whole or not."""
    return (read_object(folder / MANIFEST) or {}).get("key") == key


def is_whole(folder: Path, key: str) -> bool:
    """True if a folder has all results of these inputs; does not read its tables."""
    manifest = read_object(folder / MANIFEST) or {}
    if manifest.get("key") != key or manifest.get("status") not in FINISHED:
        return False
    sizes = {name: seal["bytes"] for name, seal in manifest.get("files", {}).items()}
    return all(_size(folder / name) == size for name, size in sizes.items())


def summary_of(folder: Path) -> Any:
    """The summary in the manifest of a whole run."""
    return (read_object(folder / MANIFEST) or {})["summary"]


def keep_inputs(folder: Path, key: str, given: list[str], summary: Mapping[str, Any]) -> None:
    """Writes the key and the given keys of a run into its manifest, unless another process has replaced the run."""
    import json

    from pauseframe.files.lock import LOCK, locked

    with suppress(InputError), locked(folder):
        manifest = read_object(folder / MANIFEST) or {}
        if (manifest.get("summary") or {}).get("wall_s") == summary["wall_s"]:
            write_text(folder / MANIFEST, json.dumps(manifest | {"key": key, "given": given}, indent=2) + "\n")
        (folder / LOCK).unlink()


def mark_failed(folder: Path, why: str) -> None:
    """Writes into the manifest of a run that has begun why it failed."""
    import json

    from pauseframe.files.lock import LOCK, locked

    with suppress(InputError, OSError), locked(folder):
        manifest = read_object(folder / MANIFEST) or {}
        if manifest.get("program") == PROGRAM and manifest.get("status") == "running":
            write_text(folder / MANIFEST, json.dumps(manifest | {"status": "failed", "why": why}, indent=2) + "\n")
        (folder / LOCK).unlink()


def last(count: int, *, sweeps: bool = True) -> list[Path]:
    """The last runs (and sweeps) in this folder and up to two folders below, the oldest first.

    A run is as old as its manifest, which a command that finds the results in place touches. Raises InputError if
    there are fewer than `count`.
    """
    found = sorted(results(sweeps), key=lambda pair: pair[0])
    if len(found) < count:
        what = "no results" if not found else f"only {len(found)} results"
        raise InputError(f"{what} in this folder and up to two folders below: name them, or run a scenario first")
    return [folder for _, folder in found[-count:]]


def touched(folder: Path) -> Path:
    """Makes a run the last one, and returns its folder."""
    (folder / MANIFEST).touch()
    return folder


def results(sweeps: bool) -> Iterator[tuple[int, Path]]:
    """Runs (and sweeps) in this folder and up to two folders below, with the times of their manifests."""
    for pattern in (f"*/{MANIFEST}", f"*/*/{MANIFEST}", *((f"*/{SWEEP}", f"*/*/{SWEEP}") if sweeps else ())):
        for file in Path().glob(pattern):
            manifest = read_object(file) or {}
            is_run = file.name == MANIFEST and manifest.get("kind") != FLOW_LEVEL and not _is_of_sweep(file.parent)
            if str(manifest.get("program")).startswith(PROGRAM) and (is_run or file.name == SWEEP):
                yield file.stat().st_mtime_ns, file.parent


def _is_of_sweep(folder: Path) -> bool:
    return (folder.parent / SWEEP).is_file()


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return -1
