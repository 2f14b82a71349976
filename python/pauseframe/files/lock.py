"""A lock on a folder that ends with its holder: the system releases it when the process ends, however it ends."""

from __future__ import annotations

import os
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from pauseframe._core import InputError
from pauseframe.files.atomic import HOST
from pauseframe.terminal.text import printable

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import TextIO

LOCK = ".lock"


@contextmanager
def locked(folder: Path, *, shared: bool = False) -> Iterator[None]:
    """Holds the lock of a folder (flock(2)); several holders may have it `shared`, such as the shards of a search.

    Raises InputError that names the holder if another process has it.
    """
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with _held(folder, shared=shared):
            yield
    except BaseException:
        # Nothing but the lock: nothing was begun.
        if is_new and [entry.name for entry in folder.iterdir()] == [LOCK]:
            (folder / LOCK).unlink()
            folder.rmdir()
        raise


@contextmanager
def _held(folder: Path, *, shared: bool) -> Iterator[None]:
    path = folder / LOCK
    while True:
        with path.open("a+", encoding="utf-8") as file:
            if fcntl is not None:
                try:
                    fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
                except BlockingIOError:
                    text = f"{folder} is in use by {_holder(file)}: wait until it ends, or choose another --out"
                    raise InputError(text) from None
                if not _is_in_place(file.fileno(), path):
                    continue  # its holder removed it before this process had the lock
            with suppress(OSError):  # the name of the holder is for people
                os.ftruncate(file.fileno(), 0)
                os.write(file.fileno(), f"process {os.getpid()} on {HOST}\n".encode())
            yield
            return


def holder_of(folder: Path) -> str | None:
    """The process that holds the lock of a folder, as the core or `locked` wrote it, or None; leaves no file."""
    try:
        with (folder / LOCK).open(encoding="utf-8", errors="replace") as file:
            try:
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return _holder(file)
    except OSError:  # no lock, or a file system without locks
        return None
    return None


def _holder(file: TextIO) -> str:
    file.seek(0)
    return printable(file.read(300).strip(), "") or "another process"


def _is_in_place(number: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(number), path.stat())
    except FileNotFoundError:
        return False
