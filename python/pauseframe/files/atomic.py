"""Atomic writes of files and folders: a reader sees the old content or the new content, never a part.

Every command writes through this module: a temporary file in the same folder, fsync, rename. Its errors name the file,
the operation and what is left.
"""

from __future__ import annotations

import errno
import json
import os
import re
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pauseframe._core import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDING = "partial"
PAGES = {".html", ".htm"}
"""Endings of the names of web pages."""
MEANWHILE = (
    "exists: another process has written it meanwhile; name another one, or overwrite it with --force "
    "(in Python: force=True)"
)
HOST = os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")
"""Name of this machine, without the module `socket`, which loads more slowly than a system call."""


def page_path(out: str | Path) -> Path:
    """The path of a web page to write. Raises InputError for a folder, or a name with another ending."""
    path = Path(out)
    if path.is_dir():
        raise InputError(f"{path} is a folder: name a file, such as {path / 'page.html'}")
    if path.suffix.lower() not in PAGES:
        raise InputError(f"{path}: pages are HTML: name a file that ends with .html")
    return path


def write_text(path: Path, text: str, *, replace: bool = True) -> Path:
    """Writes a file atomically and returns its path.

    Writes a temporary file with an unpredictable name in the same folder, then renames it. A symbolic link at `path` is
    replaced, not followed. Removes temporary files of killed processes. Writes to devices and pipes, such as
    /dev/stdout, directly. Without `replace`, raises InputError if another process was quicker.
    """
    return write_bytes(path, text.encode(), replace=replace)


def write_bytes(path: Path, content: bytes, *, replace: bool = True) -> Path:
    """Writes bytes as `write_text` writes text."""
    if _is_no_file(path):
        path.write_bytes(content)
        return path
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder: name a file in it", str(path))
    # O_EXCL: fails if the name exists, even as a symbolic link
    with whole_file(path, replace=replace) as partial, partial.open("xb") as file:
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
        message = f"cannot be written: {root.strerror or _first_reason(root)}; {left}"
        raise OSError(root.errno or errno.EIO, message, str(path)) from root


def _first_reason(error: OSError) -> str:
    """The reason of an error without one; `shutil.Error` lists all files that could not be copied, as texts."""
    rows = error.args[0] if error.args else ""
    if not isinstance(rows, list) or not rows:
        return str(error)
    return re.sub(r"^\[Errno \d+\] |: '.*", "", str(rows[0][-1]), flags=re.DOTALL)


def _sync(path: Path) -> None:
    """Flushes a file, or the entries of a folder, to the disk."""
    if path.is_dir() and os.name != "posix":
        return
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def has_text(path: Path, text: str) -> bool:
    """True if a file has this text already: a command that is run again has nothing to write."""
    try:
        return path.read_bytes() == text.encode()
    except OSError:
        return False


def refuse_file(folder: str | Path) -> None:
    """Raises NotADirectoryError where a folder is to be written and a file stands."""
    if Path(folder).is_file():
        raise NotADirectoryError(errno.ENOTDIR, "is a file: name a folder for the results", str(folder))


@contextmanager
def whole_file(path: Path, *, replace: bool = True) -> Iterator[Path]:
    """Yields a new file that gets the name `path` if the caller succeeds; what is there only with `replace`."""
    with _naming(path, "file"):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = _partial_of(path)
        try:
            yield partial
            _sync(partial)
            _place(partial, path, replace)
            _sync(path.parent)
        finally:
            with suppress(OSError):  # the next writer removes it
                partial.unlink(missing_ok=True)


@contextmanager
def whole_folder(folder: Path, *, replace: bool = False) -> Iterator[Path]:
    """A new folder that gets the name `folder` at the end. If the caller fails, `folder` stays as it was.

    Without `replace`, raises InputError if another process has filled `folder` meanwhile.
    """
    refuse_file(folder)
    with _naming(folder, "folder"):
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _new_folder(folder) as partial:
            yield partial
            for path in (*partial.rglob("*"), partial):
                _sync(path)
            _swap(partial, folder, replace)
            _sync(folder.parent)


@contextmanager
def added_files(folder: Path) -> Iterator[Path]:
    """A new folder whose files are added to `folder` at the end. If the caller fails, `folder` stays as it was.

    Another process that adds files waits.
    """
    import shutil

    folder.parent.mkdir(parents=True, exist_ok=True)
    with _waiting(folder.parent), whole_folder(folder, replace=True) as partial:
        yield partial
        if folder.is_dir():
            for path in folder.iterdir():
                copy = partial / path.name
                if path.is_dir() and not path.is_symlink():
                    shutil.copytree(path, copy, symlinks=True, copy_function=_link, dirs_exist_ok=True)
                elif not copy.exists():
                    _link(path, copy)


@contextmanager
def _waiting(folder: Path) -> Iterator[None]:
    """Waits until no other process is here for the same folder (flock(2)); the lock ends with its process."""
    try:
        import fcntl

        number = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):  # Windows, or a folder that only its owner reads
        yield
        return
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(number, fcntl.LOCK_EX)
        yield
    finally:
        os.close(number)


def _place(partial: Path, path: Path, replace: bool) -> None:
    """Gives a file the name `path`; without `replace`, only if the name is free."""
    if not replace:
        try:
            if _renamed(partial, path, NO_REPLACE):
                return
            is_free = not path.exists()
        except FileExistsError:
            is_free = False
        if not is_free:
            raise InputError(f"{path} {MEANWHILE}")
    partial.replace(path)


def _link(path: str | Path, copy: str | Path) -> None:
    """Makes `copy` the same file as `path`, or a copy of it on a file system without links."""
    import shutil

    try:
        os.link(path, copy, follow_symlinks=False)
    except FileExistsError:
        return  # a newer one
    except OSError:
        shutil.copy2(path, copy, follow_symlinks=False)


def _partial_of(path: Path) -> Path:
    """The name of a new temporary version of a file or folder; removes those of killed processes."""
    remove_leftovers(path)
    return path.with_name(f".{path.name}.{HOST}+{os.getpid()}+{os.urandom(4).hex()}.{ENDING}")


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """A temporary folder beside `folder`, which is gone at the end unless the caller renamed it."""
    import shutil

    partial = _partial_of(folder)
    try:
        partial.mkdir(mode=0o755)
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _swap(new: Path, place: Path, replace: bool) -> None:
    """Gives `new` the name `place`; a folder that was there has the name `new` then."""
    if not replace or not place.exists():
        try:
            new.rename(place)  # fails if it is a folder with files (rename(2))
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise InputError(f"{place} {MEANWHILE}") from None
            raise
        return
    if _renamed(new, place, EXCHANGE):
        return
    old = _partial_of(place)
    place.rename(old)
    try:
        new.rename(place)
    except OSError:
        old.rename(place)
        raise
    old.rename(new)


NO_REPLACE, EXCHANGE = 1, 2
"""Flags of renameat2(2): the new name must be free; both names change places."""


def _renamed(path: Path, name: Path, flag: int) -> bool:
    """Renames a file or folder in one step, with a flag; False if the system or its file system does not know it."""
    import ctypes

    here = -100  # AT_FDCWD
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if os.name == "posix" else None
    if rename is None:
        return False
    if rename(here, os.fsencode(path), here, os.fsencode(name), flag) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), str(name))


def remove_leftovers(path: Path) -> None:
    """Removes temporary versions of a file or folder whose process on this machine has ended."""
    import shutil

    begin = f".{path.name}.{HOST}+"
    with suppress(OSError):  # another user may own the folder or its files
        for other in path.parent.iterdir():
            if other.name.startswith(begin) and other.suffix == f".{ENDING}":
                number = other.name.removeprefix(begin).partition("+")[0]
                if number.isdigit() and not is_alive(int(number)):
                    shutil.rmtree(other) if other.is_dir() else other.unlink(missing_ok=True)


def _is_no_file(path: Path) -> bool:
    if path.absolute().parts[1:2] in (("dev",), ("proc",)):
        return True  # /dev/stdout may link to a file: the link must not be replaced
    return path.exists() and not path.is_file() and not path.is_dir()


def read_object(path: Path) -> dict[str, Any] | None:
    """A JSON object from a file; None if it is absent or damaged."""
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
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


def is_disk_full(error: BaseException | str) -> bool:
    """True if the disk (or the user's quota) is full, so that no run can succeed."""
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    numbers = (errno.ENOSPC, errno.EDQUOT)
    return any(text in str(error) for number in numbers for text in (f"os error {number})", f"[Errno {number}]"))


def link_file(source: Path, target: Path) -> None:
    """Makes `target` a hard link to a file, or a copy if the file system has no links."""
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
        import shutil

        with whole_file(target) as partial:
            shutil.copyfile(source, partial)
