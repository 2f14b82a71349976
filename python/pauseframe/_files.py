"""Files that appear whole or not at all."""

from __future__ import annotations

import os
import secrets
import socket
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDING = "partial"


def write_text(path: Path, text: str, *, sync: bool = False) -> Path:
    """Writes a file that a reader finds whole or not at all, and returns its path; with `sync` also after a power cut.

    The text goes to a new file beside it, under a name that nobody can have prepared, and is renamed: a symbolic link
    that stands in the place is replaced, not followed. What earlier processes left that were killed is removed.
    Devices and pipes, such as /dev/stdout, are written to as they are.
    """
    return write_bytes(path, text.encode(), sync=sync)


def write_bytes(path: Path, content: bytes, *, sync: bool = False) -> Path:
    """The same for bytes."""
    if _is_no_file(path):
        path.write_bytes(content)
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path)
    partial = _partial(path)
    try:
        with partial.open("xb") as file:  # O_EXCL: not if anything has the name, a link neither
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        return partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """The path of a new file that takes the place of `path` at the end, if all goes well. Its writer syncs it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path)
    partial = _partial(path)
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _partial(path: Path) -> Path:
    return path.with_name(f".{path.name}.{socket.gethostname()}+{os.getpid()}+{secrets.token_hex(4)}.{ENDING}")


def remove_leftovers(path: Path) -> None:
    """Removes unfinished versions of a file whose process, on this machine, is gone."""
    begin = f".{path.name}.{socket.gethostname()}+"
    with suppress(OSError):  # of others
        for other in path.parent.iterdir():
            if other.name.startswith(begin) and other.suffix == f".{ENDING}":
                number = other.name.removeprefix(begin).partition("+")[0]
                if number.isdigit() and not is_alive(int(number)):
                    other.unlink(missing_ok=True)


def _is_no_file(path: Path) -> bool:
    if path.absolute().parts[1:2] in (("dev",), ("proc",)):
        return True  # /dev/stdout may lead to a file: what is to be replaced is not the link
    return path.exists() and not path.is_file() and not path.is_dir()


def is_alive(process: int) -> bool:
    """Whether a process of this machine is there and not merely waiting to be asked after."""
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
