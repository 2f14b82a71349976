"""Atomic writes of files and folders: a reader sees the old content or the new content, never a part.

Every command writes through this module: a temporary file in the same folder, fsync, rename. Its errors name the file,
the operation and what is left.
"""

from __future__ import annotations

import errno
import json
import os
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDING = "partial"
HOST = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")
"""Name of this machine, without the module `socket`, which loads more slowly than a system call."""


def write_text(path: Path, text: str) -> Path:
    """Writes a file atomically and returns its path.

    Writes a temporary file with an unpredictable name in the same folder, then renames it. A symbolic link at `path` is
    replaced, not followed. Removes temporary files of killed processes. Writes to devices and pipes, such as
    /dev/stdout, directly.
    """
    return write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> Path:
    """Writes bytes as `write_text` writes text."""
    if _is_no_file(path):
        path.write_bytes(content)
        return path
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder: name a file in it", str(path))
    # O_EXCL: fails if the name exists, even as a symbolic link
    with whole_file(path) as partial, partial.open("xb") as file:
        file.write(content)
    return path


@contextmanager
def _naming(path: Path, what: str) -> Iterator[None]:
    """Names `path` in an error of the system, and what is left there; `what` is "file" or "folder"."""
    was_there = path.exists()
    try:
        yield
    except OSError as error:
        left = f"the {what} that was there is unchanged" if was_there else "nothing is left"
        root = error.__cause__ if isinstance(error.__cause__, OSError) else error  # that of a file in this folder
        message = f"cannot be written: {root.strerror or root}; {left}"
        raise OSError(root.errno or errno.EIO, message, str(path)) from root


def _sync(path: Path) -> None:
    """Flushes a file, or the entries of a folder, to the disk."""
    if path.is_dir() and os.name != "posix":
        return
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def refuse_file(folder: str | Path) -> None:
    """Raises NotADirectoryError where a folder is to be written and a file stands."""
    if Path(folder).is_file():
        raise NotADirectoryError(errno.ENOTDIR, "is a file: name a folder for the results", str(folder))


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yields a new file that replaces `path` if the caller succeeds."""
    with _naming(path, "file"):
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(path)
        partial = path.with_name(f".{path.name}.{HOST}+{os.getpid()}+{os.urandom(4).hex()}.{ENDING}")
        try:
            yield partial
            _sync(partial)
            partial.replace(path)
            _sync(path.parent)
        finally:
            partial.unlink(missing_ok=True)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A new folder that replaces `folder` at the end. If the caller fails, `folder` stays as it was."""
    with _naming(folder, "folder"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _new_folder(folder) as partial:
            yield partial
            for path in (*partial.rglob("*"), partial):
                _sync(path)
            _swap(partial, folder)
            _sync(folder.parent)


@contextmanager
def added_files(folder: Path, mark: str) -> Iterator[Path]:
    """A new folder whose files move to `folder` at the end, the file `mark` last. If the caller fails, none does."""
    if not folder.exists():
        with whole_folder(folder) as partial:
            yield partial
        return
    with _naming(folder, "folder"), _new_folder(folder) as partial:
        yield partial
        for path in (*partial.iterdir(), partial):
            _sync(path)
        for path in sorted(partial.iterdir(), key=lambda path: path.name == mark):
            path.replace(folder / path.name)
        _sync(folder)


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder beside `folder`, which is gone at the end unless the caller renamed it."""
    import shutil
    import tempfile

    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=f".{ENDING}", dir=folder.parent))
    try:
        partial.chmod(0o755)
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _swap(new: Path, place: Path) -> None:
    """Renames `new` to `place`, and removes the folder that was there before."""
    import shutil
    import tempfile

    if not place.exists():
        new.rename(place)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{place.name}.", suffix=f".{ENDING}", dir=place.parent))
    place.rename(old)  # POSIX allows a rename onto an empty folder
    try:
        new.rename(place)
    except OSError:
        old.rename(place)
        raise
    shutil.rmtree(old)


def remove_leftovers(path: Path) -> None:
    """Removes temporary versions of a file whose process on this machine has ended."""
    begin = f".{path.name}.{HOST}+"
    with suppress(OSError):  # another user may own the folder or its files
        for other in path.parent.iterdir():
            if other.name.startswith(begin) and other.suffix == f".{ENDING}":
                number = other.name.removeprefix(begin).partition("+")[0]
                if number.isdigit() and not is_alive(int(number)):
                    other.unlink(missing_ok=True)


def _is_no_file(path: Path) -> bool:
    if path.absolute().parts[1:2] in (("dev",), ("proc",)):
        return True  # /dev/stdout may link to a file: the link must not be replaced
    return path.exists() and not path.is_file() and not path.is_dir()


def read_object(path: Path) -> dict[str, Any] | None:
    """A JSON object from a file; None if it is absent or damaged."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def is_alive(process: int) -> bool:
    """True if a process of this machine runs; a zombie process counts as ended."""
    with suppress(OSError, IndexError):
        if Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            return False  # a zombie process, for which its parent has not waited yet
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
