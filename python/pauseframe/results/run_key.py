"""The key of a run: a digest of every input, so that no run is computed twice and none is taken for another."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

from pauseframe import _core

NT_GNU_BUILD_ID = rb"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0(.{20})"
"""Pattern of the build ID note in elf(5): lengths of name and contents, type, name, contents."""


def run_key(toml: str, seed: int, *more: str) -> str:
    """The digest of a resolved scenario, the seed, the version and the build of the core, and `more` inputs.

    A resolved scenario holds the texts or digests of all files that it reads, and the digests of its plug-ins.
    """
    text = "\n".join((_core.__version__, core_build(), str(seed), toml, *more))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


@cache
def core_build() -> str:
    """The digest of the compiled core, so that a changed simulator of the same version computes new results.

    The linker's build ID in an ELF file serves as the digest if it exists, because reading the whole library takes as
    long as thirty small runs.
    """
    path = Path(str(_core.__file__))
    with path.open("rb") as file:
        note = re.search(NT_GNU_BUILD_ID, file.read(1 << 16), re.DOTALL)
    return note[1].hex() if note else hashlib.sha256(path.read_bytes()).hexdigest()
