"""Bounded reads of files that a user names, and of TOML: size, encoding and nesting are checked before use.

The core applies the same limits (`units/src/limits.rs`). The environment variable PAUSEFRAME_LIMITS changes them, and
the option `--limit` sets it.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from pauseframe import _core

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

VARIABLE = "PAUSEFRAME_LIMITS"
DEEPEST = 80
"""Maximum depth of tables and arrays in TOML, as in the core."""


def read_bytes(path: Path, *, share: int = 1) -> bytes:
    """The content of a file, of at most the limit of bytes divided by `share`; InputError if it is longer."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size  # 0 for a device or a pipe
        if size > (limit := _core.limit("bytes") // share):
            option = f"pauseframe --limit bytes={size * share} raises it"
            raise _core.InputError(f"{path}: {size} bytes are more than the limit of {limit}: {option}")
        return _read(file, path, share=share)


def read_standard_input() -> bytes:
    """The content of standard input; InputError if it is closed, cannot be read, or is longer than `read_bytes` reads.

    cron and service managers start commands without a standard input.
    """
    if sys.stdin is None:
        raise _core.InputError("standard input is closed: name a file, or redirect one to it")
    try:
        return _read(sys.stdin.buffer, "standard input")
    except OSError as error:
        raise _core.InputError(f"standard input cannot be read: {error.strerror or error}") from None


def _read(file: BinaryIO, name: object, *, share: int = 1) -> bytes:
    """The rest of an open file that messages call `name`, within the limit of `read_bytes`."""
    limit = _core.limit("bytes") // share
    content = file.read(limit + 1)
    if len(content) > limit:
        option = "pauseframe --limit bytes=NUMBER raises it"
        raise _core.InputError(f"{name}: more than the limit of {limit} bytes: {option}")
    return content


def read_text(path: Path, *, share: int = 1) -> str:
    """The UTF-8 text of a file; InputError if it is longer than `read_bytes` reads, or no text."""
    content = read_bytes(path, share=share)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _core.InputError(f"{path}: byte {error.start} is not UTF-8: name a text file") from None


def parse_toml(text: str) -> dict[str, Any]:
    """A TOML 1.1 document, as the core reads it; ValueError if it is not TOML or is nested deeper than DEEPEST."""
    import tomli  # Python's own reader refuses what TOML 1.1 added, such as a comma before }

    too_deep = f"nested deeper than {DEEPEST} levels"
    try:
        document = tomli.loads(text)
    except RecursionError:
        raise ValueError(too_deep) from None
    level: list[Any] = [document]
    for _ in range(DEEPEST):
        level = [item for value in level for item in _items(value)]
        if not level:
            return document
    raise ValueError(too_deep)


def _items(value: object) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []
