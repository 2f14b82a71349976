"""Libraries of the user's own that a shared library links (ELF, System V ABI chapter 5)."""

from __future__ import annotations

import re
import struct
import sys
from pathlib import Path

SYSTEM = ("/lib", "/lib64", "/usr", "/nix", sys.prefix, sys.base_prefix)
"""Folders of libraries that come with the system or with Python."""
PT_LOAD, PT_DYNAMIC = 1, 2
DT_NEEDED, DT_STRTAB, DT_SONAME = 1, 5, 14


def own_libraries(path: Path) -> list[Path]:
    """The libraries outside of the system that a loaded library needs, those first that others need."""
    found: list[Path] = []
    mapped = {name: one for one in _mapped() for name in (one.name, *_names(one, DT_SONAME))}

    def add(library: Path) -> None:
        for name in _names(library, DT_NEEDED):
            needed = mapped.get(Path(name).name)
            if needed is not None and needed not in found and needed != path.resolve():
                add(needed)
                if needed not in found:
                    found.append(needed)

    add(path)
    return found


def _mapped() -> list[Path]:
    """The files of libraries of the user's own in this process; none where /proc does not list them."""
    try:
        text = Path("/proc/self/maps").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return []
    paths = dict.fromkeys(re.findall(r"r-xp .*? (/.+?)(?: \(deleted\))?$", text, re.MULTILINE))
    found = [Path(one) for one in paths]
    return [one for one in found if not any(one.is_relative_to(folder) for folder in SYSTEM)]


def _names(path: Path, tag: int) -> list[str]:
    """The strings with a tag in the dynamic section of a 64-bit little-endian ELF file; none of another file."""
    try:
        data = path.read_bytes()
        return _tagged(data, tag) if data[:6] == b"\x7fELF\x02\x01" else []
    except (OSError, struct.error, ValueError):
        return []


def _tagged(data: bytes, tag: int) -> list[str]:
    (at,), (size, count) = struct.unpack_from("<Q", data, 32), struct.unpack_from("<HH", data, 54)
    segments = [struct.unpack_from("<IIQQQQQQ", data, at + number * size) for number in range(count)]
    loads = [(offset, address, length) for kind, _, offset, address, _, length, *_ in segments if kind == PT_LOAD]
    entries = [
        struct.unpack_from("<qQ", data, place)
        for kind, _, offset, _, _, length, *_ in segments
        if kind == PT_DYNAMIC
        for place in range(offset, offset + length, 16)
    ]
    table = next((value for kind, value in entries if kind == DT_STRTAB), None)
    if table is None:
        return []
    inside = [offset + table - address for offset, address, length in loads if address <= table < address + length]
    base = inside[0] if inside else 0
    return [data[base + value : data.index(b"\0", base + value)].decode() for kind, value in entries if kind == tag]
