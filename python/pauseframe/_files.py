"""Atomic writes of files and folders: a reader sees the old content or the new content, never a part."""

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


def write_text(path: Path, text: str, *, sync: bool = False) -> Path:
    """Writes a file atomically and returns its path. With `sync`, the file also survives a power failure.

    Writes a temporary file with an unpredictable name in the same folder, then renames it. A symbolic link at `path` is
    replaced, not followed. Removes temporary files of killed processes. Writes to devices and pipes, such as
    /dev/stdout, directly.
    """
    return write_bytes(path, text.encode(), sync=sync)


def write_bytes(path: Path, content: bytes, *, sync: bool = False) -> Path:
    """Writes bytes as `write_text` writes text."""
    if _is_no_file(path):
        path.write_bytes(content)
        return path
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder: name a file in it", str(path))
    # O_EXCL: fails if the name exists, even as a symbolic link
    with whole_file(path) as partial, partial.open("xb") as file:
        file.write(content)
        if sync:
            file.flush()
            os.fsync(file.fileno())
    return path


def refuse_file(folder: str | Path) -> None:
    """Raises NotADirectoryError where a folder is to be written and a file stands."""
    if Path(folder).is_file():
        raise NotADirectoryError(errno.ENOTDIR, "is a file: name a folder for the results", str(folder))


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yields a new file that replaces `path` if the caller succeeds; the caller syncs the file if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path)
    partial = path.with_name(f".{path.name}.{HOST}+{os.getpid()}+{os.urandom(4).hex()}.{ENDING}")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A new folder that replaces `folder` at the end. If the caller fails, `folder` stays as it was."""
    import shutil
    import tempfile

    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=f".{ENDING}", dir=folder.parent))
    try:
        yield partial
        partial.chmod(0o755)
        _swap(partial, folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


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
