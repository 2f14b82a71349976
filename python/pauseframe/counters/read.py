"""Reads files of counters. The content decides what a file is; its path, or a shell prompt in it, the device."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pauseframe.counters import hosts, sonic
from pauseframe.counters.model import Counted
from pauseframe.devices.files import DeviceFileError, parse_json, read_text, shown
from pauseframe.files.kinds import kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

MOST_FILES = 20_000
WANTED = (
    "show pfc counters, show queue counters, show queue wredcounters, show priority-group watermark, show interfaces "
    "counters (SONiC), ethtool -S, nstat, ss -toi"
)
_PROMPT = re.compile(r"(?:[\w.-]+@)([\w.-]+):[^#$]*[#$]\s+(?:sudo\s+)?(.*)")
SUFFIXES = {".txt", ".json", ".log", ".out", ""}


def read_counters(paths: Sequence[Path]) -> Counted:
    """Reads files, and searches folders for them. Raises DeviceFileError if none has counters."""
    counted, files = Counted(), []
    for path in paths:
        if not path.exists():
            raise DeviceFileError(f"{shown(path)}: there is no such file or folder")
        kind = kind_of(path)
        if kind is not None and kind.key != "device":
            advice = f"compare with it by --run {path}, or print it by --as sonic" if kind.key == "run" else WANTED
            raise DeviceFileError(f"{shown(path)} is {kind.name}, not counters: {shown(advice)}")
        for file in [path] if path.is_file() else _below(path):
            _read_file(file, counted)
            files.append(file if file == path else file.relative_to(path))
    counted.devices = {name: device for name, device in counted.devices.items() if device.tools or device.ports}
    if not counted.devices:
        raise DeviceFileError(
            f"{shown(', '.join(map(str, paths)))}: no counters{_in_files(files)}: give the output of {WANTED}"
        )
    return counted


NAMED = 3
"""Number of files that a message names."""


def _in_files(files: Sequence[Path]) -> str:
    """Which files were read, where none has counters."""
    if not files:
        return f" (no file ends in {', '.join(sorted(SUFFIXES - {''}))})"
    more = f" and {len(files) - NAMED} more" if len(files) > NAMED else ""
    return f" in {', '.join(shown(file) for file in files[:NAMED])}{more}"


def _below(folder: Path) -> Iterator[Path]:
    found = 0
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and path.suffix.lower() in SUFFIXES:
            found += 1
            if found > MOST_FILES:
                raise DeviceFileError(f"{shown(folder)}: more than {MOST_FILES} files: name the ones to read")
            yield path


def _names(path: Path) -> tuple[str, str]:
    """Device and interface by a path: leaf0/pfc.txt, leaf0.pfc.txt, server0/ethtool-eth0.txt."""
    stem = path.name.removesuffix(path.suffix)
    device, dot, rest = stem.partition(".")
    what = rest if dot else stem
    interface = what.rpartition("-")[2] if "-" in what else what
    return (device if dot else path.resolve().parent.name), interface


def _read_file(path: Path, counted: Counted) -> None:
    text = read_text(path)
    name, interface = _names(path)
    if text.lstrip().startswith(("{", "[")) and path.suffix == ".json":
        value = parse_json(text, str(path))
        device = counted.device(name)
        if not (sonic.read_json(value, path.stem, device) or hosts.read_json(value, device)):
            hint = "; name a watermark of groups after headroom or shared" if '"PG' in text else ""
            counted.notes.append(f"{shown(path)}: not read: no counters that are known{hint}")
            return
        counted.files += 1
        return
    found = False
    for owner, port, lines in _parts(text.splitlines(), name, interface):
        device = counted.device(owner)
        found |= sonic.read_text(lines, device) | hosts.read_text(lines, device, port)
    counted.files += found
    if not found:
        counted.notes.append(f"{shown(path)}: not read: no output of {WANTED}")


def _parts(lines: list[str], name: str, interface: str) -> Iterator[tuple[str, str, list[str]]]:
    """The parts of a text between shell prompts: device, interface, lines."""
    part: list[str] = []
    for line in lines:
        prompt = _PROMPT.match(line)
        if prompt is None:
            part.append(line)
            continue
        if part:
            yield name, interface, part
        name, part = prompt[1], []
        words = prompt[2].split()
        if words[:2] == ["ethtool", "-S"] and len(words) > 2:
            interface = words[2]
    if part:
        yield name, interface, part
